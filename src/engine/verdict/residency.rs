//! Checks that all requests of a probe were resident at the same time. If they were not, either the engine had no room
//! for more (its KV cache was full, or it has a limit of its own), or early requests merely ended before late ones were
//! admitted. The latter says nothing about memory.

use std::time::Duration;

use super::observation::{Judgement, Observation};
use crate::boundary::{Cause, Verdict};
use crate::fmt::thousands;
use crate::load::RequestRecord;
use crate::run::Limits;

/// Tokens that running requests must produce while others wait, before the wait counts as a limit of the engine.
/// Schedulers let running requests decode for a while before they admit more: TGI for 20 tokens
/// (`--max-waiting-tokens`).
const PATIENCE: usize = 32;

/// The queue counts as held back after no admission for `PROMPTS` prefill times, and at least `LEAST_QUIET`.
const PROMPTS: u32 = 2;
const LEAST_QUIET: Duration = Duration::from_millis(100);

/// Tokens closer together than this cannot be ordered: a server, a proxy or this program may read or pass on several
/// tokens at once.
const MARGIN: Duration = Duration::from_millis(10);

/// Judges a probe whose requests all completed: were they all running at the same time? Simulated time may pass faster
/// than any clock can resolve, but the gauges of a simulated engine miss nothing.
pub(crate) fn judge_residency(seen: &Observation<'_>) -> Judgement {
    let Observation {
        requested,
        answers,
        queue,
        simulated,
        ..
    } = *seen;
    if let Some(preempted @ 1..) = queue.preempted() {
        let sequences = if preempted == 1 { "sequence" } else { "sequences" };
        let message = format!("the engine preempted {preempted} {sequences}");
        return Judgement::new(Verdict::Preempted, Cause::KvCache, message);
    }
    let wanted = requested.concurrency;
    let peaks = queue.peaks();
    let gauge = peaks.and_then(|peaks| peaks.running);
    // A sequence holds its KV cache from its first token to its end, so overlapping streams prove concurrency even if
    // polls of the metrics missed it.
    let first = FirstRound::new(answers);
    let overlapped = first.as_ref().map_or(0, FirstRound::overlapped);
    let together = if simulated && gauge.is_some() { 0 } else { overlapped };
    if wanted <= 1 || gauge.is_some_and(|running| running >= wanted) || together >= wanted {
        return Judgement::ok(None);
    }
    // The gauge is zero if every poll was before or after the requests.
    let running = gauge.unwrap_or(0).max(together);
    let ran = match running {
        0 => "not all ran together".to_owned(),
        running => format!("at most {running} of {wanted} requests ran together"),
    };
    let judged = |verdict, cause, message| Judgement {
        running: Some(running),
        ..Judgement::new(verdict, cause, message)
    };
    let usage = peaks.and_then(|peaks| peaks.kv_usage).unwrap_or(0.0);
    let gauged = gauge.unwrap_or(0) as f64;
    if gauged >= 1.0 && usage * (gauged + 1.0) / gauged > 1.0 {
        let message = format!(
            "{ran}: {:.0} % of the KV cache was in use, no room for one more",
            100.0 * usage
        );
        return judged(Verdict::Queued, Cause::KvCache, message);
    }
    if let Some(most) = seen.max_num_seqs.filter(|most| running >= *most) {
        return judged(
            Verdict::Queued,
            Cause::Admission,
            format!("{ran}: the engine's own limit is {most} at the same time"),
        );
    }
    let least = if simulated { Duration::ZERO } else { LEAST_QUIET };
    if first.as_ref().is_some_and(|first| first.held_back(least)) {
        let message = format!("{ran}: the others waited though nothing else was to be done; the engine admits no more");
        return judged(Verdict::Queued, Cause::Admission, message);
    }
    let budget = seen
        .prefill_budget
        .map_or_else(String::new, |budget| format!(" (prefill budget {})", thousands(budget)));
    let short = first
        .filter(|first| first.end.saturating_sub(first.sent) < LEAST_QUIET)
        .map_or("", |_| "; answers were too short to overlap, longer outputs may");
    let message =
        format!("{ran}{budget}; all {wanted} were served; memory with {wanted} resident was not tested{short}");
    judged(Verdict::Error, Cause::NotResident, message)
}

