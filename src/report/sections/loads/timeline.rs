//! The timeline of a load: running and waiting requests, KV cache, tokens, preemptions, memory and power over time.

use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Plot, Shape, Sheet};
use crate::report::sections::format::{GIB, list, number, tenths};
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

pub(super) fn parse(text: &str) -> Timeline {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let columns = names.iter().skip(1).map(|name| ((*name).to_owned(), Vec::new()));
    let mut timeline = Timeline {
        columns: columns.collect(),
        ..Timeline::default()
    };
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        match fields[0].parse() {
            Ok(at) if fields.len() == names.len() => timeline.seconds.push(at),
            _ => {
                timeline.unreadable += 1;
                continue;
            }
        }
        for ((_, column), field) in timeline.columns.iter_mut().zip(&fields[1..]) {
            column.push(field.parse().ok());
        }
    }
    timeline
}

/// A column of the file as a curve: its name in the file, in a legend of several, and in the table.
type Curve = (&'static str, &'static str, &'static str);

const IN_FLIGHT: &str = "in_flight";
const OUTPUT: &str = "output_tokens_per_s";
const PREEMPTIONS: &str = "preemptions";

/// Title, unit and curves of each panel.
const PANELS: [(&str, Unit, &[Curve]); 6] = [
    (
        "requests",
        Unit::Count,
        &[
            ("running", "running", "running"),
            ("waiting", "waiting in the engine", "waiting"),
            (IN_FLIGHT, "in flight", "in flight"),
        ],
    ),
    ("KV cache used", Unit::Percent, &[("kv_usage", "", "KV cache used, %")]),
    ("output", Unit::TokensPerSecond, &[(OUTPUT, "", "output tokens/s")]),
    ("preemptions so far", Unit::Count, &[(PREEMPTIONS, "", "preemptions")]),
    ("memory used", Unit::Bytes, &[("used_bytes", "", "memory used, GiB")]),
    ("power", Unit::Watts, &[("power_w", "", "power, W")]),
];

/// Reduces values to one in per cent or as they are: rates and power to their mean, others to their maximum. None if
/// all are empty.
fn reduced(unit: Unit, values: &[Option<f64>]) -> Option<f64> {
    let known = || values.iter().flatten().copied();
    match unit {
        Unit::TokensPerSecond | Unit::Watts => known().reduce(|a, b| a + b).map(|sum| sum / known().count() as f64),
        Unit::Percent => Some(100.0 * known().reduce(f64::max)?),
        _ => known().reduce(f64::max),
    }
}

impl Timeline {
    /// The values of a column; none if all are empty.
    fn column(&self, name: &str) -> Option<&[Option<f64>]> {
        let (_, values) = self.columns.iter().find(|column| column.0 == name)?;
        values.iter().any(Option::is_some).then_some(values.as_slice())
    }

    /// The highest value of a column, if it is above zero.
    fn highest(&self, name: &str) -> Option<f64> {
        let highest = self.column(name)?.iter().flatten().copied().reduce(f64::max);
        highest.filter(|highest| *highest > 0.0)
    }

    /// A column as a curve; none if it is empty.
    fn points(&self, column: &str, unit: Unit) -> Option<Vec<(f64, Option<f64>)>> {
        // A rate covers the time since the previous row, so it is drawn from there.
        let since = usize::from(column == OUTPUT);
        let values = self.column(column)?.get(since..)?;
        let per_point = values.len().div_ceil(ROWS).max(1);
        let rows = self.seconds.chunks(per_point).zip(values.chunks(per_point));
        let mut points: Vec<_> = rows
            .map(|(seconds, values)| (seconds[0], reduced(unit, values)))
            .collect();
        if let (1, Some(end), Some(last)) = (since, self.seconds.last(), points.last().copied()) {
            points.push((*end, last.1));
        }
        Some(points)
    }

    fn panel(&self, title: &str, unit: Unit, curves: &[Curve]) -> Option<Panel> {
        if curves[0].0 == PREEMPTIONS && self.highest(PREEMPTIONS).is_none() {
            return None;
        }
        let mut layers = Vec::new();
        let mut top = 0.0_f64;
        for (index, (column, name, _)) in curves.iter().enumerate() {
            let Some(points) = self.points(column, unit) else {
                continue;
            };
            top = points.iter().filter_map(|point| point.1).fold(top, f64::max);
            let line = Layer::line(*name, points, Colour::series(index)).dashed(*column == IN_FLIGHT);
            // A sample holds until the next one; power is interpolated.
            layers.push(line.stepped(unit != Unit::Watts));
        }
        let top = if unit == Unit::Percent { 100.0 } else { 1.06 * top };
        // Memory changes little, far above zero.
        let from_zero = unit != Unit::Bytes && top > 0.0;
        let x = Axis::new("time", Unit::Seconds);
        let x = x.with_range(self.seconds.first().copied().zip(self.seconds.last().copied()));
        let y = Axis::new("", unit).with_range(from_zero.then_some((0.0, top)));
        (!layers.is_empty()).then(|| Panel::new(title, x, y, layers))
    }

    fn alt_text(&self, failed: usize) -> String {
        let mut parts = Vec::new();
        if self.column("running").is_some() {
            let waiting = self
                .highest("waiting")
                .map(|waiting| format!(", and {} waited", number(waiting)));
            parts.push(format!(
                "at most {} requests ran concurrently{}",
                number(self.highest("running").unwrap_or_default()),
                waiting.unwrap_or_default()
            ));
        }
        if self.column("kv_usage").is_some() {
            let percent = tenths(100.0 * self.highest("kv_usage").unwrap_or_default());
            parts.push(format!("the KV cache was used to {percent} % at the peak"));
        }
        if let Some(preemptions) = self.highest(PREEMPTIONS) {
            parts.push(format!("there were {} preemptions", number(preemptions)));
        }
        if failed > 0 {
            parts.push(format!("{failed} requests failed, marked below"));
        }
        if parts.is_empty() {
            parts.push("the engine reports few metrics".to_owned());
        }
        let seconds = self
            .seconds
            .last()
            .zip(self.seconds.first())
            .map_or(0.0, |(to, from)| to - from);
        format!("Over {} s, {}.", tenths(seconds), list(&parts))
    }

    /// Twenty rows; the full timeline is in the run folder.
    fn sheet(&self) -> Sheet {
        let per_row = self.seconds.len().div_ceil(20).max(1);
        let mut columns = vec!["from, s"];
        let mut rows: Vec<Vec<Entry>> = self.seconds.chunks(per_row).map(|from| vec![from[0].into()]).collect();
        for (_, unit, curves) in PANELS {
            let factor = if unit == Unit::Bytes { 1.0 / GIB } else { 1.0 };
            for (column, _, heading) in curves {
                let Some(values) = self.column(column) else { continue };
                columns.push(heading);
                for (row, values) in rows.iter_mut().zip(values.chunks(per_row)) {
                    row.push(reduced(unit, values).map(|value| value * factor).into());
                }
            }
        }
        Sheet::new(columns, rows)
    }
}

/// The chart; none for an empty or single-row timeline. `failed` are the times of failed requests.
pub(super) fn plot(timeline: &Timeline, failed: &[f64], what: &str, name: String) -> Option<Plot> {
    let rows = &timeline.seconds;
    if rows.first() >= rows.last() {
        return None;
    }
    let panels = PANELS
        .iter()
        .filter_map(|(title, unit, curves)| timeline.panel(title, *unit, curves));
    let mut panels: Vec<Panel> = panels.collect();
    if !failed.is_empty() {
        let marks = failed.iter().take(MARKS).map(|at| (*at, 0.0));
        let marks = Layer::dots("failed", marks, Colour::Limit, Shape::Cross);
        panels.first_mut()?.layers.push(marks);
    }
    let per_point = rows.len().div_ceil(ROWS);
    let caption = match per_point {
        0 | 1 => String::new(),
        _ => format!("Each point is the maximum of {per_point} samples; for tokens and power, their mean."),
    };
    let plot = Plot::new(name, format!("Engine metrics over time: {what}"), panels)
        .with_words(timeline.alt_text(failed.len()), caption)
        .with_sheet(timeline.sheet());
    Some(plot).filter(|plot| !plot.panels.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::engine_side::{COLUMNS, TimelineRow, write};

    fn timeline(rows: u32) -> Timeline {
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
        let found = timeline(4);
        assert_eq!(found.seconds, [0.0, 0.1, 0.2, 0.3]);
        assert_eq!(found.columns.len() + 1, COLUMNS.split(',').count());
        let running = vec![Some(0.0), None, Some(2.0), Some(3.0)];
        assert_eq!(found.columns[0], ("running".to_owned(), running));
        assert_eq!(found.unreadable, 1);
    }

    #[test]
    fn reduced_rows_keep_their_peaks() {
        let points = |rows: u32, column: &str, unit| timeline(rows).points(column, unit);
        let running = points(ROWS as u32 * 2, "running", Unit::Count).unwrap();
        assert_eq!((running.len(), running[1].1), (ROWS, Some(3.0)));
        let output = points(ROWS as u32 * 2, OUTPUT, Unit::TokensPerSecond).unwrap();
        assert_eq!((output[7].1, output.len()), (Some(5.0), ROWS + 1));
        assert_eq!(
            points(3, OUTPUT, Unit::TokensPerSecond).unwrap(),
            [(0.0, Some(10.0)), (0.1, Some(0.0)), (0.2, Some(0.0))],
            "each from the row before on"
        );
        assert_eq!(
            points(3, "waiting", Unit::Count),
            None,
            "the engine did not report waiting requests"
        );
    }

    #[test]
    fn columns_without_values_have_no_panel() {
        let found = plot(&timeline(4), &[0.15], "8 at once", "time".into()).unwrap();
        let titles: Vec<&str> = found.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["requests", "KV cache used", "output"]);
        assert!(found.words.contains("1 requests failed"), "{}", found.words);
        assert!(
            found
                .sheet
                .rows
                .iter()
                .all(|row| row.len() == found.sheet.columns.len())
        );
        assert!(
            plot(&timeline(1), &[], "", String::new()).is_none(),
            "one row is no time"
        );
    }
}
