//! What the script itself output: plots, printed texts, recorded values, and tables in files.

use super::{Block, Section, Source};
use crate::csv;
use crate::report::plot::{Entry, Plot, Sheet};

/// Rows shown of a table; the file has all.
const MAX_ROWS: usize = 200;
/// A column with a longer cell holds sentences and is left out.
const MAX_CELL_CHARS: usize = 120;

/// The sections. Unreadable data are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let found = source.found;
    let plots = found
        .plots
        .iter()
        .filter_map(|(name, value)| match serde_json::from_value::<Plot>(value.clone()) {
            Ok(plot) => Some(plot),
            Err(error) => {
                missing.push(format!(
                    "the picture `{name}` that the script drew cannot be read: {error}"
                ));
                None
            }
        });
    let texts = found.shown.iter().map(|(_, text)| Block::Text(text.clone()));
    let recorded = found
        .records
        .iter()
        .map(|(name, value)| vec![name.as_str().into(), value.to_string().into()]);
    let recorded = (!found.records.is_empty()).then(|| Sheet::new(["name", "value"], recorded));
    let sections = [
        Section::new("drawn", "What the script shows").with(plots).with(texts),
        Section::new("records", "What the script recorded").with(recorded),
        Section::new("tables", "Tables of the run").with(tables(source, missing)),
    ];
    sections
        .into_iter()
        .filter(|section| !section.blocks.is_empty())
        .collect()
}

/// The CSV files below `tables/`.
fn tables(source: &Source, missing: &mut Vec<String>) -> Vec<Sheet> {
    let names = source.folder.names("tables").unwrap_or_else(|fault| {
        missing.push(format!("tables/ cannot be read: {}", fault.message));
        Vec::new()
    });
    let sheets = names.iter().filter(|name| name.ends_with(".csv")).filter_map(|name| {
        let bytes = source.folder.read(format!("tables/{name}")).transpose()?;
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let read = text.map_err(|fault| fault.message).and_then(|text| sheet(name, &text));
        read.map_err(|why| missing.push(format!("`tables/{name}` cannot be read: {why}")))
            .ok()
    });
    sheets.collect()
}

/// A table without empty columns and without columns of sentences, which would make rows as high as paragraphs.
fn sheet(name: &str, text: &str) -> Result<Sheet, String> {
    let (columns, rows) = csv::sheet(text)?;
    let entry = |text: &String| match text.parse::<f64>() {
        _ if text.is_empty() => Entry::None,
        Ok(number) if number.is_finite() => Entry::Number(number),
        _ => Entry::Text(text.clone()),
    };
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    let kept = (0..columns.len()).filter(|&at| cells(at).any(|text| !text.is_empty() && text != "[]"));
    let (sentences, kept): (Vec<usize>, Vec<usize>) =
        kept.partition(|&at| cells(at).any(|text| text.len() > MAX_CELL_CHARS));
    let mut title = format!("tables/{name}");
    if rows.len() > MAX_ROWS {
        title += &format!(", the first {MAX_ROWS} of {} rows", rows.len());
    }
    if !sentences.is_empty() {
        let names: Vec<&str> = sentences.iter().map(|&at| columns[at].as_str()).collect();
        title += &format!("; sentences are only there: {}", names.join(", "));
    }
    let row = |row: &Vec<String>| kept.iter().map(|&at| row.get(at).map_or(Entry::None, entry)).collect();
    Ok(Sheet::new(
        kept.iter().map(|&at| columns[at].clone()),
        rows.iter().take(MAX_ROWS).map(row),
    )
    .titled(title))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_sentences_and_empty_columns_are_dropped() {
        let text = format!(
            "level,speed,empty,warnings\n1,5.5,,\"{}\"\n8,,,[]\n",
            "a sentence ".repeat(20)
        );
        let sheet = sheet("x.csv", &text).unwrap();
        assert_eq!(sheet.columns, ["level", "speed"]);
        assert_eq!(
            sheet.rows,
            [vec![1.0.into(), 5.5.into()], vec![8.0.into(), Entry::None]]
        );
        assert_eq!(sheet.title, "tables/x.csv; sentences are only there: warnings");
    }
}
