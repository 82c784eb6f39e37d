//! An experiment as tables: each setting against the first one, metric by metric, with confidence and noise.

use std::collections::BTreeSet;

use console::Style;
use serde_json::Value;

use super::comparison_input::lines;
use super::table::table;
use super::{Count, Page, SIMULATED};
use crate::experiment::{Comparison, Contrast, Experiment, Setting, Verdict};
use crate::fmt::{gib_number, relative, signed, with_unit};
use crate::unit::Unit;

/// From this page width on, the relative difference is shown too.
const WIDE: usize = 100;

/// Formats an experiment for the terminal.
#[must_use]
pub fn experiment(found: &Experiment, simulated: bool, page: Page) -> String {
    let measured = &found.measured;
    let mut parts = Vec::new();
    if simulated {
        parts.push(SIMULATED.to_owned());
    }
    let head = [format!("experiment: {}", measured.name), measured.asked.clone()];
    parts.push(
        head.into_iter()
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("\n"),
    );
    for (index, setting) in measured.settings.iter().enumerate().skip(1) {
        parts.push(setting_table(found, index, setting, page));
    }
    parts.extend(failures(found, page));
    if !found.further.is_empty() {
        let shown =
            |value: Option<f64>, unit| value.map_or_else(|| "not measured".to_owned(), |value| with_unit(value, unit));
        let rows = found.further.iter();
        let width = rows.clone().map(|one| one.name.chars().count()).max().unwrap_or(0);
        let rows: Vec<Vec<String>> = rows
            .map(|one| {
                vec![
                    format!("{:width$}", metric_label(&one.name)),
                    shown(one.value, one.unit),
                ]
            })
            .collect();
        let table = table(&["", ""], &rows, page);
        // The table has no headings: drop the empty first line.
        let lines = table.lines().skip_while(|line| line.trim().is_empty());
        parts.push(lines.collect::<Vec<_>>().join("\n"));
    }
    let conclusions: Vec<&str> = found.conclusions.iter().map(String::as_str).collect();
    if !conclusions.is_empty() {
        parts.push(format!("conclusions\n{}", lines(conclusions.into_iter(), page)));
    }
    parts.push(lines([legend(found)].iter().map(String::as_str), page));
    parts.join("\n\n")
}

fn legend(found: &Experiment) -> String {
    let measured = &found.measured;
    let started = |index: usize| {
        measured
            .trials
            .iter()
            .filter(move |trial| trial.setting == index && trial.failed.is_none())
    };
    let starts: Vec<String> = (0..measured.settings.len())
        .map(|index| started(index).count().to_string())
        .collect();
    format!(
        "means of {} starts; `95 %`: half the width of Welch's interval of the difference; `noise`: the most that two starts with equal \
         settings differed by",
        starts.join(" and ")
    )
}

/// Table of one setting against the first setting.
fn setting_table(found: &Experiment, index: usize, setting: &Setting, page: Page) -> String {
    let first = &found.measured.settings[0];
    let wide = page.width >= WIDE;
    let common = common_prefix_length(found);
    let mut headings = vec!["", &first.name[common..], &setting.name[common..], "difference", "95 %"];
    if wide {
        headings.push("%");
    }
    headings.extend(["noise", ""]);
    let row = |comparison: &Comparison| -> Option<Vec<String>> {
        let contrast = comparison.contrasts.iter().find(|contrast| contrast.setting == index)?;
        let unit = comparison.unit;
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| plain(value, unit));
        let mut row = vec![
            label(comparison),
            shown(comparison.means[0]),
            shown(comparison.means[index]),
            contrast
                .difference
                .map_or_else(|| "-".to_owned(), |value| signed(plain(value, unit))),
            shown(half_width(contrast)),
        ];
        if wide {
            row.push(relative(contrast.percent).replace(" %", ""));
        }
        row.push(shown(comparison.noise.map(|noise| noise.largest)));
        row.push(verdict(contrast.verdict, page));
        Some(row)
    };
    let mut rows: Vec<Vec<String>> = found.comparisons.iter().filter_map(row).collect();
    // The common prefix of the setting names is the heading of the label column.
    let shared = &first.name[..common];
    // Labels and verdicts are text: align them to the left.
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (labels, verdicts) = (widest(0).max(shared.chars().count()), widest(headings.len() - 1));
    for row in &mut rows {
        row[0] = format!("{:labels$}", row[0]);
        if let Some(verdict) = row.last_mut() {
            *verdict = format!("{verdict:verdicts$}");
        }
    }
    let head = format!("{shared:labels$}");
    headings[0] = &head;
    let table = table(&headings, &rows, page);
    table.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
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

