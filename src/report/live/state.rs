//! The progress of a run, formatted as lines that fit the terminal.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use console::{measure_text_width, truncate_str};
use serde_json::Value;

use super::progress::{Levels, Map, TICK, time_left};
use crate::boundary::{Moves, Point};
use crate::fmt;
use crate::report::plot::{max_per_column, progress_bar, sparkline};
use crate::report::{Bytes, Clock, Count, Page, WarningGroup};
use crate::run::{AskedServer, DiskUse, Event, Operation, engine_number};
use crate::run::{EnginePhase, OperationKind};
use crate::warning::{CLOCK_TOO_FAST, add_warning};

/// Maximum columns of the memory bar and of the sparkline next to it.
const MAX_BAR: usize = 20;
const MAX_CURVE: usize = 30;

/// Columns that the bar or the sparkline needs at least.
const MIN_BAR: usize = 6;

/// Shorter phases show no duration.
const MIN_TIMED: Duration = Duration::from_secs(2);

/// Lines that a table of loads or a map may take even on a terminal with few rows.
const MIN_PICTURE: usize = 10;

#[derive(Debug, Default)]
pub(super) struct LiveState {
    /// One engine, or several that are probed at the same time.
    engines: Vec<Activity>,
    points: usize,
    fits: usize,
    fails: usize,
    /// Points that the engine's own report rules out.
    unsent: usize,
    map: Map,
    levels: Levels,
    progress: Option<Progress>,
    /// The warnings so far, by kind.
    pub(super) warnings: Vec<WarningGroup>,
    /// The lines that the script shows while it waits.
    watched: Vec<String>,
    pub(super) simulated: bool,
    pub(super) disk: Option<DiskUse>,
}

/// The current activity of an engine.
#[derive(Debug, Default)]
struct Activity {
    phase: Option<EnginePhase>,
    detail: String,
    since: Duration,
    /// The point being tested, and since when.
    current: Option<(String, Duration)>,
    /// When the requests of that point were sent, and their timeout.
    sent: Option<(Duration, Duration)>,
    starts: Starts,
    /// Engine, version, model and address; empty before it is ready.
    asked: String,
    memory: Option<(u64, u64)>,
    recent: Recent,
}

/// The strategy's latest progress report, and its first one since this process started.
#[derive(Debug)]
struct Progress {
    done: u64,
    expected: Option<u64>,
    resolved: f64,
    first: (u64, Duration),
    at: Duration,
    /// The strategy's estimate of the time left at that moment.
    left: Option<Duration>,
}

