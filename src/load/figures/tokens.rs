//! Tokens counted three ways: by the engine, by the tokenizer on the whole text, and by the events of the stream. Pure.
//!
//! They answer different questions and need not agree: text is not always cut into the same tokens again, and an event may carry several
//! tokens or a part of one. Throughput and TPOT are by the engine's count; where the others differ, a warning says by how much.

use serde::{Deserialize, Serialize};

use super::Settings;
use super::judged::Judged;

/// Differences up to this share are not worth a warning: the last token of an answer may be one that has no text.
const AGREED: f64 = 0.01;

/// Tokens of completed requests by who counted them. `None`: nobody did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// By the engine.
    pub engine: Engine,
    /// Generated, by the tokenizer on the whole text.
    pub tokenizer: Option<u64>,
    /// By the events of the streams.
    pub events: Events,
    /// How far the others are from the engine.
    pub disagreement: Disagreement,
}

/// What the engine counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Tokens of prompts.
    pub input: Option<u64>,
    /// Tokens generated.
    pub output: Option<u64>,
}

/// What events brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// Events that carried text or tokens.
    pub count: u64,
    /// Tokens in them, where each told how many.
    pub tokens: Option<u64>,
}

/// Shares of the engine's count of generated tokens: the differences of single requests, added up without their signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// Of the tokenizer.
    pub tokenizer: Option<f64>,
    /// Of the tokens that events told, or, where they told none, of the number of events.
    pub events: Option<f64>,
}

impl Tokens {
    /// Of completed requests.
    pub(super) fn of(completed: &[&Judged<'_>], settings: &Settings) -> Self {
        let tokenized = |judged: &Judged<'_>| settings.tokenized.get(&judged.record.index).copied();
        let told = |judged: &Judged<'_>| judged.record.tokens_seen;
        let events = |judged: &Judged<'_>| Some(judged.record.events);
        let tokens = sum(completed, told);
        Self {
            engine: Engine {
                input: sum(completed, |judged| judged.record.counts.input),
                output: sum(completed, |judged| judged.record.counts.output),
            },
            tokenizer: sum(completed, tokenized),
            events: Events {
                count: completed.iter().map(|judged| judged.record.events).sum(),
                tokens,
            },
            disagreement: Disagreement {
                tokenizer: apart(completed, tokenized),
                events: match tokens {
                    Some(_) => apart(completed, told),
                    None => apart(completed, events),
                },
            },
        }
    }

    /// What the reader must know.
    pub(super) fn warnings(&self, completed: &[&Judged<'_>]) -> Vec<String> {
        let mut warnings = Vec::new();
        let uncounted = completed
            .iter()
            .filter(|judged| judged.record.counts.output.is_none())
            .count();
        if uncounted > 0 {
            warnings.push(format!(
                "the engine did not count the tokens of {uncounted} of {} answers: `output_throughput`, `total_token_throughput` and \
                 `tpot_ms` are by the tokenizer or by what events told",
                completed.len()
            ));
        }
        let Some(engine) = self.engine.output.filter(|output| *output > 0) else {
            return warnings;
        };
        if let (Some(tokenizer), Some(apart)) = (self.tokenizer, self.disagreement.tokenizer)
            && apart > AGREED
        {
            warnings.push(format!(
                "token counts disagree by {:.1} %: the engine counted {engine} tokens of output, the tokenizer {tokenizer} in the same texts; \
                 `output_throughput`, `total_token_throughput` and `tpot_ms` are by the engine's count",
                apart * 100.0
            ));
        }
        if let Some(apart) = self.disagreement.events.filter(|apart| *apart > AGREED) {
            warnings.push(match self.events.tokens {
                Some(tokens) => format!(
                    "token counts disagree by {:.1} %: the engine counted {engine} tokens of output, its events told of {tokens}; \
                     `output_throughput`, `total_token_throughput` and `tpot_ms` are by the engine's count",
                    apart * 100.0
                ),
                None => format!(
                    "{} events carried {engine} tokens: `itl_ms` is the gap between events, which is not the gap between tokens; `tpot_ms` is",
                    self.events.count
                ),
            });
        }
        warnings
    }
}

/// The sum of counts of all requests; `None` where any of them has none.
fn sum(completed: &[&Judged<'_>], of: impl Fn(&Judged<'_>) -> Option<u64>) -> Option<u64> {
    let counts: Option<Vec<u64>> = completed.iter().map(|judged| of(judged)).collect();
    counts
        .filter(|counts| !counts.is_empty())
        .map(|counts| counts.iter().sum())
}

/// How far a count is from the engine's, over the requests that have both.
fn apart(completed: &[&Judged<'_>], of: impl Fn(&Judged<'_>) -> Option<u64>) -> Option<f64> {
    let both = completed
        .iter()
        .filter_map(|judged| judged.record.counts.output.zip(of(judged)));
    let (differences, engine) = both.fold((0, 0), |(differences, all), (engine, other)| {
        (differences + engine.abs_diff(other), all + engine)
    });
    (engine > 0).then(|| differences as f64 / engine as f64)
}
