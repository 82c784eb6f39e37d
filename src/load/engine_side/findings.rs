//! Findings over all levels of a sweep: the saturation point, the onsets of preemption and queueing, the cheapest
//! level, as a sentence and as rows of a table. Scripts, the terminal and the page use these findings.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::knee::{Knee, Onset, onset, saturation_point};
use crate::fmt::{list, ms, number};
use crate::load::stats::{mean, min_sample_size};

/// The varied parameter of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepAxis {
    /// Concurrent requests.
    Concurrency,
    /// Requests per second.
    Rate,
    /// Nothing: a trace, steps, a ramp.
    Other,
}

impl SweepAxis {
    /// The axis with this name; `Other` for any other name.
    pub fn named(name: &str) -> Self {
        match name {
            "concurrency" => Self::Concurrency,
            "rate" => Self::Rate,
            _ => Self::Other,
        }
    }

    /// The name, as in options and rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
            Self::Other => "load",
        }
    }

    /// One or several levels in a sentence: `concurrency 64`, `1 and 2 requests/s`.
    pub fn level_text(self, levels: &str) -> String {
        match self {
            Self::Concurrency => format!("concurrency {levels}"),
            Self::Rate => format!("{levels} requests/s"),
            Self::Other => levels.to_owned(),
        }
    }

    /// A level with its unit: `64 concurrent requests`, `2.5 requests/s`.
    fn with_unit(self, level: f64) -> String {
        match self {
            Self::Concurrency if level == 1.0 => "1 concurrent request".to_owned(),
            Self::Concurrency => format!("{} concurrent requests", number(level)),
            Self::Rate => format!("{} requests/s", number(level)),
            Self::Other => number(level),
        }
    }
}

/// The measurements of one level: cells of its row. Repeated levels have one entry each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LevelFigures {
    /// Concurrency or request rate.
    pub level: f64,
    /// Generated tokens per second.
    pub output_throughput: Option<f64>,
    /// 95th percentile of the TTFT.
    pub p95_ttft_ms: Option<f64>,
    /// Mean TTFT.
    pub mean_ttft_ms: Option<f64>,
    /// Preemptions.
    pub preemptions: Option<f64>,
    /// The most requests that waited in the engine.
    pub waiting: Option<f64>,
    /// The number that waited on average.
    pub mean_waiting: Option<f64>,
    /// Whether the queue kept growing.
    pub queue_grows: Option<bool>,
    /// Cost of a million input tokens, of output tokens, and of all.
    pub cost_input: Option<f64>,
    /// See `cost_input`.
    pub cost_output: Option<f64>,
    /// See `cost_input`.
    pub cost_total: Option<f64>,
    /// The reason why the level could not be measured.
    pub error: Option<String>,
    /// The other cells. Only the marks of thin percentiles are used.
    #[serde(flatten)]
    pub cells: Map<String, Value>,
}

/// Percentiles of a row that are marked if thin. `LATENCIES`: the latencies with such marks.
const PERCENTILES: [&str; 4] = ["median", "p90", "p95", "p99"];
const LATENCIES: [&str; 5] = ["ttft_ms", "tpot_ms", "itl_ms", "token_itl_ms", "e2el_ms"];

impl LevelFigures {
    /// Whether this percentile is thin.
    fn thin(&self, percentile: &str, latency: &str) -> bool {
        self.cells.get(&format!("{percentile}_{latency}_thin")) == Some(&Value::Bool(true))
    }

    /// Whether the engine served as much at a time as it can: its KV cache was full, or many requests waited.
    fn is_full(&self) -> bool {
        self.preemptions.is_some_and(|number| number > 0.0)
            || self.mean_waiting.is_some_and(|waiting| waiting >= FULL * self.level)
    }

    fn has_thin(&self) -> bool {
        PERCENTILES
            .iter()
            .any(|percentile| LATENCIES.iter().any(|latency| self.thin(percentile, latency)))
    }
}

/// The findings of a sweep; `None` if the levels do not show one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepFindings {
    /// The answer in one short sentence: where it saturates. Empty if nothing was measured.
    pub finding: String,
    /// The levels that the findings are about.
    pub rows: Vec<LevelFinding>,
    /// Further sentences: effects that did not occur, failed levels, thin percentiles.
    pub notes: Vec<String>,
    /// The saturation point: the knee of output throughput.
    #[serde(deserialize_with = "readable")]
    pub knee: Option<Knee>,
    /// Where preemption begins.
    #[serde(deserialize_with = "readable")]
    pub preemption: Option<Onset>,
    /// Where a queue begins to grow, in an open loop.
    #[serde(deserialize_with = "readable")]
    pub queue: Option<Onset>,
    /// Where requests begin to wait in the engine's queue: one or more on average.
    #[serde(deserialize_with = "readable")]
    pub waiting: Option<Onset>,
    /// The level of the highest output throughput.
    pub best: Option<f64>,
    /// The level of the lowest cost of all tokens.
    pub cheapest: Option<f64>,
}

