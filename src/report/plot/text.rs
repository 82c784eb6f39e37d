//! Plots as text: a bar for each position of bars and of short lines, characters between two axes for longer lines and
//! scattered points, a table for a heat map. Also long curves in little room, either reduced for a chart without losing
//! a peak or a gap, or as one character per column; and progress bars.
//!
//! A reduced curve keeps the first, lowest, highest and last point of each column (M4: Jugel et al., "M4: A
//! Visualization-Oriented Time Series Data Aggregation", VLDB 2014).

use std::collections::{BTreeMap, BTreeSet};

use console::{measure_text_width as width, truncate_str};
use serde_json::Value;

use super::scale::{AxisLayout, Tick, extremes, heading, multiple, unshowable_note};
use super::{AxisScale, Entry, Layer, Marks, Panel, Plot};
use crate::fmt::{Unit, json_number, number};
use crate::report::Page;
use crate::report::document::{ColumnFormat, text_table, wrapped};
use crate::report::sheet::entry_text;

/// Draws a plot as text, no wider than the page unless the page is too narrow for any plot.
pub fn text(plot: &Plot, page: Page) -> String {
    let mut layers = plot.panels.iter().flat_map(|panel| &panel.layers);
    let cells = layers.find(|layer| matches!(layer.marks, Marks::Cells { .. }));
    let text = match (cells, positions(&plot.panels)) {
        (Some(cells), _) => heat_table(cells, plot, page),
        (None, Some(positions)) => bar_table(&plot.panels, &positions, page),
        (None, None) => plot
            .panels
            .iter()
            .map(|panel| scatter(panel, page))
            .collect::<Vec<_>>()
            .join("\n\n"),
    };
    if page.unicode {
        text
    } else {
        text.replace('−', "-").replace("°C", "C")
    }
}

/// The table of a heat map, below a line that names its values, rows and columns.
fn heat_table(cells: &Layer, plot: &Plot, page: Page) -> String {
    let names: Vec<String> = plot
        .sheet
        .rows
        .iter()
        .filter_map(|row| row.first())
        .map(entry_text)
        .collect();
    let value = |entry: &Entry| match entry {
        Entry::Number(number) => Value::from(*number),
        Entry::Text(text) => Value::from(text.as_str()),
        Entry::None => Value::Null,
    };
    let rows = plot
        .sheet
        .rows
        .iter()
        .zip(categories(&names, page))
        .map(|(row, name)| std::iter::once(name).chain(row.iter().skip(1).map(value)).collect());
    // Both axes in the corner would make its column wide.
    let mut columns = plot.sheet.columns.clone();
    columns.first_mut().map(std::mem::take);
    let mut about = cells.name.clone();
    for (what, axis) in plot
        .panels
        .iter()
        .flat_map(|panel| [("rows", &panel.y), ("columns", &panel.x)])
    {
        if !axis.label.is_empty() {
            about += &format!("; {what}: {}", axis.label);
        }
    }
    let table = text_table(&columns, &rows.collect::<Vec<_>>(), page);
    format!("{}\n{table}", wrapped(&about, page.width))
}

/// Names of categories, cut to a third of the page. If all are numbers, they are aligned as numbers.
fn categories(names: &[String], page: Page) -> Vec<Value> {
    let numbers: Result<Vec<serde_json::Number>, _> = names.iter().map(|name| serde_json::from_str(name)).collect();
    match numbers {
        Ok(numbers) => numbers.into_iter().map(Value::from).collect(),
        Err(_) => {
            let cut = |name| truncate_str(name, page.width / 3, page.pick("…", "..."));
            names.iter().map(|name| cut(name).into()).collect()
        }
    }
}

/// The name and the points of a series.
type Series<'a> = (&'a str, Vec<(f64, Option<f64>)>);

/// The layers that are series.
fn series(panel: &Panel) -> impl Iterator<Item = Series<'_>> {
    panel.layers.iter().filter_map(|layer| {
        let points = match &layer.marks {
            Marks::Line { points, .. } => points.clone(),
            Marks::Dots { points, .. } => points.iter().map(|(x, y)| (*x, Some(*y))).collect(),
            Marks::Bars { bars } => bars.iter().map(|bar| (bar.at, Some(bar.value))).collect(),
            _ => return None,
        };
        Some((layer.name.as_str(), points))
    })
}

