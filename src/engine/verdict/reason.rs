//! Finds the message or the log line that gives the reason of a failure, by the rank and the place of an adapter's rules.
//!
//! The first line of a log that matches is often a warning, a failed import of an optional part, or an error from which
//! the engine recovered. What counts is what ended it: the highest rank, then an exception before another line, then
//! the last.

use std::sync::LazyLock;

use regex::Regex;

use crate::engine::adapter::{FailureRule, RulePhase, RulePlace, RuleRank};
use crate::runtime::Exit;

/// The evidence that a failure is classified by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Symptoms<'a> {
    pub(crate) exit: Option<&'a Exit>,
    /// Response bodies of rejected requests, and errors within streams.
    pub(crate) messages: &'a [String],
    /// Log lines since the start or since the probe began, oldest first.
    pub(crate) log: &'a [String],
}

/// The rule that explains a failure in `phase`, and the text that it matched.
pub(super) fn reason<'a>(
    rules: &'a [FailureRule],
    phase: RulePhase,
    symptoms: Symptoms<'a>,
) -> Option<(&'a FailureRule, &'a String)> {
    let rules: Vec<Candidate<'a>> = rules
        .iter()
        .filter(|rule| rule.phase == RulePhase::Any || rule.phase == phase)
        .map(|rule| Candidate::new(rule, symptoms))
        .collect();
    let mut best: Option<Match<'a>> = None;
    let mut is_chained = false;
    // Messages of responses come after log lines.
    let lines = symptoms.log.iter().enumerate().map(|(index, line)| (Some(index), line));
    for (index, text) in lines.chain(symptoms.messages.iter().map(|message| (None, message))) {
        if CHAINED.iter().any(|words| text.contains(words)) {
            is_chained = true;
            continue;
        }
        if index.is_some() && quotes(text) {
            continue;
        }
        let exception = exception(text);
        let prefix = &text[..text.len() - exception.map_or(0, str::len)];
        let warning = index.and_then(|_| level_of_warning(prefix));
        let line = Line {
            index,
            text,
            exception,
            warning,
        };
        let matching = rules.iter().find(|rule| rule.matches(&line));
        match matching.map(|candidate| candidate.rule) {
            Some(rule) if rule.rank == RuleRank::Consequence => {}
            Some(rule) => {
                let found = Match {
                    rule,
                    text,
                    is_exception: exception.is_some(),
                };
                best = best.filter(|best| best.strength() > found.strength()).or(Some(found));
            }
            // An exception that no rule knows ended the engine. The earlier words were about something else.
            None if exception.is_some() && warning.is_none() && !is_chained => {
                best = best.filter(|best| best.rule.rank < RuleRank::Warning);
            }
            None => {}
        }
        is_chained &= exception.is_none();
    }
    best.map(|best| (best.rule, best.text))
}

/// Python writes them between an exception and the one that was raised while it was handled, or because of it.
const CHAINED: [&str; 2] = [
    "During handling of the above exception, another exception occurred",
    "The above exception was the direct cause of the following exception",
];

/// A text that a rule matched.
struct Match<'a> {
    rule: &'a FailureRule,
    text: &'a String,
    is_exception: bool,
}

impl Match<'_> {
    /// Greater is stronger; of equals, the last counts.
    fn strength(&self) -> (std::cmp::Reverse<RuleRank>, bool) {
        (std::cmp::Reverse(self.rule.rank), self.is_exception)
    }
}

/// A log line, or a message.
struct Line<'a> {
    /// A message has none.
    index: Option<usize>,
    text: &'a str,
    exception: Option<&'a str>,
    /// Where the level stands, if the engine logs the line as a warning or less.
    warning: Option<usize>,
}

/// A rule that holds in this phase.
struct Candidate<'a> {
    rule: &'a FailureRule,
    /// The first log line that counts: the one after the last that matches `unless`.
    from: usize,
}

impl<'a> Candidate<'a> {
    fn new(rule: &'a FailureRule, symptoms: Symptoms<'a>) -> Self {
        let unless = rule.unless.as_ref();
        let last = unless.and_then(|unless| symptoms.log.iter().rposition(|line| unless.is_match(line)));
        Self {
            rule,
            from: last.map_or(0, |last| last + 1),
        }
    }