impl LiveState {
    /// Updates the state with an event, `elapsed` after the start, which may be about one of several engines. Returns the
    /// figures of a load that ended.
    pub(super) fn update(&mut self, event: &Event, elapsed: Duration) -> Option<String> {
        let index = engine_number().map_or(0, |number| usize::try_from(number - 1).unwrap_or_default());
        if self.engines.len() <= index {
            self.engines.resize_with(index + 1, Activity::default);
        }
        let engine = &mut self.engines[index];
        match event {
            Event::Phase { phase, detail } => {
                engine.phase = Some(*phase);
                engine.detail.clone_from(detail);
                engine.since = elapsed;
                engine.sent = None;
                engine.starts.enter(*phase, detail, elapsed);
                if *phase == EnginePhase::Probing {
                    self.levels.engine_ready(elapsed);
                }
            }
            Event::Began {
                kind: OperationKind::Probe,
                args,
                ..
            } => {
                let point = serde_json::from_value::<Point>(args["point"].clone());
                engine.current = point.ok().map(|point| (point.to_string(), elapsed));
            }
            Event::Done {
                operation: Operation::Probe(_),
                ..
            } => {
                engine.current = None;
                engine.sent = None;
                if engine_number().is_some() {
                    // Other engines are still being probed.
                    engine.phase = None;
                    engine.since = elapsed;
                }
            }
            Event::Sent { timeout } => {
                let timeout = Duration::try_from_secs_f64(*timeout).ok();
                engine.sent = timeout.map(|timeout| (elapsed, timeout));
            }
            Event::Log { line } => engine.starts.set_log(line),
            Event::Watch { lines } => self.watched.clone_from(lines),
            Event::Planned { loads } => self.levels.plan(loads),
            Event::Began {
                kind: OperationKind::Load,
                args,
                ..
            } => self.levels.begin(args, elapsed),
            Event::Done {
                args,
                operation: Operation::Load(answer),
                ..
            } => {
                let line = self.levels.end(args, answer, elapsed);
                // From here on the script is busy, not the engine.
                engine.phase = None;
                engine.since = elapsed;
                return Some(line);
            }
            Event::Loading {
                done,
                issued,
                expected,
                per_second,
            } => self.levels.count(*done, *issued, *expected, *per_second),
            Event::Boundary { axes, .. } => self.map.start(axes),
            Event::Restored { point, answer } => self.map.add(point, answer),
            Event::Point {
                moves, point, answer, ..
            } => {
                self.points += 1;
                self.map.add(point, answer);
                match moves {
                    Moves::Fits => self.fits += 1,
                    Moves::Fails => self.fails += 1,
                    Moves::Bounds => self.unsent += 1,
                    Moves::None => {}
                }
            }
            Event::Progress {
                done,
                expected,
                resolved,
                seconds_left,
            } => {
                let first = self.progress.as_ref().map(|progress| progress.first);
                self.progress = Some(Progress {
                    done: *done,
                    expected: *expected,
                    resolved: *resolved,
                    first: first.unwrap_or((*done, elapsed)),
                    at: elapsed,
                    left: seconds_left.and_then(|left| Duration::try_from_secs_f64(left).ok()),
                });
            }
            Event::Memory { used, total } => {
                engine.memory = Some((*used, *total));
                engine.recent.push(elapsed, *used);
            }
            Event::Engine { info } => {
                engine.asked = AskedServer::from_engine(info).map_or_else(String::new, |asked| asked.to_string());
                // Until memory is sampled, at least the total is known.
                let total = info.get("memory_total").and_then(Value::as_u64);
                engine.memory = engine.memory.or_else(|| total.map(|total| (0, total)));
            }
            // The result shows the complete map.
            Event::Report { .. } => self.map = Map::default(),
            Event::Shown { .. } | Event::Experiment { .. } => self.levels.plan(&[]),
            Event::Warning(warning) => {
                self.levels.untimed |= warning.code == CLOCK_TOO_FAST;
                let _ = add_warning(&mut self.warnings, warning);
            }
            _ => {}
        }
        None
    }

    /// The current activity and its duration: `testing input=4096`, `, 2:10 of at most 10:00`.
    pub(super) fn doing(&self, elapsed: Duration) -> (String, String) {
        let first = self.engines.first();
        let lasts = first.map_or_else(String::new, |engine| engine.lasts(elapsed));
        let is_probing = first.is_some_and(|engine| engine.phase == Some(EnginePhase::Probing));
        match (
            self.levels.running().filter(|_| is_probing),
            self.watched.first(),
            first,
        ) {
            (Some(load), ..) => (load, lasts),
            (None, Some(line), _) => (line.clone(), String::new()),
            (None, None, Some(engine)) => (engine.doing(), lasts),
            (None, None, None) => (RUNNING.to_owned(), lasts),
        }
    }

    /// The newest log line of a starting engine, or the requests of a running load; empty if there is neither.
    pub(super) fn newest(&self, elapsed: Duration) -> String {
        let log = self.engines.first().map_or("", |engine| &engine.starts.log);
        if log.is_empty() {
            self.levels.progress(elapsed).join(", ")
        } else {
            log.to_owned()
        }
    }

    /// The disk that the run uses: `disk 12.3 MiB written, 31.0 GiB free`.
    pub(super) fn disk(&self) -> Option<String> {
        let DiskUse { written, free } = self.disk?;
        let free = free.map_or_else(String::new, |free| format!(", {} free", Bytes(free)));
        Some(format!("disk {} written{free}", Bytes(written)))
    }

