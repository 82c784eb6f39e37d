//! A closed load on the scheduler of the simulated engine, in model time (pure): thousands of loads take seconds.
//!
//! In a closed loop the order of steps does not depend on how long they take. So an answer has, besides latencies at
//! the given cost, the counts from which they follow: a cost can be fitted to measurements by linear equations.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Timing;
use super::memory::BlockPool;
use super::scheduler::{KvAllocation, KvStore, Scheduler, SequenceEvent, SequenceRequest};
use crate::fault::{Fault, Result};
use crate::load::plan::Length;

/// More steps than any load that is worth forecasting takes.
const MAX_STEPS: u64 = 1_000_000;

/// Least requests that are measured: fewer have no 95th percentile.
const MIN_REQUESTS: u64 = 96;

/// The number of terms of a step's cost.
const TERMS: usize = 4;

/// Seconds of a step: a constant, and for each decoding sequence, prompt token and token read from the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepCost {
    /// Every step.
    pub step: f64,
    /// Each decoding sequence.
    pub decode: f64,
    /// Each prompt token.
    pub prefill: f64,
    /// Each token in the KV cache of the scheduled sequences.
    pub kv: f64,
}

/// A closed load, and the engine that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForecastLoad {
    /// Concurrent requests.
    pub concurrency: u64,
    /// Length of prompts.
    pub input: Length,
    /// Length of answers.
    pub output: Length,
    /// Most sequences in a step.
    pub max_num_seqs: u64,
    /// Most tokens of a step.
    pub max_num_batched_tokens: u64,
    /// Whether prompts are computed in chunks, beside decodes.
    #[serde(default = "yes")]
    pub chunked_prefill: bool,
    /// Tokens that the KV cache holds.
    pub kv_tokens: u64,
    /// Tokens of a block of it.
    #[serde(default = "block")]
    pub block_tokens: u64,
    /// The percentile of latencies, 0 to 1.
    #[serde(default = "percentile")]
    pub percentile: f64,
    /// Cost of steps.
    pub cost: StepCost,
}

fn yes() -> bool {
    true
}

fn block() -> u64 {
    16
}

fn percentile() -> f64 {
    0.95
}

/// Counts on which a time depends linearly, in the order of [`StepCost`].
type Counts = [f64; TERMS];

/// The forecast of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Forecast {
    /// Output tokens per second.
    pub output_throughput: f64,
    /// Percentile of TTFT.
    pub ttft_ms: f64,
    /// Percentile of TPOT.
    pub tpot_ms: f64,
    /// Percentile of E2E latency.
    pub e2el_ms: f64,
    /// Preemptions.
    pub preemptions: u64,
    /// Highest use of the KV cache, 0 to 1.
    pub kv_usage: f64,
    /// Counts for each output token.
    pub per_token: Counts,
    /// Counts that add up to the mean TPOT.
    pub per_tpot: Counts,
    /// Counts that add up to the mean TTFT.
    pub per_ttft: Counts,
}

/// The counts that a request saw: at its arrival and at its first token.
#[derive(Clone, Copy, Default)]
struct Seen {
    output: u64,
    arrived: Counts,
    first: Option<Counts>,
}

impl ForecastLoad {
    /// Runs the load. The first `concurrency` requests warm up and do not count.
    ///
    /// # Errors
    ///
    /// `usage` for a length or a size that no engine has.
    pub fn run(&self) -> Result<Forecast> {
        self.check()?;
        let store = KvStore::Pool(
            BlockPool::new(self.kv_tokens / self.block_tokens, self.block_tokens),
            KvAllocation::Grow,
        );
        let mut scheduler = Scheduler::new(
            store,
            Timing::FREE,
            false,
            self.max_num_seqs,
            self.max_num_batched_tokens,
        );
        scheduler.set_chunked(self.chunked_prefill);
        let mut lengths = ChaCha8Rng::seed_from_u64(1);
        let mut seen: Vec<Seen> = Vec::new();
        let mut send = |scheduler: &mut Scheduler, seen: &mut Vec<Seen>, arrived: Counts| {
            let (input, output) = (self.input.draw(&mut lengths), self.output.draw(&mut lengths));
            let id = seen.len() as u64;
            scheduler.submit(SequenceRequest {
                id,
                rows: 1,
                input,
                output,
                cached: 0,
            });
            seen.push(Seen {
                output,
                arrived,
                first: None,
            });
        };
        for _ in 0..self.concurrency {
            send(&mut scheduler, &mut seen, [0.0; TERMS]);
        }
        let skipped = self.concurrency;
        let wanted = (2 * self.concurrency).max(MIN_REQUESTS);
        let (mut now, mut ended, mut steps) = ([0.0; TERMS], 0, 0);
        let (mut began, mut tokens, mut usage) = (now, 0.0, 0.0_f64);
        let (mut times, mut tpot, mut ttft) = (Times::default(), [0.0; TERMS], [0.0; TERMS]);
        // A client sends its next request when it has the answer: the step after that has begun by then.
        let mut due: Vec<Counts> = Vec::new();
        while ended < skipped + wanted {
            steps += 1;
            let Some(step) = scheduler.step().filter(|_| steps < MAX_STEPS) else {
                break;
            };
            let work = step.work;
            now = add(
                now,
                [1.0, work.decodes as f64, work.prefill as f64, work.kv as f64],
                1.0,
            );
            usage = usage.max(scheduler.take_peaks().usage.unwrap_or_default());
            for arrived in std::mem::take(&mut due) {
                send(&mut scheduler, &mut seen, arrived);
            }
            for (id, event) in step.events {
                let one = &mut seen[id as usize];
                let first = *one.first.get_or_insert(now);
                tokens += 1.0;
                if event != SequenceEvent::Last {
                    continue;
                }
                ended += 1;
                due.push(now);
                if ended == skipped {
                    (began, tokens) = (now, 0.0);
                }
                if ended > skipped {
                    let (waited, decoded) = (add(first, one.arrived, -1.0), add(now, first, -1.0));
                    let each = 1.0 / one.output.saturating_sub(1).max(1) as f64;
                    times.push(self.cost.of(waited), self.cost.of(decoded), each);
                    ttft = add(ttft, waited, 1.0);
                    tpot = add(tpot, decoded, each);
                }
            }
            if scheduler.gauges().running + scheduler.gauges().waiting == 0 {
                for arrived in std::mem::take(&mut due) {
                    send(&mut scheduler, &mut seen, arrived);
                }
            }
        }
        let measured = times.ttft.len() as f64;
        if measured == 0.0 || tokens == 0.0 {
            return Ok(Forecast::default());
        }
        let spent = add(now, began, -1.0);
        Ok(Forecast {
            output_throughput: tokens / self.cost.of(spent),
            ttft_ms: 1e3 * quantile(&mut times.ttft, self.percentile),
            tpot_ms: 1e3 * quantile(&mut times.tpot, self.percentile),
            e2el_ms: 1e3 * quantile(&mut times.e2el, self.percentile),
            preemptions: scheduler.counters().preemptions,
            kv_usage: usage,
            per_token: spent.map(|count| count / tokens),
            per_tpot: tpot.map(|count| count / measured),
            per_ttft: ttft.map(|count| count / measured),
        })
    }

