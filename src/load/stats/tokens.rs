//! Token counts from three sources: the engine, the tokenizer on the whole text, and the events of the stream. Pure.
//!
//! They need not agree: text is not always tokenized the same way again, and an event may carry several tokens or part
//! of one. Throughput and TPOT use the engine's count; if the others differ, a warning states by how much.

use serde::{Deserialize, Serialize};

use super::Settings;
use super::request::EvaluatedRequest;
use crate::load::Counts;
use crate::warning::Warning;

/// Smaller differences cause no warning: the last token of an answer may have no text.
const TOLERANCE: f64 = 0.01;

/// Tokens of completed requests by source. `None`: not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// The engine's counts.
    pub engine: Counts,
    /// Generated tokens, by the tokenizer on the whole text.
    pub tokenizer: Option<u64>,
    /// Counts from the streams' events.
    pub events: EventTokens,
    /// Differences from the engine's count.
    pub disagreement: Disagreement,
}

/// Counts from the streams' events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTokens {
    /// Events with text or tokens.
    pub count: u64,
    /// Sum of the tokens they state, if every event states its number.
    pub tokens: Option<u64>,
}

/// Differences from the engine's count of generated tokens, as shares of it: the sum of absolute differences per
/// request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// The tokenizer's count.
    pub tokenizer: Option<f64>,
    /// The events' token count, or the number of events if they state no tokens.
    pub events: Option<f64>,
}

impl Tokens {
    pub(super) fn new(completed: &[&EvaluatedRequest<'_>], settings: &Settings) -> Self {
        let tokenized = |request: &EvaluatedRequest<'_>| settings.tokenized.get(&request.record.index).copied();
        let reported = |request: &EvaluatedRequest<'_>| request.record.tokens_seen;
        let events = |request: &EvaluatedRequest<'_>| Some(request.record.events);
        let tokens = sum(completed, reported);
        Self {
            engine: Counts {
                input: sum(completed, |request| request.record.counts.input),
                output: sum(completed, |request| request.record.counts.output),
            },
            tokenizer: sum(completed, tokenized),
            events: EventTokens {
                count: completed.iter().map(|request| request.record.events).sum(),
                tokens,
            },
            disagreement: Disagreement {
                tokenizer: difference(completed, tokenized),
                events: match tokens {
                    Some(_) => difference(completed, reported),
                    None => difference(completed, events),
                },
            },
        }
    }

    pub(super) fn warnings(&self, completed: &[&EvaluatedRequest<'_>]) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let uncounted = completed
            .iter()
            .filter(|request| request.record.counts.output.is_none())
            .count();
        if uncounted > 0 {
            let message = format!(
                "the engine did not count the tokens of {uncounted} of {} answers: `output_throughput`, `total_token_throughput` and \
                 `tpot_ms` are from the tokenizer or from event counts",
                completed.len()
            );
            warnings.push(Warning::new("uncounted_tokens", message).sized(uncounted as f64));
        }
        let Some(engine) = self.engine.output.filter(|output| *output > 0) else {
            return warnings;
        };
        // Answers of the length that was asked for are counted rightly: their text is only tokenized another way.
        let as_asked = |request: &&EvaluatedRequest<'_>| request.record.counts.output == Some(request.record.output);
        if let (Some(tokenizer), Some(difference)) = (self.tokenizer, self.disagreement.tokenizer)
            && difference > TOLERANCE
            && !completed.iter().all(as_asked)
        {
            let message = format!(
                "token counts disagree by {:.1} %: the engine counted {engine} tokens of output, the tokenizer {tokenizer} in the same texts; \
                 `output_throughput`, `total_token_throughput` and `tpot_ms` are by the engine's count",
                difference * 100.0
            );
            warnings.push(Warning::new("tokenizer_counts", message).sized(difference));
        }
        if let Some(difference) = self.disagreement.events.filter(|difference| *difference > TOLERANCE) {
            let warning = match self.events.tokens {
                Some(tokens) => Warning::new(
                    "event_counts",
                    format!(
                        "token counts disagree by {:.1} %: the engine counted {engine} tokens of output, its events {tokens}; \
                         `output_throughput`, `total_token_throughput` and `tpot_ms` are by the engine's count",
                        difference * 100.0
                    ),
                ),
                None => Warning::new(
                    "several_tokens_an_event",
                    format!(
                        "{} events carried {engine} tokens: `itl_ms` is the gap between events, which is not the gap between tokens; `tpot_ms` is",
                        self.events.count
                    ),
                ),
            };
            warnings.push(warning.sized(difference));
        }
        warnings
    }
}

/// The sum over all requests; `None` if any has no count.
fn sum(completed: &[&EvaluatedRequest<'_>], metric: impl Fn(&EvaluatedRequest<'_>) -> Option<u64>) -> Option<u64> {
    let counts: Option<Vec<u64>> = completed.iter().map(|request| metric(request)).collect();
    counts
        .filter(|counts| !counts.is_empty())
        .map(|counts| counts.iter().sum())
}

/// The difference of a count from the engine's, over the requests that have both.
fn difference(
    completed: &[&EvaluatedRequest<'_>],
    metric: impl Fn(&EvaluatedRequest<'_>) -> Option<u64>,
) -> Option<f64> {
    let both = completed
        .iter()
        .filter_map(|request| request.record.counts.output.zip(metric(request)));
    let (differences, engine) = both.fold((0, 0), |(differences, all), (engine, other)| {
        (differences + engine.abs_diff(other), all + engine)
    });
    (engine > 0).then(|| differences as f64 / engine as f64)
}
