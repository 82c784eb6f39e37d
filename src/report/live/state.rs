//! The progress of a run, formatted as lines that fit the terminal.

use std::collections::VecDeque;
use std::time::Duration;

use console::{measure_text_width, truncate_str};
use serde_json::Value;

use crate::boundary::{Moves, Point};
use crate::report::spark::{bar, max_per_column, sparkline};
use crate::report::{Bytes, Clock, Count, Page};
use crate::run::Event;

/// Redraw interval without events.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// Maximum columns of the memory bar and of the sparkline next to it.
const MAX_BAR: usize = 20;
const MAX_CURVE: usize = 30;

/// Shorter phases show no duration.
const MIN_TIMED: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct State {
    phase: String,
    detail: String,
    since: Duration,
    /// The point being tested, and since when.
    current: Option<(String, Duration)>,
    points: usize,
    fits: usize,
    fails: usize,
    largest: LargestFitting,
    progress: Option<Progress>,
    memory: Option<(u64, u64)>,
    recent: Recent,
    loading: Option<String>,
    warnings: usize,
    warning: String,
    simulated: bool,
}

/// The strategy's latest progress report, and its first one since this process started.
#[derive(Debug)]
struct Progress {
    done: u64,
    expected: Option<u64>,
    coverage: f64,
    first: (u64, Duration),
    at: Duration,
    /// The strategy's estimate of the time left at that moment.
    left: Option<Duration>,
}

impl State {
    /// Updates the state with an event, `elapsed` after the start.
    pub(super) fn update(&mut self, event: &Event, elapsed: Duration) {
        match event {
            Event::Phase { phase, detail } => {
                self.phase.clone_from(phase);
                self.detail.clone_from(detail);
                self.since = elapsed;
                self.loading = None;
            }
            Event::Began { kind, args } if kind == "probe" => {
                let point = serde_json::from_value::<Point>(args["point"].clone());
                self.current = point.ok().map(|point| (point.to_string(), elapsed));
            }
            Event::Done { kind, .. } if kind == "probe" => self.current = None,
            Event::Boundary { axes, .. } => self.largest.start_boundary(axes),
            Event::Loading {
                done,
                issued,
                expected,
                per_second,
            } => {
                let of = expected.map_or_else(String::new, |expected| format!(" of {expected}"));
                let running = issued.saturating_sub(*done);
                self.loading = Some(format!(
                    "requests: {done}{of} done; {running} under way; {per_second:.1} a second"
                ));
            }
            Event::Point { moves, point, .. } => {
                self.points += 1;
                match moves {
                    Moves::Fits => {
                        self.fits += 1;
                        self.largest.add(point);
                    }
                    Moves::Fails => self.fails += 1,
                    Moves::None => {}
                }
            }
            Event::Progress {
                done,
                expected,
                coverage,
                seconds_left,
            } => {
                let first = self
                    .progress
                    .as_ref()
                    .map_or((*done, elapsed), |progress| progress.first);
                self.progress = Some(Progress {
                    done: *done,
                    expected: *expected,
                    coverage: *coverage,
                    first,
                    at: elapsed,
                    left: seconds_left.and_then(|left| Duration::try_from_secs_f64(left).ok()),
                });
            }
            Event::Memory { used, total } => {
                self.memory = Some((*used, *total));
                self.recent.push(elapsed, *used);
            }
            Event::Engine { info } => {
                // Until memory is sampled, at least the total is known.
                let total = info.get("memory_total").and_then(Value::as_u64);
                self.memory = self.memory.or_else(|| total.map(|total| (0, total)));
            }
            Event::Warning { text } => {
                self.warnings += 1;
                self.warning.clone_from(text);
            }
            _ => {}
        }
    }

    /// Marks the run as simulated; returns whether that is new.
    pub(super) fn mark_simulated(&mut self) -> bool {
        !std::mem::replace(&mut self.simulated, true)
    }

