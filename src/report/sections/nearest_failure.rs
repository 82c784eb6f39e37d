//! Why not one step further: the failing probe nearest to the safe point, with its evidence.

use super::evidence;
use crate::boundary::{Boundary, Easier, Moves, Point, Verdict};
use crate::report::advice::axis_position;

/// The failing probe nearest to a point.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NearestFailure {
    pub(super) point: Point,
    pub(super) verdict: Verdict,
    pub(super) cause: Option<String>,
    /// A line of evidence; see [`evidence::line`].
    pub(super) evidence: Option<String>,
    /// Whether it is at least as hard as the point on every axis.
    pub(super) harder: bool,
}

/// The failing probe nearest to `point`. The distance is the sum over all axes, each relative to the axis length in its
/// scale. Of equally near probes, one that is at least as hard on every axis is preferred.
pub(super) fn nearest_failure(boundary: &Boundary, point: &Point) -> Option<NearestFailure> {
    let axes = boundary.lattice().axes();
    let distance = |other: &Point| -> Option<(f64, bool)> {
        let (mut sum, mut harder) = (0.0, true);
        for axis in axes {
            let at = |point: &Point| {
                point
                    .0
                    .get(axis.name())
                    .map(|value| axis_position(axis, value.as_f64()))
            };
            let difference = at(other)? - at(point)?;
            sum += difference.abs();
            harder &= match axis.easier() {
                Easier::Down => difference >= 0.0,
                Easier::Up => difference <= 0.0,
            };
        }
        Some((sum, harder))
    };
    let failing = boundary.records().filter(|(_, record)| record.moves == Moves::Fails);
    let nearest = failing.filter_map(|(other, record)| Some((distance(&other)?, other, record)));
    let ((_, harder), point, record) =
        nearest.min_by(|((a, a_further), ..), ((b, b_further), ..)| a.total_cmp(b).then(b_further.cmp(a_further)))?;
    Some(NearestFailure {
        point,
        verdict: record.verdict,
        cause: record.cause.as_deref().map(str::to_owned),
        evidence: evidence::line(record.evidence.as_deref()),
        harder,
    })
}

impl NearestFailure {
    /// The reason without a full stop: `one step further, at input=4608 output=512, the engine ran out of GPU memory
    /// (cuda): …`.
    pub(super) fn sentence(&self) -> String {
        let difference = if self.harder { "one step further" } else { "nearest by" };
        let shown = self
            .evidence
            .as_ref()
            .map_or_else(String::new, |line| format!(": “{line}”"));
        // If an earlier start already stated a bound, points beyond it are ruled out without a start.
        let bound_known = self
            .evidence
            .as_ref()
            .is_some_and(|line| line.starts_with(evidence::ENGINE_SAYS));
        let outcome = match (self.verdict, bound_known) {
            (Verdict::StartFailed, true) => {
                "the engine was not started, because it had already reported that this does not fit".to_owned()
            }
            (verdict, _) => verdict_text(verdict, self.cause.as_deref()),
        };
        format!("{difference}, at {}, {outcome}{shown}", self.point)
    }
}