    /// The lines for a terminal with this number of rows, fitted to the page's width.
    pub(super) fn lines(&mut self, elapsed: Duration, rows: usize, page: Page) -> Vec<String> {
        let mut lines = self.head(elapsed, page);
        let watched = self.watched.iter().skip(1).take(rows.saturating_sub(4));
        lines.extend(watched.map(|line| cut(&format!("  {line}"), page.width, page)));
        for (index, engine) in self.engines.iter().enumerate() {
            if index > 0 {
                let text = format!("  engine {}: {}{}", index + 1, engine.doing(), engine.lasts(elapsed));
                lines.push(cut(&text, page.width, page));
            }
            lines.extend(engine.lines(elapsed, page));
        }
        lines.extend(flow(&self.levels.progress(elapsed), page));
        if self.points > 0 || self.progress.is_some() {
            lines.extend(flow(&self.found(elapsed), page));
        }
        if let Some(largest) = self.map.largest() {
            lines.extend(flow(&[format!("largest that fits: {largest}")], page));
        }
        for engine in &self.engines {
            lines.extend(engine.memory(elapsed, page));
        }
        lines.extend(self.disk().into_iter().flat_map(|disk| flow(&[disk], page)));
        lines.extend(self.warning_line(page));
        // Leaves the rest of the screen to earlier output.
        let most = rows.saturating_sub(lines.len() + 1).min(MIN_PICTURE.max(2 * rows / 5));
        lines.extend(self.levels.table(most, page));
        lines.extend_from_slice(self.map.lines(most, elapsed, page));
        lines
    }

    /// The warnings in one line.
    fn warning_line(&self, page: Page) -> Option<String> {
        let last = self.warnings.last()?;
        let more = match self.warnings.len() {
            1 => String::new(),
            kinds => format!("{kinds} kinds, the newest: "),
        };
        let label = page.pick("⚠", "!");
        Some(cut(&format!("  {label} {more}{}", last.sentence()), page.width, page))
    }

    /// The clock and the current activity, in two lines if one is too short.
    fn head(&self, elapsed: Duration, page: Page) -> Vec<String> {
        let spinner: Vec<char> = page.pick("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\").chars().collect();
        let turn = usize::try_from(elapsed.as_millis() / TICK.as_millis()).unwrap_or_default();
        let mark = if self.simulated { "SIMULATED " } else { "" };
        let (doing, lasts) = self.doing(elapsed);
        let clock = format!("{} {} {mark}", spinner[turn % spinner.len()], Clock(elapsed));
        let whole = format!("{clock}{doing}{lasts}");
        let parts = doing.split_once(": ").or_else(|| doing.split_once(' '));
        let Some((first, rest)) = parts.filter(|_| measure_text_width(&whole) > page.width) else {
            return vec![cut(&whole, page.width, page)];
        };
        vec![
            cut(&format!("{clock}{first}{lasts}"), page.width, page),
            cut(&format!("  {rest}"), page.width, page),
        ]
    }

    /// The number of points, their verdicts, the resolved share, and the time left.
    fn found(&self, elapsed: Duration) -> Vec<String> {
        let expected = self.progress.as_ref().and_then(|progress| progress.expected);
        let mut parts = vec![match expected {
            Some(expected) => format!("{} of about {expected} points", self.points),
            None => Count(self.points, "point").to_string(),
        }];
        if self.points > 0 {
            let mut counts = format!("{} fit, {} fail", self.fits, self.fails);
            if self.unsent > 0 {
                counts += &format!(", {} not sent", self.unsent);
            }
            let unclear = self.points - self.fits - self.fails - self.unsent;
            if unclear > 0 {
                counts += &format!(", {unclear} unclear");
            }
            parts.push(counts);
        }
        if let Some(progress) = &self.progress {
            parts.push(format!("{:.0} % resolved", (100.0 * progress.resolved).floor()));
        }
        parts.extend(self.left(elapsed));
        parts
    }

    /// The time left: the strategy's estimate as a range, else the remaining probes at the pace since the first progress
    /// report. Probes before a resume do not count.
    fn left(&self, elapsed: Duration) -> Option<String> {
        let progress = self.progress.as_ref()?;
        let passed = elapsed.saturating_sub(progress.at);
        if let Some(left) = progress.left {
            return Some(time_left(left.saturating_sub(passed)));
        }
        let (done, since) = progress.first;
        let made = progress.done.checked_sub(done).filter(|made| *made > 0)?;
        let left = progress.expected?.saturating_sub(progress.done);
        let seconds = (progress.at - since).as_secs_f64() / made as f64 * left as f64;
        let left = Duration::try_from_secs_f64(seconds).ok()?.saturating_sub(passed);
        Some(format!("about {} left", Clock(left)))
    }
}

/// The activity while no engine is busy.
const RUNNING: &str = "running the script";

impl Activity {
    fn doing(&self) -> String {
        let doing = match self.phase {
            None => RUNNING.to_owned(),
            Some(EnginePhase::Probing) => format!("testing {}", self.detail),
            Some(phase) => format!("{} {}", phase.name(), self.detail),
        };
        doing.trim_end().to_owned()
    }

