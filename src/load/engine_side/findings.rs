//! Findings over all levels of a sweep: the saturation point, the onsets of preemption and queueing, the cheapest
//! level, and a summary sentence. Scripts, the terminal and the page use these findings.
//!
//! The method for the knee is the core of Kneedle (Satopää, Albrecht, Irwin, Raghavan: "Finding a 'Kneedle' in a
//! Haystack", ICDCS workshops 2011): with both axes scaled to the range of the curve, the knee is the point farthest
//! from the straight line between its ends. Instead of Kneedle's sensitivity parameter we use the noise of the values.
//! If every point of a straight line may be off by `n`, none is farther than `2 n` from the line through its ends, so
//! a curve within that distance has no provable knee. Two points may swap their order if their distances differ by
//! less than `4 n`, so the knee is a range.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

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
const LATENCIES: [&str; 4] = ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"];

impl LevelFigures {
    /// Whether this percentile is thin.
    fn thin(&self, percentile: &str, latency: &str) -> bool {
        self.cells.get(&format!("{percentile}_{latency}_thin")) == Some(&Value::Bool(true))
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
    /// Further sentences: the rule of the saturation point, preemption, the queue, effects that did not occur, failed
    /// levels, cost.
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

/// Reads a damaged value as unknown.
fn readable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).ok())
}

