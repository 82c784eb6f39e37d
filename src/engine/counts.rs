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
mod tests;
