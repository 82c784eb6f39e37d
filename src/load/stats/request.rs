//! One request: its result (completed, failed, or cut off), its latencies, and failures by kind; and the token counts
//! of all requests. Pure.
//!
//! vLLM's bench counts every request as a success if its stream had a first event, however few tokens followed. Here a
//! request is completed only if its stream ended properly. An answer with fewer tokens than requested costs less work;
//! it counts with the tokens that it has, and a warning says how many are short.
//!
//! Latencies are in milliseconds, as defined by vLLM's bench (`vllm/benchmarks/serve.py` and
//! `lib/endpoint_request_func.py`, 0.33.0). Service time starts when the request was sent; vLLM's bench reports this.
//! Response time starts when the request was due, so that a request that waited for its turn does not look fast
//! (coordinated omission).
//!
//! Token counts come from three sources: the engine, the tokenizer on the whole text, and the events of the stream.
//! They need not agree: text is not always tokenized the same way again, and an event may carry several tokens or part
//! of one. Throughput and TPOT use the engine's count; if the others differ, a warning states by how much.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Settings;
use crate::fmt::Count;
use crate::load::{Counts, RequestOutcome, RequestRecord};
use crate::prompt::is_near;
use crate::warning::Warning;

/// A request with its result.
#[derive(Clone, Debug)]
pub struct EvaluatedRequest<'a> {
    /// Its record.
    pub record: &'a RequestRecord,
    pub(super) result: RequestResult,
    /// Prompt tokens: the engine's count, otherwise the requested number.
    pub input: u64,
    /// Output tokens: the engine's count, otherwise the tokenizer's, otherwise the sum stated by events, otherwise the
    /// requested number if the text ended at its length, otherwise the number of events.
    pub output: Option<u64>,
}

pub(super) type Evaluated<'a> = &'a EvaluatedRequest<'a>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestResult {
    Completed,
    /// The kind of failure and its message.
    Failed(String, String),
    CutOff,
}

impl<'a> EvaluatedRequest<'a> {
    /// Every request of a load, in sending order.
    pub fn all(records: &'a [RequestRecord], settings: &Settings) -> Vec<Self> {
        let mut sent: Vec<&RequestRecord> = records.iter().collect();
        sent.sort_unstable_by_key(|record| (record.sent, record.index));
        sent.into_iter().map(|record| Self::new(record, settings)).collect()
    }

    pub(super) fn new(record: &'a RequestRecord, settings: &Settings) -> Self {
        let tokenized = settings.tokenized.get(&record.index).copied();
        let reported = record.tokens_seen.filter(|_| record.events > 0).map(u64::from);
        let full = record.ended_at_length().then_some(record.output);
        let events = Some(u64::from(record.events)).filter(|events| *events > 0);
        let output = record.counts.output.or(tokenized).or(reported).or(full).or(events);
        let result = match &record.outcome {
            RequestOutcome::CutOff => RequestResult::CutOff,
            RequestOutcome::Failed(failure) => RequestResult::Failed(failure.form.to_string(), failure.message.clone()),
            RequestOutcome::Completed => match validate(record, settings) {
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

    /// Whether it completed.
    pub fn completed(&self) -> bool {
        self.result == RequestResult::Completed
    }

    /// Whether its answer has fewer tokens than requested.
    pub(super) fn is_short(&self, settings: &Settings) -> bool {
        let asked = self.record.output;
        settings.exact
            && self
                .output
                .is_some_and(|output| !settings.tolerance.admits(output, asked))
    }

    /// How often the server rejected it.
    pub(super) fn rejections(&self) -> u64 {
        let failed = self.record.failure().and_then(|failure| failure.form.status());
        u64::from(self.record.rejections) + u64::from(matches!(failed, Some(429 | 503)))
    }

    /// Why it did not complete; empty if it did.
    pub fn error(&self) -> String {
        match &self.result {
            RequestResult::Completed => String::new(),
            RequestResult::Failed(form, message) => format!("{form}: {message}"),
            RequestResult::CutOff => "cut off at the end of the load".to_owned(),
        }
    }
}

/// The defect of a response whose stream ended properly: the kind of failure and its message.
fn validate(record: &RequestRecord, settings: &Settings) -> Option<(&'static str, String)> {
    let input = record.counts.input.filter(|_| settings.exact);
    if let Some(input) = input.filter(|input| !is_near(*input, record.input)) {
        let message = format!("the engine counted {input} tokens of input, not {}", record.input);
        return Some(("input_count", message));
    }
    if let Some(finish @ ("abort" | "error" | "cancelled")) = record.finish.as_deref() {
        return Some(("aborted", format!("the engine ended the answer with `{finish}`")));
    }
    if record.first_token.is_none() && !record.is_all_hidden() {
        let message = "the stream ended without an event that carried text or tokens";
        return Some(("ended_early", message.to_owned()));
    }
    None
}

/// Maximum number of characters kept of a message.
const MAX_MESSAGE: usize = 500;

/// Failures of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Number of requests.
    pub count: u64,
    /// Message of the first one.
    pub message: String,
}

/// Counts failures by kind: `status_429`, `in_stream`, `broken`, `unreachable`, `deadline`, `ended_early`, `malformed`;
/// and for complete streams with a wrong answer `input_count`, `aborted`.
pub(super) fn by_form(issued: &[Evaluated<'_>]) -> BTreeMap<String, Failures> {
    let mut forms: BTreeMap<String, Failures> = BTreeMap::new();
    for request in issued {
        if let RequestResult::Failed(form, message) = &request.result {
            let failures = forms.entry(form.clone()).or_insert_with(|| Failures {
                count: 0,
                message: message.chars().take(MAX_MESSAGE).collect(),
            });
            failures.count += 1;
        }
    }
    forms
}

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
    /// Generated tokens that no user sees: thoughts and the arguments of tool calls. `None` if nothing says how many.
    #[serde(default)]
    pub hidden: Option<u64>,
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
    pub(super) fn new(completed: &[Evaluated<'_>], settings: &Settings) -> Self {
        let tokenized = |request: &EvaluatedRequest<'_>| settings.tokenized.get(&request.record.index).copied();
        let reported = |request: &EvaluatedRequest<'_>| request.record.tokens_seen.map(u64::from);
        let events = |request: &EvaluatedRequest<'_>| {
            let unstreamed = request.record.unstreamed();
            Some(u64::from(request.record.events) + unstreamed.min(request.output.unwrap_or_default()))
        };
        let tokens = sum(completed, reported);
        Self {
            engine: Counts {
                input: sum(completed, |request| request.record.counts.input),
                output: sum(completed, |request| request.record.counts.output),
            },
            tokenizer: sum(completed, tokenized),
            events: EventTokens {
                count: completed.iter().map(|request| u64::from(request.record.events)).sum(),
                tokens,
            },
            hidden: sum(completed, hidden),
            disagreement: Disagreement {
                tokenizer: difference(completed, tokenized),
                events: match tokens {
                    Some(_) => difference(completed, reported),
                    None => difference(completed, events),
                },
            },
        }
    }

    pub(super) fn warnings(&self, completed: &[Evaluated<'_>]) -> Vec<Warning> {
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
        // Answers of the requested length are counted correctly: their text only tokenizes differently.
        let as_asked = |request: &Evaluated<'_>| request.record.counts.output == Some(request.record.output);
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
                        "{} events carried {engine} tokens: `itl_ms` is the time between events, and the time between tokens is not known",
                        self.events.count
                    ),
                ),
            };
            warnings.push(warning.sized(difference));
        }
        warnings
    }
}

