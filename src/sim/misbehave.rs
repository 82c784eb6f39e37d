//! Misbehaviour that tests can request from the simulated engine: wrong answers, and failures with given messages.
//! Everything is off by default.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::handle::Exit;
use crate::fault::{Fault, Result};

/// Misbehaviours; several can be combined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Misbehave {
    /// The first N requests of each start succeed. Default: 0.
    pub after: Option<u64>,
    /// From then on, every Nth request fails. Default: 1.
    pub every: Option<u64>,
    /// The process dies (exit code 1, connections reset) after this many tokens of a stream.
    pub die_mid_stream: Option<u64>,
    /// A stream stays open and silent after this many tokens.
    pub hang: Option<u64>,
    /// The first N generation requests are answered with status 429.
    pub refuse_429: Option<u64>,
    /// The output ends after this many tokens with `finish_reason` `stop`.
    pub end_early: Option<u64>,
    /// The output is clipped to this many tokens with `finish_reason` `length`.
    pub clip: Option<u64>,
    /// Requests wait and are never scheduled.
    pub starve: bool,
    /// Every event carries two tokens.
    pub two_tokens: bool,
    /// After this many tokens an error event is sent, then `[DONE]` if the API has it. The process stays alive.
    pub error_then_done: Option<u64>,
    /// The connection is closed in the middle of the answer, after this many tokens. The process stays alive.
    pub break_off: Option<u64>,
    /// The answer ends after this many tokens without a final event.
    pub end_silently: Option<u64>,
    /// The port is in use: the start fails as the engine's would.
    pub busy_port: bool,
    /// Seconds of real time before the start continues, regardless of the time scale.
    pub slow_start: Option<f64>,
    /// SIGTERM is ignored; [`stop`](super::SimHandle::stop) then waits for its grace period.
    pub ignore_sigterm: bool,
    /// Reported exit code, whatever happened: 0 after a crash, 137 without a kill.
    pub exit_code: Option<i32>,
    /// The start fails with these messages. Not available on the command line.
    pub fail_start: Option<FailedStart>,
    /// Requests fail with these messages. Not available on the command line.
    pub fail_request: Option<FailedRequest>,
}

/// Kinds accepted on the command line: what their number means, and its default; none: they take no number.
const KINDS: [(&str, Option<(&str, u32)>); 16] = [
    ("after", Some(("requests", 1))),
    ("every", Some(("requests", 1))),
    ("die_mid_stream", Some(("tokens before", 1))),
    ("hang", Some(("tokens before", 1))),
    ("refuse_429", Some(("requests", 1))),
    ("end_early", Some(("tokens", 1))),
    ("clip", Some(("tokens", 1))),
    ("starve", None),
    ("two_tokens", None),
    ("error_then_done", Some(("tokens before", 1))),
    ("break_off", Some(("tokens before", 1))),
    ("end_silently", Some(("tokens before", 1))),
    ("busy_port", None),
    ("slow_start", Some(("seconds", 5))),
    ("ignore_sigterm", None),
    ("exit_code", Some(("status", 0))),
];

impl Misbehave {
    /// Whether the request with this number, from 1, misbehaves.
    pub fn applies_to(&self, number: u64) -> bool {
        let later = number.checked_sub(self.after.unwrap_or(0));
        later.is_some_and(|later| later > 0 && later.is_multiple_of(self.every.unwrap_or(1).max(1)))
    }

    /// Adds one `KIND` or `KIND:n` of the command line.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let (kind, number) = match text.split_once(':') {
            Some((kind, number)) => (kind, Some(number)),
            None => (text, None),
        };
        let Some((_, default)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            let known = KINDS.map(|(name, number)| match number {
                Some((meaning, default)) => format!("{name} ({meaning}, {default})"),
                None => format!("{name} (no number)"),
            });
            return Err(
                Fault::usage(format!("unknown misbehaviour `{kind}`")).hint(format!("one of: {}", known.join(", ")))
            );
        };
        let value = match (number, default) {
            (None, None) => json!(true),
            (None, Some((_, default))) => json!(default),
            (Some(text), None) => {
                return Err(Fault::usage(format!(
                    "misbehaviour `{kind}` takes no number, not `{text}`"
                )));
            }
            // What is no number is refused below.
            (Some(text), Some(_)) => text.parse().unwrap_or(json!(text)),
        };
        let mut all = serde_json::to_value(&*self).map_err(Fault::internal)?;
        all[kind] = value;
        *self = serde_json::from_value(all).map_err(|_| {
            let number = number.unwrap_or_default();
            Fault::usage(format!("misbehaviour `{kind}`: `{number}` is not a valid number"))
        })?;
        Ok(())
    }
}

/// A start that fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedStart {
    /// The start goes well up to the first log line containing this text. Empty: it fails at once.
    #[serde(default)]
    pub after: String,
    /// Lines logged at the failure.
    pub log: Vec<String>,
    /// Exit status of the process.
    #[serde(default)]
    pub ending: Exit,
}

/// Requests that fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailedRequest {
    /// Only requests with more tokens (input and output) than this fail.
    pub longer_than: u64,
    /// Tokens streamed before the failure.
    pub after: u64,
    /// Lines logged at the failure.
    pub log: Vec<String>,
    /// Error message in the stream. None: the stream stays open and silent.
    pub message: Option<String>,
    /// If set, every request gets this HTTP status with `message` as body, whatever its length.
    pub status: Option<u16>,
    /// Effect on the engine.
    pub then: AfterFailure,
    /// Exit status, if the process exits.
    pub ending: Exit,
}

/// Effect of a failed request on the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterFailure {
    /// It keeps serving.
    #[default]
    Lives,
    /// The process stays alive, and every route answers 503.
    Dead,
    /// The process exits.
    Exits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_accepted_with_and_without_its_number() {
        let mut all = Misbehave::default();
        for (kind, number) in KINDS {
            all.add(kind).unwrap();
            assert_eq!(all.add(&format!("{kind}:3")).is_ok(), number.is_some(), "{kind}");
        }
        assert_eq!(all.hang, Some(3));
        assert_eq!(all.slow_start, Some(3.0));
        assert!(all.two_tokens && all.busy_port && all.ignore_sigterm);
    }

    #[test]
    fn after_and_every_select_requests() {
        let selected = |after, every| {
            let misbehave = Misbehave {
                after,
                every,
                ..Misbehave::default()
            };
            (1..=9)
                .filter(|number| misbehave.applies_to(*number))
                .collect::<Vec<_>>()
        };
        assert_eq!(selected(None, None).len(), 9);
        assert_eq!(selected(Some(7), None), [8, 9]);
        assert_eq!(selected(None, Some(4)), [4, 8]);
        assert_eq!(selected(Some(3), Some(2)), [5, 7, 9]);
    }

    #[test]
    fn an_unknown_kind_lists_the_known_ones() {
        let fault = Misbehave::default().add("explode").unwrap_err();
        assert!(fault.message.contains("`explode`"));
        assert!(fault.hint.unwrap().contains("die_mid_stream"));
    }
}
