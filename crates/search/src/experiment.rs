//! Experiments: one engine with one option at several settings, each started anew, and the effect of the settings
//! compared with the variation between equal starts.
//!
//! Pure computation; `std/experiment` starts engines and measures. The statistical unit is a start: a load of a
//! thousand requests on one start yields one value, because its requests share that start. [`order`] randomizes the
//! settings, [`Contrast`] compares them, and [`Experiment`] is the result as stored and reported.
//!
//! The interval is Welch's t interval (B. L. Welch, Biometrika 34 (1947), 28) with Satterthwaite's degrees of freedom
//! (Biometrics Bulletin 2 (1946), 110), which does not assume equal variances. A permutation test would not assume
//! normality, but is useless with few starts: with three starts per side the most extreme order has a probability of 2
//! in 20, above any usual threshold. Intervals are not corrected for multiple comparisons: of twenty metrics that do
//! not differ, one is expected to be called different.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::fmt::Unit;
use crate::names;

/// Settings and measurements, as `std/experiment` passes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// The name: the option and the engine.
    pub name: String,
    /// The workload of every start, for people.
    pub asked: String,
    /// The settings; the first one is the baseline.
    pub settings: Vec<Setting>,
    /// The index of each start's setting, in the order of the starts.
    pub order: Vec<usize>,
    /// The metrics, in display order.
    pub metrics: Vec<Metric>,
    /// The starts, in order.
    pub trials: Vec<Trial>,
}

/// One setting of the option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The name: `cuda_graphs=true`.
    pub name: String,
    /// The launch options that it adds.
    pub options: Value,
}

/// A metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The name.
    pub name: String,
    /// The unit.
    pub unit: Unit,
    /// The rounding of its source: smaller differences are not visible.
    #[serde(default)]
    pub resolution: f64,
}

/// The result of one start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The setting's index.
    pub setting: usize,
    /// Values by metric; `None` if not measured.
    pub figures: BTreeMap<String, Option<f64>>,
    /// Why the start failed: `#{ message, cause, evidence }`.
    pub failed: Option<Value>,
    /// Any other data to keep.
    #[serde(default)]
    pub details: Value,
}

/// A derived value, such as the memory of one graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The name.
    pub name: String,
    /// The unit.
    pub unit: Unit,
    /// The value; `None` if an input was not measured.
    pub value: Option<f64>,
}

/// All settings compared by one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricComparison {
    /// The metric.
    pub name: String,
    /// The unit.
    pub unit: Unit,
    /// The value of each start, by setting.
    pub values: Vec<Vec<f64>>,
    /// The mean of each setting; `None` without values.
    pub means: Vec<Option<f64>>,
    /// The variation between equal starts; `None` if no setting was repeated.
    pub noise: Option<Noise>,
    /// Every other setting compared with the first.
    pub contrasts: Vec<Contrast>,
}

/// An experiment with its results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    /// Settings and measurements.
    #[serde(flatten)]
    pub measured: Measurements,
    /// A comparison for every metric that any start measured.
    pub comparisons: Vec<MetricComparison>,
    /// Derived values.
    pub further: Vec<Figure>,
    /// The conclusions, in sentences.
    pub conclusions: Vec<String>,
}

/// The parts of an experiment that are read back from a journal or a script. Comparisons are computed again.
#[derive(Deserialize)]
struct Recorded {
    #[serde(flatten)]
    measured: Measurements,
    #[serde(default)]
    further: Vec<Figure>,
    #[serde(default)]
    conclusions: Vec<String>,
}

impl Experiment {
    /// Compares the measurements. `higher_is_better` is `None` for a metric without a better direction.
    ///
    /// # Errors
    ///
    /// `usage` for fewer than two settings, two with the same name, or a start whose setting is not listed.
    pub fn new(measured: Measurements, higher_is_better: impl Fn(&Metric) -> Option<bool>) -> Result<Self> {
        measured.check()?;
        let comparisons = measured
            .metrics
            .iter()
            .filter_map(|metric| measured.compare(metric, higher_is_better(metric)));
        Ok(Self {
            comparisons: comparisons.collect(),
            measured,
            further: Vec::new(),
            conclusions: Vec::new(),
        })
    }

