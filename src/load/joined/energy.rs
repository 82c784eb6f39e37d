//! Power and energy of the devices over a window, by the trapezoidal rule over what their drivers told.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::curve::Curve;
use super::seen::Power;

/// Seconds without a look at power that make a hole: ten looks of a sampler that looks ten times a second.
const HOLE: f64 = 1.0;

/// Where more of a window than this is a hole, its energy is unknown.
const MOST_BRIDGED: f64 = 0.5;

const SECONDS_AN_HOUR: f64 = 3600.0;

/// Power drawn in a window. It is the devices' whole power, what they draw when idle included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerOver {
    /// Watts of all devices together, weighted by time.
    pub mean: f64,
    /// The most at one look, watts of all devices together.
    pub max: f64,
    /// Share of the time in which they computed, in per cent, the mean of the devices; `None` where no driver tells.
    pub busy_percent: Option<f64>,
    /// Each device by its id.
    pub per_gpu: BTreeMap<String, PowerOfOne>,
    /// Seconds of the window without a look for longer than one second; there, power is taken to have changed evenly.
    pub unseen_seconds: f64,
}

/// Power of one device in a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerOfOne {
    /// Watts, weighted by time.
    pub mean: f64,
    /// The most at one look, in watts.
    pub max: f64,
    /// Watt hours.
    pub energy_wh: f64,
}

impl PowerOver {
    /// Between two times; `None` where no driver told, or most of the window was not looked at.
    pub(super) fn of(looks: &[Power], from: f64, to: f64) -> Option<Self> {
        let names: BTreeSet<&str> = looks
            .iter()
            .flat_map(|look| &look.devices)
            .filter(|one| one.power.is_some())
            .map(|one| one.device.as_str())
            .collect();
        let length = to - from;
        let unseen_seconds = names
            .iter()
            .map(|name| unseen(looks, name, from, to))
            .reduce(f64::max)?;
        if length <= 0.0 || unseen_seconds > MOST_BRIDGED * length {
            return None;
        }
        let per_gpu: BTreeMap<String, PowerOfOne> = names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), one(looks, name, from, to)?)))
            .collect();
        let mean = per_gpu.values().map(|one| one.mean).sum();
        let together = looks
            .iter()
            .filter(|look| look.to >= from && look.from <= to)
            .map(total);
        Some(Self {
            mean,
            max: together.reduce(f64::max).unwrap_or(mean),
            busy_percent: busy(looks, from, to),
            per_gpu,
            unseen_seconds,
        })
    }

    /// Watt hours of all devices together.
    #[must_use]
    pub fn energy_wh(&self) -> f64 {
        self.per_gpu.values().map(|one| one.energy_wh).sum()
    }
}

/// Watts of all devices that told at a look.
pub(super) fn total(look: &Power) -> f64 {
    look.devices.iter().filter_map(|one| one.power).sum()
}

/// Power of one device at each look that tells it; a look that was merged of several has two ends.
fn told<'a>(looks: &'a [Power], device: &'a str) -> impl Iterator<Item = (f64, f64)> + 'a {
    looks.iter().flat_map(move |look| {
        let one = look.devices.iter().find(|one| one.device == device);
        let power = one.and_then(|one| one.power);
        let ends = [Some(look.from), Some(look.to).filter(|to| *to > look.from)];
        ends.into_iter().flatten().filter_map(move |at| Some((at, power?)))
    })
}

fn one(looks: &[Power], device: &str, from: f64, to: f64) -> Option<PowerOfOne> {
    let told: Vec<(f64, f64)> = told(looks, device).collect();
    let (first, last) = (*told.first()?, *told.last()?);
    // Before the first look and after the last one, power is taken to have been as then.
    let edges = |at: f64, value: f64, there: bool| there.then_some((at, value));
    let line = edges(from, first.1, first.0 > from)
        .into_iter()
        .chain(told.iter().copied())
        .chain(edges(to, last.1, last.0 < to));
    let curve = Curve::of(line.map(|(at, watts)| (at, Some(watts)))).within(from, to);
    Some(PowerOfOne {
        mean: curve.mean()?,
        max: curve.max()?,
        energy_wh: curve.area().0 / SECONDS_AN_HOUR,
    })
}

