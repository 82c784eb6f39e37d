//! What the script itself output: plots, printed texts, recorded values, and tables in files.

use serde::Deserialize;

use super::{Block, Section, Source};
use crate::compare::export::stored_tables;
use crate::csv;
use crate::report::plot::{Entry, Plot, Sheet};

/// Rows shown of a table; the file has all.
const MAX_ROWS: usize = 200;

/// The sections. Unreadable data are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let found = source.found;
    let mut plots = Vec::new();
    for (name, value) in &found.plots {
        match Plot::deserialize(value) {
            Ok(plot) => plots.push(plot),
            Err(error) => missing.push(format!(
                "the chart `{name}` that the script drew cannot be read: {error}"
            )),
        }
    }
    // What is shown of jobs is in their own section.
    let shown = found.shown.iter().filter(|_| found.jobs.is_empty());
    let texts = shown.map(|(_, text)| Block::Text(text.clone()));
    let recorded = found
        .records
        .iter()
        .map(|(name, value)| vec![name.as_str().into(), value.to_string().into()]);
    let recorded = (!found.records.is_empty()).then(|| Sheet::new(["name", "value"], recorded));
    let tables = stored_tables(&source.folder, missing).into_iter();
    let tables: Vec<Block> = tables
        .filter_map(|table| {
            let file = format!("{}.csv", table.name);
            let sheet = sheet(&file, &table.text);
            sheet
                .map_err(|why| missing.push(format!("`{file}` cannot be read: {why}")))
                .ok()
        })
        .map(Block::Folded)
        .collect();
    let sections = [
        Section::new("drawn", "What the script shows").with(plots).with(texts),
        Section::new("records", "What the script recorded").with(recorded),
        Section::new("tables", "Tables that the script kept").with(tables),
    ];
    sections
        .into_iter()
        .filter(|section| !section.blocks.is_empty())
        .collect()
}

/// A table without empty columns.
fn sheet(file: &str, text: &str) -> Result<Sheet, String> {
    let (columns, rows) = csv::sheet(text)?;
    let entry = |text: &String| match text.parse::<f64>() {
        _ if text.is_empty() => Entry::None,
        Ok(number) if number.is_finite() => number.into(),
        _ => text.as_str().into(),
    };
    let filled = |at: &usize| rows.iter().any(|row| !matches!(row[*at].as_str(), "" | "[]"));
    let filled: Vec<usize> = (0..columns.len()).filter(filled).collect();
    let title = match rows.len() {
        ..=MAX_ROWS => file.to_owned(),
        all => format!("{file}, the first {MAX_ROWS} of {all} rows"),
    };
    let shown = rows.iter().take(MAX_ROWS);
    let shown = shown.map(|row| filled.iter().map(|&at| entry(&row[at])).collect());
    Ok(Sheet::new(filled.iter().map(|&at| columns[at].clone()), shown).titled(title))
}
