//! A curve over time as an area: each column shows the highest value of its stretch, so that no peak is lost.

use super::cells::{Style, width};
use super::given::Mark;
use crate::report::Page;

/// Columns and rows at most.
const WIDEST: usize = 72;
const ROWS: usize = 8;

/// What is drawn as a curve.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    /// What is to the right, with its unit: `seconds`.
    pub(super) along: String,
    /// What is drawn, with its unit.
    pub(super) name: String,
    /// `[x, y]` pairs, x rising; y from 0 up, nothing where it was not seen.
    pub(super) points: Vec<(f64, Option<f64>)>,
    /// The top of the picture; the highest value without it.
    pub(super) top: Option<f64>,
    /// What is told of moments.
    pub(super) marks: Vec<Mark>,
}

impl Curve {
    /// The text. A stretch without a value is left empty.
    pub(super) fn draw(&self, page: Page) -> String {
        let (Some((first, _)), Some((last, _))) = (self.points.first(), self.points.last()) else {
            return format!("  {}: nothing was seen", self.name);
        };
        let highest = self.points.iter().filter_map(|(_, y)| *y).fold(0.0, f64::max);
        let top = self.top.unwrap_or(highest).max(f64::MIN_POSITIVE);
        let style = Style::of([top.into(), (top / 2.0).into()].iter());
        let labels = [style.text(&top.into()), style.text(&(top / 2.0).into()), "0".to_owned()];
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
        lines.extend(self.told(*first, *last, gutter, columns));
        lines.join("\n")
    }

    /// The highest value in each column. A look holds until the next, as what was not looked at is not known to have changed.
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
                (Some(known), Some(value)) => Some(known.max(value)),
                (known, value) => known.or(value),
            };
            from = at;
        }
        heights
    }

    fn ruler(&self, first: f64, last: f64, gutter: usize, columns: usize) -> String {
        let style = Style::of([first.into(), last.into()].iter());
        let (left, right) = (style.text(&first.into()), style.text(&last.into()));
        let right = format!("{right} {}", self.along);
        let blanks = columns.saturating_sub(width(&left) + width(&right)).max(1);
        format!("  {:gutter$} {left}{}{right}", "", " ".repeat(blanks))
    }

    /// A line for each mark: an arrow below its moment, and its words on the side that has room.
    fn told(&self, first: f64, last: f64, gutter: usize, columns: usize) -> Vec<String> {
        let line = |mark: &Mark| {
            let place = mark.at.as_f64()?;
            let at = column(place, first, last, columns);
            // Beside the curve its arrow can only point to the end.
            let words = match (first..=last).contains(&place) {
                true => mark.text.clone(),
                false => format!(
                    "{} (at {})",
                    mark.text,
                    Style::of([&mark.at].into_iter()).text(&mark.at)
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

/// The column of a moment.
fn column(x: f64, first: f64, last: f64, columns: usize) -> usize {
    let share = if last > first {
        (x - first) / (last - first)
    } else {
        0.0
    };
    ((share.clamp(0.0, 1.0) * columns as f64) as usize).min(columns - 1)
}

/// What a column shows in one row, of a value as a share of the top.
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

    use super::{Curve, ROWS};
    use crate::report::Page;

    fn curve(points: Vec<(f64, Option<f64>)>) -> Curve {
        Curve {
            along: "seconds".into(),
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
    fn a_peak_of_one_look_is_seen() {
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
    fn what_was_not_seen_is_left_empty() {
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
    fn nothing_seen_is_said() {
        assert!(curve(Vec::new()).draw(page(true)).contains("nothing was seen"));
        let one = curve(vec![(1.0, Some(100.0))]).draw(page(true));
        assert!(one.contains('█'), "{one}");
    }
}