    fn check(&self) -> Result<()> {
        self.input.check("input")?;
        self.output.check("output")?;
        let sizes = [
            ("concurrency", self.concurrency),
            ("max_num_seqs", self.max_num_seqs),
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("block_tokens", self.block_tokens),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0 || *size > u64::from(u32::MAX)) {
            return Err(
                Fault::usage(format!("option `{name}` is outside of what an engine has")).hint("give 1 or more"),
            );
        }
        let longest = self.input.bounds().1 + self.output.bounds().1;
        if self.kv_tokens < longest + self.block_tokens {
            return Err(Fault::usage(format!(
                "option `kv_tokens` is {}, and one request has up to {longest} tokens",
                self.kv_tokens
            ))
            .hint("an engine with so small a cache refuses it; forecast only what is served"));
        }
        Ok(())
    }
}

impl StepCost {
    fn of(&self, counts: Counts) -> f64 {
        counts[0] * self.step + counts[1] * self.decode + counts[2] * self.prefill + counts[3] * self.kv
    }
}

/// Seconds of each request.
#[derive(Default)]
struct Times {
    ttft: Vec<f64>,
    tpot: Vec<f64>,
    e2el: Vec<f64>,
}

impl Times {
    fn push(&mut self, waited: f64, decoded: f64, each: f64) {
        self.ttft.push(waited);
        self.tpot.push(decoded * each);
        self.e2el.push(waited + decoded);
    }
}

fn add(mut to: Counts, what: Counts, factor: f64) -> Counts {
    for (sum, count) in to.iter_mut().zip(what) {
        *sum += factor * count;
    }
    to
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load(concurrency: u64, chunked_prefill: bool, kv_tokens: u64) -> ForecastLoad {
        ForecastLoad {
            concurrency,
            input: Length::Fixed(100),
            output: Length::Fixed(50),
            max_num_seqs: 64,
            max_num_batched_tokens: 512,
            chunked_prefill,
            kv_tokens,
            block_tokens: 16,
            percentile: 0.95,
            cost: StepCost {
                step: 0.01,
                decode: 0.0001,
                prefill: 0.00001,
                kv: 1e-8,
            },
        }
    }

    #[test]
    fn one_request_takes_one_step_for_each_token() {
        let seen = load(1, true, 10_000).run().unwrap();
        let decode = 0.01 + 0.0001 + 125.0 * 1e-8;
        assert!((seen.tpot_ms / 1e3 - decode).abs() < 1e-5, "{seen:?}");
        assert!(
            (seen.ttft_ms / 1e3 - (0.01 + 0.001 + 100.0 * 1e-8)).abs() < 1e-9,
            "{seen:?}"
        );
        assert!((seen.per_tpot[0] - 1.0).abs() < 1e-9, "{seen:?}");
    }

    #[test]
    fn whole_prompts_hold_up_decodes_and_a_small_cache_preempts() {
        let chunked = load(32, true, 100_000).run().unwrap();
        let whole = load(32, false, 100_000).run().unwrap();
        assert!(
            whole.per_tpot[0] > 1.05 && chunked.per_tpot[0] < 1.001,
            "{whole:?} {chunked:?}"
        );
        assert!(load(32, true, 1_600).run().unwrap().preemptions > 0);
        assert!(load(32, true, 100).run().is_err());
    }

    proptest! {
        #[test]
        fn latencies_follow_from_the_counts(concurrency in 1_u64..40, chunked: bool, kv in 400_u64..20_000, scale in 0.1_f64..10.0) {
            let one = load(concurrency, chunked, kv);
            let seen = one.run().unwrap();
            prop_assert!((1.0 / seen.output_throughput - one.cost.of(seen.per_token)).abs() < 1e-9);
            let cost = one.cost;
            let slower = ForecastLoad {
                cost: StepCost { step: cost.step * scale, decode: cost.decode * scale, prefill: cost.prefill * scale, kv: cost.kv * scale },
                ..one
            };
            let scaled = slower.run().unwrap();
            prop_assert!((scaled.ttft_ms - scale * seen.ttft_ms).abs() < 1e-6 * scaled.ttft_ms);
            prop_assert!(seen.kv_usage <= 1.0);
        }
    }
}
