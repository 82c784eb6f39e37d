//! Plots as text: a row for each position of bars and of short lines, an area for each longer line, characters for
//! scattered points, a table for a heat map. [`Canvas`] draws cells between two axes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::scale::{AxisLayout, AxisScale, Extent, Tick, TickUnit, heading, unshowable_note};
use super::{Entry, Layer, Panel, Plot};
use crate::report::Page;
use crate::report::drawing::{ColumnFormat, text_table, width};
use crate::unit::Unit;

/// Maximum number of columns of a canvas: wider ones are harder to read.
const WIDEST: usize = 72;
/// Maximum number of positions of lines that get a row each.
const LEVELS: usize = 24;
/// Rows of an area, and of scattered points.
const AREA_ROWS: usize = 8;
const SCATTER_ROWS: usize = 14;

/// Draws a plot as text, no wider than the page unless that is too narrow for anything.
pub(in crate::report) fn text(plot: &Plot, page: Page) -> String {
    let text = draw(plot, page);
    match page.unicode {
        true => text,
        false => text.replace('−', "-").replace("°C", "C"),
    }
}

fn draw(plot: &Plot, page: Page) -> String {
    let layers = || plot.panels.iter().flat_map(|panel| &panel.layers);
    let cells = layers().find_map(|layer| match layer {
        Layer::Cells { name, .. } => Some(name),
        _ => None,
    });
    if let Some(name) = cells {
        let rows: Vec<Vec<Value>> = plot
            .sheet
            .rows
            .iter()
            .map(|row| row.iter().map(value).collect())
            .collect();
        return format!("  {name}\n{}", text_table(&plot.sheet.columns, &rows, page));
    }
    if let Some(rows) = Rows::new(&plot.panels) {
        return rows.draw(page);
    }
    let texts: Vec<String> = plot.panels.iter().flat_map(|panel| canvases(panel, page)).collect();
    texts.join("\n\n")
}

fn value(entry: &Entry) -> Value {
    match entry {
        Entry::Number(number) => Value::from(*number),
        Entry::Text(text) => Value::from(text.as_str()),
        Entry::None => Value::Null,
    }
}

/// The name and the points of a series.
type Series<'a> = (&'a str, Vec<(f64, Option<f64>)>);

/// The layers that are series.
fn series(panel: &Panel) -> impl Iterator<Item = Series<'_>> {
    panel.layers.iter().filter_map(|layer| match layer {
        Layer::Line { name, points, .. } => Some((name.as_str(), points.clone())),
        Layer::Dots { name, points, .. } => {
            let points = points.iter().map(|(x, y)| (*x, Some(*y))).collect();
            Some((name.as_str(), points))
        }
        Layer::Bars { name, bars, .. } => {
            let points = bars.iter().map(|bar| (bar.at, Some(bar.value))).collect();
            Some((name.as_str(), points))
        }
        _ => None,
    })
}

/// The labels of positions on the x axis.
fn moments(panel: &Panel) -> impl Iterator<Item = (f64, &str)> {
    let moments = panel.layers.iter().flat_map(|layer| match layer {
        Layer::Moments { moments, .. } => moments.as_slice(),
        _ => &[],
    });
    moments.map(|moment| (moment.at, moment.label.as_str()))
}

/// Maximum and minimum length of a bar in columns, and blanks between columns of bars.
const LONGEST: usize = 28;
const SHORTEST: usize = 6;
const GAP: usize = 2;

/// A row for each position with a bar for each series.
struct Rows {
    /// The unit of the values, if that is not in the names of the columns.
    heading: Option<String>,
    x_label: String,
    levels: Vec<String>,
    columns: Vec<BarColumn>,
    /// What is said about each level.
    marks: Vec<Vec<String>>,
    /// What is said about other positions.
    others: Vec<String>,
}

/// One series at every level.
struct BarColumn {
    name: String,
    /// Share of the highest value.
    shares: Vec<f64>,
    texts: Vec<String>,
    /// The width of the widest text.
    figures: usize,
}