    /// The current phase and its duration.
    pub(super) fn doing(&self, elapsed: Duration) -> (String, Duration) {
        let doing = match self.phase.as_str() {
            "" => "running the script".to_owned(),
            phase => format!("{phase} {}", self.detail).trim_end().to_owned(),
        };
        (doing, elapsed.saturating_sub(self.since))
    }

    /// All lines, fitted to the page's width.
    pub(super) fn lines(&self, elapsed: Duration, page: Page) -> Vec<String> {
        let mut lines = self.head(elapsed, page);
        if let Some((point, since)) = &self.current
            && !self.detail.contains(point.as_str())
        {
            lines.extend(flow(
                &[
                    format!("point {point}"),
                    format!("for {}", Clock(elapsed.saturating_sub(*since))),
                ],
                page,
            ));
        }
        if let Some(loading) = &self.loading {
            let parts: Vec<String> = loading.split("; ").map(str::to_owned).collect();
            lines.extend(flow(&parts, page));
        }
        if self.points > 0 || self.progress.is_some() {
            lines.extend(flow(&self.found(elapsed), page));
        }
        if let Some(largest) = self.largest.text() {
            lines.extend(flow(&[format!("largest that fits: {largest}")], page));
        }
        lines.extend(self.memory(elapsed, page));
        if self.warnings > 0 {
            let count = Count(self.warnings, "warning");
            lines.extend(flow(&[format!("{count}, the latest: {}", self.warning)], page));
        }
        lines
    }

    /// The clock and the current phase, in two lines if one is too short.
    fn head(&self, elapsed: Duration, page: Page) -> Vec<String> {
        let spinner: Vec<char> = page.pick("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\").chars().collect();
        let turn = usize::try_from(elapsed.as_millis() / TICK.as_millis()).unwrap_or_default();
        let mark = if self.simulated { "SIMULATED " } else { "" };
        let (doing, since) = self.doing(elapsed);
        let clock = format!("{} {} {mark}", spinner[turn % spinner.len()], Clock(elapsed));
        let lasts = match since {
            since if since < MIN_TIMED || self.phase.is_empty() => String::new(),
            since => format!(", for {}", Clock(since)),
        };
        let whole = format!("{clock}{doing}{lasts}");
        if measure_text_width(&whole) <= page.width || self.detail.is_empty() {
            return vec![cut(&whole, page.width, page)];
        }
        let first = format!("{clock}{}{lasts}", self.phase);
        vec![
            cut(&first, page.width, page),
            cut(&format!("  {}", self.detail), page.width, page),
        ]
    }

    /// Points, verdicts, coverage, time left.
    fn found(&self, elapsed: Duration) -> Vec<String> {
        let expected = self.progress.as_ref().and_then(|progress| progress.expected);
        let mut parts = vec![match expected {
            Some(expected) => format!("{} of about {expected} points", self.points),
            None => Count(self.points, "point").to_string(),
        }];
        if self.points > 0 {
            let unclear = self.points - self.fits - self.fails;
            let unclear = if unclear > 0 {
                format!(", {unclear} unclear")
            } else {
                String::new()
            };
            parts.push(format!("{} fit, {} fail{unclear}", self.fits, self.fails));
        }
        if let Some(progress) = &self.progress {
            parts.push(format!("{:.0} % proven", 100.0 * progress.coverage));
        }
        if let Some(left) = self.left(elapsed) {
            parts.push(format!("about {} left", Clock(left)));
        }
        parts
    }

    /// A bar of the memory in use, and a sparkline of its recent course.
    fn memory(&self, elapsed: Duration, page: Page) -> Vec<String> {
        let Some((used, total)) = self.memory.filter(|(_, total)| *total > 0) else {
            return Vec::new();
        };
        let share = used as f64 / total as f64;
        let text = format!("  memory {} of {}", Bytes(used), Bytes(total));
        let space = page.width.saturating_sub(measure_text_width(&text) + 2);
        if space < 6 {
            return vec![cut(&text, page.width, page)];
        }
        let bar = bar(share, space.min(MAX_BAR), page);
        let space = (space - measure_text_width(&bar)).saturating_sub(2);
        let curve = match space {
            0..6 => String::new(),
            space => sparkline(&self.recent.heights(elapsed, total, space.min(MAX_CURVE)), page),
        };
        vec![format!("{text}  {bar}  {curve}").trim_end().to_owned()]
    }

    /// The time left: the strategy's estimate, else the remaining probes at the pace since the first progress
    /// report. What ran before a resume does not count.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let progress = self.progress.as_ref()?;
        let passed = elapsed.saturating_sub(progress.at);
        if let Some(left) = progress.left {
            return Some(left.saturating_sub(passed));
        }
        let (done, since) = progress.first;
        let made = progress.done.checked_sub(done).filter(|made| *made > 0)?;
        let left = progress.expected?.saturating_sub(progress.done);
        let seconds = (progress.at - since).as_secs_f64() / made as f64 * left as f64;
        Some(Duration::try_from_secs_f64(seconds).ok()?.saturating_sub(passed))
    }
}