/// The labels of positions on the x axis.
fn labels(panel: &Panel) -> impl Iterator<Item = (f64, &str)> {
    panel.layers.iter().filter_map(|layer| match layer.marks {
        Marks::Rule { at, upright: true } if !layer.name.is_empty() => Some((at, layer.name.as_str())),
        _ => None,
    })
}

/// A label with its position and unit: `at 4.07 s: queue grows`.
fn label_line(at: f64, unit: Unit, most: f64, label: &str, page: Page) -> String {
    let (size, unit) = multiple(unit, most);
    let at = format!("at {} {unit}", number(at / size));
    wrapped(&format!("{}: {label}", at.trim_end()), page.width)
}

/// The positions of bars and of short lines, which get a row each; `None` for other plots.
fn positions(panels: &[Panel]) -> Option<Vec<f64>> {
    /// Maximum number of positions of lines that get a row each.
    const LEVELS: usize = 24;
    let x = &panels.first()?.x;
    let mut layers = panels.iter().flat_map(|panel| &panel.layers);
    let bars = layers.clone().any(|layer| matches!(layer.marks, Marks::Bars { .. }));
    let dots = layers.any(|layer| matches!(layer.marks, Marks::Dots { .. }));
    let points = panels.iter().flat_map(series).flat_map(|(_, points)| points);
    let mut at: Vec<f64> = if x.names.is_empty() {
        points.map(|point| point.0).collect()
    } else {
        (0..x.names.len()).map(|index| index as f64).collect()
    };
    at.sort_by(f64::total_cmp);
    at.dedup();
    let time = matches!(x.unit, Unit::Seconds | Unit::Milliseconds);
    (bars || !(dots || time || at.is_empty() || at.len() > LEVELS)).then_some(at)
}

/// A series in a table of bars.
struct BarColumn {
    heading: String,
    /// Shares of the highest value, and the values as text.
    shares: Vec<f64>,
    texts: Vec<String>,
    /// Width of the widest text.
    figures: usize,
}

impl BarColumn {
    fn of_panel(panel: &Panel, positions: &[f64]) -> Vec<Self> {
        let values = panel.layers.iter().flat_map(|layer| layer.values().1);
        let (_, most) = extremes(values.filter(|value| value.is_finite()).map(f64::abs));
        let (size, unit) = multiple(panel.y.unit, most.max(0.0));
        let (single, heading) = (series(panel).count() == 1, heading(&panel.y, unit));
        let column = |(name, points): Series| {
            let value = |at: &f64| Some(points.iter().find(|point| point.0 == *at)?.1? / size);
            let values: Vec<Option<f64>> = positions.iter().map(value).collect();
            let highest = values.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
            let entries: Vec<Value> = values.iter().map(|value| Value::from(*value)).collect();
            let format = ColumnFormat::new(entries.iter());
            let texts: Vec<String> = entries.iter().map(|value| format.apply(value)).collect();
            Self {
                heading: match (name, heading.as_str()) {
                    (name, "") => name.to_owned(),
                    (name, heading) if single || name.is_empty() => heading.to_owned(),
                    (name, heading) => format!("{name}: {heading}"),
                },
                shares: values.iter().map(|value| value.unwrap_or(0.0) / highest).collect(),
                figures: texts.iter().map(|text| width(text)).max().unwrap_or(1),
                texts,
            }
        };
        series(panel).map(column).collect()
    }
}

