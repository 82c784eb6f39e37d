//! Blocks for the terminal: facts in a column, wrapped sentences, tables, drawings in characters.
//!
//! Columns that do not fit the page continue below, next to the columns that identify the rows; nothing is cut. In
//! tables of scripts, all numbers of a column have the decimals that its smallest one needs.

use std::collections::HashSet;

use console::{Style, measure_text_width as width};
use serde_json::Value;

use super::{Block, Fact, List, Weight};
use crate::fmt::wrap;
use crate::report::Page;
use crate::report::sheet::{Entry, Sheet, entry_text};

/// Maximum sentences of a list; the rest is only in the JSON.
const MAX_LISTED: usize = 12;

/// Minimum and maximum width of a line of prose.
const PROSE: std::ops::RangeInclusive<usize> = 24..=160;

/// Renders blocks for the terminal, separated by blank lines. Charts are left out. The result and lists without a title
/// are not wrapped here, but by [`crate::report::Terminal::print_wrapped`]. No trailing newline.
pub fn text(blocks: &[Block], page: Page) -> String {
    let mut text = String::new();
    let mut above: Option<&Block> = None;
    for block in blocks {
        let rendered = block_text(block, page);
        if rendered.is_empty() {
            continue;
        }
        let is_warning = |block: &Block| matches!(block, Block::List(list) if list.weight == Weight::Warning);
        match above {
            None => {}
            // The result is the first line, or the second after the notice of a simulation.
            Some(above) if is_warning(above) && matches!(block, Block::Finding(_)) => text.push('\n'),
            // A paragraph right below a drawing describes it.
            Some(Block::Sketch(_)) if matches!(block, Block::Paragraph(_)) => text.push('\n'),
            Some(_) => text.push_str("\n\n"),
        }
        text.push_str(&rendered);
        above = Some(block);
    }
    text
}

fn block_text(block: &Block, page: Page) -> String {
    match block {
        Block::Finding(finding) => page.paint(&page.signs(finding.clone()), Style::new().bold()),
        Block::Facts(facts) => facts_text(facts, page),
        Block::Paragraph(text) => paragraph(text, page).trim_start().to_owned(),
        Block::List(list) => list_text(list, page),
        Block::Table(sheet) | Block::Folded(sheet) => sheet_text(sheet, page),
        Block::Figure(_) => String::new(),
        Block::Sketch(text) | Block::Text(text) => text.clone(),
    }
}

/// A wrapped paragraph, indented.
fn paragraph(text: &str, page: Page) -> String {
    let width = page.width.clamp(*PROSE.start(), *PROSE.end());
    wrapped(&page.signs(text.to_owned()), width)
}

/// Facts: the terms in a column of their own, the texts wrapped next to it. Code is never wrapped.
fn facts_text(facts: &[Fact], page: Page) -> String {
    let indent = facts.iter().map(|fact| width(&fact.term)).max().unwrap_or(0) + 2;
    let room = page.width.saturating_sub(indent).max(20);
    let mut lines = Vec::new();
    let mut last = "";
    for fact in facts {
        let term = if fact.term == last { "" } else { &fact.term };
        last = &fact.term;
        let text = if fact.paste {
            page.paint(&fact.text, Style::new().bold())
        } else {
            wrap(&page.signs(fact.text.clone()), room, 0)
        };
        let indented = text.replace('\n', &format!("\n{}", " ".repeat(indent)));
        let blanks = " ".repeat(indent - width(term));
        lines.push(format!("{}{blanks}{indented}", page.paint(term, Style::new().dim())));
    }
    lines.join("\n")
}

fn list_text(list: &List, page: Page) -> String {
    // The colour of warnings: yellow is unreadable on white.
    let serious = |text: &str| page.paint(text, Style::new().magenta().bold());
    let item = |item: &String| {
        if !list.title.is_empty() {
            paragraph(item, page)
        } else if list.weight != Weight::Warning {
            page.signs(item.clone())
        } else if item.starts_with("SIMULATED") {
            page.paint(item, Style::new().black().on_yellow())
        } else {
            serious(item)
        }
    };
    let mut lines = match list.weight {
        Weight::Warning => vec![serious(&list.title)],
        _ => vec![list.title.clone()],
    };
    lines.retain(|_| !list.title.is_empty());
    // Warnings without a title are never left out.
    let most = if list.title.is_empty() && list.weight == Weight::Warning {
        usize::MAX
    } else {
        MAX_LISTED
    };
    lines.extend(list.items.iter().take(most).map(item));
    let more = list.items.len().saturating_sub(most);
    if more > 0 {
        lines.push(format!("  and {more} more with --json"));
    }
    lines.join("\n")
}

