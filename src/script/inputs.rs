//! What scripts read from outside: permitted files, results of other tools, model files, and workloads, the lengths of
//! somebody's requests. The journal keeps each answer, and a resumed run replays it.

use std::path::{Path, PathBuf};

use rhai::{Dynamic, Map};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::signature::{nearest, quoted};
use super::{BoundaryHandle, Caught, Host, options, shipped};
use crate::compare::export::TgiProfiler;
use crate::compare::import;
use crate::engine::{Architecture, Engine};
use crate::fault::{Fault, Kind, Result};
use crate::memory::{EstimateRequest, ModelFiles};
use crate::prompt::Hub;
use crate::run::Event;
use crate::{memory, prompt};

/// The kind of these events in the journal. A resume replays the text even if the file has changed.
const FILE_KIND: &str = "file";

/// Longest text that a script can read, in bytes: it is stored in the journal.
const MAX_TEXT: usize = 4 << 20;

/// Deepest brackets of a document. The time that the YAML parser takes grows with the square of the depth.
const MAX_DEPTH: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    Replace,
    Append,
}

/// Reads a permitted file.
pub(super) fn read_text(host: &Host, path: &str) -> Result<String> {
    let text = journaled(host, FILE_KIND, json!({ "path": path }), || {
        let text = host.permits.read_file(Path::new(path), "file")?;
        if text.len() > MAX_TEXT {
            return Err(
                Fault::new(Kind::Limit, format!("`{path}` has {} MiB", text.len() >> 20))
                    .hint("scripts read up to 4 MiB; traces and prompts are given to `engine.load` by their names"),
            );
        }
        Ok(text.into())
    })?;
    Ok(text.as_str().unwrap_or_default().to_owned())
}

/// The answer of the journal to a question of this kind, or else that of `work`, which the journal keeps.
fn journaled(host: &Host, kind: &str, args: Value, work: impl FnOnce() -> Result<Value>) -> Result<Value> {
    if let Some(answer) = host.run.replay(kind, &args) {
        return Ok(answer);
    }
    let answer = work()?;
    host.run.note(Event::Done {
        kind: kind.to_owned(),
        args,
        answer: answer.clone(),
    })?;
    Ok(answer)
}

/// Reads and parses a `YAML` or `JSON` file.
pub(super) fn read_document(host: &Host, path: &str, format: &str) -> Result<Value> {
    let text = read_text(host, path)?;
    if depth(&text) > MAX_DEPTH {
        return Err(Fault::new(
            Kind::Limit,
            format!("`{path}` has brackets in more than {MAX_DEPTH} levels"),
        )
        .hint("write it with fewer levels"));
    }
    let value = match format {
        "YAML" => yaml_serde::from_str(&text).map_err(|error| error.to_string()),
        _ => serde_json::from_str(&text).map_err(|error| error.to_string()),
    };
    value.map_err(|error| Fault::usage(format!("`{path}` is not valid {format}: {error}")))
}

/// How deep the brackets of a text are nested at most.
fn depth(text: &str) -> usize {
    let step = |(now, most): (usize, usize), byte: u8| match byte {
        b'[' | b'{' => (now + 1, most.max(now + 1)),
        b']' | b'}' => (now.saturating_sub(1), most),
        _ => (now, most),
    };
    text.bytes().fold((0, 0), step).1
}

/// Writes a file of the run and returns its path.
pub(super) fn write_text(host: &Host, name: &str, text: &str, mode: WriteMode) -> Caught<Dynamic> {
    let path = match mode {
        WriteMode::Replace => host.run.write_file(name, text)?,
        WriteMode::Append => host.run.append_file(name, text)?,
    };
    Ok(path.map_or(Dynamic::UNIT, |path| path.display().to_string().into()))
}

/// The kind of these events in the journal. A resume replays the answer even if the file has changed.
const RESULTS_KIND: &str = "results";

