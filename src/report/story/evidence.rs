//! What shows that a verdict is right, in one line: the log line that says so without what every log line begins with, or what the engine
//! and its queue did.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Characters of a line at most.
pub(super) const LONGEST: usize = 200;

/// Lines of a log beyond which they are its end, not those that say why.
const TELLING: usize = 3;

/// What a message of ours adds to a log line, where the engine named a length itself.
const OWN_WORDS: &str = "; the engine itself says ";

/// How the line begins that was made of it.
pub(super) const TOLD: &str = "the engine itself says ";

/// What log lines begin with: process, level, time, file, in any order.
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

/// The line that shows best what an answer rests on, at most [`LONGEST`] characters; none where the answer kept nothing.
pub(super) fn line(evidence: Option<&Value>) -> Option<String> {
    let evidence = evidence?;
    let mut said = said(evidence).unwrap_or_default();
    let facts = facts(evidence, said.is_empty());
    if !facts.is_empty() {
        let room = LONGEST.saturating_sub(facts.chars().count() + 2);
        said = match shortened(&said, room) {
            said if said.is_empty() => facts,
            said => format!("{said}; {facts}"),
        };
    }
    Some(shortened(&said, LONGEST)).filter(|line| !line.is_empty())
}

/// What the engine said, or we of it.
fn said(evidence: &Value) -> Option<String> {
    // What another tool kept has its own word for it.
    let message = ["message", "error_msg"]
        .iter()
        .find_map(|key| evidence.get(key)?.as_str());
    let message = message.unwrap_or_default();
    let log = evidence.get("log").and_then(Value::as_array);
    let lines: Vec<&str> = log.into_iter().flatten().filter_map(Value::as_str).collect();
    // Few lines are those that a rule knew; many are the end of the log.
    let telling = (lines.len() <= TELLING).then(|| lines.iter().find(|line| tells(line)).or(lines.first()));
    if let Some((_, own)) = message.split_once(OWN_WORDS) {
        let line = telling
            .flatten()
            .map_or_else(String::new, |line| format!(": {}", plain(line)));
        return Some(format!("{TOLD}{own}{line}"));
    }
    let best = match telling.flatten() {
        Some(line) => line,
        None if message.is_empty() => lines.last()?,
        None => message,
    };
    Some(plain(best)).filter(|line| !line.is_empty())
}

/// Whether a line names what was lacking.
fn tells(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["memory", "alloc", "error", "kv cache", "kill"]
        .iter()
        .any(|word| line.contains(word))
}

/// What the process and the queue did, where that shows something; of a request that ended as it should, that it did.
fn facts(evidence: &Value, alone: bool) -> String {
    let count = |at: &Value, key: &str| at.get(key).and_then(Value::as_u64);
    let mut facts = Vec::new();
    if let Some(code) = evidence.get("exit_code").and_then(Value::as_i64) {
        facts.push(format!("exit status {code}"));
    }
    if evidence.get("oom_killed").and_then(Value::as_bool) == Some(true) {
        facts.push("killed by the kernel for its memory".to_owned());
    }
    if let Some(status) = count(evidence, "http_status") {
        facts.push(format!("HTTP status {status}"));
    }
    let (completed, issued) = (count(evidence, "completed"), count(evidence, "issued"));
    if let (Some(completed), Some(issued), true) = (completed, issued, alone && facts.is_empty())
        && issued > 0
    {
        let noun = if issued == 1 { "request" } else { "requests" };
        facts.push(format!("{completed} of {issued} {noun} served"));
    }
    if let Some(queue) = evidence.get("queue").filter(|queue| queue.is_object()) {
        let named = [("running", "running"), ("waiting", "waiting")];
        let told = named
            .iter()
            .filter_map(|(key, word)| Some(format!("{} {word}", count(queue, key)?)));
        facts.extend(told);
    }
    facts.join(", ")
}

/// A log line without what every line begins with, on one line. That it was simulated stays.
fn plain(line: &str) -> String {
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

/// The text, cut off between words where it is longer than so many characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let cut: String = text.chars().take(most.saturating_sub(1)).collect();
    let end = cut.rfind(' ').filter(|end| *end * 2 > cut.len()).unwrap_or(cut.len());
    format!("{}…", cut[..end].trim_end_matches([',', ';', ':', '.', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_log_line_is_told_without_its_beginning() {
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
        for (log, told) in cases {
            let evidence = json!({ "log": [log], "message": "the engine died" });
            assert_eq!(line(Some(&evidence)).unwrap(), told);
        }
    }

    #[test]
    fn the_end_of_a_log_does_not_outweigh_the_message() {
        let log: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        let evidence = json!({ "log": log, "message": "no answer in time", "exit_code": null });
        assert_eq!(line(Some(&evidence)).unwrap(), "no answer in time");
        assert_eq!(line(Some(&json!({ "log": log }))).unwrap(), "line 19");
    }

    #[test]
    fn queue_and_exit_are_told_and_the_line_stays_short() {
        let queue = json!({ "kv_usage": 0.99, "preemptions": 4, "running": 31, "waiting": 50 });
        let evidence =
            json!({ "message": "the engine threw sequences out of its KV cache 4 times", "log": [], "queue": queue });
        assert_eq!(
            line(Some(&evidence)).unwrap(),
            "the engine threw sequences out of its KV cache 4 times; 31 running, 50 waiting"
        );
        let long = json!({ "log": ["out of memory ".repeat(40)], "exit_code": 137, "oom_killed": true });
        let told = line(Some(&long)).unwrap();
        assert!(told.chars().count() <= LONGEST, "{told}");
        assert!(
            told.ends_with("…; exit status 137, killed by the kernel for its memory"),
            "{told}"
        );
    }

    #[test]
    fn what_the_engine_says_of_another_length_comes_first() {
        let log = "(EngineCore pid=760) ERROR 11-21 07:29:52 [core.py:1231] ValueError: To serve 70064";
        let message = format!("{log}; the engine itself says that 63344 tokens would fit, and 65754 do not");
        assert_eq!(
            line(Some(&json!({ "log": [log], "message": message }))).unwrap(),
            "the engine itself says that 63344 tokens would fit, and 65754 do not: ValueError: To serve 70064"
        );
    }

    #[test]
    fn a_request_that_ended_well_says_so_and_nothing_says_nothing() {
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
