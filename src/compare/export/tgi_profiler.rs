//! The results file of tgi-profiler.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::boundary::{Boundary, Moves, Record, Scalar};
use crate::fault::{Fault, Result};
use crate::load::Tolerance;
use crate::run::Evidence;

/// tgi-profiler's `profile_res_*.json` as its version 1.0.0 does: `config` with twenty keys, `results[]`
/// with seven.
///
/// Verdicts go into the failure fields: the verdict is the `error_type`, its cause and message are the `error_msg`
/// (`cuda: CUDA out of memory`), and the log lines of the evidence are the `container_logs`, which tgi-profiler always
/// left empty. A point that came from such a file keeps its time, its words and its type of error.
///
/// Its members are the parts of `config` that a boundary does not hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TgiProfiler {
    /// The model's id.
    model: String,
    /// GPU ids; `[0]` if none are given.
    gpus: Vec<Value>,
    /// Search options under that tool's names; unknown ones are ignored.
    search: Map<String, Value>,
    /// Tokens that may be missing from a success.
    output_tolerance: Tolerance,
}

impl TgiProfiler {
    /// The document. `times` has the time at which each point was recorded, by the point as text; others get the time
    /// of writing.
    ///
    /// # Errors
    ///
    /// `usage` for a boundary over anything but integer `input` and `output`.
    pub fn document(&self, boundary: &Boundary, times: &HashMap<String, String>) -> Result<Value> {
        let lattice = boundary.lattice();
        if lattice.axis_names() != ["input", "output"] {
            return Err(Fault::usage(format!(
                "tgi-profiler knows the axes `input` and `output`, not `{}`",
                lattice.axis_names().join("`, `")
            ))
            .hint("search over these two, with one request at a time"));
        }
        let (input, output) = (lattice.axes()[0].range(), lattice.axes()[1].range());
        let length = |scalar: Scalar| match scalar {
            Scalar::Int(length) => Ok(length),
            Scalar::Float(other) => Err(Fault::usage(format!("tgi-profiler knows whole lengths, not `{other}`"))),
        };
        let now = zoneless(&Timestamp::now().to_string());
        let results: Vec<Value> = boundary
            .records()
            .map(|(point, record)| {
                let length = |axis| point.int(axis).unwrap_or_default();
                let time = times.get(&point.to_string()).map(|time| zoneless(time));
                result(length("input"), length("output"), record, time.as_ref().unwrap_or(&now))
            })
            .collect();
        let option = |name: &str, default: Value| self.search.get(name).cloned().unwrap_or(default);
        Ok(json!({
            "config": {
                "model_id": self.model,
                "gpu_ids": if self.gpus.is_empty() { json!([0]) } else { json!(self.gpus) },
                // The engine's address is not recorded.
                "base_url": "",
                "min_input_length": length(input.0)?,
                "max_input_length": length(input.1)?,
                "min_output_length": length(output.0)?,
                "max_output_length": length(output.1)?,
                "grid_size": option("grid_size", json!(8)),
                "refinement_rounds": option("refinement_rounds", json!(2)),
                // In that file the tolerance is a share, here of the shortest output.
                "output_tolerance_pct": self.output_tolerance.share_of(length(output.0)?.max(1).unsigned_abs()),
                "temp": 1.0,
                "multimodal": false,
                "dummy_image_path": null,
                "k_neighbors": option("k_neighbors", json!(5)),
                "m_random": option("m_random", json!(3)),
                "distance_scale": option("distance_scale", json!(1000)),
                "consistency_radius": option("consistency_radius", json!(1000)),
                "redundancy_weight": option("redundancy_weight", json!(0.5)),
                "max_pair_distance": option("max_pair_distance", json!(1e12)),
                "min_refinement_dist": option("min_refinement_dist", json!(50)),
            },
            "results": results,
        }))
    }
}

fn result(input: i64, output: i64, record: &Record, time: &str) -> Value {
    let success = record.moves == Moves::Fits;
    let kept = record.evidence().unwrap_or_default();
    let text = |name: &str| kept[name].as_str().filter(|text| !text.is_empty());
    // An imported point keeps the error text of its file.
    let (kind, message) = match (text("error_type"), &record.cause) {
        (Some(kind), _) => (kind.to_owned(), text("message").map(str::to_owned)),
        (None, cause) => {
            let words = cause.iter().map(|cause| cause.name()).chain(text("message"));
            let words: Vec<&str> = words.collect();
            (
                record.verdict.name().to_owned(),
                (!words.is_empty()).then(|| words.join(": ")),
            )
        }
    };
    json!({
        "input_length": input,
        "output_length": output,
        "success": success,
        "error_type": (!success).then_some(kind),
        "error_msg": message.filter(|_| !success),
        "container_logs": if success { String::new() } else { Evidence::from_record(record).log.join("\n") },
        "timestamp": text("time").unwrap_or(time),
    })
}

/// A time in UTC as tgi-profiler writes it, without a zone: `2026-11-21T03:30:00.123456`.
fn zoneless(time: &str) -> String {
    time.trim_end_matches('Z').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Answer, Options, Point};

    fn boundary(axes: Value) -> Boundary {
        Boundary::new(&axes, Options::default()).unwrap()
    }

    #[test]
    fn only_what_moves_towards_fitting_is_a_success() {
        let mut map = boundary(json!({ "input": [1, 100], "output": [1, 50] }));
        let answers = [
            json!("ok"),
            json!({ "verdict": "oom", "cause": "cuda", "evidence": { "log": ["one", "two"], "message": "no room" } }),
            json!("timeout"),
        ];
        for (answer, input) in answers.iter().zip([10, 90, 50]) {
            let point = Point::default().with("input", input).with("output", 5);
            map.record(&point, &Answer::parse(answer).unwrap()).unwrap();
        }
        let document = TgiProfiler::default()
            .document(
                &map,
                &HashMap::from([("input=10 output=5".to_owned(), "2026-11-21T03:30:00.123Z".to_owned())]),
            )
            .unwrap();
        let shown: Vec<_> = document["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                json!([
                    row["input_length"],
                    row["success"],
                    row["error_type"],
                    row["error_msg"],
                    row["container_logs"]
                ])
            })
            .collect();
        let expected = [
            json!([10, true, null, null, ""]),
            json!([90, false, "oom", "cuda: no room", "one\ntwo"]),
            json!([50, false, "timeout", null, ""]),
        ];
        assert_eq!(shown, expected);
        assert_eq!(
            document["results"][0]["timestamp"], "2026-11-21T03:30:00.123",
            "its own time"
        );
        assert_eq!(document["config"]["max_output_length"], 50);
        assert_eq!(document["config"].as_object().unwrap().len(), 20);
    }

    #[test]
    fn other_axes_are_refused() {
        let fault = TgiProfiler::default().document(&boundary(json!({ "concurrency": [1, 9] })), &HashMap::new());
        assert!(fault.unwrap_err().message.contains("`concurrency`"));
        let axes = json!({ "input": [1, 9], "output": [0.5, 1.5] });
        let fault = TgiProfiler::default().document(&boundary(axes), &HashMap::new());
        assert!(fault.unwrap_err().message.contains("whole lengths"));
    }
}
