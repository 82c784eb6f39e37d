//! The files of single loads: the distribution of latencies from the request file, requests and KV cache over time from
//! the timeline. A truncated last line is skipped.

use std::fs::File;
use std::io::{BufRead, BufReader};

use serde::Deserialize;

use super::sweep::{Sweep, SweepAxis, SweepLevel};
use crate::fault::Result;
use crate::fmt::{Unit, list, ms, number, tenths};
use crate::load::{LoadAnswer, request_lines};
use crate::report::plot::{Axis, Colour, Layer, MarkerShape, Panel, Plot, Scale};
use crate::run::Folder;

/// Approximate maximum number of points of a distribution, and the number of points at each end that are always drawn,
/// because tails matter.
const MAX_POINTS: usize = 160;
const END_POINTS: usize = 12;

/// Maximum number of points over time; more rows are reduced.
const MAX_ROWS: usize = 480;

/// Maximum number of marked failures, evenly spaced.
const MAX_MARKS: usize = 300;

/// Reads the files of loads and collects what is missing.
pub(super) struct LoadFiles<'a> {
    folder: &'a Folder,
    /// Messages about absent and unreadable files, each once.
    pub(super) missing: Vec<String>,
}

impl<'a> LoadFiles<'a> {
    pub(super) fn new(folder: &'a Folder) -> Self {
        let missing = Vec::new();
        Self { folder, missing }
    }

    /// The distributions at the lowest level, the saturation point and the highest level, and the timeline at the
    /// saturation point, else at the highest level.
    pub(super) fn plots(&mut self, sweep: &Sweep, name: &str) -> Vec<Plot> {
        let level_name = |level: &SweepLevel| match sweep.axis {
            SweepAxis::Other => "the load".to_owned(),
            _ => sweep.level_text(level.at),
        };
        let mut distributions: Vec<(String, Requests)> = Vec::new();
        for level in sweep.key_levels() {
            let requests = level.loads.first().and_then(|load| self.requests(load));
            distributions.extend(requests.map(|requests| (level_name(level), requests)));
        }
        let mut plots: Vec<Plot> = distribution_plot(&distributions, format!("{name}-spread"))
            .into_iter()
            .collect();
        let Some(level) = sweep.knee().or(sweep.levels.last()) else {
            return plots;
        };
        let what = level_name(level);
        let failed = distributions
            .iter()
            .find(|one| one.0 == what)
            .map_or(&[][..], |(_, requests)| &requests.failed);
        let timeline = level.loads.first().and_then(|load| self.timeline(load));
        plots.extend(timeline.and_then(|timeline| timeline_plot(&timeline, failed, &what, format!("{name}-time"))));
        plots
    }

    fn requests(&mut self, load: &LoadAnswer) -> Option<Requests> {
        let name = load.records.as_deref()?;
        let file = self.open(name, self.folder.file(name))?;
        let requests = read_requests(file);
        match &requests {
            Ok(requests) => self.note_unreadable(requests.unreadable, name, "not requests"),
            Err(error) => self.note(format!("`{name}`: {error}")),
        }
        requests.ok()
    }

    fn timeline(&mut self, load: &LoadAnswer) -> Option<Timeline> {
        let name = load.timelines().next()?;
        let bytes = self.open(name, self.folder.read(name))?;
        let timeline = Timeline::parse(&String::from_utf8_lossy(&bytes));
        self.note_unreadable(timeline.unreadable, name, "truncated");
        Some(timeline)
    }

    fn note_unreadable(&mut self, lines: usize, name: &str, what: &str) {
        if lines > 0 {
            self.note(format!("{lines} of the lines of `{name}` are {what}, and were skipped"));
        }
    }

    /// A file named in the journal, if it exists.
    fn open<T>(&mut self, name: &str, file: Result<Option<T>>) -> Option<T> {
        match file {
            Ok(Some(file)) => return Some(file),
            Ok(None) if self.folder.names("loads").is_ok_and(|names| names.is_empty()) => self.note(
                "`loads/` is missing: latency distributions and engine metrics over time are not shown".to_owned(),
            ),
            Ok(None) => self.note(format!("`{name}` is missing: not drawn")),
            Err(fault) => self.note(fault.message),
        }
        None
    }

