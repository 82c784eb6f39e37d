//! A comparison for the terminal: the findings, setup differences, metrics, thresholds.

use console::Style;

use super::tables::{changed_points, differences, threshold_counts, thresholds};
use super::thresholds::Evaluation;
use super::{Comparison, comparison_findings, label};
use crate::compare::ComparisonInput;
use crate::report::changes::sheet_text;
use crate::report::comparison_input::{heading, implausible_section, lines};
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
    let findings = comparison_findings(comparison, inputs.len());
    parts.push(lines(findings.iter().map(String::as_str), page).trim_start().to_owned());
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
        let points = changed_points(comparison, fits, inputs.len());
        if !points.is_empty() {
            parts.push(listed(title, &points, page));
        }
    }
    parts.extend(differences(comparison).iter().map(|sheet| sheet_text(sheet, page)));
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
        parts.push(sheet_text(&thresholds(evaluation, inputs.len()), page));
        parts.push(threshold_counts(evaluation));
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

fn listed(title: &str, texts: &[String], page: Page) -> String {
    let mut shown = lines(texts.iter().take(LISTED).map(String::as_str), page);
    if texts.len() > LISTED {
        shown.push_str(&format!("\n  and {} more with --json", texts.len() - LISTED));
    }
    format!("{title}\n{shown}")
}
