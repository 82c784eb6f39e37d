//! Experiments: one engine with one option at several settings, each started anew, and the effect of the settings
//! compared with the variation between equal starts.
//!
//! Pure computation; `std/experiment` starts engines and measures. The statistical unit is a start: a load of a
//! thousand requests on one start is one value, because its requests share that start. [`order`] randomizes the
//! settings, `contrast` compares them, and [`Experiment`] is the result as stored and reported.

mod contrast;

use contrast::mean;
pub use contrast::t_quantile;
pub use contrast::{Contrast, Noise, Verdict, is_negligible};

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::{Fault, Result};
use crate::unit::Unit;

/// What was set and measured, as `std/experiment` passes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// The name: the option and the engine.
    pub name: String,
    /// What every start was asked to do, for people.
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
pub struct Comparison {
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
    /// What was set and measured.
    #[serde(flatten)]
    pub measured: Measurements,
    /// A comparison for every metric that any start measured.
    pub comparisons: Vec<Comparison>,
    /// Derived values.
    pub further: Vec<Figure>,
    /// The conclusions, in sentences.
    pub conclusions: Vec<String>,
}

/// What of an experiment is read back from a journal or a script; its comparisons are computed again.
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
    /// Compares what was measured. `higher_is_better` of a metric is `None` where neither side is.
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

    /// Reads an experiment back and compares its measurements again, so that those recorded by older programs get
    /// today's verdicts.
    ///
    /// # Errors
    ///
    /// `usage` for anything else than an experiment.
    pub fn read(value: &Value, higher_is_better: impl Fn(&Metric) -> Option<bool>) -> Result<Self> {
        let recorded = Recorded::deserialize(value).map_err(|error| {
            Fault::usage(format!("this is not an experiment: {error}")).hint("give the result of `hold_settings`")
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
                Fault::usage("an experiment needs two settings or more").hint("give several, such as `[true, false]`")
            );
        }
        for (index, setting) in self.settings.iter().enumerate() {
            if self.settings[..index].iter().any(|other| other.name == setting.name) {
                return Err(Fault::usage(format!("two settings are called `{}`", setting.name))
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
            return Err(Fault::usage("a start has a setting that is not listed"));
        }
        Ok(())
    }

    /// The comparison by one metric; `None` if no start measured it.
    fn compare(&self, metric: &Metric, higher_is_better: Option<bool>) -> Option<Comparison> {
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
        Some(Comparison {
            name: metric.name.clone(),
            unit: metric.unit,
            means: values.iter().map(|values| mean(values)).collect(),
            noise: Noise::from_settings(&values),
            contrasts: (1..values.len()).map(contrast).collect(),
            values,
        })
    }
}

/// The order in which settings are started, as the index of each start's setting, `repeats` times each: rounds with
/// every setting once, shuffled in each round (a randomized complete block design).
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

    use super::Verdict;
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
        assert_eq!(memory.contrasts[0].verdict, Verdict::NotMeasured);
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
