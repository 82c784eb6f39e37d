//! Whether the engine counted what was asked: an answer that looks good and is shorter than asked is never `ok`. Pure.

use super::Limits;
use super::judge::Judgement;
use super::reported::{Bound, Reported};
use crate::boundary::Verdict;
use crate::load::Answer;

/// What is wrong with the counts of an answer that ended well. `tolerance`: tokens of output that may be missing.
pub(super) fn miscounted(answer: &Answer, asked: &Limits, tolerance: u64, reported: &Reported) -> Option<Judgement> {
    let (Some(input), Some(output)) = (answer.counts.input, answer.counts.output) else {
        let message = "the engine did not say how many tokens it counted";
        return Some(Judgement::new(Verdict::Error, "no_counts", message));
    };
    if input != asked.input {
        // An engine that cuts prompts to its bounds does so without a word.
        let bound = reported.bound(asked).filter(|_| input < asked.input);
        let other = input_count(input, asked);
        let message = other.message.clone().unwrap_or_default();
        return Some(bounded(message, bound).unwrap_or(other));
    }
    if output.saturating_add(tolerance) >= asked.output {
        return None;
    }
    let finish = answer.finish.as_deref().unwrap_or_default();
    let message = format!("{output} of {} tokens, then `{finish}`", asked.output);
    if !matches!(finish, "length" | "limit" | "max_tokens") {
        let message = format!("the text ended early: {message}");
        return Some(Judgement::new(Verdict::ShortOutput, "end_of_text", message));
    }
    let message = format!("the engine clipped the output: {message}");
    let bound = reported.bound_of_output(asked, output);
    Some(bounded(message, bound).unwrap_or_else(|message| Judgement::new(Verdict::ShortOutput, "clipped", message)))
}

/// The engine counted another input than the one asked for: the prompt was not the right one.
pub(super) fn input_count(counted: u64, asked: &Limits) -> Judgement {
    let message = format!("the engine counted {counted} tokens of input, not {}", asked.input);
    Judgement::new(Verdict::Error, "input_count", message)
}

/// A refusal, where a bound explains what is wrong; else the message again.
fn bounded(message: String, bound: Option<Bound>) -> Result<Judgement, String> {
    match bound {
        Some(bound) => {
            let message = format!("{message}; {}", bound.message);
            Ok(Judgement::new(Verdict::Refused, bound.cause, message))
        }
        None => Err(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Counts, End, Timing};

    const ASKED: Limits = Limits {
        input: 10,
        output: 5,
        total: 15,
        concurrency: 1,
    };

    /// Verdict and cause of an answer with these counts and this finish.
    fn judged(input: u64, output: u64, finish: &str, reported: Reported) -> Option<(Verdict, String)> {
        let answer = Answer {
            end: End::Complete,
            finish: Some(finish.into()),
            counts: Counts {
                input: Some(input),
                output: Some(output),
            },
            tokens_seen: None,
            error: None,
            timing: Timing::start(),
        };
        let judgement = miscounted(&answer, &ASKED, 1, &reported)?;
        Some((judgement.verdict, judgement.cause.unwrap_or_default()))
    }

    fn is(verdict: Verdict, cause: &str) -> Option<(Verdict, String)> {
        Some((verdict, cause.to_owned()))
    }

    #[test]
    fn clipping_is_explained_by_the_bound_that_the_engine_reports() {
        let pool = Reported {
            kv_tokens: Some(14),
            max_model_len: Some(100),
            ..Reported::default()
        };
        let context = Reported {
            kv_tokens: Some(100),
            max_model_len: Some(14),
            ..Reported::default()
        };
        assert_eq!(judged(10, 3, "length", pool), is(Verdict::Refused, "kv_cache"));
        assert_eq!(judged(10, 3, "length", context), is(Verdict::Refused, "length_limit"));
        assert_eq!(
            judged(10, 3, "length", Reported::default()),
            is(Verdict::ShortOutput, "clipped")
        );
        assert_eq!(
            judged(10, 4, "length", Reported::default()),
            None,
            "within the tolerance"
        );
    }

    #[test]
    fn the_end_of_text_is_no_clipping_whatever_the_bounds() {
        let pool = Reported {
            kv_tokens: Some(14),
            ..Reported::default()
        };
        assert_eq!(judged(10, 3, "stop", pool), is(Verdict::ShortOutput, "end_of_text"));
    }

    #[test]
    fn a_prompt_that_was_cut_is_refused_and_any_other_count_is_an_error() {
        let context = Reported {
            max_model_len: Some(12),
            ..Reported::default()
        };
        assert_eq!(judged(7, 5, "length", context), is(Verdict::Refused, "length_limit"));
        assert_eq!(judged(11, 5, "length", context), is(Verdict::Error, "input_count"));
        assert_eq!(
            judged(7, 5, "length", Reported::default()),
            is(Verdict::Error, "input_count")
        );
    }
}