    /// Reads an experiment back and compares its measurements again, so that experiments of earlier runs get
    /// today's verdicts.
    ///
    /// # Errors
    ///
    /// `usage` for a value that is not an experiment.
    pub fn read(value: &Value, higher_is_better: impl Fn(&Metric) -> Option<bool>) -> Result<Self> {
        let recorded = Recorded::deserialize(value).map_err(|error| {
            Error::usage(format!("this is not an experiment: {error}")).hint("give the result of `hold_settings`")
        })?;
        Ok(Self {
            further: recorded.further,
            conclusions: recorded.conclusions,
            ..Self::new(recorded.measured, higher_is_better)?
        })
    }
}

impl Measurements {
    fn check(&self) -> Result<()> {
        if self.settings.len() < 2 {
            return Err(
                Error::usage("an experiment needs two settings or more").hint("give several, such as `[true, false]`")
            );
        }
        for (index, setting) in self.settings.iter().enumerate() {
            if self.settings[..index].iter().any(|other| other.name == setting.name) {
                return Err(Error::usage(format!("two settings are called `{}`", setting.name))
                    .hint("name each by what it sets; repeats of one setting are `repeats`"));
            }
        }
        let known = |setting: &usize| *setting < self.settings.len();
        if !self
            .trials
            .iter()
            .map(|trial| &trial.setting)
            .chain(&self.order)
            .all(known)
        {
            return Err(Error::usage("a start has a setting that is not listed"));
        }
        Ok(())
    }

    /// The comparison by one metric; `None` if no start measured it.
    fn compare(&self, metric: &Metric, higher_is_better: Option<bool>) -> Option<MetricComparison> {
        let of = |setting: usize| -> Vec<f64> {
            let trials = self.trials.iter().filter(|trial| trial.setting == setting);
            trials
                .filter_map(|trial| trial.figures.get(&metric.name).copied().flatten())
                .collect()
        };
        let values: Vec<Vec<f64>> = (0..self.settings.len()).map(of).collect();
        if values.iter().all(Vec::is_empty) {
            return None;
        }
        let contrast = |setting: usize| Contrast::new(setting, &values[0], &values[setting], metric, higher_is_better);
        Some(MetricComparison {
            name: metric.name.clone(),
            unit: metric.unit,
            means: values.iter().map(|values| mean(values)).collect(),
            noise: Noise::from_settings(&values),
            contrasts: (1..values.len()).map(contrast).collect(),
            values,
        })
    }
}

/// The order of starts, as the index of each start's setting. It consists of `repeats` rounds, each with every setting
/// once, in random order (a randomized complete block design).
///
/// Slow changes (a GPU that warms up, a disk cache that fills) then affect all settings equally, and an experiment that
/// is cut short has each setting about equally often. The same seed gives the same order on every machine.
pub fn order(settings: usize, repeats: usize, seed: u64) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut order = Vec::with_capacity(settings.saturating_mul(repeats));
    for _ in 0..repeats {
        let mut round: Vec<usize> = (0..settings).collect();
        for last in (1..settings).rev() {
            round.swap(last, below(&mut random, last + 1));
        }
        order.extend(round);
    }
    order
}

/// A random number below `bound`, with a bias below `bound` / 2^32.
fn below(random: &mut ChaCha8Rng, bound: usize) -> usize {
    ((u64::from(random.next_u32()) * bound as u64) >> 32) as usize
}

/// Starts needed on each side to accept a difference if both settings gave constant values. Values that jump between
/// two levels separate by chance 2 times in 64 with three starts per side, and 2 times in 16 with two.
const MIN_CONSTANT_REPEATS: usize = 3;

