//! Sends a single prompt of the user's own, unchanged.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::handle::{Ensured, Health};
use super::judge::succeeded;
use super::{Engine, Limits, Wire, protocol};
use crate::boundary::Point;
use crate::fault::{Fault, Kind, Result};
use crate::load::{StreamEnd, StreamRequest, send_streaming};

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

impl Engine {
    /// Sends a prompt to the engine, starting it if needed.
    ///
    /// # Errors
    ///
    /// `usage` for token ids if the protocol takes none; `engine` if no start serves the request.
    pub fn send(&self, prompt: &Wire, options: SendOptions) -> Result<SendAnswer> {
        let input = match prompt {
            Wire::Tokens(ids) => ids.len(),
            // A token of text has at least one byte.
            Wire::Text(text) => text.len(),
        };
        let whole = |count: u64| i64::try_from(count).map_err(|_| Fault::usage(format!("`{count}` is too large")));
        let point = Point::default()
            .with("input", whole(input as u64)?)
            .with("output", whole(options.output)?);
        let timeout = Duration::try_from_secs_f64(options.timeout).map_err(|_| {
            Fault::usage(format!(
                "option `timeout` is {}, not a number of seconds",
                options.timeout
            ))
        })?;
        let requested = Limits::of_point(&point)?;
        let mut live = self.lock();
        if let Ensured::Failed(failure) = self.ensure(&mut live, requested)? {
            let message = failure.evidence.message.unwrap_or_default();
            return Err(Fault::new(
                Kind::Engine,
                format!("no start serves this prompt: {message}"),
            ));
        }
        self.begin_requests(&mut live)?;
        let running = live
            .running
            .as_ref()
            .ok_or_else(|| Fault::internal("a prompt for an engine that does not run"))?;
        let form = self.adapter.request(&point, running.limits.as_ref())?;
        let request = StreamRequest {
            url: running.server.url(&form.path)?,
            body: protocol::body(&form, prompt, running.info.model.as_deref())?,
            timeout,
        };
        let decoder = protocol::decoder(form.protocol);
        let answer = self.context.tasks.wait(async {
            Ok(send_streaming(&self.client, request, decoder, &CancellationToken::new(), || {}).await)
        })?;
        live.health = Health::after(succeeded(&answer));
        self.end_requests(&mut live, succeeded(&answer))?;
        let (http_status, error) = match &answer.end {
            StreamEnd::Complete => (None, answer.error.clone()),
            StreamEnd::Status(status, body) => (Some(*status), Some(body.clone())),
            StreamEnd::Broken(why) | StreamEnd::Unreachable(why) | StreamEnd::Malformed(why) => {
                (None, Some(why.clone()))
            }
            StreamEnd::Deadline | StreamEnd::Cancelled => {
                (None, Some(format!("unfinished after {} s", options.timeout)))
            }
        };
        Ok(SendAnswer {
            complete: succeeded(&answer),
            input: answer.counts.input,
            output: answer.counts.output,
            error,
            http_status,
            ttft_ms: answer.timing.ttft_ms(),
            tpot_ms: answer.counts.output.and_then(|output| answer.timing.tpot_ms(output)),
            e2el_ms: answer.timing.e2el_ms(),
            finish: answer.finish,
        })
    }
}
