//! A comparison as sentences and tables, which the terminal, Markdown and the page all show.

use std::collections::BTreeSet;

use super::thresholds::{Evaluation, Finding, Verdict};
use super::{ChangedPoint, ComparedCase, ComparedMetric, Comparison, EFFORT, label};
use crate::compare::Direction;
use crate::fmt::{list, metric_label, relative, with_unit};
use crate::report::changes::change_phrase;
use crate::report::plot::{Entry, Sheet};
use crate::unit::Unit;

/// The metrics that a finding names first; a name ends at its last letter or is a prefix.
const HEADLINE: [&str; 19] = [
    "largest input + output that fits",
    "frontier ",
    "volume",
    "output_throughput",
    "request_throughput",
    "tokens_per_second",
    "request_goodput",
    "mean_ttft_ms",
    "mean_tpot_ms",
    "mean_itl_ms",
    "mean_e2el_ms",
    "mean_latency_ms",
    "kv_tokens",
    "memory_beside_kv",
    "peak_memory",
    "physical",
    "failed",
    "preemptions",
    "start_time",
];

/// Families of metrics of which a finding names one.
const FAMILIES: [&str; 6] = ["throughput", "ttft_ms", "tpot_ms", "itl_ms", "e2el_ms", "frontier "];

/// Metrics that no finding names: the effort, and what other sentences say.
fn is_detail(name: &str) -> bool {
    let details = ["std_", "safe ", "recommended ", "newly "];
    EFFORT.contains(&name) || details.iter().any(|prefix| name.starts_with(prefix))
}

/// The finding about each input but the first, which are called `names`. Names up to `most` better and as many worse
/// metrics of each.
pub(in crate::report) fn findings(comparison: &Comparison, names: &[String], most: usize) -> Vec<String> {
    (1..names.len())
        .map(|subject| finding(comparison, subject, names, most))
        .collect()
}

/// A metric of one section that changed.
struct Changed<'a> {
    section: &'a ComparedCase,
    line: &'a ComparedMetric,
    verdict: Verdict,
}

fn finding(comparison: &Comparison, subject: usize, names: &[String], most: usize) -> String {
    let (first, name) = (&names[0], &names[subject]);
    let all: Vec<Changed> = comparison
        .sections
        .iter()
        .flat_map(|section| section.lines.iter().map(move |line| (section, line)))
        .filter(|(_, line)| !is_detail(&line.name) && line.better != Some(Direction::Neutral))
        .map(|(section, line)| Changed {
            section,
            line,
            verdict: line.verdicts[subject],
        })
        .collect();
    let named = |wanted: Verdict| -> Option<String> {
        let changed: Vec<&Changed> = all.iter().filter(|one| one.verdict == wanted).collect();
        let phrases = phrases(comparison, &changed, subject, most);
        (!phrases.is_empty()).then(|| list(&phrases))
    };
    let count = |wanted: &[Verdict]| all.iter().filter(|one| wanted.contains(&one.verdict)).count();
    let of = |count: usize| format!("{count} metric{}", if count == 1 { "" } else { "s" });
    let same = count(&[Verdict::Same, Verdict::NotSignificant, Verdict::Negligible]);
    let apart = comparison.not_judged.iter().find(|one| one.subject == subject);
    let apart = apart.map(|one| {
        let (before, after) = (&one.before, &one.after);
        format!("{name}: different questions: not judged; {first}: {before}; {name}: {after}")
    });
    let mut parts = match (named(Verdict::Better), named(Verdict::Worse)) {
        (Some(better), None) => vec![format!("{name} is better than {first}: {better}")],
        (None, Some(worse)) => vec![format!("{name} is worse than {first}: {worse}")],
        (Some(better), Some(worse)) => vec![
            format!("{name} is better than {first}: {better}"),
            format!("worse: {worse}"),
        ],
        (None, None) => Vec::new(),
    };
    parts.extend(named(Verdict::Other).map(|other| format!("different: {other}")));
    // A title has no room for what does not differ.
    let brief = most == 1 && !parts.is_empty();
    parts.extend((same > 0 && !brief).then(|| format!("no significant difference in {}", of(same))));
    let unclear = count(&[Verdict::NotComparable]);
    parts.extend((unclear > 0).then(|| format!("{} cannot be compared: a run did not come to its end", of(unclear))));
    parts.splice(0..0, apart);
    match parts.first() {
        None => format!("{name}: nothing in common to compare"),
        Some(part) if part.starts_with(name) => parts.join("; "),
        Some(_) => format!("{name}: {}", parts.join("; ")),
    }
}

/// One phrase for each family of metrics, the most important first; how many more metrics changed.
fn phrases(comparison: &Comparison, changed: &[&Changed], subject: usize, most: usize) -> Vec<String> {
    let rank = |one: &Changed| {
        HEADLINE
            .iter()
            .position(|name| one.line.name.starts_with(name))
            .unwrap_or(HEADLINE.len())
    };
    let size = |one: &Changed| one.line.percents[subject].map_or(f64::INFINITY, f64::abs);
    let mut sorted = changed.to_vec();
    sorted.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
    let mut families: BTreeSet<&str> = BTreeSet::new();
    let mut phrases = Vec::new();
    let mut more: BTreeSet<&str> = BTreeSet::new();
    for one in sorted {
        let name = one.line.name.as_str();
        let family = FAMILIES
            .iter()
            .find(|family| name.contains(**family))
            .map_or(name, |family| *family);
        let (Some(before), Some(after)) = (one.line.values[0], one.line.values[subject]) else {
            continue;
        };
        if !families.insert(family) {
            continue;
        }
        if phrases.len() == most {
            more.insert(family);
            continue;
        }
        let change = change_phrase(&metric_label(name), one.line.unit, before, after);
        phrases.push(format!("{change}{}", at(comparison, one)));
    }
    if !more.is_empty() {
        phrases.push(format!("{} more", more.len()));
    }
    phrases
}

