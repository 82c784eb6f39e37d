//! Compares the engine's token counts with the requested ones. Output shorter than requested is never `ok`.

use super::Limits;
use super::bounds::{Bound, EngineBounds};
use super::judge::Judgement;
use crate::boundary::Verdict;
use crate::load::StreamResponse;

/// Checks the counts of a completed response. `tolerance` is the number of output tokens that may be missing.
pub(super) fn check_counts(
    answer: &StreamResponse,
    requested: &Limits,
    tolerance: u64,
    reported: &EngineBounds,
) -> Option<Judgement> {
    let (Some(input), Some(output)) = (answer.counts.input, answer.counts.output) else {
        let message = "the engine did not report token counts";
        return Some(Judgement::new(Verdict::Error, "no_counts", message));
    };
    if input != requested.input {
        // Some engines silently truncate prompts to their limit.
        let bound = reported.bound(requested).filter(|_| input < requested.input);
        let other = input_count(input, requested);
        let message = other.message.clone().unwrap_or_default();
        return Some(explain_by_bound(message, bound).unwrap_or(other));
    }
    if output.saturating_add(tolerance) >= requested.output {
        return None;
    }
    let finish = answer.finish.as_deref().unwrap_or_default();
    let message = format!("{output} of {} tokens, then `{finish}`", requested.output);
    if !matches!(finish, "length" | "limit" | "max_tokens") {
        let message = format!("the text ended early: {message}");
        return Some(Judgement::new(Verdict::ShortOutput, "end_of_text", message));
    }
    let message = format!("the engine clipped the output: {message}");
    let bound = reported.bound_of_output(requested, output);
    Some(
        explain_by_bound(message, bound)
            .unwrap_or_else(|message| Judgement::new(Verdict::ShortOutput, "clipped", message)),
    )
}

/// The engine counted a different input length, so the prompt was not the requested one.
pub(super) fn input_count(counted: u64, requested: &Limits) -> Judgement {
    let message = format!("the engine counted {counted} tokens of input, not {}", requested.input);
    Judgement::new(Verdict::Error, "input_count", message)
}

/// `Refused` if a bound explains the mismatch; otherwise returns the message unchanged.
fn explain_by_bound(message: String, bound: Option<Bound>) -> Result<Judgement, String> {
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
