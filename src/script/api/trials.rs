//! Experiments: the order of their trials, and the comparison of their settings.

use rhai::plugin::*;
use rhai::{Array, Map};
use serde_json::Value;

use crate::experiment::{Experiment, Measurements};
use crate::fault::{Fault, Result};
use crate::run::Event;
use crate::script::convert::caught;
use crate::script::{Caught, begin_call, from_script, options, to_script};
use crate::{compare, report};

/// Trials of an experiment: starts of an engine with different settings.
#[export_module]
pub mod trials {
    /// The order of an experiment's starts, as indices of settings: `repeats` rounds of all settings, each in its own
    /// random order that depends on the run's seed.
    ///
    /// # Errors
    ///
    /// `usage` for negative numbers, or more than 1000 settings or repeats.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let order = trials::order(2, 3);
    /// assert(order.len() == 6 && order[0] + order[1] == 1);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn order(context: NativeCallContext, settings: i64, repeats: i64) -> Caught<Array> {
        let count = |name: &str, count: i64| {
            let small = usize::try_from(count).ok().filter(|count| *count <= 1000);
            small.ok_or_else(|| Fault::usage(format!("`{name}` must be from 0 to 1000, but is {count}")))
        };
        let (settings, repeats) = (count("settings", settings)?, count("repeats", repeats)?);
        let order = crate::experiment::order(settings, repeats, begin_call(&context).settings.seed);
        let index = |index: usize| Dynamic::from_int(i64::try_from(index).unwrap_or(i64::MAX));
        Ok(order.into_iter().map(index).collect())
    }

    /// The trials (`engine.trial`) that earlier executions of a resumed run measured or began, and that this one has not
    /// requested yet: an array of `#{ what, ended }`, in the order of their ends, and then those that were cut off.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(trials::earlier() == [], "no run was resumed");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn earlier(context: NativeCallContext) -> Caught<Array> {
        let earlier = begin_call(&context).run.earlier_trials();
        Ok(earlier.iter().map(to_script).collect::<Result<_>>()?)
    }

    /// Compares settings with the first one, by every metric. Returns `measured` with `comparisons`, and empty
    /// `further` and `conclusions`, which may be filled in before it is shown.
    ///
    /// `measured` is `#{ name, asked, settings, order, metrics, trials }`. `settings` are `#{ name, options }`, `order`
    /// is the result of `trials::order`, `metrics` are `#{ name, unit, resolution }` (`resolution`: the step to which its
    /// source rounds, default 0) with the unit `bytes`, `tokens`, `tokens/s`, `requests/s`, `s`, `ms`, `%` or `count`,
    /// and `trials` are `#{ setting, figures, failed, details }`: the setting's index, numbers by metric, and the
    /// reason if it failed, else `()`. A comparison is `#{ name, unit, values, means, noise, contrasts }`: the value of
    /// each start and the mean, by setting; the difference between equal settings, `#{ std, largest }`; and for each
    /// further setting `#{ setting, difference, percent, interval, verdict }`. The interval is Welch's at 95 %. The
    /// verdict is `better` or `worse`, or `higher` or `lower` for a metric without a better side; `negligible` (below 1
    /// %, and below 0.1 GiB of memory); `not significant`, `too few starts` or `not measured`.
    ///
    /// # Errors
    ///
    /// `usage` for fewer than two settings, or two with the same name.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let trials = [5, 6, 7].map(|n| #{ setting: 0, figures: #{ n: n } }) + [1, 2, 3].map(|n| #{ setting: 1, figures: #{ n: n } });
    /// let settings = [#{ name: "on", options: #{} }, #{ name: "off", options: #{} }];
    /// let metrics = [#{ name: "n", unit: "count" }];
    /// let found = trials::compare(#{ name: "mine", asked: "", settings: settings, order: [], metrics: metrics, trials: trials });
    /// let off = found.comparisons[0].contrasts[0];
    /// assert(off.difference == -4.0 && off.verdict == "lower");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn compare(measured: Map) -> Caught<Dynamic> {
        let measured: Measurements = options(measured)?;
        Ok(to_script(&caught(Experiment::new(
            measured,
            compare::higher_is_better,
        ))?)?)
    }

    /// Shows and records an experiment: the result of `trials::compare`, optionally with `further` values
    /// (`#{ name, unit, value }`) and `conclusions` (sentences). Returns it with `finding`, the result in one sentence.
    ///
    /// # Errors
    ///
    /// `usage` if `found` has another form.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let settings = [#{ name: "on", options: #{} }, #{ name: "off", options: #{} }];
    /// let found = trials::compare(#{ name: "mine", asked: "", settings: settings, order: [], metrics: [], trials: [] });
    /// found.conclusions.push("nothing was measured");
    /// assert(trials::note(found).finding != "");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn note(context: NativeCallContext, found: Map) -> Caught<Dynamic> {
        Ok(to_script(&record_experiment(&context, found, None)?)?)
    }

    /// Records an unfinished experiment, as `show_so_far` records an unfinished result. `missing` says what is still to
    /// be measured.
    ///
    /// # Errors
    ///
    /// As `trials::note`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let settings = [#{ name: "on", options: #{} }, #{ name: "off", options: #{} }];
    /// let found = trials::compare(#{ name: "mine", asked: "", settings: settings, order: [0, 1], metrics: [], trials: [] });
    /// trials::note_so_far(found, "2 of 2 starts");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn note_so_far(context: NativeCallContext, found: Map, missing: &str) -> Caught<()> {
        record_experiment(&context, found, Some(missing.to_owned()))?;
        Ok(())
    }
}

/// Records an experiment and returns it as stored in the journal.
fn record_experiment(context: &NativeCallContext, found: Map, missing: Option<String>) -> Result<Value> {
    let found = compare::read_experiment(&from_script(&Dynamic::from(found))?)?;
    let mut value = serde_json::to_value(&found).map_err(Fault::internal)?;
    value["finding"] = report::experiment_findings(&found).join("; ").into();
    let (name, kept) = (found.measured.name, value.clone());
    begin_call(context).run.note(Event::Experiment {
        name,
        value: kept,
        missing,
    })?;
    Ok(value)
}
