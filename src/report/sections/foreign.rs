//! A file of another tool: its page, and the text that `show` prints.

mod pictures;

use serde_json::Value;

use super::boundaries::section;
use super::{Document, MARKDOWN, breakdown, overview, serving_section};
use crate::compare::{Case, ComparisonInput, Metric};
use crate::fault::Result;
use crate::fmt::with_unit;
use crate::memory::Footprint;
use crate::report::comparison::{MAIN_METRICS, implausible};
use crate::report::plot::{Entry, Sheet};
use crate::report::recorded_answer::{Extras, answer_facts};
use crate::report::{Block, Fact, Page, SIMULATED, Section, Weight};

/// With more cases than this, one table shows only the main metrics.
const MAX_FULL_CASES: usize = 2;

const MAX_COLUMNS: usize = 6;

/// The content of the page: a chart of the tested points, if there are any, and everything that `show` prints.
///
/// # Errors
///
/// Errors of the boundary in the file.
pub fn imported(input: &ComparisonInput) -> Result<Document> {
    let mut document = Document {
        script: input.title.clone(),
        headline: input.format.to_owned(),
        subject: [input.model.as_deref(), input.engine.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" · "),
        status: "done".to_owned(),
        simulated: input.simulated.then(|| SIMULATED.to_owned()),
        answers: vec![Fact::new("what it holds", format!("{}: {}", input.format, input.holds))],
        facts: vec![Fact::new("file", input.title.clone())],
        ..Document::default()
    };
    if let Some(found) = input.boundary.as_ref().filter(|found| !found.points.is_empty()) {
        let boundary = found.rebuild()?;
        let answer = Extras::default().answer(&boundary)?;
        document.answers.extend(answer_facts(&answer).into_iter().skip(1));
        document.headline = answer.limit;
        document.sections.push(section(&boundary, &found.points, None, None)?);
    }
    // The chart shows them.
    let rest = ComparisonInput {
        boundary: None,
        ..input.clone()
    };
    let drawn = Section::new("drawn", "What it shows").with(pictures::all(input));
    document.sections.extend((!drawn.blocks.is_empty()).then_some(drawn));
    document
        .sections
        .extend(serving_section("serving", &[("", &input.serving)]));
    let file = Section::new("file", "The file").with(comparison_input(&rest, MARKDOWN)?);
    document.sections.push(file);
    Ok(document)
}

/// The content of a file; implausible values first.
///
/// # Errors
///
/// Errors of the boundary in the file.
pub fn comparison_input(input: &ComparisonInput, page: Page) -> Result<Vec<Block>> {
    let mut head = vec![format!("{}: {}", input.title, input.format), input.holds.to_owned()];
    let model = input.model.iter().map(|model| format!("model {model}"));
    let engine = input.engine.iter().map(|engine| format!("engine {engine}"));
    head.push(model.chain(engine).collect::<Vec<_>>().join(", "));
    head.retain(|line| !line.is_empty());
    let mut blocks: Vec<Block> = Block::list("", head, Weight::Normal).into_iter().collect();
    blocks.extend(Block::notice(input.simulated.then(|| SIMULATED.to_owned())));
    let several = input.cases.len() > 1;
    let subject = |case: &Case| if several { case.name.clone() } else { String::new() };
    blocks.extend(input.cases.iter().filter_map(|case| implausible(case, &subject(case))));
    if let Some(found) = input.boundary.as_ref().filter(|found| !found.points.is_empty()) {
        blocks.extend(overview(&found.rebuild()?, &Extras::default(), page)?);
    }
    let known = |name: &&str| input.cases.iter().any(|case| case.figure(name).is_some());
    let names: Vec<&str> = MAIN_METRICS.split(',').filter(known).take(MAX_COLUMNS).collect();
    // A case with other metrics than the rest, such as a summary, would be an empty row.
    let is_row = |case: &&Case| {
        input.cases.len() > MAX_FULL_CASES && case.figures.iter().any(|figure| names.contains(&figure.name.as_str()))
    };
    let (rows, others): (Vec<&Case>, Vec<&Case>) = input.cases.iter().partition(is_row);
    if !rows.is_empty() {
        blocks.push(Block::Table(summary(&rows, &names)));
        blocks.push(Block::Paragraph("more figures of each with --json".to_owned()));
    }
    for case in others {
        blocks.extend(case_blocks(case, page));
    }
    let over_time = input.series.iter().filter_map(|series| {
        let (first, last) = (series.points.first()?, series.points.last()?);
        let highest = series
            .points
            .iter()
            .map(|(_, value)| *value)
            .fold(f64::NEG_INFINITY, f64::max);
        let (highest, seconds) = (with_unit(highest, series.unit), last.0 - first.0);
        Some(format!(
            "{}: {} values over {seconds:.0} s, at most {highest}; `profiler report` draws it",
            series.name,
            series.points.len()
        ))
    });
    blocks.extend(Block::list("over time", over_time.collect(), Weight::Normal));
    blocks.extend(Block::list("notes", input.notes.clone(), Weight::Normal));
    Ok(blocks)
}

fn case_blocks(case: &Case, page: Page) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(all) = &case.breakdown {
        let (per_gpu, details) = (Vec::new(), Value::Null);
        let footprint = Footprint {
            all: all.clone(),
            per_gpu,
            overhead: None,
            details,
        };
        blocks.extend(breakdown(&case.name, &footprint, page));
    }
    if !case.figures.is_empty() {
        let row = |one: &Metric| vec![one.name.as_str().into(), with_unit(one.value, one.unit).into()];
        blocks.push(Sheet::new([case.name.as_str(), ""], case.figures.iter().map(row)).into());
    }
    blocks
}

/// One row per case with the main metrics; those left out are in the JSON.
fn summary(cases: &[&Case], names: &[&str]) -> Sheet {
    let rows = cases.iter().map(|case| {
        let text = |metric: &Metric| with_unit(metric.value, metric.unit);
        let figures = names.iter().map(|name| Entry::from(case.figure(name).map(text)));
        std::iter::once(case.name.as_str().into()).chain(figures).collect()
    });
    Sheet::new(std::iter::once("").chain(names.iter().copied()), rows)
}
