//! The result of each request: completed, failed, or cut off. Pure.
//!
//! vLLM's bench counts every request as a success if its stream had a first event, however few tokens followed. Here a
//! request is completed only if its stream ended properly with the requested token counts. A shorter answer is cheaper
//! than the requested one and would make the engine look fast, so it counts as a failure (`short`).

use super::Settings;
use crate::load::{Outcome, Record};

/// A request with its result.
#[derive(Clone, Debug)]
pub(super) struct EvaluatedRequest<'a> {
    pub(super) record: &'a Record,
    pub(super) result: RequestResult,
    /// Prompt tokens: the engine's count, otherwise the requested number.
    pub(super) input: u64,
    /// Output tokens: the engine's count, otherwise the tokenizer's, otherwise the sum stated by events.
    pub(super) output: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestResult {
    Completed,
    /// The kind of failure and its message.
    Failed(String, String),
    CutOff,
}

impl<'a> EvaluatedRequest<'a> {
    pub(super) fn new(record: &'a Record, settings: &Settings) -> Self {
        let tokenized = settings.tokenized.get(&record.index).copied();
        let reported = record.tokens_seen.filter(|_| record.events > 0);
        let output = record.counts.output.or(tokenized).or(reported);
        let result = match &record.outcome {
            Outcome::CutOff => RequestResult::CutOff,
            Outcome::Failed(failure) => RequestResult::Failed(failure.form.to_string(), failure.message.clone()),
            Outcome::Completed => match validate(record, output, settings) {
                Some((form, message)) => RequestResult::Failed(form.to_owned(), message),
                None => RequestResult::Completed,
            },
        };
        Self {
            record,
            result,
            input: record.counts.input.unwrap_or(record.input),
            output,
        }
    }

    pub(super) fn completed(&self) -> bool {
        self.result == RequestResult::Completed
    }
}

/// What is wrong with a response whose stream ended properly: the kind of failure and its message.
fn validate(record: &Record, output: Option<u64>, settings: &Settings) -> Option<(&'static str, String)> {
    let input = record.counts.input.filter(|_| settings.exact_input);
    if let Some(input) = input.filter(|input| *input != record.input) {
        let message = format!("the engine counted {input} tokens of input, not {}", record.input);
        return Some(("input_count", message));
    }
    if let Some(finish @ ("abort" | "error" | "cancelled")) = record.finish.as_deref() {
        return Some(("aborted", format!("the engine ended the answer with `{finish}`")));
    }
    let Some(output) = output else {
        return Some(("no_counts", "the number of generated tokens is unknown".to_owned()));
    };
    if settings.full_output && output < record.output {
        let finish = record.finish.as_deref().unwrap_or_default();
        return Some((
            "short",
            format!("{output} of {} tokens, then `{finish}`", record.output),
        ));
    }
    if record.first_token.is_none() {
        let message = "the stream ended without an event that carried text or tokens";
        return Some(("ended_early", message.to_owned()));
    }
    None
}
