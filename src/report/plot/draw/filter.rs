//! Drops values that cannot be drawn: not finite, or not positive on a logarithmic axis. A note says how many.

use crate::report::plot::{Axis, Layer, Panel, Scale};

/// The panel without such values, and a note if there were any.
pub(super) fn drop_unshowable(panel: &Panel) -> (Panel, Option<String>) {
    let mut panel = panel.clone();
    let x = ValidValues::for_axis(&panel.x);
    let left = ValidValues::for_axis(&panel.y);
    let right = panel.right.as_ref().map_or(left, ValidValues::for_axis);
    let mut dropped = 0;
    for layer in &mut panel.layers {
        dropped += drop_non_finite(layer, x, left, right);
    }
    (panel, dropped_note(dropped))
}

/// The note about dropped values.
pub(in crate::report) fn dropped_note(dropped: usize) -> Option<String> {
    (dropped > 0).then(|| match dropped {
        1 => "1 value cannot be shown on these axes".to_owned(),
        _ => format!("{dropped} values cannot be shown on these axes"),
    })
}

/// The largest absolute value that is drawn, far beyond any measurement.
pub(super) const LARGEST: f64 = 1e100;

/// Which values an axis can show.
#[derive(Clone, Copy)]
struct ValidValues {
    log: bool,
}

impl ValidValues {
    fn for_axis(axis: &Axis) -> Self {
        Self {
            log: axis.scale == Scale::Log,
        }
    }

    fn accepts(self, value: f64) -> bool {
        // Beyond these, lengths of axes overflow.
        value.abs() <= LARGEST && (!self.log || value >= 1.0 / LARGEST)
    }
}

/// Drops what cannot be drawn and returns how many values that were.
fn drop_non_finite(layer: &mut Layer, x: ValidValues, left: ValidValues, right: ValidValues) -> usize {
    match layer {
        Layer::Line {
            points, right: second, ..
        } => {
            let y = if *second { right } else { left };
            let before = points.len();
            points.retain(|point| x.accepts(point.0));
            let mut dropped = before - points.len();
            for (_, value) in points.iter_mut() {
                if value.is_some_and(|value| !y.accepts(value)) {
                    *value = None;
                    dropped += 1;
                }
            }
            dropped
        }
        Layer::Ribbon { points, .. } => retain_counted(points, |point| {
            x.accepts(point.0) && point.1.abs() <= LARGEST && point.2.abs() <= LARGEST
        }),
        Layer::Dots { points, .. } => retain_counted(points, |point| x.accepts(point.0) && left.accepts(point.1)),
        Layer::Area { outlines, .. } => {
            let finite = |point: &(f64, f64)| point.0.abs() <= LARGEST && point.1.abs() <= LARGEST;
            outlines.iter_mut().map(|outline| retain_counted(outline, finite)).sum()
        }
        Layer::Spans { spans } => retain_counted(spans, |span| {
            span.from.abs() <= LARGEST && span.to.abs() <= LARGEST && span.from <= span.to
        }),
        Layer::Moments { moments, .. } => retain_counted(moments, |moment| x.accepts(moment.at)),
        Layer::Bars { bars, .. } => {
            for bar in bars.iter_mut() {
                bar.interval = bar
                    .interval
                    .filter(|(low, high)| low.abs() <= LARGEST && high.abs() <= LARGEST);
            }
            retain_counted(bars, |bar| {
                x.accepts(bar.at) && left.accepts(bar.value) && bar.base.abs() <= LARGEST
            })
        }
        Layer::Cells { cells, .. } => retain_counted(cells, |cell| {
            [cell.x.0, cell.x.1, cell.y.0, cell.y.1, cell.value]
                .iter()
                .all(|value| value.abs() <= LARGEST)
        }),
        Layer::Rule { .. } => 0,
    }
}

/// Keeps what `accepts` accepts and returns how many items were dropped.
fn retain_counted<T>(items: &mut Vec<T>, accepts: impl Fn(&T) -> bool) -> usize {
    let before = items.len();
    items.retain(accepts);
    before - items.len()
}

#[cfg(test)]
mod tests {
    use super::drop_unshowable;
    use crate::report::plot::{Axis, Colour, Layer, Panel, Scale, Shape};

    #[test]
    fn values_that_an_axis_cannot_show_are_dropped_and_noted() {
        let mut panel = Panel {
            layers: vec![Layer::Dots {
                name: String::new(),
                points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)],
                colour: Colour::Fits,
                shape: Shape::Circle,
            }],
            ..Panel::default()
        };
        assert!(drop_unshowable(&panel).1.unwrap().starts_with("1 value "));
        panel.x = Axis {
            scale: Scale::Log,
            ..Axis::default()
        };
        let (kept, note) = drop_unshowable(&panel);
        assert!(note.unwrap().starts_with("2 values"));
        assert!(matches!(&kept.layers[0], Layer::Dots { points, .. } if points.len() == 1));
    }
}
