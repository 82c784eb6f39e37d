//! In-process probes: Python programs that run inside the engine's environment and print one JSON object. Also journals
//! the trials of experiments.

use std::collections::BTreeMap;
use std::io::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::lifecycle::engine::Engine;
use super::lifecycle::ensure;
use super::lifecycle::health::stop_if_exited;
use super::lifecycle::memory::wait_for_baseline;
use super::lifecycle::options::{DefaultsTo, wrong};
use super::lifecycle::preview::preview;
use super::lifecycle::state::Live;
use crate::fault::{Fault, Kind, Result};
use crate::outside;
use crate::run::{EnginePhase, OperationKind};
use crate::run::{Limits, Operation, Run, hide, hide_variable};
use crate::runtime::{Captured, Program, RuntimeKind, environment, placeholder_launch, start};

/// Environment variable that is set for a program running next to a serving engine.
const SERVING: &str = "PROFILER_SERVING";

/// Lines of standard error shown in an error.
const STDERR_LINES: usize = 20;

/// Exit statuses of the shipped probes; see stdlib/probes/profiler_probe.py.
const IS_MISSING: i64 = 3;
const REFUSED: i64 = 4;

/// The program of an in-process probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeProgram {
    /// The name used by the script: `allocator`, `./mine.py`.
    pub name: String,
    /// The file in `files` to run.
    pub file: String,
    /// File contents by name.
    pub files: BTreeMap<String, String>,
    /// SHA-256 of the program.
    pub sha256: String,
    /// Whether it ships with the profiler rather than with the script.
    pub shipped: bool,
}

/// Options of `engine.run_probe`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProgramOptions {
    /// Arguments of the program.
    pub args: Arguments,
    /// Environment variables in addition to the engine's.
    #[serde(deserialize_with = "environment")]
    pub env: BTreeMap<String, String>,
    /// The Python interpreter. Default: the engine's own, or `python3`.
    pub python: Option<String>,
    /// Timeout in seconds.
    pub timeout: DefaultsTo<600>,
}

/// Program arguments as a script writes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "arguments are an array of strings, or a map by name")]
pub enum Arguments {
    /// A list, as on a command line.
    Words(Vec<String>),
    /// Options by name: `#{ max_tokens: 5, fast: true }` is `--max-tokens 5 --fast`. False and `()` are left out; an
    /// array repeats the option.
    Named(Map<String, Value>),
}

impl Default for Arguments {
    fn default() -> Self {
        Arguments::Words(Vec::new())
    }
}

impl Arguments {
    /// The arguments as a command line.
    ///
    /// # Errors
    ///
    /// `usage` if a value is a map or a nested array.
    pub fn command_line(&self) -> Result<Vec<String>> {
        let named = match self {
            Arguments::Words(words) => return Ok(words.clone()),
            Arguments::Named(named) => named,
        };
        let mut words = Vec::new();
        for (name, value) in named {
            let flag = format!("--{}", name.replace('_', "-"));
            let values = match value {
                Value::Array(values) => values.iter().collect(),
                one => vec![one],
            };
            for value in values {
                match value {
                    Value::Null | Value::Bool(false) => {}
                    Value::Bool(true) => words.push(flag.clone()),
                    Value::String(text) => words.extend([flag.clone(), text.clone()]),
                    Value::Number(number) => words.extend([flag.clone(), number.to_string()]),
                    Value::Array(_) | Value::Object(_) => {
                        return Err(Fault::usage(format!(
                            "option `args.{name}` is neither a string, a number nor a bool"
                        )));
                    }
                }
            }
        }
        Ok(words)
    }
}

impl ProbeProgram {
    /// The program with these options, ready to run.
    ///
    /// # Errors
    ///
    /// `usage` for invalid options.
    pub fn with(&self, options: &ProgramOptions) -> Result<Program> {
        let timeout = options.timeout.0;
        if !(timeout > 0.0 && timeout <= 86400.0) {
            return Err(Fault::usage(format!(
                "option `timeout` is {timeout}, not a number of seconds up to a day"
            )));
        }
        let interpreter = options
            .python
            .as_deref()
            .map(|path| path.rsplit('/').next().unwrap_or(path));
        if let Some(name) = interpreter.filter(|name| !name.starts_with("python") && !name.starts_with("pypy")) {
            return wrong(
                format!("option `python` names `{name}`, which is not Python"),
                "give the path of an interpreter, such as `/opt/venv/bin/python3`",
            );
        }
        Ok(Program {
            file: self.file.clone(),
            files: self.files.clone(),
            args: options.args.command_line()?,
            env: options.env.clone(),
            python: options.python.clone(),
            timeout,
        })
    }

    /// The key that a resumed run compares. `shown` says where the program runs.
    pub fn journal_key(&self, shown: Value, options: &ProgramOptions) -> Value {
        let mut options = options.clone();
        for (name, value) in &mut options.env {
            *value = hide_variable(name, value).to_owned();
        }
        json!({ "program": self.name, "sha256": self.sha256, "where": shown, "options": options })
    }

