//! Bar charts as text: a row for each level of a sweep, a panel of bars for each figure, and marks beside the rows.

use serde_json::Value;

use super::format::{ColumnFormat, width};
use super::spec::Mark;
use crate::report::Page;

/// Maximum and minimum length of a bar in columns.
const LONGEST: usize = 28;
const SHORTEST: usize = 6;
/// Blanks between panels.
const GAP: usize = 2;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TextBars {
    /// What the levels are: `concurrency`.
    pub(super) x_label: String,
    /// The levels, one row each.
    pub(super) levels: Vec<Value>,
    pub(super) panels: Vec<BarColumn>,
    pub(super) marks: Vec<Mark>,
}

/// One figure at every level.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BarColumn {
    /// Its name, with the unit.
    pub(super) name: String,
    /// Its values, from 0 up; none where a level has none.
    pub(super) values: Vec<Option<f64>>,
}

impl TextBars {
    /// The chart, no wider than the page unless that is too narrow for the shortest bars.
    pub(super) fn draw(&self, page: Page) -> String {
        let format = ColumnFormat::new(self.levels.iter());
        let levels: Vec<String> = self.levels.iter().map(|level| format.apply(level)).collect();
        let left = levels.iter().map(|text| width(text)).max().unwrap_or(0);
        let left = left.max(width(&self.x_label));
        let panels: Vec<FormattedColumn> = self.panels.iter().map(FormattedColumn::new).collect();
        let marks: Vec<String> = self.levels.iter().map(|level| self.marks_beside(level, page)).collect();
        let marks_width = marks.iter().map(|text| width(text)).max().unwrap_or(0);
        let fixed = 2 + left + panels.iter().map(|panel| GAP + panel.figures + 1).sum::<usize>();
        let each = |rest: usize| page.width.saturating_sub(fixed + rest) / panels.len().max(1);
        // Marks stand below the rows if there is no room beside them.
        let beside = each(marks_width) >= SHORTEST;
        let long = each(if beside { marks_width } else { 0 }).clamp(SHORTEST, LONGEST);
        let mut head = format!("  {:>left$}", self.x_label);
        for panel in &panels {
            let room = long + 1 + panel.figures;
            head.push_str(&format!("  {:<room$}", truncated(panel.name, room)));
        }
        let mut lines = vec![head.trim_end().to_owned()];
        for (row, level) in levels.iter().enumerate() {
            let mut line = format!("  {level:>left$}");
            for panel in &panels {
                line.push_str(&format!("  {}", panel.row(row, long, page)));
            }
            if beside {
                line.push_str(&marks[row]);
            }
            lines.push(line.trim_end().to_owned());
        }
        if !beside {
            let marks = levels.iter().zip(&marks).filter(|(_, text)| !text.is_empty());
            lines.extend(
                marks.map(|(level, text)| format!("  at {level}:{}", text.trim_start_matches([' ', '◄', '<']))),
            );
        }
        let others = (self.marks.iter()).filter(|mark| !self.levels.iter().any(|level| same_level(&mark.at, level)));
        lines.extend(others.map(|mark| format!("  at {}: {}", format.apply(&mark.at), mark.text)));
        lines.join("\n")
    }

    /// The marks of a level, with an arrow to its row.
    fn marks_beside(&self, level: &Value, page: Page) -> String {
        let marks: Vec<&str> = self
            .marks
            .iter()
            .filter(|mark| same_level(&mark.at, level))
            .map(|mark| mark.text.as_str())
            .collect();
        if marks.is_empty() {
            return String::new();
        }
        format!("  {} {}", page.pick("◄", "<"), marks.join(", "))
    }
}

/// A panel with its values as text.
struct FormattedColumn<'a> {
    name: &'a str,
    values: &'a [Option<f64>],
    texts: Vec<String>,
    /// The width of the widest value.
    figures: usize,
    highest: f64,
}

impl<'a> FormattedColumn<'a> {
    fn new(panel: &'a BarColumn) -> Self {
        let values: Vec<Value> = panel.values.iter().map(|value| Value::from(*value)).collect();
        let format = ColumnFormat::new(values.iter());
        let texts: Vec<String> = values.iter().map(|value| format.apply(value)).collect();
        Self {
            name: &panel.name,
            values: &panel.values,
            figures: texts.iter().map(|text| width(text)).max().unwrap_or(1),
            texts,
            highest: panel.values.iter().flatten().copied().fold(0.0, f64::max),
        }
    }

    /// The bar of a row, and its value to the right.
    fn row(&self, row: usize, long: usize, page: Page) -> String {
        let value = self.values.get(row).copied().flatten().unwrap_or(0.0);
        let share = if self.highest > 0.0 { value / self.highest } else { 0.0 };
        let text = self.texts.get(row).map_or("-", String::as_str);
        let bar = bar(share, long, page);
        let blanks = " ".repeat(long.saturating_sub(width(&bar)));
        format!("{bar}{blanks} {text:>figures$}", figures = self.figures)
    }
}

/// A bar of a share of the length; at least a sliver unless the share is 0.
fn bar(share: f64, long: usize, page: Page) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * long as f64).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    if page.unicode {
        format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
    } else {
        "#".repeat(eighths.div_ceil(8))
    }
}

/// Whether two levels are equal: 64 is 64.0.
pub(super) fn same_level(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|value| other.as_f64() == Some(value))
}

/// A name cut to a width.
fn truncated(name: &str, room: usize) -> String {
    name.chars().take(room).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{BarColumn, TextBars};
    use crate::report::Page;

    fn bars() -> TextBars {
        let panel = |name: &str, values: Vec<Option<f64>>| BarColumn {
            name: name.into(),
            values,
        };
        TextBars {
            x_label: "concurrency".into(),
            levels: vec![json!(1), json!(64), json!(256)],
            panels: vec![
                panel("output tokens/s", vec![Some(60.0), Some(1200.0), Some(1200.0)]),
                panel("p95 TTFT, ms", vec![Some(50.5), None, Some(4000.0)]),
            ],
            marks: serde_json::from_value(json!([
                { "at": 64.0, "text": "knee" },
                { "at": 64, "text": "preemption from here" },
            ]))
            .unwrap(),
        }
    }

    #[test]
    fn bars_are_proportional_to_their_values() {
        let text = bars().draw(Page {
            width: 100,
            unicode: true,
            colour: false,
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  concurrency  output tokens/s"), "{text}");
        assert!(lines[1].contains("  60.0"), "{text}");
        assert!(lines[2].contains("1200.0"), "{text}");
        assert!(lines[2].ends_with(" -  ◄ knee, preemption from here"), "{text}");
        let full = |line: &str| line.matches('█').count();
        assert!(full(lines[2]) > 10 && full(lines[3]) == 2 * full(lines[2]), "{text}");
        assert!(full(lines[1]) <= 1, "{text}");
    }

    #[test]
    fn it_fits_the_page_in_ascii_too() {
        for width in [60, 80, 200] {
            let text = bars().draw(Page {
                width,
                ..Page::default()
            });
            assert!(text.is_ascii() && text.contains("####"), "{text}");
            assert!(text.lines().all(|line| line.len() <= width), "{width}:\n{text}");
            assert!(text.contains("knee, preemption from here"), "{text}");
        }
    }

    #[test]
    fn a_sweep_without_a_level_is_a_heading() {
        let empty = TextBars {
            levels: Vec::new(),
            marks: Vec::new(),
            panels: Vec::new(),
            ..bars()
        };
        assert_eq!(empty.draw(Page::default()), "  concurrency");
    }
}
