//! The plan of a load: when requests are due, how long they are, and when to stop. Pure.
//!
//! [`Arrivals`] determines the due times, [`Length`] the lengths, [`Warmup`] the unmeasured part, [`Stop`] the end.
//! [`Schedule`] combines the first two into a sequence of [`PlannedRequest`]s; [`LoadProgress`] tracks a running load and
//! decides what comes next. The same seed yields the same requests on every machine. Nothing here depends on sockets,
//! clocks or engines.

mod arrivals;
mod files;
mod length;
mod progress;
mod rng;

use std::sync::Arc;
use std::time::Duration;

use arrivals::ArrivalClock;
pub use arrivals::{Arrivals, Pattern, RateProfile};
pub use files::{Arrival, FilePrompt, Trace, read_prompts, read_trace};
pub use length::{Distribution, Length, LognormalLength, NormalLength};
pub use progress::{EndReason, LatencyMetric, LoadProgress, Precision, Statistic};
use rand_chacha::ChaCha8Rng;
use rng::{Purpose, rng};

/// The plan of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPlan {
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// Lengths of prompts and answers.
    pub sizes: Sizes,
    /// Which requests are not measured.
    pub warmup: Warmup,
    /// When the load ends.
    pub stop: Stop,
}

/// Stop conditions, counted from the end of the warm-up. The first one met ends the load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stop {
    /// Number of requests; those in flight may finish.
    pub requests: Option<u64>,
    /// Duration; unfinished requests are cut off.
    pub duration: Option<Duration>,
    /// Precision of a metric; requests in flight may finish.
    pub precision: Option<Precision>,
}

/// The warm-up before the measured part. Nothing is drained between the two: requests run across the boundary, and
/// those issued before it are not measured, whenever they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// The first requests, by number.
    Requests(u64),
    /// Requests issued within this time.
    Time(Duration),
}

impl Warmup {
    /// No warm-up.
    pub const NONE: Self = Self::Requests(0);

    /// Whether the request after `before` others belongs to the warm-up. `at` is when it is due, or when it was issued
    /// if it was due as soon as a slot was free.
    pub fn covers(&self, before: u64, at: Duration) -> bool {
        match self {
            Self::Requests(requests) => before < *requests,
            Self::Time(time) => at < *time,
        }
    }
}

/// Lengths of a load's requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Random, prompts and answers independently.
    Random {
        /// Prompt length.
        input: Length,
        /// Answer length.
        output: Length,
    },
    /// The lengths of a trace or a prompt file, in turn.
    Listed {
        /// Tokens of each prompt (0 if not counted), and of its answer if the file states it.
        requests: Vec<(u64, Option<u64>)>,
        /// Answer length if the file states none.
        output: Length,
    },
}

impl Sizes {
    /// The lengths of a trace.
    pub fn of_trace(trace: &[Arrival]) -> Self {
        let requests = trace.iter().map(|arrival| (arrival.input, Some(arrival.output)));
        Self::Listed {
            requests: requests.collect(),
            output: Length::Fixed(1),
        }
    }

    /// The maximum possible input, output, and sum of both.
    pub fn largest(&self) -> (u64, u64, u64) {
        match self {
            Self::Random { input, output } => {
                let (input, output) = (input.bounds().1, output.bounds().1);
                (input, output, input.saturating_add(output))
            }
            Self::Listed { requests, output } => {
                let longest = output.bounds().1;
                let each = requests
                    .iter()
                    .map(|(input, output)| (*input, output.unwrap_or(longest)));
                each.fold((0, 0, 0), |(input, output, total), (i, o)| {
                    (input.max(i), output.max(o), total.max(i.saturating_add(o)))
                })
            }
        }
    }

    /// The mean input, if the lengths of a distribution lie evenly between its bounds.
    pub fn mean(&self) -> u64 {
        match self {
            Self::Random { input, .. } => {
                let (shortest, longest) = input.bounds();
                shortest.midpoint(longest)
            }
            Self::Listed { requests, .. } => {
                let all = requests
                    .iter()
                    .fold(0_u64, |all, (input, _)| all.saturating_add(*input));
                all / (requests.len() as u64).max(1)
            }
        }
    }

