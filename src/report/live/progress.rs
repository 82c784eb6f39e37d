//! The progress of loads and searches: the running load among the planned ones, the figures of finished loads, and the
//! time left; and the boundary of a search as it grows, with the largest point that fits.

use std::time::{Duration, Instant};

use serde::Deserialize as _;
use serde_json::Value;

use crate::boundary::{Answer, Axis, Boundary, Moves, Point};
use crate::engine::LoadOptions;
use crate::fmt::number;
use crate::load::LoadAnswer;
use crate::load::stats::LoadStats;
use crate::report::document::table;
use crate::report::picture::draw_compact;
use crate::report::{Clock, Page};
use crate::run::RecordedBoundary;

/// Redraw interval without events.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// Completed requests that a running load needs before its own pace is used to estimate the time left.
const MIN_REQUESTS: u64 = 8;

/// A search takes by this factor more or less than estimated.
const UNCERTAIN: f64 = 1.5;

/// The estimated time left of a search as a range: `1:00 to 2:15 left`.
pub(super) fn time_left(left: Duration) -> String {
    let [least, most] = [left.div_f64(UNCERTAIN), left.mul_f64(UNCERTAIN)];
    format!("{} to {} left", Clock(least), Clock(most))
}

/// The loads that the script announced, the finished loads, and the running load.
#[derive(Debug, Default)]
pub(super) struct Levels {
    planned: Vec<LoadOptions>,
    ended: Vec<EndedLoad>,
    running: Option<RunningLoad>,
    /// Whether times and rates differ from those of the card that a simulated engine models.
    pub(super) untimed: bool,
}

#[derive(Debug)]
struct RunningLoad {
    options: LoadOptions,
    began: Duration,
    /// Requests done, sent and expected, warm-up included, and the requests per second.
    counts: Option<(u64, u64, Option<u64>, f64)>,
}

#[derive(Debug)]
struct EndedLoad {
    /// None if its number of requests or its duration is unknown.
    pace: Option<Pace>,
    level: Option<f64>,
    stats: LoadStats,
}

/// Requests per second at a level.
#[derive(Clone, Copy, Debug)]
struct Pace {
    level: Option<f64>,
    per_second: f64,
}

impl Pace {
    fn new(options: &LoadOptions, requests: u64, took: f64) -> Option<Self> {
        (requests > 0 && took > 0.0).then(|| Self {
            level: level(options),
            per_second: requests as f64 / took,
        })
    }
}

impl Levels {
    pub(super) fn plan(&mut self, loads: &[Value]) {
        *self = Self {
            planned: loads.iter().map(options).collect(),
            untimed: self.untimed,
            ..Self::default()
        };
    }

    /// Notes that a load with these arguments began.
    pub(super) fn begin(&mut self, args: &Value, elapsed: Duration) {
        self.running = Some(RunningLoad {
            options: options(&args["load"]),
            began: elapsed,
            counts: None,
        });
    }

    pub(super) fn count(&mut self, done: u64, issued: u64, expected: Option<u64>, per_second: f64) {
        if let Some(running) = &mut self.running {
            running.counts = Some((done, issued, expected, per_second));
        }
    }

    /// Notes that the running load ended. Returns its figures and the time left as a line.
    pub(super) fn end(&mut self, args: &Value, answer: &LoadAnswer, elapsed: Duration) -> String {
        let began = self.running.take().map_or(elapsed, |running| running.began);
        let took = elapsed.saturating_sub(began).as_secs_f64();
        let options = options(&args["load"]);
        let load = EndedLoad {
            pace: options
                .all_requests()
                .and_then(|requests| Pace::new(&options, requests, took)),
            level: level(&options),
            stats: answer.stats.clone(),
        };
        let line = format!("{}: {}", self.name(&options), load.figures(self.untimed));
        if self.planned.is_empty() {
            // Unannounced loads need not be comparable, so the pace of earlier ones is not used.
            self.ended.clear();
        }
        self.ended.push(load);
        let left = self
            .place(&options)
            .and_then(|place| self.following(place, &self.paces()));
        match left.map(Duration::try_from_secs_f64) {
            Some(Ok(left)) if left.as_secs() > 0 => format!("{line}; about {} left", Clock(left)),
            _ => line,
        }
    }

    /// Notes that the engine is ready: its start does not count towards the load's duration.
    pub(super) fn engine_ready(&mut self, elapsed: Duration) {
        if let Some(running) = &mut self.running {
            running.began = elapsed;
        }
    }

    /// The running load: `level 3 of 9: 4 concurrent requests`.
    pub(super) fn running(&self) -> Option<String> {
        let running = self.running.as_ref()?;
        let testing = if self.planned.is_empty() { "testing " } else { "" };
        Some(format!("{testing}{}", self.name(&running.options)))
    }

    fn name(&self, options: &LoadOptions) -> String {
        match self.place(options) {
            Some(place) => format!("level {} of {}: {}", place + 1, self.planned.len(), options.level()),
            None => options.level(),
        }
    }

