//! Sends a single prompt of the user to an engine, unchanged.

use serde::{Deserialize, Serialize};

use super::lifecycle::engine::Engine;
use super::lifecycle::ensure::{Ensured, ensure};
use super::lifecycle::memory::{begin_requests, end_requests};
use super::lifecycle::options::seconds;
use super::lifecycle::requests::{request, send_one};
use super::lifecycle::state::{Health, Live, Running};
use super::verdict::judge::succeeded;
use crate::fault::{Fault, Kind, Result};
use crate::load::FailureForm;
use crate::prompt::Content;
use crate::run::Limits;

/// Options of `engine.send`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SendOptions {
    /// Maximum tokens to generate.
    pub output: u64,
    /// Timeout in seconds.
    pub timeout: f64,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            output: 16,
            timeout: 600.0,
        }
    }
}

/// The response to `engine.send`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendAnswer {
    /// Whether the stream completed with a proper finish reason.
    pub complete: bool,
    /// Prompt tokens, as counted by the engine.
    pub input: Option<u64>,
    /// Output tokens, as counted by the engine.
    pub output: Option<u64>,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// The error, in the engine's words if it gave any.
    pub error: Option<String>,
    /// HTTP status of a rejected request.
    pub http_status: Option<u16>,
    /// Time to first token, in ms.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first, in ms.
    pub tpot_ms: Option<f64>,
    /// End-to-end latency, in ms.
    pub e2el_ms: Option<f64>,
}

/// The most tokens that a prompt may have.
pub(super) fn most_tokens(prompt: &Content) -> u64 {
    let most = match prompt {
        Content::Tokens(ids) => ids.len(),
        // A token of text has at least one byte.
        Content::Text(text) => text.len(),
    };
    most as u64
}

/// The engine, which serves a prompt of these limits and is about to get it. Starts it if needed.
///
/// # Errors
///
/// `engine` if no start serves the prompt.
pub(super) fn running_for_prompt<'a>(engine: &Engine, live: &'a mut Live, requested: Limits) -> Result<&'a Running> {
    if let Ensured::Failed(failure) = ensure(engine, live, requested)? {
        let reason = failure.evidence.message.unwrap_or_default();
        let message = format!("no start serves this prompt: {reason}");
        return Err(Fault::new(Kind::Engine, message));
    }
    begin_requests(engine, live)?;
    live.running
        .as_ref()
        .ok_or_else(|| Fault::internal("a prompt for an engine that does not run"))
}

/// Sends a prompt to the engine, starting it if needed.
///
/// # Errors
///
/// `usage` for token ids if the protocol takes none; `engine` if no start serves the request.
pub fn send(engine: &Engine, prompt: &Content, options: SendOptions) -> Result<SendAnswer> {
    let point = Limits::new(most_tokens(prompt), options.output, 1).point()?;
    let timeout = seconds("timeout", options.timeout)?;
    let requested = Limits::of_point(&point)?;
    let mut live = engine.lock();
    let running = running_for_prompt(engine, &mut live, requested)?;
    let form = request(engine, &point, Some(running))?;
    let record = send_one(engine, running, &form, prompt, requested, timeout)?;
    live.health = Health::after(succeeded(&record));
    end_requests(engine, &mut live, succeeded(&record))?;
    let failure = record.failure();
    let error = failure
        .filter(|_| !succeeded(&record))
        .map(|failure| match failure.form {
            FailureForm::Deadline => format!("unfinished after {} s", options.timeout),
            _ => failure.message.clone(),
        });
    Ok(SendAnswer {
        complete: succeeded(&record),
        input: record.counts.input,
        output: record.counts.output,
        error,
        http_status: failure.and_then(|failure| failure.form.status()),
        ttft_ms: record.ttft_ms(record.sent),
        tpot_ms: record.counts.output.and_then(|output| record.tpot_ms(output)),
        e2el_ms: record.e2el_ms(record.sent),
        finish: record.finish.map(Into::into),
    })
}