    /// Messages about loads with a request file but no answer in the journal, because the run ended during them.
    pub(super) fn unfinished(&self, sweeps: &[Sweep]) -> Vec<String> {
        let number = |name: &str| name.strip_suffix(".jsonl")?.parse::<u64>().ok();
        let levels = sweeps.iter().flat_map(|sweep| &sweep.levels);
        let loads = levels.flat_map(|level| &level.loads);
        let known = loads.filter_map(|load| number(load.records.as_deref()?.strip_prefix("loads/")?));
        // Loads of experiments are shown there, so only files numbered above the last known load are unfinished.
        let Some(last) = known.max() else { return Vec::new() };
        let files = self.folder.names("loads").unwrap_or_default();
        let mut beyond: Vec<u64> = files.iter().filter_map(|name| number(name)).collect();
        beyond.retain(|number| *number > last);
        beyond.sort_unstable();
        let notes = beyond.into_iter().filter_map(|number| {
            let name = format!("loads/{number}.jsonl");
            let found = read_requests(self.folder.file(&name).ok()??).ok()?;
            Some(format!(
                "a load was not finished: {} of its requests had completed, and are not in any result (`{name}`)",
                found.e2el.len()
            ))
        });
        notes.collect()
    }

    /// Adds a message once: all files below a symbolic link fail with the same one.
    fn note(&mut self, message: String) {
        if !self.missing.contains(&message) {
            self.missing.push(message);
        }
    }
}

/// Latencies and failures of a load's requests, without the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
struct Requests {
    /// TTFT and E2E latency of completed requests in milliseconds, each ascending.
    ttft: Vec<f32>,
    e2el: Vec<f32>,
    /// When requests failed, in seconds of the load's clock.
    failed: Vec<f64>,
    /// Number of lines that could not be parsed.
    unreadable: usize,
}

/// The distributions of these named loads; none if no request completed.
fn distribution_plot(loads: &[(String, Requests)], name: String) -> Option<Plot> {
    let panel = |label: &str, times: fn(&Requests) -> &[f32]| {
        let curves = loads
            .iter()
            .enumerate()
            .filter(|(_, (_, requests))| !times(requests).is_empty())
            .map(|(index, (name, requests))| {
                // Neighbouring curves lie close, so they differ in more than colour.
                let line = Layer::line(name.clone(), curve(times(requests)), Colour::Series(index));
                line.dashed(index % 2 == 1).stepped(true)
            });
        let x = Axis::new(label, Unit::Milliseconds).with_scale(Scale::Log);
        let y = Axis::new("of requests", Unit::Percent).with_range((0.0, 100.0));
        Some(Panel::new(label, x, y, curves)).filter(|panel| !panel.layers.is_empty())
    };
    let panels = [
        panel("time to first token (TTFT)", |requests| &requests.ttft),
        panel("end-to-end latency (E2E)", |requests| &requests.e2el),
    ]
    .into_iter()
    .flatten();
    let slowest_requests: Vec<String> = loads
        .iter()
        .filter_map(|(name, requests)| {
            let (slowest, requests) = (ms(f64::from(*requests.ttft.last()?)), requests.ttft.len());
            Some(format!(
                "{name}: the slowest TTFT of {requests} requests was {slowest}."
            ))
        })
        .collect();
    let caption = "Where a curve is at 50 %, half of the requests took at most that long.";
    let plot = Plot::new(name, "Latency distributions", panels).with_alt(slowest_requests.join(" "), caption);
    (!plot.panels.is_empty()).then_some(plot)
}