/// A difference below this many per cent does not matter to a user, ...
const MIN_PERCENT: f64 = 1.0;

/// ... unless it is at least this many bytes of memory (0.1 GiB).
const MIN_BYTES: f64 = 107_374_182.4;

/// The conclusion about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// The interval excludes zero, on the metric's better side.
    Better,
    /// The interval excludes zero, on the metric's worse side.
    Worse,
    /// The interval lies above zero, and the metric has no better side.
    Higher,
    /// The interval lies below zero, and the metric has no better side.
    Lower,
    /// The interval excludes zero, but the difference is too small to matter.
    Negligible,
    /// The interval contains zero.
    NotSignificant,
    /// Too few starts for an interval.
    TooFewStarts,
    /// One of the two settings has no value.
    NotMeasured,
}

impl Conclusion {
    /// The verdict on a change, by its direction and the metric's better direction, if it has one.
    pub fn of_change(rises: bool, higher_is_better: Option<bool>) -> Self {
        match higher_is_better {
            Some(higher) if higher == rises => Self::Better,
            Some(_) => Self::Worse,
            None if rises => Self::Higher,
            None => Self::Lower,
        }
    }

    /// The verdict with the two settings swapped.
    pub fn swapped(self) -> Self {
        match self {
            Self::Better => Self::Worse,
            Self::Worse => Self::Better,
            Self::Higher => Self::Lower,
            Self::Lower => Self::Higher,
            same => same,
        }
    }

    /// Whether the verdict is a difference that matters.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::Higher | Self::Lower)
    }
}

names!(Conclusion {
    Better "better",
    Worse "worse",
    Higher "higher",
    Lower "lower",
    Negligible "negligible",
    NotSignificant "not significant",
    TooFewStarts "too few starts",
    NotMeasured "not measured",
});

impl Serialize for Conclusion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Whether a difference is too small to matter, however significant.
pub fn is_negligible(before: f64, after: f64, unit: Unit) -> bool {
    let difference = (after - before).abs();
    let small = difference < MIN_PERCENT / 100.0 * before.abs().max(after.abs());
    small && (unit != Unit::Bytes || difference < MIN_BYTES)
}

/// A setting compared with the baseline setting by one metric, in that metric's unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contrast {
    /// The setting's index, from 1.
    pub setting: usize,
    /// Its mean minus the baseline's mean.
    pub difference: Option<f64>,
    /// The difference in per cent of the baseline's mean.
    pub percent: Option<f64>,
    /// The 95 % interval of the difference; `None` with too few starts.
    pub interval: Option<[f64; 2]>,
    /// The conclusion.
    pub verdict: Conclusion,
}

/// The variation between starts with equal settings, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// Standard deviation within settings, pooled over all of them.
    pub std: f64,
    /// The largest difference between two starts with equal settings.
    pub largest: f64,
}

impl Contrast {
    /// Compares the starts of `setting` with those of the baseline. The metric's resolution, the rounding of its source,
    /// widens the interval, because equal rounded values say nothing about smaller differences.
    fn new(setting: usize, baseline: &[f64], other: &[f64], metric: &Metric, higher_is_better: Option<bool>) -> Self {
        let mut contrast = Self {
            setting,
            difference: None,
            percent: None,
            interval: None,
            verdict: Conclusion::NotMeasured,
        };
        let (Some(before), Some(after)) = (Sample::from_values(baseline), Sample::from_values(other)) else {
            return contrast;
        };
        let difference = after.mean - before.mean;
        contrast.difference = Some(difference);
        contrast.percent = (before.mean != 0.0).then(|| 100.0 * difference / before.mean.abs());
        let half = half_width(&before, &after).map(|half| half + metric.resolution);
        contrast.interval = half.map(|half| [difference - half, difference + half]);
        contrast.verdict = match contrast.interval {
            _ if difference == 0.0 => Conclusion::NotSignificant,
            None => Conclusion::TooFewStarts,
            Some([low, high]) if low <= 0.0 && high >= 0.0 => Conclusion::NotSignificant,
            Some(_) if is_negligible(before.mean, after.mean, metric.unit) => Conclusion::Negligible,
            Some(_) => Conclusion::of_change(difference > 0.0, higher_is_better),
        };
        contrast
    }
}