/// ` at concurrency=8`: what distinguishes the section among those that have the metric.
fn at(comparison: &Comparison, one: &Changed) -> String {
    let having = comparison
        .sections
        .iter()
        .filter(|section| section.lines.iter().any(|line| line.name == one.line.name));
    let names: Vec<&str> = having.map(ComparedCase::name).collect();
    let own = one.section.name().split(' ');
    let differs = |word: &&str| names.iter().any(|name| name.split(' ').all(|other| other != *word));
    let words: Vec<&str> = own.filter(differs).collect();
    if words.is_empty() {
        String::new()
    } else {
        format!(" at {}", words.join(" "))
    }
}

/// A table for each section: the values of each input, and how each differs from the first.
pub(in crate::report) fn differences(comparison: &Comparison) -> Vec<Sheet> {
    let table = |section: &ComparedCase| {
        let mut columns = vec!["metric".to_owned()];
        for index in 0..section.names.len() {
            columns.push(label(index));
            if index > 0 {
                columns.push("against [1]".to_owned());
            }
        }
        let rows = section.lines.iter().map(|line| {
            let mut row = vec![Entry::from(line.name.as_str())];
            for (index, of_input) in line.values.iter().enumerate() {
                row.push(of_input.map(|number| with_unit(number, line.unit)).into());
                if index > 0 {
                    row.push(change(line, index).into());
                }
            }
            row
        });
        Sheet::new(columns, rows).titled(section.name())
    };
    comparison.sections.iter().map(table).collect()
}

/// `+12.0 % better`; without a figure where the difference means nothing.
fn change(line: &ComparedMetric, subject: usize) -> Option<String> {
    let (before, after) = (line.values[0]?, line.values[subject]?);
    let verdict = match line.verdicts[subject] {
        Verdict::Other if after > before => "higher",
        Verdict::Other => "lower",
        verdict @ (Verdict::Better | Verdict::Worse | Verdict::NotComparable) => verdict.words(),
        verdict => return Some(verdict.words().to_owned()),
    };
    Some(
        format!("{} {verdict}", relative(line.percents[subject]))
            .trim_start()
            .to_owned(),
    )
}

/// Every threshold with its verdict, those exceeded first.
pub(super) fn thresholds(evaluation: &Evaluation, inputs: usize) -> Sheet {
    let mut findings: Vec<&Finding> = evaluation
        .findings
        .iter()
        .filter(|one| one.threshold.is_some())
        .collect();
    findings.sort_by_key(|finding| weight(finding.verdict));
    let several = inputs > 2;
    // The limit beside it names the unit of tokens.
    let value = |number: Option<f64>, unit: Unit| {
        Entry::from(number.map(|number| with_unit(number, unit).trim_end_matches(" tokens").to_owned()))
    };
    let rows = findings.into_iter().map(|one| {
        let run = if several {
            format!(" in {}", label(one.subject))
        } else {
            String::new()
        };
        vec![
            format!("{} of {}{run}", one.name, one.case).into(),
            one.verdict_text().into(),
            limit(one).into(),
            value(one.before, one.unit),
            value(one.after, one.unit),
            relative(one.percent).into(),
        ]
    });
    let after = if several { "now" } else { "[2]" };
    Sheet::new(["thresholds", "", "allowed", "[1]", after, "change"], rows)
}

/// What a threshold allows: `<= 210.00 ms`; the user's own text if the limit is unknown.
fn limit(finding: &Finding) -> String {
    match (finding.limit, finding.at_most, &finding.threshold) {
        (Some(limit), Some(true), _) => format!("<= {}", with_unit(limit, finding.unit)),
        (Some(limit), Some(false), _) => format!(">= {}", with_unit(limit, finding.unit)),
        (_, _, Some(text)) => text.clone(),
        _ => String::new(),
    }
}

/// Sort order of the verdicts of thresholds.
fn weight(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Exceeded => 0,
        Verdict::NotCompared => 1,
        Verdict::NotComparable => 2,
        Verdict::NotSignificant => 3,
        _ => 4,
    }
}

/// `thresholds: 2 exceeded, 1 within, 1 not compared`.
pub(super) fn threshold_counts(evaluation: &Evaluation) -> String {
    let count = |verdict| evaluation.with_threshold(verdict).count();
    let verdicts = [
        Verdict::Within,
        Verdict::NotSignificant,
        Verdict::NotCompared,
        Verdict::NotComparable,
    ];
    let others = verdicts.into_iter().filter(|verdict| count(*verdict) > 0);
    let others: String = others
        .map(|verdict| format!(", {} {}", count(verdict), verdict.words()))
        .collect();
    format!("thresholds: {} exceeded{others}", count(Verdict::Exceeded))
}

/// `input=4000 output=512: ok, now oom (cuda) at input=3900 output=500`, for the points that now fit, or now fail.
pub(super) fn changed_points(comparison: &Comparison, fits: bool, inputs: usize) -> Vec<String> {
    let text = |changed: &ChangedPoint| {
        let at = changed.at.as_ref().map_or_else(String::new, |at| format!(" at {at}"));
        let run = if inputs > 2 {
            format!(" in {}", label(changed.subject))
        } else {
            String::new()
        };
        format!("{}: {}, now {}{at}{run}", changed.point, changed.before, changed.after)
    };
    comparison
        .changed_points
        .iter()
        .filter(|point| point.fits == fits)
        .map(text)
        .collect()
}