    /// The minimum possible input.
    pub fn shortest(&self) -> u64 {
        match self {
            Self::Random { input, .. } => input.bounds().0,
            Self::Listed { requests, .. } => requests.iter().map(|(input, _)| *input).min().unwrap_or(0),
        }
    }
}

/// One planned request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Index from 0.
    pub index: u64,
    /// When it is due; `None`: as soon as a slot is free.
    pub due: Option<Duration>,
    /// Prompt tokens.
    pub input: u64,
    /// Requested output tokens.
    pub output: u64,
    /// Its index among the listed requests.
    pub listed: Option<usize>,
}

/// Iterates over the requests of a load; endless unless the arrivals end.
pub struct Schedule {
    plan: Arc<LoadPlan>,
    clock: ArrivalClock,
    inputs: ChaCha8Rng,
    outputs: ChaCha8Rng,
    /// Index of the first of the listed requests to use.
    offset: usize,
    next: u64,
}

impl Schedule {
    /// Creates the requests of a plan for a seed, starting with number `offset` of the listed requests.
    pub fn new(plan: Arc<LoadPlan>, seed: u64, offset: usize) -> Self {
        Self {
            clock: ArrivalClock::new(seed),
            inputs: rng(seed, Purpose::Inputs),
            outputs: rng(seed, Purpose::Outputs),
            plan,
            offset,
            next: 0,
        }
    }
}

impl Iterator for Schedule {
    type Item = PlannedRequest;

