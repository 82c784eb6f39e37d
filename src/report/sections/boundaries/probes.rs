//! The probes of a boundary as table rows (point, verdict, evidence, latencies), and the frontier.

use std::collections::HashSet;

use serde_json::Value;

use crate::boundary::{Boundary, Point, Record, Verdict};
use crate::fmt::{GIB, rounded};
use crate::report::evidence::{self, ProbeClass};
use crate::report::plot::{Entry, Panel, Sheet};
use crate::run::RecordedPoint;

/// Limit for all distinct lines of evidence together, in characters, to keep the page small.
const MAX_EVIDENCE_CHARS: usize = 250_000;

/// Lines of evidence are never cut shorter than this.
const MIN_LINE_CHARS: usize = 40;

#[derive(Debug)]
pub(super) struct Probe {
    pub(super) point: Point,
    pub(super) class: ProbeClass,
    /// Cells for [`Probes::columns`].
    pub(super) entries: Vec<Entry>,
}

/// The probes of a boundary in the order of recording.
#[derive(Debug)]
pub(super) struct Probes {
    pub(super) columns: Vec<String>,
    pub(super) list: Vec<Probe>,
}

/// Columns from an answer: heading, JSON pointer, divisor, decimals.
const ANSWER_COLUMNS: [(&str, &str, f64, i32); 5] = [
    ("peak, GiB", "/peak", GIB, 2),
    ("TTFT, ms", "/ttft_ms", 1.0, 1),
    ("TPOT, ms", "/tpot_ms", 1.0, 2),
    ("E2E, ms", "/e2el_ms", 1.0, 0),
    ("KV cache, %", "/evidence/queue/kv_usage", 0.01, 1),
];

impl Probes {
    /// `answers` are the boundary's records with their full answers, in the same order.
    pub(super) fn new(boundary: &Boundary, answers: &[RecordedPoint]) -> Self {
        let axes = boundary.lattice().axis_names();
        let columns = ["probe"].into_iter().chain(axes.iter().copied());
        let columns = columns.chain(["verdict", "cause", "evidence"]);
        let columns = columns.chain(ANSWER_COLUMNS.map(|(heading, ..)| heading));
        let records = boundary.records().zip(lines(boundary)).enumerate();
        let rows = records.map(|(index, ((point, record), line))| {
            let answer = answers.get(index).map_or(Value::Null, |(_, answer)| answer.value());
            let mut entries = vec![Entry::Number((index + 1) as f64)];
            entries.extend(axes.iter().map(|name| coordinate(&point, name)));
            entries.push(verdict_text(record.verdict, ProbeClass::of(record)).into());
            entries.push(record.cause.as_deref().into());
            entries.push(line.into());
            entries.extend(ANSWER_COLUMNS.map(|(_, place, by, digits)| answer_value(&answer, place, by, digits)));
            entries
        });
        let sheet = Sheet::new(columns, rows).filled();
        let probe = |((point, record), entries): ((Point, &Record), Vec<Entry>)| Probe {
            point,
            class: ProbeClass::of(record),
            entries,
        };
        Self {
            columns: sheet.columns,
            list: boundary.records().zip(sheet.rows).map(probe).collect(),
        }
    }
}

fn coordinate(point: &Point, axis: &str) -> Entry {
    point.0.get(axis).map(|value| value.as_f64()).into()
}

fn verdict_text(verdict: Verdict, class: ProbeClass) -> String {
    let says = match class {
        ProbeClass::Fits => "fits",
        ProbeClass::Fails => "fails",
        ProbeClass::NotSent => evidence::NOT_SENT,
        ProbeClass::Clipped => "beyond a length limit",
        ProbeClass::Unclear if verdict == Verdict::ShortOutput => "what it produced fits",
        ProbeClass::Unclear => "inconclusive",
    };
    format!("{verdict} ({says})")
}

fn answer_value(answer: &Value, place: &str, by: f64, digits: i32) -> Entry {
    let value = answer.pointer(place).and_then(Value::as_f64);
    value.map(|value| rounded(value / by, digits)).into()
}

/// The line of evidence of each probe, cut shorter if there are many distinct ones.
fn lines(boundary: &Boundary) -> Vec<Option<String>> {
    let lines = boundary.records();
    let lines = lines.map(|(_, record)| evidence::line(record.evidence().as_ref()));
    let lines: Vec<_> = lines.collect();
    let distinct: HashSet<&String> = lines.iter().flatten().collect();
    if distinct.iter().map(|line| line.len()).sum::<usize>() <= MAX_EVIDENCE_CHARS {
        return lines;
    }
    let most = (MAX_EVIDENCE_CHARS / distinct.len()).max(MIN_LINE_CHARS);
    let short = |line: Option<String>| line.map(|line| evidence::truncated(&line, most));
    lines.into_iter().map(short).collect()
}

/// All probes. Those on panels come first and in panel order, so that the page stores them once.
pub(super) fn probes_sheet(probes: &Probes, panels: &[Panel]) -> Sheet {
    let number = |entries: &[Entry]| match entries.first() {
        Some(Entry::Number(number)) => number.to_bits(),
        _ => 0,
    };
    let spots = || panels.iter().flat_map(|panel| &panel.spots.spots);
    let drawn: HashSet<u64> = spots().map(|spot| number(&spot.entries)).collect();
    let others = probes.list.iter().map(|probe| &probe.entries);
    let others = others.filter(|entries| !drawn.contains(&number(entries)));
    let rows = spots().map(|spot| &spot.entries).chain(others).cloned();
    Sheet::new(probes.columns.clone(), rows).titled("Every probe")
}

/// The largest points that fit, at most so many of them, evenly spaced and including both ends.
pub(super) fn largest(boundary: &Boundary, frontier: &[Point], most: usize) -> Sheet {
    let axes = boundary.lattice().axis_names();
    let shown = frontier.len().min(most);
    let spread = (0..shown).map(|number| &frontier[number * (frontier.len() - 1) / (shown - 1).max(1)]);
    let rows = spread.map(|point| axes.iter().map(|name| coordinate(point, name)).collect());
    let title = match shown < frontier.len() {
        true => format!("largest points that fit: {shown} of {}", frontier.len()),
        false => "largest points that fit".to_owned(),
    };
    Sheet::new(axes.iter().copied(), rows).titled(title)
}
