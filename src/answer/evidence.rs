//! Why a point does not fit: the failing probe nearest to the largest confirmed point, or the point that the engine's
//! own report rules out. Also one line of evidence for a verdict: the decisive log line without its prefix, or the
//! state of the process and the queue. Only the engine's own messages are put in quotes.

use std::fmt::Display;
use std::sync::LazyLock;

use regex::Regex;

use crate::boundary::{Boundary, Cause, Moves, Point, Record, Verdict};
use crate::evidence::Evidence;
use crate::fmt::thousands;

/// Why the nearest point to `point` that fails, or that the engine's report rules out, does not fit, as a sentence.
pub(crate) fn nearest_failure(boundary: &Boundary, point: &Point) -> Option<String> {
    let (point, record) = nearest_failing(boundary, point)?;
    Some(failure_sentence(&point, record))
}

/// The nearest point to `point` that fails, that the engine's report rules out, or that is refused for an unknown reason. The distance is the sum over all
/// axes, each relative to the axis length in its scale. Among equally near probes, prefers one that is at least as hard
/// on every axis.
pub(super) fn nearest_failing<'a>(boundary: &'a Boundary, point: &Point) -> Option<(Point, &'a Record)> {
    let distance = |other: &Point| -> Option<f64> {
        let apart = boundary
            .lattice()
            .axes()
            .iter()
            .map(|axis| Some((axis.share(axis.of(other)?) - axis.share(axis.of(point)?)).abs()));
        apart.sum()
    };
    let failing = boundary.records().filter(|(_, record)| {
        matches!(record.moves, Moves::Fails | Moves::Bounds) || record.cause == Some(Cause::UnknownLimit)
    });
    let nearest = failing.filter_map(|(other, record)| {
        let is_harder = boundary.lattice().is_at_most_as_hard(point, &other);
        Some((distance(&other)?, is_harder, other, record))
    });
    let (.., point, record) =
        nearest.min_by(|(a, a_harder, ..), (b, b_harder, ..)| a.total_cmp(b).then(b_harder.cmp(a_harder)))?;
    Some((point, record))
}

/// The message for a point that was not sent.
pub(crate) const NOT_SENT: &str = "not sent: the engine's own report rules it out";

/// The class of a probed point. If several share one cell of a map, the cell shows the last in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProbeClass {
    Unclear,
    Fits,
    /// Refused for its length.
    Clipped,
    /// The engine's own report rules it out, and nothing was sent.
    NotSent,
    Fails,
}

impl ProbeClass {
    pub(crate) fn from_record(record: &Record) -> Self {
        match (record.moves, record.verdict) {
            (Moves::Fits, _) => Self::Fits,
            (Moves::Fails, _) => Self::Fails,
            (Moves::Bounds, _) => Self::NotSent,
            (Moves::None, Verdict::Refused) => Self::Clipped,
            (Moves::None, _) => Self::Unclear,
        }
    }
}

/// The engine's report that rules out a point: `the engine reports room for 8,352 tokens`. `None` if the answer has no
/// report.
pub(crate) fn reported(evidence: &Evidence, cause: Option<&Cause>) -> Option<String> {
    let tokens = thousands(evidence.reported?);
    Some(match cause {
        Some(Cause::LengthLimit) => format!("the engine reports a limit of {tokens} tokens"),
        _ => format!("the engine reports room for {tokens} tokens"),
    })
}

/// Why a point does not fit: the engine's own message in quotes, or ours if the engine gave none; and the remedy in the
/// engine's flags, if one is known.
pub(super) fn failure_sentence(point: &Point, record: &Record) -> String {
    let evidence = Evidence::from_record(record);
    let cause = record.cause.as_ref();
    let figure = evidence.reported.map(|tokens| tokens.to_string());
    let quoted = said_by_engine(&evidence)
        .map(|message| match figure {
            Some(figure) => sentence_with(&message, &figure),
            None => message,
        })
        .map(|message| format!(": “{}”", truncated(&message, MAX_CHARS)));
    if record.moves == Moves::Bounds {
        let reported = reported(&evidence, cause).unwrap_or_else(|| "the engine's own report rules it out".to_owned());
        return format!("{point} was not sent; {reported}{}", quoted.unwrap_or_default());
    }
    let shown = match (quoted, facts(&evidence, false)) {
        (Some(quoted), facts) if facts.is_empty() => quoted,
        (Some(quoted), facts) => format!("{quoted}; {facts}"),
        (None, _) => line(&evidence).map_or_else(String::new, |shown| format!(": {shown}")),
    };
    let remedy = evidence.remedy.as_ref().map(|remedy| format!("; remedy: {remedy}"));
    let verdict = verdict_text(record.verdict, cause);
    format!("at {point} {verdict}{shown}{}", remedy.unwrap_or_default())
}