impl Rows {
    /// `None` for plots that are no bars or short lines.
    fn new(panels: &[Panel]) -> Option<Self> {
        let x = &panels.first()?.x;
        let layers = || panels.iter().flat_map(|panel| &panel.layers);
        let bars = layers().any(|layer| matches!(layer, Layer::Bars { .. }));
        let dots = layers().any(|layer| matches!(layer, Layer::Dots { .. }));
        let mut at: Vec<f64> = match x.names.is_empty() {
            false => (0..x.names.len()).map(|index| index as f64).collect(),
            true => panels
                .iter()
                .flat_map(series)
                .flat_map(|(_, points)| points)
                .map(|point| point.0)
                .collect(),
        };
        at.sort_by(f64::total_cmp);
        at.dedup();
        let time = matches!(x.unit, Unit::Seconds | Unit::Milliseconds);
        if !bars && (dots || time || at.is_empty() || at.len() > LEVELS) {
            return None;
        }
        let most = at.iter().fold(0.0, |most: f64, at| most.max(at.abs()));
        let unit = TickUnit::new(x.unit, most, false);
        let numbers: Vec<Value> = at.iter().map(|at| number(at / unit.size)).collect();
        let format = ColumnFormat::new(numbers.iter());
        let levels = if x.names.is_empty() {
            numbers.iter().map(|at| format.apply(at)).collect()
        } else {
            x.names.clone()
        };
        let mut marks = vec![Vec::new(); at.len()];
        let mut others = Vec::new();
        for (place, text) in moments(panels.first()?) {
            match at.iter().position(|at| *at == place) {
                Some(row) => marks[row].push(text.to_owned()),
                None => others.push(format!("  at {}: {text}", format.apply(&number(place / unit.size)))),
            }
        }
        let columns: Vec<BarColumn> = panels.iter().flat_map(|panel| BarColumn::of(panel, &at)).collect();
        let about = match panels {
            [one] if columns.len() > 1 => Some(y_heading(one)).filter(|heading| !heading.is_empty()),
            _ => None,
        };
        Some(Self {
            heading: about,
            x_label: heading(x, unit),
            levels,
            columns,
            marks,
            others,
        })
    }

    fn draw(&self, page: Page) -> String {
        let left = self
            .levels
            .iter()
            .map(|text| width(text))
            .max()
            .unwrap_or(0)
            .max(width(&self.x_label));
        let arrow = page.pick("◄", "<");
        let beside = |marks: &Vec<String>| match marks.is_empty() {
            true => String::new(),
            false => format!("  {arrow} {}", marks.join(", ")),
        };
        let marks_width = self.marks.iter().map(|marks| width(&beside(marks))).max().unwrap_or(0);
        let fixed = 2
            + left
            + self
                .columns
                .iter()
                .map(|column| GAP + column.figures + 1)
                .sum::<usize>();
        let each = |rest: usize| page.width.saturating_sub(fixed + rest) / self.columns.len().max(1);
        // Marks stand below the rows if there is no room beside them.
        let room = each(marks_width) >= SHORTEST;
        let long = each(if room { marks_width } else { 0 }).clamp(SHORTEST, LONGEST);
        let mut lines: Vec<String> = self.heading.iter().map(|heading| format!("  {heading}")).collect();
        let mut head = format!("  {:>left$}", self.x_label);
        for column in &self.columns {
            let room = long + 1 + column.figures;
            head.push_str(&format!(
                "  {:<room$}",
                column.name.chars().take(room).collect::<String>()
            ));
        }
        lines.push(head);
        for (row, level) in self.levels.iter().enumerate() {
            let mut line = format!("  {level:>left$}");
            for column in &self.columns {
                let bar = bar(column.shares[row], long, page);
                let blanks = " ".repeat(long.saturating_sub(width(&bar)));
                line.push_str(&format!(
                    "  {bar}{blanks} {:>figures$}",
                    column.texts[row],
                    figures = column.figures
                ));
            }
            if room {
                line.push_str(&beside(&self.marks[row]));
            }
            lines.push(line);
        }
        let below = self
            .levels
            .iter()
            .zip(&self.marks)
            .filter(|(_, marks)| !room && !marks.is_empty());
        lines.extend(below.map(|(level, marks)| format!("  at {level}: {}", marks.join(", "))));
        lines.extend(self.others.iter().cloned());
        lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
    }
}

