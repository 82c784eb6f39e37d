//! A comparison for the terminal: setup differences, then metrics, then thresholds.

use console::Style;

use super::thresholds::{Evaluation, Finding, Verdict};
use super::{ChangedPoint, ComparedMetric, Comparison, label};
use crate::compare::{ComparisonInput, Unit};
use crate::fmt::{relative, with_unit};
use crate::report::comparison_input::{heading, implausible_section, lines};
use crate::report::table::table;
use crate::report::{Page, SIMULATED};

/// Entries of a list before the rest is left to the JSON.
const LISTED: usize = 12;

/// Formats the comparison. No trailing newline.
pub fn comparison_text(
    inputs: &[ComparisonInput],
    comparison: &Comparison,
    evaluation: &Evaluation,
    page: Page,
) -> String {
    let mut parts = Vec::new();
    parts.extend(simulated(inputs));
    parts.extend(
        completeness_warnings(inputs)
            .into_iter()
            .map(|text| page.paint(&text, Style::new().magenta().bold())),
    );
    let (first, others): (Vec<_>, Vec<_>) = comparison.differences.iter().partition(|difference| difference.first);
    if !first.is_empty() {
        let sentences: Vec<String> = first.iter().map(|difference| difference.sentence()).collect();
        // In the colour of warnings: yellow is unreadable on white.
        let title = page.paint("the setups differ", Style::new().magenta().bold());
        parts.push(format!(
            "{title}\n{}",
            lines(sentences.iter().map(String::as_str), page)
        ));
    }
    for input in inputs {
        parts.extend(
            input
                .cases
                .iter()
                .filter_map(|case| implausible_section(case, true, page)),
        );
    }
    let numbered = inputs.iter().enumerate();
    parts.extend(numbered.map(|(index, input)| format!("{} {}", label(index), heading(input))));
    if !others.is_empty() {
        let texts = others.iter().map(|difference| {
            let (before, after) = (&difference.before, &difference.after);
            format!(
                "{}: {before}, {after} in {}",
                difference.name,
                label(difference.subject)
            )
        });
        parts.push(listed("setup differences", &texts.collect::<Vec<_>>(), page));
    }
    if !comparison.advice.is_empty() {
        parts.push(comparison.advice.join("\n"));
    }
    for (fits, title) in [
        (false, "fitted before, and fail now"),
        (true, "failed before, and fit now"),
    ] {
        let points = comparison.changed_points.iter().filter(|point| point.fits == fits);
        let points: Vec<String> = points.map(|one| changed_point(one, inputs.len())).collect();
        if !points.is_empty() {
            parts.push(listed(title, &points, page));
        }
    }
    for section in &comparison.sections {
        let mut headings = vec![section.name().to_owned()];
        for index in 0..inputs.len() {
            headings.push(label(index));
            if index > 0 {
                headings.push("of [1]".to_owned());
            }
        }
        let rows: Vec<Vec<String>> = section.lines.iter().map(row).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        parts.push(table(&headings, &rows, page));
    }
    if comparison.sections.is_empty() {
        parts.push("there is nothing in common to compare".to_owned());
    }
    let notes: Vec<String> = inputs
        .iter()
        .enumerate()
        .flat_map(|(index, input)| input.notes.iter().map(move |note| format!("{} {note}", label(index))))
        .chain(comparison.notes.iter().cloned())
        .collect();
    if !notes.is_empty() {
        parts.push(format!("notes\n{}", lines(notes.iter().map(String::as_str), page)));
    }
    if evaluation.has_thresholds {
        parts.push(thresholds(inputs, evaluation, page));
    }
    parts.join("\n\n")
}

/// Warnings for unfinished runs and for inputs without any measurement.
#[must_use]
pub fn completeness_warnings(inputs: &[ComparisonInput]) -> Vec<String> {
    let numbered = inputs.iter().enumerate();
    let warnings = numbered.filter_map(|(index, input)| match (&input.unfinished, input.is_empty()) {
        (_, true) => Some(format!("{} has nothing to compare: nothing was measured", label(index))),
        (Some(_), _) => Some(format!(
            "{} did not come to its end: what it has proven is a lower bound, and what it measured may be a part",
            label(index)
        )),
        _ => None,
    });
    warnings.collect()
}

