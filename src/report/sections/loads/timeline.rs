//! The timeline of a load: running and waiting requests, KV cache, tokens, preemptions, memory and power over time.

use super::super::format::{GIB, list, number, tenths};
use crate::report::plot::{Axis, Colour, Layer, Panel, Plot, Shape, Sheet};
use crate::unit::Unit;

/// Maximum number of points; more rows are reduced.
const ROWS: usize = 480;

/// Maximum number of marked failures.
const MARKS: usize = 300;

/// A timeline by column; a cell may be empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Timeline {
    /// Seconds of the load's clock.
    seconds: Vec<f64>,
    columns: Vec<(String, Vec<Option<f64>>)>,
    /// Number of lines that could not be parsed.
    pub unreadable: usize,
}

/// How several rows are reduced to one.
#[derive(Clone, Copy)]
enum Reduction {
    Max,
    Mean,
}

pub(super) fn parse(text: &str) -> Timeline {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut found = Timeline::default();
    let mut columns: Vec<Vec<Option<f64>>> = vec![Vec::new(); names.len()];
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let Some(at) = fields
            .first()
            .and_then(|at| at.parse::<f64>().ok())
            .filter(|_| fields.len() == names.len())
        else {
            found.unreadable += 1;
            continue;
        };
        found.seconds.push(at);
        for (column, field) in columns.iter_mut().zip(&fields) {
            column.push(field.parse().ok());
        }
    }
    found.columns = names.into_iter().map(str::to_owned).zip(columns).skip(1).collect();
    found
}

impl Timeline {
    /// A column as a curve; none if it is empty.
    fn curve(&self, name: &str, reduction: Reduction, factor: f64) -> Option<Vec<(f64, Option<f64>)>> {
        let (_, values) = self.columns.iter().find(|column| column.0 == name)?;
        if values.iter().all(Option::is_none) {
            return None;
        }
        // A rate covers the time since the previous row, so it is drawn from there.
        let since = usize::from(name == "output_tokens_per_s");
        let values = values.get(since..)?;
        let per_point = values.len().div_ceil(ROWS).max(1);
        let rows = self.seconds.chunks(per_point).zip(values.chunks(per_point));
        let points = rows.map(|(seconds, values)| (seconds[0], reduced(values, reduction).map(|value| value * factor)));
        let mut points: Vec<(f64, Option<f64>)> = points.collect();
        if let (1, Some(end), Some(last)) = (since, self.seconds.last(), points.last().copied()) {
            points.push((*end, last.1));
        }
        Some(points)
    }

    fn highest(&self, name: &str) -> Option<f64> {
        let (_, values) = self.columns.iter().find(|column| column.0 == name)?;
        values.iter().flatten().copied().reduce(f64::max)
    }

    fn time_range(&self) -> Option<(f64, f64)> {
        Some((*self.seconds.first()?, *self.seconds.last()?)).filter(|(from, to)| from < to)
    }
}

/// Reduces values to one; none if all are empty.
fn reduced(values: &[Option<f64>], reduction: Reduction) -> Option<f64> {
    let known = || values.iter().flatten().copied();
    match reduction {
        Reduction::Max => known().reduce(f64::max),
        Reduction::Mean => known().reduce(|a, b| a + b).map(|sum| sum / known().count() as f64),
    }
}

/// Column, name, reduction and factor of a curve.
type Curve = (&'static str, &'static str, Reduction, f64);

/// Title, unit, curves, and whether the scale begins at zero.
const PANELS: [(&str, Unit, &[Curve], bool); 6] = [
    (
        "requests",
        Unit::Count,
        &[
            ("running", "running", Reduction::Max, 1.0),
            ("waiting", "waiting in the engine", Reduction::Max, 1.0),
            ("in_flight", "in flight", Reduction::Max, 1.0),
        ],
        true,
    ),
    (
        "KV cache used",
        Unit::Percent,
        &[("kv_usage", "KV cache used", Reduction::Max, 100.0)],
        true,
    ),
    (
        "output",
        Unit::TokensPerSecond,
        &[("output_tokens_per_s", "output", Reduction::Mean, 1.0)],
        true,
    ),
    (
        "preemptions so far",
        Unit::Count,
        &[("preemptions", "preemptions", Reduction::Max, 1.0)],
        true,
    ),
    (
        "memory used",
        Unit::Bytes,
        &[("used_bytes", "memory used", Reduction::Max, 1.0)],
        false,
    ),
    (
        "power",
        Unit::Watts,
        &[("power_w", "power", Reduction::Mean, 1.0)],
        true,
    ),
];

