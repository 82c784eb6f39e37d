//! What the figures say of each request on its own: for whoever writes them down one by one. Pure.

use super::Settings;
use super::judged::{Fate, Judged};
use super::latency::{e2el_ms, ttft_ms};
use crate::load::Record;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// Tokens of its prompt: by the engine, else as asked.
    pub input: u64,
    /// Tokens of its answer: by the engine, else by the tokenizer, else by events that each told how many.
    pub output: Option<u64>,
    /// From sending to the first token.
    pub ttft_ms: Option<f64>,
    /// From sending to the last token.
    pub e2el_ms: Option<f64>,
    /// Between events that carry text or tokens.
    pub gaps_ms: &'a [f32],
    /// When it was sent, seconds by the load's clock.
    pub sent: f64,
    /// From when it was due to when it was sent, seconds.
    pub queued: f64,
    /// The whole text, where it was kept.
    pub text: Option<&'a str>,
    /// Why it did not complete; `None`: it did.
    pub error: Option<String>,
}

/// The requests of a load without its warm-up, in the order in which they were sent.
#[must_use]
pub fn requests<'a>(records: &'a [Record], settings: &Settings) -> Vec<Request<'a>> {
    let mut measured: Vec<&Record> = records.iter().filter(|record| !record.warmup).collect();
    measured.sort_unstable_by_key(|record| (record.sent, record.index));
    measured
        .into_iter()
        .map(|record| Request::of(Judged::new(record, settings)))
        .collect()
}

impl<'a> Request<'a> {
    fn of(judged: Judged<'a>) -> Self {
        let record = judged.record;
        Self {
            input: judged.input,
            output: judged.output,
            ttft_ms: ttft_ms(record, record.sent),
            e2el_ms: e2el_ms(record, record.sent),
            gaps_ms: &record.gaps_ms,
            sent: record.sent.as_secs_f64(),
            queued: record.sent.saturating_sub(record.scheduled).as_secs_f64(),
            text: record.text.as_deref(),
            error: match judged.fate {
                Fate::Completed => None,
                Fate::Failed(form, message) => Some(format!("{form}: {message}")),
                Fate::CutOff => Some("cut off when the load was over".to_owned()),
            },
        }
    }
}