/// A table below its title: words aligned to the left, numbers to the right.
fn sheet_text(sheet: &Sheet, page: Page) -> String {
    let cell = |entry: &Entry| match entry {
        Entry::None => "-".to_owned(),
        entry => page.signs(entry_text(entry)),
    };
    let rows: Vec<Vec<String>> = sheet.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let headings: Vec<&str> = sheet.columns.iter().map(String::as_str).collect();
    let text = table(&headings, &rows, page);
    let lines = text.lines().map(str::trim_end).skip_while(|line| line.is_empty());
    let title = Some(sheet.title.as_str()).filter(|title| !title.is_empty());
    title.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// Lays out rows below their headings; every line begins with two blanks. Columns without room continue below. The
/// first column is repeated there, and so is the last one if it is a verdict. If no column fits next to the first, each
/// row becomes a list of its entries.
pub(in crate::report) fn table(headings: &[&str], rows: &[Vec<String>], page: Page) -> String {
    let columns: Vec<Column> = headings
        .iter()
        .enumerate()
        .map(|(at, heading)| {
            let entries = rows.iter().map(|row| row.get(at).cloned().unwrap_or_default());
            Column::of_texts(heading, entries.collect(), is_text(column(rows, at)))
        })
        .collect();
    let widest = |columns: &[Column]| columns.chunks(1).map(total_width).max().unwrap_or(0);
    let Some(last) = columns.len().checked_sub(1) else {
        return String::new();
    };
    let first = total_width(&columns[..1]);
    if first + widest(&columns[1..]) > page.width {
        return row_lists(headings, rows, page);
    }
    // A verdict in the last column is repeated in every part of the table.
    let heading = headings[last].trim();
    let is_verdict = (heading.is_empty() || heading.starts_with("against")) && is_text(column(rows, last));
    let has_room = || first + widest(&columns[1..last]) + total_width(&columns[last..]) <= page.width;
    let end = if last > 1 && is_verdict && has_room() {
        last
    } else {
        last + 1
    };
    continued(
        &columns[..1],
        columns[1..end].chunks(1),
        &columns[end..],
        rows.len(),
        page,
    )
}

/// True if at least a third of the entries are words, not numbers with units. Empty entries do not count.
pub(in crate::report) fn is_text<'a>(entries: impl Iterator<Item = &'a str>) -> bool {
    let is_word = |entry: &str| {
        let entry = entry.trim_start_matches(['<', '>', '=', ' ']);
        let (number, unit) = entry.split_once(' ').unwrap_or((entry, ""));
        let is_number = number
            .chars()
            .all(|letter| letter.is_ascii_digit() || "~+-−±.,".contains(letter));
        !is_number || unit.contains(' ')
    };
    let (mut all, mut words) = (0, 0);
    for entry in entries.map(console::strip_ansi_codes) {
        let entry = entry.trim();
        all += usize::from(!entry.is_empty());
        words += usize::from(!entry.is_empty() && is_word(entry));
    }
    words > 0 && 3 * words >= all
}

/// The entries of a column.
pub(super) fn column(rows: &[Vec<String>], at: usize) -> impl Iterator<Item = &str> {
    rows.iter().filter_map(move |row| row.get(at)).map(String::as_str)
}

