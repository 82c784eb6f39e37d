//! Text tables with right-aligned columns. What is too wide for the page continues below; nothing is cut.

use console::measure_text_width as width;

use crate::report::Page;
use crate::report::drawing::{Column, continued, total_width};

/// Lays out rows below their headings; every line begins with two blanks. Columns without room continue below, beside
/// the first column again, and the last one if it is a verdict, which stays beside what it is about. If not even one
/// column fits beside the first, each row becomes a list of its entries.
pub(in crate::report) fn table(headings: &[&str], rows: &[Vec<String>], page: Page) -> String {
    let columns = headings.iter().enumerate().map(|(at, heading)| {
        let entries = rows.iter().map(|row| row.get(at).cloned().unwrap_or_default());
        Column::of_texts(heading, entries.collect(), is_text(column(rows, at)))
    });
    let columns: Vec<Column> = columns.collect();
    let widest = |columns: &[Column]| columns.chunks(1).map(total_width).max().unwrap_or(0);
    let Some(last) = columns.len().checked_sub(1) else {
        return String::new();
    };
    let first = total_width(&columns[..1]);
    if first + widest(&columns[1..]) > page.width {
        return row_lists(headings, rows, page);
    }
    // A verdict in the last column stands beside every part of the table.
    let heading = headings[last].trim();
    let verdict = (heading.is_empty() || heading.starts_with("against")) && is_text(column(rows, last));
    let end = match last > 1 && verdict {
        true if first + widest(&columns[1..last]) + total_width(&columns[last..]) <= page.width => last,
        _ => last + 1,
    };
    continued(
        &columns[..1],
        columns[1..end].chunks(1),
        &columns[end..],
        rows.len(),
        page,
    )
}

/// Whether entries are words: at least a third of them are no number with its unit. Empty ones do not count.
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

#[cfg(test)]
mod tests {
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
        // A last column of words with a heading is no verdict.
        let words = self::rows(&[&["a", "111", "222", "more"]]);
        assert_eq!(
            drawn(&["", "[1]", "[2]", "[3]"], &words, 14),
            "     [1]  [2]\n  a  111  222\n\n     [3]\n  a  more"
        );
        // A verdict is not torn from what it is about.
        let rows = self::rows(&[&["a", "111", "222", "more"], &["b", "4", "5", "same"]]);
        assert_eq!(
            drawn(&["", "one", "two", ""], &rows, 14),
            "     one\n  a  111  more\n  b    4  same\n\n     two\n  a  222  more\n  b    5  same"
        );
        assert_eq!(
            drawn(
                &["of", "words"],
                &super::tests::rows(&[&["model", "a long story of it"]]),
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