impl Noise {
    /// Pools the variation within settings; `None` if no setting was repeated.
    fn from_settings(settings: &[Vec<f64>]) -> Option<Self> {
        let (mut squares, mut freedom, mut largest) = (0.0, 0.0, 0.0_f64);
        for starts in settings {
            let Some(sample) = Sample::from_values(starts).filter(|sample| sample.n > 1.0) else {
                continue;
            };
            squares += sample.variance * (sample.n - 1.0);
            freedom += sample.n - 1.0;
            let low = starts.iter().copied().fold(f64::INFINITY, f64::min);
            let high = starts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            largest = largest.max(high - low);
        }
        (freedom > 0.0).then(|| Self {
            std: (squares / freedom).sqrt(),
            largest,
        })
    }
}

struct Sample {
    n: f64,
    mean: f64,
    /// With the divisor n − 1; 0 for a single value.
    variance: f64,
}

impl Sample {
    fn from_values(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let mean = mean(values)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = if n > 1.0 { squares / (n - 1.0) } else { 0.0 };
        Some(Self { n, mean, variance })
    }
}

/// The mean, computed relative to the first value so that the mean of equal values is exact.
fn mean(values: &[f64]) -> Option<f64> {
    let first = values.first()?;
    Some(first + values.iter().map(|value| value - first).sum::<f64>() / values.len() as f64)
}

/// Half the width of the interval of the difference of two means.
fn half_width(one: &Sample, other: &Sample) -> Option<f64> {
    if one.n < 2.0 || other.n < 2.0 {
        return None;
    }
    let (a, b) = (one.variance / one.n, other.variance / other.n);
    if a + b == 0.0 {
        let enough = MIN_CONSTANT_REPEATS as f64;
        return (one.n >= enough && other.n >= enough).then_some(0.0);
    }
    let freedom = (a + b).powi(2) / (a * a / (one.n - 1.0) + b * b / (other.n - 1.0));
    Some(t_quantile(freedom.max(1.0)) * (a + b).sqrt())
}

/// Probability outside the interval, both sides together.
const TAIL: f64 = 0.05;

/// The quantile of the normal distribution, to which Student's t tends.
const NORMAL: f64 = 1.959_963_985;

/// Above this many degrees of freedom, the first term of the expansion in 1/ν is exact to 1e-6 (Abramowitz and Stegun
/// 26.7.5).
const MANY: f64 = 2000.0;

/// Half the width of a 95 % interval, in standard errors. `freedom` is at least 1.
pub fn t_quantile(freedom: f64) -> f64 {
    if freedom > MANY {
        return NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom);
    }
    let half = (freedom + 1.0) / 2.0;
    let scale = (ln_gamma(half) - ln_gamma(freedom / 2.0)).exp() / (freedom * std::f64::consts::PI).sqrt();
    let mut t = NORMAL;
    // Newton's method: the tail is convex, so it converges from below.
    for _ in 0..20 {
        let density = scale * (1.0 + t * t / freedom).powf(-half);
        let step = (two_sided_tail(t, freedom) - TAIL) / (2.0 * density);
        t += step;
        if step.abs() < 1e-9 {
            break;
        }
    }
    t
}

/// The probability of a value further from zero than `t`, on either side.
fn two_sided_tail(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// I(x; a, b) by the continued fraction DLMF 8.17.22, evaluated on the side of the mean where it converges fast.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    front / fraction(x, a, b)
}