    /// Returns the journaled answer, or runs `work` and journals its answer.
    ///
    /// # Errors
    ///
    /// Errors of `work`; `engine` for a program that fails or does not print one JSON object.
    pub fn run_or_replay(
        &self,
        run: &Run,
        journal_key: Value,
        work: impl FnOnce() -> Result<Captured>,
    ) -> Result<Value> {
        run.measure(OperationKind::Experiment, journal_key, || {
            let captured = work()?;
            self.write_stderr(run, &captured)?;
            document(&self.name, &captured).map(Operation::Experiment)
        })
    }

    /// Writes the program's standard error to a log of the run.
    fn write_stderr(&self, run: &Run, captured: &Captured) -> Result<()> {
        if captured.stderr.is_empty() {
            return Ok(());
        }
        let name = format!("probe-{}.log", self.file.trim_end_matches(".py"));
        let text = String::from_utf8_lossy(&captured.stderr);
        run.write("logs", &name, |file| file.write_all(hide(&text).as_bytes()))
            .map(drop)
    }
}

/// Runs a program inside the running engine's environment, or, if none runs, in a fresh container or process in place
/// of the engine.
///
/// # Errors
///
/// `not_allowed` for a script's own program, or its environment, in a container; `usage` for the simulated engine;
/// `missing` and `usage` as reported by the program; `timeout`; `engine` if it fails or prints no JSON object.
pub fn run_probe(engine: &Engine, probe: &ProbeProgram, options: &ProgramOptions) -> Result<Value> {
    let mut program = probe.with(options)?;
    check_program(engine, probe, options)?;
    if engine.context.dry_run {
        // Its fault names the engine, which is not what would be run.
        let _engine = preview(engine, engine.full_limits(Limits::SMALLEST))?;
        return Err(Fault::dry_run(format!("the probe `{}` would be run", probe.name)));
    }
    let place = json!({ "engine": engine.name(), "launch": engine.shown });
    let journal_key = probe.journal_key(place, options);
    probe.run_or_replay(&engine.context.run, journal_key, || {
        if engine.runtime == RuntimeKind::Attach {
            ensure::start(engine)?;
        }
        let mut live = engine.lock();
        stop_if_exited(engine, &mut live)?;
        engine.phase(EnginePhase::Probing, &probe.name)?;
        match &live.running {
            Some(running) => {
                program.env.insert(SERVING.to_owned(), "1".to_owned());
                engine.wait(running.server.service.run_program(&program))
            }
            None => run_without_engine(engine, &mut live, &program),
        }
    })
}

/// Containers of shipped adapters hold the token and the model cache, so code from a script needs permission to run
/// there.
fn check_program(engine: &Engine, probe: &ProbeProgram, options: &ProgramOptions) -> Result<()> {
    match engine.runtime {
        RuntimeKind::Sim => wrong(
            "the simulated engine cannot run in-process probes",
            "use the runtime `docker` or `process`, or `probe::run`",
        ),
        RuntimeKind::Process => engine.context.permits.check_process(),
        RuntimeKind::Docker | RuntimeKind::Attach if !probe.shipped => {
            engine.context.permits.check_program(&format!("`{}`", probe.name))
        }
        RuntimeKind::Docker | RuntimeKind::Attach if !options.env.is_empty() => {
            engine.context.permits.check_program("a probe's own environment")
        }
        RuntimeKind::Docker | RuntimeKind::Attach => Ok(()),
    }
}

/// Runs the program in the same image with the same devices and mounts, but without the engine.
fn run_without_engine(engine: &Engine, live: &mut Live, program: &Program) -> Result<Captured> {
    let engine_launch = engine.launch_for(Limits::SMALLEST)?;

    wait_for_baseline(engine, &mut live.baseline)?;
    let launch = placeholder_launch(engine_launch, program.python.as_deref());
    let service = engine.wait(start(engine.runtime, &launch, &engine.start_context(engine.origin()?)))?;
    let captured = engine.wait(service.run_program(program));
    engine.context.tasks.finish(service.stop(engine.grace()))?;
    captured
}

