//! The limit of a boundary as one familiar inequality, such as `input + output <= 8,352`, if every answer agrees with
//! one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Axis, Boundary, Easier, Moves, Point, Record, ReportedLimit, Verdict};
use crate::fmt::thousands;

/// Bounds that the engine itself reports; `None` for unreported ones. They predict where memory ends, except for
/// `max_model_len`, which is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundsReport {
    /// KV cache size in tokens, for all requests together.
    pub tokens: Option<u64>,
    /// Tokens per KV cache block; each request uses whole blocks.
    pub block: Option<u64>,
    /// Longest input and output together: estimated by a failed start, or reduced by the engine itself.
    pub longest: Option<u64>,
    /// Longest input.
    pub longest_input: Option<u64>,
    /// Longest input and output together, as configured: no bound of memory. `None` for an engine that we started,
    /// because we configured it ourselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u64>,
    /// Input and output of the requests of which `tokens` are that many; `None` for tokens of any requests, or if it is
    /// the longest request that is searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// The sequences for whose recurrent state there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<u64>,
}

/// The quantity that a limit bounds. All are in tokens except `Concurrency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Input and output of one request.
    Total,
    /// Tokens of all concurrent requests.
    AllTokens,
    /// Number of concurrent requests.
    Concurrency,
    /// Input of one request.
    Input,
    /// Output of one request.
    Output,
}

impl Quantity {
    /// As people write it: `input + output`.
    #[must_use]
    pub fn formula(self) -> &'static str {
        match self {
            Quantity::Total => "input + output",
            Quantity::AllTokens => "concurrency × (input + output)",
            Quantity::Concurrency => "concurrency",
            Quantity::Input => "input",
            Quantity::Output => "output",
        }
    }

    /// Its value at a point; `None` if the point lacks an axis. A missing concurrency is 1.
    #[must_use]
    pub fn of(self, point: &Point) -> Option<u64> {
        let count = |axis: &str| point.int(axis).and_then(|value| u64::try_from(value).ok());
        let total = || Some(count("input")?.saturating_add(count("output")?));
        match self {
            Quantity::Total => total(),
            Quantity::AllTokens => Some(total()?.saturating_mul(count("concurrency").unwrap_or(1))),
            Quantity::Concurrency => count("concurrency"),
            Quantity::Input => count("input"),
            Quantity::Output => count("output"),
        }
    }
}

/// An inequality that agrees with every clear answer: all points up to `fits` fit; all points from `fails` on fail, or
/// the engine's report rules them out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The bounded quantity.
    pub quantity: Quantity,
    /// The largest value that fitted.
    pub fits: u64,
    /// The smallest value that failed, or that the engine's report rules out.
    pub fails: u64,
    /// Whether no point at `fails` was sent, because the engine's own report rules it out.
    #[serde(default)]
    pub not_sent: bool,
    /// The smallest value that was sent and failed, if any was.
    #[serde(default)]
    pub failed: Option<u64>,
    /// The engine's own figure, whether or not the answers confirm it.
    pub reported: Option<u64>,
    /// True for a configured length limit, false for memory.
    pub configured: bool,
    /// A point that fitted at `fits`.
    pub at: Point,
    /// A point at `fails`.
    pub beyond: Point,
    /// How well it is known on the lines that were narrowed; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_line: Option<OnLine>,
}

/// The widest of the lines along an axis on which a fitting and a failing point were recorded that are close to each
/// other. Elsewhere the limit may lie further from what is stated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OnLine {
    /// The largest possible distance between the last values that fit on the line: by the answers, and by the stated limit.
    /// In the unit of its quantity; 0 if the answers on the line are neighbours.
    pub within: u64,
    /// The line goes along this axis through `at`.
    pub along: String,
    /// A point of the line.
    pub at: Point,
}

/// A limit is stated only if the interval between fitting and failing is at most 1/`WIDEST` of the failing value.
const WIDEST: u64 = 8;

