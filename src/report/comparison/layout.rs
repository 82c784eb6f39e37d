//! The layout of a comparison: what must be known first, the findings, what was run, thresholds, metrics.

use super::tables::{changed_points, differences, findings, threshold_counts, thresholds};
use super::thresholds::{Evaluation, Verdict};
use super::{Comparison, comparison_findings, label, property};
use crate::compare::ComparisonInput;
use crate::report::comparison_input::implausible;
use crate::report::document::{Block, Section, Weight, markdown};
use crate::report::plot::{Entry, Sheet};
use crate::report::{Count, SIMULATED};

/// Setup properties that are always listed.
const SETUP: [&str; 7] = [
    "model",
    "engine",
    "GPU",
    "runtime",
    "image",
    "simulated profile",
    "script",
];

/// The comparison in sections, whose headings only Markdown shows.
#[must_use]
pub fn comparison_sections(
    inputs: &[ComparisonInput],
    comparison: &Comparison,
    evaluation: &Evaluation,
) -> Vec<Section> {
    let untitled = || Section::new("", "");
    let mut first: Vec<String> = simulated(inputs).into_iter().collect();
    first.extend(completeness_warnings(inputs));
    let (important, others): (Vec<_>, Vec<_>) = comparison.differences.iter().partition(|difference| difference.first);
    let important = important.iter().map(|difference| difference.sentence()).collect();
    let others = others.iter().map(|difference| {
        let run = label(difference.subject);
        format!(
            "{}: {}, {} in {run}",
            difference.name, difference.before, difference.after
        )
    });
    let numbered = || inputs.iter().enumerate();
    let implausible = numbered().flat_map(|(index, input)| {
        let named = move |case| implausible(case, &format!("{} {}", label(index), case.name));
        input.cases.iter().filter_map(named)
    });
    let mut sections = vec![
        untitled().with(Block::warnings(first)),
        untitled().with(comparison_findings(comparison, inputs.len())),
        untitled()
            .with(comparison.advice.clone())
            .with(Block::list("the setups differ", important, Weight::Warning))
            .with(implausible)
            .with([setup_table(inputs)]),
    ];
    if evaluation.has_thresholds {
        sections.push(
            Section::new("", "Thresholds")
                .with([thresholds(evaluation, inputs.len())])
                .with([threshold_counts(evaluation)]),
        );
    }
    for (fits, title) in [
        (false, "fitted before, and fail now"),
        (true, "failed before, and fit now"),
    ] {
        let points = changed_points(comparison, fits, inputs.len());
        let heading = title.replacen('f', "F", 1);
        sections.push(Section::new("", heading).with(Block::list(title, points, Weight::Normal)));
    }
    sections.extend(differences(comparison).into_iter().map(|sheet| {
        // Beside thresholds, what has none is a detail.
        match evaluation.has_thresholds {
            true => untitled().with([Block::Folded(sheet)]),
            false => Section::new("", sheet.title.clone()).with([sheet]),
        }
    }));
    let notes =
        numbered().flat_map(|(index, input)| input.notes.iter().map(move |note| format!("{} {note}", label(index))));
    let notes = notes.chain(comparison.notes.iter().cloned()).collect();
    sections.push(
        untitled()
            .with(Block::list("setup differences", others.collect(), Weight::Detail))
            .with(Block::list("notes", notes, Weight::Normal)),
    );
    sections
}

/// The comparison as a comment on a pull request: the verdict is the heading.
#[must_use]
pub fn comparison_markdown(inputs: &[ComparisonInput], comparison: &Comparison, evaluation: &Evaluation) -> String {
    let headline = match evaluation.has_thresholds {
        true => threshold_headline(inputs, evaluation),
        false => {
            let names: Vec<String> = (0..inputs.len()).map(label).collect();
            findings(comparison, &names, 1).join("; ")
        }
    };
    let sections = comparison_sections(inputs, comparison, evaluation);
    markdown(&format!("profiler compare: {headline}"), &sections)
}

/// The result of the thresholds.
fn threshold_headline(inputs: &[ComparisonInput], evaluation: &Evaluation) -> String {
    let count = |verdict| evaluation.with_threshold(verdict).count();
    let verdict = match count(Verdict::Exceeded) {
        0 => "no threshold exceeded".to_owned(),
        exceeded => format!("{} exceeded", Count(exceeded, "threshold")),
    };
    let others = [Verdict::NotCompared, Verdict::NotComparable].into_iter();
    let others = others.filter(|verdict| count(*verdict) > 0);
    let others: String = others
        .map(|verdict| format!(", {} {}", count(verdict), verdict.words()))
        .collect();
    let unfinished = inputs.iter().enumerate();
    let unfinished: String = unfinished
        .filter(|(_, input)| input.unfinished.is_some())
        .map(|(index, _)| format!("; {} did not come to its end", label(index)))
        .collect();
    format!("{verdict}{others}{unfinished}")
}

/// What each input is.
fn setup_table(inputs: &[ComparisonInput]) -> Sheet {
    let row = |name: &str, value: &dyn Fn(&ComparisonInput) -> Option<String>| -> Option<Vec<Entry>> {
        let values: Vec<Option<String>> = inputs.iter().map(value).collect();
        let known = values.iter().any(Option::is_some);
        known.then(|| {
            std::iter::once(name.into())
                .chain(values.into_iter().map(Into::into))
                .collect()
        })
    };
    let mut rows = vec![
        row("source", &|input| Some(input.title.clone())),
        row("type", &|input| Some(input.holds.to_owned())),
    ];
    rows.extend(SETUP.map(|name| row(name, &|input| property(input, name).map(str::to_owned))));
    let columns = (0..inputs.len()).map(label);
    Sheet::new(
        std::iter::once("what was run".to_owned()).chain(columns),
        rows.into_iter().flatten(),
    )
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
fn simulated(inputs: &[ComparisonInput]) -> Option<String> {
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
