//! What is told of each probe: where it was, what became of it, what shows that, and what it took.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::boundary::{Boundary, Moves, Point, Verdict};
use crate::report::plot::Entry;
use crate::report::story::evidence;
use crate::run::Recorded;

/// Characters of all different lines of evidence together: what a page can bear.
const BEARABLE: usize = 250_000;

/// Characters of a line of evidence below which it says nothing.
const SHORTEST: usize = 40;

/// What a probe says of the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Its point fits.
    Fits,
    /// Its point fails.
    Fails,
    /// A length limit refused it.
    Clipped,
    /// Nothing.
    Unclear,
}

/// A probe.
#[derive(Debug)]
pub(super) struct Probe {
    /// Where it was.
    pub(super) point: Point,
    /// The same as a text, to find it by.
    pub(super) name: String,
    /// What it says.
    pub(super) class: Class,
    /// What is told of it, as long as [`Probes::columns`].
    pub(super) entries: Vec<Entry>,
}

/// The probes of a boundary in recording order.
#[derive(Debug)]
pub(super) struct Probes {
    /// What is told of each.
    pub(super) columns: Vec<String>,
    /// The probes.
    pub(super) list: Vec<Probe>,
}

/// Figures of an answer: heading, where it is, by how much it is divided, digits after the point.
const FIGURES: [(&str, &str, f64, i32); 5] = [
    ("peak, GiB", "/peak", 1_073_741_824.0, 2),
    ("TTFT, ms", "/ttft_ms", 1.0, 1),
    ("TPOT, ms", "/tpot_ms", 1.0, 2),
    ("E2E, ms", "/e2el_ms", 1.0, 0),
    ("KV cache, %", "/evidence/queue/kv_usage", 0.01, 1),
];

impl Probes {
    /// The probes of a boundary; `answers` are its records with their whole answers, in the same order.
    pub(super) fn of(boundary: &Boundary, answers: &[Recorded]) -> Self {
        let axes = boundary.lattice().axis_names();
        let lines = lines(boundary);
        let mut list = Vec::new();
        let mut asked: HashMap<String, [usize; 3]> = HashMap::new();
        let mut columns = vec!["probe".to_owned()];
        columns.extend(axes.iter().map(|name| (*name).to_owned()));
        columns.extend(["verdict", "cause", "evidence"].map(str::to_owned));
        columns.extend(FIGURES.map(|(heading, ..)| heading.to_owned()));
        columns.push("asked".to_owned());
        for (index, ((point, record), line)) in boundary.records().zip(lines).enumerate() {
            let answer = answers.get(index).map_or(&Value::Null, |(_, answer)| answer);
            let class = class(record.moves, record.verdict);
            let mut entries = vec![Entry::Number((index + 1) as f64)];
            entries.extend(
                axes.iter()
                    .map(|name| Entry::from(point.0.get(*name).map(|value| value.as_f64()))),
            );
            entries.push(said(record.verdict, class).into());
            entries.push(record.cause.as_deref().into());
            entries.push(line.into());
            entries.extend(FIGURES.map(|(_, place, by, digits)| figure(answer, place, by, digits)));
            let name = point.to_string();
            asked.entry(name.clone()).or_default()[record.moves as usize] += 1;
            list.push(Probe {
                point,
                name,
                class,
                entries,
            });
        }
        for probe in &mut list {
            probe.entries.push(asked.get(&probe.name).and_then(again).into());
        }
        Self { columns, list }.without_empty()
    }

    /// Without columns of which nothing is known.
    fn without_empty(mut self) -> Self {
        let known = |at: usize| self.list.iter().any(|probe| probe.entries[at] != Entry::None);
        let kept: Vec<bool> = (0..self.columns.len()).map(known).collect();
        let mut places = kept.iter();
        self.columns.retain(|_| places.next().copied().unwrap_or(true));
        for probe in &mut self.list {
            let mut places = kept.iter();
            probe.entries.retain(|_| places.next().copied().unwrap_or(true));
        }
        self
    }
}

fn class(moves: Moves, verdict: Verdict) -> Class {
    match (moves, verdict) {
        (Moves::Fits, _) => Class::Fits,
        (Moves::Fails, _) => Class::Fails,
        (Moves::None, Verdict::Refused) => Class::Clipped,
        (Moves::None, _) => Class::Unclear,
    }
}

/// A verdict, and what it says of the boundary.
fn said(verdict: Verdict, class: Class) -> String {
    let says = match class {
        Class::Fits => "fits",
        Class::Fails => "fails",
        Class::Clipped => "beyond a length limit",
        Class::Unclear if verdict == Verdict::ShortOutput => "what it produced fits",
        Class::Unclear => "says nothing",
    };
    format!("{verdict} ({says})")
}

fn figure(answer: &Value, place: &str, by: f64, digits: i32) -> Entry {
    let unit = 10f64.powi(digits);
    let value = answer.pointer(place).and_then(Value::as_f64);
    value.map(|value| (value / by * unit).round() / unit).into()
}

/// The line of evidence of each probe; the more different ones there are, the shorter, so that a page can bear them.
fn lines(boundary: &Boundary) -> Vec<Option<String>> {
    let lines: Vec<_> = boundary
        .records()
        .map(|(_, record)| evidence::line(record.evidence.as_deref()))
        .collect();
    let different: HashSet<&String> = lines.iter().flatten().collect();
    if different.iter().map(|line| line.len()).sum::<usize>() <= BEARABLE {
        return lines;
    }
    let most = (BEARABLE / different.len()).max(SHORTEST);
    let short = |line: Option<String>| line.map(|line| evidence::shortened(&line, most));
    lines.into_iter().map(short).collect()
}

/// What a point that was asked more than once was answered, of how many of each [`Moves`]: `3 times: 2 fit, 1 fails`.
fn again(counts: &[usize; 3]) -> Option<String> {
    let words = [
        (Moves::Fits, "fits", "fit"),
        (Moves::Fails, "fails", "fail"),
        (Moves::None, "says nothing", "say nothing"),
    ];
    let told = words
        .into_iter()
        .filter_map(|(moves, one, more)| match counts[moves as usize] {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {more}")),
        });
    let all: usize = counts.iter().sum();
    (all > 1).then(|| format!("{all} times: {}", told.collect::<Vec<_>>().join(", ")))
}
