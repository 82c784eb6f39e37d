//! Verdicts of a probe, the answers to record, and their effect on the boundary.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{BoundsReport, Cause, Effect, Point, Scalar};
use crate::error::{Error, Result, name_hint};
use crate::names;

/// The verdict of one probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Verified: counts, end of stream and residency are as requested.
    Ok,
    /// Memory ran out: `cuda`, `host` or `allocator`.
    Oom,
    /// The engine refused the request: `memory`, `kv_cache` or `length_limit`.
    Refused,
    /// The engine survived by preempting sequences.
    Preempted,
    /// The engine ran fewer requests concurrently than were sent.
    Queued,
    /// The engine did not become ready; `memory` is one of the causes.
    StartFailed,
    /// No answer in time, for an unknown reason.
    Timeout,
    /// The text ended before the requested length.
    ShortOutput,
    /// Not sent, and no engine started for it: the engine's own report rules it out.
    NotSent,
    /// Anything unclear. Never counts as a lack of memory.
    #[default]
    Error,
}

names!(Verdict {
    Ok "ok",
    Oom "oom",
    Refused "refused",
    Preempted "preempted",
    Queued "queued",
    StartFailed "start_failed",
    Timeout "timeout",
    ShortOutput "short_output",
    NotSent "not_sent",
    Error "error",
});

impl Verdict {
    /// The verdict with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|verdict| verdict.name() == name)
    }

    /// The effect of this verdict at its point.
    ///
    /// `refused` without a cause counts as memory, because a script that answers with the bare word means that. A
    /// `length_limit` has no effect here; it excludes the harder points instead. `short_output` proves only the output
    /// that was produced.
    #[must_use]
    pub fn moves(self, cause: Option<&Cause>, overload: Overload) -> Moves {
        match self {
            Verdict::Ok => Moves::Fits,
            Verdict::Oom => Moves::Fails,
            Verdict::Refused => match cause.map(Cause::effect) {
                None | Some(Effect::Memory) => Moves::Fails,
                Some(Effect::Length | Effect::Untested | Effect::None) => Moves::None,
            },
            Verdict::Preempted | Verdict::Queued => match overload {
                Overload::Fails => Moves::Fails,
                Overload::Fits => Moves::Fits,
            },
            Verdict::StartFailed => match cause {
                Some(Cause::Memory) => Moves::Fails,
                _ => Moves::None,
            },
            Verdict::NotSent => Moves::Bounds,
            Verdict::Error => match (cause.map(Cause::effect), overload) {
                // Served, though not all at once: enough where surviving is.
                (Some(Effect::Untested), Overload::Fits) => Moves::Fits,
                _ => Moves::None,
            },
            Verdict::Timeout | Verdict::ShortOutput => Moves::None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a preempted or queued point counts as fitting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overload {
    /// A point that was served only by preempting or queueing does not fit.
    #[default]
    Fails,
    /// It fits: surviving is enough.
    Fits,
}

/// The effect of an answer on the boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moves {
    /// The point and every easier one fits.
    Fits,
    /// The point and every harder one fails.
    Fails,
    /// The engine's own report rules out the point and every harder one: the search ends there, and nothing is proven.
    Bounds,
    /// No effect.
    #[default]
    None,
}

names!(Moves { Fits "fits", Fails "fails", Bounds "bounds", None "none", });

/// An answer to record: a bare verdict, or a probe's whole result.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The cause, if known.
    pub cause: Option<Cause>,
    /// The coordinates by the engine's own count, if they differ from the point's: see [`super::Boundary::record`].
    pub counted: Option<Point>,
    /// Output tokens produced, if counted. A `short_output` proves that many.
    pub output: Option<i64>,
    /// Log lines, exit code, memory: whatever the prober recorded.
    pub evidence: Option<Value>,
    /// The bounds that the engine itself reports, if any.
    pub report: Option<BoundsReport>,
    /// The effect of the point if it ended a server that we had attached to, and nothing else is known about it.
    pub crash: Option<Moves>,
}