/// Parses the JSON object that a program printed.
fn document(name: &str, captured: &Captured) -> Result<Value> {
    let text = captured.stdout.trim_ascii();
    let document = (!captured.truncated)
        .then(|| outside::page::<Map<String, Value>>(text).ok())
        .flatten();
    let field = |key: &str| document.as_ref().and_then(|document| document.get(key)?.as_str());
    let last_lines = || match captured.stderr_tail(STDERR_LINES) {
        lines if lines.is_empty() => "it wrote nothing to standard error".to_owned(),
        lines => format!("its last lines:\n{lines}"),
    };
    let code = captured.code.unwrap_or(0);
    if code != 0 {
        let Some(error) = field("error") else {
            return Err(
                Fault::new(Kind::Engine, format!("the probe `{name}` ended with status {code}")).hint(last_lines()),
            );
        };
        let kind = match code {
            IS_MISSING => Kind::Missing,
            REFUSED => Kind::Usage,
            _ => Kind::Engine,
        };
        let fault = Fault::new(kind, format!("the probe `{name}`: {error}"));
        return Err(fault.hint(field("hint").map_or_else(last_lines, str::to_owned)));
    }
    match document {
        Some(document) => Ok(Value::Object(document)),
        None => Err(Fault::new(
            Kind::Engine,
            format!(
                "the probe `{name}` did not print one JSON object{}, but {}",
                if captured.truncated { " of at most 16 MiB" } else { "" },
                begin(text)
            ),
        )
        .hint(last_lines())),
    }
}

fn begin(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    if text.is_empty() {
        return "nothing".to_owned();
    }
    let begin: String = text.chars().take(80).collect();
    format!("`{}`", begin.escape_debug())
}

/// Returns the journaled answer of the trial `what`, or runs `work` and journals its answer. Measurements of an
/// interrupted run in an unfinished trial are discarded, including its loads, unless it is one `in_parts`.
///
/// A dry run only previews the first launch and returns null.
///
/// # Errors
///
/// Errors of `work`; `missing` if the journal cannot be written.
pub fn trial<E: From<Fault>>(
    engine: &Engine,
    what: &Value,
    in_parts: bool,
    work: impl FnOnce() -> Result<Value, E>,
) -> Result<Value, E> {
    let run = &engine.context.run;
    if engine.context.dry_run {
        let mut live = engine.lock();
        live.dry_run_probes += 1;
        if live.dry_run_probes == 1 {
            // The preview's fault would end the script; an experiment continues with its next setting.
            let _end = preview(engine, engine.full_limits(Limits::SMALLEST))?;
        }
        return Ok(Value::Null);
    }
    let args = json!({ "engine": engine.name(), "launch": engine.shown, "trial": what });
    // Each trial has a server of its own, whose cache has none of the prompts of others; an attached one has all.
    let forget = || {
        if engine.runtime != RuntimeKind::Attach {
            engine.lock().next_prompts.clear();
        }
    };
    forget();
    let answer = run.measure_trial(args, in_parts, || {
        engine.phase(EnginePhase::Measuring, what["setting"].as_str().unwrap_or_default())?;
        work().map(Operation::Experiment)
    });
    forget();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_by_name_are_options() {
        let words = |value: Value| serde_json::from_value::<Arguments>(value).unwrap().command_line();
        let named = json!({ "max_tokens": 5, "fast": true, "slow": false, "none": null, "file": ["a", "b"], "x": 0.5 });
        assert_eq!(
            words(named).unwrap(),
            [
                "--fast",
                "--file",
                "a",
                "--file",
                "b",
                "--max-tokens",
                "5",
                "--x",
                "0.5"
            ]
        );
        assert_eq!(words(json!(["-a", "b"])).unwrap(), ["-a", "b"]);
        assert!(words(json!({ "a": {} })).unwrap_err().message.contains("args.a"));
        assert!(serde_json::from_value::<Arguments>(json!(5)).is_err());
    }

    fn printed(stdout: &str, code: i64, stderr: &str) -> Captured {
        Captured {
            code: Some(code),
            stdout: stdout.into(),
            stderr: stderr.into(),
            truncated: false,
        }
    }

    #[test]
    fn one_object_and_nothing_else_is_a_document() {
        let read = |text: &str| document("p", &printed(text, 0, "oh\n"));
        assert_eq!(read("{\"a\": 1}\n").unwrap(), json!({ "a": 1 }));
        for broken in ["", "[1]", "{\"a\": 1} {}", "hello\n{}", "{\"a\": NaN}"] {
            let fault = read(broken).unwrap_err();
            assert_eq!(fault.kind, Kind::Engine, "{broken}");
            assert!(fault.hint.unwrap().contains("oh"), "{broken}");
        }
        let cut = Captured {
            truncated: true,
            ..printed("{}", 0, "")
        };
        assert!(document("p", &cut).unwrap_err().message.contains("16 MiB"));
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let fault = |code, stdout: &str| document("p", &printed(stdout, code, "Traceback\nboom\n")).unwrap_err();
        let missing = fault(3, r#"{"error": "no torch", "hint": "install it"}"#);
        assert_eq!(
            (missing.kind, missing.hint.as_deref()),
            (Kind::Missing, Some("install it"))
        );
        assert_eq!(fault(4, r#"{"error": "in use"}"#).kind, Kind::Usage);
        let crashed = fault(1, "");
        assert_eq!(crashed.kind, Kind::Engine);
        assert!(crashed.message.contains("status 1") && crashed.hint.unwrap().contains("boom"));
    }
}