/// A row for each position, with a bar and a number for each series. Labels of positions stand beside the rows if the
/// bars keep some length, else below.
fn bar_table(panels: &[Panel], positions: &[f64], page: Page) -> String {
    /// Maximum and minimum length of a bar in columns, and the minimum beside labels.
    const LONGEST: usize = 28;
    const SHORTEST: usize = 6;
    const BESIDE: usize = 12;
    let Some(first) = panels.first() else {
        return String::new();
    };
    let (_, most) = extremes(positions.iter().map(|at| at.abs()));
    let most = most.max(0.0);
    let (size, unit) = multiple(first.x.unit, most);
    let levels: Vec<Value> = if first.x.names.is_empty() {
        positions.iter().map(|at| json_number(at / size)).collect()
    } else {
        categories(&first.x.names, page)
    };
    let format = ColumnFormat::new(levels.iter());
    let bars: Vec<BarColumn> = panels
        .iter()
        .flat_map(|panel| BarColumn::of_panel(panel, positions))
        .collect();
    let marks: Vec<String> = positions
        .iter()
        .map(|position| {
            let here = labels(first).filter(|(at, _)| at == position);
            here.map(|(_, label)| label).collect::<Vec<_>>().join(", ")
        })
        .collect();
    // The length of bars next to the positions, their numbers, and `rest` columns.
    let x_heading = heading(&first.x, unit);
    let names = levels.iter().map(|level| width(&format.apply(level)));
    let left = names.chain(x_heading.split_whitespace().map(width)).max().unwrap_or(0);
    let figures: usize = bars.iter().map(|column| column.figures + 3).sum();
    let room = |rest: usize| page.width.saturating_sub(left + 2 + figures + rest) / bars.len().max(1);
    let widest = marks.iter().map(|mark| width(mark)).max().unwrap_or(0);
    let beside = widest > 0 && room(widest + 4) >= BESIDE;
    let long = room(if beside { widest + 4 } else { 0 }).clamp(SHORTEST, LONGEST);
    let row = |(index, level): (usize, &Value)| {
        let cells = bars.iter().map(|column| {
            let (bar, text) = (bar(column.shares[index], long, page), &column.texts[index]);
            format!("{bar:<long$} {text:>figures$}", figures = column.figures).into()
        });
        let mark = beside.then(|| match marks[index].as_str() {
            "" => String::new().into(),
            mark => format!("{} {mark}", page.pick("◄", "<")).into(),
        });
        std::iter::once(level.clone()).chain(cells).chain(mark).collect()
    };
    let rows: Vec<Vec<Value>> = levels.iter().enumerate().map(row).collect();
    let headings: Vec<String> = std::iter::once(x_heading.clone())
        .chain(bars.iter().map(|column| column.heading.clone()))
        .chain(beside.then(String::new))
        .collect();
    let mut lines = vec![text_table(&headings, &rows, page)];
    for (level, mark) in levels.iter().zip(&marks) {
        if !beside && !mark.is_empty() {
            lines.push(wrapped(&format!("at {}: {mark}", format.apply(level)), page.width));
        }
    }
    let elsewhere = labels(first).filter(|(at, _)| !positions.contains(at));
    lines.extend(elsewhere.map(|(at, label)| label_line(at, first.x.unit, most, label, page)));
    lines.join("\n")
}

/// A bar of a share of the length; at least a sliver unless the share is 0.
fn bar(share: f64, long: usize, page: Page) -> String {
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * long as f64).ceil() as usize;
    if page.unicode {
        "█".repeat(eighths / 8) + ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]
    } else {
        "#".repeat(eighths.div_ceil(8))
    }
}

/// The points of all series of a panel, each series with its own character. If two share a cell, the later series is
/// shown. A value of a line holds until the next.
fn scatter(panel: &Panel, page: Page) -> String {
    const ROWS: usize = 14;
    let one = std::slice::from_ref(panel);
    let (x, mut y) = (AxisLayout::new(one, false), AxisLayout::new(one, true));
    let letters = page.pick(
        ['●', '×', '◆', '○', '▲', '□', '+', '*'],
        ['o', 'x', '+', '*', '#', '@', '%', '='],
    );
    let all: Vec<(Series, char)> = series(panel).zip(letters.into_iter().cycle()).collect();
    if let ([((name, _), _)], true) = (all.as_slice(), y.heading.is_empty()) {
        y.heading = (*name).to_owned();
    }
    // All lines are indented.
    let width = page.width.saturating_sub(2);
    let narrower = Page { width, ..page };
    let columns = canvas_columns(Some(&y), ROWS, narrower);
    let mut field = vec![vec![' '; columns]; ROWS];
    let scattered = panel
        .layers
        .iter()
        .any(|layer| matches!(layer.marks, Marks::Dots { .. }));
    for ((_, points), letter) in &all {
        for (index, point) in points.iter().enumerate() {
            let (at, Some(value)) = *point else { continue };
            if x.scale.contains(at) && y.scale.contains(value) {
                let from = x.scale.cell(at, columns);
                let next = points.get(index + 1).filter(|_| !scattered);
                let to = next.map_or(from, |next| x.scale.cell(next.0, columns)).max(from + 1);
                field[ROWS - 1 - y.scale.cell(value, ROWS)][from..to].fill(*letter);
            }
        }
    }
    if field.iter().flatten().all(|cell| *cell == ' ') {
        return format!("  {}: no values", y.heading);
    }
    let cells: Vec<String> = field.into_iter().map(String::from_iter).collect();
    let canvas = canvas(&x, Some(&y), columns, &cells, narrower);
    let mut lines: Vec<String> = canvas
        .iter()
        .map(|line| format!("  {line}").trim_end().to_owned())
        .collect();
    lines.extend(labels(panel).map(|(at, label)| label_line(at, panel.x.unit, x.scale.to, label, page)));
    if all.len() > 1 {
        let keys: Vec<String> = all
            .iter()
            .map(|((name, _), letter)| format!("{letter} {name}"))
            .collect();
        lines.push(format!("  {}", keys.join("   ")));
    }
    lines.extend(unshowable_note(panel).map(|note| format!("  {note}")));
    lines.join("\n")
}