/// The notice for simulated inputs, if there are any.
pub(super) fn simulated(inputs: &[ComparisonInput]) -> Option<String> {
    let labels: Vec<String> = (0..inputs.len())
        .filter(|index| inputs[*index].simulated)
        .map(label)
        .collect();
    // An input without metrics was neither simulated nor measured.
    let measured = inputs.iter().any(|input| !input.simulated && !input.is_empty());
    match labels.len() {
        0 => None,
        _ if !measured => Some(SIMULATED.to_owned()),
        _ => Some(format!(
            "SIMULATED: only {}; simulated and measured numbers cannot be compared",
            labels.join(", ")
        )),
    }
}

/// The table of all thresholds, those exceeded first.
fn thresholds(inputs: &[ComparisonInput], evaluation: &Evaluation, page: Page) -> String {
    let mut findings: Vec<&Finding> = evaluation
        .findings
        .iter()
        .filter(|one| one.threshold.is_some())
        .collect();
    findings.sort_by_key(|finding| weight(finding.verdict));
    let several = inputs.len() > 2;
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|one| {
            let run = if several {
                format!(" in {}", label(one.subject))
            } else {
                String::new()
            };
            vec![
                format!("{} of {}{run}", one.name, one.case),
                value(one.before, one.unit),
                value(one.after, one.unit),
                relative(one.percent),
                limit(one),
                one.verdict_text(),
            ]
        })
        .collect();
    let count = |verdict| {
        evaluation
            .with_verdict(verdict)
            .filter(|one| one.threshold.is_some())
            .count()
    };
    let exceeded = count(Verdict::Exceeded);
    let verdict = format!(
        "thresholds: {exceeded} exceeded, {} within, {} with no difference seen, {} not compared{}",
        count(Verdict::Within),
        count(Verdict::NoDifferenceSeen),
        count(Verdict::NotCompared),
        match count(Verdict::NotComparable) {
            0 => String::new(),
            several => format!(", {several} not comparable"),
        }
    );
    let rows = table(
        &["", "[1]", if several { "now" } else { "[2]" }, "of [1]", "allowed", ""],
        &rows,
        page,
    );
    format!("{rows}\n\n{verdict}")
}

/// Sort order of verdicts.
pub(super) fn weight(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Exceeded => 0,
        Verdict::NotCompared => 1,
        Verdict::NotComparable => 2,
        Verdict::Worse => 3,
        Verdict::NoDifferenceSeen => 4,
        Verdict::Within => 5,
        Verdict::Better => 6,
        Verdict::Other => 7,
        Verdict::Same => 8,
    }
}

/// What a threshold allows: `at most 210.00 ms`; the user's own text if the limit is unknown.
pub(super) fn limit(finding: &Finding) -> String {
    match (finding.limit, finding.at_most, &finding.threshold) {
        (Some(limit), Some(true), _) => format!("at most {}", with_unit(limit, finding.unit)),
        (Some(limit), Some(false), _) => format!("at least {}", with_unit(limit, finding.unit)),
        (_, _, Some(text)) => text.clone(),
        _ => String::new(),
    }
}

pub(super) fn value(value: Option<f64>, unit: Unit) -> String {
    value.map_or_else(|| "-".to_owned(), |value| with_unit(value, unit))
}

/// `input=4000 output=512: ok, now oom (cuda) at input=3900 output=500`.
pub(super) fn changed_point(changed: &ChangedPoint, inputs: usize) -> String {
    let at = changed.at.as_ref().map_or_else(String::new, |at| format!(" at {at}"));
    let run = if inputs > 2 {
        format!(" in {}", label(changed.subject))
    } else {
        String::new()
    };
    format!("{}: {}, now {}{at}{run}", changed.point, changed.before, changed.after)
}

fn listed(title: &str, texts: &[String], page: Page) -> String {
    let mut shown = lines(texts.iter().take(LISTED).map(String::as_str), page);
    if texts.len() > LISTED {
        shown.push_str(&format!("\n  and {} more with --json", texts.len() - LISTED));
    }
    format!("{title}\n{shown}")
}

fn row(line: &ComparedMetric) -> Vec<String> {
    let mut row = vec![line.name.clone()];
    for (index, (value, percent)) in line.values.iter().zip(&line.percents).enumerate() {
        row.push(self::value(*value, line.unit));
        if index > 0 {
            row.push(relative(*percent));
        }
    }
    row
}