/// Reads the boundary of another tool's file that the user permitted.
pub(super) fn read_results_file(host: &Host, path: &str) -> Result<Value> {
    journaled(host, RESULTS_KIND, json!({ "path": path }), || {
        let real = host.permits.check_file(Path::new(path), "resume_from")?;
        let subject = import::read(&real)?;
        let Some(boundary) = &subject.boundary else {
            return Err(Fault::usage(format!(
                "`{path}` contains {}, but no points that fit or fail",
                subject.holds
            ))
            .hint("give a file of tgi-profiler"));
        };
        let points = boundary.points.iter();
        let points: Vec<Value> = points
            .map(|(point, answer)| json!({ "point": point, "answer": answer }))
            .collect();
        Ok(json!({
            "format": subject.format,
            "model": subject.model,
            "axes": boundary.described["axes"],
            "points": points,
            "notes": subject.notes,
        }))
    })
}

/// Writes the boundary into the run's folder and returns the file.
pub(super) fn write_results_file(
    host: &Host,
    map: &BoundaryHandle,
    format: &str,
    given: Map,
) -> Result<Option<PathBuf>> {
    if format != "tgi-profiler" {
        return Err(
            Fault::usage(format!("results cannot be written as `{format}`")).hint("the only format is `tgi-profiler`")
        );
    }
    let document = options::<TgiProfiler>(given)?.document(&map.lock())?;
    host.run.export("profile_res", &document)
}

/// The kind of these events in the journal. On a resume the answer must not depend on whether the hub is reachable.
const ESTIMATE_KIND: &str = "estimate";

/// Arguments of an estimate.
pub(super) struct EstimateOptions {
    question: EstimateRequest,
    offline: bool,
}

impl EstimateOptions {
    /// Parses a script's options.
    pub(super) fn from_options(mut options: Map) -> Result<Self> {
        let offline = match options.remove("offline") {
            None => false,
            Some(value) => value
                .as_bool()
                .map_err(|_| Fault::usage("option `offline` must be true or false"))?,
        };
        let question = super::options(options)?;
        Ok(Self { question, offline })
    }
}

/// Estimates a model by its name.
pub(super) fn estimate_model(host: &Host, model: &str, options: &EstimateOptions) -> Result<Value> {
    estimate(host, &Architecture::Model(model.to_owned()), options)
}

/// Estimates the model of an engine.
pub(super) fn estimate_engine(host: &Host, engine: &Engine, options: &EstimateOptions) -> Result<Value> {
    estimate(host, &engine.architecture()?, options)
}

/// Estimates, or replays the journal. A missing model is recorded as well.
fn estimate(host: &Host, model: &Architecture, options: &EstimateOptions) -> Result<Value> {
    let mut args = json!({ "question": options.question });
    match model {
        Architecture::Config(config) => args["config"] = config.clone(),
        Architecture::Model(name) => args["model"] = json!(name),
    }
    if options.offline {
        args["offline"] = json!(true);
    }
    let mut answer = journaled(host, ESTIMATE_KIND, args, || match compute(host, model, options) {
        Ok(value) => Ok(json!({ "estimate": value })),
        Err(fault) if fault.kind == Kind::Missing => Ok(json!({ "missing": fault.message, "hint": fault.hint })),
        Err(fault) => Err(fault),
    })?;
    let Some(missing) = answer["missing"].as_str() else {
        return Ok(answer["estimate"].take());
    };
    let fault = Fault::new(Kind::Missing, missing);
    Err(match answer["hint"].as_str() {
        Some(hint) => fault.hint(hint),
        None => fault,
    })
}

fn compute(host: &Host, model: &Architecture, options: &EstimateOptions) -> Result<Value> {
    let known = match model {
        Architecture::Config(config) => ModelFiles {
            config: config.clone(),
            ..ModelFiles::default()
        },
        Architecture::Model(name) => read_model(host, name, options.offline)?,
    };
    let estimate = memory::estimate(&known, &options.question)?;
    serde_json::to_value(estimate).map_err(|error| Fault::internal(error.to_string()))
}