impl BarColumn {
    /// The columns of a panel.
    fn of(panel: &Panel, at: &[f64]) -> Vec<Self> {
        let unit = y_unit(panel);
        let single = series(panel).count() == 1;
        let column = |(name, points): Series| {
            let value = |at: &f64| points.iter().find(|point| point.0 == *at).and_then(|point| point.1);
            let values: Vec<Option<f64>> = at.iter().map(|at| value(at).map(|value| value / unit.size)).collect();
            let highest = values.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
            let entries: Vec<Value> = values.iter().map(|value| Value::from(*value)).collect();
            let format = ColumnFormat::new(entries.iter());
            let texts: Vec<String> = entries.iter().map(|value| format.apply(value)).collect();
            let heading = y_heading(panel);
            Self {
                name: if name.is_empty() || (single && !heading.is_empty()) {
                    heading
                } else {
                    name.to_owned()
                },
                shares: values.iter().map(|value| value.unwrap_or(0.0) / highest).collect(),
                figures: texts.iter().map(|text| width(text)).max().unwrap_or(1),
                texts,
            }
        };
        series(panel).map(column).collect()
    }
}

fn y_unit(panel: &Panel) -> TickUnit {
    let values = panel.layers.iter().flat_map(|layer| layer.values().1);
    let most = values
        .filter(|value| value.is_finite())
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    TickUnit::new(panel.y.unit, most, false)
}

fn y_heading(panel: &Panel) -> String {
    heading(&panel.y, y_unit(panel))
}

/// An integer if the value is whole.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}

/// A bar of a share of the length; at least a sliver unless the share is 0.
fn bar(share: f64, long: usize, page: Page) -> String {
    let eighths = eighths(share, long);
    match page.unicode {
        true => format!(
            "{}{}",
            "█".repeat(eighths / 8),
            ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]
        ),
        false => "#".repeat(eighths.div_ceil(8)),
    }
}

/// A share of `cells` cells in eighths of a cell.
fn eighths(share: f64, cells: usize) -> usize {
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * cells as f64).round() as usize;
    if share > 0.0 { eighths.max(1) } else { 0 }
}

/// A canvas for each line of a panel, or one for all if points are scattered or below zero.
fn canvases(panel: &Panel, page: Page) -> Vec<String> {
    let all: Vec<Series> = series(panel).collect();
    let y = y_heading(panel);
    let empty = |points: &[(f64, Option<f64>)]| points.iter().all(|point| point.1.is_none());
    let scattered = panel.layers.iter().any(|layer| matches!(layer, Layer::Dots { .. }));
    let negative = all
        .iter()
        .flat_map(|(_, points)| points)
        .any(|(_, y)| y.is_some_and(|y| y < 0.0));
    if scattered || negative {
        return vec![scatter(panel, &all, &y, page)];
    }
    let area_of = |(name, points): &Series| {
        let name = match (all.len(), y.as_str()) {
            (1, y) if !y.is_empty() => y.to_owned(),
            (_, "") => (*name).to_owned(),
            (_, y) => format!("{name}: {y}"),
        };
        match empty(points) {
            true => format!("  {name}: no values"),
            false => area(panel, points, name, page),
        }
    };
    all.iter().map(area_of).collect()
}

/// The highest value in each column as a filled area. A sample holds until the next one; gaps stay empty.
fn area(panel: &Panel, points: &[(f64, Option<f64>)], name: String, page: Page) -> String {
    let y = AxisLayout::new(&panel.y, Extent::y(panel, false).with_zero(), true);
    let axes = Axes::new(panel, y, AREA_ROWS, page);
    let mut heights: Vec<Option<f64>> = vec![None; axes.columns];
    for (index, (at, value)) in points.iter().enumerate() {
        let Some(value) = value else { continue };
        let from = axes.column(*at);
        let next = points.get(index + 1).map_or(from, |next| axes.column(next.0));
        for height in &mut heights[from..next.max(from + 1)] {
            *height = Some(height.map_or(*value, |highest| highest.max(*value)));
        }
    }
    let cell = |height: &Option<f64>, row: usize| {
        let full = height.map_or(0, |value| eighths(axes.y.scale.share(value), AREA_ROWS));
        let here = full.saturating_sub(8 * row).min(8);
        match page.unicode {
            true => [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][here],
            false if here >= 4 || (row == 0 && here > 0) => '#',
            false => ' ',
        }
    };
    let rows = (0..AREA_ROWS)
        .rev()
        .map(|row| heights.iter().map(|height| cell(height, row)).collect())
        .collect();
    axes.draw(panel, name, rows, page)
}

