//! From what was seen to a verdict. Pure: the order of the tests here is what the verdicts mean.

use super::counts::{input_count, miscounted};
use super::failure::{Exit, FailureRules, Finding, Signs};
use super::queue::Queue;
use super::reported::Reported;
use super::{Limits, RulePhase};
use crate::boundary::Verdict;
use crate::load::{Answer, End};

/// What was seen of a probe.
pub(super) struct Seen<'a> {
    pub(super) asked: Limits,
    /// Tokens of output that may be missing.
    pub(super) tolerance: u64,
    pub(super) answers: &'a [Answer],
    /// How the engine ended, where it did.
    pub(super) exit: Option<Exit>,
    /// Whether it served again after requests failed, where that was looked at.
    pub(super) survived: Option<bool>,
    /// Log lines since the probe began.
    pub(super) log: &'a [String],
    pub(super) queue: &'a Queue,
    /// The engine's own bounds.
    pub(super) reported: &'a Reported,
}

/// A verdict, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) cause: Option<String>,
    /// For people.
    pub(super) message: Option<String>,
    /// The text that decided it.
    pub(super) line: Option<String>,
    /// Tokens of input that a refusal counted, where they are not those asked for.
    pub(super) counted: Option<u64>,
}

impl Judgement {
    pub(super) fn new(verdict: Verdict, cause: &str, message: impl Into<String>) -> Self {
        Self {
            verdict,
            cause: Some(cause.to_owned()).filter(|cause| !cause.is_empty()),
            message: Some(message.into()),
            line: None,
            counted: None,
        }
    }
}

/// What became of a probe.
pub(super) fn judge(rules: &FailureRules, seen: &Seen<'_>) -> Judgement {
    failed(rules, seen)
        .or_else(|| {
            seen.answers
                .iter()
                .find_map(|answer| miscounted(answer, &seen.asked, seen.tolerance, seen.reported))
        })
        .unwrap_or_else(|| resident(seen))
}

/// The engine died, or a request did not end as it should.
fn failed(rules: &FailureRules, seen: &Seen<'_>) -> Option<Judgement> {
    let messages: Vec<String> = seen.answers.iter().filter_map(complaint).cloned().collect();
    let broken = seen.answers.iter().find(|answer| !clean(answer));
    if seen.exit.is_none() && broken.is_none() {
        return None;
    }
    let signs = Signs {
        exit: seen.exit,
        messages: &messages,
        log: seen.log,
    };
    let found = rules.classify(RulePhase::Request, signs);
    // An engine that is dead turns everything away: that is no load.
    let away = |answer: &Answer| matches!(answer.end, End::Status(429 | 503, _));
    let dead = seen.survived == Some(false);
    let overloaded = match &found {
        Some(found) => found.verdict == Verdict::Error && found.cause.as_deref() == Some("overloaded"),
        None => seen.exit.is_none() && seen.answers.iter().any(away),
    };
    if overloaded && !dead {
        return Some(turned_away(seen));
    }
    if let Some(found) = found.filter(|_| !overloaded) {
        return Some(explained(found, seen));
    }
    if let Some(exit) = seen.exit {
        let status = exit
            .code
            .map_or_else(|| "an unknown status".to_owned(), |code| format!("status {code}"));
        let message = format!("the engine died with {status} and did not say why");
        return Some(Judgement::new(Verdict::Error, "died", message));
    }
    let unexplained = broken.map(|answer| unexplained(answer, seen))?;
    if !dead {
        return Some(unexplained);
    }
    let said = unexplained.message.unwrap_or_default();
    let message = format!("the engine's process lives, but it serves no more; {said}");
    Some(Judgement::new(Verdict::Error, "dead", message))
}

/// What a rule, or the kernel, said.
fn explained(found: Finding, seen: &Seen<'_>) -> Judgement {
    let length = found.verdict == Verdict::Refused && found.cause.as_deref() == Some("length_limit");
    // The length that was refused is not the one in question.
    if let Some(counted) = found.input.filter(|counted| length && *counted != seen.asked.input) {
        return Judgement {
            counted: Some(counted),
            line: found.line,
            ..input_count(counted, &seen.asked)
        };
    }
    let mut message = match &found.line {
        Some(line) => excerpt(line),
        None => "the kernel killed the engine for its memory".to_owned(),
    };
    let mut cause = found.cause;
    // What the engine calls its length may be what its memory left of it.
    if length
        && let Some(bound) = seen
            .reported
            .bound(&seen.asked)
            .filter(|bound| bound.cause == "kv_cache")
    {
        cause = Some(bound.cause.to_owned());
        message = format!("{message}; {}", bound.message);
    }
    Judgement {
        verdict: found.verdict,
        cause,
        message: Some(message),
        line: found.line,
        counted: None,
    }
}

