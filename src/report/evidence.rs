//! Why a probe failed: the failing probe nearest to the largest confirmed point, and one line of evidence for a verdict (the
//! decisive log line without its prefix, or what the process and the queue did).

use std::fmt::Display;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::boundary::{Boundary, Moves, NOT_RESIDENT, Point, Record, Verdict};
use crate::report::answer::axis_position;

/// The failing probe nearest to `point`, as a sentence. The distance is the sum over all axes, each relative to the axis length in its
/// scale. Of equally near probes, one that is at least as hard on every axis is preferred.
pub(super) fn nearest_failure(boundary: &Boundary, point: &Point) -> Option<String> {
    let axes = boundary.lattice().axes();
    let distance = |other: &Point| -> Option<(f64, bool)> {
        let (mut sum, mut harder) = (0.0, true);
        for axis in axes {
            let (here, there) = (axis.of(point)?, axis.of(other)?);
            sum += (axis_position(axis, there) - axis_position(axis, here)).abs();
            harder &= axis.difficulty(there) >= axis.difficulty(here);
        }
        Some((sum, harder))
    };
    let failing = boundary.records().filter(|(_, record)| record.moves == Moves::Fails);
    let nearest = failing.filter_map(|(other, record)| Some((distance(&other)?, other, record)));
    let (_, point, record) =
        nearest.min_by(|((a, a_further), ..), ((b, b_further), ..)| a.total_cmp(b).then(b_further.cmp(a_further)))?;
    Some(failure_sentence(&point, record))
}

/// Said of such a point.
pub(super) const NOT_SENT: &str = "not sent: the engine reports no room";

/// What a probe says of its point. Of several in one cell of a map, the last of these is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProbeClass {
    Unclear,
    Fits,
    /// Refused for its length.
    Clipped,
    /// Not sent: the engine itself reports that it fails.
    NotSent,
    Fails,
}

impl ProbeClass {
    pub(super) fn of(record: &Record) -> Self {
        match (record.moves, record.verdict) {
            (Moves::Fits, _) => Self::Fits,
            (Moves::Fails, _) if not_sent(record) => Self::NotSent,
            (Moves::Fails, _) => Self::Fails,
            (Moves::None, Verdict::Refused) => Self::Clipped,
            (Moves::None, _) => Self::Unclear,
        }
    }
}

/// Whether a point was not sent to the engine, because of a bound that the engine had stated.
pub(super) fn not_sent(record: &Record) -> bool {
    record.verdict == Verdict::StartFailed && record.evidence().is_some_and(|found| stated_bound(&found).is_some())
}

/// The bound in the message of such a point: `the engine itself says that 120 tokens would fit`.
fn stated_bound(evidence: &Value) -> Option<&str> {
    let at = message(evidence).find(ENGINE_NOTE)?;
    Some(&message(evidence)[at + 2..])
}

/// Why a point failed, with a line of evidence.
fn failure_sentence(point: &Point, record: &Record) -> String {
    let evidence = record.evidence();
    // If an earlier start already stated a bound, points beyond it are ruled out without a start, and the bound
    // says it all.
    if let Some(bound) = evidence.as_ref().filter(|_| not_sent(record)).and_then(stated_bound) {
        return format!("{point} does not fit: “{}”", truncated(bound, MAX_CHARS));
    }
    let shown = line(evidence.as_ref()).map_or_else(String::new, |shown| format!(": “{shown}”"));
    format!(
        "at {point} {}{shown}",
        verdict_text(record.verdict, record.cause.as_deref())
    )
}

/// A verdict in words: `the engine ran out of GPU memory (cuda)`.
fn verdict_text(verdict: Verdict, cause: Option<&str>) -> String {
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
        (Verdict::Error, Some(NOT_RESIDENT)) => "early requests ended before late ones were admitted",
        (Verdict::Error, Some("died")) => "the engine died",
        (Verdict::Error, _) => "the answer was inconclusive",
    };
    with_cause(words, cause.filter(|cause| !words.contains(cause)))
}

/// `oom (cuda)`.
pub(super) fn with_cause(verdict: impl Display, cause: Option<&str>) -> String {
    match cause {
        Some(cause) => format!("{verdict} ({cause})"),
        None => verdict.to_string(),
    }
}

/// Longest line of evidence, in characters.
const MAX_CHARS: usize = 200;

/// More log lines than this are the tail of the log, not lines that a failure rule matched.
const MAX_RULE_LINES: usize = 3;

/// Separates an error message from a bound that the engine itself stated.
const ENGINE_NOTE: &str = "; the engine itself says ";

