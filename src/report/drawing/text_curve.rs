//! A curve over time as a text area chart: each column shows the highest value of its interval, so no peak is lost.

use super::format::{ColumnFormat, width};
use super::spec::Mark;
use crate::report::Page;

/// Maximum number of columns, and number of rows.
const WIDEST: usize = 72;
const ROWS: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TextCurve {
    /// Label of the x axis with its unit: `seconds`.
    pub(super) x_label: String,
    /// Label of the values with their unit.
    pub(super) name: String,
    /// `(x, y)` pairs, x rising; y from 0 up, none where nothing was measured.
    pub(super) points: Vec<(f64, Option<f64>)>,
    /// Top of the y axis; by default the highest value.
    pub(super) top: Option<f64>,
    pub(super) marks: Vec<Mark>,
}

impl TextCurve {
    /// The chart as text. An interval without a value stays empty.
    pub(super) fn draw(&self, page: Page) -> String {
        let (Some((first, _)), Some((last, _))) = (self.points.first(), self.points.last()) else {
            return format!("  {}: no values", self.name);
        };
        let highest = self.points.iter().filter_map(|(_, y)| *y).fold(0.0, f64::max);
        let top = self.top.unwrap_or(highest).max(f64::MIN_POSITIVE);
        let format = ColumnFormat::new([top.into(), (top / 2.0).into()].iter());
        let labels = [
            format.apply(&top.into()),
            format.apply(&(top / 2.0).into()),
            "0".to_owned(),
        ];
        let gutter = labels.iter().map(|label| width(label)).max().unwrap_or(1);
        let columns = page.width.saturating_sub(gutter + 4).clamp(8, WIDEST);
        let heights = self.heights(*first, *last, columns);
        let mut lines = vec![format!("  {}", self.name)];
        for row in (0..ROWS).rev() {
            let label = match row {
                _ if row == ROWS - 1 => &labels[0],
                _ if row == ROWS / 2 - 1 => &labels[1],
                _ => "",
            };
            let cells: String = heights
                .iter()
                .map(|height| cell(height.map(|height| height / top), row, page))
                .collect();
            let line = format!("  {label:>gutter$}{}{cells}", page.pick("│", "|"));
            lines.push(line.trim_end().to_owned());
        }
        let (corner, edge) = page.pick(('└', "─"), ('+', "-"));
        lines.push(format!("  {:>gutter$}{corner}{}", labels[2], edge.repeat(columns)));
        lines.push(self.ruler(*first, *last, gutter, columns));
        lines.extend(self.mark_lines(*first, *last, gutter, columns));
        lines.join("\n")
    }

    /// The highest value in each column. A sample holds until the next one.
    fn heights(&self, first: f64, last: f64, columns: usize) -> Vec<Option<f64>> {
        let mut heights: Vec<Option<f64>> = vec![None; columns];
        let mut from = 0;
        for (index, (x, y)) in self.points.iter().enumerate() {
            let at = column(*x, first, last, columns);
            if index > 0 {
                let before = self.points[index - 1].1;
                for height in &mut heights[(from + 1).min(at)..at] {
                    *height = before;
                }
            }
            heights[at] = match (heights[at], *y) {
                (Some(highest), Some(value)) => Some(highest.max(value)),
                (highest, value) => highest.or(value),
            };
            from = at;
        }
        heights
    }

    fn ruler(&self, first: f64, last: f64, gutter: usize, columns: usize) -> String {
        let format = ColumnFormat::new([first.into(), last.into()].iter());
        let (left, right) = (format.apply(&first.into()), format.apply(&last.into()));
        let right = format!("{right} {}", self.x_label);
        let blanks = columns.saturating_sub(width(&left) + width(&right)).max(1);
        format!("  {:gutter$} {left}{}{right}", "", " ".repeat(blanks))
    }

