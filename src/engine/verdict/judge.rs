//! Derives a verdict from the observations of a probe. The order of the checks here defines the verdicts.
//!
//! Output shorter than requested is never `ok`: the engine's token counts are compared with the requested ones.

use super::failure::{Finding, classify};
use super::observation::{Judgement, Observation};
use super::reason::Symptoms;
use super::residency::judge_residency;
use crate::boundary::{Cause, Verdict};
use crate::engine::adapter::{FailureRule, RulePhase};
use crate::engine::wire::refusal::refusal;
use crate::fmt::excerpt;
use crate::load::{FailureForm, RequestOutcome, RequestRecord};
use crate::prompt::is_near;
use crate::run::Limits;
use crate::runtime::{EndedBy, Exit};

pub(crate) fn judge(rules: &[FailureRule], seen: &Observation<'_>) -> Judgement {
    check_failure(rules, seen)
        .or_else(|| seen.answers.iter().find_map(|answer| check_counts(answer, seen)))
        .or_else(|| too_long_for_one(seen))
        .unwrap_or_else(|| judge_residency(seen))
}

/// A request that was served only because a router sent it to one of the larger engines.
fn too_long_for_one(seen: &Observation<'_>) -> Option<Judgement> {
    let smallest = seen
        .reported
        .smallest
        .filter(|smallest| *smallest < seen.requested.total)?;
    let message =
        format!("a larger engine served it; the smallest one behind this address has a KV cache of {smallest} tokens");
    Some(Judgement::new(Verdict::Refused, Cause::KvCache, message))
}

/// Checks whether the engine died or a request failed.
fn check_failure(rules: &[FailureRule], seen: &Observation<'_>) -> Option<Judgement> {
    let messages: Vec<String> = seen.answers.iter().filter_map(error_message).cloned().collect();
    let broken = seen.answers.iter().find(|answer| !succeeded(answer));
    if seen.exit.is_none() && broken.is_none() {
        return None;
    }
    let symptoms = Symptoms {
        exit: seen.exit,
        messages: &messages,
        log: seen.log,
    };
    let found = classify(rules, RulePhase::Request, symptoms);
    // A dead engine rejects everything; that is not overload.
    let away = |answer: &RequestRecord| matches!(form(answer), Some(FailureForm::Status(429 | 503)));
    let dead = seen.survived == Some(false);
    let overloaded = match &found {
        Some(found) => found.verdict == Verdict::Error && found.cause == Some(Cause::Overloaded),
        None => seen.exit.is_none() && seen.answers.iter().any(away),
    };
    if overloaded && !dead {
        return Some(overloaded_engine(seen));
    }
    if let Some(found) = found.filter(|_| !overloaded) {
        return Some(classified_failure(found, seen));
    }
    if let Some(exit) = seen.exit {
        let cause = match exit.ended_by {
            // This program's own limit: the same request would exceed it again.
            Some(EndedBy::MemoryLimit(_)) => Cause::MemoryLimit,
            Some(_) => Cause::Stopped,
            None => Cause::Died,
        };
        return Some(Judgement::new(Verdict::Error, cause, how_it_ended(exit)));
    }
    let unexplained = broken.map(|answer| unexplained(answer, seen))?;
    if !dead {
        return Some(unexplained);
    }
    let reason = unexplained.message.unwrap_or_default();
    let message = format!("the engine no longer serves; {reason}");
    Some(Judgement::new(Verdict::Error, Cause::Dead, message))
}

/// Describes how an engine exited, for an exit that its log does not explain.
pub(crate) fn how_it_ended(exit: &Exit) -> String {
    match exit.stopped_by() {
        _ if exit.oom_killed => "the OOM killer ended the engine".to_owned(),
        Some(stopped) => stopped,
        None => format!("the engine exited with {}, without a known reason", exit.status()),
    }
}

