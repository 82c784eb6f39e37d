//! One prompt of the user's own, sent as it is: for probes by hand.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::handle::{Ensured, Trust};
use super::judge::clean;
use super::{Engine, Limits, Wire, protocol};
use crate::boundary::Point;
use crate::fault::{Fault, Kind, Result};
use crate::load::{Ask, End, ask};

/// Options of `engine.send`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SendOptions {
    /// Tokens to generate.
    pub output: u64,
    /// Seconds that the request may take.
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

/// What came back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendAnswer {
    /// Whether the stream ended as it should and said why.
    pub complete: bool,
    /// Tokens of the prompt, as the engine counted.
    pub input: Option<u64>,
    /// Tokens generated, as the engine counted.
    pub output: Option<u64>,
    /// Why the generation ended, in the engine's words.
    pub finish: Option<String>,
    /// What went wrong, in the engine's words where it has any.
    pub error: Option<String>,
    /// HTTP status of a refusal.
    pub http_status: Option<u16>,
    /// Time to first token.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first.
    pub tpot_ms: Option<f64>,
    /// From sending to the last token.
    pub e2el_ms: Option<f64>,
}

impl Engine {
    /// Sends a prompt to the engine, which is started where needed.
    ///
    /// # Errors
    ///
    /// `usage` for ids where the engine takes none; `engine` when no start serves the request.
    pub fn send(&self, prompt: &Wire, options: SendOptions) -> Result<SendAnswer> {
        let input = match prompt {
            Wire::Tokens(ids) => ids.len(),
            // No token of text is shorter than a byte.
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
        let asked = Limits::of_point(&point)?;
        let mut live = self.lock();
        if let Ensured::Failed(failure) = self.ensure(&mut live, asked)? {
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
        let request = Ask {
            url: running.server.url(&form.path)?,
            body: protocol::body(&form, prompt, running.info.model.as_deref())?,
            timeout,
        };
        let decoder = protocol::decoder(form.protocol);
        let answer = self
            .context
            .tasks
            .wait(async { Ok(ask(&self.client, request, decoder, &CancellationToken::new(), || {}).await) })?;
        live.trust = Trust::after(clean(&answer));
        self.end_requests(&mut live, clean(&answer))?;
        let (http_status, error) = match &answer.end {
            End::Complete => (None, answer.error.clone()),
            End::Status(status, body) => (Some(*status), Some(body.clone())),
            End::Broken(why) | End::Unreachable(why) | End::Malformed(why) => (None, Some(why.clone())),
            End::Deadline | End::GivenUp => (None, Some(format!("unfinished after {} s", options.timeout))),
        };
        Ok(SendAnswer {
            complete: clean(&answer),
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