/// Requests count as waiting if at least this many wait on average.
const WAITS: f64 = 1.0;

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
            knee: knee(&points),
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
        findings.notes = findings.notes(axis, levels);
        findings
    }

    /// `saturation: the knee of output throughput, which is 2.34 % higher at 256`.
    fn rule(&self, levels: &[LevelFigures]) -> Option<String> {
        let (knee, best) = (self.knee?, self.best?);
        let rule = "saturation: the knee of output throughput";
        let highest = levels.iter().filter(|one| one.level == best);
        let highest = highest.filter_map(|one| one.output_throughput).reduce(f64::max)?;
        Some(match highest / knee.y - 1.0 {
            more if best != knee.x && more > 0.0 => {
                format!("{rule}, which is {} % higher at {}", number(1e2 * more), number(best))
            }
            _ => format!("{rule}, which is highest there"),
        })
    }

    /// `saturates at 64 concurrent requests: 1,833 output tokens/s, p95 TTFT 410 ms`.
    fn saturation(&self, axis: SweepAxis, levels: &[LevelFigures]) -> Option<String> {
        let highest = levels
            .iter()
            .filter(|one| one.output_throughput.is_some())
            .map(|one| one.level);
        let (lowest, highest) = (highest.clone().reduce(f64::min)?, highest.reduce(f64::max)?);
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

    /// `from 32 on requests wait in the queue, up to 247 of 256 requests`.
    fn queueing(&self, axis: SweepAxis, levels: &[LevelFigures]) -> Option<String> {
        if axis == SweepAxis::Rate {
            return Some(format!(
                "the queue grows from {} requests/s on",
                from(self.queue.as_ref()?)
            ));
        }
        let waits = self.waiting.as_ref()?;
        let most = levels
            .iter()
            .filter(|one| one.waiting.is_some())
            .reduce(|a, b| if b.level > a.level { b } else { a })?;
        let waiting = format!("{} of {} requests", number(most.waiting?.round()), number(most.level));
        Some(if most.level == waits.first_with {
            format!("{waiting} wait in the queue")
        } else {
            format!("from {} on requests wait in the queue, up to {waiting}", from(waits))
        })
    }

    fn notes(&self, axis: SweepAxis, levels: &[LevelFigures]) -> Vec<String> {
        let cache = |preemption| format!("KV cache full from {} on (preemptions)", from(preemption));
        let found = [
            self.rule(levels),
            self.preemption.as_ref().map(cache),
            self.queueing(axis, levels),
        ];
        let mut notes: Vec<String> = found.into_iter().flatten().collect();
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
        let cheapest = levels.iter().find(|one| Some(one.level) == self.cheapest);
        if let Some(LevelFigures {
            level,
            cost_input: Some(input),
            cost_output: Some(output),
            cost_total: Some(total),
            ..
        }) = cheapest
        {
            notes.push(format!(
                "cheapest at {}: ${input:.4} per 1M input tokens, ${output:.4} per 1M output tokens, ${total:.4} per 1M of both",
                axis.with_unit(*level)
            ));
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

/// The first level, followed by contradicting ones: `128 (though not at 256)`.
fn from(onset: &Onset) -> String {
    let first = number(onset.first_with);
    match onset.contradicting.as_slice() {
        [] => first,
        others => {
            let others: Vec<String> = others.iter().map(|level| number(*level)).collect();
            format!("{first} (though not at {})", list(&others))
        }
    }
}

/// Noise: the possible error of a value, as a share of the highest.
const NOISE: f64 = 0.02;

/// The knee of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Its x coordinate.
    pub x: f64,
    /// The value there; the mean of several measurements.
    pub y: f64,
    /// The knee lies between `low` and `high`: the smallest and the largest `x` that noise cannot distinguish from it.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// Distance from the straight line, as a share of the value's range.
    pub distance: f64,
}

/// The point where a curve in any order, such as throughput over concurrency, stops rising. `None` if there is no knee:
/// fewer than three different `x`, a flat or straight curve, or a bend within the noise.
pub fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    let curve = averaged(points);
    let (first, last) = (*curve.first()?, *curve.last()?);
    let width = last.0 - first.0;
    if curve.len() < 3 || width <= 0.0 {
        return None;
    }
    let highest = curve.iter().map(|point| point.1.abs()).fold(0.0, f64::max);
    let slack = 2.0 * NOISE * highest;
    let height = |point: &(f64, f64)| {
        let line = first.1 + (last.1 - first.1) * (point.0 - first.0) / width;
        point.1 - line
    };
    let knee = curve
        .iter()
        .copied()
        .reduce(|best, next| if height(&next) > height(&best) { next } else { best })?;
    let most = height(&knee);
    if most <= slack || most <= 0.0 {
        return None;
    }
    let candidates = || {
        curve
            .iter()
            .filter(|point| height(point) >= most - 2.0 * slack)
            .map(|point| point.0)
    };
    let values = || curve.iter().map(|point| point.1);
    let range = values().reduce(f64::max)? - values().reduce(f64::min)?;
    Some(Knee {
        x: knee.0,
        y: knee.1,
        low: candidates().reduce(f64::min)?,
        high: candidates().reduce(f64::max)?,
        distance: most / range,
    })
}

/// Sorts by `x` and averages points with equal `x`. Drops non-finite points.
fn averaged(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| {
            let count = same.len() as f64;
            (same[0].0, same.iter().map(|point| point.1).sum::<f64>() / count)
        })
        .collect()
}

/// The levels between which something starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Onset {
    /// The largest tested level below `first_with` without it; `None` if the smallest level had it.
    pub last_without: Option<f64>,
    /// The smallest level with it.
    pub first_with: f64,
    /// Larger levels without it: the more there are, the less `first_with` is a sharp limit.
    pub contradicting: Vec<f64>,
}

