//! The cost of probing an engine, measured during a search: seconds of a request by its tokens, seconds of a start, and
//! the share of failures that kill the engine.

use serde::Serialize;

use crate::boundary::{Ahead, Expected, Point, Verdict};
use crate::pace::{Measured, Pace};

/// The cost of a probe, or of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Number of probes.
    pub probes: i64,
    /// Number of engine starts.
    pub starts: i64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Duration times the number of GPUs.
    pub gpu_seconds: f64,
    /// Whether the engine was started for this point alone, so that the next one needs a start in any case.
    #[serde(skip)]
    pub isolated: bool,
    /// The ids of the probes' answers in the journal, if they are known.
    #[serde(skip)]
    pub answers: Vec<u64>,
}

impl Spent {
    /// Adds another cost.
    pub fn add(&mut self, other: &Self) {
        self.probes += other.probes;
        self.starts += other.starts;
        self.seconds += other.seconds;
        self.gpu_seconds += other.gpu_seconds;
        self.isolated |= other.isolated;
        self.answers.extend(&other.answers);
    }
}

/// The costs of a search so far, and the estimates that follow from them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// Totals.
    pub total: Spent,
    /// Failures after which the engine had to be started.
    pub deaths: i64,
    failures: i64,
    /// Whether the last probe failed.
    failed: bool,
    /// Probes that needed no start and served their request, and their seconds.
    served: i64,
    serving: f64,
    /// Sums over them, by which a request's seconds are fitted.
    sums: Sums,
    /// The least seconds of them, and the most, failures included.
    shortest: f64,
    longest: f64,
    /// The seconds of each probe, for the time left.
    measured: Vec<Measured>,
    /// Probes that needed a start, and their seconds.
    started: i64,
    starting: f64,
}

/// Sums over requests: input and output are in tokens. They stay apart from `Pace`, which tells the time left: these
/// seconds rank the points to probe, so that another fit would change which are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    input_squared: f64,
    input_output: f64,
    output_squared: f64,
    seconds_input: f64,
    seconds_output: f64,
}

/// The tokens of a point's requests: all inputs, and one output, because requests decode together.
fn tokens(point: &Point) -> (f64, f64) {
    let length = |axis: &str, default: f64| point.0.get(axis).map_or(default, |value| value.as_f64());
    (length("input", 0.0) * length("concurrency", 1.0), length("output", 0.0))
}

impl Costs {
    /// Adds the verdict and the cost of a point.
    pub fn learn(&mut self, point: &Point, verdict: Verdict, spent: &Spent) {
        self.total.add(spent);
        // Nothing was sent, so that it says nothing of the engine.
        if verdict == Verdict::NotSent && spent.starts == 0 {
            return;
        }
        if self.failed && spent.starts > 0 && !spent.isolated {
            self.deaths += 1;
        }
        let (input, output) = tokens(point);
        // The engine may be gone after any other verdict.
        self.failed = !matches!(verdict, Verdict::Ok | Verdict::ShortOutput | Verdict::NotSent);
        self.failures += i64::from(self.failed);
        self.measured.push(Measured {
            starts: spent.starts as f64,
            tokens: (input, output),
            seconds: spent.seconds,
            failed: self.failed,
        });
        if spent.starts > 0 {
            self.started += 1;
            self.starting += spent.seconds;
        } else if self.failed {
            self.longest = self.longest.max(spent.seconds);
        } else {
            self.served += 1;
            self.shortest = if self.served == 1 {
                spent.seconds
            } else {
                self.shortest.min(spent.seconds)
            };
            self.longest = self.longest.max(spent.seconds);
            self.serving += spent.seconds;
            self.sums.input_squared += input * input;
            self.sums.input_output += input * output;
            self.sums.output_squared += output * output;
            self.sums.seconds_input += spent.seconds * input;
            self.sums.seconds_output += spent.seconds * output;
        }
    }

    /// Whether a request was served without a start, so that its seconds are known.
    #[must_use]
    pub fn has_served(&self) -> bool {
        self.served > 0
    }

    /// Mean seconds of a start; 0 if none was seen.
    #[must_use]
    pub fn start_seconds(&self) -> f64 {
        if self.total.starts == 0 {
            return 0.0;
        }
        let starting = self.starting - self.started as f64 * self.request_seconds();
        starting.max(0.0) / self.total.starts as f64
    }

    /// Mean seconds of a request without a start; 0 if none was seen.
    fn request_seconds(&self) -> f64 {
        if self.served == 0 {
            0.0
        } else {
            self.serving / self.served as f64
        }
    }

    /// Estimated seconds of the request of a point: a least-squares fit of seconds per input token and per output token to
    /// what was measured, or the mean if there are too few measurements or their lengths are too similar. It is never
    /// outside the seconds that were measured, because short requests do not tell what long ones take.
    #[must_use]
    pub fn seconds_of(&self, point: &Point) -> f64 {
        let (input, output) = tokens(point);
        self.by_tokens().map_or_else(
            || self.request_seconds(),
            |[per_input, per_output]| {
                let seconds = per_input * input + per_output * output;
                seconds.min(self.longest).max(self.shortest)
            },
        )
    }

