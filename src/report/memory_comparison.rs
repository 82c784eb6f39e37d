//! Text of a memory comparison: measured components against an external estimate.

use super::Page;
use super::comparison_input::lines;
use super::figure::relative;
use super::table::table;
use crate::memory::compare::{Comparison, ExternalEstimate, Gib};

/// Formats one comparison. Differences are estimated minus measured, relative to measured. No trailing newline.
pub fn memory_comparison(name: &str, claim: &ExternalEstimate, comparison: &Comparison, page: Page) -> String {
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
        "{name} compared with {}\n{}",
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
