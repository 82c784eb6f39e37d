//! Power and utilisation of the devices, on the time axis of the memory chart.

use super::start::{Start, seconds};
use crate::report::plot::{Axis, Colour, Layer, Panel, reduced};
use crate::telemetry::{ActivitySample, DeviceActivity};
use crate::unit::Unit;

/// With more devices than this, their mean utilisation is drawn.
const MAX_DEVICE_LINES: usize = 4;

/// The panel; none if no driver reported anything.
pub(super) fn panel(start: &Start, end: f64, columns: usize) -> Option<Panel> {
    let devices = &start.devices;
    let power = |doing: &DeviceActivity| doing.power_w;
    let busy = |doing: &DeviceActivity| doing.busy_percent;
    let several = devices.len() > 1;
    let named = |what: &str, label: &str| {
        if several {
            format!("{what}, {label}")
        } else {
            what.to_owned()
        }
    };
    let mut layers = Vec::new();
    for (device, index) in devices.iter().zip(0_u8..) {
        let drawn = points(&start.moments, columns, |moment| of(moment, &device.id, power));
        layers.extend(line(named("power", &device.label), drawn, Colour::Series(index), false));
    }
    let has_power = !layers.is_empty();
    if devices.len() > MAX_DEVICE_LINES {
        let mean = |moment: &ActivitySample| {
            let known: Vec<f64> = moment.devices.iter().filter_map(busy).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        let drawn = points(&start.moments, columns, mean);
        layers.extend(line("busy, mean of all".to_owned(), drawn, Colour::Quiet, has_power));
    } else {
        for (device, index) in devices.iter().zip(0_u8..) {
            let drawn = points(&start.moments, columns, |moment| of(moment, &device.id, busy));
            layers.extend(line(
                named("busy", &device.label),
                drawn,
                Colour::Series(if several { index } else { 1 }),
                has_power,
            ));
        }
    }
    let axis = |label: &str, unit, range| Axis {
        label: label.to_owned(),
        unit,
        range,
        ..Axis::default()
    };
    let share = || axis("busy", Unit::Percent, Some((0.0, 100.0)));
    (!layers.is_empty()).then(|| Panel {
        x: axis("time", Unit::Seconds, Some((0.0, end))),
        y: if has_power {
            axis("power", Unit::Watts, Some((0.0, highest(&layers) * 1.1)))
        } else {
            share()
        },
        right: (has_power && layers.iter().any(is_right)).then(share),
        layers,
        ..Panel::default()
    })
}

fn of(moment: &ActivitySample, id: &str, value: fn(&DeviceActivity) -> Option<f64>) -> Option<f64> {
    moment.devices.iter().find(|doing| doing.device == id).and_then(value)
}

fn points(
    moments: &[ActivitySample],
    columns: usize,
    value: impl Fn(&ActivitySample) -> Option<f64>,
) -> Vec<(f64, Option<f64>)> {
    let all: Vec<_> = moments
        .iter()
        .map(|moment| (seconds(moment.from), value(moment)))
        .collect();
    reduced(&all, columns)
}

fn line(name: String, points: Vec<(f64, Option<f64>)>, colour: Colour, right: bool) -> Option<Layer> {
    points.iter().any(|point| point.1.is_some()).then_some(Layer::Line {
        name,
        points,
        colour,
        dashed: right,
        steps: false,
        dots: false,
        right,
    })
}

fn is_right(layer: &Layer) -> bool {
    matches!(layer, Layer::Line { right: true, .. })
}

/// The highest power; at least 1 W, so that there is a scale.
fn highest(layers: &[Layer]) -> f64 {
    let values = layers.iter().flat_map(|layer| match layer {
        Layer::Line {
            points, right: false, ..
        } => points.as_slice(),
        _ => &[],
    });
    values.filter_map(|point| point.1).fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::device::Device;
    use super::*;
    use crate::telemetry::Phase;

    fn start(devices: usize, power: Option<f64>, busy: Option<f64>) -> Start<'static> {
        let ids: Vec<String> = (0..devices).map(|index| format!("g{index}")).collect();
        let doing = |id: &String| DeviceActivity {
            device: id.clone(),
            power_w: power,
            busy_percent: busy,
        };
        let moment = |at| ActivitySample {
            from: at,
            to: at,
            phase: Phase::Load,
            looks: 1,
            devices: ids.iter().map(doing).collect(),
        };
        let device = |id: &String| Device {
            id: id.clone(),
            label: id.to_uppercase(),
            ..Device::default()
        };
        Start {
            devices: ids.iter().map(device).collect(),
            moments: (0..9).map(moment).collect(),
            ..Start::default()
        }
    }

    #[test]
    fn unreported_metrics_are_not_drawn() {
        assert_eq!(panel(&start(1, None, None), 9.0, 10), None);
        let panel = panel(&start(1, None, Some(50.0)), 9.0, 10).unwrap();
        assert_eq!(
            (panel.y.unit, panel.right, panel.layers.len()),
            (Unit::Percent, None, 1)
        );
    }

    #[test]
    fn mean_of_many_devices_is_drawn() {
        let names = |devices| -> Vec<String> {
            let panel = panel(&start(devices, Some(70.0), Some(50.0)), 9.0, 10).unwrap();
            assert_eq!(panel.right.unwrap().unit, Unit::Percent);
            let name = |layer: &Layer| match layer {
                Layer::Line { name, .. } => name.clone(),
                _ => String::new(),
            };
            panel.layers.iter().map(name).collect()
        };
        assert_eq!(names(1), ["power", "busy"]);
        assert_eq!(names(2), ["power, G0", "power, G1", "busy, G0", "busy, G1"]);
        assert_eq!(names(8).len(), 9);
    }
}