/// The fraction 1 + d₁/(1 + d₂/(1 + …)) from its far end; sixty terms are enough for thousands of degrees of freedom.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    (1..=60_u8).rev().fold(1.0, |rest, term| {
        let m = f64::from(term / 2);
        let d = if term % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        1.0 + d / rest
    })
}

/// The logarithm of the gamma function: Stirling's series (DLMF 5.11.1), from an argument where five terms are exact
/// to 1e-12.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let square = x * x;
    let series =
        1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square) / square;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series / x
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::order;

    #[test]
    fn every_round_has_every_setting_once() {
        let drawn = order(3, 40, 7);
        for round in drawn.chunks(3) {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 3, "{round:?}");
        }
        let orders: BTreeSet<_> = drawn.chunks(3).collect();
        assert_eq!(orders.len(), 6, "all orders of three settings come");
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(order(2, 20, 1), order(2, 20, 1));
        assert_ne!(order(2, 20, 1), order(2, 20, 2));
        assert!(order(2, 0, 1).is_empty() && order(0, 5, 1).is_empty());
    }
}

#[cfg(test)]
mod outcome_tests {
    use serde_json::json;

    use super::Conclusion;
    use super::*;

    fn measured(trials: Value) -> Measurements {
        serde_json::from_value(json!({
            "name": "test", "asked": "", "order": [0, 1],
            "settings": [{ "name": "on", "options": {} }, { "name": "off", "options": {} }],
            "metrics": [{ "name": "memory", "unit": "bytes" }, { "name": "never", "unit": "s" }],
            "trials": trials,
        }))
        .unwrap()
    }

    #[test]
    fn a_setting_that_never_started_is_not_measured() {
        let found = Experiment::new(
            measured(json!([
                { "setting": 0, "figures": { "memory": 7 } },
                { "setting": 1, "figures": {}, "failed": { "message": "out of memory" } },
            ])),
            |_| None,
        )
        .unwrap();
        assert_eq!(found.comparisons.len(), 1, "what nobody gave is not shown");
        let memory = &found.comparisons[0];
        assert_eq!((memory.means[0], memory.means[1]), (Some(7.0), None));
        assert_eq!(memory.contrasts[0].verdict, Conclusion::NotMeasured);
        let kept = serde_json::to_value(&found).unwrap();
        assert_eq!(
            Experiment::read(&kept, |_| None).unwrap(),
            found,
            "survives the journal"
        );
    }

    #[test]
    fn settings_need_different_names() {
        let mut twice = measured(json!([]));
        twice.settings[1].name = "on".to_owned();
        assert!(Experiment::new(twice, |_| None).unwrap_err().message.contains("`on`"));
        let mut one = measured(json!([]));
        one.settings.pop();
        assert!(
            Experiment::new(one, |_| None)
                .unwrap_err()
                .message
                .contains("two settings")
        );
        let stray = measured(json!([{ "setting": 2, "figures": {} }]));
        assert!(Experiment::new(stray, |_| None).is_err());
    }
}

#[cfg(test)]
mod contrast_tests {
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn contrast(baseline: &[f64], other: &[f64], resolution: f64, higher_is_better: Option<bool>) -> Contrast {
        let metric = Metric {
            name: String::new(),
            unit: Unit::Bytes,
            resolution,
        };
        Contrast::new(1, baseline, other, &metric, higher_is_better)
    }

    fn verdict(baseline: &[f64], other: &[f64]) -> Conclusion {
        let gib = |values: &[f64]| values.iter().map(|value| value * 1_073_741_824.0).collect::<Vec<_>>();
        contrast(&gib(baseline), &gib(other), 0.0, None).verdict
    }