    fn matches(&self, line: &Line<'_>) -> bool {
        let is_cancelled = match line.index {
            Some(index) => index < self.from,
            None => self
                .rule
                .unless
                .as_ref()
                .is_some_and(|unless| unless.is_match(line.text)),
        };
        if is_cancelled {
            return false;
        }
        let pattern = &self.rule.pattern;
        match (self.rule.place, line.warning) {
            (RulePlace::Anywhere, None) => pattern.is_match(line.text),
            // The pattern names the level.
            (RulePlace::Anywhere, Some(level)) => pattern.find(line.text).is_some_and(|found| found.start() <= level),
            (RulePlace::Exception, None) => line.exception.is_some_and(|exception| pattern.is_match(exception)),
            (RulePlace::Exception, Some(_)) => false,
        }
    }
}

/// The part of a text that a rule's pattern is matched with.
pub(super) fn in_place<'a>(rule: &FailureRule, text: &'a str) -> &'a str {
    match rule.place {
        RulePlace::Anywhere => text,
        RulePlace::Exception => exception(text).unwrap_or(text),
    }
}

/// The part of a line that is a Python exception, from its type on: at the start, or after what processes, launchers and
/// loggers put before it.
fn exception(line: &str) -> Option<&str> {
    static EXCEPTION: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:^|[\])>|│]:?|\bERROR:?|\bSIMULATED)\s*((?:[A-Za-z_]\w*\.)*(?:\w+(?:Error|Exception)|Exception)(?:: |:?$))")
            .expect("a valid pattern")
    });
    let found = EXCEPTION.captures(line)?.get(1)?;
    Some(&line[found.start()..])
}

/// Where the level stands before a line that the engine itself logs below errors: as a warning, a note or a trace.
fn level_of_warning(prefix: &str) -> Option<usize> {
    static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
        let names =
            r#"(?:^|[\s\[("'|]|level=)(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)(?:[\s\])"':,|]|$)"#;
        // TensorRT-LLM `[W]`, llama.cpp `0.00.512 W `, glog and torch's C++ part `[W1120 12:50:21`.
        let letters = r"\[([VDIWEF])\]|^[\d.]+ ([DIWE]) |^\[?([IWEF])\d{4} ";
        Regex::new(&format!("{names}|{letters}")).expect("a valid pattern")
    });
    // Process, date, time and logger may precede the level.
    const WORDS_BEFORE: usize = 6;
    let end = prefix.match_indices(char::is_whitespace).nth(WORDS_BEFORE);
    let prefix = &prefix[..end.map_or(prefix.len(), |(end, _)| end)];
    let level = LEVEL.captures(prefix)?.iter().skip(1).flatten().next()?;
    // NCCL has no higher level for what fails.
    let is_error = matches!(level.as_str(), "ERROR" | "CRITICAL" | "FATAL" | "E" | "F")
        || prefix[..level.start()].trim_end().ends_with("NCCL");
    (!is_error).then_some(level.start())
}

