//! Experiments: the finding in a sentence, and each setting against the first one as a table.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::answer::evidence::with_cause;
use crate::compare::experiments;
use crate::experiment::{Conclusion, Contrast, Experiment, MetricComparison, is_negligible};
use crate::fmt::{GIB, Unit, list, metric_label, relative, signed, with_unit, without_negative_zero};
use crate::report::comparison::{change_phrase, decimals};
use crate::report::document::Section;
use crate::report::plot::{Entry, Sheet, unit_name};
use crate::report::sections::source::{Source, numbered};
use crate::report::{Block, Count, Page, Weight};

/// Pages at least this wide also show relative differences and the run-to-run variation.
const WIDE: usize = 100;

/// The columns that only a wide page shows.
const ONLY_WIDE: std::ops::Range<usize> = 5..7;

/// Maximum number of unchanged metrics that a finding names.
const MAX_NAMED: usize = 3;

/// The sections. Unreadable experiments are reported in `missing`.
pub(super) fn sections(source: &Source, _: &mut Vec<String>) -> Vec<Section> {
    let several = source.found.experiments.len() > 1;
    let section = |(number, (_, found)): (usize, (&str, Experiment))| {
        let anchor = numbered("experiment", number, several);
        Section::new(anchor, format!("Experiment: {}", found.measured.name)).with(blocks(&found, true))
    };
    (1..).zip(experiments(source.found)).map(section).collect()
}

/// An experiment for the terminal.
pub fn experiment(found: &Experiment, page: Page) -> Vec<Block> {
    blocks(found, page.width >= WIDE)
}

/// The findings, a paragraph each; then a table for each setting, failures, and what follows.
fn blocks(found: &Experiment, wide: bool) -> Vec<Block> {
    let measured = &found.measured;
    let mut blocks: Vec<Block> = findings(found).into_iter().map(Block::Paragraph).collect();
    let mut head = vec![format!("experiment: {}", measured.name), measured.asked.clone()];
    head.retain(|line| !line.is_empty());
    blocks.extend(Block::list("", head, Weight::Normal));
    blocks.extend(tables(found).into_iter().map(|mut sheet| {
        if !wide {
            sheet.columns.drain(ONLY_WIDE);
            sheet.rows.iter_mut().for_each(|row| drop(row.drain(ONLY_WIDE)));
        }
        Block::Table(sheet)
    }));
    blocks.extend(failures(found));
    blocks.extend(derived(found).map(Block::Table));
    blocks.extend(Block::list("conclusions", found.conclusions.clone(), Weight::Normal));
    let starts = (0..measured.settings.len()).map(|index| successful_starts(found, index).to_string());
    blocks.push(Block::Paragraph(format!(
        "means of {} starts; ±: half the 95 % interval of the difference (Welch); run-to-run: the most that two starts with equal settings differed by",
        list(&starts.collect::<Vec<_>>())
    )));
    blocks
}

/// How many starts of a setting succeeded.
fn successful_starts(found: &Experiment, setting: usize) -> usize {
    found
        .measured
        .trials
        .iter()
        .filter(|trial| trial.setting == setting && trial.failed.is_none())
        .count()
}

/// A table for each setting against the first: a row for each metric, with its verdict.
fn tables(found: &Experiment) -> Vec<Sheet> {
    let settings = &found.measured.settings;
    let common = common_prefix_length(found);
    let tables = settings.iter().enumerate().skip(1).map(|(index, setting)| {
        let columns = [
            settings[0].name[..common].trim(),
            &settings[0].name[common..],
            &setting.name[common..],
            "difference",
            "95 %",
            "%",
            "run-to-run",
            "",
        ];
        let rows = found.comparisons.iter().filter_map(|one| {
            let contrast = one.contrasts.iter().find(|contrast| contrast.setting == index)?;
            Some(row(one, contrast, index))
        });
        Sheet::new(columns, rows)
    });
    tables.collect()
}

fn row(comparison: &MetricComparison, contrast: &Contrast, setting: usize) -> Vec<Entry> {
    let scale = if comparison.unit == Unit::Bytes { GIB } else { 1.0 };
    let means = [comparison.means[0], comparison.means[setting]];
    let digits = decimals(means.into_iter().flatten(), comparison.unit);
    let text = |value: f64| without_negative_zero(format!("{:.digits$}", value / scale));
    let shown = |value: Option<f64>| Entry::from(value.map(text));
    vec![
        label(comparison).into(),
        shown(means[0]),
        shown(means[1]),
        contrast.difference.map(|value| signed(text(value))).into(),
        contrast
            .interval
            .map(|[low, high]| format!("± {}", text((high - low) / 2.0)))
            .into(),
        contrast
            .percent
            .map(|percent| relative(Some(percent)).replace(" %", ""))
            .into(),
        shown(comparison.noise.map(|noise| noise.largest)),
        contrast.verdict.name().into(),
    ]
}