    /// The index among the planned loads. Loads that an earlier execution finished are not seen here.
    fn place(&self, options: &LoadOptions) -> Option<usize> {
        self.planned.iter().position(|planned| planned == options)
    }

    /// The request counts of the running load, and the time left.
    pub(super) fn progress(&self, elapsed: Duration) -> Vec<String> {
        let Some(running) = &self.running else {
            return Vec::new();
        };
        let mut parts = Vec::new();
        if let Some((done, issued, expected, per_second)) = running.counts {
            let of_expected = expected.map_or_else(String::new, |expected| format!(" of {expected}"));
            let warmup = running
                .options
                .warmup
                .and_then(|warmup| warmup.requests)
                .map_or_else(String::new, |requests| format!(" (with {requests} to warm up)"));
            parts.push(format!("{done}{of_expected} requests done{warmup}"));
            parts.push(format!("{} under way", issued.saturating_sub(done)));
            parts.push(format!("{per_second:.1} requests/s"));
        }
        let left = self.left(running, elapsed);
        parts.extend(left.map(|left| format!("about {} left", Clock(left))));
        parts
    }

    /// The time left for the running load and the planned loads after it.
    fn left(&self, running: &RunningLoad, elapsed: Duration) -> Option<Duration> {
        let place = self.place(&running.options);
        if place.is_none() && !self.planned.is_empty() {
            return None;
        }
        let passed = elapsed.saturating_sub(running.began).as_secs_f64();
        let done = running.counts.map_or(0, |(done, ..)| done);
        let own = Pace::new(&running.options, done, passed).filter(|_| done >= MIN_REQUESTS);
        let mut paces = self.paces();
        let current = match (own, running.options.all_requests()) {
            (Some(own), Some(all)) => all.saturating_sub(done) as f64 / own.per_second,
            _ => (seconds(&paces, &running.options)? - passed).max(0.0),
        };
        let current = running
            .options
            .duration
            .map_or(current, |most| current.min((most - passed).max(0.0)));
        if paces.is_empty() {
            paces.extend(own);
        }
        let following = place.map_or(Some(0.0), |place| self.following(place, &paces))?;
        Duration::try_from_secs_f64(current + following).ok()
    }

    /// The expected duration of the planned loads after `place`, in seconds.
    fn following(&self, place: usize, paces: &[Pace]) -> Option<f64> {
        let following = self.planned.iter().skip(place + 1);
        following.map(|options| seconds(paces, options)).sum()
    }

    fn paces(&self) -> Vec<Pace> {
        self.ended.iter().filter_map(|load| load.pace).collect()
    }

    /// The finished loads as a table of at most `lines` lines, the newest last.
    pub(super) fn table(&self, lines: usize, page: Page) -> Vec<String> {
        if self.planned.is_empty() || self.ended.is_empty() || self.untimed || lines < 2 {
            return Vec::new();
        }
        let rate = self.planned.iter().all(|load| load.concurrency.is_none());
        let headings = [
            if rate { "requests/s" } else { "concurrency" },
            "output tok/s",
            "mean TTFT ms",
            "mean TPOT ms",
            "p95 TTFT ms",
        ];
        let from = self.ended.len().saturating_sub(lines - 1);
        let rows: Vec<Vec<String>> = self.ended[from..].iter().map(EndedLoad::row).collect();
        // Columns without room are left out: the result has them all.
        let mut width = 0;
        let fits = headings.iter().take_while(|heading| {
            width += 2 + heading.len();
            width <= page.width
        });
        let table = table(&headings[..fits.count().max(1)], &rows, page);
        table.lines().map(str::to_owned).collect()
    }
}

fn options(value: &Value) -> LoadOptions {
    LoadOptions::deserialize(value).unwrap_or_default()
}

/// The level of a load: its concurrency, or else its request rate.
fn level(options: &LoadOptions) -> Option<f64> {
    let concurrency = options.concurrency.map(|concurrency| concurrency as f64);
    concurrency.or(options.rate)
}

/// The expected duration of a load, in seconds. Requests per second are assumed to grow with the level as they did
/// between the last two loads: in proportion at first, and not at all once the engine is saturated.
fn seconds(paces: &[Pace], options: &LoadOptions) -> Option<f64> {
    let last = paces.last()?;
    let growth = match paces {
        [.., before, last] => exponent(before, last).unwrap_or(1.0).clamp(0.0, 1.0),
        _ => 1.0,
    };
    let factor = match (level(options), last.level) {
        (Some(level), Some(measured)) if measured > 0.0 => (level / measured).powf(growth),
        _ => 1.0,
    };
    let seconds = options.all_requests()? as f64 / (last.per_second * factor);
    Some(options.duration.map_or(seconds, |most| seconds.min(most)))
}

fn exponent(before: &Pace, last: &Pace) -> Option<f64> {
    let exponent = (last.per_second / before.per_second).ln() / (last.level? / before.level?).ln();
    exponent.is_finite().then_some(exponent)
}