impl Limit {
    /// The value to state: the engine's own figure if no answer contradicts it, else the largest value that fitted.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.uncontradicted().unwrap_or(self.fits)
    }

    /// The engine's own figure, if every answer agrees with it.
    #[must_use]
    pub fn uncontradicted(&self) -> Option<u64> {
        self.reported.filter(|figure| (self.fits..self.fails).contains(figure))
    }

    /// Whether the limit stays the same from one start to the next: the engine's own figure, or a configured limit.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.uncontradicted().is_some() || self.configured
    }

    /// How well the limit is known on the line along an axis through a point that fits, if `beyond` is the easiest value
    /// that fails there; `None` if both are too far apart.
    fn on_line(&self, axis: &Axis, at: Point, beyond: f64) -> Option<OnLine> {
        let bounded = |value: f64| self.quantity.of(&axis.moved(&at, value));
        let last = axis.at(&at);
        let (fits, fails) = (bounded(last)?, bounded(beyond)?);
        let is_close = beyond - last <= 1.0 || fails.saturating_sub(fits) <= fails / WIDEST;
        if fits >= fails || !is_close {
            return None;
        }
        // The last value that the stated limit admits on the line.
        let share = self.value().saturating_sub(fits) as f64 / (fails - fits) as f64;
        let stated = bounded(last + (share * (beyond - last)).floor())?;
        Some(OnLine {
            within: (bounded(beyond - 1.0)?.saturating_sub(stated)).max(stated.saturating_sub(fits)),
            along: axis.name().to_owned(),
            at,
        })
    }

    /// `input + output ≤ 8,352 tokens`.
    #[must_use]
    pub fn inequality(&self) -> String {
        let unit = if self.quantity == Quantity::Concurrency {
            ""
        } else {
            " tokens"
        };
        format!("{} ≤ {}{unit}", self.quantity.formula(), thousands(self.value()))
    }
}

impl Record {
    /// Whether a configured limit excludes the point, or otherwise whether a lack of memory does.
    fn is_beyond(&self, configured: bool) -> bool {
        if configured {
            self.is_length_limit()
        } else {
            self.is_out_of_memory()
        }
    }
}

impl Boundary {
    /// Whether an axis of this name has more than one value.
    #[must_use]
    pub fn varies(&self, name: &str) -> bool {
        let axis = self.lattice().axes().iter().find(|axis| axis.name() == name);
        axis.is_some_and(|axis| axis.range().0.as_f64() < axis.range().1.as_f64())
    }