/// Reads the files of a model.
fn read_model(host: &Host, model: &str, offline: bool) -> Result<ModelFiles> {
    let model = host.permits.check_model(model, &host.settings.root())?;
    host.tasks.wait(async {
        let mut hub = Hub::from_env()?;
        hub.offline |= offline;
        prompt::read_model(&model, &hub).await
    })
}

/// A workload file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    /// One line for people.
    description: String,
    /// Where the numbers come from.
    source: String,
    input: Lengths,
    output: Lengths,
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
struct Lengths {
    p50: u64,
    p95: u64,
}

/// Lengths as they are written: one number, or two percentiles.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a length is a number, or `{ p50 = …, p95 = … }`")]
enum Written {
    Fixed(u64),
    Percentiles(Percentiles),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Percentiles {
    p50: u64,
    p95: u64,
}

impl From<Written> for Lengths {
    fn from(written: Written) -> Self {
        match written {
            Written::Fixed(tokens) => Self {
                p50: tokens,
                p95: tokens,
            },
            Written::Percentiles(Percentiles { p50, p95 }) => Self { p50, p95 },
        }
    }
}

/// The workload of a shipped name, or of a TOML file that the user named.
pub(super) fn read_workload(host: &Host, name: &str) -> Result<Value> {
    let text = match shipped::workload(name) {
        Some(text) => text.into_owned(),
        None if name.contains(['/', '.']) => read_text(host, name)?,
        None => return Err(unknown_workload(name)),
    };
    let workload = parse_workload(name, &text)?;
    Ok(json!({
        "name": name,
        "description": workload.description,
        "source": workload.source,
        "input": workload.input,
        "output": workload.output,
    }))
}

fn parse_workload(name: &str, text: &str) -> Result<Workload> {
    let fault = |what: &str| {
        Fault::usage(format!("the workload `{name}` is not valid: {}", what.trim())).hint(
            "it has `description`, `source`, `input` and `output`; a length is a number, or `{ p50 = …, p95 = … }`",
        )
    };
    let workload: Workload = toml::from_str(text).map_err(|error| fault(error.message()))?;
    for (what, lengths) in [("input", workload.input), ("output", workload.output)] {
        if lengths.p50 == 0 || lengths.p95 < lengths.p50 {
            return Err(fault(&format!("`{what}` is at least 1 token, and p95 is at least p50")));
        }
    }
    Ok(workload)
}

fn unknown_workload(name: &str) -> Fault {
    let names = quoted(shipped::workloads());
    let known = format!("the workloads are {names}; or name a TOML file of your own");
    Fault::usage(format!("there is no workload `{name}`")).hint(match nearest(name, shipped::workloads()) {
        Some(near) => format!("did you mean `{near}`? {known}"),
        None => known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_workload_is_valid() {
        assert!(shipped::workloads().count() >= 5);
        for name in shipped::workloads() {
            parse_workload(name, &shipped::workload(name).unwrap()).unwrap();
        }
    }

    #[test]
    fn a_length_is_a_number_or_two_percentiles_and_nothing_else() {
        let text = |input: &str| format!("description = \"a\"\nsource = \"b\"\noutput = 5\ninput = {input}");
        assert_eq!(
            parse_workload("x", &text("10")).unwrap().input,
            Lengths { p50: 10, p95: 10 }
        );
        let both = parse_workload("x", &text("{ p50 = 10, p95 = 30 }")).unwrap();
        assert_eq!(
            (both.input, both.output),
            (Lengths { p50: 10, p95: 30 }, Lengths { p50: 5, p95: 5 })
        );
        for wrong in ["{ p50 = 30, p95 = 10 }", "0", "{ p50 = 1, p99 = 3 }", "10\nrate = 3"] {
            parse_workload("x", &text(wrong)).unwrap_err();
        }
    }
}