    /// A line for each mark: an arrow below its position, and its text on the side that has room.
    fn mark_lines(&self, first: f64, last: f64, gutter: usize, columns: usize) -> Vec<String> {
        let line = |mark: &Mark| {
            let place = mark.at.as_f64()?;
            let at = column(place, first, last, columns);
            // The arrow of a mark outside the chart can only point to its edge.
            let words = match (first..=last).contains(&place) {
                true => mark.text.clone(),
                false => format!(
                    "{} (at {})",
                    mark.text,
                    ColumnFormat::new([&mark.at].into_iter()).apply(&mark.at)
                ),
            };
            let right = format!("{}^ {words}", " ".repeat(at));
            let text = if width(&right) <= columns {
                right
            } else {
                let left = format!("{words} ^");
                format!("{}{left}", " ".repeat((at + 1).saturating_sub(width(&left))))
            };
            Some(format!("  {:gutter$} {text}", ""))
        };
        self.marks.iter().filter_map(line).collect()
    }
}

/// The column of an x value.
fn column(x: f64, first: f64, last: f64, columns: usize) -> usize {
    let share = if last > first {
        (x - first) / (last - first)
    } else {
        0.0
    };
    ((share.clamp(0.0, 1.0) * columns as f64) as usize).min(columns - 1)
}

/// The character of a column in one row, for a value as a share of the top.
fn cell(share: Option<f64>, row: usize, page: Page) -> &'static str {
    const PARTS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let Some(share) = share else { return " " };
    let eighths = (share.clamp(0.0, 1.0) * (8 * ROWS) as f64).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    let here = eighths.saturating_sub(8 * row).min(8);
    match page.unicode {
        true => PARTS[here],
        false if here >= 4 || (row == 0 && here > 0) => "#",
        false => " ",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ROWS, TextCurve};
    use crate::report::Page;

    fn curve(points: Vec<(f64, Option<f64>)>) -> TextCurve {
        TextCurve {
            x_label: "seconds".into(),
            name: "KV cache in use, %".into(),
            points,
            top: Some(100.0),
            marks: Vec::new(),
        }
    }

    fn page(unicode: bool) -> Page {
        Page {
            width: 60,
            unicode,
            colour: false,
        }
    }

    #[test]
    fn a_peak_of_one_sample_is_visible() {
        let mut points: Vec<_> = (0..10_000).map(|at| (f64::from(at), Some(10.0))).collect();
        points[5_000].1 = Some(100.0);
        let text = curve(points).draw(page(true));
        let top = text.lines().nth(1).unwrap();
        assert_eq!(top.matches('█').count(), 1, "{text}");
        assert!(top.starts_with("  100.0│"), "{text}");
        assert_eq!(text.lines().count(), ROWS + 3);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn gaps_are_left_empty() {
        let text = curve(vec![(0.0, Some(100.0)), (1.0, None), (2.0, None), (3.0, Some(100.0))]).draw(page(false));
        let bottom: Vec<&str> = text.lines().collect();
        let bottom = bottom[ROWS];
        assert!(bottom.contains("# ") && bottom.trim_end().ends_with('#'), "{text}");
        assert!(text.is_ascii());
    }

    #[test]
    fn moments_are_marked_where_there_is_room() {
        let mut drawn = curve(vec![(0.0, Some(0.0)), (10.0, Some(50.0))]);
        drawn.marks = serde_json::from_value(json!([
            { "at": 0, "text": "begins" },
            { "at": 10.0, "text": "preemption from here" },
        ]))
        .unwrap();
        let text = drawn.draw(page(true));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[lines.len() - 2].trim(), "^ begins");
        assert!(lines[lines.len() - 1].ends_with("preemption from here ^"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn an_empty_curve_says_so() {
        assert!(curve(Vec::new()).draw(page(true)).contains("no values"));
        let one = curve(vec![(1.0, Some(100.0))]).draw(page(true));
        assert!(one.contains('█'), "{one}");
    }
}
