//! The cost of points that were recorded before a resume, read from their answers. Pure.

use serde_json::Value;

use crate::boundary::Point;

/// The cost of one point, including retries.
#[derive(Clone, Debug, PartialEq)]
pub struct PointCost {
    /// The point.
    pub point: Point,
    /// Its verdict.
    pub verdict: String,
    /// Number of probes.
    pub probes: i64,
    /// Number of engine starts.
    pub starts: i64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Duration times the number of GPUs.
    pub gpu_seconds: f64,
    /// Limits reported by the engine.
    pub report: Option<Value>,
    /// Peak memory, bytes.
    pub peak: Option<f64>,
}

impl PointCost {
    /// Reads it from the key `spent`, which searches add, or else from the probe's own fields.
    pub(super) fn from_answer(point: &Point, answer: &Value) -> Self {
        let source = answer.get("spent").unwrap_or(answer);
        let float = |key: &str| source.get(key).and_then(Value::as_f64);
        let int = |key: &str| source.get(key).and_then(Value::as_i64);
        let seconds = float("seconds").unwrap_or(0.0);
        let started = source.get("started").and_then(Value::as_bool) == Some(true);
        let verdict = answer.get("verdict").unwrap_or(answer).as_str();
        Self {
            point: point.clone(),
            verdict: verdict.unwrap_or_default().to_owned(),
            probes: int("probes").unwrap_or(1),
            starts: int("starts").unwrap_or(i64::from(started)),
            seconds,
            gpu_seconds: float("gpu_seconds").unwrap_or_else(|| seconds * float("gpus").unwrap_or(0.0)),
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
        let cost = PointCost::from_answer(&Point::default(), &answer);
        (cost.verdict, cost.probes, cost.starts, cost.seconds, cost.gpu_seconds)
    }

    #[test]
    fn the_cost_is_read_from_spent_or_from_the_probe() {
        let search = json!({ "probes": 3, "starts": 2, "seconds": 90.0, "gpu_seconds": 180.0 });
        let answer = json!({ "verdict": "oom", "seconds": 30.0, "starts": 1, "spent": search });
        assert_eq!(of(answer), ("oom".into(), 3, 2, 90.0, 180.0));
        let answer = json!({ "verdict": "ok", "seconds": 30.0, "started": true, "gpus": 2 });
        assert_eq!(of(answer), ("ok".into(), 1, 1, 30.0, 60.0));
        assert_eq!(of(json!("timeout")), ("timeout".into(), 1, 0, 0.0, 0.0));
    }
}