/// The engine would not take so many requests at once: it ran fewer than asked, or none.
fn turned_away(seen: &Seen<'_>) -> Judgement {
    let served = seen.answers.iter().filter(|answer| clean(answer)).count();
    let verdict = if served > 0 { Verdict::Queued } else { Verdict::Error };
    let message = format!(
        "the engine turned requests away; {served} of {} were served",
        seen.answers.len()
    );
    Judgement::new(verdict, "overloaded", message)
}

/// A request that failed, and no rule knows why.
fn unexplained(answer: &Answer, seen: &Seen<'_>) -> Judgement {
    // Other requests may tell more than the first that failed.
    if let Some(error) = seen.answers.iter().find_map(|answer| answer.error.as_ref()) {
        return Judgement::new(
            Verdict::Error,
            "engine",
            format!("an error within the stream: {}", excerpt(error)),
        );
    }
    let unfinished = |answer: &&Answer| matches!(answer.end, End::Deadline | End::GivenUp);
    let unfinished = seen.answers.iter().filter(unfinished).count() as u64;
    match &answer.end {
        End::Deadline if seen.queue.stuck(unfinished) => Judgement::new(
            Verdict::Refused,
            "kv_cache",
            "unfinished at its deadline, and the engine's metrics show no progress",
        ),
        End::GivenUp => Judgement::new(
            Verdict::Refused,
            "kv_cache",
            format!(
                "the engine ran nothing and let {unfinished} of {} requests wait, so that they were given up before their deadline",
                seen.answers.len()
            ),
        ),
        End::Deadline => Judgement::new(Verdict::Timeout, "deadline", "unfinished at its deadline"),
        End::Status(status, body) => {
            let message = format!("the engine answered with status {status}: {}", excerpt(body));
            Judgement::new(Verdict::Error, "status", message)
        }
        End::Broken(why) => Judgement::new(Verdict::Error, "broken", format!("the stream broke: {why}")),
        End::Unreachable(why) => Judgement::new(Verdict::Error, "unreachable", format!("no connection: {why}")),
        End::Malformed(why) => Judgement::new(Verdict::Error, "malformed", why.clone()),
        End::Complete => Judgement::new(Verdict::Error, "no_finish", "the stream ended without saying why"),
    }
}

/// Whether the stream ended as it should and said why.
pub(super) fn clean(answer: &Answer) -> bool {
    let finished = answer
        .finish
        .as_deref()
        .is_some_and(|finish| !matches!(finish, "abort" | "error" | "cancelled"));
    answer.end == End::Complete && answer.error.is_none() && finished
}

/// What the engine said against a request.
pub(super) fn complaint(answer: &Answer) -> Option<&String> {
    match (&answer.end, &answer.error) {
        (_, Some(error)) => Some(error),
        (End::Status(_, body), None) => Some(body),
        _ => None,
    }
}

/// Every request ended well: were all of them served at once?
fn resident(seen: &Seen<'_>) -> Judgement {
    let ok = Judgement {
        verdict: Verdict::Ok,
        cause: None,
        message: None,
        line: None,
        counted: None,
    };
    if let Some(preempted @ 1..) = seen.queue.preempted() {
        let times = if preempted == 1 {
            "once".to_owned()
        } else {
            format!("{preempted} times")
        };
        let message = format!("the engine threw sequences out of its KV cache {times}");
        return Judgement::new(Verdict::Preempted, "kv_cache", message);
    }
    let asked = seen.asked.concurrency;
    let running = seen.queue.seen().and_then(|metrics| metrics.running);
    // A sequence between its first token and its end is resident, so overlap proves it even where looks at the gauge were too rare.
    if asked <= 1 || running.is_some_and(|running| running >= asked) || overlapping(seen.answers) {
        return ok;
    }
    let message = match running {
        Some(running) => format!("at most {running} of {asked} requests were seen running at once"),
        None => format!("a request got its first token after another of the {asked} had ended"),
    };
    Judgement::new(Verdict::Queued, "not_resident", message)
}