impl EndedLoad {
    /// `571 output tokens/s (580 steady), mean TTFT 14.1 ms (p95 15.0), mean TPOT 1.63 ms, 2 of 60 requests failed`.
    fn figures(&self, untimed: bool) -> String {
        let stats = &self.stats;
        if untimed || stats.completed == 0 {
            return format!("{} of {} requests completed", stats.completed, stats.issued);
        }
        let latencies = &stats.latencies;
        let p95 = latencies
            .ttft_ms
            .p95
            .map_or_else(String::new, |p95| format!(" (p95 {})", number(p95)));
        // Scripts may decide by it.
        let steady = stats.steady.as_ref().and_then(|steady| steady.rates.output_throughput);
        let steady = steady.map_or_else(String::new, |steady| format!(" ({} steady)", number(steady)));
        let mut text = format!(
            "{} output tokens/s{steady}, mean TTFT {} ms{p95}, mean TPOT {} ms",
            short(stats.rates.output_throughput),
            short(latencies.ttft_ms.mean),
            short(latencies.tpot_ms.mean)
        );
        if stats.failed > 0 {
            text.push_str(&format!(", {} of {} requests failed", stats.failed, stats.issued));
        }
        text
    }

    fn row(&self) -> Vec<String> {
        let stats = &self.stats;
        let level = self.level.map_or_else(|| "-".to_owned(), |level| level.to_string());
        let figures = [
            stats.rates.output_throughput,
            stats.latencies.ttft_ms.mean,
            stats.latencies.tpot_ms.mean,
            stats.latencies.ttft_ms.p95,
        ];
        std::iter::once(level).chain(figures.map(short)).collect()
    }
}

fn short(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// Rows of a map. With fewer, it shows too little; the result draws more.
const ROWS: std::ops::RangeInclusive<usize> = 3..=18;

/// Lines around the rows of a map: names of the axes, edge, ruler and legend.
const AROUND: usize = 5;

/// Minimum width for a map, in columns.
const MIN_WIDTH: usize = 40;

/// Pause between two drawings, as a multiple of the time that one takes.
const PAUSE: u32 = 20;

/// With more points than this, no map is drawn: it needs a second copy of them in memory.
const MOST_POINTS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Map {
    boundary: Option<Boundary>,
    /// The fitting point with the largest product of coordinates.
    largest: Option<(f64, String)>,
    /// The map as last drawn; the number of points, the rows and the page that it was drawn for; and the earliest time
    /// of the next drawing, because drawing takes time from the search.
    drawn: Vec<String>,
    made: (usize, usize, Page),
    again: Duration,
}

impl Map {
    /// Starts over: points of different boundaries are not compared.
    pub(super) fn start(&mut self, described: &Value) {
        let recorded = RecordedBoundary {
            described: described.clone(),
            ..RecordedBoundary::default()
        };
        *self = Self {
            // The script itself gets an error if its axes are wrong.
            boundary: recorded.rebuild().ok(),
            ..Self::default()
        };
    }

    pub(super) fn add(&mut self, point: &Point, answer: &Value) {
        let (Some(boundary), Ok(answer)) = (&mut self.boundary, Answer::parse(answer)) else {
            return;
        };
        let moves = boundary.record(point, &answer);
        if boundary.records().len() > MOST_POINTS {
            self.boundary = None;
            return;
        }
        if moves != Ok(Moves::Fits) {
            return;
        }
        let part = |axis: &Axis| axis.difficulty(axis.of(point).unwrap_or(1.0).max(f64::MIN_POSITIVE).ln());
        let size: f64 = boundary.lattice().axes().iter().map(part).sum();
        if self.largest.as_ref().is_none_or(|(largest, _)| size > *largest) {
            self.largest = Some((size, point.to_string()));
        }
    }

    pub(super) fn largest(&self) -> Option<&str> {
        self.largest.as_ref().map(|(_, point)| point.as_str())
    }

    /// The map in at most `most` lines; empty if there is no room for it.
    pub(super) fn lines(&mut self, most: usize, elapsed: Duration, page: Page) -> &[String] {
        let rows = most.saturating_sub(AROUND).min(*ROWS.end());
        let has_room = rows >= *ROWS.start() && page.width >= MIN_WIDTH;
        let boundary = self
            .boundary
            .as_ref()
            .filter(|boundary| has_room && boundary.records().len() > 0);
        let Some(boundary) = boundary else { return &[] };
        let wanted = (boundary.records().len(), rows, page);
        let fits = self.made.2 == page && self.made.1 <= rows;
        if self.made != wanted && (!fits || elapsed >= self.again) {
            let began = Instant::now();
            let text = draw_compact(boundary, rows, page).unwrap_or_default();
            self.drawn = text.lines().map(str::to_owned).collect();
            self.again = elapsed + TICK.max(PAUSE * began.elapsed());
            self.made = wanted;
        }
        &self.drawn
    }
}