/// The onset among levels in any order. A level tested several times has it if it ever did. `None` if no level has it.
pub fn onset(levels: &[(f64, bool)]) -> Option<Onset> {
    let with = |level: f64| levels.iter().any(|(other, has)| *has && *other == level);
    let first_with = levels
        .iter()
        .filter(|(_, has)| *has)
        .map(|(level, _)| *level)
        .reduce(f64::min)?;
    let without = levels.iter().map(|(level, _)| *level).filter(|level| !with(*level));
    let mut contradicting: Vec<f64> = without.clone().filter(|level| *level > first_with).collect();
    contradicting.sort_by(f64::total_cmp);
    contradicting.dedup();
    Some(Onset {
        last_without: without.filter(|level| *level < first_with).reduce(f64::max),
        first_with,
        contradicting,
    })
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
        let notes = [
            "saturation: the knee of output throughput, which is 2.34 % higher at 256",
            "KV cache full from 64 on (preemptions)",
            "from 32 on requests wait in the queue, up to 247 of 256 requests",
        ];
        assert_eq!(found.notes, notes);
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
        assert_eq!(found.notes[0], "the queue grows from 4 requests/s on");
        assert_eq!(SweepFindings::new(SweepAxis::Concurrency, &levels).queue, None);
    }
}

#[cfg(test)]
mod onset_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn onset_lies_between_last_without_and_first_with() {
        let levels = [(64.0, true), (1.0, false), (32.0, false), (128.0, true), (16.0, false)];
        let onset = onset(&levels).unwrap();
        assert_eq!((onset.last_without, onset.first_with), (Some(32.0), 64.0));
        assert!(onset.contradicting.is_empty());
    }

    #[test]
    fn contradicting_levels_are_listed() {
        let levels = [
            (1.0, false),
            (8.0, true),
            (8.0, false),
            (16.0, false),
            (16.0, false),
            (32.0, true),
        ];
        let onset = onset(&levels).unwrap();
        assert_eq!((onset.last_without, onset.first_with), (Some(1.0), 8.0));
        assert_eq!(onset.contradicting, [16.0]);
    }

    #[test]
    fn no_onset_if_never_and_no_lower_bound_if_always() {
        assert_eq!(onset(&[]), None);
        assert_eq!(onset(&[(1.0, false), (2.0, false)]), None);
        assert_eq!(onset(&[(4.0, true), (2.0, true)]).unwrap().last_without, None);
    }

    proptest! {
        /// For a sharp threshold, the range contains it and nothing contradicts it, in any order of levels.
        #[test]
        fn threshold_lies_in_the_range(levels in prop::collection::vec(1_u32..300, 1..30), threshold in 1_u32..300) {
            let tried: Vec<_> = levels.iter().map(|level| (f64::from(*level), *level >= threshold)).collect();
            match onset(&tried) {
                Some(onset) => {
                    prop_assert!(onset.first_with >= f64::from(threshold));
                    prop_assert!(onset.last_without.is_none_or(|last| last < f64::from(threshold)));
                    prop_assert_eq!(onset.contradicting, Vec::<f64>::new());
                }
                None => prop_assert!(levels.iter().all(|level| *level < threshold)),
            }
        }
    }
}

#[cfg(test)]
mod knee_tests {
    use proptest::prelude::*;

    use super::*;

    const LEVELS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

    fn over(levels: &[f64], figure: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        levels.iter().map(|x| (*x, figure(*x))).collect()
    }

    #[test]
    fn knee_of_saturating_throughput() {
        let knee = knee(&over(&LEVELS, |x| 20.0 * x.min(32.0))).unwrap();
        assert_eq!((knee.x, knee.y, knee.low, knee.high), (32.0, 640.0, 32.0, 32.0));
    }

    #[test]
    fn knee_of_a_curve_that_falls_afterwards() {
        // Preemption above a concurrency of 64.
        let knee = knee(&over(&LEVELS, |x| {
            if x <= 64.0 { 20.0 * x } else { 1280.0 - 2.0 * (x - 64.0) }
        }))
        .unwrap();
        assert_eq!(knee.x, 64.0);
    }

    #[test]
    fn a_curve_that_steepens_has_no_knee() {
        let points = over(&LEVELS, |x| if x <= 64.0 { 10.0 } else { 10.0 + (x - 64.0) });
        assert_eq!(knee(&points), None);
    }