/// Joins parts with `; `, wrapped at the page's width. Only a part wider than a line is cut.
fn flow(parts: &[String], page: Page) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if measure_text_width(line) + 2 + measure_text_width(part) <= page.width => {
                line.push_str("; ");
                line.push_str(part);
            }
            _ => lines.push(cut(&format!("  {part}"), page.width, page)),
        }
    }
    lines
}

/// One line of a text, cut at `most` columns.
fn cut(text: &str, most: usize, page: Page) -> String {
    let plain: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    truncate_str(&plain, most, page.pick("…", "~")).into_owned()
}

/// The fitting point with the largest product of coordinates.
#[derive(Debug, Default)]
struct LargestFitting {
    /// Axes on which smaller values are harder.
    inverted: Vec<String>,
    found: Option<(f64, String)>,
}

impl LargestFitting {
    /// Starts over for a new boundary: points of different boundaries are not compared.
    pub(super) fn start_boundary(&mut self, described: &Value) {
        let axes = described["axes"].as_object().into_iter().flatten();
        let inverted = axes
            .filter(|(_, axis)| axis["easier"] == "up")
            .map(|(name, _)| name.clone());
        *self = Self {
            inverted: inverted.collect(),
            found: None,
        };
    }

    pub(super) fn add(&mut self, point: &Point) {
        let part = |(axis, value): (&String, &crate::boundary::Scalar)| {
            let logarithm = value.as_f64().max(f64::MIN_POSITIVE).ln();
            if self.inverted.contains(axis) {
                -logarithm
            } else {
                logarithm
            }
        };
        let size: f64 = point.0.iter().map(part).sum();
        if self.found.as_ref().is_none_or(|(largest, _)| size > *largest) {
            self.found = Some((size, point.to_string()));
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.found.as_ref().map(|(_, point)| point.as_str())
    }
}

const WINDOW: Duration = Duration::from_secs(120);

/// Samples closer than this are merged.
const MIN_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
struct Recent(VecDeque<(Duration, u64)>);

impl Recent {
    /// Adds a sample, `at` after the start.
    pub(super) fn push(&mut self, at: Duration, used: u64) {
        match self.0.back_mut() {
            Some((last, peak)) if at < *last + MIN_INTERVAL => *peak = used.max(*peak),
            _ => self.0.push_back((at, used)),
        }
        // The last sample before the window gives its initial value.
        while self.0.get(1).is_some_and(|(next, _)| *next + WINDOW < at) {
            self.0.pop_front();
        }
    }

    /// The peak of each of `columns` equal intervals up to now, relative to `total`.
    pub(super) fn heights(&self, now: Duration, total: u64, columns: usize) -> Vec<Option<f64>> {
        let share = |used: u64| used as f64 / total.max(1) as f64;
        let begin = now.saturating_sub(WINDOW);
        let values: Vec<(f64, f64)> = self
            .0
            .iter()
            .map(|(at, used)| (at.max(&begin).as_secs_f64(), share(*used)))
            .collect();
        max_per_column(&values, now.as_secs_f64(), columns)
    }
}

#[cfg(test)]
mod tests;