/// Points of several series, each with its character; where two share a cell, the later one is shown.
fn scatter(panel: &Panel, all: &[Series], y: &str, page: Page) -> String {
    let layout = AxisLayout::new(&panel.y, Extent::y(panel, false), true);
    let axes = Axes::new(panel, layout, SCATTER_ROWS, page);
    let letters = page.pick(
        ['●', '×', '◆', '○', '▲', '□', '+', '*'],
        ['o', 'x', '+', '*', '#', '@', '%', '='],
    );
    let mut field = vec![vec![' '; axes.columns]; SCATTER_ROWS];
    let mut none = true;
    for ((_, points), letter) in all.iter().zip(letters.iter().cycle()) {
        for (x, y) in points.iter().filter_map(|(x, y)| Some((*x, (*y)?))) {
            if axes.x.scale.contains(x) && axes.y.scale.contains(y) {
                let row = cell_index(axes.y.scale, y, SCATTER_ROWS);
                field[SCATTER_ROWS - 1 - row][axes.column(x)] = *letter;
                none = false;
            }
        }
    }
    if none {
        return format!("  {y}: no values");
    }
    let rows = field.into_iter().map(String::from_iter).collect();
    let mut text = axes.draw(panel, y.to_owned(), rows, page);
    if all.len() > 1 {
        let keys = all.iter().zip(letters.iter().cycle());
        let keys: Vec<String> = keys.map(|((name, _), letter)| format!("{letter} {name}")).collect();
        text.push_str(&format!("\n  {}", keys.join("   ")));
    }
    if let Some(note) = unshowable_note(panel) {
        text.push_str(&format!("\n  {note}"));
    }
    text
}

/// The axes of a canvas.
struct Axes {
    x: AxisLayout,
    y: AxisLayout,
    y_ticks: Vec<Tick>,
    columns: usize,
}

impl Axes {
    fn new(panel: &Panel, y: AxisLayout, rows: usize, page: Page) -> Self {
        let x = AxisLayout::new(&panel.x, Extent::x(panel), false);
        let y_ticks = y.ticks(rows / 3, 0.0);
        let gutter = y_ticks.iter().map(|tick| width(&tick.label)).max().unwrap_or(1) + 2;
        Self {
            columns: Canvas::columns(gutter + 2, page),
            x,
            y,
            y_ticks,
        }
    }

    fn column(&self, at: f64) -> usize {
        cell_index(self.x.scale, at, self.columns)
    }