/// A verdict in words: `the engine ran out of GPU memory (cuda)`.
pub(super) fn verdict_text(verdict: Verdict, cause: Option<&str>) -> String {
    let words = match (verdict, cause) {
        (Verdict::Ok, _) => "the engine served it",
        (Verdict::Oom, Some("cuda")) => "the engine ran out of GPU memory",
        (Verdict::Oom, Some("host")) => "the kernel killed the engine because host memory ran out",
        (Verdict::Oom, Some("allocator")) => "an allocation of the engine failed",
        (Verdict::Oom, _) => "the engine ran out of memory",
        (Verdict::Refused, Some("length_limit")) => "a length limit refused it (not for lack of memory)",
        (Verdict::Refused, Some("kv_cache")) => "the engine had no room for it in its KV cache",
        (Verdict::Refused, Some("memory")) => "the engine refused it for lack of memory",
        (Verdict::Refused, _) => "the engine refused it",
        (Verdict::Preempted, _) => "the engine served it only by preempting sequences",
        (Verdict::Queued, _) => "the engine ran fewer concurrent requests than requested",
        (Verdict::StartFailed, Some("memory")) => "the engine did not start with these limits for lack of memory",
        (Verdict::StartFailed, _) => "the engine did not start",
        (Verdict::Timeout, _) => "the request timed out",
        (Verdict::ShortOutput, _) => "the output was shorter than requested",
        (Verdict::Error, _) => "the answer was inconclusive",
    };
    match cause {
        Some(cause) if !words.contains(cause) => format!("{words} ({cause})"),
        _ => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::boundary::{Answer, Options};

    fn boundary(axes: &Value, answers: &[(Value, Value)]) -> Boundary {
        let mut boundary = Boundary::new(axes, Options::default()).unwrap();
        for (point, answer) in answers {
            let point: Point = serde_json::from_value(point.clone()).unwrap();
            boundary.record(&point, &Answer::parse(answer).unwrap()).unwrap();
        }
        boundary
    }

    #[test]
    fn nearest_failure_has_its_evidence() {
        let oom = |message: &str| json!({ "verdict": "oom", "cause": "cuda", "evidence": { "log": [message] } });
        let map = boundary(
            &json!({ "input": [128, 8192], "output": [128, 4096] }),
            &[
                (json!({ "input": 8192, "output": 4096 }), oom("far")),
                (json!({ "input": 4096, "output": 512 }), json!("ok")),
                (
                    json!({ "input": 4608, "output": 512 }),
                    oom("Tried to allocate 2.00 GiB"),
                ),
                (json!({ "input": 4100, "output": 520 }), json!("timeout")),
                (json!({ "input": 6000, "output": 128 }), oom("aside")),
            ],
        );
        let safe = Point::default().with("input", 4096).with("output", 512);
        let nearest = nearest_failure(&map, &safe).unwrap();
        assert_eq!(
            (nearest.verdict, nearest.cause.as_deref(), nearest.harder),
            (Verdict::Oom, Some("cuda"), true)
        );
        assert_eq!(
            nearest.sentence(),
            "one step further, at input=4608 output=512, the engine ran out of GPU memory (cuda): “Tried to allocate 2.00 GiB”"
        );
    }

    /// The page must not claim a start for a point that an earlier start ruled out.
    #[test]
    fn ruled_out_point_was_not_started() {
        let message = "ValueError: too long; the engine itself says that 8352 tokens would fit, and 8384 do not";
        let ruled_out = json!({ "verdict": "start_failed", "cause": "memory", "evidence": { "message": message } });
        let map = boundary(
            &json!({ "input": [128, 8192] }),
            &[
                (json!({ "input": 4096 }), json!("ok")),
                (json!({ "input": 4608 }), ruled_out),
            ],
        );
        let nearest = nearest_failure(&map, &Point::default().with("input", 4096)).unwrap();
        assert_eq!(
            nearest.sentence(),
            "one step further, at input=4608, the engine was not started, because it had already reported that this does not fit: “the engine itself says that 8352 \
             tokens would fit, and 8384 do not”"
        );
    }

    #[test]
    fn distance_is_relative_to_each_axis() {
        let axes = json!({ "fraction": { "range": [0.5, 0.9], "easier": "up" }, "input": { "range": [1, 1_000_000], "scale": "log" } });
        let map = boundary(
            &axes,
            &[
                (json!({ "fraction": 0.8, "input": 1000 }), json!("ok")),
                (json!({ "fraction": 0.6, "input": 1000 }), json!("oom")),
                (json!({ "fraction": 0.8, "input": 4000 }), json!("oom")),
            ],
        );
        let safe: Point = serde_json::from_value(json!({ "fraction": 0.8, "input": 1000 })).unwrap();
        let nearest = nearest_failure(&map, &safe).unwrap();
        // A factor of 4 of a million is a tenth of a log axis; 0.2 is half of the other axis.
        assert_eq!(nearest.point.to_string(), "fraction=0.8 input=4000");
        assert_eq!(
            nearest.sentence(),
            "one step further, at fraction=0.8 input=4000, the engine ran out of memory"
        );
        let lower: Point = serde_json::from_value(json!({ "fraction": 0.55, "input": 1000 })).unwrap();
        let nearest = nearest_failure(&map, &lower).unwrap();
        assert!(
            !nearest.harder && nearest.sentence().starts_with("nearest by, at fraction=0.6 "),
            "{nearest:?}"
        );
    }

    #[test]
    fn no_nearest_failure_without_failures() {
        let axes = json!({ "input": [1, 9] });
        let map = boundary(
            &axes,
            &[
                (json!({ "input": 3 }), json!("ok")),
                (json!({ "input": 5 }), json!("error")),
            ],
        );
        assert_eq!(nearest_failure(&map, &Point::default().with("input", 3)), None);
    }
}