/// Length in bytes of the common prefix of all setting names, cut at a word boundary.
fn common_prefix_length(found: &Experiment) -> usize {
    let names = found.measured.settings.iter().map(|setting| setting.name.as_str());
    let shared = names.reduce(|shared, name| {
        let same = shared.char_indices().zip(name.chars()).take_while(|((_, a), b)| a == b);
        &shared[..same.map(|((at, a), _)| at + a.len_utf8()).last().unwrap_or(0)]
    });
    shared
        .and_then(|shared| shared.rfind([' ', '=']))
        .map_or(0, |at| at + 1)
}

/// The metric's name with its unit, so that the cells need none.
fn label(comparison: &MetricComparison) -> String {
    let name = metric_label(&comparison.name);
    match comparison.unit {
        Unit::Bytes => format!("{name}, GiB"),
        // The name already contains the unit.
        Unit::Tokens | Unit::Count => name,
        Unit::TokensPerSecond => name.replace("throughput", "tokens/s"),
        Unit::RequestsPerSecond => name.replace("request throughput", "requests/s"),
        unit => format!("{name}, {}", unit_name(unit)),
    }
}

/// Metrics that were derived from others.
fn derived(found: &Experiment) -> Option<Sheet> {
    let rows = found.further.iter().map(|one| {
        let value = one.value.map(|value| with_unit(value, one.unit));
        vec![Entry::from(metric_label(&one.name)), value.into()]
    });
    (!found.further.is_empty()).then(|| Sheet::new(["derived", ""], rows))
}

/// The failed starts with their reasons, each once.
fn failures(found: &Experiment) -> Option<Block> {
    let failed = found
        .measured
        .trials
        .iter()
        .filter_map(|trial| Some((trial.setting, trial.failed.as_ref()?)));
    let (skipped, tried): (Vec<_>, Vec<_>) = failed.partition(|(_, failed)| failed["tried"] == false);
    let rest = match skipped.len() {
        0 => String::new(),
        skipped => format!("; {} skipped", Count(skipped, "repeat")),
    };
    let reasons: BTreeSet<String> = tried
        .iter()
        .map(|(setting, failed)| {
            let message = failed["message"].as_str().unwrap_or("unknown reason");
            let why = with_cause(message, failed["cause"].as_str());
            let remedy = failed["remedy"].as_str();
            let remedy = remedy.map(|remedy| format!("; remedy: {remedy}"));
            let name = &found.measured.settings[*setting].name;
            format!("{name}: {why}{}", remedy.unwrap_or_default())
        })
        .collect();
    let title = format!("{} failed{rest}", Count(tried.len(), "start"));
    Block::list(&title, reasons.into_iter().collect(), Weight::Warning)
}

/// Lines for a dry run: the settings in the order of their starts.
pub fn planned_starts(experiment: &Value) -> Vec<String> {
    let order = experiment["order"].as_array().into_iter().flatten();
    let names: Vec<&str> = order
        .map(|index| {
            let setting = &experiment["settings"][index.as_u64().unwrap_or(0) as usize];
            setting["name"].as_str().unwrap_or_default()
        })
        .collect();
    vec![
        format!("{} separate starts: {}", names.len(), names.join(", ")),
        format!("workload, {}", experiment["asked"].as_str().unwrap_or_default()),
        "duration: known after the first one".to_owned(),
    ]
}

/// The result in one sentence for each setting but the first.
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
    let change = |metric: &str| {
        let comparison = found.comparisons.iter().find(|one| one.name == metric)?;
        let contrast = comparison
            .contrasts
            .iter()
            .find(|contrast| contrast.setting == setting)?;
        Some(Change {
            label: metric_label(metric).replace("request throughput", "throughput"),
            unit: comparison.unit,
            before: comparison.means[before]?,
            after: comparison.means[after]?,
            verdict: if switched_off {
                contrast.verdict.swapped()
            } else {
                contrast.verdict
            },
        })
    };
    let throughput = change("request_throughput").or_else(|| change("output_throughput"));
    let faster = throughput.as_ref().is_some_and(|change| change.verdict.is_difference());
    // In a closed loop, latencies follow from the throughput.
    let latencies = ["mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"]
        .into_iter()
        .filter(|_| !faster);
    let mut changes: Vec<Change> = throughput.into_iter().chain(change("kv_tokens")).collect();
    changes.extend(latencies.filter_map(change));
    changes.extend(change("memory_beside_kv").or_else(|| change("memory")));
    changes.extend(["failed", "start_time"].into_iter().filter_map(change));
    // A difference of less than a second in a duration does not matter.
    changes.retain(|change| change.unit != Unit::Seconds || (change.after - change.before).abs() >= 1.0);
    if changes.is_empty() {
        return format!("{subject}: nothing was measured");
    }
    let too_few: Vec<&Change> = changes
        .iter()
        .filter(|change| change.verdict == Conclusion::TooFewStarts)
        .collect();
    let repeat = "too few starts; set `repeats` to 3 or more";
    if changes.iter().any(|change| change.verdict.is_difference()) {
        let mut finding = change_finding(&subject, &changes);
        if !too_few.is_empty() {
            let labels: Vec<String> = too_few
                .iter()
                .take(MAX_NAMED)
                .map(|change| change.label.clone())
                .collect();
            finding += &format!("; {} cannot be judged from {repeat}", list(&labels));
        }
        return finding;
    }
    if too_few.is_empty() {
        return change_finding(&subject, &changes);
    }
    let seen: Vec<String> = too_few
        .iter()
        .filter(|change| !is_negligible(change.before, change.after, change.unit))
        .map(|change| change.phrase())
        .take(MAX_NAMED)
        .collect();
    if seen.is_empty() {
        format!("{subject}: no difference can be judged from {repeat}")
    } else {
        format!("{subject}: seen, but not judged: {}; {repeat}", list(&seen))
    }
}