/// True if a log line may quote the content of a request or an answer, so that a match proves no failure.
fn quotes(line: &str) -> bool {
    line.contains("prompt: ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::Verdict;

    fn rules() -> Vec<FailureRule> {
        let rule = |pattern: &str, rank, place| FailureRule {
            rank,
            place,
            ..FailureRule::new(pattern, Verdict::Error, Some(pattern))
        };
        vec![
            rule("KV cache", RuleRank::Fatal, RulePlace::Anywhere),
            rule("shm", RuleRank::Error, RulePlace::Anywhere),
            rule("ImportError", RuleRank::Warning, RulePlace::Exception),
            rule("No such file", RuleRank::Warning, RulePlace::Anywhere),
            rule("See root cause", RuleRank::Consequence, RulePlace::Anywhere),
            rule("level=WARN .*too large", RuleRank::Error, RulePlace::Anywhere),
        ]
    }

    fn found(log: &[&str], messages: &[&str]) -> Option<String> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (log, messages, rules) = (owned(log), owned(messages), rules());
        let symptoms = Symptoms {
            exit: None,
            messages: &messages,
            log: &log,
        };
        reason(&rules, RulePhase::Start, symptoms).map(|(_, text)| text.clone())
    }

    #[test]
    fn rank_then_place_then_the_last_decide() {
        let table: &[(&[&str], Option<&str>)] = &[
            (&["shm 1", "shm 2"], Some("shm 2")),
            (&["KV cache", "shm"], Some("KV cache")),
            (&["shm", "KV cache"], Some("KV cache")),
            (&["ImportError: a", "sh: No such file"], Some("ImportError: a")),
            (&["sh: No such file", "ImportError: a"], Some("ImportError: a")),
            // The words of a rule for exceptions, within another line.
            (&["see (ImportError: a)"], None),
            (&["an ImportError: a"], None),
            // An exception that no rule knows ended it.
            (&["ImportError: a", "ValueError: heads"], None),
            (&["shm", "ValueError: heads"], Some("shm")),
            (
                &["ImportError: a", "RuntimeError: failed. See root cause above."],
                Some("ImportError: a"),
            ),
            (
                &["ImportError: a", CHAINED[1], "RuntimeError: b"],
                Some("ImportError: a"),
            ),
            (
                &["ImportError: a", CHAINED[0], "RuntimeError: b", "ValueError: c"],
                None,
            ),
        ];
        for (row, (log, expected)) in table.iter().enumerate() {
            assert_eq!(found(log, &[]).as_deref(), *expected, "row {row}");
        }
        assert_eq!(found(&["shm 1"], &["shm 2"]).as_deref(), Some("shm 2"));
        assert_eq!(found(&["KV cache"], &["shm"]).as_deref(), Some("KV cache"));
    }

    #[test]
    fn a_line_below_the_level_of_errors_gives_no_reason() {
        for prefix in [
            "WARNING 08-01 10:00:00 [utils.py:1] ",
            "(EngineCore pid=11) INFO 08-01 10:00:05 [core.py:1] ",
            "WARNING:root:",
            "2026-08-01 10:00:00,123 - root - WARNING - ",
            "2026-08-01T10:00:00.123Z  WARN launcher: ",
            "time=2026-08-01T10:00:00Z level=WARN source=sched.go:1 msg=",
            r#"{"timestamp":"2026-08-01","level":"INFO","message":"#,
            "[TensorRT-LLM][WARNING] ",
            "[11/20/2026-12:50:21] [TRT-LLM] [RANK 0] [W] ",
            "[W1120 12:50:21.1 socket.cpp:697] ",
            "0.00.512.1 W srv load_model: ",
        ] {
            assert_eq!(found(&[&format!("{prefix}KV cache")], &[]), None, "{prefix}");
            assert_eq!(found(&[&format!("{prefix}ImportError: x")], &[]), None, "{prefix}");
        }
        for prefix in [
            "",
            "ERROR 08-01 10:00:00 [utils.py:1] ",
            "(EngineCore pid=11) ERROR 08-01 10:00:05 [core.py:1] ",
            "[2026-08-01 10:00:00 TP0] ",
            "[rank0]: ",
            "host:1:1 [0] NCCL WARN ",
            "[11/20/2026-12:50:21] [TRT-LLM] [RANK 0] [E] ",
            "0.00.512.1 E srv load_model: ",
            "RuntimeError: unhandled (NCCL_DEBUG=INFO) ",
        ] {
            assert!(found(&[&format!("{prefix}KV cache")], &[]).is_some(), "{prefix}");
        }
        assert_eq!(
            found(&[], &["WARN KV cache"]).as_deref(),
            Some("WARN KV cache"),
            "an answer"
        );
    }

    #[test]
    fn an_exception_begins_at_its_type() {
        for (line, expected) in [
            (
                "torch.OutOfMemoryError: CUDA out of memory",
                Some("torch.OutOfMemoryError: CUDA out of memory"),
            ),
            (
                "(E pid=1) ERROR 08-01 10:00:05 [core.py:1] ValueError: a: b",
                Some("ValueError: a: b"),
            ),
            ("[rank0]: RuntimeError: x", Some("RuntimeError: x")),
            ("vllm-1  | OSError: x", Some("OSError: x")),
            ("(RayWorkerProc pid=1) MemoryError", Some("MemoryError")),
            (
                "Exception: Capture cuda graph failed",
                Some("Exception: Capture cuda graph failed"),
            ),
            ("CUDA Error: out of memory at a.cpp", None),
            ("Error: ShardCannotStart", None),
            ("failed with ValueError: x", None),
            ("    raise ValueError(", None),
        ] {
            assert_eq!(exception(line), expected, "{line}");
        }
    }
}