impl Answer {
    /// Reads a verdict's name, or a map with `verdict` and optionally `cause`, `counted`, `output`, `evidence` and `report`.
    /// With `crash: "fails"`, a point whose evidence has `ended_server` counts as failing. Other keys are ignored.
    pub fn parse(value: &Value) -> Result<Self> {
        let hint = "answer with a verdict such as \"ok\" or \"oom\", or with a map that has `verdict`";
        let (name, map) = match value {
            Value::String(name) => (name.as_str(), None),
            Value::Object(map) => match map.get("verdict") {
                Some(Value::String(name)) => (name.as_str(), Some(map)),
                Some(other) => return Err(Error::usage(format!("`{other}` is not a verdict")).hint(hint)),
                None => return Err(Error::usage("the answer has no `verdict`").hint(hint)),
            },
            other => return Err(Error::usage(format!("`{other}` is not the answer to a probe")).hint(hint)),
        };
        let verdict = Verdict::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = Verdict::ALL.iter().map(|verdict| verdict.name()).collect();
            Error::usage(format!("there is no verdict `{name}`")).hint(name_hint(name, &names, "the verdicts"))
        })?;
        let field = |key: &str| map.and_then(|map| map.get(key)).filter(|value| !value.is_null());
        if verdict == Verdict::NotSent && field("evidence").is_none() {
            return Err(Error::usage(
                "`not_sent` follows from what an engine reports of itself, and this answer has no evidence of it",
            )
            .hint("record what `engine.probe` returned, or a verdict of your own such as \"oom\" or \"refused\""));
        }
        Ok(Self {
            verdict,
            cause: field("cause").and_then(Value::as_str).map(Cause::from),
            counted: field("counted").and_then(|counted| serde_json::from_value(counted.clone()).ok()),
            output: field("output").and_then(Value::as_i64),
            evidence: field("evidence").cloned(),
            report: field("report").and_then(|report| serde_json::from_value(report.clone()).ok()),
            crash: ended_server(field("evidence")).then(|| match field("crash").and_then(Value::as_str) {
                Some("fails") => Moves::Fails,
                _ => Moves::None,
            }),
        })
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            cause: None,
            counted: None,
            output: None,
            evidence: None,
            report: None,
            crash: None,
        }
    }
}

/// A recorded point and its answer.
#[derive(Clone, Debug)]
pub struct Record {
    /// In the order of the axes.
    pub(super) coordinates: Box<[Scalar]>,
    /// The verdict.
    pub verdict: Verdict,
    /// The cause, if any.
    pub cause: Option<Cause>,
    /// The effect on the boundary.
    pub moves: Moves,
    pub(super) evidence: Option<JsonText>,
}

/// JSON as text: it takes a fifth of the memory of a [`Value`].
#[derive(Clone, Debug, PartialEq)]
pub struct JsonText(Box<str>);

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl JsonText {
    /// The value.
    #[must_use]
    pub fn value(&self) -> Value {
        // A serialized value always parses.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl Record {
    /// The evidence that the prober recorded.
    #[must_use]
    pub fn evidence(&self) -> Option<Value> {
        self.evidence.as_ref().map(JsonText::value)
    }

    fn effect(&self) -> Effect {
        self.cause.as_ref().map_or(Effect::None, Cause::effect)
    }

    /// Whether memory could not be tested here, because of the engine's scheduling or because the server ended.
    #[must_use]
    pub fn is_untested(&self) -> bool {
        self.moves == Moves::None && (self.effect() == Effect::Untested || self.ended_server())
    }

    /// Whether a configured limit excludes the point, rather than a lack of memory.
    #[must_use]
    pub fn is_length_limit(&self) -> bool {
        match self.moves {
            Moves::None => self.verdict == Verdict::Refused && !self.is_untested(),
            Moves::Bounds => self.effect() == Effect::Length,
            Moves::Fits | Moves::Fails => false,
        }
    }

    /// Whether a lack of memory or capacity keeps the point from fitting, observed or by the engine's report.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self.moves, Moves::Fails | Moves::Bounds) && !self.is_length_limit()
    }

    /// Whether a server that we had attached to died here, or stopped answering.
    #[must_use]
    pub fn ended_server(&self) -> bool {
        ended_server(self.evidence().as_ref())
    }
}

fn ended_server(evidence: Option<&Value>) -> bool {
    evidence.is_some_and(|evidence| evidence["ended_server"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_verdict_or_a_map_is_read() {
        assert_eq!(Answer::parse(&json!("ok")).unwrap(), Answer::from(Verdict::Ok));
        let answer = Answer::parse(&json!({
            "verdict": "short_output", "cause": null, "output": 40, "evidence": { "log": [] }, "ttft_ms": 3.5
        }))
        .unwrap();
        assert_eq!(
            (answer.verdict, answer.output, answer.cause),
            (Verdict::ShortOutput, Some(40), None)
        );
        assert_eq!(answer.evidence, Some(json!({ "log": [] })));
    }

    #[test]
    fn anything_else_is_refused_with_the_nearest_name() {
        let fault = Answer::parse(&json!("okay")).unwrap_err();
        assert_eq!(fault.hint.as_deref(), Some("did you mean `ok`?"));
        assert!(Answer::parse(&json!({ "cause": "host" })).is_err());
        assert!(Answer::parse(&json!(true)).is_err());
    }
}
