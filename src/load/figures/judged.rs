//! What became of each request: completed, failed in some form, or cut off. Pure.
//!
//! vLLM's bench calls every request a success whose stream brought a first event, however few tokens followed. Here a request completed
//! when its stream ended as it should and the counts are those asked for: an answer of fewer tokens is cheaper than the one asked for,
//! and among the completed it would make the engine look fast. It failed in the form `short`.

use super::Settings;
use crate::load::{Outcome, Record};

/// A request, and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Judged<'a> {
    pub(super) record: &'a Record,
    pub(super) fate: Fate,
    /// Tokens of its prompt: by the engine, else as asked.
    pub(super) input: u64,
    /// Tokens of its answer: by the engine, else by the tokenizer, else by events that each told how many.
    pub(super) output: Option<u64>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Completed,
    /// A form by which failures are counted, and what was said.
    Failed(String, String),
    CutOff,
}

impl<'a> Judged<'a> {
    /// Judges one request.
    pub(super) fn new(record: &'a Record, settings: &Settings) -> Self {
        let tokenized = settings.tokenized.get(&record.index).copied();
        let told = record.tokens_seen.filter(|_| record.events > 0);
        let output = record.counts.output.or(tokenized).or(told);
        let fate = match &record.outcome {
            Outcome::CutOff => Fate::CutOff,
            Outcome::Failed(failure) => Fate::Failed(failure.form.to_string(), failure.message.clone()),
            Outcome::Completed => match complaint(record, output, settings) {
                Some((form, message)) => Fate::Failed(form.to_owned(), message),
                None => Fate::Completed,
            },
        };
        Self {
            record,
            fate,
            input: record.counts.input.unwrap_or(record.input),
            output,
        }
    }

    /// Whether it completed.
    pub(super) fn completed(&self) -> bool {
        self.fate == Fate::Completed
    }
}

/// What is wrong with an answer whose stream ended as it should: a form and a message.
fn complaint(record: &Record, output: Option<u64>, settings: &Settings) -> Option<(&'static str, String)> {
    let input = record.counts.input.filter(|_| settings.exact_input);
    if let Some(input) = input.filter(|input| *input != record.input) {
        let message = format!("the engine counted {input} tokens of input, not {}", record.input);
        return Some(("input_count", message));
    }
    if let Some(finish @ ("abort" | "error" | "cancelled")) = record.finish.as_deref() {
        return Some(("aborted", format!("the engine ended the answer with `{finish}`")));
    }
    let Some(output) = output else {
        return Some((
            "no_counts",
            "nobody could say how many tokens were generated".to_owned(),
        ));
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