/// The empirical distribution in per cent. Times of zero count towards the shares, but their points are left out,
/// because a logarithmic axis cannot show them.
fn curve(ascending: &[f32]) -> Vec<(f64, Option<f64>)> {
    let n = ascending.len();
    let step = n.div_ceil(MAX_POINTS).max(1);
    let is_drawn = |index: &usize| *index < END_POINTS || index + END_POINTS >= n || index.is_multiple_of(step);
    let point = |index: usize| (f64::from(ascending[index]), Some(100.0 * (index + 1) as f64 / n as f64));
    (0..n)
        .filter(is_drawn)
        .map(point)
        .filter(|point| point.0 > 0.0)
        .collect()
}

/// The fields of a line in the request file that are needed.
#[derive(Deserialize)]
struct RequestLine {
    warmup: bool,
    sent: f64,
    first_token: Option<f64>,
    last_token: Option<f64>,
    ended: f64,
    outcome: RequestOutcome,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RequestOutcome {
    Completed,
    Failed,
    CutOff,
}

fn read_requests(file: File) -> std::io::Result<Requests> {
    parse_requests(BufReader::with_capacity(1 << 18, file))
}

fn parse_requests(file: impl BufRead) -> std::io::Result<Requests> {
    let mut requests = Requests::default();
    for line in request_lines::<RequestLine>(file) {
        match line? {
            Some(line) if !line.warmup => requests.add(line),
            Some(_) => {}
            None => requests.unreadable += 1,
        }
    }
    requests.ttft.sort_unstable_by(f32::total_cmp);
    requests.e2el.sort_unstable_by(f32::total_cmp);
    Ok(requests)
}

impl Requests {
    fn add(&mut self, line: RequestLine) {
        match line.outcome {
            RequestOutcome::Completed => {
                let since = |moment: Option<f64>| moment.map(|moment| ((moment - line.sent) * 1e3) as f32);
                self.ttft.extend(since(line.first_token));
                self.e2el.extend(since(line.last_token));
            }
            RequestOutcome::Failed => self.failed.push(line.ended),
            RequestOutcome::CutOff => {}
        }
    }
}

/// A timeline by column; a cell may be empty.
#[derive(Clone, Debug, Default, PartialEq)]
struct Timeline {
    /// Seconds of the load's clock.
    seconds: Vec<f64>,
    columns: Vec<(String, Vec<Option<f64>>)>,
    /// Number of lines that could not be parsed.
    unreadable: usize,
}

const OUTPUT: &str = "output_tokens_per_s";

/// A column of the file and its name in the legend.
type Curve = (&'static str, &'static str);

const REQUESTS: [Curve; 3] = [
    ("running", "running"),
    ("waiting", "waiting in the engine"),
    ("in_flight", "in flight"),
];

/// Title, unit and curves of each panel.
const PANELS: [(&str, Unit, &[Curve]); 3] = [
    ("requests", Unit::Count, &REQUESTS),
    ("KV cache used", Unit::Percent, &[("kv_usage", "")]),
    ("output", Unit::TokensPerSecond, &[(OUTPUT, "")]),
];

impl Timeline {
    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let columns = names.iter().skip(1).map(|name| ((*name).to_owned(), Vec::new()));
        let mut timeline = Self {
            columns: columns.collect(),
            ..Self::default()
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
        let per_point = values.len().div_ceil(MAX_ROWS).max(1);
        let rows = self.seconds.chunks(per_point).zip(values.chunks(per_point));
        let mut points: Vec<_> = rows
            .map(|(seconds, values)| (seconds[0], reduced(unit, values)))
            .collect();
        if let (1, Some(end), Some(last)) = (since, self.seconds.last(), points.last().copied()) {
            points.push((*end, last.1));
        }
        Some(points)
    }