/// Whether all first tokens came before the first end.
fn overlapping(answers: &[Answer]) -> bool {
    let last_first = answers.iter().map(|answer| answer.timing.first_token).max().flatten();
    let first_end = answers.iter().filter_map(|answer| answer.timing.last_token).min();
    answers.iter().all(|answer| answer.timing.first_token.is_some())
        && last_first.zip(first_end).is_some_and(|(first, end)| first < end)
}

/// One line of what may be many.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 300;
    let line = text.trim().lines().next().unwrap_or_default();
    if line.chars().count() <= LONGEST {
        return line.to_owned();
    }
    line.chars().take(LONGEST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::{FailureRule, Metrics};
    use crate::load::{Counts, Timing};

    const ASKED: Limits = Limits {
        input: 10,
        output: 5,
        total: 15,
        concurrency: 1,
    };

    fn good() -> Answer {
        Answer {
            end: End::Complete,
            finish: Some("length".into()),
            counts: Counts {
                input: Some(10),
                output: Some(5),
            },
            tokens_seen: None,
            error: None,
            timing: Timing::start(),
        }
    }

    fn rules() -> FailureRules {
        let rule = |pattern: &str, verdict, cause: &str| FailureRule {
            pattern: pattern.into(),
            verdict,
            cause: Some(cause.into()),
            phase: RulePhase::Any,
            unless: None,
        };
        FailureRules::new(vec![
            rule("CUDA out of memory", Verdict::Oom, "cuda"),
            rule("maximum context", Verdict::Refused, "length_limit"),
            rule(
                r"must be shorter\. Given: (?<input>\d+)",
                Verdict::Refused,
                "length_limit",
            ),
        ])
        .unwrap()
    }

    fn judged(answers: &[Answer], exit: Option<Exit>, log: &[&str], looks: &[(u64, u64, u64)]) -> (Verdict, String) {
        let log: Vec<String> = log.iter().map(|line| (*line).to_owned()).collect();
        let mut queue = Queue::default();
        for (running, waiting, preemptions) in looks {
            queue.see(Metrics {
                running: Some(*running),
                waiting: Some(*waiting),
                kv_usage: None,
                preemptions: Some(*preemptions),
                ..Metrics::default()
            });
        }
        let seen = Seen {
            asked: Limits {
                concurrency: answers.len() as u64,
                ..ASKED
            },
            tolerance: 0,
            answers,
            exit,
            survived: None,
            log: &log,
            queue: &queue,
            reported: &Reported::default(),
        };
        let judgement = judge(&rules(), &seen);
        (judgement.verdict, judgement.cause.unwrap_or_default())
    }

    fn one(change: impl FnOnce(&mut Answer)) -> (Verdict, String) {
        let mut answer = good();
        change(&mut answer);
        judged(&[answer], None, &[], &[])
    }

    fn is(verdict: Verdict, cause: &str) -> (Verdict, String) {
        (verdict, cause.to_owned())
    }

    #[test]
    fn success_needs_an_end_a_finish_and_both_counts() {
        assert_eq!(one(|_| {}), is(Verdict::Ok, ""));
        assert_eq!(one(|answer| answer.counts.output = Some(7)), is(Verdict::Ok, ""));
        assert_eq!(one(|answer| answer.finish = None), is(Verdict::Error, "no_finish"));
        assert_eq!(
            one(|answer| answer.counts.output = None),
            is(Verdict::Error, "no_counts")
        );
        assert_eq!(
            one(|answer| answer.counts.input = Some(11)),
            is(Verdict::Error, "input_count")
        );
        assert_eq!(
            one(|answer| answer.end = End::Broken("reset".into())),
            is(Verdict::Error, "broken")
        );
    }

    #[test]
    fn an_error_event_is_no_success_whatever_follows() {
        assert_eq!(
            one(|answer| answer.error = Some("boom".into())),
            is(Verdict::Error, "engine")
        );
        assert_eq!(
            one(|answer| answer.error = Some("CUDA out of memory".into())),
            is(Verdict::Oom, "cuda")
        );
    }

    #[test]
    fn refusals_are_read_by_the_rules_and_else_are_errors() {
        let status = |status, body: &str| one(|answer| answer.end = End::Status(status, body.into()));
        assert_eq!(
            status(400, "the maximum context is 8"),
            is(Verdict::Refused, "length_limit")
        );
        // A prompt of ten tokens was asked for.
        assert_eq!(
            status(422, "must be shorter. Given: 10"),
            is(Verdict::Refused, "length_limit")
        );
        assert_eq!(
            status(422, "must be shorter. Given: 11"),
            is(Verdict::Error, "input_count")
        );
        assert_eq!(status(500, "?"), is(Verdict::Error, "status"));
        assert_eq!(status(429, "busy"), is(Verdict::Error, "overloaded"));
    }

    #[test]
    fn a_death_is_memory_only_where_the_kernel_or_a_rule_says_so() {
        let exit = |oom_killed| {
            Some(Exit {
                code: Some(137),
                oom_killed,
            })
        };
        let broken = || {
            let mut answer = good();
            answer.end = End::Broken("reset".into());
            [answer]
        };
        assert_eq!(judged(&broken(), exit(true), &[], &[]), is(Verdict::Oom, "host"));
        assert_eq!(
            judged(&broken(), exit(false), &["CUDA out of memory"], &[]),
            is(Verdict::Oom, "cuda")
        );
        assert_eq!(
            judged(&broken(), exit(false), &["Killed"], &[]),
            is(Verdict::Error, "died")
        );
    }

    #[test]
    fn a_log_line_is_not_believed_when_nothing_failed() {
        assert_eq!(
            judged(&[good()], None, &["CUDA out of memory"], &[]),
            is(Verdict::Ok, "")
        );
    }

    #[test]
    fn a_hung_engine_is_refused_only_when_its_metrics_show_no_progress() {
        let mut answer = good();
        answer.end = End::Deadline;
        let hung = |looks: &[(u64, u64, u64)]| judged(std::slice::from_ref(&answer), None, &[], looks);
        assert_eq!(hung(&[]), is(Verdict::Timeout, "deadline"));
        assert_eq!(hung(&[(1, 0, 0), (1, 0, 0)]), is(Verdict::Timeout, "deadline"));
        assert_eq!(hung(&[(1, 0, 0), (0, 1, 0)]), is(Verdict::Refused, "kv_cache"));
        assert_eq!(hung(&[(1, 0, 0), (1, 0, 3)]), is(Verdict::Refused, "kv_cache"));
        let both = [answer.clone(), answer.clone()];
        assert_eq!(judged(&both, None, &[], &[(0, 2, 0)]), is(Verdict::Refused, "kv_cache"));
        assert_eq!(
            judged(&both, None, &[], &[(0, 1, 0)]),
            is(Verdict::Timeout, "deadline"),
            "the prompt of one is being read"
        );
    }

    #[test]
    fn concurrency_is_proven_by_the_gauge_or_by_overlap() {
        let at = |first: u64, last: u64| {
            let mut answer = good();
            answer.timing.first_token = Some(answer.timing.sent + Duration::from_secs(first));
            answer.timing.last_token = Some(answer.timing.sent + Duration::from_secs(last));
            answer
        };
        let (together, apart) = ([at(1, 9), at(2, 9)], [at(1, 3), at(5, 9)]);
        assert_eq!(judged(&together, None, &[], &[]), is(Verdict::Ok, ""));
        assert_eq!(judged(&apart, None, &[], &[]), is(Verdict::Queued, "not_resident"));
        assert_eq!(judged(&apart, None, &[], &[(0, 0, 0), (2, 0, 0)]), is(Verdict::Ok, ""));
        assert_eq!(
            judged(&apart, None, &[], &[(1, 1, 0)]),
            is(Verdict::Queued, "not_resident")
        );
        assert_eq!(
            judged(&together, None, &[], &[(2, 0, 1), (2, 0, 2)]),
            is(Verdict::Preempted, "kv_cache")
        );
    }

    #[test]
    fn turning_some_away_is_queueing() {
        let mut away = good();
        away.end = End::Status(429, "overloaded".into());
        assert_eq!(
            judged(&[good(), away], None, &[], &[]),
            is(Verdict::Queued, "overloaded")
        );
    }
}
