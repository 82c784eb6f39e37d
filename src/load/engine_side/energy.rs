//! Power and energy of the devices over a window, integrated by the trapezoidal rule from driver readings; and the cost
//! of tokens in money and energy. Pure.
//! A million tokens cost price / 3600 / rate · 10⁶, with the hourly price and the aggregate rate in tokens per second
//! of all requests together. (The rate of a single one of many concurrent requests would be too low.) The whole price
//! is charged to each kind of token in turn: the values for input, output and both are three views, not parts of a sum.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::PowerSample;
use super::curve::Curve;
use crate::load::stats::mean;

/// Seconds without a power sample that count as a gap: ten samples at 10 Hz.
pub(super) const MAX_GAP: f64 = 1.0;

/// If gaps cover more than this share of a window, its energy is unknown.
const MAX_GAP_SHARE: f64 = 0.5;

const SECONDS_AN_HOUR: f64 = 3600.0;

/// Power over a window: the devices' total power, including idle power.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerStats {
    /// Watts of all devices together, time-weighted.
    pub mean: f64,
    /// Peak watts of all devices together in one sample.
    pub max: f64,
    /// Utilisation in per cent, mean over the devices; `None` if no driver reports it.
    pub busy_percent: Option<f64>,
    /// Each device by its id.
    pub per_gpu: BTreeMap<String, DevicePowerStats>,
    /// Seconds of the window in gaps longer than one second; there, power is interpolated.
    pub unseen_seconds: f64,
}

/// Power of one device over a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DevicePowerStats {
    /// Time-weighted mean, watts.
    pub mean: f64,
    /// Peak of one sample, watts.
    pub max: f64,
    /// Watt hours.
    pub energy_wh: f64,
}

impl PowerStats {
    /// Computes the power between two times. More than `max_gap` seconds between two samples are a gap. `None` if no
    /// driver reports power, or if most of the window is a gap.
    pub(super) fn new(samples: &[PowerSample], from: f64, to: f64, max_gap: f64) -> Option<Self> {
        let names: BTreeSet<&str> = samples
            .iter()
            .flat_map(|sample| &sample.devices)
            .filter(|one| one.power_w.is_some())
            .map(|one| one.device.as_str())
            .collect();
        let length = to - from;
        let unseen_seconds = names
            .iter()
            .map(|name| gap_seconds(samples, name, (from, to), max_gap))
            .reduce(f64::max)?;
        if length <= 0.0 || unseen_seconds > MAX_GAP_SHARE * length {
            return None;
        }
        let per_gpu: BTreeMap<String, DevicePowerStats> = names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), device_stats(samples, name, from, to)?)))
            .collect();
        let mean = per_gpu.values().map(|one| one.mean).sum();
        let totals = samples
            .iter()
            .filter(|sample| sample.to >= from && sample.from <= to)
            .map(total_watts);
        Some(Self {
            mean,
            max: totals.reduce(f64::max).unwrap_or(mean),
            busy_percent: busy(samples, from, to),
            per_gpu,
            unseen_seconds,
        })
    }

    /// Watt hours of all devices together.
    pub fn energy_wh(&self) -> f64 {
        self.per_gpu.values().map(|one| one.energy_wh).sum()
    }
}

/// Watts of all devices in one sample that report power.
pub(super) fn total_watts(sample: &PowerSample) -> f64 {
    sample.devices.iter().filter_map(|one| one.power_w).sum()
}

/// Power of one device in each sample that has it; a merged sample yields two points.
fn readings<'a>(samples: &'a [PowerSample], device: &'a str) -> impl Iterator<Item = (f64, f64)> + 'a {
    samples.iter().flat_map(move |sample| {
        let one = sample.devices.iter().find(|one| one.device == device);
        let power = one.and_then(|one| one.power_w);
        let ends = [Some(sample.from), Some(sample.to).filter(|to| *to > sample.from)];
        ends.into_iter().flatten().filter_map(move |at| Some((at, power?)))
    })
}

fn device_stats(samples: &[PowerSample], device: &str, from: f64, to: f64) -> Option<DevicePowerStats> {
    let readings: Vec<(f64, f64)> = readings(samples, device).collect();
    let (first, last) = (*readings.first()?, *readings.last()?);
    // Power is assumed constant before the first sample and after the last one.
    let edges = |at: f64, value: f64, there: bool| there.then_some((at, value));
    let line = edges(from, first.1, first.0 > from)
        .into_iter()
        .chain(readings.iter().copied())
        .chain(edges(to, last.1, last.0 < to));
    let curve = Curve::from_samples(line.map(|(at, watts)| (at, Some(watts)))).within(from, to);
    Some(DevicePowerStats {
        mean: curve.mean()?,
        max: curve.max()?,
        energy_wh: curve.area().0 / SECONDS_AN_HOUR,
    })
}

