//! In-process probes: a Python program inside the engine, or in its place where it does not run, and the document that it prints.

use std::collections::BTreeMap;
use std::io::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::handle::Live;
use super::{Engine, Limits};
use crate::fault::{Fault, Kind, Result};
use crate::run::{Event, Run};
use crate::runtime::{Captured, Program, RuntimeKind, holding, redact, start};

/// Tells a program that an engine serves beside it.
const SERVING: &str = "PROFILER_SERVING";
/// Lines of standard error that a fault shows.
const LAST_WORDS: usize = 20;
/// Exit statuses of the shipped probes: see stdlib/probes/profiler_probe.py.
const IS_MISSING: i64 = 3;
const REFUSED: i64 = 4;

/// A probe's program as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeProgram {
    /// What the script calls it: `allocator`, `./mine.py`.
    pub name: String,
    /// The one of `files` that is run.
    pub file: String,
    /// Texts by file name.
    pub files: BTreeMap<String, String>,
    /// SHA-256 of the program.
    pub sha256: String,
    /// Whether it ships with the program, rather than with the script.
    pub shipped: bool,
}

/// Options of `engine.run_probe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProgramOptions {
    /// Its arguments.
    pub args: Arguments,
    /// Environment beside the engine's.
    pub env: BTreeMap<String, String>,
    /// The interpreter; without it the engine's own, or `python3`.
    pub python: Option<String>,
    /// Seconds that it may take.
    pub timeout: f64,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self {
            args: Arguments::default(),
            env: BTreeMap::new(),
            python: None,
            timeout: 600.0,
        }
    }
}

/// Arguments as a script writes them: words, or by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "arguments are an array of strings, or a map by name")]
pub enum Arguments {
    /// As on a command line.
    Words(Vec<String>),
    /// `#{ max_tokens: 5, fast: true }` is `--max-tokens 5 --fast`; false and `()` are left out, an array is the option repeated.
    Named(Map<String, Value>),
}

impl Default for Arguments {
    fn default() -> Self {
        Arguments::Words(Vec::new())
    }
}

impl Arguments {
    /// The words of the command line.
    ///
    /// # Errors
    ///
    /// `usage` for a map as a value.
    pub fn words(&self) -> Result<Vec<String>> {
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
    /// With these options, ready to run.
    ///
    /// # Errors
    ///
    /// `usage` for impossible options.
    pub fn with(&self, options: &ProgramOptions) -> Result<Program> {
        if !(options.timeout > 0.0 && options.timeout <= 86400.0) {
            return Err(Fault::usage(format!(
                "option `timeout` is {}, not a number of seconds up to a day",
                options.timeout
            )));
        }
        let interpreter = options
            .python
            .as_deref()
            .map(|path| path.rsplit('/').next().unwrap_or(path));
        if let Some(name) = interpreter.filter(|name| !name.starts_with("python") && !name.starts_with("pypy")) {
            return Err(
                Fault::usage(format!("option `python` names `{name}`, which is no Python"))
                    .hint("give the path of an interpreter, such as `/opt/venv/bin/python3`"),
            );
        }
        Ok(Program {
            file: self.file.clone(),
            files: self.files.clone(),
            args: options.args.words()?,
            env: options.env.clone(),
            python: options.python.clone(),
            timeout: options.timeout,
        })
    }

    /// What a resume compares: `shown` says where it runs.
    #[must_use]
    pub fn question(&self, shown: Value, options: &ProgramOptions) -> Value {
        let mut options = options.clone();
        for (name, value) in &mut options.env {
            *value = redact::env(name, value).to_owned();
        }
        json!({ "program": self.name, "sha256": self.sha256, "where": shown, "options": options })
    }

    /// The answer from the journal, or that of `work`, kept there before it is given.
    ///
    /// # Errors
    ///
    /// What `work` fails with; `engine` for a program that fails, or does not print one JSON object.
    pub fn once(&self, run: &Run, question: Value, work: impl FnOnce() -> Result<Captured>) -> Result<Value> {
        if let Some(answer) = run.replay("experiment", &question) {
            return Ok(answer);
        }
        let kind = || "experiment".to_owned();
        run.note(Event::Began {
            kind: kind(),
            args: question.clone(),
        })?;
        let answer = work().and_then(|captured| {
            self.keep_words(run, &captured)?;
            document(&self.name, &captured)
        });
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                run.note(Event::GivenUp {
                    kind: kind(),
                    args: question,
                })?;
                return Err(fault);
            }
        };
        run.note(Event::Done {
            kind: kind(),
            args: question,
            answer: answer.clone(),
        })?;
        Ok(answer)
    }

    /// What it said beside its document is a log of the run.
    fn keep_words(&self, run: &Run, captured: &Captured) -> Result<()> {
        if captured.stderr.is_empty() {
            return Ok(());
        }
        let name = format!("probe-{}.log", self.file.trim_end_matches(".py"));
        run.write("logs", &name, |file| file.write_all(&captured.stderr))
            .map(drop)
    }
}

