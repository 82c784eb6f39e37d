//! What a load did to its engine and its devices, in figures over the measured window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::curve::Curve;
use super::energy::PowerOver;
use super::level::Level;
use super::seen::{Look, Seen, State};
use super::timeline::share;
use crate::load::Record;

/// A request more is growth of a queue.
const REQUEST: f64 = 1.0;

/// A hundredth of the KV cache more is growth of its use.
const HUNDREDTH: f64 = 0.01;

/// What was seen beside a load, over its window; `None` where nobody could tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// KV cache in use, 0 to 1.
    pub kv_usage: Option<Level>,
    /// Requests that the engine served.
    pub running: Option<Level>,
    /// Requests that waited in the engine.
    pub waiting: Option<Level>,
    /// Requests sent and not ended, by the client: known of every engine.
    pub in_flight: Option<Level>,
    /// Preemptions in the window; of an engine that tells only how many sequences are out of its cache, the most at a time.
    pub preemptions: Option<u64>,
    /// Share found in the prefix cache of what was looked up there in the window.
    pub prefix_hits: Option<f64>,
    /// Memory.
    pub memory: Option<MemoryOver>,
    /// Power of the devices.
    pub power: Option<PowerOver>,
    /// Energy of all devices together in the window, in watt hours; idle power is part of it.
    pub energy_wh: Option<f64>,
    /// What the engine counted from the first look to the last, warm-up included.
    pub counted: Counted,
    /// How the looking went.
    pub timeline: Looking,
}

/// Memory over a window, in bytes. Engines that allocate their KV cache when they start hold the same whatever they serve: what of the pool
/// was in use is told apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryOver {
    /// `nvml`, `amd`, `host` or `sim`: what was looked at; `None` where nothing was.
    pub source: Option<String>,
    /// The most in use on all devices together.
    pub peak: Option<u64>,
    /// Weighted by time.
    pub mean: Option<f64>,
    /// Tokens that the KV cache holds, as the engine tells.
    pub pool_tokens: Option<u64>,
    /// Bytes of it, as the engine tells.
    pub pool_bytes: Option<u64>,
    /// Tokens of it in use: the share in use of those it holds.
    pub used_tokens: Option<Level>,
    /// Bytes of it in use.
    pub used_bytes: Option<Level>,
}

/// What an engine counted meanwhile; `None` where it does not count, was started again, or did not answer at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Tokens of prompts.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub generated_tokens: Option<u64>,
    /// Requests that ended, by how they did.
    pub finished: BTreeMap<String, u64>,
}

/// How the looking at the engine's metrics page went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Looking {
    /// The file of the time line in the run's folder; `None` where the run leaves none.
    pub file: Option<String>,
    /// Looks wanted in a second.
    pub hz: f64,
    /// Looks that were answered.
    pub looks: u64,
    /// Looks that were not: gaps in what is known.
    pub missed: u64,
    /// The longest time between question and answer, in milliseconds.
    pub slowest_ms: Option<f64>,
    /// The longest time between two answers within the window, in seconds.
    pub longest_gap: Option<f64>,
}

impl Joined {
    /// Over the window between two times, in seconds since the load's clock began.
    #[must_use]
    pub fn of(seen: &Seen, records: &[Record], from: f64, to: f64) -> Self {
        let gauge = |figure: &dyn Fn(&State) -> Option<f64>| {
            Curve::of(
                seen.looks
                    .iter()
                    .map(|look| (look.at, look.state.as_ref().and_then(figure))),
            )
        };
        let level = |figure: &dyn Fn(&State) -> Option<f64>, step| Level::of(&gauge(figure), from, to, step);
        let count = |count: Option<u64>| count.map(|count| count as f64);
        let kv_usage = level(&|state| state.kv_usage, HUNDREDTH);
        let power = PowerOver::of(&seen.power, from, to);
        let gained = |count: fn(&State) -> Option<u64>| gained(&seen.looks, count, from, to);
        let most_paused = || level(&|state| count(state.paused), REQUEST).map(|paused| paused.max);
        let queries = gained(|state| state.prefix_queries).filter(|queries| *queries > 0);
        Self {
            running: level(&|state| count(state.running), REQUEST),
            waiting: level(&|state| count(state.waiting), REQUEST),
            in_flight: Level::of(&in_flight(records), from, to, REQUEST),
            preemptions: gained(|state| state.preemptions).or_else(|| most_paused().map(whole)),
            prefix_hits: queries
                .zip(gained(|state| state.prefix_hits))
                .map(|(queries, hits)| share(hits, queries)),
            memory: MemoryOver::of(seen, kv_usage, from, to),
            kv_usage,
            energy_wh: power.as_ref().map(PowerOver::energy_wh),
            power,
            counted: Counted::of(seen),
            timeline: Looking::of(seen, from, to),
        }
    }
}

