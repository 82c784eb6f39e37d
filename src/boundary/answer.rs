//! The answer to a probe, as a boundary records it.

use serde_json::Value;

use super::Verdict;
use crate::fault::{Fault, Result};

/// An answer to record: a bare verdict, or a probe's whole result.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The cause, if known.
    pub cause: Option<String>,
    /// Output tokens produced, if counted. A `short_output` proves that many.
    pub output: Option<i64>,
    /// Log lines, exit code, memory: whatever the prober recorded.
    pub evidence: Option<Value>,
}

impl Answer {
    /// Reads a verdict's name, or a map with `verdict` and optionally `cause`, `output` and `evidence`. Other keys
    /// are ignored.
    pub fn parse(value: &Value) -> Result<Self> {
        let hint = "answer with a verdict such as \"ok\" or \"oom\", or with a map that has `verdict`";
        let (name, map) = match value {
            Value::String(name) => (name.as_str(), None),
            Value::Object(map) => match map.get("verdict") {
                Some(Value::String(name)) => (name.as_str(), Some(map)),
                Some(other) => return Err(Fault::usage(format!("`{other}` is not a verdict")).hint(hint)),
                None => return Err(Fault::usage("the answer has no `verdict`").hint(hint)),
            },
            other => return Err(Fault::usage(format!("`{other}` is not the answer to a probe")).hint(hint)),
        };
        let verdict = Verdict::from_name(name)
            .ok_or_else(|| Fault::usage(format!("there is no verdict `{name}`")).hint(closest(name)))?;
        let field = |key: &str| map.and_then(|map| map.get(key)).filter(|value| !value.is_null());
        Ok(Self {
            verdict,
            cause: field("cause").and_then(Value::as_str).map(str::to_owned),
            output: field("output").and_then(Value::as_i64),
            evidence: field("evidence").cloned(),
        })
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            cause: None,
            output: None,
            evidence: None,
        }
    }
}

fn closest(name: &str) -> String {
    let names = Verdict::ALL.map(Verdict::name);
    let near = names
        .into_iter()
        .min_by_key(|known| strsim::damerau_levenshtein(known, name));
    match near.filter(|near| strsim::damerau_levenshtein(near, name) <= 2) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the verdicts are {}", names.join(", ")),
    }
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