impl Engine {
    /// Runs a program inside the engine where it runs, else in its place.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a script's own program, or its environment, in a container; `usage` for the simulated engine; `missing` and
    /// `usage` as the program says; `timeout`; `engine` when it fails, or prints no document.
    pub fn run_probe(&self, probe: &ProbeProgram, options: &ProgramOptions) -> Result<Value> {
        let mut program = probe.with(options)?;
        self.check_program(probe, options)?;
        if self.context.dry_run {
            return Err(Fault::dry_run(format!("the probe `{}` would be run", probe.name)));
        }
        let place = json!({ "engine": self.name(), "launch": self.options.shown() });
        let question = probe.question(place, options);
        probe.once(&self.context.run, question, || {
            if self.runtime == RuntimeKind::Attach {
                self.start()?;
            }
            let mut live = self.lock();
            self.put_away_dead(&mut live)?;
            self.phase("probing", &probe.name)?;
            match &live.running {
                Some(running) => {
                    program.env.insert(SERVING.to_owned(), "1".to_owned());
                    self.context.tasks.wait(running.server.run_program(&program))
                }
                None => self.run_in_its_place(&mut live, &program),
            }
        })
    }

    /// The containers of shipped adapters have the token and the model cache: no code that comes with a script runs there unasked.
    fn check_program(&self, probe: &ProbeProgram, options: &ProgramOptions) -> Result<()> {
        match self.runtime {
            RuntimeKind::Sim => Err(
                Fault::usage("the simulated engine has no inside that a probe could look into")
                    .hint("use the runtime `docker` or `process`, or `probe::run`"),
            ),
            RuntimeKind::Process => self.context.permits.check_process(),
            RuntimeKind::Docker | RuntimeKind::Attach if !probe.shipped => {
                self.context.permits.check_program(&format!("`{}`", probe.name))
            }
            RuntimeKind::Docker | RuntimeKind::Attach if !options.env.is_empty() => {
                self.context.permits.check_program("a probe's own environment")
            }
            RuntimeKind::Docker | RuntimeKind::Attach => Ok(()),
        }
    }

    /// In the same image, with the same devices and folders, and without the engine.
    fn run_in_its_place(&self, live: &mut Live, program: &Program) -> Result<Captured> {
        let limits = self.whole(Limits::SMALLEST);
        let launch = self.adapter.launch(&self.adapter_options(Some(limits)))?;
        self.settle(&mut live.baseline)?;
        let launch = holding(launch, program.python.as_deref());
        let service = self
            .context
            .tasks
            .wait(start(self.runtime, &launch, &self.start_context()))?;
        let captured = self.context.tasks.wait(service.run_program(program));
        self.context.tasks.finish(service.stop(self.grace()))?;
        captured
    }
}

/// The document that a program printed.
fn document(name: &str, captured: &Captured) -> Result<Value> {
    let text = captured.stdout.trim_ascii();
    let document = (!captured.truncated)
        .then(|| serde_json::from_slice::<Map<String, Value>>(text).ok())
        .flatten();
    let said = |key: &str| document.as_ref().and_then(|document| document.get(key)?.as_str());
    let words = || match captured.last_words(LAST_WORDS) {
        words if words.is_empty() => "it said nothing on standard error".to_owned(),
        words => format!("it said last:\n{words}"),
    };
    let code = captured.code.unwrap_or(0);
    if code != 0 {
        let Some(error) = said("error") else {
            return Err(Fault::new(Kind::Engine, format!("the probe `{name}` ended with status {code}")).hint(words()));
        };
        let kind = match code {
            IS_MISSING => Kind::Missing,
            REFUSED => Kind::Usage,
            _ => Kind::Engine,
        };
        let fault = Fault::new(kind, format!("the probe `{name}`: {error}"));
        return Err(fault.hint(said("hint").map_or_else(words, str::to_owned)));
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
        .hint(words())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_by_name_are_options() {
        let words = |value: Value| serde_json::from_value::<Arguments>(value).unwrap().words();
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