/// A finding about one level: a row of the table of findings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LevelFinding {
    /// `saturates`, `highest throughput`, `lowest cost`, `preemptions begin`, `requests wait` or `queue grows`.
    pub finding: String,
    /// The level.
    pub at: f64,
    /// Generated tokens per second at this level; the mean if it was measured several times.
    pub output_throughput: Option<f64>,
    /// Mean TTFT at this level.
    pub mean_ttft_ms: Option<f64>,
    /// The rule that finds it, or how certain it is.
    pub why: String,
}

/// Reads a damaged value as unknown.
fn readable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).ok())
}

/// Requests count as waiting if at least this many wait on average.
const WAITS: f64 = 1.0;

/// An engine is full if this share of the requests waits on average: prompts that arrive together wait for a while in one
/// that is not.
const FULL: f64 = 0.25;

impl SweepFindings {
    /// Computes the findings from levels in any order.
    pub fn new(axis: SweepAxis, levels: &[LevelFigures]) -> Self {
        let points: Vec<(f64, f64)> = levels
            .iter()
            .filter_map(|one| Some((one.level, one.output_throughput?)))
            .collect();
        let begins = |has: &dyn Fn(&LevelFigures) -> Option<bool>| {
            let known: Vec<(f64, bool)> = levels.iter().filter_map(|one| Some((one.level, has(one)?))).collect();
            onset(&known)
        };
        let cost = levels.iter().filter_map(|one| Some((one.level, one.cost_total?)));
        let mut findings = Self {
            knee: saturation_point(&points),
            preemption: begins(&|one| Some(one.preemptions? > 0.0)),
            // In a closed loop no queue can grow.
            queue: begins(&|one| one.queue_grows.filter(|_| axis == SweepAxis::Rate)),
            waiting: begins(&|one| Some(one.mean_waiting? >= WAITS)),
            best: points
                .iter()
                .copied()
                .reduce(|a, b| if b.1 > a.1 { b } else { a })
                .map(|best| best.0),
            cheapest: cost.reduce(|a, b| if b.1 < a.1 { b } else { a }).map(|best| best.0),
            ..Self::default()
        };
        findings.finding = findings.saturation(axis, levels).unwrap_or_default();
        findings.rows = findings.rows(axis, levels);
        findings.notes = findings.notes(axis, levels);
        findings
    }

    /// `saturates at 64 concurrent requests: 1,833 output tokens/s, p95 TTFT 410 ms`.
    fn saturation(&self, axis: SweepAxis, levels: &[LevelFigures]) -> Option<String> {
        let highest = levels
            .iter()
            .filter(|one| one.output_throughput.is_some())
            .map(|one| one.level);
        let (lowest, highest) = (highest.clone().reduce(f64::min)?, highest.reduce(f64::max)?);
        // A full engine serves no more, though the levels show no bend.
        let full: Vec<(f64, bool)> = levels.iter().map(|one| (one.level, one.is_full())).collect();
        let (at, head) = match (self.knee, self.best?) {
            (Some(knee), _) => {
                let bracket = if knee.low < knee.high {
                    format!(" (between {} and {})", number(knee.low), number(knee.high))
                } else {
                    String::new()
                };
                (knee.x, format!("saturates at {}{bracket}", axis.with_unit(knee.x)))
            }
            (None, best) if lowest == highest => (best, axis.with_unit(best)),
            (None, best) if let Some(first) = onset(&full).filter(|onset| onset.contradicting.is_empty()) => {
                let between = match first.last_without {
                    Some(last) => format!("between {} and {}", number(last), axis.with_unit(first.first_with)),
                    None => format!("below {}", axis.with_unit(first.first_with)),
                };
                (best, format!("saturates {between}"))
            }
            (None, best) if best == highest => (best, format!("not saturated up to {}", axis.with_unit(best))),
            (None, best) => (
                best,
                format!(
                    "no saturation point in these levels; highest throughput at {}",
                    axis.with_unit(best)
                ),
            ),
        };
        let at: Vec<&LevelFigures> = levels.iter().filter(|one| one.level == at).collect();
        let mean = |value: &dyn Fn(&LevelFigures) -> Option<f64>| {
            mean(&at.iter().map(|one| value(one)).collect::<Option<Vec<f64>>>()?)
        };
        // A thin percentile is too weak for a finding.
        let p95 = mean(&|one| one.p95_ttft_ms.filter(|_| !one.thin("p95", "ttft_ms")));
        let ttft = p95
            .map(|value| format!(", p95 TTFT {}", ms(value)))
            .or_else(|| Some(format!(", mean TTFT {}", ms(mean(&|one| one.mean_ttft_ms)?))));
        let tokens = mean(&|one| one.output_throughput)?;
        Some(format!(
            "{head}: {} output tokens/s{}",
            number(tokens),
            ttft.unwrap_or_default()
        ))
    }