fn half_width(contrast: &Contrast) -> Option<f64> {
    contrast.interval.map(|[low, high]| (high - low) / 2.0)
}

fn verdict(verdict: Verdict, page: Page) -> String {
    match verdict {
        Verdict::More | Verdict::Less => page.paint(verdict.words(), Style::new().bold()),
        Verdict::NoDifferenceSeen | Verdict::TooFewStarts | Verdict::NotMeasured => verdict.words().to_owned(),
    }
}

/// The metric's name with its unit, so that the cells need none.
fn label(comparison: &Comparison) -> String {
    let name = metric_label(&comparison.name);
    match comparison.unit {
        Unit::Bytes => format!("{name}, GiB"),
        // The name already contains the unit.
        Unit::Tokens | Unit::Count => name,
        Unit::Milliseconds => format!("{}, ms", name.trim_end_matches(" ms")),
        Unit::TokensPerSecond => format!("{name}, tokens/s"),
        Unit::RequestsPerSecond => format!("{name}, 1/s"),
        Unit::Seconds => format!("{name}, s"),
        Unit::Percent => format!("{name}, %"),
        Unit::Watts => format!("{name}, W"),
        Unit::Celsius => format!("{name}, C"),
    }
}

/// A metric's name for people: `mean_ttft_ms` becomes `mean TTFT ms`.
fn metric_label(name: &str) -> String {
    let word = |word: &str| match word {
        "ttft" | "tpot" | "itl" | "e2el" | "kv" | "gpu" | "cuda" => word.to_uppercase(),
        _ => word.to_owned(),
    };
    name.split('_').map(word).collect::<Vec<_>>().join(" ")
}

/// The number without its unit.
fn plain(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => gib_number(value),
        Unit::Tokens | Unit::Count => format!("{value:.0}"),
        _ if value.abs() >= 1000.0 => format!("{value:.0}"),
        _ if value.abs() >= 100.0 => format!("{value:.1}"),
        _ if value.abs() >= 1.0 || value == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// The failed starts with their reasons.
fn failures(found: &Experiment, page: Page) -> Option<String> {
    let measured = &found.measured;
    let all = measured.trials.iter();
    let all = all.filter_map(|trial| Some((trial.setting, trial.failed.as_ref()?)));
    let (tried, skipped): (Vec<_>, Vec<_>) = all.partition(|(_, failed)| failed["tried"] != false);
    let reasons = tried.iter().map(|(setting, failed)| {
        let why = failed["message"].as_str().unwrap_or("it did not say why");
        let cause = failed["cause"].as_str();
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        format!("{}: {why}{cause}", measured.settings[*setting].name)
    });
    let reasons: BTreeSet<String> = reasons.collect();
    let text = lines(reasons.iter().map(String::as_str), page);
    let rest = match skipped.len() {
        0 => String::new(),
        skipped => format!(", and {} like it not tried", Count(skipped, "repeat")),
    };
    let title = format!("{} failed{rest}", Count(tried.len(), "start"));
    (!tried.is_empty()).then(|| format!("{}\n{text}", page.paint(&title, Style::new().red().bold())))
}

/// Lines for a dry run: the settings in the order of their starts.
#[must_use]
pub fn planned_starts(experiment: &Value) -> Vec<String> {
    let settings = &experiment["settings"];
    let order = experiment["order"].as_array().into_iter().flatten();
    let names = order.map(|index| {
        let index = index
            .as_u64()
            .and_then(|index| usize::try_from(index).ok())
            .unwrap_or(0);
        settings[index]["name"].as_str().unwrap_or_default().to_owned()
    });
    let names: Vec<String> = names.collect();
    vec![
        format!("{} starts, each anew: {}", names.len(), names.join(", ")),
        format!("each asked: {}", experiment["asked"].as_str().unwrap_or_default()),
        "how long they take is known once the first was made".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::experiment::Measurements;

    fn found() -> Experiment {
        const GIB: f64 = 1_073_741_824.0;
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
        let mut found = Experiment::new(measured).unwrap();
        found.conclusions.push("graphs cost half a GiB".to_owned());
        found
    }

    #[test]
    fn differences_are_shown_with_confidence_and_noise() {
        let text = experiment(&found(), true, Page::default());
        let expected = "\
                    on    off  difference  95 %  noise
  memory, GiB    17.00  16.50       -0.50     -   0.00  too few starts
  start time, s  51.00  30.50      -20.50  2.49   2.00  less";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("1 start failed\n  off: CUDA out of memory (memory)"),
            "{text}"
        );
        assert!(
            text.starts_with(SIMULATED) && text.contains("means of 3 and 2 starts"),
            "{text}"
        );
        assert!(!text.contains("kv tokens"), "{text}");
    }
}
