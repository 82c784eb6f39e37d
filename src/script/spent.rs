//! What the points that a boundary held before a resume had cost, from their answers as they were recorded. Pure.

use serde_json::Value;

use crate::boundary::Point;

/// What one point cost, retries included.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// The point.
    pub point: Point,
    /// Its verdict, as it was given.
    pub verdict: String,
    /// Probes made for it.
    pub probes: i64,
    /// Starts of the engine made for it.
    pub starts: i64,
    /// Seconds that it took.
    pub seconds: f64,
    /// The same times the GPUs of the engine.
    pub gpu_seconds: f64,
    /// What the engine reported of its bounds.
    pub report: Option<Value>,
    /// The most memory that was in use, bytes.
    pub peak: Option<f64>,
}

impl Spent {
    /// Reads it from the key `spent` that searches add to an answer, else from what a probe tells of itself.
    pub(super) fn of(point: &Point, answer: &Value) -> Self {
        let told = answer.get("spent").unwrap_or(answer);
        let real = |key: &str| told.get(key).and_then(Value::as_f64);
        let whole = |key: &str| told.get(key).and_then(Value::as_i64);
        let seconds = real("seconds").unwrap_or(0.0);
        let started = told.get("started").and_then(Value::as_bool) == Some(true);
        let verdict = answer.get("verdict").unwrap_or(answer).as_str();
        Self {
            point: point.clone(),
            verdict: verdict.unwrap_or_default().to_owned(),
            probes: whole("probes").unwrap_or(1),
            starts: whole("starts").unwrap_or(i64::from(started)),
            seconds,
            gpu_seconds: real("gpu_seconds").unwrap_or_else(|| seconds * real("gpus").unwrap_or(0.0)),
            report: answer.get("report").filter(|report| !report.is_null()).cloned(),
            peak: answer.get("peak").and_then(Value::as_f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(answer: Value) -> (String, i64, i64, f64, f64) {
        let spent = Spent::of(&Point::default(), &answer);
        (
            spent.verdict,
            spent.probes,
            spent.starts,
            spent.seconds,
            spent.gpu_seconds,
        )
    }

    #[test]
    fn a_search_says_what_it_spent_and_a_probe_what_it_took() {
        let search = json!({ "probes": 3, "starts": 2, "seconds": 90.0, "gpu_seconds": 180.0 });
        let answer = json!({ "verdict": "oom", "seconds": 30.0, "starts": 1, "spent": search });
        assert_eq!(of(answer), ("oom".into(), 3, 2, 90.0, 180.0));
        let answer = json!({ "verdict": "ok", "seconds": 30.0, "started": true, "gpus": 2 });
        assert_eq!(of(answer), ("ok".into(), 1, 1, 30.0, 60.0));
        assert_eq!(of(json!("timeout")), ("timeout".into(), 1, 0, 0.0, 0.0));
    }
}