    fn next(&mut self) -> Option<PlannedRequest> {
        let arrivals = &self.plan.arrivals;
        let due = self.clock.next(arrivals)?;
        let index = self.next;
        let place = usize::try_from(index).ok()?;
        self.next += 1;
        let (input, output, listed) = match &self.plan.sizes {
            Sizes::Random { input, output } => (input.draw(&mut self.inputs), output.draw(&mut self.outputs), None),
            Sizes::Listed { requests, output } => {
                let number = (self.offset.checked_rem(requests.len())? + place) % requests.len();
                let (tokens, wanted) = requests[number];
                let drawn = output.draw(&mut self.outputs);
                (tokens, wanted.unwrap_or(drawn), Some(number))
            }
        };
        Some(PlannedRequest {
            index,
            due,
            input,
            output,
            listed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use super::{Pattern, RateProfile, read_trace};

    const FIXED: Sizes = Sizes::Random {
        input: Length::Fixed(10),
        output: Length::Fixed(2),
    };

    fn open(rate: f64, pattern: Pattern) -> Arrivals {
        Arrivals::Open {
            profile: RateProfile::constant(rate).unwrap(),
            pattern,
        }
    }

    fn schedule(arrivals: &Arrivals, sizes: &Sizes, seed: u64, offset: usize) -> Schedule {
        let plan = LoadPlan {
            arrivals: arrivals.clone(),
            sizes: sizes.clone(),
            warmup: super::Warmup::NONE,
            stop: super::Stop::default(),
        };
        Schedule::new(Arc::new(plan), seed, offset)
    }

    fn due(arrivals: &Arrivals, seed: u64, count: usize) -> Vec<f64> {
        let requests = schedule(arrivals, &FIXED, seed, 0).take(count);
        requests.map(|request| request.due.unwrap().as_secs_f64()).collect()
    }

    /// Kolmogorov's statistic: the largest difference between the empirical and the expected distribution.
    fn distance(mut gaps: Vec<f64>, share: impl Fn(f64) -> f64) -> f64 {
        gaps.sort_unstable_by(f64::total_cmp);
        let count = gaps.len() as f64;
        gaps.iter()
            .enumerate()
            .map(|(rank, gap)| {
                let wanted = share(*gap);
                (wanted - rank as f64 / count)
                    .abs()
                    .max((wanted - (rank + 1) as f64 / count).abs())
            })
            .fold(0.0, f64::max)
    }

    fn gaps(moments: &[f64]) -> Vec<f64> {
        moments.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn constant_rate_is_even_from_the_start() {
        assert_eq!(due(&open(4.0, Pattern::Constant), 1, 4), [0.0, 0.25, 0.5, 0.75]);
    }

    #[test]
    fn gaps_of_a_poisson_process_are_exponential() {
        let moments = due(&open(20.0, Pattern::POISSON), 11, 4001);
        let far = distance(gaps(&moments), |gap| 1.0 - (-20.0 * gap).exp());
        // The 1 % point of Kolmogorov's statistic for 4000 values is 1.63 / √4000.
        assert!(far < 1.63 / 4000_f64.sqrt(), "{far}");
    }

    #[test]
    fn burstiness_is_the_shape_and_keeps_the_mean() {
        for (burstiness, seed) in [(0.5, 1), (4.0, 2)] {
            let gaps = gaps(&due(&open(10.0, Pattern::gamma(burstiness).unwrap()), seed, 20_001));
            let count = gaps.len() as f64;
            let mean = gaps.iter().sum::<f64>() / count;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
            // The shape of a gamma distribution is mean² / variance.
            assert!((0.097..0.103).contains(&mean), "{burstiness}: mean {mean}");
            let shape = mean * mean / variance;
            assert!((0.94..1.06).contains(&(shape / burstiness)), "{burstiness}: {shape}");
        }
        // Shape 2 has a closed form.
        let gaps = gaps(&due(&open(1.0, Pattern::gamma(2.0).unwrap()), 3, 4001));
        let far = distance(gaps, |gap| 1.0 - (-2.0 * gap).exp() * (1.0 + 2.0 * gap));
        assert!(far < 1.63 / 4000_f64.sqrt(), "{far}");
    }

    #[test]
    fn rate_steps_have_the_expected_number_of_arrivals() {
        let time = Duration::from_secs(100);
        let arrivals = Arrivals::Open {
            profile: RateProfile::steps([(10.0, time), (0.0, time), (40.0, time)]).unwrap(),
            pattern: Pattern::POISSON,
        };
        let moments = due(&arrivals, 5, usize::MAX);
        let within = |from: f64, to: f64| moments.iter().filter(|at| (from..to).contains(*at)).count() as f64;
        // Within four standard deviations of a Poisson count.
        assert!((within(0.0, 100.0) - 1000.0).abs() < 4.0 * 1000_f64.sqrt());
        assert_eq!(within(100.0, 200.0), 0.0);
        assert!((within(200.0, 300.0) - 4000.0).abs() < 4.0 * 4000_f64.sqrt());
    }

    #[test]
    fn only_the_seed_matters() {
        let arrivals = open(5.0, Pattern::POISSON);
        assert_eq!(due(&arrivals, 1, 50), due(&arrivals, 1, 50));
        assert_ne!(due(&arrivals, 1, 50), due(&arrivals, 2, 50));
        let sizes = Sizes::Random {
            input: Length::Random(super::Distribution::Uniform(1, 1000)),
            output: Length::Fixed(3),
        };
        let inputs = |arrivals: &Arrivals| -> Vec<u64> {
            let requests = schedule(arrivals, &sizes, 9, 0).take(50);
            requests.map(|request| request.input).collect()
        };
        // Lengths do not change with the arrivals.
        assert_eq!(inputs(&arrivals), inputs(&open(7.0, Pattern::Constant)));
    }

    #[test]
    fn trace_is_replayed_and_ends() {
        let text = "{\"at\": 1, \"input\": 7, \"output\": 3}\n{\"at\": 3, \"input\": 9, \"output\": 1}";
        let trace = read_trace(text).unwrap().arrivals;
        let sizes = Sizes::of_trace(&trace);
        let requests: Vec<_> = schedule(&Arrivals::Replay(trace), &sizes, 1, 0).collect();
        let plain = |request: &PlannedRequest| (request.due.unwrap().as_secs(), request.input, request.output);
        assert_eq!(requests.iter().map(plain).collect::<Vec<_>>(), [(0, 7, 3), (2, 9, 1)]);
        assert_eq!(sizes.largest(), (9, 3, 10));
    }

    #[test]
    fn file_prompts_are_used_in_turn() {
        let sizes = Sizes::Listed {
            requests: vec![(5, None), (6, Some(2)), (7, None)],
            output: Length::Fixed(9),
        };
        let arrivals = Arrivals::Closed {
            concurrency: 1,
            ramp: Duration::ZERO,
        };
        let requests = schedule(&arrivals, &sizes, 1, 2).take(4);
        let got: Vec<_> = requests
            .map(|request| (request.listed.unwrap(), request.input, request.output))
            .collect();
        assert_eq!(got, [(2, 7, 9), (0, 5, 9), (1, 6, 2), (2, 7, 9)]);
    }
}