/// Output tokens of a request that no user sees: as the engine states, or else those of the events without such text if
/// each event carries one.
fn hidden(request: &EvaluatedRequest<'_>) -> Option<u64> {
    let record = request.record;
    let unseen = u64::from(record.events.saturating_sub(record.visible_events));
    let one_each = unseen == 0 || request.output == Some(u64::from(record.events));
    record.reasoning.map(u64::from).or(one_each.then_some(unseen))
}

/// Warnings about how the completed requests ended, and about what they hide.
pub(super) fn warnings(completed: &[Evaluated<'_>], settings: &Settings) -> Vec<Warning> {
    let all = completed.len();
    let count =
        |which: &dyn Fn(&RequestRecord) -> bool| completed.iter().filter(|request| which(request.record)).count();
    let mut warnings = Vec::new();
    let mut add = |code: &'static str, number: usize, message: String| {
        if number > 0 {
            warnings.push(Warning::new(code, message).sized(number as f64));
        }
    };
    let short: Vec<Evaluated<'_>> = completed
        .iter()
        .copied()
        .filter(|request| request.is_short(settings))
        .collect();
    let lengths: Vec<u64> = short.iter().filter_map(|request| request.output).collect();
    let asked = short
        .iter()
        .map(|request| request.record.output)
        .max()
        .unwrap_or_default();
    let ended = match (lengths.iter().min(), lengths.iter().max()) {
        (Some(least), Some(most)) if least == most => format!("after {most} tokens"),
        (Some(least), Some(most)) => format!("after {least} to {most} tokens"),
        _ => String::new(),
    };
    add(
        "short_answers",
        short.len(),
        format!(
            "{} of {} ended {ended}, and up to {asked} were asked for: throughput and latency are of the tokens that came; `output_tolerance`              admits shorter answers",
            short.len(),
            Count(all, "answer")
        ),
    );
    let unfinished = count(&|record| record.no_finish);
    add(
        "no_finish_reason",
        unfinished,
        format!(
            "the server gave no finish reason in {unfinished} of {}: they count as complete by their length or their counts",
            Count(all, "answer")
        ),
    );
    let held = count(&|record| record.held_open);
    add(
        "held_open",
        held,
        format!(
            "the server held the stream open after {held} of {}: they ended at their last event, and the client closed the connection",
            Count(all, "answer")
        ),
    );
    let unstreamed: u64 = completed.iter().map(|request| request.record.unstreamed()).sum();
    let output: u64 = completed.iter().filter_map(|request| request.output).sum();
    add(
        "hidden_tokens",
        usize::try_from(unstreamed).unwrap_or(usize::MAX),
        format!(
            "{unstreamed} of {output} output tokens are thoughts that were not sent: `ttft_ms` is the time to the first token that was, and              `tpot_ms` is of the tokens after it"
        ),
    );
    warnings
}

/// The sum over all requests; `None` if any has no count.
fn sum(completed: &[Evaluated<'_>], metric: impl Fn(&EvaluatedRequest<'_>) -> Option<u64>) -> Option<u64> {
    let counts: Option<Vec<u64>> = completed.iter().map(|request| metric(request)).collect();
    counts
        .filter(|counts| !counts.is_empty())
        .map(|counts| counts.iter().sum())
}

/// The difference of a count from the engine's, over the requests that have both.
fn difference(completed: &[Evaluated<'_>], metric: impl Fn(&EvaluatedRequest<'_>) -> Option<u64>) -> Option<f64> {
    let both = completed
        .iter()
        .filter_map(|request| request.record.counts.output.zip(metric(request)));
    let (differences, engine) = both.fold((0, 0), |(differences, all), (engine, other)| {
        (differences + engine.abs_diff(other), all + engine)
    });
    (engine > 0).then(|| differences as f64 / engine as f64)
}