    #[test]
    fn the_interval_is_welchs() {
        // Means 10 and 13, variances 1 and 10/3.
        let contrast = contrast(&[9.0, 10.0, 11.0], &[11.0, 12.0, 14.0, 15.0], 0.0, Some(false));
        let (a, b) = (1.0 / 3.0, 10.0 / 3.0 / 4.0);
        let freedom: f64 = (a + b) * (a + b) / (a * a / 2.0 + b * b / 3.0);
        let half = t_quantile(freedom) * (a + b).sqrt();
        let [low, high] = contrast.interval.unwrap();
        assert!((low - (3.0 - half)).abs() < 1e-9 && (high - (3.0 + half)).abs() < 1e-9);
        assert!((freedom - 4.742).abs() < 0.001, "{freedom}");
        assert_eq!(contrast.percent, Some(30.0));
        assert_eq!(contrast.verdict, Conclusion::Worse);
    }

    #[test]
    fn nothing_is_claimed_beyond_the_data() {
        assert_eq!(verdict(&[], &[1.0]), Conclusion::NotMeasured);
        assert_eq!(verdict(&[1.0], &[2.0]), Conclusion::TooFewStarts);
        assert_eq!(verdict(&[1.0, 1.0], &[2.0]), Conclusion::TooFewStarts);
        assert_eq!(verdict(&[1.0, 1.0], &[2.0, 2.0]), Conclusion::TooFewStarts);
        assert_eq!(verdict(&[1.0; 3], &[2.0; 3]), Conclusion::Higher);
        assert_eq!(verdict(&[2.0; 3], &[1.0; 3]), Conclusion::Lower);
        assert_eq!(
            contrast(&[1.0; 3], &[2.0; 3], 0.0, Some(true)).verdict,
            Conclusion::Better
        );
        assert_eq!(
            contrast(&[1.0; 3], &[2.0; 3], 0.0, Some(false)).verdict,
            Conclusion::Worse
        );
        assert_eq!(verdict(&[1.0], &[1.0]), Conclusion::NotSignificant);
        assert_eq!(verdict(&[1.0, 3.0], &[2.0, 4.0]), Conclusion::NotSignificant);
        assert_eq!(
            verdict(&[0.1; 3], &[0.1; 3]),
            Conclusion::NotSignificant,
            "whatever 0.3 / 3 is"
        );
    }

    #[test]
    fn a_sure_difference_that_means_nothing_is_no_finding() {
        assert_eq!(verdict(&[17.340; 3], &[17.341; 3]), Conclusion::Negligible, "0.001 GiB");
        assert_eq!(
            verdict(&[60.0; 3], &[60.2; 3]),
            Conclusion::Higher,
            "0.2 GiB are below 1 %, but a user can use them"
        );
        assert_eq!(verdict(&[0.3; 3], &[0.35; 3]), Conclusion::Higher, "a small engine");
        assert!(is_negligible(1000.0, 1009.0, Unit::TokensPerSecond));
        assert!(!is_negligible(0.0, 1.0, Unit::Count));
    }

    #[test]
    fn a_difference_within_the_rounding_does_not_count() {
        let rounded = |resolution| contrast(&[10.0; 3], &[12.0; 3], resolution, None);
        assert_eq!(rounded(1.0).verdict, Conclusion::Higher);
        assert_eq!(rounded(2.0).verdict, Conclusion::NotSignificant);
        assert_eq!(rounded(1.0).interval, Some([1.0, 3.0]));
    }