    /// The findings as rows, in the order of [`LevelFinding::finding`].
    fn rows(&self, axis: SweepAxis, levels: &[LevelFigures]) -> Vec<LevelFinding> {
        let mean_at = |at: f64, value: fn(&LevelFigures) -> Option<f64>| {
            let values = levels.iter().filter(|one| one.level == at).map(value);
            mean(&values.collect::<Option<Vec<f64>>>()?)
        };
        let row = |finding: &str, at: f64, why: String| LevelFinding {
            finding: finding.to_owned(),
            at,
            output_throughput: mean_at(at, |one| one.output_throughput),
            mean_ttft_ms: mean_at(at, |one| one.mean_ttft_ms),
            why,
        };
        let saturates = self.knee.map(|knee| {
            let range = if knee.low < knee.high {
                format!(" ({} to {})", number(knee.low), number(knee.high))
            } else {
                String::new()
            };
            row("saturates", knee.x, format!("knee of throughput{range}"))
        });
        let best = self.best.filter(|best| self.knee.is_none_or(|knee| knee.x != *best));
        let highest = best.map(|best| {
            let above = self.knee.and_then(|knee| {
                let more = mean_at(best, |one| one.output_throughput)? / knee.y - 1.0;
                (more > 0.0).then(|| format!("{} % above the knee", number(1e2 * more)))
            });
            row("highest throughput", best, above.unwrap_or_default())
        });
        let cheapest = self.cheapest.map(|cheapest| {
            let cost = mean_at(cheapest, |one| one.cost_total);
            let cost = cost.map(|cost| format!("${cost:.4} per 1M tokens"));
            row("lowest cost", cheapest, cost.unwrap_or_default())
        });
        let begins = |finding: &str, onset: &Onset, why: &str| row(finding, onset.first_with, though(why, onset));
        let preemptions = self.preemption.as_ref();
        let preemptions = preemptions.map(|onset| begins("preemptions begin", onset, "KV cache is full"));
        let waits = self.waiting.as_ref().filter(|_| axis != SweepAxis::Rate);
        let waits = waits.map(|onset| {
            let highest = levels.iter().filter(|one| one.waiting.is_some());
            let most = highest.reduce(|a, b| if b.level > a.level { b } else { a });
            let most = most.and_then(|one| Some((one.waiting?.round(), one.level)));
            let up_to = most.map_or_else(String::new, |(waiting, level)| {
                format!("; up to {} of {}", number(waiting), number(level))
            });
            begins("requests wait", onset, &format!("1 or more{up_to}"))
        });
        let queue = self.queue.as_ref();
        let queue = queue.map(|onset| begins("queue grows", onset, "longer at the end"));
        let rows = [saturates, highest, cheapest, preemptions, waits, queue];
        rows.into_iter().flatten().collect()
    }

    fn notes(&self, axis: SweepAxis, levels: &[LevelFigures]) -> Vec<String> {
        let mut notes = Vec::new();
        let known = |has: fn(&LevelFigures) -> bool| levels.iter().any(has);
        if self.preemption.is_none() && known(|one| one.preemptions.is_some()) {
            notes.push("no preemptions at any level".to_owned());
        }
        if axis == SweepAxis::Rate && self.queue.is_none() && known(|one| one.queue_grows.is_some()) {
            notes.push("the queue grows at no level".to_owned());
        }
        if self.waiting.is_none() && known(|one| one.mean_waiting.is_some()) {
            notes.push("requests hardly wait in the engine's queue at any level: fewer than one on average".to_owned());
        }
        for one in levels {
            if let Some(error) = &one.error {
                notes.push(format!("{} failed: {error}", axis.with_unit(one.level)));
            }
        }
        notes.extend(thin_note(axis, levels));
        notes
    }
}

/// A note on the levels with thin percentiles, and the reason.
fn thin_note(axis: SweepAxis, levels: &[LevelFigures]) -> Option<String> {
    let thin = levels.iter().filter(|one| one.has_thin());
    let mut at: Vec<f64> = thin.map(|one| one.level).collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    (!at.is_empty()).then(|| {
        let names: Vec<String> = at.into_iter().map(number).collect();
        format!(
            "~ marks a thin percentile, one without a confidence interval: too few requests at {} (p95 needs {}, p99 {}; those that waited \
             together took equally long, and count as fewer)",
            axis.level_text(&list(&names)),
            min_sample_size(0.95),
            min_sample_size(0.99)
        )
    })
}