    fn lasts(&self, elapsed: Duration) -> String {
        let since = self.sent.map_or(self.since, |(sent, _)| sent);
        let passed = elapsed.saturating_sub(since);
        let is_short = passed < MIN_TIMED;
        let mut lasts = match self.sent {
            _ if is_short => String::new(),
            Some((_, timeout)) => format!(", {} of at most {}", Clock(passed), Clock(timeout)),
            None if self.phase.is_none() => String::new(),
            None => format!(", for {}", Clock(passed)),
        };
        let left = self.starts.left(&self.detail, elapsed).filter(|_| self.sent.is_none());
        lasts.extend(left.map(|left| format!("; {left}")));
        lasts
    }

    /// The server, the point unless the phase already names it, and the newest log line of a start.
    fn lines(&self, elapsed: Duration, page: Page) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.asked.is_empty() {
            lines.push(cut(&format!("  asked: {}", self.asked), page.width, page));
        }
        let current = self.current.as_ref();
        if let Some((point, since)) = current.filter(|(point, _)| !self.detail.contains(point.as_str())) {
            let lasts = format!("for {}", Clock(elapsed.saturating_sub(*since)));
            lines.extend(flow(&[format!("point {point}"), lasts], page));
        }
        if !self.starts.log.is_empty() {
            lines.push(cut(&format!("  log: {}", self.starts.log), page.width, page));
        }
        lines
    }

    /// A bar of the memory in use, and a sparkline of its recent course.
    fn memory(&self, elapsed: Duration, page: Page) -> Vec<String> {
        let Some((used, total)) = self.memory.filter(|(_, total)| *total > 0) else {
            return Vec::new();
        };
        let share = used as f64 / total as f64;
        let text = format!("  memory {} of {}", Bytes(used), Bytes(total));
        let after_text = page.width.saturating_sub(measure_text_width(&text) + 2);
        if after_text < MIN_BAR {
            return vec![cut(&text, page.width, page)];
        }
        let bar = progress_bar(share, after_text.min(MAX_BAR), page);
        let after_bar = (after_text - measure_text_width(&bar)).saturating_sub(2);
        let curve = if after_bar < MIN_BAR {
            String::new()
        } else {
            sparkline(&self.recent.heights(elapsed, total, after_bar.min(MAX_CURVE)), page)
        };
        vec![format!("{text}  {bar}  {curve}").trim_end().to_owned()]
    }
}

/// The start under way, and the duration of the newest start of each engine.
#[derive(Debug, Default)]
struct Starts {
    began: Option<Duration>,
    log: String,
    took: HashMap<String, Duration>,
}

impl Starts {
    /// Notes that the engine entered a phase.
    fn enter(&mut self, phase: EnginePhase, detail: &str, elapsed: Duration) {
        self.log.clear();
        match phase {
            EnginePhase::Starting => self.began = Some(elapsed),
            // Part of the start.
            EnginePhase::Loading | EnginePhase::Pulling | EnginePhase::Downloading => {}
            EnginePhase::Ready => {
                if let Some(began) = self.began.take() {
                    let took = elapsed.saturating_sub(began);
                    self.took.insert(engine(detail).to_owned(), took);
                }
            }
            _ => self.began = None,
        }
    }