/// Seconds of the window in gaps between a device's samples.
fn gap_seconds(samples: &[PowerSample], device: &str, (from, to): (f64, f64), max_gap: f64) -> f64 {
    let mut before = f64::NEG_INFINITY;
    let mut gap_seconds = 0.0;
    for at in readings(samples, device).map(|(at, _)| at).chain([f64::INFINITY]) {
        let (begin, end) = (before.max(from), at.min(to));
        if end - begin > max_gap {
            gap_seconds += end - begin;
        }
        before = at;
    }
    gap_seconds
}

fn busy(samples: &[PowerSample], from: f64, to: f64) -> Option<f64> {
    let share = |sample: &PowerSample| {
        let readings = sample.devices.iter().filter_map(|one| one.busy_percent);
        mean(&readings.collect::<Vec<f64>>())
    };
    let middle = |sample: &PowerSample| f64::midpoint(sample.from, sample.to);
    Curve::from_samples(samples.iter().map(|sample| (middle(sample), share(sample))))
        .within(from, to)
        .mean()
}

const MILLION: f64 = 1e6;

/// Cost of a million tokens; `None` if the price, the energy or the tokens are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Hourly price of all GPUs together, in the user's currency.
    pub price_per_hour: Option<f64>,
    /// A million prompt tokens.
    pub per_million_input: Option<f64>,
    /// A million generated tokens.
    pub per_million_output: Option<f64>,
    /// A million tokens of either kind.
    pub per_million_total: Option<f64>,
    /// Watt hours per million prompt tokens.
    pub wh_per_million_input: Option<f64>,
    /// Watt hours per million generated tokens.
    pub wh_per_million_output: Option<f64>,
    /// Watt hours per million tokens of either kind.
    pub wh_per_million_total: Option<f64>,
}

