//! What the script showed in its own words and pictures, its tables, and what it recorded by name.

use super::{Part, Source};
use crate::csv;
use crate::report::plot::{Entry, Plot, Sheet};

/// Rows of a table of the run that are shown; the file has all.
const ROWS: usize = 200;
/// Letters beyond which a text is a sentence rather than a figure.
const SENTENCE: usize = 120;

/// The parts; what the folder lacks is added to `missing`.
pub(super) fn parts(source: &Source, missing: &mut Vec<String>) -> Vec<Part> {
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
    let drawn = Part {
        name: "drawn".to_owned(),
        title: "What the script shows".to_owned(),
        plots: plots.collect(),
        texts: found.shown.iter().map(|(_, text)| text.clone()).collect(),
        ..Part::default()
    };
    let recorded = Sheet {
        title: String::new(),
        columns: vec!["name".to_owned(), "value".to_owned()],
        rows: found
            .records
            .iter()
            .map(|(name, value)| vec![name.as_str().into(), value.to_string().into()])
            .collect(),
    };
    let part = |name: &str, title: &str, sheets: Vec<Sheet>| Part {
        name: name.to_owned(),
        title: title.to_owned(),
        sheets,
        ..Part::default()
    };
    let parts = [
        drawn,
        part(
            "records",
            "What the script recorded",
            Some(recorded)
                .filter(|sheet| !sheet.rows.is_empty())
                .into_iter()
                .collect(),
        ),
        part("tables", "Tables of the run", tables(source, missing)),
    ];
    parts
        .into_iter()
        .filter(|part| !(part.plots.is_empty() && part.texts.is_empty() && part.sheets.is_empty()))
        .collect()
}

/// What the run kept below `tables/`.
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

/// A table without its sentences, which would make each row as high as a paragraph.
fn sheet(name: &str, text: &str) -> Result<Sheet, String> {
    let (columns, rows) = csv::sheet(text)?;
    let entry = |text: &String| match text.parse::<f64>() {
        _ if text.is_empty() => Entry::None,
        Ok(number) if number.is_finite() => Entry::Number(number),
        _ => Entry::Text(text.clone()),
    };
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    // A column in which no row has anything says nothing.
    let told = (0..columns.len()).filter(|&at| cells(at).any(|text| !text.is_empty() && text != "[]"));
    let (long, told): (Vec<usize>, Vec<usize>) = told.partition(|&at| cells(at).any(|text| text.len() > SENTENCE));
    let mut title = format!("tables/{name}");
    if rows.len() > ROWS {
        title += &format!(", the first {ROWS} of {} rows", rows.len());
    }
    if !long.is_empty() {
        let names: Vec<&str> = long.iter().map(|&at| columns[at].as_str()).collect();
        title += &format!("; sentences are only there: {}", names.join(", "));
    }
    let row = |row: &Vec<String>| told.iter().map(|&at| row.get(at).map_or(Entry::None, entry)).collect();
    Ok(Sheet {
        title,
        columns: told.iter().map(|&at| columns[at].clone()).collect(),
        rows: rows.iter().take(ROWS).map(row).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_and_empty_columns_of_a_table_stay_in_its_file() {
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
