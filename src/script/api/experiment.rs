//! Experiments: comparisons of settings. Scripts usually use `std/experiment`.

use rhai::plugin::*;
use rhai::{Array, FnPtr, Map};
use serde_json::Value;

use crate::compare;
use crate::experiment::{Experiment, Measurements};
use crate::fault::Fault;
use crate::report;
use crate::run::Event;
use crate::script::host::EngineHandle;
use crate::script::{Caught, from_script, host, options, to_script};

/// Experiments: comparisons of settings.
#[export_module]
pub mod experiment {
    /// Measures one start of an experiment, or replays it: `measure` is called with the engine and returns a value that
    /// can be recorded; `what` distinguishes this start from others of the same engine. Loads and probes inside belong
    /// to it: after a kill, the whole start is measured again. In a dry run nothing is called, and the answer is `()`.
    ///
    /// # Errors
    ///
    /// What `measure` throws; `usage` if it returns a function, a handle or a non-finite number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// let load = #{ concurrency: 2, requests: 4, input: 128, output: 8 };
    /// let seen = engine.trial(#{ repeat: 0 }, |engine| engine.load(load).completed);
    /// assert(seen == 4);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn trial(context: NativeCallContext, engine: &mut EngineHandle, what: Map, measure: FnPtr) -> Caught<Dynamic> {
        let _ = host(&context);
        let what = from_script(&Dynamic::from(what))?;
        let handle = engine.clone();
        let answer = engine.0.here()?.trial(&what, || -> Caught<Value> {
            let measured: Dynamic = measure.call_within_context(&context, (handle,))?;
            Ok(from_script(&measured)?)
        })?;
        Ok(to_script(&answer)?)
    }

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
    /// let order = trial_order(2, 3);
    /// assert(order.len() == 6 && order[0] + order[1] == 1);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn trial_order(context: NativeCallContext, settings: i64, repeats: i64) -> Caught<Array> {
        let count = |name: &str, count: i64| {
            let small = usize::try_from(count).ok().filter(|count| *count <= 1000);
            small.ok_or_else(|| Fault::usage(format!("`{name}` must be from 0 to 1000, but is {count}")))
        };
        let (settings, repeats) = (count("settings", settings)?, count("repeats", repeats)?);
        let order = crate::experiment::order(settings, repeats, host(&context).settings.seed);
        let index = |index: usize| Dynamic::from_int(i64::try_from(index).unwrap_or(i64::MAX));
        Ok(order.into_iter().map(index).collect())
    }

    /// Compares settings with the first one, by every metric. Returns `measured` with `comparisons`, and empty
    /// `further` and `conclusions`, which may be filled in before it is shown.
    ///
    /// `measured` is `#{ name, asked, settings, order, metrics, trials }`. `settings` are `#{ name, options }`, `order`
    /// is the result of `trial_order`, `metrics` are `#{ name, unit, resolution }` (`resolution`: what its source
    /// rounds to, default 0) with the unit `bytes`, `tokens`, `tokens/s`, `requests/s`, `s`, `ms`, `%` or `count`, and
    /// `trials` are `#{ setting, figures, failed, details }`: the setting's index, numbers by metric, and `()` or why
    /// it failed. A comparison is `#{ name, unit, values, means, noise, contrasts }`: the value of each start and the
    /// mean, by setting; the difference between equal settings, `#{ std, largest }`; and for each further setting
    /// `#{ setting, difference, percent, interval, verdict }`. The interval is Welch's at 95 %. The verdict is `better` or
    /// `worse`, or `higher` or `lower` for a metric without a better side; `negligible` (below 1 %, and below 0.1 GiB of
    /// memory); `not significant`, `too few starts` or `not measured`.
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
    /// let found = hold_settings(#{ name: "mine", asked: "", settings: settings, order: [], metrics: metrics, trials: trials });
    /// let off = found.comparisons[0].contrasts[0];
    /// assert(off.difference == -4.0 && off.verdict == "lower");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn hold_settings(measured: Map) -> Caught<Dynamic> {
        let measured: Measurements = options(measured)?;
        Ok(to_script(&Experiment::new(measured, compare::higher_is_better)?)?)
    }

    /// Shows and records an experiment: the result of `hold_settings`, optionally with `further` values
    /// (`#{ name, unit, value }`) and `conclusions` (sentences). Returns it with `finding`, the result in one sentence.
    ///
    /// # Errors
    ///
    /// `usage` for anything else.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let settings = [#{ name: "on", options: #{} }, #{ name: "off", options: #{} }];
    /// let found = hold_settings(#{ name: "mine", asked: "", settings: settings, order: [], metrics: [], trials: [] });
    /// found.conclusions.push("nothing was measured");
    /// assert(note_experiment(found).finding != "");
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn note_experiment(context: NativeCallContext, found: Map) -> Caught<Dynamic> {
        let host = host(&context);
        let found = compare::read_experiment(&from_script(&Dynamic::from(found))?)?;
        let mut value = serde_json::to_value(&found).map_err(|error| Fault::internal(error.to_string()))?;
        value["finding"] = report::experiment_findings(&found).join("; ").into();
        host.run.note(Event::Experiment {
            name: found.measured.name.clone(),
            value: value.clone(),
        })?;
        Ok(to_script(&value)?)
    }
}
