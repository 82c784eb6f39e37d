//! Per-request results, for exports that list every request. Pure.

use super::Settings;
use super::latency::{e2el_ms, ttft_ms};
use super::request::{EvaluatedRequest, RequestResult};
use crate::load::Record;

/// The results of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestStats<'a> {
    /// Prompt tokens: the engine's count, otherwise the requested number.
    pub input: u64,
    /// Output tokens: the engine's count, otherwise the tokenizer's, otherwise the sum stated by events.
    pub output: Option<u64>,
    /// Time to first token, from sending.
    pub ttft_ms: Option<f64>,
    /// E2E latency, from sending.
    pub e2el_ms: Option<f64>,
    /// ITL: times between events with text or tokens.
    pub itl_ms: &'a [f32],
    /// When it was sent, seconds since the start of the load.
    pub sent: f64,
    /// Seconds from when it was due until it was sent.
    pub queued: f64,
    /// The full text, if it was kept.
    pub text: Option<&'a str>,
    /// Why it did not complete; `None` if it did.
    pub error: Option<String>,
}

/// The requests of a load without its warm-up, in the order in which they were sent.
#[must_use]
pub fn request_stats<'a>(records: &'a [Record], settings: &Settings) -> Vec<RequestStats<'a>> {
    let mut measured: Vec<&Record> = records.iter().filter(|record| !record.warmup).collect();
    measured.sort_unstable_by_key(|record| (record.sent, record.index));
    measured
        .into_iter()
        .map(|record| RequestStats::new(EvaluatedRequest::new(record, settings)))
        .collect()
}

impl<'a> RequestStats<'a> {
    fn new(request: EvaluatedRequest<'a>) -> Self {
        let record = request.record;
        Self {
            input: request.input,
            output: request.output,
            ttft_ms: ttft_ms(record, record.sent),
            e2el_ms: e2el_ms(record, record.sent),
            itl_ms: &record.itl_ms,
            sent: record.sent.as_secs_f64(),
            queued: record.sent.saturating_sub(record.scheduled).as_secs_f64(),
            text: record.text.as_deref(),
            error: match request.result {
                RequestResult::Completed => None,
                RequestResult::Failed(form, message) => Some(format!("{form}: {message}")),
                RequestResult::CutOff => Some("cut off at the end of the load".to_owned()),
            },
        }
    }
}