/// The verdict of a failure rule, or of the OOM killer.
fn classified_failure(found: Finding, seen: &Observation<'_>) -> Judgement {
    let length = found.verdict == Verdict::Refused && found.cause == Some(Cause::LengthLimit);
    // The engine refused a length other than the requested one.
    let counted = found.input.filter(|counted| length && *counted != seen.requested.input);
    if let Some(counted) = counted.filter(|counted| !(seen.near && is_near(*counted, seen.requested.input))) {
        return Judgement {
            counted: Some(counted),
            line: found.line,
            ..input_count(counted, &seen.requested)
        };
    }
    let mut message = match &found.line {
        Some(line) => excerpt(line),
        None => seen.exit.map(how_it_ended).unwrap_or_default(),
    };
    let mut cause = found.cause;
    // The engine may call it a length limit although memory sets that length.
    let bound = seen.reported.bound(&seen.requested);
    if let Some(bound) = bound.filter(|bound| length && bound.cause == Cause::KvCache) {
        cause = Some(bound.cause);
        message = format!("{message}; {}", bound.message);
    }
    Judgement {
        verdict: found.verdict,
        cause,
        message: Some(message),
        line: found.line,
        remedy: found.remedy,
        counted,
        running: None,
    }
}

/// The engine rejected some or all of the concurrent requests.
fn overloaded_engine(seen: &Observation<'_>) -> Judgement {
    let served = seen.answers.iter().filter(|answer| succeeded(answer)).count();
    let verdict = if served > 0 { Verdict::Queued } else { Verdict::Error };
    let refused = seen.answers.iter().find_map(RequestRecord::failure);
    let reason = match refused {
        Some(refused) => refusal(refused, seen.path, seen.credentials),
        None => "the engine rejected requests".to_owned(),
    };
    let message = format!("{reason}; {served} of {} were served", seen.answers.len());
    Judgement::new(verdict, Cause::Overloaded, message)
}

/// The verdict for a failed request that no rule matches.
fn unexplained(answer: &RequestRecord, seen: &Observation<'_>) -> Judgement {
    let error = |cause, message: String| Judgement::new(Verdict::Error, cause, message);
    let form_is = |wanted: FailureForm| move |answer: &&RequestRecord| form(answer) == Some(wanted);
    // An error in another response may say more than the first failure.
    let in_stream = seen.answers.iter().find(form_is(FailureForm::InStream));
    if let Some(message) = in_stream.and_then(error_message) {
        return error(Cause::Engine, format!("error in the stream: {}", excerpt(message)));
    }
    let is_unfinished =
        |answer: &&RequestRecord| answer.outcome == RequestOutcome::CutOff || form_is(FailureForm::Deadline)(answer);
    let unfinished = seen.answers.iter().filter(is_unfinished).count() as u64;
    let failure = match &answer.outcome {
        RequestOutcome::CutOff => {
            return Judgement::new(
                Verdict::Refused,
                Cause::KvCache,
                format!(
                    "the engine ran nothing while {unfinished} of {} requests were queued; they were cancelled before their timeout",
                    seen.answers.len()
                ),
            );
        }
        RequestOutcome::Failed(failure) => failure,
        RequestOutcome::Completed => return error(Cause::NoFinish, NO_FINISH.to_owned()),
    };
    let why = &failure.message;
    match failure.form {
        FailureForm::Deadline if seen.queue.stuck(unfinished) => Judgement::new(
            Verdict::Refused,
            Cause::KvCache,
            "timed out, and the engine's metrics show no progress",
        ),
        FailureForm::Deadline => Judgement::new(Verdict::Timeout, Cause::Deadline, "timed out"),
        FailureForm::Status(_) => error(Cause::Status, refusal(failure, seen.path, seen.credentials)),
        FailureForm::Broken => error(Cause::Broken, format!("the stream broke: {why}")),
        FailureForm::Unreachable => error(Cause::Unreachable, format!("no connection: {why}")),
        FailureForm::Malformed => error(Cause::Malformed, why.clone()),
        FailureForm::EndedEarly | FailureForm::InStream => error(Cause::NoFinish, NO_FINISH.to_owned()),
    }
}

const NO_FINISH: &str = "the stream ended without a finish reason";

fn form(answer: &RequestRecord) -> Option<FailureForm> {
    answer.failure().map(|failure| failure.form)
}

/// True if the stream completed with a proper finish reason. Tokens without text, such as an end-of-text token, may
/// produce no event in the stream; the engine's counts include them.
pub(crate) fn succeeded(answer: &RequestRecord) -> bool {
    let finished = answer
        .finish
        .as_deref()
        .is_some_and(|finish| !matches!(finish, "abort" | "error" | "cancelled"));
    let ended = answer.outcome == RequestOutcome::Completed || form(answer) == Some(FailureForm::EndedEarly);
    ended && finished
}

