//! The result of an experiment in one sentence for each setting but the first.

use crate::experiment::{Experiment, Verdict};
use crate::fmt::{list, metric_label};
use crate::report::changes::{Change, finding};
use crate::unit::Unit;

/// Metrics without a difference that a finding names.
const MAX_NAMED: usize = 3;

/// The result in one sentence for each setting but the first.
#[must_use]
pub fn findings(found: &Experiment) -> Vec<String> {
    (1..found.measured.settings.len())
        .map(|setting| setting_finding(found, setting))
        .collect()
}

fn setting_finding(found: &Experiment, setting: usize) -> String {
    let settings = &found.measured.settings;
    for index in [setting, 0] {
        if let Some(why) = never_started(found, index) {
            return format!("{} was not measured: {why}", settings[index].name);
        }
    }
    // An option that is turned off is a finding about turning it on.
    let switched_off = settings[0].name.ends_with("=true") && settings[setting].name.ends_with("=false");
    let (before, after) = if switched_off { (setting, 0) } else { (0, setting) };
    let name = &settings[after].name;
    let subject = name.strip_suffix("=true").map_or_else(|| name.clone(), metric_label);
    let of = |metric: &str| {
        let comparison = found.comparisons.iter().find(|one| one.name == metric)?;
        let verdict = comparison
            .contrasts
            .iter()
            .find(|contrast| contrast.setting == setting)?
            .verdict;
        let change = Change {
            label: metric_label(metric).replace("request throughput", "throughput"),
            unit: comparison.unit,
            before: comparison.means[before]?,
            after: comparison.means[after]?,
            verdict: if switched_off { verdict.swapped() } else { verdict },
        };
        Some(change)
    };
    let throughput = of("request_throughput").or_else(|| of("output_throughput"));
    let faster = throughput.as_ref().is_some_and(|change| change.verdict.is_difference());
    // Latencies follow the throughput of a closed loop.
    let latencies = ["mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"]
        .into_iter()
        .filter(|_| !faster);
    let changes: Vec<Change> = [throughput, of("kv_tokens")]
        .into_iter()
        .chain(latencies.map(&of))
        .chain([
            of("memory_beside_kv").or_else(|| of("memory")),
            of("failed"),
            of("start_time"),
        ])
        .flatten()
        // Nobody waits for less than a second.
        .filter(|change| change.unit != Unit::Seconds || (change.after - change.before).abs() >= 1.0)
        .collect();
    let labels = |wanted: fn(Verdict) -> bool| -> Vec<String> {
        changes
            .iter()
            .filter(|change| wanted(change.verdict))
            .map(|change| change.label.clone())
            .take(MAX_NAMED)
            .collect()
    };
    let any = changes.iter().any(|change| change.verdict.is_difference());
    let mut no_difference = labels(|verdict| matches!(verdict, Verdict::NotSignificant | Verdict::Negligible));
    // Where something differs, only throughput is worth saying that it does not.
    no_difference.retain(|label| !any || changes.first().is_some_and(|first| first.label == *label));
    let too_few = labels(|verdict| verdict == Verdict::TooFewStarts);
    let repeat = "too few starts; set `repeats` to 3 or more";
    match (any, too_few.is_empty(), changes.is_empty()) {
        (_, _, true) => format!("{subject}: nothing was measured"),
        (false, false, _) => format!("{subject}: no difference can be judged from {repeat}"),
        (true, false, _) => format!(
            "{}; {} cannot be judged from {repeat}",
            finding(&subject, &changes, &[]),
            list(&too_few)
        ),
        (_, true, _) => finding(&subject, &changes, &no_difference),
    }
}

/// Why no start of a setting succeeded.
fn never_started(found: &Experiment, setting: usize) -> Option<String> {
    let mut trials = found
        .measured
        .trials
        .iter()
        .filter(|trial| trial.setting == setting)
        .peekable();
    let first = trials.peek()?.failed.as_ref()?;
    let why = first["message"].as_str().unwrap_or("unknown reason").to_owned();
    trials.all(|trial| trial.failed.is_some()).then_some(why)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::experiment::Measurements;

    #[test]
    fn an_option_that_is_turned_off_is_a_finding_about_turning_it_on() {
        let trial =
            |setting: usize, rate: f64| json!({ "setting": setting, "figures": { "request_throughput": rate } });
        let measured: Measurements = serde_json::from_value(json!({
            "name": "CUDA graphs", "asked": "", "order": [],
            "settings": [{ "name": "cuda_graphs=true", "options": {} }, { "name": "cuda_graphs=false", "options": {} }],
            "metrics": [{ "name": "request_throughput", "unit": "requests/s" }],
            "trials": [trial(0, 11.0), trial(0, 11.1), trial(0, 11.2), trial(1, 5.5), trial(1, 5.4), trial(1, 5.6)],
        }))
        .unwrap();
        let found = Experiment::new(measured, crate::compare::higher_is_better).unwrap();
        assert_eq!(
            findings(&found),
            ["CUDA graphs: 2.0x throughput (11.1 against 5.5 requests/s)"]
        );
    }
}