/// Prefixes of log lines in any order: process, level, time, file.
static PREFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let parts = [
        r"\([^()]*\bpid=[^()]*\)",
        r"\[?\d{2,4}[-/]\d\d[-/ ]?(\d{2,4})?[-T ]?\d\d:\d\d:\d\d[\d.,:+Z]*( TP\d+)?\]?",
        r"\[?(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\]?:?",
        r"\[[\w./-]+:\d+\]",
        r"\[TRT-LLM\]",
        r"\[(RANK \d+|[A-Z])\]",
    ];
    Regex::new(&format!(r"^\s*(({})\s+)+", parts.join("|"))).ok()
});

/// The line of evidence, at most [`MAX_CHARS`] characters; none if the answer has no evidence.
pub(in crate::report) fn line(evidence: Option<&Value>) -> Option<String> {
    let evidence = evidence?;
    let mut text = main_text(evidence).unwrap_or_default();
    let facts = facts(evidence, text.is_empty());
    if !facts.is_empty() {
        let space = MAX_CHARS.saturating_sub(facts.chars().count() + 2);
        text = match truncated(&text, space) {
            text if text.is_empty() => facts,
            text => format!("{text}; {facts}"),
        };
    }
    Some(truncated(&text, MAX_CHARS)).filter(|line| !line.is_empty())
}

/// The message of a probe; `error_msg` is its name in imported files.
fn message(evidence: &Value) -> &str {
    let message = evidence["message"].as_str().or(evidence["error_msg"].as_str());
    message.unwrap_or_default()
}

/// The decisive log line or message.
fn main_text(evidence: &Value) -> Option<String> {
    let message = message(evidence);
    let log = evidence["log"].as_array();
    let lines: Vec<&str> = log.into_iter().flatten().filter_map(Value::as_str).collect();
    // A few lines were picked by a failure rule; many are the tail of the log.
    let rule_line =
        (lines.len() <= MAX_RULE_LINES).then(|| lines.iter().find(|line| names_cause(line)).or(lines.first()));
    if let Some(bound) = stated_bound(evidence) {
        let line = rule_line.flatten();
        let line = line.map_or_else(String::new, |line| format!(": {}", without_prefix(line)));
        return Some(format!("{bound}{line}"));
    }
    let best = match rule_line.flatten() {
        Some(line) => line,
        None if message.is_empty() => lines.last()?,
        None => message,
    };
    Some(without_prefix(best)).filter(|line| !line.is_empty())
}

/// Whether a line names a resource or an error.
fn names_cause(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["memory", "alloc", "error", "kv cache", "kill"]
        .iter()
        .any(|word| line.contains(word))
}

/// Exit status, HTTP status and queue. If nothing else is known (`only_fact`), also how many requests completed.
fn facts(evidence: &Value, only_fact: bool) -> String {
    let mut facts = Vec::new();
    if let Some(code) = evidence["exit_code"].as_i64() {
        facts.push(format!("exit status {code}"));
    }
    if evidence["oom_killed"] == true {
        facts.push("killed by the kernel (out of memory)".to_owned());
    }
    if let Some(status) = evidence["http_status"].as_u64() {
        facts.push(format!("HTTP status {status}"));
    }
    let issued = evidence["issued"]
        .as_u64()
        .filter(|issued| *issued > 0 && only_fact && facts.is_empty());
    if let Some((completed, issued)) = evidence["completed"].as_u64().zip(issued) {
        let noun = if issued == 1 { "request" } else { "requests" };
        facts.push(format!("{completed} of {issued} {noun} served"));
    }
    let (running, waiting) = (
        evidence["queue"]["running"].as_u64(),
        evidence["queue"]["waiting"].as_u64(),
    );
    match (running, waiting, evidence["issued"].as_u64()) {
        // The queue holds the highest values that were seen, each by itself.
        (Some(running), Some(waiting), Some(issued)) if running + waiting > issued => {
            facts.push(format!(
                "at most {running} running and, at another time, {waiting} waiting"
            ));
        }
        _ => {
            facts.extend(running.map(|running| format!("{running} running")));
            facts.extend(waiting.map(|waiting| format!("{waiting} waiting")));
        }
    }
    facts.join(", ")
}

/// A log line without its prefix, on one line. Keeps the mark of a simulated engine.
fn without_prefix(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let rest = match PREFIX.as_ref().and_then(|prefix| prefix.find(&line)) {
        Some(found) if found.end() < line.len() => &line[found.end()..],
        _ => return line,
    };
    if line.contains("SIMULATED") && !rest.contains("SIMULATED") {
        return format!("SIMULATED {rest}");
    }
    rest.to_owned()
}