/// Each row as lines of `heading: entry`, for narrow pages.
fn row_lists(headings: &[&str], rows: &[Vec<String>], page: Page) -> String {
    let row = |row: &Vec<String>| {
        let filled = headings.iter().zip(row).filter(|(_, entry)| !entry.trim().is_empty());
        let lines = filled.map(|(heading, entry)| match heading.trim() {
            "" => wrapped(entry.trim(), page.width),
            heading => wrapped(&format!("{heading}: {}", entry.trim()), page.width),
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    rows.iter().map(row).collect::<Vec<_>>().join("\n\n")
}

/// Wraps a text to `most` columns, indented by two blanks, further lines by four. A word wider than a line is broken.
pub(in crate::report) fn wrapped(text: &str, most: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = "  ".to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && width(&line) + 1 + width(word) > most {
            lines.push(std::mem::replace(&mut line, "    ".to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        empty = false;
        for letter in word.chars() {
            if width(&line) + width(letter.encode_utf8(&mut [0; 4])) > most {
                lines.push(std::mem::replace(&mut line, "    ".to_owned()));
            }
            line.push(letter);
        }
    }
    lines.push(line);
    lines.join("\n")
}

/// Blanks before a column.
const GAP: usize = 2;

/// A table of rows below their headings. Long headings are wrapped. Rows may be shorter than the headings.
pub(in crate::report) fn text_table(headings: &[String], rows: &[Vec<Value>], page: Page) -> String {
    let groups: Vec<&[String]> = headings.iter().map(std::slice::from_ref).collect();
    grouped_text_table(&groups, rows, page)
}

/// A `text_table` that keeps the columns of one group together when it is split, if the page is wide enough for them.
pub fn grouped_text_table(groups: &[&[String]], rows: &[Vec<Value>], page: Page) -> String {
    let column = |(at, heading): (usize, &String)| {
        let values = rows.iter().map(move |row| row.get(at).unwrap_or(&Value::Null));
        Column::new(heading, values)
    };
    let columns: Vec<Column> = groups.iter().copied().flatten().enumerate().map(column).collect();
    let keys = key_columns(&columns, rows.len(), page);
    let mut end = 0;
    let groups = groups.iter().map(|group| {
        let from = end.max(keys);
        end += group.len();
        &columns[from..end.max(keys)]
    });
    continued(&columns[..keys], groups, &[], rows.len(), page)
}

/// Splits groups of columns into tables that fit the page, one below the other, each with the `keys` and `last`
/// columns.
pub(in crate::report) fn continued<'a>(
    keys: &[Column],
    groups: impl Iterator<Item = &'a [Column]>,
    last: &[Column],
    rows: usize,
    page: Page,
) -> String {
    let room = page.width.saturating_sub(total_width(keys) + total_width(last));
    let mut blocks: Vec<Vec<Column>> = vec![Vec::new()];
    for own in groups {
        let size = if total_width(own) <= room { own.len() } else { 1 };
        for part in own.chunks(size.max(1)) {
            match blocks.last_mut() {
                Some(block) if block.is_empty() || total_width(block) + total_width(part) <= room => {
                    block.extend_from_slice(part);
                }
                _ => blocks.push(part.to_vec()),
            }
        }
    }
    let blocks = blocks.iter().map(|block| render(&[keys, block, last].concat(), rows));
    blocks.collect::<Vec<_>>().join("\n\n")
}

/// The number of leading columns that identify all rows; one if they would take more than half of the page, or do not
/// identify them.
fn key_columns(columns: &[Column], rows: usize, page: Page) -> usize {
    let unique = |keys: &usize| {
        let key = |row: usize| columns[..*keys].iter().map(move |column| &column.entries[row]);
        let all: HashSet<Vec<&String>> = (0..rows).map(|row| key(row).collect()).collect();
        all.len() == rows
    };
    let mut fitting = (1..=columns.len()).take_while(|keys| total_width(&columns[..*keys]) <= page.width / 2);
    fitting.find(unique).unwrap_or(columns.len().min(1))
}

pub(in crate::report) fn total_width(columns: &[Column]) -> usize {
    columns.iter().map(|column| GAP + column.width).sum()
}

#[derive(Clone)]
pub(in crate::report) struct Column {
    heading: Vec<String>,
    entries: Vec<String>,
    width: usize,
    left_aligned: bool,
}

impl Column {
    fn new<'a>(heading: &str, values: impl Iterator<Item = &'a Value> + Clone) -> Self {
        let format = ColumnFormat::new(values.clone());
        let entries: Vec<String> = values.map(|value| format.apply(value)).collect();
        let widest = |texts: &[String]| texts.iter().map(|text| width(text)).max().unwrap_or(0);
        let word = heading.split_whitespace().map(width).max().unwrap_or(0);
        let most = widest(&entries).max(word);
        let heading: Vec<String> = wrap(heading, most, 0).lines().map(str::to_owned).collect();
        Self {
            width: widest(&entries).max(widest(&heading)),
            heading,
            entries,
            left_aligned: format.left_aligned,
        }
    }

    /// A column of texts as they are, below a heading on one line.
    pub(in crate::report) fn of_texts(heading: &str, entries: Vec<String>, left_aligned: bool) -> Self {
        let widths = entries.iter().map(|text| width(text));
        Self {
            width: widths.chain([width(heading)]).max().unwrap_or(0),
            heading: vec![heading.to_owned()],
            entries,
            left_aligned,
        }
    }

    /// An entry, aligned within its column.
    fn cell(&self, text: &str) -> String {
        let (gap, blanks) = (" ".repeat(GAP), " ".repeat(self.width.saturating_sub(width(text))));
        if self.left_aligned {
            format!("{gap}{text}{blanks}")
        } else {
            format!("{gap}{blanks}{text}")
        }
    }
}

fn render(columns: &[Column], rows: usize) -> String {
    let head = columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
    let line = |entry: &dyn Fn(&Column) -> Option<String>| {
        let cells = columns
            .iter()
            .map(|column| column.cell(&entry(column).unwrap_or_default()));
        cells.collect::<String>().trim_end().to_owned()
    };
    // Headings end right above their columns.
    let heading = |column: &Column, row: usize| {
        column
            .heading
            .get((row + column.heading.len()).checked_sub(head)?)
            .cloned()
    };
    let headings = (0..head).map(|row| line(&|column| heading(column, row)));
    let body = (0..rows).map(|row| line(&|column| column.entries.get(row).cloned()));
    headings.chain(body).collect::<Vec<_>>().join("\n")
}

/// Significant digits of the smallest number of a column.
const DIGITS: i32 = 3;
/// Maximum number of decimals, and of digits of the largest number if it has decimals beyond the first.
const MOST: i32 = 4;
const MOST_DIGITS: i32 = 5;

/// How the values of a column are formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) struct ColumnFormat {
    decimals: usize,
    /// Whether the column has texts and no numbers: it is left-aligned.
    left_aligned: bool,
}

impl ColumnFormat {
    pub(in crate::report) fn new<'a>(values: impl Iterator<Item = &'a Value>) -> Self {
        let (mut smallest, mut largest, mut numbers, mut others) = (f64::INFINITY, 0.0_f64, false, false);
        for value in values {
            let value = thin(value).unwrap_or(value);
            numbers |= value.is_number();
            others |= !(value.is_number() || value.is_null());
            if let Some(number) = value.as_f64().filter(|_| value.is_f64())
                && number != 0.0
            {
                (smallest, largest) = (smallest.min(number.abs()), largest.max(number.abs()));
            }
        }
        let decimals = if smallest.is_finite() {
            let most = (MOST_DIGITS - 1 - largest.log10().floor() as i32).clamp(1, MOST);
            (DIGITS - 1 - smallest.log10().floor() as i32).clamp(0, most) as usize
        } else {
            0
        };
        Self {
            decimals,
            left_aligned: others && !numbers,
        }
    }

    /// Formats a value; `-` for null, `~410` for the number of `{ thin: 410 }`.
    pub(in crate::report) fn apply(self, value: &Value) -> String {
        if let Some(number) = thin(value) {
            return format!("~{}", self.apply(number));
        }
        match value {
            Value::Null => "-".to_owned(),
            Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
            Value::String(text) => text.clone(),
            Value::Number(number) => match number.as_f64() {
                Some(real) if number.is_f64() => format!("{real:.*}", self.decimals),
                _ => number.to_string(),
            },
            other => other.to_string(),
        }
    }
}

/// The number of `{ thin: 410 }`, which tables mark with `~`.
fn thin(value: &Value) -> Option<&Value> {
    value.as_object()?.get("thin").filter(|value| value.is_number())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SIMULATED;

    #[test]
    fn the_result_follows_the_notice_and_long_lists_are_cut() {
        let blocks = [
            Block::warnings(vec![SIMULATED.to_owned()]).unwrap(),
            Block::Finding("input ≤ 5".to_owned()),
            Block::Facts(vec![
                Fact::new("how sure", "3 probes, and a few words more than one line holds"),
                Fact::new("what to run", "5 requests"),
                Fact::code("what to run", "--max-num-seqs=5"),
            ]),
            Block::Figure(Box::default()),
            Block::Table(Sheet::new(
                ["of", "GiB", ""],
                [
                    vec!["weights".into(), 15.0.into(), "± 1".into()],
                    vec!["a".into(), Entry::None, "more".into()],
                ],
            )),
            Block::list(
                "points",
                (1..=14).map(|number| number.to_string()).collect(),
                Weight::Normal,
            )
            .unwrap(),
        ];
        let page = Page {
            width: 48,
            ..Page::default()
        };
        let text = text(&blocks, page);
        let expected = "input <= 5\n\n\
            how sure     3 probes, and a few words more than\n\
            \x20            one line holds\n\
            what to run  5 requests\n\
            \x20            --max-num-seqs=5\n\n\
            \x20 of       GiB\n\
            \x20 weights   15  +- 1\n\
            \x20 a          -  more\n\n\
            points\n  1\n";
        assert!(text.starts_with(&format!("{SIMULATED}\n{expected}")), "{text}");
        assert!(text.ends_with("  12\n  and 2 more with --json"), "{text}");
    }
}

#[cfg(test)]
mod table_tests {
    use console::measure_text_width as width;
    use proptest::prelude::*;

    use super::table;
    use crate::report::Page;

    fn drawn(headings: &[&str], rows: &[Vec<String>], width: usize) -> String {
        let page = Page {
            width,
            ..Page::default()
        };
        table(headings, rows, page)
    }

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter()
            .map(|row| row.iter().map(|entry| (*entry).to_owned()).collect())
            .collect()
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = rows(&[&["8192", "1"], &["64", "4096"]]);
        assert_eq!(
            drawn(&["input", "output"], &rows, 80),
            "  input  output\n   8192       1\n     64    4096"
        );
    }

    #[test]
    fn columns_without_room_continue_below() {
        let rows = rows(&[&["a", "111", "222", "3"], &["b", "4", "5"]]);
        assert_eq!(
            drawn(&["", "one", "two", "three"], &rows, 14),
            "     one  two\n  a  111  222\n  b    4    5\n\n     three\n  a      3\n  b"
        );
        // A last column of words is no verdict if it has a heading.
        let words = self::rows(&[&["a", "111", "222", "more"]]);
        assert_eq!(
            drawn(&["", "[1]", "[2]", "[3]"], &words, 14),
            "     [1]  [2]\n  a  111  222\n\n     [3]\n  a  more"
        );
        // A verdict stays next to its values.
        let rows = self::rows(&[&["a", "111", "222", "more"], &["b", "4", "5", "same"]]);
        assert_eq!(
            drawn(&["", "one", "two", ""], &rows, 14),
            "     one\n  a  111  more\n  b    4  same\n\n     two\n  a  222  more\n  b    5  same"
        );
        assert_eq!(
            drawn(
                &["of", "words"],
                &super::table_tests::rows(&[&["model", "a long story of it"]]),
                16
            ),
            "  of: model\n  words: a long\n    story of it"
        );
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_page_and_nothing_is_lost(
            headings in prop::collection::vec("[a-z 工]{0,24}", 1..9),
            cells in prop::collection::vec(prop::collection::vec("[a-z0-9./-]{1,60}|-?[0-9]{1,12}\\.[0-9]{2}|(器件 ?){1,9}", 9), 0..6),
            page in 40_usize..220,
        ) {
            let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
            let cells: Vec<Vec<String>> = cells.iter().map(|row| row[..headings.len()].to_vec()).collect();
            let text = drawn(&headings, &cells, page);
            for line in text.lines() {
                prop_assert!(width(line) <= page, "{}\n{}", page, text);
            }
            let bare: String = text.split_whitespace().collect();
            for cell in cells.iter().flatten() {
                let cell_bare: String = cell.split_whitespace().collect();
                prop_assert!(bare.contains(&cell_bare), "{}\n{}", cell, text);
                // A number is never broken.
                prop_assert!(cell.parse::<f64>().is_err() || text.contains(cell.as_str()), "{}\n{}", cell, text);
            }
        }
    }
}

