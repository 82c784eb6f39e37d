//! The probes of a boundary, for its charts and their table.

use serde_json::Value;

use crate::answer::evidence::{self, ProbeClass};
use crate::boundary::{Axis, Boundary, Cause, Point, Verdict};
use crate::fmt::{GIB, rounded};
use crate::report::picture::RULED_OUT;
use crate::report::plot::{Entry, Sheet};
use crate::run::{Evidence, RecordedPoint};

/// A probe as charts and tables show it.
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
        let axes = boundary.lattice().axes();
        let columns = ["probe"]
            .into_iter()
            .chain(axes.iter().map(Axis::name))
            .chain(["verdict", "cause", "evidence"])
            .chain(ANSWER_COLUMNS.map(|(heading, ..)| heading));
        let (mut rows, mut places) = (Vec::new(), Vec::new());
        for (index, (point, record)) in boundary.records().enumerate() {
            let answer = answers.get(index).map_or(Value::Null, |(_, answer)| answer.value());
            let class = ProbeClass::from_record(record);
            let mut entries = vec![Entry::Number((index + 1) as f64)];
            entries.extend(axes.iter().map(|axis| axis.of(&point).into()));
            entries.push(verdict_text(record.verdict, class).into());
            entries.push(record.cause.as_ref().map(Cause::name).into());
            entries.push(evidence::line(&Evidence::from_record(record)).into());
            entries.extend(ANSWER_COLUMNS.map(|(_, place, by, digits)| answer_value(&answer, place, by, digits)));
            rows.push(entries);
            places.push((point, class));
        }
        let Sheet { columns, rows, .. } = Sheet::new(columns, rows).filled();
        let probes = places.into_iter().zip(rows);
        let list = probes.map(|((point, class), entries)| Probe { point, class, entries });
        Self {
            columns,
            list: list.collect(),
        }
    }

    pub(super) fn sheet(&self) -> Sheet {
        let rows = self.list.iter().map(|probe| probe.entries.clone());
        Sheet::new(self.columns.clone(), rows).titled("Every probe")
    }
}

fn verdict_text(verdict: Verdict, class: ProbeClass) -> String {
    let says = match class {
        ProbeClass::Fits => "fits",
        ProbeClass::Fails => "fails",
        ProbeClass::NotSent => RULED_OUT,
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