    /// The canvas, indented, with the marks below it.
    fn draw(&self, panel: &Panel, y_label: String, rows: Vec<String>, page: Page) -> String {
        let y_tick = |tick: &Tick| {
            (
                rows.len() - 1 - cell_index(self.y.scale, tick.at, rows.len()),
                tick.label.clone(),
            )
        };
        let x_tick = |tick: Tick| (self.column(tick.at), tick.label);
        let canvas = Canvas {
            y_label,
            x_label: self.x.heading.clone(),
            y_ticks: self.y_ticks.iter().map(y_tick).collect(),
            x_ticks: self.x.ticks(self.columns / 10, 0.0).into_iter().map(x_tick).collect(),
            columns: self.columns,
            rows,
        };
        let gutter = canvas.gutter();
        let mut lines = canvas.lines(page);
        for (at, text) in moments(panel) {
            // The arrow of a mark outside the chart can only point to its edge.
            let text = match self.x.scale.contains(at) {
                true => text.to_owned(),
                false => format!("{text} (at {})", self.x.unit.format(at)),
            };
            let column = self.column(at);
            let right = format!("{}^ {text}", " ".repeat(column));
            let line = match width(&right) <= self.columns {
                true => right,
                false => {
                    let left = format!("{text} ^");
                    format!("{}{left}", " ".repeat((column + 1).saturating_sub(width(&left))))
                }
            };
            lines.push(format!("{}{line}", " ".repeat(gutter)));
        }
        let line = |line: &String| format!("  {}", line.trim_end()).trim_end().to_owned();
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// The cell of a value, of `cells` cells.
fn cell_index(scale: AxisScale, value: f64, cells: usize) -> usize {
    ((scale.share(value).clamp(0.0, 1.0) * cells as f64) as usize).min(cells.saturating_sub(1))
}

/// Cells between two axes.
pub(in crate::report) struct Canvas {
    /// What the rows are; above the axis.
    pub(in crate::report) y_label: String,
    /// What the columns are; below the axis.
    pub(in crate::report) x_label: String,
    /// Rows from the top, with their labels.
    pub(in crate::report) y_ticks: Vec<(usize, String)>,
    /// Columns with their labels, rising.
    pub(in crate::report) x_ticks: Vec<(usize, String)>,
    pub(in crate::report) columns: usize,
    /// The cells of each row, from the top; they may have colours.
    pub(in crate::report) rows: Vec<String>,
}

impl Canvas {
    /// How many columns fit beside `left` columns.
    pub(in crate::report) fn columns(left: usize, page: Page) -> usize {
        page.width.min(WIDEST).saturating_sub(left + 1).max(8)
    }

    /// Columns before the first cell.
    fn gutter(&self) -> usize {
        self.y_ticks
            .iter()
            .map(|(_, text)| width(text))
            .max()
            .unwrap_or(0)
            .max(1)
            + 2
    }

    /// The lines from the label of the y axis to that of the x axis.
    pub(in crate::report) fn lines(&self, page: Page) -> Vec<String> {
        let gutter = self.gutter();
        let labels: BTreeMap<usize, &str> = self.y_ticks.iter().map(|(row, text)| (*row, text.as_str())).collect();
        let mut lines = vec![format!("{:>gutter$}", self.y_label)];
        let (side, corner, edge) = page.pick(("│", "└", "─"), ("|", "+", "-"));
        for (row, cells) in self.rows.iter().enumerate() {
            let label = labels.get(&row).copied().unwrap_or_default();
            lines.push(format!("{label:>room$} {side}{cells}", room = gutter - 2));
        }
        lines.push(format!(
            "{}{corner}{}",
            " ".repeat(gutter - 1),
            edge.repeat(self.columns)
        ));
        lines.push(ruler(&self.x_ticks, self.columns, gutter));
        lines.push(format!("{:>room$}", self.x_label, room = gutter + self.columns));
        lines
    }
}

/// A line with each label below its cell, as far as they do not touch; the first cell is at column `left`.
pub(in crate::report) fn ruler(ticks: &[(usize, String)], columns: usize, left: usize) -> String {
    let mut line = " ".repeat(left);
    let mut end = 0;
    for (number, (column, text)) in ticks.iter().enumerate() {
        // A label does not go on beyond the last cell.
        let start = (left + column).min((left + columns).saturating_sub(width(text)));
        if number > 0 && start <= end {
            continue;
        }
        line.push_str(&" ".repeat(start.saturating_sub(width(&line))));
        line.push_str(text);
        end = width(&line);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::{Axis, Bar, Colour, Moment, Scale, Shape};

    fn page(width: usize, unicode: bool) -> Page {
        Page {
            width,
            unicode,
            colour: false,
        }
    }

    fn plot(panels: Vec<Panel>) -> Plot {
        Plot {
            panels,
            ..Plot::default()
        }
    }

    fn marked(at: f64, label: &str) -> Layer {
        let label = label.to_owned();
        Layer::Moments {
            moments: vec![Moment { at, label }],
            colour: Colour::Quiet,
        }
    }

    /// Two quantities at three levels.
    fn bars() -> Plot {
        let panel = |name: &str, unit: Unit, values: [Option<f64>; 3]| {
            let bars = (0..).zip(values).filter_map(|(at, value)| {
                Some(Bar {
                    at: f64::from(at),
                    value: value?,
                    ..Bar::default()
                })
            });
            Panel {
                x: Axis {
                    label: "concurrency".to_owned(),
                    ..Axis::categories(["1", "64", "256"].map(str::to_owned))
                },
                y: Axis::new(name, unit),
                layers: vec![
                    marked(1.0, "knee, preemption from here"),
                    Layer::bars("", bars, Colour::Quiet),
                ],
                ..Panel::default()
            }
        };
        plot(vec![
            panel(
                "output tokens/s",
                Unit::TokensPerSecond,
                [Some(60.0), Some(1200.0), Some(1200.0)],
            ),
            panel("p95 TTFT", Unit::Milliseconds, [Some(50.5), None, Some(4000.0)]),
        ])
    }

    #[test]
    fn bars_are_proportional_to_their_values() {
        let text = text(&bars(), page(100, true));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("  concurrency  output tokens/s") && lines[0].ends_with("p95 TTFT, ms"),
            "{text}"
        );
        assert!(lines[1].contains("  60.0") && lines[2].contains("1200.0"), "{text}");
        assert!(lines[2].ends_with(" -  ◄ knee, preemption from here"), "{text}");
        let full = |line: &str| line.matches('█').count();
        assert!(full(lines[2]) > 10 && full(lines[3]) == 2 * full(lines[2]), "{text}");
        assert!(full(lines[1]) <= 1, "{text}");
    }

    #[test]
    fn every_kind_fits_the_page_in_ascii_too() {
        let points = |scale: f64| (0..100).map(move |at| (f64::from(at), scale * f64::from(at % 17)));
        let line = |scale: f64| Layer::line("run", points(scale).map(|(x, y)| (x, Some(y))), Colour::Quiet);
        let dots = Layer::dots("seen", points(1e6), Colour::Quiet, Shape::Circle);
        let of = |layers: Vec<Layer>| {
            let layers = layers
                .into_iter()
                .chain([marked(90.0, "preemption from here")])
                .collect();
            let axis = Axis::new("input", Unit::Tokens);
            plot(vec![Panel {
                x: axis,
                layers,
                ..Panel::default()
            }])
        };
        for plot in [
            bars(),
            of(vec![line(3.0)]),
            of(vec![line(-0.1), line(12.0)]),
            of(vec![dots]),
        ] {
            for wide in [60, 80, 200] {
                let drawn = text(&plot, page(wide, false));
                assert!(drawn.is_ascii() && drawn.contains("preemption from here"), "{drawn}");
                assert!(drawn.lines().all(|line| line.len() <= wide), "{wide}:\n{drawn}");
                assert!(text(&plot, page(wide, true)).lines().all(|line| width(line) <= wide));
            }
        }
    }

    fn curve(points: Vec<(f64, Option<f64>)>) -> Plot {
        plot(vec![Panel {
            x: Axis::new("time", Unit::Seconds),
            y: Axis::new("KV cache in use", Unit::Percent).with_range((0.0, 100.0)),
            layers: vec![Layer::line("in use", points, Colour::Quiet)],
            ..Panel::default()
        }])
    }

    #[test]
    fn a_peak_of_one_sample_is_visible() {
        let mut points: Vec<_> = (0..10_000).map(|at| (f64::from(at), Some(10.0))).collect();
        points[5_000].1 = Some(100.0);
        let text = text(&curve(points), page(60, true));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].trim(), "KV cache in use, %");
        assert_eq!(lines[1].matches('█').count(), 1, "{text}");
        assert!(
            lines[1].starts_with("  100 │") && lines.last().unwrap().ends_with("time, minutes"),
            "{text}"
        );
    }