    #[test]
    fn gentle_bend_gives_a_range() {
        let knee = knee(&over(&LEVELS, |x| 1500.0 * x / (x + 40.0))).unwrap();
        assert!(
            knee.low <= knee.x && knee.x <= knee.high && (32.0..=128.0).contains(&knee.x),
            "{knee:?}"
        );
        assert!(knee.low < knee.high, "no single level stands out: {knee:?}");
    }

    #[test]
    fn too_few_points_have_no_knee() {
        assert_eq!(knee(&[]), None);
        assert_eq!(knee(&over(&[1.0, 2.0], |x| x)), None);
        assert_eq!(knee(&[(1.0, 5.0), (1.0, 9.0), (1.0, 2.0)]), None);
        assert_eq!(knee(&over(&[1.0, 2.0, 4.0], |_| f64::NAN)), None);
        assert_eq!(knee(&over(&[1.0, 2.0, 4.0], |_| 0.0)), None);
    }

    #[test]
    fn repeated_levels_are_averaged() {
        let mut points = over(&LEVELS, |x| 20.0 * x.min(32.0) * 0.99);
        points.extend(over(&LEVELS, |x| 20.0 * x.min(32.0) * 1.01));
        points.reverse();
        let knee = knee(&points).unwrap();
        assert!((knee.x, (knee.y - 640.0).abs() < 1e-9) == (32.0, true), "{knee:?}");
    }

    /// Ascending levels, each with an error from -1 to 1.
    fn noisy() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((1.0_f64..50.0, -1.0_f64..=1.0), 3..20).prop_map(|steps| {
            let mut x = 0.0;
            steps
                .into_iter()
                .map(|(step, error)| {
                    x += step;
                    (x, error)
                })
                .collect()
        })
    }

    proptest! {
        /// Noise within the allowed size never creates a knee in a straight line.
        #[test]
        fn noisy_straight_line_has_no_knee(levels in noisy(), start in 10.0_f64..1000.0, slope in 0.0_f64..50.0) {
            let exact = |x: f64| start + slope * x;
            let least = levels.iter().map(|(x, _)| exact(*x)).fold(f64::INFINITY, f64::min);
            // Errors are allowed as a share of the highest value, which is at least the lowest exact one minus its error.
            let size = NOISE * least / (1.0 + NOISE);
            let points: Vec<_> = levels.iter().map(|(x, error)| (*x, exact(*x) + error * size)).collect();
            prop_assert_eq!(knee(&points), None);
        }

        /// A clear corner is found, and lies in the range for any allowed noise.
        #[test]
        fn corner_lies_in_the_range(errors in prop::collection::vec(-1.0_f64..=1.0, 9), corner in 2_usize..6) {
            let at = LEVELS[corner];
            let exact = over(&LEVELS, |x| x.min(at));
            let size = NOISE * at / (1.0 + NOISE);
            let points: Vec<_> = exact.iter().zip(errors).map(|((x, y), error)| (*x, y + error * size)).collect();
            let knee = knee(&points).unwrap();
            prop_assert!(knee.low <= at && at <= knee.high, "{} not in {:?}", at, knee);
            prop_assert!(knee.low <= knee.x && knee.x <= knee.high);
        }

        /// Neither the units of the axes nor the order of the points matter.
        #[test]
        fn units_and_order_do_not_matter(levels in noisy(), scale in 0.01_f64..100.0, turn in 0_usize..20) {
            let points: Vec<_> = levels.iter().map(|(x, error)| (*x, 100.0 + 90.0 * error)).collect();
            let mut other: Vec<_> = points.iter().map(|(x, y)| (x * scale, y * scale)).collect();
            let turn = turn % other.len();
            other.rotate_left(turn);
            let (one, two) = (knee(&points), knee(&other));
            prop_assert_eq!(one.is_some(), two.is_some());
            if let (Some(one), Some(two)) = (one, two) {
                prop_assert!((one.x * scale - two.x).abs() < 1e-9 * two.x && (one.distance - two.distance).abs() < 1e-9);
            }
        }
    }
}