/// The engine's error message for a request.
pub(crate) fn error_message(answer: &RequestRecord) -> Option<&String> {
    let failure = answer.failure()?;
    matches!(failure.form, FailureForm::InStream | FailureForm::Status(_)).then_some(&failure.message)
}

/// [`EngineBounds::bound`] also counts a request that nearly reaches a bound; a prompt is cut only if prompt and output
/// together exceed it.
const CUT_BEYOND: u64 = 2;

/// Checks the counts of a completed response.
fn check_counts(answer: &RequestRecord, seen: &Observation<'_>) -> Option<Judgement> {
    let requested = &seen.requested;
    let (Some(input), Some(output)) = (answer.counts.input, answer.counts.output) else {
        let message = "the engine did not report token counts";
        return Some(Judgement::new(Verdict::Error, Cause::NoCounts, message));
    };
    if input != requested.input && !(seen.near && is_near(input, requested.input)) {
        // Some engines silently truncate prompts to their limit.
        let beyond = Limits {
            total: requested.total.saturating_sub(CUT_BEYOND),
            ..*requested
        };
        let bound = seen.reported.bound(&beyond).filter(|_| input < requested.input);
        return Some(input_count(input, requested).explained_by(bound));
    }
    if seen.tolerance.admits(output, requested.output) {
        return None;
    }
    let finish = answer.finish.as_deref().unwrap_or_default();
    let received = format!("{output} of {} tokens, then `{finish}`", requested.output);
    if !answer.ended_at_length() {
        let message = format!("the text ended early: {received}");
        return Some(Judgement::new(Verdict::ShortOutput, Cause::EndOfText, message));
    }
    let message = format!("the engine clipped the output: {received}");
    let clipped = Judgement::new(Verdict::ShortOutput, Cause::Clipped, message);
    Some(clipped.explained_by(seen.reported.bound_of_output(requested, output)))
}

/// The engine counted a different input length, so the prompt was not the requested one.
fn input_count(counted: u64, requested: &Limits) -> Judgement {
    let message = format!("the engine counted {counted} tokens of input, not {}", requested.input);
    Judgement::new(Verdict::Error, Cause::InputCount, message)
}

#[cfg(test)]
mod tests {
    use super::super::bounds::EngineBounds;
    use super::*;
    use crate::engine::facts::queue::QueueMetrics;
    use crate::load::Counts;
    use crate::load::engine_side::EngineQueue;

    const REQUESTED: Limits = Limits {
        input: 10,
        output: 5,
        total: 15,
        concurrency: 1,
    };

    fn good() -> RequestRecord {
        RequestRecord {
            finish: Some("length".into()),
            counts: Counts {
                input: Some(10),
                output: Some(5),
            },
            ..RequestRecord::default()
        }
    }

    fn failed(form: FailureForm, message: &str) -> RequestOutcome {
        let message = message.to_owned();
        RequestOutcome::failed(form, message)
    }

    fn rules() -> Vec<FailureRule> {
        let rule = |pattern: &str, verdict, cause: &str| FailureRule::new(pattern, verdict, Some(cause));
        vec![
            rule("CUDA out of memory", Verdict::Oom, "cuda"),
            rule("maximum context", Verdict::Refused, "length_limit"),
            rule(
                r"must be shorter\. Given: (?<input>\d+)",
                Verdict::Refused,
                "length_limit",
            ),
        ]
    }

    fn verdict_of(
        answers: &[RequestRecord],
        exit: Option<Exit>,
        log: &[&str],
        polls: &[(u64, u64, u64)],
    ) -> (Verdict, String) {
        let log: Vec<String> = log.iter().map(|line| (*line).to_owned()).collect();
        let mut queue = QueueMetrics::default();
        for (running, waiting, preemptions) in polls {
            let metrics = EngineQueue {
                running: Some(*running),
                waiting: Some(*waiting),
                kv_usage: None,
                preemptions: Some(*preemptions),
                ..EngineQueue::default()
            };
            queue.add(metrics, true);
        }
        let requested = Limits {
            concurrency: answers.len() as u64,
            ..REQUESTED
        };
        let bounds = EngineBounds::default();
        let seen = Observation {
            exit: exit.as_ref(),
            log: &log,
            ..Observation::from_limits(requested, answers, &queue, &bounds)
        };
        let judgement = judge(&rules(), &seen);
        (
            judgement.verdict,
            judgement.cause.map_or_else(String::new, |cause| cause.to_string()),
        )
    }