    #[test]
    fn gaps_are_left_empty_and_no_values_are_said() {
        let points = vec![(0.0, Some(100.0)), (1.0, None), (2.0, None), (3.0, Some(100.0))];
        let drawn = text(&curve(points), page(60, false));
        let bottom = drawn.lines().nth(AREA_ROWS).unwrap();
        assert!(bottom.contains("# ") && bottom.ends_with('#'), "{drawn}");
        assert!(text(&curve(Vec::new()), page(60, false)).contains("no values"));
        assert!(text(&curve(vec![(1.0, Some(100.0))]), page(60, true)).contains('█'));
    }

    #[test]
    fn each_series_of_points_has_its_letter_and_what_has_no_place_is_counted() {
        let dots = |name: &str, points: Vec<(f64, f64)>| Layer::dots(name, points, Colour::Quiet, Shape::Circle);
        let panel = Panel {
            x: Axis::new("input", Unit::Count)
                .with_scale(Scale::Log)
                .with_range((1.0, 100.0)),
            y: Axis::new("latency", Unit::Milliseconds),
            layers: vec![
                dots("near", vec![(1.0, 1.0), (10.0, 1.0), (0.0, 5.0)]),
                dots("far", vec![(100.0, 9.5)]),
            ],
            ..Panel::default()
        };
        let drawn = text(&plot(vec![panel]), page(80, false));
        assert!(
            drawn.contains("o near   x far") && drawn.ends_with("1 value cannot be shown on these axes"),
            "{drawn}"
        );
        // On a logarithmic axis, 10 lies in the middle of 1 and 100.
        let line = drawn
            .lines()
            .find(|line| line.matches('o').count() == 2 && line.contains('|'))
            .unwrap();
        let cells = line.split_once('|').unwrap().1;
        assert!(cells.starts_with('o') && cells.len().abs_diff(34) < 4, "{drawn}");
    }
}