    fn set_log(&mut self, line: &str) {
        // Most engines put the time and the source location in brackets before the message.
        let message = line.split_once("] ").map_or(line, |(_, message)| message);
        self.log = one_line(message).trim().to_owned();
    }

    /// Estimates the time left from the engine's previous start: `about 0:25 left`.
    fn left(&self, detail: &str, elapsed: Duration) -> Option<String> {
        let began = self.began?;
        let took = self.took.get(engine(detail))?;
        let passed = elapsed.saturating_sub(began);
        Some(match took.checked_sub(passed) {
            Some(left) => format!("about {} left", Clock(left)),
            None => format!("longer than the last start, {}", Clock(*took)),
        })
    }
}

/// The engine's name: the first word of a phase's detail.
fn engine(detail: &str) -> &str {
    detail.split(' ').next().unwrap_or_default()
}

/// Joins parts with `; `, wrapped at the page's width. Only a part wider than a line is cut.
fn flow(parts: &[String], page: Page) -> Vec<String> {
    let lines = fmt::flow(parts.to_vec(), "; ", |line| measure_text_width(line) + 2 <= page.width);
    lines
        .iter()
        .map(|line| cut(&format!("  {line}"), page.width, page))
        .collect()
}

/// One line of a text, cut at `most` columns.
fn cut(text: &str, most: usize, page: Page) -> String {
    truncate_str(&one_line(text), most, page.pick("…", "~")).into_owned()
}

/// The text without line ends and other control characters.
pub(super) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The period that the sparkline shows.
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
        let begin = now.saturating_sub(WINDOW);
        let share = |(at, used): &(Duration, u64)| (at.max(&begin).as_secs_f64(), *used as f64 / total.max(1) as f64);
        let values: Vec<(f64, f64)> = self.0.iter().map(share).collect();
        max_per_column(&values, now.as_secs_f64(), columns)
    }
}

#[cfg(test)]
mod tests {
    //! The text of the lines, at several widths.

    use serde_json::json;

    use super::*;
    use crate::boundary::Verdict;

    const SECOND: Duration = Duration::from_secs(1);

    fn progress(done: u64, seconds_left: Option<f64>) -> Event {
        Event::Progress {
            done,
            expected: Some(40),
            resolved: 0.5,
            seconds_left,
        }
    }

    fn point(input: i64, moves: Moves) -> Event {
        Event::Point {
            boundary: 0,
            point: Point::default().with("input", input),
            verdict: Verdict::Ok,
            cause: None,
            moves,
            answer: json!(match moves {
                Moves::Fits => "ok",
                Moves::Fails | Moves::Bounds => "oom",
                Moves::None => "error",
            }),
        }
    }

    fn phase(phase: EnginePhase, detail: &str) -> Event {
        Event::Phase {
            phase,
            detail: detail.into(),
        }
    }

    fn page(width: usize, unicode: bool) -> Page {
        Page {
            width,
            unicode,
            colour: false,
        }
    }

    fn busy() -> LiveState {
        let mut state = LiveState::default();
        let warning = Event::Warning("显存在开始之前没有回到基线\nand so on".into());
        let memory = Event::Memory {
            used: 60 << 30,
            total: 80 << 30,
        };
        let began = Event::Began {
            kind: OperationKind::Probe,
            args: json!({ "point": { "input": 4096, "output": 64 } }),
            in_parts: false,
        };
        let boundary = Event::Boundary {
            index: 0,
            axes: json!({ "axes": { "input": [1, 9] }, "options": {} }),
        };
        for event in [
            boundary,
            phase(
                EnginePhase::Starting,
                "vllm 模型模型模型模型模型模型模型模型模型模型模型 input=4096",
            ),
            began,
            progress(20, None),
        ] {
            let _ = state.update(&event, 10 * SECOND);
        }
        for event in [
            point(1, Moves::Fits),
            point(7, Moves::Fits),
            point(9, Moves::None),
            memory,
            warning,
        ] {
            let _ = state.update(&event, 20 * SECOND);
        }
        let _ = state.update(&progress(22, None), 30 * SECOND);
        state.simulated = true;
        state
    }