/// The output length that keeps all requests in flight at the same time, capped at `longest`; `None` if that is no
/// longer than requested.
pub(crate) fn longer_output(requested: &Limits, answers: &[RequestRecord], longest: u64) -> Option<u64> {
    let firsts = || answers.iter().filter_map(|answer| answer.first_token);
    let spread = firsts().max()?.saturating_sub(firsts().min()?);
    let gaps = answers
        .iter()
        .filter_map(|answer| answer.tpot_ms(answer.counts.output?));
    let fastest = gaps.reduce(f64::min).unwrap_or(1.0).max(0.01);
    // Doubled because prefills slow decoding down, and the longer output makes the next attempt take longer.
    let needed = (spread.as_secs_f64() * 1e3 / fastest).ceil() as u64 * 2;
    let output = (requested.output + needed)
        .max(requested.output + 2 * PATIENCE as u64)
        .min(longest);
    (output > requested.output).then_some(output)
}

/// The requests that ran until the first one ended.
struct FirstRound<'a> {
    answers: &'a [RequestRecord],
    /// Times of the first tokens before `end`, sorted.
    starts: Vec<Duration>,
    /// Times when the first request was sent and when the first one ended.
    sent: Duration,
    end: Duration,
}

impl<'a> FirstRound<'a> {
    fn new(answers: &'a [RequestRecord]) -> Option<Self> {
        let end = answers.iter().filter_map(|answer| answer.last_token).min()?;
        let mut starts: Vec<Duration> = answers.iter().filter_map(|answer| answer.first_token).collect();
        // A request that begins at the moment when another ends may have taken its slot.
        starts.retain(|start| *start < end);
        starts.sort_unstable();
        let sent = answers.iter().map(|answer| answer.sent).min()?;
        Some(Self {
            answers,
            starts,
            sent,
            end,
        })
    }

    /// The number of requests that certainly ran at the end of the round.
    fn overlapped(&self) -> u64 {
        let before = |start: &&Duration| **start + MARGIN <= self.end;
        self.starts.iter().filter(before).count() as u64
    }

    /// The time of the last send or admission.
    fn settled(&self) -> Duration {
        let sent = self.answers.iter().map(|answer| answer.sent);
        sent.chain(self.starts.iter().copied()).max().unwrap_or_default()
    }

    fn quiet(&self) -> Duration {
        self.end.saturating_sub(self.settled())
    }

    /// True if nothing was admitted for at least `least`, and for long enough that the engine could have admitted more,
    /// while nothing ended.
    fn held_back(&self, least: Duration) -> bool {
        let times = || std::iter::once(&self.sent).chain(&self.starts);
        let gaps = times()
            .zip(times().skip(1))
            .map(|(before, after)| after.saturating_sub(*before));
        let prompt = gaps.max().unwrap_or_default();
        let since = self.settled();
        !self.starts.is_empty()
            && self.quiet() >= (prompt * PROMPTS).max(least)
            && self
                .answers
                .iter()
                .any(|answer| self.decoded(answer, since) >= PATIENCE)
    }