/// Cuts a text between words if it is longer than `max` characters.
fn truncated(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let cut: String = text.chars().take(max.saturating_sub(1)).collect();
    let end = cut.rfind(' ').filter(|end| *end * 2 > cut.len()).unwrap_or(cut.len());
    format!("{}…", cut[..end].trim_end_matches([',', ';', ':', '.', ' ']))
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
            nearest,
            "at input=4608 output=512 the engine ran out of GPU memory (cuda): “Tried to allocate 2.00 GiB”"
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
            nearest,
            "input=4608 does not fit: “the engine itself says that 8352 tokens would fit, and 8384 do not”"
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
        assert_eq!(nearest, "at fraction=0.8 input=4000 the engine ran out of memory");
        let lower: Point = serde_json::from_value(json!({ "fraction": 0.55, "input": 1000 })).unwrap();
        let nearest = nearest_failure(&map, &lower).unwrap();
        assert!(nearest.starts_with("at fraction=0.6 "), "{nearest:?}");
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

    #[test]
    fn log_line_loses_its_prefix() {
        let cases = [
            (
                "(EngineCore pid=760) ERROR 11-21 07:29:52 [core.py:1231] ValueError: To serve at least one request",
                "ValueError: To serve at least one request",
            ),
            (
                "[2026-11-20 12:52:21 TP0] KV cache pool is full. Retract requests.",
                "KV cache pool is full. Retract requests.",
            ),
            (
                "[11/20/2026-12:52:30] [TRT-LLM] [E] RequestError: Request 2049 requires 300 KV cache blocks",
                "RequestError: Request 2049 requires 300 KV cache blocks",
            ),
            (
                "[TRT-LLM] [RANK 0] [E] torch.AcceleratorError: CUDA error",
                "torch.AcceleratorError: CUDA error",
            ),
            ("cudaMalloc failed: out of memory", "cudaMalloc failed: out of memory"),
            (
                "(EngineCore pid=2 SIMULATED) ERROR 11-22 04:05:58 [core.py:1231] ValueError: too long",
                "SIMULATED ValueError: too long",
            ),
            ("ERROR ", "ERROR"),
        ];
        for (log, expected) in cases {
            let evidence = json!({ "log": [log], "message": "the engine died" });
            assert_eq!(line(Some(&evidence)).unwrap(), expected);
        }
    }

    #[test]
    fn message_is_preferred_to_a_log_tail() {
        let log: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        let evidence = json!({ "log": log, "message": "no answer in time", "exit_code": null });
        assert_eq!(line(Some(&evidence)).unwrap(), "no answer in time");
        assert_eq!(line(Some(&json!({ "log": log }))).unwrap(), "line 19");
    }

    #[test]
    fn queue_and_exit_status_are_added_within_the_limit() {
        let queue = json!({ "kv_usage": 0.99, "preemptions": 4, "running": 31, "waiting": 50 });
        let evidence = json!({ "message": "the engine preempted 4 sequences", "log": [], "queue": queue });
        assert_eq!(
            line(Some(&evidence)).unwrap(),
            "the engine preempted 4 sequences; 31 running, 50 waiting"
        );
        let long = json!({ "log": ["out of memory ".repeat(40)], "exit_code": 137, "oom_killed": true });
        let expected = line(Some(&long)).unwrap();
        assert!(expected.chars().count() <= MAX_CHARS, "{expected}");
        assert!(
            expected.ends_with("…; exit status 137, killed by the kernel (out of memory)"),
            "{expected}"
        );
    }

    #[test]
    fn bound_stated_by_the_engine_comes_first() {
        let log = "(EngineCore pid=760) ERROR 11-21 07:29:52 [core.py:1231] ValueError: To serve 70064";
        let message = format!("{log}; the engine itself says that 63344 tokens would fit, and 65754 do not");
        assert_eq!(
            line(Some(&json!({ "log": [log], "message": message }))).unwrap(),
            "the engine itself says that 63344 tokens would fit, and 65754 do not: ValueError: To serve 70064"
        );
    }

    #[test]
    fn completed_requests_are_counted_and_no_evidence_is_none() {
        let peaks = json!({ "completed": 6, "issued": 6, "log": [], "queue": { "running": 6, "waiting": 4 } });
        assert!(facts(&peaks, false).contains("another time"));
        let evidence = json!({ "completed": 8, "issued": 8, "log": [], "queue": { "running": 8, "waiting": 0 } });
        assert_eq!(
            line(Some(&evidence)).unwrap(),
            "8 of 8 requests served, 8 running, 0 waiting"
        );
        assert_eq!(line(Some(&json!({}))), None);
        assert_eq!(line(Some(&json!("free words"))), None);
        assert_eq!(line(None), None);
    }
}