    #[test]
    fn the_lines_say_how_far_it_is() {
        let mut state = LiveState::default();
        assert_eq!(state.lines(SECOND, 24, page(80, false)), ["- 0:01 running the script"]);
        let lines = busy().lines(40 * SECOND, 9, page(120, false));
        assert_eq!(
            lines,
            [
                "| 0:40 SIMULATED starting vllm 模型模型模型模型模型模型模型模型模型模型模型 input=4096, for 0:30",
                "  point input=4096 output=64; for 0:30",
                "  3 of about 40 points; 2 fit, 0 fail, 1 unclear; 50 % resolved; about 2:50 left",
                "  largest that fits: input=7",
                "  memory 60.0 GiB of 80.0 GiB  ###############.....  ++++++++++++++++++++++++++++++",
                "  ! 显存在开始之前没有回到基线 and so on",
            ]
        );
        let mut state = busy();
        let _ = state.update(&progress(22, Some(600.0)), 30 * SECOND);
        assert!(state.lines(40 * SECOND, 9, page(120, false))[2].ends_with("; 6:33 to 14:45 left"));
    }

    #[test]
    fn narrow_terminals_lose_no_figure() {
        for width in [24, 37, 60, 77, 197] {
            for unicode in [true, false] {
                let lines = busy().lines(40 * SECOND, 40, page(width, unicode));
                for line in &lines {
                    assert!(measure_text_width(line) <= width, "{width}: {line}");
                }
                let text = lines.join("\n");
                for part in [
                    "0:40",
                    "3 of about 40 points",
                    "1 unclear",
                    "50 % resolved",
                    "2:50 left",
                    "input=7",
                ] {
                    assert!(width < 37 || text.contains(part), "{width}: {part}\n{text}");
                }
                assert!(width < 37 || lines.len() <= 18, "{text}");
            }
        }
        let ascii = busy().lines(40 * SECOND, 40, page(60, false)).join("\n");
        assert!(
            ascii.contains('#') && !ascii.contains('…') && !ascii.contains('█'),
            "{ascii}"
        );
    }

    /// The announced loads: `(concurrency, requests)`.
    fn planned(loads: &[(u64, u64)]) -> Event {
        let load = |(concurrency, requests): &(u64, u64)| json!({ "concurrency": concurrency, "requests": requests });
        Event::Planned {
            loads: loads.iter().map(load).collect(),
        }
    }

    fn load(began: bool, concurrency: u64, requests: u64) -> Event {
        let args = json!({ "load": { "concurrency": concurrency, "requests": requests } });
        if began {
            let kind = OperationKind::Load;
            Event::Began {
                kind,
                args,
                in_parts: false,
            }
        } else {
            Event::Done {
                id: 1,
                args,
                operation: Operation::Load(Box::new(crate::load::LoadAnswer::read(&json!({
                    "issued": requests, "completed": requests, "output_throughput": 571.2,
                    "ttft_ms": { "n": 60, "mean": 14.06, "p95": 15.02, "ci": {} }, "tpot_ms": { "n": 60, "mean": 1.634, "ci": {} },
                })))),
            }
        }
    }