/// A metric that changed.
struct Change {
    /// Its name for people.
    label: String,
    unit: Unit,
    before: f64,
    after: f64,
    verdict: Conclusion,
}

impl Change {
    fn phrase(&self) -> String {
        change_phrase(&self.label, self.unit, self.before, self.after)
    }
}

/// The gains of `subject`, their cost, and the metrics that did not change.
fn change_finding(subject: &str, changes: &[Change]) -> String {
    let phrases = |wanted: &[Conclusion]| {
        let wanted = changes.iter().filter(|change| wanted.contains(&change.verdict));
        list(&wanted.map(Change::phrase).collect::<Vec<_>>())
    };
    let (better, worse) = (phrases(&[Conclusion::Better]), phrases(&[Conclusion::Worse]));
    let mut parts = match (better.is_empty(), worse.is_empty()) {
        (false, false) => vec![format!("{better} for {worse}")],
        (false, true) => vec![better],
        (true, false) => vec![format!("worse: {worse}")],
        (true, true) => Vec::new(),
    };
    parts.extend(Some(phrases(&[Conclusion::Higher, Conclusion::Lower])).filter(|other| !other.is_empty()));
    let no_difference =
        |change: &&Change| matches!(change.verdict, Conclusion::NotSignificant | Conclusion::Negligible);
    // If something differs, only the first metric, the throughput, is worth reporting as unchanged.
    let most = if parts.is_empty() { changes.len() } else { 1 };
    let same: Vec<String> = changes
        .iter()
        .take(most)
        .filter(no_difference)
        .take(MAX_NAMED)
        .map(|change| change.label.clone())
        .collect();
    if !same.is_empty() {
        parts.push(format!("no significant difference in {}", list(&same)));
    }
    format!("{subject}: {}", parts.join("; "))
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
    use crate::report::text;

    fn found() -> Experiment {
        let trial = |setting: usize, memory: f64, start: f64| json!({ "setting": setting, "figures": { "memory": memory * GIB, "start_time": start } });
        let measured: Measurements = serde_json::from_value(json!({
            "name": "cuda_graphs of vllm", "asked": "8 requests",
            "settings": [{ "name": "on", "options": {} }, { "name": "off", "options": {} }],
            "order": [0, 1, 1, 0, 0, 1],
            "metrics": [{ "name": "memory", "unit": "bytes" }, { "name": "start_time", "unit": "s" }, { "name": "kv_tokens", "unit": "tokens" }],
            "trials": [
                trial(0, 17.0, 50.0), trial(1, 16.5, 30.0), trial(1, 16.5, 31.0), trial(0, 17.0, 52.0), trial(0, 17.0, 51.0),
                { "setting": 1, "figures": {}, "failed": { "message": "CUDA out of memory", "cause": "memory" } },
            ],
        }))
        .unwrap();
        let mut found = Experiment::new(measured, crate::compare::higher_is_better).unwrap();
        found.conclusions.push("graphs cost half a GiB".to_owned());
        found
    }

    #[test]
    fn the_finding_comes_first_and_the_verdict_stands_beside_its_figure() {
        let text = text(&experiment(&found(), Page::default()), Page::default());
        let expected = "\
                    on    off  difference    95 %
  memory, GiB    17.00  16.50       -0.50       -  too few starts
  start time, s   51.0   30.5       -20.5  +- 2.5  better";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("1 start failed\n  off: CUDA out of memory (memory)"),
            "{text}"
        );
        assert!(
            text.starts_with(
                "off: 40 % lower start time (30.5 against 51.0 s); memory cannot be judged from\n    too few starts"
            ),
            "{text}"
        );
        assert!(
            text.contains("means of 3 and 2 starts") && !text.contains("kv tokens"),
            "{text}"
        );
    }

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