    fn one(change: impl FnOnce(&mut RequestRecord)) -> (Verdict, String) {
        let mut answer = good();
        change(&mut answer);
        verdict_of(&[answer], None, &[], &[])
    }

    fn is(verdict: Verdict, cause: &str) -> (Verdict, String) {
        (verdict, cause.to_owned())
    }

    #[test]
    fn success_needs_an_end_a_finish_and_both_counts() {
        assert_eq!(one(|_| {}), is(Verdict::Ok, ""));
        assert_eq!(one(|answer| answer.counts.output = Some(7)), is(Verdict::Ok, ""));
        assert_eq!(one(|answer| answer.finish = None), is(Verdict::Error, "no_finish"));
        let without_text = |answer: &mut RequestRecord| answer.outcome = failed(FailureForm::EndedEarly, "no text");
        assert_eq!(one(without_text), is(Verdict::Ok, ""));
        assert_eq!(
            one(|answer| answer.counts.output = None),
            is(Verdict::Error, "no_counts")
        );
        assert_eq!(
            one(|answer| answer.counts.input = Some(11)),
            is(Verdict::Error, "input_count")
        );
        assert_eq!(
            one(|answer| answer.outcome = failed(FailureForm::Broken, "reset")),
            is(Verdict::Error, "broken")
        );
    }

    #[test]
    fn an_error_event_is_no_success_whatever_follows() {
        assert_eq!(
            one(|answer| answer.outcome = failed(FailureForm::InStream, "boom")),
            is(Verdict::Error, "engine")
        );
        assert_eq!(
            one(|answer| answer.outcome = failed(FailureForm::InStream, "CUDA out of memory")),
            is(Verdict::Oom, "cuda")
        );
    }

    #[test]
    fn refusals_are_read_by_the_rules_and_else_are_errors() {
        let status = |status, body: &str| one(|answer| answer.outcome = failed(FailureForm::Status(status), body));
        assert_eq!(
            status(400, "the maximum context is 8"),
            is(Verdict::Refused, "length_limit")
        );
        // The requested prompt has ten tokens.
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
                ..Exit::default()
            })
        };
        let broken = || {
            let mut answer = good();
            answer.outcome = failed(FailureForm::Broken, "reset");
            [answer]
        };
        assert_eq!(verdict_of(&broken(), exit(true), &[], &[]), is(Verdict::Oom, "host"));
        assert_eq!(
            verdict_of(&broken(), exit(false), &["CUDA out of memory"], &[]),
            is(Verdict::Oom, "cuda")
        );
        let stopped = Some(Exit {
            ended_by: Some(EndedBy::Signal(15)),
            ..Exit::default()
        });
        assert_eq!(verdict_of(&broken(), stopped, &[], &[]), is(Verdict::Error, "stopped"));
        let ours = Some(Exit {
            ended_by: Some(EndedBy::MemoryLimit(1 << 33)),
            ..Exit::default()
        });
        assert_eq!(
            verdict_of(&broken(), ours, &[], &[]),
            is(Verdict::Error, "memory_limit")
        );
        assert_eq!(
            verdict_of(&broken(), exit(false), &["Killed"], &[]),
            is(Verdict::Error, "died")
        );
    }

    #[test]
    fn a_log_line_is_not_believed_when_nothing_failed() {
        assert_eq!(
            verdict_of(&[good()], None, &["CUDA out of memory"], &[]),
            is(Verdict::Ok, "")
        );
    }

    #[test]
    fn a_hung_engine_is_refused_only_when_its_metrics_show_no_progress() {
        let mut answer = good();
        answer.outcome = failed(FailureForm::Deadline, "late");
        let hung = |polls: &[(u64, u64, u64)]| verdict_of(std::slice::from_ref(&answer), None, &[], polls);
        assert_eq!(hung(&[]), is(Verdict::Timeout, "deadline"));
        assert_eq!(hung(&[(1, 0, 0), (1, 0, 0)]), is(Verdict::Timeout, "deadline"));
        assert_eq!(hung(&[(1, 0, 0), (0, 1, 0)]), is(Verdict::Refused, "kv_cache"));
        assert_eq!(hung(&[(1, 0, 0), (1, 0, 3)]), is(Verdict::Refused, "kv_cache"));
        let both = [answer.clone(), answer.clone()];
        assert_eq!(
            verdict_of(&both, None, &[], &[(0, 2, 0)]),
            is(Verdict::Refused, "kv_cache")
        );
        assert_eq!(
            verdict_of(&both, None, &[], &[(0, 1, 0)]),
            is(Verdict::Timeout, "deadline"),
            "the prompt of one is being read"
        );
    }

    #[test]
    fn turning_some_away_is_queueing() {
        let mut away = good();
        away.outcome = failed(FailureForm::Status(429), "overloaded");
        assert_eq!(
            verdict_of(&[good(), away], None, &[], &[]),
            is(Verdict::Queued, "overloaded")
        );
    }
}

