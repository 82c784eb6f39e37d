//! `profiler show`: tells what a run found, from its folder, whether it came to its end or not; or what a file of another tool holds.

use serde_json::{Map, Value};

use super::Status;
use super::program::Program;
use crate::fault::{Fault, Kind, Result};
use crate::memory::Footprint;
use crate::report::{self, Extras, Page, SIMULATED, breakdown, stages, summarize};
use crate::run::{Found, SCHEMA, Subject, hide, import};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The folder of a run, or a file of another tool: tgi-profiler, LLM-sizer, vllm bench, TensorRT-LLM graph memory
    #[arg(value_name = "DIR|FILE")]
    path: std::path::PathBuf,
    /// One JSON document, in bytes: of a run, what it gives with --json itself, and its memory by stage
    #[arg(long)]
    json: bool,
}

/// Prints what the folder or the file holds.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    if args.path.is_file() {
        foreign(&import::read(&args.path)?, args.json, program)?;
        return Ok(0);
    }
    let found = Found::read(&args.path)?;
    if !args.json || found.stages.is_empty() {
        print(&found, args.json, program)?;
        return Ok(0);
    }
    let mut document = found.document();
    document["memory"] = found.stages.into_iter().collect::<Map<_, _>>().into();
    program.terminal.print(&hide(&pretty(&document)?))?;
    Ok(0)
}

/// Prints what a file of another tool holds.
fn foreign(subject: &Subject, json: bool, program: &Program) -> Result<()> {
    if !json {
        let text = report::subject(subject, Page::from(&program.terminal))?;
        return program.terminal.print(&hide(&text));
    }
    let mut document = serde_json::to_value(subject).map_err(|error| Fault::internal(error.to_string()))?;
    document["schema"] = SCHEMA.into();
    program.terminal.print(&hide(&pretty(&document)?))
}

/// Prints what a run found.
pub(super) fn print(found: &Found, json: bool, program: &Program) -> Result<()> {
    if json {
        return program.terminal.print(&hide(&pretty(&found.document())?));
    }
    let page = Page::from(&program.terminal);
    let mut parts = vec![head(found)];
    for boundary in found.boundaries.iter().filter(|boundary| !boundary.described.is_null()) {
        let extras = Extras::of(boundary.report.as_ref(), found.manifest.simulated);
        parts.push(summarize(&boundary.rebuild()?, &extras, page)?);
    }
    for (name, value) in &found.breakdowns {
        let footprint: Footprint = serde_json::from_value(value.clone())
            .map_err(|error| Fault::new(Kind::Io, format!("a breakdown of this run cannot be read: {error}")))?;
        parts.push(breakdown(name, &footprint, found.manifest.simulated, page));
    }
    parts.extend(stages(&found.stages));
    if !found.records.is_empty() {
        let lines = found.records.iter().map(|(name, value)| format!("  {name}: {value}"));
        parts.push(format!("recorded\n{}", lines.collect::<Vec<_>>().join("\n")));
    }
    if let Some(result) = found.result().filter(|result| !shown(found, result)) {
        parts.push(format!("result: {}", pretty(result)?));
    }
    if !found.warnings().is_empty() {
        let lines = found.warnings().iter().map(|text| format!("  {text}"));
        parts.push(format!("warnings\n{}", lines.collect::<Vec<_>>().join("\n")));
    }
    program.terminal.print(&hide(&parts.join("\n\n")))
}

fn head(found: &Found) -> String {
    let manifest = &found.manifest;
    let mut lines = vec![format!("run {} of {}", manifest.run, manifest.script.path)];
    let fault = found.fault.as_ref().and_then(|fault| fault["message"].as_str());
    let status = match (manifest.status.as_str(), fault) {
        ("running", _) => "not finished: still under way, or killed; --resume goes on with it".to_owned(),
        (status, Some(fault)) => format!("{status}: {fault}"),
        (status, None) => status.to_owned(),
    };
    lines.push(status);
    let until = found
        .last
        .as_ref()
        .map_or_else(String::new, |last| format!(", last event {last}"));
    lines.push(format!("began {}{until}", manifest.started));
    if found.finished > 0 {
        lines.push(format!("probes, loads and experiments finished: {}", found.finished));
    }
    // A boundary says so itself.
    if manifest.simulated && found.boundaries.is_empty() && found.breakdowns.is_empty() {
        lines.push(SIMULATED.to_owned());
    }
    lines.join("\n")
}

/// Whether a report or a breakdown has shown the script's result already.
fn shown(found: &Found, result: &Value) -> bool {
    let reports = found.boundaries.iter().filter_map(|boundary| boundary.report.as_ref());
    let breakdowns = found.breakdowns.iter().map(|(_, value)| value);
    result.is_null() || reports.chain(breakdowns).any(|shown| shown == result)
}

fn pretty(value: &Value) -> Result<String> {
    serde_json::to_string_pretty(value).map_err(|error| Fault::internal(error.to_string()))
}
