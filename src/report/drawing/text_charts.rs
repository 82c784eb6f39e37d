//! Charts as text: bars with a row for each level of a sweep, a curve over time as an area, and scattered points.

use serde_json::Value;

use super::spec::Mark;
use super::text_table::{ColumnFormat, width};
use crate::report::Page;
use crate::report::plot::dropped_note;
use crate::report::spark::column;

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

/// Maximum number of columns, and number of rows.
const CURVE_COLUMNS: usize = 72;
const CURVE_ROWS: usize = 8;

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
        let columns = page.width.saturating_sub(gutter + 4).clamp(8, CURVE_COLUMNS);
        let heights = self.heights(*first, *last, columns);
        let mut lines = vec![format!("  {}", self.name)];
        for row in (0..CURVE_ROWS).rev() {
            let label = match row {
                _ if row == CURVE_ROWS - 1 => &labels[0],
                _ if row == CURVE_ROWS / 2 - 1 => &labels[1],
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

/// The character of a column in one row, for a value as a share of the top.
fn cell(share: Option<f64>, row: usize, page: Page) -> &'static str {
    const PARTS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let Some(share) = share else { return " " };
    let eighths = (share.clamp(0.0, 1.0) * (8 * CURVE_ROWS) as f64).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    let here = eighths.saturating_sub(8 * row).min(8);
    match page.unicode {
        true => PARTS[here],
        false if here >= 4 || (row == 0 && here > 0) => "#",
        false => " ",
    }
}

/// Maximum number of columns, and number of rows.
const SCATTER_COLUMNS: usize = 64;
const SCATTER_ROWS: usize = 14;

/// Draws named series; `log` says which axes are logarithmic. Where two series share a cell, the later one is shown.
pub(super) fn draw_scatter(
    (across, up): (&str, &str),
    series: &[(&str, Vec<(f64, f64)>)],
    log: (bool, bool),
    page: Page,
) -> String {
    let all = || series.iter().flat_map(|(_, points)| points);
    let shown = |value: f64, log: bool| value.is_finite() && (!log || value > 0.0);
    let has_place = |(x, y): &(f64, f64)| shown(*x, log.0) && shown(*y, log.1);
    let range = |part: fn(&(f64, f64)) -> f64, log: bool| {
        all()
            .map(part)
            .filter(|value| shown(*value, log))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
    };
    let (x, y) = (range(|point| point.0, log.0), range(|point| point.1, log.1));
    if x.0 > x.1 || y.0 > y.1 {
        return format!("  {up}: no values");
    }
    let format = ColumnFormat::new([y.0.into(), y.1.into()].iter());
    let (top, bottom) = (format.apply(&y.1.into()), format.apply(&y.0.into()));
    let gutter = width(&top).max(width(&bottom));
    let columns = page.width.saturating_sub(gutter + 4).clamp(8, SCATTER_COLUMNS);
    let letters = page.pick(
        ['●', '×', '◆', '○', '▲', '□', '+', '*'],
        ['o', 'x', '+', '*', '#', '@', '%', '='],
    );
    let mut field = vec![vec![' '; columns]; SCATTER_ROWS];
    for (index, (_, points)) in series.iter().enumerate() {
        for (px, py) in points.iter().filter(|point| has_place(point)) {
            let (column, row) = (
                cell_index(*px, x, log.0, columns),
                cell_index(*py, y, log.1, SCATTER_ROWS),
            );
            field[SCATTER_ROWS - 1 - row][column] = letters[index % letters.len()];
        }
    }
    let mut lines = vec![format!("  {up}")];
    for (row, cells) in field.iter().enumerate() {
        let label = match row {
            0 => top.as_str(),
            _ if row == SCATTER_ROWS - 1 => bottom.as_str(),
            _ => "",
        };
        let cells: String = cells.iter().collect();
        let line = format!("  {label:>gutter$}{}{cells}", page.pick("│", "|"));
        lines.push(line.trim_end().to_owned());
    }
    let (corner, edge) = page.pick(('└', "─"), ('+', "-"));
    lines.push(format!("  {:gutter$}{corner}{}", "", edge.repeat(columns)));
    let format = ColumnFormat::new([x.0.into(), x.1.into()].iter());
    let (left, right) = (
        format.apply(&x.0.into()),
        format!("{} {across}", format.apply(&x.1.into())),
    );
    let blanks = columns.saturating_sub(width(&left) + width(&right)).max(1);
    lines.push(
        format!("  {:gutter$} {left}{}{right}", "", " ".repeat(blanks))
            .trim_end()
            .to_owned(),
    );
    if series.len() > 1 {
        let keys: Vec<String> = series
            .iter()
            .enumerate()
            .map(|(index, (name, _))| format!("{} {name}", letters[index % letters.len()]))
            .collect();
        lines.push(format!("  {:gutter$} {}", "", keys.join("   ")));
    }
    let dropped = all().filter(|point| !has_place(point)).count();
    lines.extend(dropped_note(dropped).map(|text| format!("  {:gutter$} {text}", "")));
    lines.join("\n")
}

/// The cell of a value, of `cells` cells.
fn cell_index(value: f64, (low, high): (f64, f64), log: bool, cells: usize) -> usize {
    let (value, low, high) = if log {
        (value.ln(), low.ln(), high.ln())
    } else {
        (value, low, high)
    };
    let share = if high > low { (value - low) / (high - low) } else { 0.5 };
    ((share.clamp(0.0, 1.0) * (cells - 1) as f64).round() as usize).min(cells - 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        assert_eq!(text.lines().count(), CURVE_ROWS + 3);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn gaps_are_left_empty() {
        let text = curve(vec![(0.0, Some(100.0)), (1.0, None), (2.0, None), (3.0, Some(100.0))]).draw(page(false));
        let bottom: Vec<&str> = text.lines().collect();
        let bottom = bottom[CURVE_ROWS];
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

    #[test]
    fn each_series_has_its_letter() {
        let series = [("near", vec![(1.0, 1.0), (10.0, 1.0)]), ("far", vec![(100.0, 9.5)])];
        let text = draw_scatter(("input", "latency, ms"), &series, (true, false), Page::default());
        assert!(text.is_ascii() && text.contains("o near   x far"), "{text}");
        let bottom = text
            .lines()
            .find(|line| line.trim_start().starts_with("1.00|"))
            .unwrap();
        // On a logarithmic axis, 10 lies in the middle of 1 and 100.
        assert_eq!(bottom.matches('o').count(), 2, "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn an_empty_chart_says_so() {
        assert!(
            draw_scatter(
                ("x", "y"),
                &[("none", vec![(0.0, 1.0)])],
                (true, false),
                Page::default()
            )
            .contains("no values")
        );
    }
}