    #[test]
    fn noise_is_what_equal_settings_differ_by() {
        let noise = Noise::from_settings(&[vec![1.0, 3.0], vec![10.0, 11.0, 12.0], vec![100.0]]).unwrap();
        assert!((noise.largest - 2.0).abs() < 1e-12);
        // Squares 2 and 2, freedom 1 and 2.
        assert!((noise.std - (4.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Noise::from_settings(&[vec![1.0], vec![]]), None);
    }

    /// A standard normal deviate by Box and Muller (1958).
    fn normal(random: &mut ChaCha8Rng) -> f64 {
        let mut uniform = || (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0;
        (-2.0 * uniform().ln()).sqrt() * (2.0 * std::f64::consts::PI * uniform()).cos()
    }

    /// How often a difference is reported between settings whose means differ by `shift`, in 4,000 experiments.
    fn claimed(first: (usize, f64), other: (usize, f64), shift: f64) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let draw = |random: &mut ChaCha8Rng, (n, std): (usize, f64), mean: f64| -> Vec<f64> {
            (0..n).map(|_| mean + std * normal(random)).collect()
        };
        let seen = (0..4000).filter(|_| {
            let (first, other) = (draw(&mut random, first, 50.0), draw(&mut random, other, 50.0 + shift));
            !matches!(
                verdict(&first, &other),
                Conclusion::NotSignificant | Conclusion::TooFewStarts
            )
        });
        f64::from(u32::try_from(seen.count()).unwrap()) / 4000.0
    }

    /// A rate of 5 % in 4,000 experiments has a standard deviation of 0.34 percentage points.
    #[test]
    fn settings_that_do_not_differ_are_called_different_one_time_in_twenty_at_most() {
        for (first, other) in [
            ((3, 1.0), (3, 1.0)),
            ((5, 1.0), (5, 1.0)),
            ((2, 1.0), (2, 1.0)),
            ((10, 1.0), (10, 3.0)),
        ] {
            let rate = claimed(first, other, 0.0);
            assert!(rate < 0.06, "{first:?} {other:?}: {rate}");
        }
        let rate = claimed((5, 1.0), (5, 1.0), 0.0);
        assert!(
            rate > 0.03,
            "nor hardly ever, which would show that nothing is ever seen: {rate}"
        );
    }

    #[test]
    fn a_difference_of_five_deviations_is_seen_with_three_starts() {
        let rate = claimed((3, 1.0), (3, 1.0), 5.0);
        assert!(rate > 0.9, "{rate}");
        assert!(claimed((3, 1.0), (3, 1.0), 1.0) < 0.3);
    }

    /// Values that jump between two levels, as memory does by the allocator's granularity.
    #[test]
    fn coarse_figures_are_not_taken_for_differences() {
        let mut random = ChaCha8Rng::seed_from_u64(9);
        for starts in [2, 3, 4] {
            let mut coarse = || -> Vec<f64> { (0..starts).map(|_| f64::from(random.next_u32() & 1)).collect() };
            let seen = (0..4000).filter(|_| {
                let (first, other) = (coarse(), coarse());
                !matches!(
                    verdict(&first, &other),
                    Conclusion::NotSignificant | Conclusion::TooFewStarts
                )
            });
            let rate = f64::from(u32::try_from(seen.count()).unwrap()) / 4000.0;
            assert!(rate < 0.06, "{starts}: {rate}");
        }
    }

    proptest! {
        #[test]
        fn swapping_the_settings_reverses_the_verdict(first in prop::collection::vec(-1e3..1e3_f64, 1..6), other in prop::collection::vec(-1e3..1e3_f64, 1..6)) {
            prop_assert_eq!(verdict(&other, &first), verdict(&first, &other).swapped());
        }
    }
}

#[cfg(test)]
mod student_tests {
    use super::t_quantile;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, table) in [
            (1.0, 12.706_205),
            (2.0, 4.302_653),
            (3.0, 3.182_446),
            (4.0, 2.776_445),
            (10.0, 2.228_139),
            (30.0, 2.042_272),
            (1000.0, 1.962_339),
            (1e7, 1.959_964),
        ] {
            assert!(
                (t_quantile(freedom) - table).abs() < 1e-5,
                "{freedom}: {}",
                t_quantile(freedom)
            );
        }
    }

    #[test]
    fn more_freedom_makes_intervals_narrower() {
        let mut before = f64::INFINITY;
        for tenths in 10..500 {
            let now = t_quantile(f64::from(tenths) / 10.0);
            assert!(now < before, "{tenths}");
            before = now;
        }
    }
}