/// A verdict in words: `the engine ran out of GPU memory (cuda)`.
fn verdict_text(verdict: Verdict, cause: Option<&Cause>) -> String {
    let phrase = cause.and_then(|cause| cause.phrase(verdict)).unwrap_or(match verdict {
        Verdict::Ok => "the engine served it",
        Verdict::Oom => "the engine ran out of memory",
        Verdict::Refused => "the engine refused it",
        Verdict::Preempted => "the engine served it only by preempting sequences",
        Verdict::Queued => "the engine ran fewer concurrent requests than requested",
        Verdict::StartFailed => "the engine did not start",
        Verdict::NotSent => NOT_SENT,
        Verdict::Timeout => "the request timed out",
        Verdict::ShortOutput => "the output was shorter than requested",
        Verdict::Error => "the answer was inconclusive",
    });
    with_cause(phrase, cause.filter(|cause| !phrase.contains(cause.name())))
}

/// `oom (cuda)`.
pub(crate) fn with_cause(verdict: impl Display, cause: Option<impl Display>) -> String {
    match cause {
        Some(cause) => format!("{verdict} ({cause})"),
        None => verdict.to_string(),
    }
}

/// Longest line of evidence, in characters.
const MAX_CHARS: usize = 200;

/// More log lines than this are the tail of the log, not lines that a failure rule matched.
const MAX_RULE_LINES: usize = 3;

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
pub(crate) fn line(evidence: &Evidence) -> Option<String> {
    let mut text = main_text(evidence).unwrap_or_default();
    if let Some(reported) = reported(evidence, None) {
        text = match text.as_str() {
            "" => reported,
            said => format!("{reported}: {said}"),
        };
    }
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

/// The log line or rejection message that a failure rule matched; `None` if the log is only a tail of many lines.
fn said_by_engine(evidence: &Evidence) -> Option<String> {
    let lines = &evidence.log;
    let picked = lines
        .iter()
        .find(|line| names_cause(line))
        .or(lines.first())
        .filter(|_| lines.len() <= MAX_RULE_LINES)?;
    Some(without_prefix(picked)).filter(|line| !line.is_empty())
}

/// The engine's own message, else the probe's message, else the last line of the log.
fn main_text(evidence: &Evidence) -> Option<String> {
    said_by_engine(evidence).or_else(|| {
        let message = evidence.message.as_ref().filter(|message| !message.is_empty());
        let best = message.or(evidence.log.last())?;
        Some(without_prefix(best)).filter(|line| !line.is_empty())
    })
}

/// Whether a line names a resource or an error.
fn names_cause(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["memory", "alloc", "error", "kv cache", "kill"]
        .iter()
        .any(|word| line.contains(word))
}

/// Exit status, HTTP status and queue. If nothing else is known (`only_fact`), also how many requests completed.
fn facts(evidence: &Evidence, only_fact: bool) -> String {
    let mut facts = Vec::new();
    if let Some(code) = evidence.exit_code {
        facts.push(format!("exit status {code}"));
    }
    if evidence.oom_killed == Some(true) {
        facts.push("killed by the kernel (out of memory)".to_owned());
    }
    if let Some(status) = evidence.http_status {
        facts.push(format!("HTTP status {status}"));
    }
    let (completed, issued) = (evidence.completed, evidence.issued);
    if issued > 0 && only_fact && facts.is_empty() {
        let noun = if issued == 1 { "request" } else { "requests" };
        facts.push(format!("{completed} of {issued} {noun} served"));
    }
    let queue = evidence.queue.as_ref();
    let running = queue.and_then(|queue| queue.running);
    let waiting = queue.and_then(|queue| queue.waiting);
    match (running, waiting) {
        // The queue holds the peak of each value, and the peaks may be of different times.
        (Some(running), Some(waiting)) if issued > 0 && running + waiting > issued => {
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

/// The sentence that contains a figure, or the whole text if none does. Keeps the mark of a simulated engine.
fn sentence_with(text: &str, figure: &str) -> String {
    let Some(sentence) = text.split(". ").find(|sentence| sentence.contains(figure)) else {
        return text.to_owned();
    };
    let mark = if text.starts_with("SIMULATED ") && !sentence.starts_with("SIMULATED ") {
        "SIMULATED "
    } else {
        ""
    };
    let before = if text.starts_with(sentence) { "" } else { "…" };
    let after = if text.ends_with(sentence) { "" } else { "…" };
    format!("{mark}{before}{sentence}{after}")
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

    fn line_of(evidence: Value) -> Option<String> {
        line(&Evidence::read(&evidence))
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

    #[test]
    fn a_known_remedy_follows_the_evidence() {
        let axes = json!({ "input": [1, 4096] });
        let refused = json!({ "verdict": "start_failed", "cause": "memory", "evidence": {
            "message": "CUDA out of memory", "remedy": "lower `--max-num-seqs`",
        } });
        let map = boundary(
            &axes,
            &[
                (json!({ "input": 1 }), json!("ok")),
                (json!({ "input": 4096 }), refused),
            ],
        );
        let nearest = nearest_failure(&map, &Point::default().with("input", 1)).unwrap();
        assert!(nearest.ends_with("lower `--max-num-seqs`"), "{nearest}");
    }

    /// The page must not claim a request or a start for a point that only the engine's report rules out.
    #[test]
    fn a_ruled_out_point_was_not_sent_and_only_the_engine_is_quoted() {
        let evidence = json!({ "message": "ours", "log": ["ValueError: too long"], "reported": 8352 });
        let ruled_out = json!({ "verdict": "not_sent", "cause": "memory", "evidence": evidence });
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
            "input=4608 was not sent; the engine reports room for 8,352 tokens: “ValueError: too long”"
        );
        let evidence = json!({ "message": "it served fewer", "log": [], "queue": { "running": 3, "waiting": 5 } });
        let queued = json!({ "verdict": "queued", "evidence": evidence });
        let map = boundary(&json!({ "input": [128, 8192] }), &[(json!({ "input": 4608 }), queued)]);
        let nearest = nearest_failure(&map, &Point::default().with("input", 4096)).unwrap();
        assert!(
            nearest.contains("it served fewer; 3 running") && !nearest.contains('“'),
            "{nearest}"
        );
    }

    #[test]
    fn the_sentence_that_has_the_figure_is_quoted() {
        let said = "SIMULATED ValueError: too long (94208). The estimated maximum is 8352. Try less.";
        assert_eq!(sentence_with(said, "8352"), "SIMULATED …The estimated maximum is 8352…");
        assert_eq!(sentence_with(said, "94208"), "SIMULATED ValueError: too long (94208)…");
        assert_eq!(sentence_with(said, "7"), said);
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
            assert_eq!(line_of(evidence).unwrap(), expected);
        }
    }

    #[test]
    fn message_is_preferred_to_a_log_tail() {
        let log: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        let evidence = json!({ "log": log, "message": "no answer in time", "exit_code": null });
        assert_eq!(line_of(evidence).unwrap(), "no answer in time");
        assert_eq!(line_of(json!({ "log": log })).unwrap(), "line 19");
    }

    #[test]
    fn queue_and_exit_status_are_added_within_the_limit() {
        let queue = json!({ "kv_usage": 0.99, "preemptions": 4, "running": 31, "waiting": 50 });
        let evidence = json!({ "message": "the engine preempted 4 sequences", "log": [], "queue": queue });
        assert_eq!(
            line_of(evidence).unwrap(),
            "the engine preempted 4 sequences; 31 running, 50 waiting"
        );
        let long = json!({ "log": ["out of memory ".repeat(40)], "exit_code": 137, "oom_killed": true });
        let expected = line_of(long).unwrap();
        assert!(expected.chars().count() <= MAX_CHARS, "{expected}");
        assert!(
            expected.ends_with("…; exit status 137, killed by the kernel (out of memory)"),
            "{expected}"
        );
    }

    #[test]
    fn what_the_engine_reports_comes_first() {
        let log = "(EngineCore pid=760) ERROR 11-21 07:29:52 [core.py:1231] ValueError: To serve 70064";
        assert_eq!(
            line_of(json!({ "log": [log], "message": log, "reported": 63344 })).unwrap(),
            "the engine reports room for 63,344 tokens: ValueError: To serve 70064"
        );
    }

    #[test]
    fn completed_requests_are_counted_and_no_evidence_is_none() {
        let peaks = json!({ "completed": 6, "issued": 6, "log": [], "queue": { "running": 6, "waiting": 4 } });
        assert!(facts(&Evidence::read(&peaks), false).contains("another time"));
        let evidence = json!({ "completed": 8, "issued": 8, "log": [], "queue": { "running": 8, "waiting": 0 } });
        assert_eq!(
            line_of(evidence).unwrap(),
            "8 of 8 requests served, 8 running, 0 waiting"
        );
        assert_eq!(line_of(json!({})), None);
        assert_eq!(line_of(json!("free words")).unwrap(), "free words");
        assert_eq!(line_of(json!(null)), None);
    }
}
