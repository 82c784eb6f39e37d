//! An experiment as a whole: what was set, what each start gave, and what follows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::contrast::{Contrast, Noise};
use crate::fault::{Fault, Result};
use crate::unit::Unit;

/// What was set and measured: what `std/experiment` hands over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What it is called: the knob and the engine.
    pub name: String,
    /// What was asked of every start, for people.
    pub asked: String,
    /// The settings, the one first that the others are held against.
    pub settings: Vec<Setting>,
    /// The setting of each start by its index, in the order of the starts.
    pub order: Vec<usize>,
    /// The figures, in the order in which they are shown.
    pub metrics: Vec<Metric>,
    /// The starts, in their order.
    pub trials: Vec<Trial>,
}

/// One setting of the knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// What it is called: `cuda_graphs=true`.
    pub name: String,
    /// What it adds to the options of the launch.
    pub options: Value,
}

/// A figure by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// What its source rounds it to: a smaller difference is not seen.
    #[serde(default)]
    pub resolution: f64,
}

/// What one start gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Its setting's index.
    pub setting: usize,
    /// Figures by name; what could not be measured is none.
    pub figures: BTreeMap<String, Option<f64>>,
    /// Why it gave none, and what shows it: `#{ message, cause, evidence }`.
    #[serde(default)]
    pub failed: Option<Value>,
    /// What else there is to keep of it.
    #[serde(default)]
    pub details: Value,
}

/// A figure that follows from the others, such as the memory of one graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// Its value; none where what it follows from was not measured.
    pub value: Option<f64>,
}

/// All settings by one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The figure.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// By setting, the value of each of its starts.
    pub values: Vec<Vec<f64>>,
    /// By setting, their mean; none where there is no value.
    pub means: Vec<Option<f64>>,
    /// What starts with equal settings differ by; none where no setting was repeated.
    pub noise: Option<Noise>,
    /// Every setting but the first against the first.
    pub contrasts: Vec<Contrast>,
}

/// An experiment with what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What was set and measured.
    #[serde(flatten)]
    pub measured: Measured,
    /// The settings against each other by every figure that any start gave.
    pub comparisons: Vec<Comparison>,
    /// Figures that follow.
    #[serde(default)]
    pub further: Vec<Figure>,
    /// What it comes to, in sentences.
    #[serde(default)]
    pub conclusions: Vec<String>,
}

impl Experiment {
    /// Compares what was measured.
    ///
    /// # Errors
    ///
    /// `usage` for fewer than two settings, two of one name, or a start of a setting that is not there.
    pub fn of(measured: Measured) -> Result<Self> {
        measured.check()?;
        let comparisons = measured.metrics.iter().filter_map(|metric| measured.compared(metric));
        Ok(Self {
            comparisons: comparisons.collect(),
            measured,
            further: Vec::new(),
            conclusions: Vec::new(),
        })
    }
}

impl Measured {
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
            return Err(Fault::usage("a start belongs to no setting"));
        }
        Ok(())
    }

    /// The settings by one figure; none where no start gave it.
    fn compared(&self, metric: &Metric) -> Option<Comparison> {
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
        let contrast = |setting: usize| Contrast::of(setting, &values[0], &values[setting], metric.resolution);
        Some(Comparison {
            name: metric.name.clone(),
            unit: metric.unit,
            means: values.iter().map(|values| mean(values)).collect(),
            noise: Noise::of(&values),
            contrasts: (1..values.len()).map(contrast).collect(),
            values,
        })
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    let first = values.first()?;
    Some(first + values.iter().map(|value| value - first).sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Verdict;
    use super::*;

    fn measured(trials: Value) -> Measured {
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
        let found = Experiment::of(measured(json!([
            { "setting": 0, "figures": { "memory": 7 } },
            { "setting": 1, "figures": {}, "failed": { "message": "out of memory" } },
        ])))
        .unwrap();
        assert_eq!(found.comparisons.len(), 1, "what nobody gave is not shown");
        let memory = &found.comparisons[0];
        assert_eq!((memory.means[0], memory.means[1]), (Some(7.0), None));
        assert_eq!(memory.contrasts[0].verdict, Verdict::NotMeasured);
        let kept = serde_json::to_value(&found).unwrap();
        assert_eq!(
            serde_json::from_value::<Experiment>(kept).unwrap(),
            found,
            "survives the journal"
        );
    }

    #[test]
    fn settings_are_told_apart_by_name() {
        let mut twice = measured(json!([]));
        twice.settings[1].name = "on".to_owned();
        assert!(Experiment::of(twice).unwrap_err().message.contains("`on`"));
        let mut one = measured(json!([]));
        one.settings.pop();
        assert!(Experiment::of(one).unwrap_err().message.contains("two settings"));
        let stray = measured(json!([{ "setting": 2, "figures": {} }]));
        assert!(Experiment::of(stray).is_err());
    }
}