/// The ticks of the vertical axis of a canvas by their row from the top, and the width of their labels.
fn row_ticks(y: Option<&AxisLayout>, rows: usize) -> (BTreeMap<usize, String>, usize) {
    let ticks: BTreeMap<usize, String> = y
        .into_iter()
        .flat_map(|y| {
            let row = |at: f64| rows - 1 - y.scale.cell(at, rows);
            y.ticks((rows / 3).max(2))
                .into_iter()
                .map(move |tick| (row(tick.at), tick.label))
        })
        .collect();
    let widest = ticks.values().map(|text| width(text)).max().unwrap_or(0).max(1);
    (ticks, widest)
}

/// The number of columns of a canvas with `rows` rows. It is limited, because wider ones are harder to read.
pub(in crate::report) fn canvas_columns(y: Option<&AxisLayout>, rows: usize, page: Page) -> usize {
    let (_, left) = row_ticks(y, rows);
    page.width.min(72).saturating_sub(left + 3).max(8)
}

/// Rows of cells, from the top, between two axes: all lines from the y axis's name to the x axis's name. The cells may
/// have colours.
pub(in crate::report) fn canvas(
    x: &AxisLayout,
    y: Option<&AxisLayout>,
    columns: usize,
    cells: &[String],
    page: Page,
) -> Vec<String> {
    let (ticks, room) = row_ticks(y, cells.len());
    let left = room + 2;
    let (side, corner, edge) = page.pick(("│", "└", "─"), ("|", "+", "-"));
    let mut lines = vec![format!("{:>left$}", y.map_or("", |y| &y.heading))];
    for (row, cells) in cells.iter().enumerate() {
        let label = ticks.get(&row).map_or("", String::as_str);
        lines.push(format!("{label:>room$} {side}{cells}"));
    }
    lines.push(format!("{:room$} {corner}{}", "", edge.repeat(columns)));
    // Each label is below its cell, unless it would touch another or pass the last cell. The last label takes
    // precedence.
    let ticks = x.ticks((columns / 8).max(1));
    let start = |tick: &Tick| {
        let most = (left + columns).saturating_sub(width(&tick.label));
        (left + x.scale.cell(tick.at, columns)).min(most)
    };
    let end = ticks.last().map_or(0, start);
    let mut ruler = " ".repeat(left);
    for (number, tick) in (1..).zip(&ticks) {
        let free = start(tick) > width(&ruler) && start(tick) + width(&tick.label) < end;
        if number == 1 || free || number == ticks.len() && end > width(&ruler) {
            let blanks = start(tick).saturating_sub(width(&ruler));
            ruler += &format!("{:blanks$}{}", "", tick.label);
        }
    }
    lines.push(ruler);
    lines.push(format!("{:>all$}", x.heading, all = left + columns));
    lines
}

/// One character per height from 0 to 1; a blank where there is no value.
pub fn sparkline(heights: &[Option<f64>], page: Page) -> String {
    let levels = page.pick(
        ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        ['_', '.', ':', '-', '=', '+', '*', '#'],
    );
    let level = |height: f64| levels[((height.clamp(0.0, 1.0) * 8.0).ceil() as usize).saturating_sub(1)];
    heights.iter().map(|height| height.map_or(' ', level)).collect()
}