impl Cost {
    /// From the hourly price of all GPUs together, their watts, and the throughputs of prompt and generated tokens per
    /// second.
    pub fn new(price_per_hour: Option<f64>, watts: Option<f64>, input: f64, output: f64) -> Self {
        let per_hour = |amount: Option<f64>, rate: f64| {
            amount
                .filter(|_| rate > 0.0)
                .map(|amount| amount / SECONDS_AN_HOUR / rate * MILLION)
        };
        Self {
            price_per_hour,
            per_million_input: per_hour(price_per_hour, input),
            per_million_output: per_hour(price_per_hour, output),
            per_million_total: per_hour(price_per_hour, input + output),
            wh_per_million_input: per_hour(watts, input),
            wh_per_million_output: per_hour(watts, output),
            // Watt hours per hour are watts.
            wh_per_million_total: per_hour(watts, input + output),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::telemetry::DeviceActivity;

    fn sample(at: f64, watts: &[f64]) -> PowerSample {
        let device = |(number, power): (usize, &f64)| DeviceActivity {
            device: format!("gpu{number}"),
            power_w: Some(*power),
            busy_percent: Some(50.0),
        };
        PowerSample {
            from: at,
            to: at,
            devices: watts.iter().enumerate().map(device).collect(),
        }
    }

    fn samples(hz: f64, seconds: f64, watts: impl Fn(f64) -> Vec<f64>) -> Vec<PowerSample> {
        let mut samples = Vec::new();
        let mut number = 0.0;
        while number / hz <= seconds {
            samples.push(sample(number / hz, &watts(number / hz)));
            number += 1.0;
        }
        samples
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn an_hour_at_700_and_300_watts_is_1000_watt_hours() {
        let samples = samples(10.0, 3600.0, |_| vec![700.0, 300.0]);
        let over = PowerStats::new(&samples, 0.0, 3600.0, MAX_GAP).unwrap();
        near(over.energy_wh(), 1000.0);
        near(over.mean, 1000.0);
        near(over.per_gpu["gpu1"].energy_wh, 300.0);
        near(over.busy_percent.unwrap(), 50.0);
        assert_eq!((over.max, over.unseen_seconds), (1000.0, 0.0));
    }

    #[test]
    fn small_gap_is_interpolated_and_large_gap_gives_no_value() {
        let mut samples = samples(10.0, 10.0, |at| vec![100.0 * at]);
        samples.retain(|sample| !(sample.from > 2.05 && sample.from < 5.95));
        let over = PowerStats::new(&samples, 0.0, 10.0, MAX_GAP).unwrap();
        near(over.unseen_seconds, 4.0);
        near(over.mean, 500.0);
        near(
            PowerStats::new(&samples, 6.0, 10.0, MAX_GAP).unwrap().unseen_seconds,
            0.0,
        );
        assert_eq!(PowerStats::new(&samples, 2.0, 7.0, MAX_GAP), None, "4 of 5 seconds");
        assert_eq!(PowerStats::new(&samples, 20.0, 30.0, MAX_GAP), None, "never looked at");
        assert_eq!(PowerStats::new(&[], 0.0, 1.0, MAX_GAP), None);
    }

    #[test]
    fn merged_samples_count_for_their_whole_time() {
        let merged = |from: f64, to: f64, watts: f64| PowerSample {
            from,
            to,
            ..sample(from, &[watts])
        };
        let samples = [merged(0.0, 0.9, 100.0), merged(1.0, 1.9, 300.0)];
        near(
            PowerStats::new(&samples, 0.0, 1.9, MAX_GAP).unwrap().energy_wh() * 3600.0,
            90.0 + 20.0 + 270.0,
        );
    }

    proptest! {
        /// The energy of a window is the sum of its parts.
        #[test]
        fn energy_adds_up(watts in prop::collection::vec(0.0_f64..800.0, 60..120), cut in 1.0_f64..4.0) {
            let samples: Vec<PowerSample> = watts.iter().zip(0_u32..).map(|(watts, at)| sample(f64::from(at) / 10.0, &[*watts])).collect();
            let energy = |from, to| PowerStats::new(&samples, from, to, MAX_GAP).unwrap().energy_wh();
            prop_assert!((energy(0.5, cut) + energy(cut, 5.0) - energy(0.5, 5.0)).abs() < 1e-9);
        }
    }
}

#[cfg(test)]
mod cost_tests {
    use proptest::prelude::*;

    use super::*;

    fn near(got: Option<f64>, want: f64) {
        let got = got.unwrap();
        assert!((got - want).abs() < 1e-9 * want.abs().max(1.0), "{got} is not {want}");
    }

    /// The table of hpml-llama2-tgi states 46.50 per million for 17.50 tokens per second at 2.93 per hour, from an
    /// unrounded rate: 46.50 lies between the values for 17.495 and 17.505. Its program divides by the time of one
    /// request instead, which is wrong by a factor of the concurrency.
    #[test]
    fn reproduces_the_published_cost_from_the_aggregate_rate() {
        let output = |price, rate| Cost::new(Some(price), None, 0.0, rate);
        let cost = output(2.93, 17.5);
        near(cost.per_million_output, 46.507_936_507_936_51);
        let of_rate = |rate| output(2.93, rate).per_million_output.unwrap();
        assert!(of_rate(17.505) < 46.50 && 46.50 < of_rate(17.495));
        assert_eq!((cost.per_million_input, cost.wh_per_million_output), (None, None));
        near(output(0.71, 17.5).per_million_output, 11.269_841_269_841_27);
    }

    #[test]
    fn energy_per_million_tokens() {
        // 2 Wh in 10 s.
        let cost = Cost::new(None, Some(720.0), 3000.0, 1000.0);
        near(cost.wh_per_million_output, 2.0 / 10_000.0 * 1e6);
        near(cost.wh_per_million_input, 2.0 / 30_000.0 * 1e6);
        near(cost.wh_per_million_total, 2.0 / 40_000.0 * 1e6);
        assert_eq!(cost.per_million_total, None);
    }

    proptest! {
        /// The cost per token times the number of tokens of either kind is the cost of the window.
        #[test]
        fn cost_per_token_times_tokens_is_the_total_cost(price in 0.0_f64..100.0, input in 0.1_f64..1e6, output in 0.1_f64..1e6, seconds in 0.1_f64..1e5) {
            let cost = Cost::new(Some(price), None, input, output);
            let bill = price * seconds / 3600.0;
            for (per_million, rate) in [
                (cost.per_million_input, input), (cost.per_million_output, output), (cost.per_million_total, input + output),
            ] {
                prop_assert!((per_million.unwrap() * rate * seconds / 1e6 - bill).abs() <= 1e-9 * bill.max(1.0));
            }
        }
    }
}