/// The chart; none for an empty or single-row timeline. `failed` are the times of failed requests.
pub(super) fn plot(line: &Timeline, failed: &[f64], what: &str, name: String) -> Option<Plot> {
    let (from, to) = line.time_range()?;
    let panels: Vec<Panel> = PANELS
        .iter()
        .filter_map(|(title, unit, curves, zero)| panel(line, title, *unit, curves, *zero))
        .map(|mut panel| {
            panel.x.range = Some((from, to));
            panel
        })
        .collect();
    if panels.is_empty() {
        return None;
    }
    let mut panels = panels;
    if let (Some(first), false) = (panels.first_mut(), failed.is_empty()) {
        first.layers.push(Layer::dots(
            "failed",
            failed.iter().take(MARKS).map(|at| (*at, 0.0)),
            Colour::Limit,
            Shape::Cross,
        ));
    }
    let per_point = line.seconds.len().div_ceil(ROWS);
    let joined = if per_point > 1 {
        format!("Each point is the maximum of {per_point} samples; for tokens and power, their mean.")
    } else {
        String::new()
    };
    Some(Plot {
        name,
        title: format!("Engine metrics over time: {what}"),
        words: alt_text(line, failed, to - from),
        caption: joined,
        panels,
        sheet: sheet(line),
        ..Plot::default()
    })
}

fn panel(line: &Timeline, title: &str, unit: Unit, curves: &[Curve], zero: bool) -> Option<Panel> {
    // No panel without preemptions.
    if title.starts_with("preemptions") && line.highest("preemptions") == Some(0.0) {
        return None;
    }
    let mut layers = Vec::new();
    let mut top = 0.0_f64;
    for (index, (column, name, reduction, factor)) in curves.iter().enumerate() {
        let Some(points) = line.curve(column, *reduction, *factor) else {
            continue;
        };
        top = points.iter().filter_map(|point| point.1).fold(top, f64::max);
        layers.push(
            Layer::line(
                if curves.len() > 1 {
                    (*name).to_owned()
                } else {
                    String::new()
                },
                points,
                Colour::series(index),
            )
            .dashed(*column == "in_flight")
            .stepped(is_stepped(column)),
        );
    }
    let top = if unit == Unit::Percent { 100.0 } else { 1.06 * top };
    (!layers.is_empty()).then(|| Panel {
        title: title.to_owned(),
        x: Axis::new("time", Unit::Seconds),
        y: Axis::new("", unit).with_range((zero && top > 0.0).then_some((0.0, top))),
        layers,
        ..Panel::default()
    })
}

/// Whether a sample holds until the next one; power is interpolated.
fn is_stepped(column: &str) -> bool {
    column != "power_w"
}

fn alt_text(line: &Timeline, failed: &[f64], seconds: f64) -> String {
    let mut parts = Vec::new();
    if let Some(running) = line.highest("running") {
        let waiting = line.highest("waiting").filter(|waiting| *waiting > 0.0);
        let waiting = waiting.map_or_else(String::new, |waiting| format!(", and {} waited", number(waiting)));
        parts.push(format!(
            "at most {} requests ran concurrently{waiting}",
            number(running)
        ));
    }
    if let Some(usage) = line.highest("kv_usage") {
        parts.push(format!(
            "the KV cache was used to {} % at the peak",
            tenths(100.0 * usage)
        ));
    }
    if let Some(preemptions) = line.highest("preemptions").filter(|count| *count > 0.0) {
        parts.push(format!("there were {} preemptions", number(preemptions)));
    }
    if !failed.is_empty() {
        parts.push(format!("{} requests failed, marked below", failed.len()));
    }
    let parts = if parts.is_empty() {
        "the engine reports few metrics".to_owned()
    } else {
        list(&parts)
    };
    format!("Over {} s, {parts}.", tenths(seconds))
}

