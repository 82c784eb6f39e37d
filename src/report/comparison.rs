//! What was measured beside what is said, as people read it.

use super::Page;
use super::figure::relative;
use super::subject::lines;
use super::table::table;
use crate::memory::compare::{Claim, Comparison, Gib};

/// One comparison: differences are said less measured, relative to the measured. No line end after the last line.
pub fn comparison(name: &str, claim: &Claim, comparison: &Comparison, page: Page) -> String {
    let gib = |bytes: Option<i64>| bytes.map_or_else(|| "-".to_owned(), |bytes| Gib(bytes).to_string());
    let rows: Vec<Vec<String>> = comparison
        .rows
        .iter()
        .map(|row| {
            vec![
                row.term.name().to_owned(),
                gib(row.measured),
                gib(row.said),
                row.difference
                    .map_or_else(String::new, |difference| Gib(difference).to_string()),
                relative(row.percent),
            ]
        })
        .collect();
    let mut parts = vec![format!(
        "{name} beside {}\n{}",
        claim.by,
        table(
            &["component", "measured", "said", "said - measured", "of the measured"],
            &rows,
            page
        )
    )];
    let measured = comparison.rows.iter().filter_map(|row| {
        let from = row.measured_as.as_ref()?;
        Some(format!("{}: {from}", row.term.name()))
    });
    let measured: Vec<String> = measured.collect();
    if !measured.is_empty() {
        parts.push(format!(
            "what was measured\n{}",
            lines(measured.iter().map(String::as_str), page)
        ));
    }
    if !comparison.explanations.is_empty() {
        let found = comparison
            .explanations
            .iter()
            .map(|found| format!("{} ({}): {}", found.about, found.assumption, found.text));
        let found: Vec<String> = found.collect();
        parts.push(format!(
            "which assumption explains it\n{}",
            lines(found.iter().map(String::as_str), page)
        ));
    }
    if !claim.notes.is_empty() {
        parts.push(format!(
            "notes\n{}",
            lines(claim.notes.iter().map(String::as_str), page)
        ));
    }
    parts.join("\n\n")
}
