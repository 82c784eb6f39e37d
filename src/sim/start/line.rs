//! Log lines as each engine prefixes them. Every line says `SIMULATED`, where no known pattern looks.

use std::fmt;

use jiff::Zoned;

/// What stands before the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// `(EngineCore pid=2) INFO 11-20 12:50:39 [gpu_worker.py:508] `
    Vllm {
        /// `APIServer` or `EngineCore`.
        process: &'static str,
        /// `INFO`, `WARNING` or `ERROR`.
        level: &'static str,
        /// Where the engine logs it.
        place: &'static str,
    },
    /// `(APIServer pid=1) `, for lines that are not vLLM's own.
    VllmRaw(&'static str),
    /// `2026-11-20T14:48:02.408481Z  INFO text_generation_launcher: `
    Tgi {
        /// `INFO`, `WARN` or `ERROR`.
        level: &'static str,
        /// The module.
        module: &'static str,
    },
    /// `time=2026-11-20T14:48:02.408Z level=INFO source=SIMULATED `
    Slog {
        /// `INFO`, `WARN` or `ERROR`.
        level: &'static str,
    },
    /// `[2026-11-20 12:50:39 TP0] `
    Sglang,
    /// `[11/20/2026-12:50:39] [TRT-LLM] [I] `, with its level.
    TensorrtLlm(&'static str),
    /// Nothing but the mark.
    Bare,
    /// Nothing at all: the text must begin the line, and bears the mark itself.
    Start,
}

/// One log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// What stands before the text.
    pub(crate) head: Head,
    /// The text.
    pub(crate) text: String,
}

impl Line {
    /// A line.
    pub(crate) fn new(head: Head, text: impl Into<String>) -> Self {
        Self {
            head,
            text: text.into(),
        }
    }

    /// The line as it is logged at this moment.
    pub(crate) fn at<'a>(&'a self, time: &'a Zoned) -> impl fmt::Display + 'a {
        Stamped { line: self, time }
    }
}

struct Stamped<'a> {
    line: &'a Line,
    time: &'a Zoned,
}

impl fmt::Display for Stamped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = |process: &str| if process == "APIServer" { 1 } else { 2 };
        match self.line.head {
            Head::Vllm { process, level, place } => write!(
                f,
                "({process} pid={} SIMULATED) {level} {} [{place}] ",
                pid(process),
                self.time.strftime("%m-%d %H:%M:%S")
            )?,
            Head::VllmRaw(process) => write!(f, "({process} pid={} SIMULATED) ", pid(process))?,
            Head::Tgi { level, module } => write!(
                f,
                "{} {level:>5} {module}: SIMULATED: ",
                self.time.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            )?,
            Head::Slog { level } => write!(
                f,
                "time={} level={level} source=SIMULATED ",
                self.time.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
            )?,
            Head::Sglang => write!(f, "[{} TP0] SIMULATED ", self.time.strftime("%Y-%m-%d %H:%M:%S"))?,
            Head::TensorrtLlm(level) => write!(
                f,
                "[{}] [TRT-LLM] [{level}] SIMULATED ",
                self.time.strftime("%m/%d/%Y-%H:%M:%S")
            )?,
            Head::Bare => write!(f, "SIMULATED ")?,
            Head::Start => {}
        }
        f.write_str(&self.line.text)
    }
}