/// The reason, with the larger levels where it does not hold: `the KV cache is full, though not at 256`.
fn though(why: &str, onset: &Onset) -> String {
    let others: Vec<String> = onset.contradicting.iter().map(|level| number(*level)).collect();
    match others.as_slice() {
        [] => why.to_owned(),
        others => format!("{why}, though not at {}", list(others)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(at: f64, tokens: f64) -> LevelFigures {
        LevelFigures {
            level: at,
            output_throughput: Some(tokens),
            p95_ttft_ms: Some(10.0 * at),
            mean_ttft_ms: Some(5.0 * at),
            preemptions: Some(if at > 32.0 { 3.0 } else { 0.0 }),
            waiting: Some((at - 9.0).max(0.0)),
            mean_waiting: Some((at - 20.0).max(0.0)),
            ..LevelFigures::default()
        }
    }

    fn rising() -> Vec<LevelFigures> {
        [(1.0, 20.0), (8.0, 160.0), (32.0, 640.0), (64.0, 650.0), (256.0, 655.0)]
            .map(|(at, tokens)| level(at, tokens))
            .to_vec()
    }

    #[test]
    fn the_finding_answers_first_and_names_the_limits() {
        let found = SweepFindings::new(SweepAxis::Concurrency, &rising());
        assert_eq!(
            found.finding,
            "saturates at 32 concurrent requests: 640 output tokens/s, p95 TTFT 320 ms"
        );
        let rows: Vec<(&str, f64, Option<f64>, &str)> = found
            .rows
            .iter()
            .map(|row| (row.finding.as_str(), row.at, row.output_throughput, row.why.as_str()))
            .collect();
        let waits = "1 or more; up to 247 of 256";
        assert_eq!(
            rows,
            [
                ("saturates", 32.0, Some(640.0), "knee of throughput"),
                ("highest throughput", 256.0, Some(655.0), "2.34 % above the knee"),
                ("preemptions begin", 64.0, Some(650.0), "KV cache is full"),
                ("requests wait", 32.0, Some(640.0), waits),
            ]
        );
        assert_eq!(
            (found.knee.unwrap().x, found.best, found.cheapest),
            (32.0, Some(256.0), None)
        );
        let read: SweepFindings = serde_json::from_value(serde_json::to_value(&found).unwrap()).unwrap();
        assert_eq!(read, found);
    }

    #[test]
    fn no_finding_rests_on_a_thin_percentile() {
        let mut levels = rising();
        for one in &mut levels {
            one.cells.insert("p95_ttft_ms_thin".to_owned(), true.into());
            one.cells
                .insert("p99_ttft_ms_thin".to_owned(), (one.level == 1.0).into());
        }
        let found = SweepFindings::new(SweepAxis::Concurrency, &levels);
        assert!(
            found.finding.contains("mean TTFT 160 ms") && !found.finding.contains("p95"),
            "{}",
            found.finding
        );
        let why = found.notes.last().unwrap();
        assert!(
            why.contains("too few requests at concurrency 1, 8, 32, 64 and 256 ("),
            "{why}"
        );
    }

    #[test]
    fn throughput_that_still_grows_is_not_saturated() {
        let straight: Vec<LevelFigures> = [1.0, 2.0, 4.0].map(|at| level(at, 20.0 * at)).to_vec();
        let found = SweepFindings::new(SweepAxis::Concurrency, &straight);
        assert!(
            found
                .finding
                .starts_with("not saturated up to 4 concurrent requests: 80 output tokens/s")
        );
        assert_eq!(found.notes[0], "no preemptions at any level");
        // One request waited while larger levels hardly did.
        let mut odd = straight.clone();
        odd[0].mean_waiting = Some(0.3);
        let found = SweepFindings::new(SweepAxis::Concurrency, &odd);
        assert!(found.finding.starts_with("not saturated up to 4"), "{}", found.finding);
        // As much, but requests are preempted at the last one.
        let full: Vec<LevelFigures> = [8.0, 64.0].map(|at| level(at, 20.0 * at)).to_vec();
        let found = SweepFindings::new(SweepAxis::Concurrency, &full);
        assert!(
            found
                .finding
                .starts_with("saturates between 8 and 64 concurrent requests: 1,280"),
            "{}",
            found.finding
        );
        assert_eq!(SweepFindings::new(SweepAxis::Rate, &[]), SweepFindings::default());
    }

    #[test]
    fn a_growing_queue_belongs_to_a_rate() {
        let levels: Vec<LevelFigures> = [(1.0, false), (4.0, true)]
            .map(|(at, grows)| LevelFigures {
                queue_grows: Some(grows),
                ..level(at, 20.0 * at)
            })
            .to_vec();
        let found = SweepFindings::new(SweepAxis::Rate, &levels);
        let grows = found.rows.iter().find(|row| row.finding == "queue grows");
        assert_eq!(grows.unwrap().at, 4.0);
        assert_eq!(SweepFindings::new(SweepAxis::Concurrency, &levels).queue, None);
    }
}