impl MemoryOver {
    fn of(seen: &Seen, kv_usage: Option<Level>, from: f64, to: f64) -> Option<Self> {
        let here = || seen.memory.iter().filter(|used| used.to >= from && used.from <= to);
        // Between two looks memory is what the look before saw.
        let next = seen.memory.partition_point(|used| used.from <= from);
        let before = next.checked_sub(1).map(|before| seen.memory[before].bytes);
        let ends = seen
            .memory
            .iter()
            .flat_map(|used| [(used.from, used.bytes), (used.to, used.bytes)]);
        let curve = Curve::of(ends.map(|(at, bytes)| (at, Some(bytes as f64))));
        let used = |whole: Option<u64>| Some(kv_usage?.times(whole? as f64));
        let memory = Self {
            source: seen.source.clone(),
            peak: here().map(|used| used.bytes).chain(before).max(),
            mean: curve.within(from, to).mean(),
            pool_tokens: seen.kv_tokens,
            pool_bytes: seen.kv_bytes,
            used_tokens: used(seen.kv_tokens),
            used_bytes: used(seen.kv_bytes),
        };
        (memory != Self::default()).then_some(memory)
    }
}

impl Counted {
    fn of(seen: &Seen) -> Self {
        let mut states = seen.looks.iter().filter_map(|look| look.state.as_ref());
        let Some(first) = states.next() else {
            return Self::default();
        };
        // What ended since the last answer is counted nowhere: of an engine that died, no count is that of the load.
        if seen.looks.last().is_some_and(|look| look.state.is_none()) {
            return Self::default();
        }
        let last = states.next_back().unwrap_or(first);
        let gained = |count: fn(&State) -> Option<u64>| count(last)?.checked_sub(count(first)?);
        // What had not happened yet when it was first looked at need not have been on the page.
        let since = |how: &String| first.finished.get(how).copied().unwrap_or_default();
        let finished = last.finished.iter();
        Self {
            prompt_tokens: gained(|state| state.prompt_tokens),
            generated_tokens: gained(|state| state.generated_tokens),
            finished: finished
                .filter_map(|(how, count)| Some((how.clone(), count.checked_sub(since(how))?)))
                .collect(),
        }
    }
}

impl Looking {
    fn of(seen: &Seen, from: f64, to: f64) -> Self {
        let answered = || seen.looks.iter().filter(|look| look.state.is_some());
        let answers = || answered().map(|look| look.at).filter(|at| *at >= from && *at <= to);
        let edges = [from].into_iter().chain(answers()).zip(answers().chain([to]));
        Self {
            file: None,
            hz: seen.hz,
            looks: answered().count() as u64,
            missed: seen.looks.iter().filter(|look| look.state.is_none()).count() as u64,
            slowest_ms: seen
                .looks
                .iter()
                .map(|look| (look.at - look.asked) * 1e3)
                .reduce(f64::max),
            longest_gap: answered()
                .next()
                .and_then(|_| edges.map(|(one, next)| next - one).reduce(f64::max)),
        }
    }
}

/// What a counter gained in a window: from the last answer before it to the first one that was asked for after it.
fn gained(looks: &[Look], count: fn(&State) -> Option<u64>, from: f64, to: f64) -> Option<u64> {
    let counts: Vec<(f64, f64, u64)> = looks
        .iter()
        .filter_map(|look| Some((look.asked, look.at, count(look.state.as_ref()?)?)))
        .collect();
    let before = counts.iter().rev().find(|(_, at, _)| *at <= from).or(counts.first())?;
    let after = counts.iter().find(|(asked, ..)| *asked >= to).or(counts.last())?;
    // An engine that was started again counts anew.
    after.2.checked_sub(before.2)
}

/// Requests sent and not ended over time.
fn in_flight(records: &[Record]) -> Curve {
    let sent = records.iter().map(|record| (record.sent.as_secs_f64(), 1.0));
    let ended = records.iter().map(|record| (record.ended.as_secs_f64(), -1.0));
    let mut steps: Vec<(f64, f64)> = sent.chain(ended).collect();
    // At one moment the one that ends makes room for the one that is sent.
    steps.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut under_way = 0.0;
    let ends = steps.into_iter().flat_map(|(at, step)| {
        let before = under_way;
        under_way += step;
        [(at, Some(before)), (at, Some(under_way))]
    });
    Curve::of(ends)
}

fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::joined::Used;

    fn look(at: f64, state: Option<State>) -> Look {
        Look {
            asked: at - 0.01,
            at,
            state,
        }
    }

    fn counting(preemptions: u64, queries: u64, hits: u64) -> Option<State> {
        Some(State {
            running: Some(4),
            waiting: Some(2),
            kv_usage: Some(0.5),
            preemptions: Some(preemptions),
            prefix_queries: Some(queries),
            prefix_hits: Some(hits),
            generated_tokens: Some(10 * preemptions),
            finished: BTreeMap::from([("length".to_owned(), preemptions)]),
            ..State::default()
        })
    }

    fn seen() -> Seen {
        Seen {
            hz: 1.0,
            looks: vec![
                look(-1.0, counting(5, 100, 10)),
                look(0.5, counting(6, 200, 60)),
                look(1.5, None),
                look(2.5, counting(9, 300, 160)),
                look(3.5, counting(12, 300, 160)),
            ],
            source: Some("nvml".into()),
            memory: vec![
                Used {
                    from: -2.0,
                    to: 0.9,
                    bytes: 50,
                },
                Used {
                    from: 1.0,
                    to: 9.0,
                    bytes: 80,
                },
            ],
            kv_tokens: Some(1000),
            kv_bytes: Some(64_000),
            ..Seen::default()
        }
    }

    #[test]
    fn counters_are_those_gained_in_the_window() {
        let over = |from, to| {
            let joined = Joined::of(&seen(), &[], from, to);
            (joined.preemptions, joined.prefix_hits)
        };
        assert_eq!(
            over(0.0, 3.0),
            (Some(7), Some(0.75)),
            "from the look before to the one after"
        );
        assert_eq!(over(2.5, 3.5), (Some(3), None), "nothing was looked up");
        let mut again = seen();
        again.looks.push(look(4.5, counting(0, 0, 0)));
        let restarted = Joined::of(&again, &[], 0.0, 5.0);
        assert_eq!(
            (restarted.preemptions, restarted.prefix_hits),
            (None, None),
            "it was started again"
        );
    }

    #[test]
    fn gauges_are_levels_and_the_pool_is_told_apart_from_its_use() {
        let joined = Joined::of(&seen(), &[], 0.0, 3.0);
        let (running, usage) = (joined.running.unwrap(), joined.kv_usage.unwrap());
        assert_eq!((running.mean, running.max, usage.mean, usage.max), (4.0, 4.0, 0.5, 0.5));
        let memory = joined.memory.unwrap();
        assert_eq!(
            (memory.peak, memory.pool_tokens, memory.pool_bytes),
            (Some(80), Some(1000), Some(64_000))
        );
        assert_eq!(
            memory.used_bytes.map(|used| (used.mean, used.max)),
            Some((32_000.0, 32_000.0))
        );
        assert_eq!(memory.used_tokens.map(|used| used.max), Some(500.0));
        assert_eq!(Joined::of(&seen(), &[], 0.0, 0.9).memory.unwrap().peak, Some(50));
        let looking = joined.timeline;
        assert_eq!((looking.looks, looking.missed, looking.longest_gap), (4, 1, Some(2.0)));
    }

    #[test]
    fn what_the_engine_counted_is_of_the_whole_load() {
        let counted = Joined::of(&seen(), &[], 0.0, 1.0).counted;
        assert_eq!((counted.generated_tokens, counted.prompt_tokens), (Some(70), None));
        assert_eq!(counted.finished, BTreeMap::from([("length".to_owned(), 7)]));
    }

    #[test]
    fn an_engine_that_tells_only_who_is_out_was_preempting_that_many() {
        let paused = |at, paused| {
            let state = State {
                paused: Some(paused),
                ..State::default()
            };
            look(at, Some(state))
        };
        let seen = Seen {
            hz: 1.0,
            looks: vec![paused(0.0, 0), paused(1.0, 3), paused(2.0, 1)],
            ..Seen::default()
        };
        assert_eq!(Joined::of(&seen, &[], 0.0, 2.0).preemptions, Some(3));
        assert_eq!(Joined::of(&Seen::default(), &[], 0.0, 1.0).memory, None);
    }
}