    /// The number of tokens of a request between `from` and the end of the round.
    fn decoded(&self, answer: &RequestRecord, from: Duration) -> usize {
        let later = answer.token_times().skip(1);
        later.filter(|at| *at > from && *at <= self.end).count()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::boundary::{Answer, Boundary, Class, Options, Point};
    use crate::engine::facts::queue::QueueMetrics;
    use crate::engine::verdict::bounds::EngineBounds;
    use crate::load::engine_side::EngineQueue;

    fn limits(input: u64, output: u64, concurrency: u64) -> Limits {
        let total = input + output;
        Limits {
            input,
            output,
            total,
            concurrency,
        }
    }

    fn polls(polls: &[EngineQueue]) -> QueueMetrics {
        let mut queue = QueueMetrics::default();
        polls.iter().for_each(|metrics| queue.add(*metrics, true));
        queue
    }

    fn gauge(running: u64, kv_usage: Option<f64>) -> QueueMetrics {
        let running = Some(running);
        polls(&[EngineQueue {
            running,
            kv_usage,
            ..EngineQueue::default()
        }])
    }

    /// A request with a token every 10 ms from `first` on, in milliseconds.
    fn decoded(first: u64, tokens: u64) -> RequestRecord {
        RequestRecord {
            first_token: Some(Duration::from_millis(first)),
            last_token: Some(Duration::from_millis(first + 10 * (tokens - 1))),
            itl_ms: vec![10.0; tokens as usize - 1],
            events: tokens as u32,
            counts: crate::load::Counts {
                input: Some(100),
                output: Some(tokens),
            },
            ..RequestRecord::default()
        }
    }

    #[track_caller]
    fn judged(answers: &[RequestRecord], queue: &QueueMetrics, verdict: Verdict, cause: &str) -> String {
        let requested = limits(100, 64, answers.len() as u64);
        let judgement = judge_residency(&Observation {
            prefill_budget: Some(8192),
            ..Observation::from_limits(requested, answers, queue, &EngineBounds::default())
        });
        let found = (judgement.verdict, judgement.cause.as_ref().map_or("", Cause::name));
        assert_eq!(found, (verdict, cause), "{:?}", judgement.message);
        judgement.message.unwrap_or_default()
    }

    #[test]
    fn concurrency_is_proven_by_the_gauge_or_by_overlap() {
        let none = QueueMetrics::default();
        judged(&[decoded(100, 64), decoded(300, 64)], &none, Verdict::Ok, "");
        let apart = [decoded(100, 64), decoded(800, 64)];
        judged(&apart, &gauge(2, None), Verdict::Ok, "");
        let counts = [0, 2].map(|preemptions| EngineQueue {
            preemptions: Some(preemptions),
            ..EngineQueue::default()
        });
        judged(&apart, &polls(&counts), Verdict::Preempted, "kv_cache");
    }

    #[test]
    fn who_waits_while_nothing_else_is_to_be_done_meets_a_limit_of_the_engine() {
        let none = QueueMetrics::default();
        let said = judged(
            &[decoded(100, 64), decoded(800, 64)],
            &none,
            Verdict::Queued,
            "admission",
        );
        assert!(said.starts_with("at most 1 of 2 requests ran together"), "{said}");
        // Too few tokens to tell: TGI lets 20 pass before it admits more.
        judged(
            &[decoded(100, 24), decoded(400, 24)],
            &none,
            Verdict::Error,
            "not_resident",
        );
        // The second prompt took 400 ms to read, so the third may have been read in the 460 ms before the first request
        // ended.
        judged(
            &[decoded(100, 87), decoded(500, 64), decoded(980, 64)],
            &none,
            Verdict::Error,
            "not_resident",
        );
        // A full KV cache is proof at once, even if no time passed.
        let short = [decoded(100, 8), decoded(400, 8)];
        judged(&short, &gauge(1, Some(0.6)), Verdict::Queued, "kv_cache");
        judged(&short, &gauge(1, Some(0.4)), Verdict::Error, "not_resident");
    }

    /// The server answers in milliseconds, and the client reads whole answers at once.
    #[test]
    fn what_no_clock_can_tell_proves_nothing() {
        let quick = |sent: u64, tokens: u64| RequestRecord {
            sent: Duration::from_millis(sent),
            itl_ms: vec![0.05; tokens as usize - 1],
            last_token: Some(Duration::from_millis(sent + 1 + tokens / 20)),
            ..decoded(sent + 1, tokens)
        };
        let none = QueueMetrics::default();
        let answers: Vec<RequestRecord> = (0..19).map(|index| quick(index, 64)).collect();
        let said = judged(&answers, &none, Verdict::Error, "not_resident");
        assert!(said.contains("too short to overlap"), "{said}");
        // One after the other, but read out of order.
        judged(&[quick(0, 100), quick(3, 100)], &none, Verdict::Error, "not_resident");
        // The later requests were sent when the first had nearly ended.
        let late = [
            decoded(10, 64),
            RequestRecord {
                sent: Duration::from_millis(600),
                ..decoded(800, 64)
            },
        ];
        judged(&late, &none, Verdict::Error, "not_resident");
    }

    #[test]
    fn a_simulated_gauge_misses_nothing() {
        let streams = [decoded(100, 64), decoded(300, 64)];
        for (running, verdict) in [(1, Verdict::Queued), (2, Verdict::Ok)] {
            let queue = gauge(running, Some(0.6));
            let judgement = judge_residency(&Observation {
                simulated: true,
                ..Observation::from_limits(limits(100, 64, 2), &streams, &queue, &EngineBounds::default())
            });
            assert_eq!(judgement.verdict, verdict);
        }
    }

    #[test]
    fn what_was_not_tested_is_told_with_the_reason() {
        let answers: Vec<RequestRecord> = (0..24).map(|index| decoded(100 + 80 * index, 16)).collect();
        let said = judged(&answers, &gauge(7, None), Verdict::Error, "not_resident");
        assert_eq!(
            said,
            "at most 7 of 24 requests ran together (prefill budget 8,192); all 24 were served; memory with 24 resident was not tested"
        );
    }

    #[test]
    fn a_longer_output_keeps_the_first_in_flight_until_the_last_is_admitted() {
        let answers = [decoded(100, 16), decoded(1900, 16)];
        let asked = limits(100, 16, 2);
        // 1.8 s at 10 ms a token, twice.
        assert_eq!(longer_output(&asked, &answers, 8000), Some(376));
        assert_eq!(
            longer_output(&asked, &answers, 200),
            Some(200),
            "no more than the engine allows"
        );
        assert_eq!(longer_output(&asked, &answers, 16), None);
    }

    /// Judges the recorded run of a real engine again by today's rules. Returns its judgements by point, and the
    /// boundary that follows from them.
    fn judged_again(name: &str) -> (Vec<(Point, Judgement)>, Boundary) {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/runs")
            .join(name);
        let journal = std::fs::read_to_string(folder.join("journal.jsonl")).unwrap();
        let events: Vec<Value> = journal
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let axes = &events.iter().find(|event| event["event"] == "boundary").unwrap()["axes"]["axes"];
        let mut map = Boundary::new(axes, Options::default()).unwrap();
        let mut found = Vec::new();
        for event in events.iter().filter(|event| event["event"] == "done") {
            let answer = &event["answer"];
            let point: Point = serde_json::from_value(answer["point"].clone()).unwrap();
            let requested = Limits::of_point(&point).unwrap();
            // Recorded answers hold no times of single requests.
            let answers = vec![RequestRecord::default(); usize::try_from(requested.concurrency).unwrap()];
            let peaks: EngineQueue = serde_json::from_value(answer["evidence"]["queue"].clone()).unwrap();
            let before = EngineQueue {
                preemptions: peaks.preemptions.map(|_| 0),
                ..EngineQueue::default()
            };
            let (queue, bounds) = (polls(&[before, peaks]), EngineBounds::default());
            let judgement = judge_residency(&Observation::from_limits(requested, &answers, &queue, &bounds));
            let cause = judgement.cause.clone();
            map.record(
                &point,
                &Answer {
                    cause,
                    ..Answer::from(judgement.verdict)
                },
            )
            .unwrap();
            found.push((point, judgement));
        }
        (found, map)
    }

    fn at(concurrency: i64, input: i64, output: i64) -> Point {
        Point::default()
            .with("concurrency", concurrency)
            .with("input", input)
            .with("output", output)
    }

    #[test]
    fn tgis_batches_are_not_taken_for_memory() {
        let (found, map) = judged_again("tgi-queued");
        assert_eq!(found.len(), 55);
        assert!(found.iter().all(|(_, judged)| judged.verdict != Verdict::Queued));
        assert!(map.conflicts().is_empty() && map.failing().unwrap().is_empty());
        assert_eq!(map.classify(&at(8, 4160, 16)).unwrap(), Class::Unknown);
        let (point, _) = map.untested().unwrap();
        assert_eq!(point, at(24, 8192, 16));
    }

    #[test]
    fn a_full_kv_cache_of_a_hybrid_model_is_told_from_late_admission() {
        let (found, map) = judged_again("vllm-hybrid");
        assert!(map.conflicts().is_empty());
        assert_eq!(map.classify(&at(25, 9582, 128)).unwrap(), Class::Unknown);
        // An independent client of the same engine could not run these points concurrently either (`check.json` of the
        // run): the KV cache was full.
        for (concurrency, input) in [(39, 4656), (22, 14100), (64, 16384)] {
            assert_eq!(map.classify(&at(concurrency, input, 128)).unwrap(), Class::Fails);
        }
        let of = |verdict| found.iter().filter(|(_, judged)| judged.verdict == verdict).count();
        assert_eq!([Verdict::Ok, Verdict::Queued, Verdict::Preempted].map(of), [24, 5, 2]);
    }
}