/// A bar of `columns` columns, filled to a share from 0 to 1.
pub fn progress_bar(share: f64, columns: usize, page: Page) -> String {
    let full = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
    let (filled, empty) = page.pick(("█", "░"), ("#", "."));
    format!("{}{}", filled.repeat(full), empty.repeat(columns - full))
}

/// The highest value in each of `columns` equal intervals. A value holds from its time to the next one's.
pub fn max_per_column(values: &[(f64, f64)], end: f64, columns: usize) -> Vec<Option<f64>> {
    let mut heights: Vec<Option<f64>> = vec![None; columns];
    let from = values.first().map_or(0.0, |first| first.0);
    let scale = AxisScale {
        from,
        to: end,
        log: false,
    };
    for (index, (from, value)) in values.iter().enumerate() {
        let to = values.get(index + 1).map_or(end, |(next, _)| *next);
        let from = scale.cell(*from, columns);
        for height in &mut heights[from..=scale.cell(to, columns).max(from)] {
            *height = Some(height.map_or(*value, |highest| highest.max(*value)));
        }
    }
    heights
}

/// Keeps the extremes of each of `columns` columns of equal width; x must not fall. A gap (y is `None`) stays a gap.
pub fn reduced(points: &[(f64, Option<f64>)], columns: usize) -> Vec<(f64, Option<f64>)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let scale = AxisScale {
        from: first.0,
        to: last.0,
        log: false,
    };
    if points.len() <= 2 * columns || first.0 >= last.0 {
        return points.to_vec();
    }
    let column = |point: &(f64, Option<f64>)| scale.cell(point.0, columns);
    let ends_and_extremes = |points: &[(f64, Option<f64>)]| {
        let values = || {
            points
                .iter()
                .enumerate()
                .filter_map(|(index, point)| Some((index, point.1?)))
        };
        let extremes = [
            values().min_by(|one, other| one.1.total_cmp(&other.1)).map(|low| low.0),
            values()
                .max_by(|one, other| one.1.total_cmp(&other.1))
                .map(|high| high.0),
            points.iter().position(|point| point.1.is_none()),
        ];
        let indices: BTreeSet<usize> = [0, points.len() - 1]
            .into_iter()
            .chain(extremes.into_iter().flatten())
            .collect();
        indices.into_iter().map(|index| points[index]).collect::<Vec<_>>()
    };
    points
        .chunk_by(|one, other| column(one) == column(other))
        .flat_map(ends_and_extremes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::{Axis, Bar, Colour, MarkerShape, Scale};

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
        Layer::vertical_rule(label, at, Colour::Quiet)
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
    fn labels_without_room_beside_the_bars_stand_below_them() {
        let mut plot = bars();
        let label = "saturates, preemptions from here, requests wait from here";
        plot.panels[0].layers[0].name = label.to_owned();
        let drawn = text(&plot, page(100, true));
        let full = |text: &str| text.lines().map(|line| line.matches('█').count()).max();
        assert!(full(&drawn) > Some(20) && !drawn.contains("\n\n"), "{drawn}");
        assert!(drawn.ends_with(&format!("\n  at 64: {label}")), "{drawn}");
        // Six series continue below; labels stay in one place.
        let panel = plot.panels[0].clone();
        plot.panels.extend([panel.clone(), panel.clone(), panel.clone(), panel]);
        let drawn = text(&plot, page(80, true));
        assert!(drawn.contains("\n\n") && !drawn.contains('◄'), "{drawn}");
        assert_eq!(drawn.matches("  at 64: saturates").count(), 1, "{drawn}");
    }

    #[test]
    fn positions_that_are_numbers_are_aligned_to_the_right() {
        let drawn = text(&bars(), page(100, true));
        let lines: Vec<&str> = drawn.lines().collect();
        assert!(
            lines[1].starts_with("            1  ") && lines[3].starts_with("          256  "),
            "{drawn}"
        );
        let mut plot = bars();
        plot.panels[0].x.names[0] = "vllm".to_owned();
        let drawn = text(&plot, page(100, true));
        assert!(drawn.contains("\n  vllm ") && drawn.contains("\n  256 "), "{drawn}");
    }

    #[test]
    fn every_kind_fits_the_page_in_ascii_too() {
        let points = |scale: f64| (0..100).map(move |at| (f64::from(at), scale * f64::from(at % 17)));
        let line = |scale: f64| Layer::line("run", points(scale).map(|(x, y)| (x, Some(y))), Colour::Quiet);
        let dots = Layer::dots("seen", points(1e6), Colour::Quiet, MarkerShape::Circle);
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
        assert_eq!(lines[1].matches('●').count(), 1, "{text}");
        assert!(
            lines[1].starts_with("  100 │") && lines.last().unwrap().ends_with("time, minutes"),
            "{text}"
        );
    }

    #[test]
    fn gaps_are_left_empty_and_no_values_are_said() {
        let points = vec![(0.0, Some(100.0)), (1.0, None), (2.0, None), (3.0, Some(100.0))];
        let drawn = text(&curve(points), page(60, false));
        let top = drawn.lines().nth(1).unwrap();
        assert!(
            top.contains("|oo") && top.contains("o ") && top.ends_with('o'),
            "{drawn}"
        );
        assert!(text(&curve(Vec::new()), page(60, false)).contains("no values"));
        assert!(text(&curve(vec![(1.0, Some(100.0))]), page(60, true)).contains('●'));
    }

    #[test]
    fn each_series_of_points_has_its_letter_and_what_has_no_place_is_counted() {
        let dots = |name: &str, points: Vec<(f64, f64)>| Layer::dots(name, points, Colour::Quiet, MarkerShape::Circle);
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

#[cfg(test)]
mod spark_tests {
    use super::*;

    #[test]
    fn a_short_peak_is_visible() {
        let mut values: Vec<(f64, f64)> = (0..10_000).map(|at| (f64::from(at), 0.1)).collect();
        values[4_321].1 = 1.0;
        let heights = max_per_column(&values, 10_000.0, 40);
        let page = Page {
            unicode: true,
            ..Page::default()
        };
        let drawn = sparkline(&heights, page);
        assert_eq!((drawn.matches('█').count(), drawn.chars().count()), (1, 40), "{drawn}");
        assert!(sparkline(&heights, Page::default()).is_ascii());
        assert_eq!(sparkline(&[None, Some(0.0), Some(2.0)], page), " ▁█");
        assert!(max_per_column(&[], 1.0, 3).iter().all(Option::is_none));
    }

    #[test]
    fn a_bar_is_as_long_as_it_is_full() {
        assert_eq!(progress_bar(0.5, 4, Page::default()), "##..");
        assert_eq!(progress_bar(7.0, 4, Page::default()), "####");
    }
}

#[cfg(test)]
mod reduced_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0))];
        assert_eq!(reduced(&points, 2), points);
        assert!(reduced(&[], 2).is_empty());
        let one_moment: Vec<_> = (0..9).map(|at| (1.0, Some(f64::from(at)))).collect();
        assert_eq!(reduced(&one_moment, 2), one_moment);
    }

    proptest! {
        #[test]
        fn every_column_keeps_its_extremes_and_gaps(
            values in prop::collection::vec((0_u32..4, prop::option::weighted(0.9, 0_u32..1000)), 1..400),
            columns in 1_usize..40,
        ) {
            let mut at = 0;
            let points: Vec<(f64, Option<f64>)> = values.iter().map(|&(after, value)| {
                at += after;
                (f64::from(at), value.map(f64::from))
            }).collect();
            let kept = reduced(&points, columns);
            prop_assert!(kept.len() <= (5 * columns).max(2 * columns) || kept.len() == points.len());
            prop_assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            prop_assert!(kept.iter().all(|point| points.contains(point)));
            prop_assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
            let scale = AxisScale { from: points[0].0, to: f64::from(at).max(points[0].0 + 1e-9), log: false };
            let column = |x: f64| scale.cell(x, columns);
            let extremes = |points: &[(f64, Option<f64>)], index: usize| {
                let of = || points.iter().filter(|point| column(point.0) == index);
                let values: Vec<f64> = of().filter_map(|point| point.1).collect();
                let low = values.iter().copied().fold(f64::INFINITY, f64::min);
                (low, values.iter().copied().fold(-1.0, f64::max), of().any(|point| point.1.is_none()))
            };
            for index in 0..columns {
                prop_assert_eq!(extremes(&kept, index), extremes(&points, index));
            }
        }
    }
}