    fn panel(&self, title: &str, unit: Unit, curves: &[(&str, &str)]) -> Option<Panel> {
        let (mut layers, mut top) = (Vec::new(), 0.0_f64);
        for (index, (column, name)) in curves.iter().enumerate() {
            let Some(points) = self.points(column, unit) else {
                continue;
            };
            top = points.iter().filter_map(|point| point.1).fold(top, f64::max);
            let line = Layer::line(*name, points, Colour::Series(index)).dashed(*column == "in_flight");
            // A sample holds until the next one.
            layers.push(line.stepped(true));
        }
        let top = if unit == Unit::Percent { 100.0 } else { 1.06 * top };
        let x = Axis::new("time", Unit::Seconds)
            .with_range(self.seconds.first().copied().zip(self.seconds.last().copied()));
        let y = Axis::new("", unit).with_range((top > 0.0).then_some((0.0, top)));
        (!layers.is_empty()).then(|| Panel::new(title, x, y, layers))
    }

    fn alt_text(&self, failed: usize) -> String {
        let running = |most| format!("at most {} requests ran concurrently", number(most));
        let used = |share| format!("the KV cache was used to {} % at the peak", tenths(100.0 * share));
        let mut parts: Vec<String> = [
            self.highest("running").map(running),
            self.highest("waiting").map(|most| format!("{} waited", number(most))),
            self.highest("kv_usage").map(used),
            self.highest("preemptions")
                .map(|most| format!("there were {most} preemptions")),
            (failed > 0).then(|| format!("{failed} requests failed, marked below")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if parts.is_empty() {
            parts.push("the engine reports few metrics".to_owned());
        }
        let span = self.seconds.last().zip(self.seconds.first());
        let seconds = span.map_or(0.0, |(to, from)| to - from);
        format!("Over {} s, {}.", tenths(seconds), list(&parts))
    }
}

/// Reduces values to one: rates to their mean, others to their maximum; shares become per cent. None if all are empty.
fn reduced(unit: Unit, values: &[Option<f64>]) -> Option<f64> {
    let known = || values.iter().flatten().copied();
    match unit {
        Unit::TokensPerSecond => known().reduce(|a, b| a + b).map(|sum| sum / known().count() as f64),
        Unit::Percent => Some(100.0 * known().reduce(f64::max)?),
        _ => known().reduce(f64::max),
    }
}

/// The chart; none for an empty or single-row timeline. `failed` are the times of failed requests.
fn timeline_plot(timeline: &Timeline, failed: &[f64], what: &str, name: String) -> Option<Plot> {
    if timeline.seconds.first() >= timeline.seconds.last() {
        return None;
    }
    let mut panels: Vec<Panel> = PANELS
        .iter()
        .filter_map(|(title, unit, curves)| timeline.panel(title, *unit, curves))
        .collect();
    if !failed.is_empty() {
        let marks = failed
            .iter()
            .step_by(failed.len().div_ceil(MAX_MARKS))
            .map(|at| (*at, 0.0));
        let layer = Layer::dots("failed", marks, Colour::Limit, MarkerShape::Cross);
        panels.first_mut()?.layers.push(layer);
    }
    let title = format!("Requests and KV cache over time: {what}");
    let plot = Plot::new(name, title, panels).with_alt(timeline.alt_text(failed.len()), "");
    (!plot.panels.is_empty()).then_some(plot)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::load::engine_side::{COLUMNS, TimelineRow, write};
    use crate::load::{Counts, FailureForm, RequestOutcome, RequestRecord};

    #[test]
    fn missing_files_are_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = Folder::open(folder.path()).unwrap();
        let load = |records: &str| {
            let answer = json!({
                "records": records, "timeline": { "file": "loads/1-timeline.csv", "hz": 10.0, "samples": 3, "missed": 0 },
            });
            LoadAnswer::read(&answer)
        };
        let mut files = LoadFiles::new(&open);
        let first = load("loads/1.jsonl");
        assert!(files.requests(&first).is_none() && files.timeline(&first).is_none());
        assert_eq!(files.missing.len(), 1);
        std::fs::create_dir(folder.path().join("loads")).unwrap();
        let text = "seconds,running\n0,1\n1,2\n1";
        std::fs::write(folder.path().join("loads/1-timeline.csv"), text).unwrap();
        std::fs::write(folder.path().join("loads/2.jsonl"), "{}\n").unwrap();
        let mut files = LoadFiles::new(&open);
        assert!(files.requests(&first).is_none() && files.timeline(&first).is_some());
        let notes = &files.missing;
        assert!(
            notes[0].contains("`loads/1.jsonl`") && notes[1].contains("1 of the lines"),
            "{notes:?}"
        );
        assert!(files.requests(&load("../1.jsonl")).is_none());
    }

    proptest! {
        /// A curve is monotonic and reaches 100 %, however few of its points are drawn.
        #[test]
        fn curve_reaches_all_requests(mut tenths in prop::collection::vec(1_u16..u16::MAX, 1..2000)) {
            tenths.sort_unstable();
            let times: Vec<f32> = tenths.into_iter().map(|tenths| f32::from(tenths) / 10.0).collect();
            let curve = curve(&times);
            prop_assert!(curve.len() <= MAX_POINTS + 2 * END_POINTS + 2);
            prop_assert!(curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
            prop_assert_eq!(curve.last().unwrap().1, Some(100.0));
        }
    }

    #[test]
    fn zero_times_count_but_are_not_drawn() {
        assert_eq!(curve(&[0.0, 0.0, 2.0, 4.0]), [(2.0, Some(75.0)), (4.0, Some(100.0))]);
        assert_eq!(curve(&[]), []);
    }

    fn line(index: u64, warmup: bool, outcome: RequestOutcome) -> String {
        let at = Duration::from_millis;
        let record = RequestRecord {
            index,
            warmup,
            input: 8,
            output: 3,
            scheduled: at(0),
            sent: at(10),
            first_byte: Some(at(20)),
            first_token: Some(at(30 + index)),
            last_token: Some(at(60)),
            ended: at(61),
            itl_ms: vec![12.5, 17.5],
            events: 3,
            tokens_seen: None,
            counts: Counts {
                input: Some(8),
                output: Some(3),
            },
            text: Some("\"gaps_ms\":[1]\n".into()),
            finish: None,
            outcome,
            ..RequestRecord::default()
        };
        record.to_line(1).unwrap() + "\n"
    }

    #[test]
    fn request_file_is_read_without_warmup_and_truncated_line() {
        let failed = RequestOutcome::failed(FailureForm::Broken, "reset");
        let ended = [
            (0, true, RequestOutcome::Completed),
            (2, false, RequestOutcome::Completed),
            (1, false, RequestOutcome::Completed),
            (3, false, failed),
            (4, false, RequestOutcome::CutOff),
        ];
        let mut text: String = ended
            .map(|(index, warmup, outcome)| line(index, warmup, outcome))
            .concat();
        text += "{\"repeat\":1,\"ind";
        let found = parse_requests(text.as_bytes()).unwrap();
        assert_eq!((found.ttft, found.e2el), (vec![21.0, 22.0], vec![50.0, 50.0]));
        assert_eq!((found.failed, found.unreadable), (vec![0.061], 1));
    }

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
        Timeline::parse(&(String::from_utf8(text).unwrap() + "0.4,1,2"))
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
        let running = points(MAX_ROWS as u32 * 2, "running", Unit::Count).unwrap();
        assert_eq!((running.len(), running[1].1), (MAX_ROWS, Some(3.0)));
        let output = points(MAX_ROWS as u32 * 2, OUTPUT, Unit::TokensPerSecond).unwrap();
        assert_eq!((output[7].1, output.len()), (Some(5.0), MAX_ROWS + 1));
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
        let found = timeline_plot(&timeline(4), &[0.15], "8 at once", "time".into()).unwrap();
        let titles: Vec<&str> = found.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["requests", "KV cache used", "output"]);
        assert!(found.alt.contains("1 requests failed"), "{}", found.alt);
        assert!(
            timeline_plot(&timeline(1), &[], "", String::new()).is_none(),
            "one row is no time"
        );
    }
}