#[cfg(test)]
mod count_tests {
    use super::super::bounds::EngineBounds;
    use super::*;
    use crate::engine::facts::queue::QueueMetrics;
    use crate::load::{Counts, Tolerance};

    const REQUESTED: Limits = Limits {
        input: 10,
        output: 5,
        total: 15,
        concurrency: 1,
    };

    /// Verdict and cause of a response with these counts and this finish reason.
    fn judged(input: u64, output: u64, finish: &str, reported: EngineBounds) -> Option<(Verdict, String)> {
        let answer = RequestRecord {
            finish: Some(finish.to_owned().into()),
            counts: Counts {
                input: Some(input),
                output: Some(output),
            },
            ..RequestRecord::default()
        };
        let queue = QueueMetrics::default();
        let seen = Observation {
            tolerance: Tolerance::tokens(1),
            ..Observation::from_limits(REQUESTED, &[], &queue, &reported)
        };
        let judgement = check_counts(&answer, &seen)?;
        Some((
            judgement.verdict,
            judgement.cause.map_or_else(String::new, |cause| cause.to_string()),
        ))
    }

    fn is(verdict: Verdict, cause: &str) -> Option<(Verdict, String)> {
        Some((verdict, cause.to_owned()))
    }

    #[test]
    fn clipping_is_explained_by_the_bound_that_the_engine_reports() {
        let pool = EngineBounds {
            kv_tokens: Some(14),
            max_model_len: Some(100),
            ..EngineBounds::default()
        };
        let context = EngineBounds {
            kv_tokens: Some(100),
            max_model_len: Some(14),
            ..EngineBounds::default()
        };
        assert_eq!(judged(10, 3, "length", pool), is(Verdict::Refused, "kv_cache"));
        assert_eq!(judged(10, 3, "length", context), is(Verdict::Refused, "length_limit"));
        assert_eq!(
            judged(10, 3, "length", EngineBounds::default()),
            is(Verdict::ShortOutput, "clipped")
        );
        assert_eq!(
            judged(10, 4, "length", EngineBounds::default()),
            None,
            "within the tolerance"
        );
    }

    #[test]
    fn the_end_of_text_is_no_clipping_whatever_the_bounds() {
        let pool = EngineBounds {
            kv_tokens: Some(14),
            ..EngineBounds::default()
        };
        assert_eq!(judged(10, 3, "stop", pool), is(Verdict::ShortOutput, "end_of_text"));
    }

    #[test]
    fn a_prompt_that_was_cut_is_refused_and_any_other_count_is_an_error() {
        let context = EngineBounds {
            max_model_len: Some(12),
            ..EngineBounds::default()
        };
        assert_eq!(judged(7, 5, "length", context), is(Verdict::Refused, "length_limit"));
        assert_eq!(judged(11, 5, "length", context), is(Verdict::Error, "input_count"));
        assert_eq!(
            judged(7, 5, "length", EngineBounds::default()),
            is(Verdict::Error, "input_count")
        );
    }
}
