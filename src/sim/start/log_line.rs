//! Log lines with each engine's prefix. Every line contains `SIMULATED`, in a place that no known pattern matches.

use std::fmt;

use jiff::Zoned;

/// Prefix of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinePrefix {
    /// `(EngineCore pid=2) INFO 11-20 12:50:39 [gpu_worker.py:508] `
    Vllm {
        /// `APIServer` or `EngineCore`.
        process: &'static str,
        /// `INFO`, `WARNING` or `ERROR`.
        level: &'static str,
        /// Source file and line.
        place: &'static str,
    },
    /// `(APIServer pid=1) `, for lines that are not vLLM's own.
    VllmRaw(&'static str),
    /// `2026-11-20T14:48:02.408481Z  INFO text_generation_launcher: `
    Tgi {
        /// `INFO`, `WARN` or `ERROR`.
        level: &'static str,
        module: &'static str,
    },
    /// `time=2026-11-20T14:48:02.408Z level=INFO source=SIMULATED `
    Slog {
        /// `INFO`, `WARN` or `ERROR`.
        level: &'static str,
    },
    /// `[2026-11-20 12:50:39 TP0] `
    Sglang,
    /// `[11/20/2026-12:50:39] [TRT-LLM] [I] `, with the given level.
    TensorrtLlm(&'static str),
    /// Only `SIMULATED`.
    Bare,
    /// None: the text must start the line, and contains `SIMULATED` itself.
    Start,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLine {
    pub(crate) prefix: LinePrefix,
    pub(crate) text: String,
}

impl LogLine {
    pub(crate) fn new(prefix: LinePrefix, text: impl Into<String>) -> Self {
        Self {
            prefix,
            text: text.into(),
        }
    }

    /// The line as logged at this time.
    pub(crate) fn at<'a>(&'a self, time: &'a Zoned) -> impl fmt::Display + 'a {
        Stamped { line: self, time }
    }
}

struct Stamped<'a> {
    line: &'a LogLine,
    time: &'a Zoned,
}

impl fmt::Display for Stamped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = |process: &str| if process == "APIServer" { 1 } else { 2 };
        match self.line.prefix {
            LinePrefix::Vllm { process, level, place } => write!(
                f,
                "({process} pid={} SIMULATED) {level} {} [{place}] ",
                pid(process),
                self.time.strftime("%m-%d %H:%M:%S")
            )?,
            LinePrefix::VllmRaw(process) => write!(f, "({process} pid={} SIMULATED) ", pid(process))?,
            LinePrefix::Tgi { level, module } => write!(
                f,
                "{} {level:>5} {module}: SIMULATED: ",
                self.time.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            )?,
            LinePrefix::Slog { level } => write!(
                f,
                "time={} level={level} source=SIMULATED ",
                self.time.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
            )?,
            LinePrefix::Sglang => write!(f, "[{} TP0] SIMULATED ", self.time.strftime("%Y-%m-%d %H:%M:%S"))?,
            LinePrefix::TensorrtLlm(level) => write!(
                f,
                "[{}] [TRT-LLM] [{level}] SIMULATED ",
                self.time.strftime("%m/%d/%Y-%H:%M:%S")
            )?,
            LinePrefix::Bare => write!(f, "SIMULATED ")?,
            LinePrefix::Start => {}
        }
        f.write_str(&self.line.text)
    }
}