/// Twenty rows; the full timeline is in the run folder.
fn sheet(line: &Timeline) -> Sheet {
    let curves: Vec<&Curve> = PANELS.iter().flat_map(|(_, _, curves, _)| curves.iter()).collect();
    let per_point = line.seconds.len().div_ceil(20).max(1);
    let known: Vec<(&&Curve, &Vec<Option<f64>>)> = curves
        .iter()
        .filter_map(|curve| {
            let column = line.columns.iter().find(|column| column.0 == curve.0)?;
            column.1.iter().any(Option::is_some).then_some((curve, &column.1))
        })
        .collect();
    let heading = |name: &str| match name {
        "kv_usage" => "KV cache used, %",
        "output_tokens_per_s" => "output tokens/s",
        "used_bytes" => "memory used, GiB",
        "power_w" => "power, W",
        "in_flight" => "in flight",
        "waiting" => "waiting",
        "running" => "running",
        _ => "preemptions",
    };
    let columns = std::iter::once("from, s").chain(known.iter().map(|(curve, _)| heading(curve.0)));
    let rows = line.seconds.chunks(per_point).enumerate().map(|(index, seconds)| {
        let entries = known.iter().map(|((column, _, reduction, factor), values)| {
            let values = values.chunks(per_point).nth(index).unwrap_or_default();
            let factor = if *column == "used_bytes" { 1.0 / GIB } else { *factor };
            reduced(values, *reduction).map(|value| value * factor).into()
        });
        std::iter::once(seconds[0].into()).chain(entries).collect()
    });
    Sheet::new(columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::engine_side::{COLUMNS, TimelineRow, write};

    fn line(rows: u32) -> Timeline {
        let row = |at: u32| TimelineRow {
            seconds: f64::from(at) / 10.0,
            running: (at != 1).then_some(u64::from(at)),
            kv_usage: Some(0.5),
            preemptions: Some(0),
            output_tokens_per_s: f64::from(at % 2) * 10.0,
            ..TimelineRow::default()
        };
        let rows: Vec<TimelineRow> = (0..rows).map(row).collect();
        let mut text = Vec::new();
        write(&mut text, &rows).unwrap();
        parse(&(String::from_utf8(text).unwrap() + "0.4,1,2"))
    }

    #[test]
    fn timeline_is_read_with_empty_cells() {
        let found = line(4);
        assert_eq!(found.seconds, [0.0, 0.1, 0.2, 0.3]);
        assert_eq!(found.columns.len() + 1, COLUMNS.split(',').count());
        assert_eq!(
            found.columns[0],
            ("running".to_owned(), vec![Some(0.0), None, Some(2.0), Some(3.0)])
        );
        assert_eq!(found.unreadable, 1);
    }

    #[test]
    fn reduced_rows_keep_their_peaks() {
        let found = line(ROWS as u32 * 2);
        let running = found.curve("running", Reduction::Max, 1.0).unwrap();
        assert_eq!((running.len(), running[1].1), (ROWS, Some(3.0)));
        let output = found.curve("output_tokens_per_s", Reduction::Mean, 1.0).unwrap();
        assert_eq!((output[7].1, output.len()), (Some(5.0), ROWS + 1));
        let few = line(3).curve("output_tokens_per_s", Reduction::Mean, 1.0).unwrap();
        assert_eq!(
            few,
            [(0.0, Some(10.0)), (0.1, Some(0.0)), (0.2, Some(0.0))],
            "each from the row before on"
        );
        assert_eq!(found.curve("waiting", Reduction::Max, 1.0), None, "nobody told");
    }

    #[test]
    fn columns_without_values_have_no_panel() {
        let plot = plot(&line(4), &[0.15], "8 at once", "time".into()).unwrap();
        let titles: Vec<&str> = plot.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["requests", "KV cache used", "output"]);
        assert!(
            plot.words.contains("1 requests failed") || plot.words.contains("failed"),
            "{}",
            plot.words
        );
        assert!(
            super::plot(&line(1), &[], "", String::new()).is_none(),
            "one look is no time"
        );
        assert!(plot.sheet.rows.iter().all(|row| row.len() == plot.sheet.columns.len()));
    }
}