    #[test]
    fn a_sweep_says_which_level_runs_what_the_others_gave_and_how_long_it_takes() {
        let mut state = LiveState::default();
        let all = [(1, 60), (2, 60), (4, 60), (8, 60)];
        let _ = state.update(&planned(&all), Duration::ZERO);
        let mut lines = Vec::new();
        for (number, (concurrency, requests)) in (0..2).zip(all) {
            let begins = 60 * SECOND * number;
            let _ = state.update(&load(true, concurrency, requests), begins);
            let _ = state.update(&phase(EnginePhase::Probing, "so much"), begins);
            lines.extend(state.update(&load(false, concurrency, requests), begins + 60 * SECOND / (1 + number)));
        }
        assert_eq!(
            lines[1],
            "level 2 of 4: 2 concurrent requests: 571 output tokens/s, mean TTFT 14.1 ms (p95 15.0), mean TPOT 1.63 ms; about 0:22 left"
        );
        let _ = state.update(&load(true, 4, 60), 90 * SECOND);
        let _ = state.update(&phase(EnginePhase::Probing, "so much"), 90 * SECOND);
        let loading = Event::Loading {
            done: 4,
            issued: 8,
            expected: Some(60),
            per_second: 2.0,
        };
        let _ = state.update(&loading, 95 * SECOND);
        // Doubling the concurrency halved the time, so this level takes 15 s, 5 s of which have passed, and the last
        // one takes 7.5 s.
        assert_eq!(
            state.lines(95 * SECOND, 24, page(80, false)),
            [
                "- 1:35 level 3 of 4: 4 concurrent requests, for 0:05",
                "  4 of 60 requests done; 4 under way; 2.0 requests/s; about 0:17 left",
                "  concurrency  output tok/s  mean TTFT ms  mean TPOT ms  p95 TTFT ms",
                "            1           571          14.1          1.63         15.0",
                "            2           571          14.1          1.63         15.0",
            ]
        );
        assert_eq!(
            state.newest(95 * SECOND),
            "4 of 60 requests done, 4 under way, 2.0 requests/s, about 0:17 left"
        );
        assert_eq!(
            state.lines(95 * SECOND, 24, page(57, false))[4],
            "            1           571          14.1          1.63"
        );
        let _ = state.update(&phase(EnginePhase::Stopping, "vllm"), 100 * SECOND);
        assert_eq!(
            state.lines(107 * SECOND, 24, page(80, false))[0],
            "- 1:47 stopping vllm, for 0:07"
        );
    }

    #[test]
    fn a_start_shows_its_log_and_what_the_last_one_took_and_a_probe_its_timeout() {
        let mut state = LiveState::default();
        for (name, at) in [
            (EnginePhase::Starting, 0),
            (EnginePhase::Loading, 1),
            (EnginePhase::Ready, 60),
            (EnginePhase::Starting, 100),
            (EnginePhase::Loading, 101),
        ] {
            let _ = state.update(&phase(name, "vllm up to 8192"), at * SECOND);
        }
        let line = "INFO [loader.py:7] Loading\tweights 50 %".to_owned();
        let _ = state.update(&Event::Log { line }, 110 * SECOND);
        assert_eq!(
            state.lines(120 * SECOND, 24, page(80, false)),
            [
                "| 2:00 loading vllm up to 8192, for 0:19; about 0:40 left",
                "  log: Loading weights 50 %",
            ]
        );
        let _ = state.update(&phase(EnginePhase::Ready, "vllm up to 8192"), 160 * SECOND);
        let _ = state.update(&phase(EnginePhase::Probing, "input=7"), 160 * SECOND);
        let _ = state.update(&Event::Sent { timeout: 600.0 }, 170 * SECOND);
        assert_eq!(
            state.lines(300 * SECOND, 24, page(80, false)),
            ["| 5:00 testing input=7, 2:10 of at most 10:00"]
        );
    }

    #[test]
    fn a_map_grows_where_there_is_room() {
        let mut state = LiveState::default();
        let axes = json!({ "axes": { "input": [1, 100], "output": [1, 100] }, "options": {} });
        let _ = state.update(&Event::Boundary { index: 0, axes }, Duration::ZERO);
        let (point, answer) = (Point::default().with("input", 40).with("output", 40), json!("ok"));
        let _ = state.update(&Event::Restored { point, answer }, Duration::ZERO);
        let lines = state.lines(SECOND, 24, page(80, false));
        assert!(
            lines.len() <= 12 && lines.iter().any(|line| line.contains("####")),
            "{lines:#?}"
        );
        assert_eq!(state.lines(SECOND, 8, page(80, false)).len(), 2);
    }
}