#[cfg(test)]
mod script_table_tests {
    use serde_json::{Value, json};

    use super::{ColumnFormat, text_table};
    use crate::report::Page;

    fn drawn(headings: &[&str], rows: Value, width: usize) -> String {
        let rows: Vec<Vec<Value>> = serde_json::from_value(rows).unwrap();
        let headings: Vec<String> = headings.iter().map(|text| (*text).to_owned()).collect();
        let page = Page {
            width,
            ..Page::default()
        };
        text_table(&headings, &rows, page)
    }

    #[test]
    fn numbers_are_right_aligned_and_texts_left_aligned() {
        let text = drawn(
            &["engine", "tokens/s", "p99 TTFT, ms"],
            json!([["vllm", 1833.25, 52.0], ["transformers", null]]),
            80,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "                            p99",
                "                          TTFT,",
                "  engine        tokens/s     ms",
                "  vllm              1833   52.0",
                "  transformers         -      -",
            ]
        );
    }

    #[test]
    fn continued_columns_repeat_the_key_columns() {
        let rows = json!([["a", 1, 2, 3], ["a", 2, 2, 3], ["b", 1, 2, 3]]);
        let text = drawn(&["name", "n", "first figure", "second figure"], rows.clone(), 22);
        let below = text.split("\n\n").nth(1).unwrap();
        assert_eq!(
            below.lines().collect::<Vec<_>>(),
            [
                "           second",
                "  name  n  figure",
                "  a     1       3",
                "  a     2       3",
                "  b     1       3",
            ]
        );
        // On a page too narrow for both key columns, only the first is repeated.
        let narrow = drawn(&["name", "n", "first figure", "second figure"], rows, 14);
        assert!(narrow.split("\n\n").nth(1).unwrap().contains("\n  a      "), "{narrow}");
    }

    #[test]
    fn wide_tables_continue_below() {
        let text = drawn(
            &["n", "aaaa", "bbbb", "cccc"],
            json!([[1, 2, 3, 4], [10, 20, 30, 40]]),
            16,
        );
        assert_eq!(
            text,
            "   n  aaaa  bbbb\n   1     2     3\n  10    20    30\n\n   n  cccc\n   1     4\n  10    40"
        );
        for line in text.lines() {
            assert!(line.len() <= 16, "{line:?}");
        }
    }

    #[test]
    fn a_group_of_columns_continues_below_together() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let headings = [names(&["n"]), names(&["aaaa", "bbbb"]), names(&["cccc", "dddd"])];
        let groups: Vec<&[String]> = headings.iter().map(Vec::as_slice).collect();
        let rows = vec![vec![json!(1), json!(2), json!({ "thin": 3.5 }), json!(4), json!(5)]];
        let page = |width| Page {
            width,
            ..Page::default()
        };
        assert_eq!(
            super::grouped_text_table(&groups, &rows, page(22)),
            "  n  aaaa   bbbb\n  1     2  ~3.50\n\n  n  cccc  dddd\n  1     4     5"
        );
        let one = super::grouped_text_table(&groups, &rows, page(40));
        assert!(!one.contains("\n\n") && one.contains("dddd"), "{one}");
    }

    #[test]
    fn an_empty_table_is_empty() {
        assert_eq!(drawn(&[], json!([]), 80), "");
        assert_eq!(drawn(&["n"], json!([]), 80), "  n");
    }

    fn texts(values: Value) -> Vec<String> {
        let values = values.as_array().unwrap().clone();
        let format = ColumnFormat::new(values.iter());
        values.iter().map(|value| format.apply(value)).collect()
    }

    #[test]
    fn a_column_has_the_decimals_that_its_smallest_number_needs() {
        assert_eq!(texts(json!([52.31, 4100.27, null])), ["52.3", "4100.3", "-"]);
        assert_eq!(texts(json!([0.0512, 2.1])), ["0.0512", "2.1000"]);
        assert_eq!(texts(json!([1833.1, 60.0, 0.0])), ["1833.1", "60.0", "0.0"]);
        assert_eq!(texts(json!([1e-9, 1234.0])), ["0.0", "1234.0"]);
        assert_eq!(texts(json!([1, 256, true, "oom"])), ["1", "256", "yes", "oom"]);
        assert_eq!(texts(json!([123_456.7])), ["123457"]);
    }

    #[test]
    fn a_column_without_numbers_is_left_aligned() {
        assert!(ColumnFormat::new([json!("vllm"), json!(null)].iter()).left_aligned);
        assert!(!ColumnFormat::new([json!("failed"), json!(2)].iter()).left_aligned);
    }
}