    /// Seconds per input token and per output token.
    fn by_tokens(&self) -> Option<[f64; 2]> {
        let s = self.sums;
        let determinant = s.input_squared * s.output_squared - s.input_output * s.input_output;
        if self.served < 2 || determinant <= 1e-6 * s.input_squared * s.output_squared {
            return None;
        }
        let per_input = (s.seconds_input * s.output_squared - s.seconds_output * s.input_output) / determinant;
        let per_output = (s.seconds_output * s.input_squared - s.seconds_input * s.input_output) / determinant;
        (per_input >= 0.0 && per_output >= 0.0).then_some([per_input, per_output])
    }

    /// Expected seconds of probing a point that fits with probability `chance`: its request, and the start after a
    /// failure that kills the engine.
    #[must_use]
    pub fn expected(&self, point: &Point, chance: f64) -> f64 {
        let deadly = if self.failures == 0 {
            0.0
        } else {
            self.deaths as f64 / self.failures as f64
        };
        self.seconds_of(point) + (1.0 - chance) * deadly * self.start_seconds()
    }

    /// The share of failures that are expected to kill the engine; `down` and `survives` are as in `seconds_left`.
    #[must_use]
    pub fn deadly(&self, down: bool, survives: bool) -> f64 {
        // Only the next probe shows whether the last failure was deadly, unless the engine is known to run.
        let known = self.failures - i64::from(self.failed && down);
        match known {
            0 if survives => 0.0,
            0 => 1.0,
            _ => self.deaths as f64 / known as f64,
        }
    }

    /// Estimated seconds of the probes ahead; `None` before any probe, and after a single one with a start. `down` says
    /// that the next probe needs a start, and `survives` that the engine is expected to survive failures: as long
    /// as none was seen, they count as deadly otherwise.
    ///
    /// Of all ranges whose ends differ by `RANGE` times, it is the middle of the one that most likely holds the rest. A
    /// mean would often lie between one start more and one less.
    #[must_use]
    pub fn seconds_left(&self, ahead: &Ahead, down: bool, survives: bool) -> Option<f64> {
        if self.total.probes == 0 {
            return None;
        }
        if self.total.isolated {
            return Some(ahead.probes().max(0) as f64 * self.total.seconds / self.total.probes as f64);
        }
        if ahead.probes() <= 0 {
            return Some(0.0);
        }
        // One probe does not tell its start from its request.
        if self.measured.is_empty() || self.measured.len() < 2 && self.total.starts > 0 {
            return None;
        }
        let pace = Pace::of(&self.measured);
        let start = self.deadly(down, survives) * pace.start(self.total.starts);
        let near: f64 = ahead.near.iter().map(|(_, share)| share).sum();
        let mean = |seconds: &dyn Fn((f64, f64)) -> f64| {
            if near > 0.0 {
                let each = ahead.near.iter().map(|(point, share)| share * seconds(tokens(point)));
                each.sum::<f64>() / near
            } else {
                let each = self.measured.iter().map(|probe| seconds(probe.tokens));
                each.sum::<f64>() / self.measured.len() as f64
            }
        };
        let (fits, fails) = (mean(&|tokens| pace.fits(tokens)), mean(&|tokens| pace.fails(tokens)));
        let mut sure = if self.failed && down { start } else { 0.0 };
        for (point, outcome) in &ahead.points {
            sure += match outcome {
                Expected::Fits => pace.fits(tokens(point)),
                Expected::Fails => pace.fails(tokens(point)) + start,
                Expected::Refused => 0.0,
            };
        }
        let rests = ahead.chances().into_iter().map(|chance| {
            let seconds = (chance.probes - chance.failing) * fits + chance.failing * (fails + start);
            (sure + seconds, chance.weight)
        });
        Some(likeliest(rests.collect()))
    }
}

/// The ends of a range that is told differ by so many times.
const RANGE: f64 = 2.25;

/// The middle, in logarithms, of the range of values that is likeliest; each value comes with its weight.
fn likeliest(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut best, mut middle) = (0.0, 0.0);
    let (mut weight, mut next) = (0.0, 0);
    for &(low, own) in &values {
        while let Some((value, more)) = values.get(next).filter(|(value, _)| *value <= low * RANGE) {
            weight += more;
            if weight > best + 1e-9 {
                best = weight;
                middle = (low * value).sqrt();
            }
            next += 1;
        }
        weight -= own;
    }
    middle
}

/// A search before any limit agrees with its answers, as it usually is: medians on limits of engines' mechanisms
/// (`benches/foreign.rhai`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsualSearch {
    /// Probes in all.
    pub probes: i64,
    /// The share of the probes left that fail, those that confirm answers left out.
    pub failing: f64,
    /// How far the number of probes left is usually off, as a share of it.
    pub spread: f64,
}