/// Seconds of the window that lie in holes between the looks at a device.
fn unseen(looks: &[Power], device: &str, from: f64, to: f64) -> f64 {
    let mut before = f64::NEG_INFINITY;
    let mut unseen = 0.0;
    for at in told(looks, device).map(|(at, _)| at).chain([f64::INFINITY]) {
        let (begin, end) = (before.max(from), at.min(to));
        if end - begin > HOLE {
            unseen += end - begin;
        }
        before = at;
    }
    unseen
}

fn busy(looks: &[Power], from: f64, to: f64) -> Option<f64> {
    let share = |look: &Power| {
        let told: Vec<f64> = look.devices.iter().filter_map(|one| one.busy).collect();
        (!told.is_empty()).then(|| told.iter().sum::<f64>() / told.len() as f64)
    };
    let middle = |look: &Power| f64::midpoint(look.from, look.to);
    Curve::of(looks.iter().map(|look| (middle(look), share(look))))
        .within(from, to)
        .mean()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::joined::Watts;

    fn look(at: f64, watts: &[f64]) -> Power {
        let device = |(number, power): (usize, &f64)| Watts {
            device: format!("gpu{number}"),
            power: Some(*power),
            busy: Some(50.0),
        };
        Power {
            from: at,
            to: at,
            devices: watts.iter().enumerate().map(device).collect(),
        }
    }

    fn looks(hz: f64, seconds: f64, watts: impl Fn(f64) -> Vec<f64>) -> Vec<Power> {
        let mut looks = Vec::new();
        let mut number = 0.0;
        while number / hz <= seconds {
            looks.push(look(number / hz, &watts(number / hz)));
            number += 1.0;
        }
        looks
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn an_hour_at_700_and_300_watts_is_1000_watt_hours() {
        let looks = looks(10.0, 3600.0, |_| vec![700.0, 300.0]);
        let over = PowerOver::of(&looks, 0.0, 3600.0).unwrap();
        near(over.energy_wh(), 1000.0);
        near(over.mean, 1000.0);
        near(over.per_gpu["gpu1"].energy_wh, 300.0);
        near(over.busy_percent.unwrap(), 50.0);
        assert_eq!((over.max, over.unseen_seconds), (1000.0, 0.0));
    }

    #[test]
    fn a_hole_is_bridged_and_said_and_too_large_a_one_is_no_figure() {
        let mut looks = looks(10.0, 10.0, |at| vec![100.0 * at]);
        looks.retain(|look| !(look.from > 2.05 && look.from < 5.95));
        let over = PowerOver::of(&looks, 0.0, 10.0).unwrap();
        near(over.unseen_seconds, 4.0);
        near(over.mean, 500.0);
        near(PowerOver::of(&looks, 6.0, 10.0).unwrap().unseen_seconds, 0.0);
        assert_eq!(PowerOver::of(&looks, 2.0, 7.0), None, "4 of 5 seconds");
        assert_eq!(PowerOver::of(&looks, 20.0, 30.0), None, "never looked at");
        assert_eq!(PowerOver::of(&[], 0.0, 1.0), None);
    }

    #[test]
    fn looks_that_were_merged_count_for_all_their_time() {
        let merged = |from: f64, to: f64, watts: f64| Power {
            from,
            to,
            ..look(from, &[watts])
        };
        let looks = [merged(0.0, 0.9, 100.0), merged(1.0, 1.9, 300.0)];
        near(
            PowerOver::of(&looks, 0.0, 1.9).unwrap().energy_wh() * 3600.0,
            90.0 + 20.0 + 270.0,
        );
    }

    proptest! {
        /// The energy of a window is that of its parts.
        #[test]
        fn energy_adds_up(watts in prop::collection::vec(0.0_f64..800.0, 60..120), cut in 1.0_f64..4.0) {
            let looks: Vec<Power> = watts.iter().zip(0_u32..).map(|(watts, at)| look(f64::from(at) / 10.0, &[*watts])).collect();
            let energy = |from, to| PowerOver::of(&looks, from, to).unwrap().energy_wh();
            prop_assert!((energy(0.5, cut) + energy(cut, 5.0) - energy(0.5, 5.0)).abs() < 1e-9);
        }
    }
}
