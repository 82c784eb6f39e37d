//! Why not one step further: the failing probe nearest to the safe point, and what showed that it failed.

use super::evidence;
use crate::boundary::{Boundary, Easier, Moves, Point, Verdict};
use crate::report::advice::position;

/// The failing probe nearest to a point.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Neighbour {
    /// The point that failed.
    pub(super) point: Point,
    /// Its verdict.
    pub(super) verdict: Verdict,
    /// Its cause, where it has one.
    pub(super) cause: Option<String>,
    /// The line that shows it, at most 200 characters, where the answer kept one.
    pub(super) evidence: Option<String>,
    /// Whether it is at least as hard on every axis.
    pub(super) further: bool,
}

/// The failing probe nearest to `point`: the sum over the axes of how far apart the two lie on the axis, as shares of it in its scale; of equally
/// near ones, one that is at least as hard on every axis. None where nothing failed.
pub(super) fn neighbour(boundary: &Boundary, point: &Point) -> Option<Neighbour> {
    let axes = boundary.lattice().axes();
    let apart = |other: &Point| -> Option<(f64, bool)> {
        let (mut sum, mut further) = (0.0, true);
        for axis in axes {
            let at = |point: &Point| point.0.get(axis.name()).map(|value| position(axis, value.as_f64()));
            let step = at(other)? - at(point)?;
            sum += step.abs();
            further &= match axis.easier() {
                Easier::Down => step >= 0.0,
                Easier::Up => step <= 0.0,
            };
        }
        Some((sum, further))
    };
    let failing = boundary.records().filter(|(_, record)| record.moves == Moves::Fails);
    let near = failing.filter_map(|(other, record)| Some((apart(&other)?, other, record)));
    let ((_, further), point, record) =
        near.min_by(|((a, a_further), ..), ((b, b_further), ..)| a.total_cmp(b).then(b_further.cmp(a_further)))?;
    Some(Neighbour {
        point,
        verdict: record.verdict,
        cause: record.cause.as_deref().map(str::to_owned),
        evidence: evidence::line(record.evidence.as_deref()),
        further,
    })
}

impl Neighbour {
    /// Why it failed, as a sentence: `one step further, at input=4608 output=512, the engine ran out of GPU memory (cuda): …`, without a full stop.
    pub(super) fn sentence(&self) -> String {
        let step = if self.further { "one step further" } else { "nearest by" };
        let shown = self
            .evidence
            .as_ref()
            .map_or_else(String::new, |line| format!(": “{line}”"));
        // An engine that told its bound in a start before is not started to hear it again.
        let told = self
            .evidence
            .as_ref()
            .is_some_and(|line| line.starts_with(evidence::TOLD));
        let happened = match (self.verdict, told) {
            (Verdict::StartFailed, true) => {
                "the engine was not started, as it had said before that so much does not fit".to_owned()
            }
            (verdict, _) => happened(verdict, self.cause.as_deref()),
        };
        format!("{step}, at {}, {happened}{shown}", self.point)
    }
}

/// What became of a probe: `the engine ran out of GPU memory (cuda)`.
pub(super) fn happened(verdict: Verdict, cause: Option<&str>) -> String {
    let words = match (verdict, cause) {
        (Verdict::Ok, _) => "the engine served it",
        (Verdict::Oom, Some("cuda")) => "the engine ran out of GPU memory",
        (Verdict::Oom, Some("host")) => "the kernel killed the engine, as the memory of the host ran out",
        (Verdict::Oom, Some("allocator")) => "an allocation of the engine failed",
        (Verdict::Oom, _) => "the engine ran out of memory",
        (Verdict::Refused, Some("length_limit")) => "a length limit refused it, which is no lack of memory",
        (Verdict::Refused, Some("kv_cache")) => "the engine had no room for it in its KV cache",
        (Verdict::Refused, Some("memory")) => "the engine refused it for its memory",
        (Verdict::Refused, _) => "the engine refused it",
        (Verdict::Preempted, _) => "the engine served it only by throwing sequences out of its KV cache",
        (Verdict::Queued, _) => "the engine ran fewer requests at once than were asked",
        (Verdict::StartFailed, Some("memory")) => "the engine did not start with limits so large, for want of memory",
        (Verdict::StartFailed, _) => "the engine did not start",
        (Verdict::Timeout, _) => "no answer came in time",
        (Verdict::ShortOutput, _) => "the text ended before the length that was asked",
        (Verdict::Error, _) => "the answer was not clear",
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
    fn the_nearest_failing_probe_is_told_with_what_shows_it() {
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
        let near = neighbour(&map, &safe).unwrap();
        assert_eq!(
            (near.verdict, near.cause.as_deref(), near.further),
            (Verdict::Oom, Some("cuda"), true)
        );
        assert_eq!(
            near.sentence(),
            "one step further, at input=4608 output=512, the engine ran out of GPU memory (cuda): “Tried to allocate 2.00 GiB”"
        );
    }

    /// A point that an earlier start ruled out was never started, and the page does not say that it was.
    #[test]
    fn what_was_ruled_out_beforehand_was_not_started() {
        let message = "ValueError: too long; the engine itself says that 8352 tokens would fit, and 8384 do not";
        let ruled_out = json!({ "verdict": "start_failed", "cause": "memory", "evidence": { "message": message } });
        let map = boundary(
            &json!({ "input": [128, 8192] }),
            &[
                (json!({ "input": 4096 }), json!("ok")),
                (json!({ "input": 4608 }), ruled_out),
            ],
        );
        let near = neighbour(&map, &Point::default().with("input", 4096)).unwrap();
        assert_eq!(
            near.sentence(),
            "one step further, at input=4608, the engine was not started, as it had said before that so much does not fit: “the engine itself says that 8352 \
             tokens would fit, and 8384 do not”"
        );
    }

    #[test]
    fn distances_are_shares_of_each_axis_and_harder_is_where_the_axis_says() {
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
        let near = neighbour(&map, &safe).unwrap();
        // A factor of four in a million is a tenth of a log axis; 0.2 is half of the other.
        assert_eq!(near.point.to_string(), "fraction=0.8 input=4000");
        assert_eq!(
            near.sentence(),
            "one step further, at fraction=0.8 input=4000, the engine ran out of memory"
        );
        let aside: Point = serde_json::from_value(json!({ "fraction": 0.55, "input": 1000 })).unwrap();
        let near = neighbour(&map, &aside).unwrap();
        assert!(
            !near.further && near.sentence().starts_with("nearest by, at fraction=0.6 "),
            "{near:?}"
        );
    }

    #[test]
    fn where_nothing_failed_there_is_no_neighbour() {
        let axes = json!({ "input": [1, 9] });
        let map = boundary(
            &axes,
            &[
                (json!({ "input": 3 }), json!("ok")),
                (json!({ "input": 5 }), json!("error")),
            ],
        );
        assert_eq!(neighbour(&map, &Point::default().with("input", 3)), None);
    }
}