    /// The limit of memory or scheduling that every clear answer agrees with; `None` if there is no such limit, or if
    /// it is known too vaguely to be stated.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.fitted_limit(false)
    }

    /// The configured length limit that every clear answer agrees with; `None` as for [`Self::limit`].
    #[must_use]
    pub fn length_limit(&self) -> Option<Limit> {
        self.fitted_limit(true)
    }

    /// The limit to state: the memory limit, or the configured length limit if nothing failed for another reason.
    #[must_use]
    pub fn stated_limit(&self) -> Option<Limit> {
        let failed = self.records().any(|(_, record)| record.is_out_of_memory());
        self.limit().or_else(|| self.length_limit().filter(|_| !failed))
    }

    fn fitted_limit(&self, configured: bool) -> Option<Limit> {
        if self.band().is_some() {
            return None;
        }
        let candidates = self.quantities().into_iter().filter_map(|quantity| {
            let values = |wanted: &dyn Fn(&Record) -> bool| -> Vec<(u64, Point)> {
                let records = self.records().filter(|(_, record)| wanted(record));
                records
                    .filter_map(|(point, _)| Some((quantity.of(&point)?, point)))
                    .collect()
            };
            let is_beyond = |record: &Record| record.is_beyond(configured);
            let fitting = values(&|record| record.moves == Moves::Fits);
            let sent = values(&|record| is_beyond(record) && record.verdict != Verdict::NotSent);
            let unsent = values(&|record| is_beyond(record) && record.verdict == Verdict::NotSent);
            if !self.is_tested_along(quantity, fitting.iter().chain(&sent).chain(&unsent)) {
                return None;
            }
            let (fits, at) = fitting.into_iter().max_by_key(|(value, _)| *value)?;
            let failed = sent.iter().map(|(value, _)| *value).min();
            // If both have the same value, the one that was sent wins.
            let beyond = sent.into_iter().chain(unsent).min_by_key(|(value, _)| *value);
            let (fails, beyond) = beyond?;
            let reported = self.reported_bound(quantity, configured);
            let limit = Limit {
                quantity,
                fits,
                fails,
                not_sent: failed != Some(fails),
                failed,
                reported,
                configured,
                at,
                beyond,
                on_line: None,
            };
            (fits < fails && fails - fits <= (fails / WIDEST).max(1)).then(|| Limit {
                on_line: self.on_line(&limit),
                ..limit
            })
        });
        // The engine's own figure first, then the narrowest interval. Ties go to the most usual quantity.
        candidates.min_by(|one, other| {
            let width = |limit: &Limit| (limit.fails - limit.fits) as f64 / limit.fails as f64;
            let reported = other.uncontradicted().is_some().cmp(&one.uncontradicted().is_some());
            reported.then(width(one).total_cmp(&width(other)))
        })
    }

    /// The widest of the lines along an axis on which a fitting and a failing point were sent that are close to each
    /// other; `None` if there is no such line.
    fn on_line(&self, limit: &Limit) -> Option<OnLine> {
        let axes = self.lattice().axes().iter().enumerate();
        let lines = axes
            .filter(|(_, axis)| self.varies(axis.name()))
            .flat_map(|(index, axis)| {
                let narrowed = self.brackets_along(index, limit.configured).into_iter();
                narrowed.filter_map(|(at, beyond)| limit.on_line(axis, at, beyond))
            });
        lines.max_by_key(|line| line.within)
    }

    /// For each line along an axis on which a point fitted and a harder one was sent and failed: the hardest point that
    /// fitted, and the easiest value that failed.
    fn brackets_along(&self, along: usize, configured: bool) -> Vec<(Point, f64)> {
        let mut lines: BTreeMap<Vec<u64>, [Option<f64>; 2]> = BTreeMap::new();
        let mut points = BTreeMap::new();
        for record in self.records().map(|(_, record)| record) {
            let sides = record.coordinates.iter().enumerate().filter(|(axis, _)| *axis != along);
            let line: Vec<u64> = sides.map(|(_, side)| side.as_f64().to_bits()).collect();
            let value = record.coordinates[along].as_f64();
            let [fits, fails] = lines.entry(line.clone()).or_default();
            if record.moves == Moves::Fits && fits.is_none_or(|most| value > most) {
                *fits = Some(value);
                points.insert(line, self.lattice().named(record.coordinates.iter().copied()));
            } else if record.is_beyond(configured) && record.verdict != Verdict::NotSent {
                *fails = Some(fails.map_or(value, |least| least.min(value)));
            }
        }
        let known = lines
            .into_iter()
            .filter_map(|(line, [_, fails])| Some((points.remove(&line)?, fails?)));
        known.collect()
    }

    /// The quantities that a limit over these axes may bound, the most usual first.
    fn quantities(&self) -> Vec<Quantity> {
        let axes = self.lattice().axes();
        let known = |name: &str| axes.iter().any(|axis| axis.name() == name);
        if axes.iter().any(|axis| axis.easier() != Easier::Down) {
            return Vec::new();
        }
        let both = known("input") && known("output");
        let lengths = self.varies("input") || self.varies("output");
        let many = self.varies("concurrency");
        let mut quantities = Vec::new();
        if many && lengths && both {
            quantities.push(Quantity::AllTokens);
        }
        if lengths && both {
            quantities.push(Quantity::Total);
        }
        if many {
            quantities.push(Quantity::Concurrency);
        }
        if self.varies("input") {
            quantities.push(Quantity::Input);
        }
        if self.varies("output") {
            quantities.push(Quantity::Output);
        }
        quantities
    }

    /// Whether every varying axis of the quantity was tested at two values at least.
    fn is_tested_along<'a>(&self, quantity: Quantity, points: impl Iterator<Item = &'a (u64, Point)>) -> bool {
        let axes: &[&str] = match quantity {
            Quantity::Total => &["input", "output"],
            Quantity::AllTokens => &["concurrency"],
            Quantity::Concurrency | Quantity::Input | Quantity::Output => &[],
        };
        let points: Vec<&Point> = points.map(|(_, point)| point).collect();
        axes.iter().filter(|axis| self.varies(axis)).all(|axis| {
            let first = points.first().and_then(|point| point.int(axis));
            points.iter().any(|point| point.int(axis) != first)
        })
    }

    /// The requests of the smallest length for which the reported tokens have room. Each takes whole blocks, and one for
    /// its recurrent state if it has one in the same pool.
    fn requests_by_tokens(&self, report: &BoundsReport) -> Option<u64> {
        let length = Quantity::Total.of(&self.smallest())?;
        let block = report.block.unwrap_or(1).max(1);
        let limit = ReportedLimit::from(*report);
        let with_state = report.sequences.and_then(|_| limit.with_state(length));
        match with_state.and_then(|limit| limit.state_blocks) {
            Some(blocks) => blocks.checked_div(length.div_ceil(block) + 1),
            None => report.tokens?.checked_div(length.div_ceil(block) * block),
        }
    }

    /// The engine's own bound for a quantity.
    fn reported_bound(&self, quantity: Quantity, configured: bool) -> Option<u64> {
        let report = self.report()?;
        if configured {
            return match quantity {
                Quantity::Total => report.max_model_len,
                Quantity::Input => report.longest_input,
                _ => None,
            };
        }
        match quantity {
            Quantity::Total if self.lattice().axes().iter().any(|axis| axis.name() == "concurrency") => report.longest,
            Quantity::Total => [report.tokens, report.longest].into_iter().flatten().min(),
            Quantity::AllTokens => report.tokens,
            Quantity::Input => report.longest_input,
            Quantity::Concurrency => {
                let lengths = self.varies("input") || self.varies("output");
                let by_tokens = || self.requests_by_tokens(&report).filter(|_| !lengths);
                [by_tokens(), report.sequences].into_iter().flatten().min()
            }
            Quantity::Output => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{Answer, Options};
    use super::*;

    fn boundary(axes: serde_json::Value, fits: impl Fn(&Point) -> bool, points: &[(i64, i64, i64)]) -> Boundary {
        let mut boundary = Boundary::new(&axes, Options::default()).unwrap();
        for (input, output, concurrency) in points {
            let point = Point::default().with("input", *input).with("output", *output);
            let point = point.with("concurrency", *concurrency);
            let verdict = if fits(&point) { "ok" } else { "oom" };
            let _ = boundary
                .record(&point, &Answer::parse(&json!(verdict)).unwrap())
                .unwrap();
        }
        boundary
    }

    #[test]
    fn the_engines_figure_is_stated_where_the_answers_agree_with_it() {
        let mut map = Boundary::new(&json!({ "input": [1, 9000], "output": [1, 9000] }), Options::default()).unwrap();
        for (input, output, verdict) in [(8192, 128, "ok"), (128, 8192, "ok"), (8192, 192, "oom")] {
            let answer = json!({ "verdict": verdict, "report": { "tokens": 8352, "block": 16 } });
            let point = Point::default().with("input", input).with("output", output);
            let _ = map.record(&point, &Answer::parse(&answer).unwrap()).unwrap();
        }
        let limit = map.limit().unwrap();
        assert_eq!(limit.inequality(), "input + output ≤ 8,352 tokens");
        assert_eq!((limit.fits, limit.fails), (8320, 8384));
        let line = limit.on_line.unwrap();
        assert_eq!((line.within, line.along.as_str()), (32, "output"));
        assert!(!limit.not_sent);
    }

    #[test]
    fn a_limit_says_whether_anything_beyond_it_was_sent() {
        let mut map = Boundary::new(&json!({ "input": [1, 9000] }), Options::default()).unwrap();
        let unsent = |cause: &str| json!({ "verdict": "not_sent", "cause": cause, "evidence": { "reported": 8352 } });
        for (input, answer) in [(8320, json!("ok")), (8384, unsent("memory"))] {
            let point = Point::default().with("input", input);
            let _ = map.record(&point, &Answer::parse(&answer).unwrap()).unwrap();
        }
        let limit = map.stated_limit().unwrap();
        assert_eq!((limit.fails, limit.not_sent, limit.failed), (8384, true, None));
        for (input, answer) in [(8900, json!("oom")), (8384, json!("oom"))] {
            let point = Point::default().with("input", input);
            let _ = map.record(&point, &Answer::parse(&answer).unwrap()).unwrap();
            let limit = map.stated_limit().unwrap();
            assert_eq!((limit.not_sent, limit.failed), (input == 8900, Some(input as u64)));
        }
        let mut map = Boundary::new(&json!({ "input": [1, 9000] }), Options::default()).unwrap();
        for (input, answer) in [(8320, json!("ok")), (8384, unsent("length_limit"))] {
            let point = Point::default().with("input", input);
            let _ = map.record(&point, &Answer::parse(&answer).unwrap()).unwrap();
        }
        assert!(map.stated_limit().unwrap().configured);
    }

    proptest! {
        /// Whichever points were tested, a stated limit never contradicts an answer, and the true limit lies within its
        /// interval.
        #[test]
        fn a_stated_limit_agrees_with_every_answer(
            limit in 2_000_u64..60_000,
            points in prop::collection::vec((1_i64..4096, 1_i64..4096, 1_i64..32), 1..60),
        ) {
            let axes = json!({ "input": [1, 4096], "output": [1, 4096], "concurrency": [1, 32] });
            let all_tokens = |point: &Point| Quantity::AllTokens.of(point).unwrap();
            let map = boundary(axes, |point| all_tokens(point) <= limit, &points);
            if let Some(stated) = map.limit() {
                for (point, record) in map.records() {
                    let value = stated.quantity.of(&point).unwrap();
                    prop_assert_eq!(record.moves == Moves::Fits, value <= stated.fits);
                    prop_assert_eq!(record.moves == Moves::Fails, value >= stated.fails);
                }
                if stated.quantity == Quantity::AllTokens {
                    prop_assert!((stated.fits..stated.fails).contains(&limit));
                    if let Some(line) = &stated.on_line {
                        let on_line = |value: i64| all_tokens(&line.at.clone().with(&line.along, value));
                        let last = |most: u64| (1..=4096).map(on_line).filter(|tokens| *tokens <= most).max().unwrap();
                        prop_assert!(last(limit).abs_diff(last(stated.value())) <= line.within);
                    }
                }
            }
        }
    }
}