impl UsualSearch {
    /// The usual search over one, two, or three and more axes.
    #[must_use]
    pub fn over(axes: usize) -> Self {
        let (probes, failing, spread) = match axes {
            0 | 1 => (11, 0.52, 0.15),
            2 => (22, 0.4, 0.3),
            _ => (43, 0.35, 0.3),
        };
        Self {
            probes,
            failing,
            spread,
        }
    }

    /// A number of unknown probes of such a search.
    #[must_use]
    pub fn ahead(self, probes: i64) -> Ahead {
        Ahead::of(probes.max(0) as f64, self.failing, self.spread)
    }

    /// How many probes are usually left after so many, of at most `budget`. If no limit agrees with the answers
    /// (`classified`), or not after more than usual, the search goes on until its budget is spent, or its coverage is proven
    /// after `covered` probes in all: for `LEAST` probes at least, if the budget allows.
    #[must_use]
    pub fn left(self, probes: i64, budget: i64, covered: Option<i64>, classified: bool) -> i64 {
        let rest = budget.saturating_sub(probes).max(0);
        match (self.probes - probes, covered) {
            (left, _) if left >= LEAST && !classified => left.min(rest),
            (_, Some(covered)) => (covered - probes).max(LEAST).min(rest),
            (left, None) if budget == i64::MAX => left.max(LEAST),
            _ => rest,
        }
    }
}

/// The least number of probes that a search without a limit is expected to take yet.
const LEAST: i64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spent(starts: i64, seconds: f64) -> Spent {
        Spent {
            probes: 1,
            starts,
            seconds,
            ..Spent::default()
        }
    }

    fn point(input: i64, output: i64) -> Point {
        Point::default().with("input", input).with("output", output)
    }

    #[test]
    fn a_start_takes_what_its_probe_took_beyond_a_request() {
        let mut costs = Costs::default();
        costs.learn(&point(10, 1), Verdict::Oom, &spent(1, 62.0));
        costs.learn(&point(5, 1), Verdict::Ok, &spent(1, 62.0));
        costs.learn(&point(4, 1), Verdict::Ok, &spent(0, 2.0));
        assert_eq!((costs.start_seconds(), costs.deaths), (60.0, 1));
        assert_eq!(
            costs.expected(&point(8, 1), 0.5),
            32.0,
            "half of the probes kill the engine"
        );
        let left = costs.seconds_left(&Ahead::of(2.0, 0.5, 0.0), false, false).unwrap();
        assert!(
            left / 1.5 <= 64.0 && 124.0 <= left * 1.5,
            "the range around {left} holds one failure and two, which both cost a start"
        );
    }

    #[test]
    fn a_point_that_was_not_sent_hides_no_death() {
        let mut costs = Costs::default();
        costs.learn(&point(5, 1), Verdict::Ok, &spent(1, 62.0));
        costs.learn(&point(10, 1), Verdict::Oom, &spent(0, 2.0));
        costs.learn(&point(20, 1), Verdict::NotSent, &spent(0, 0.0));
        costs.learn(&point(6, 1), Verdict::Ok, &spent(1, 62.0));
        assert_eq!(costs.deaths, 1);
    }

    #[test]
    fn only_probes_that_are_left_take_time() {
        let mut costs = Costs::default();
        costs.learn(&point(5, 1), Verdict::Ok, &spent(1, 62.0));
        assert_eq!(
            costs.seconds_left(&Ahead::of(4.0, 0.0, 0.0), false, true),
            None,
            "no request's seconds are known"
        );
        costs.learn(&point(6, 1), Verdict::Ok, &spent(0, 2.0));
        costs.learn(&point(10, 1), Verdict::Oom, &spent(0, 2.0));
        let left = Ahead::of(40.0, 0.5, 0.0).at_most(3);
        assert_eq!(
            (left.probes(), costs.seconds_left(&left.at_most(0), false, false)),
            (3, Some(0.0))
        );
    }

    proptest! {
        /// Requests whose time is linear in their tokens are predicted exactly.
        #[test]
        fn linear_times_are_found(
            per_input in 1e-5_f64..0.01, per_output in 1e-4_f64..0.1,
            mut lengths in prop::collection::vec((1_i64..100_000, 1_i64..4096), 0..20),
            asked in (1_i64..100_000, 1_i64..4096),
        ) {
            // Lengths that tell the two apart, the shortest, and the longest.
            lengths.extend([(1, 1), (100_000, 1), (1, 4096), (100_000, 4096)]);
            let time = |(input, output): (i64, i64)| per_input * input as f64 + per_output * output as f64;
            let mut costs = Costs::default();
            for &(input, output) in &lengths {
                costs.learn(&point(input, output), Verdict::Ok, &spent(0, time((input, output))));
            }
            let found = costs.seconds_of(&point(asked.0, asked.1));
            prop_assert!((found - time(asked)).abs() <= 1e-4 * time(asked), "{found} {}", time(asked));
        }
    }
}
