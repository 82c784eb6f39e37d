//! `profiler show`: prints the results of a run, finished or not, or the content of a file of another tool.

use std::path::Path;

use serde_json::{Value, json};

use super::program::{Program, Status, json_text};
use super::report::page_of;
use crate::compare::export::{self, Sheet};
use crate::compare::{self, ComparisonInput, import};
use crate::fault::{Fault, Kind, Result};
use crate::memory::Footprint;
use crate::report::{self, Extras, Page, breakdown, simulated_line, stages, summarize, with_notice};
use crate::run::{Folder, RecordedRun, SCHEMA, hide};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The folder of a run, or a file of another tool: tgi-profiler, LLM-sizer, vllm bench, TensorRT-LLM graph memory
    #[arg(value_name = "DIR|FILE")]
    path: std::path::PathBuf,
    /// One JSON document, in bytes; of a run: its own --json output, and everything that it measured
    #[arg(long)]
    json: bool,
    /// A table as CSV, in bytes, milliseconds and tokens: points, loads, experiments, breakdowns, tables/NAME;
    /// without a name, the first of these that the run has
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "json")]
    csv: Option<String>,
}

pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    if args.path.is_file() {
        if args.csv.is_some() {
            return Err(
                Fault::usage("`--csv` needs the folder of a run, and this is a file of another tool")
                    .hint("give such a folder, or use --json"),
            );
        }
        print_foreign(&import::read(&args.path)?, args.json, program)?;
        return Ok(0);
    }
    let folder = Folder::open(&args.path)?;
    let found = RecordedRun::from_folder(&folder)?;
    if let Some(name) = &args.csv {
        let mut missing = found.missing.clone();
        let sheets = export::sheets(&found, &folder, &mut missing);
        // Otherwise missing data would look as if it never existed.
        for note in &missing {
            program.terminal.print_error(&format!("missing: {note}"));
        }
        let sheet = find_sheet(sheets, name)?;
        program.terminal.print(hide(&sheet.text).trim_end_matches('\n'))?;
        return Ok(0);
    }
    match args.json {
        true => {
            let mut document = found.everything();
            document["html"] = json!(page_of(&folder));
            // What the text of `show` begins with, also of runs whose journal does not have it.
            let described = found.boundaries.iter().enumerate();
            for (index, boundary) in described.filter(|(_, boundary)| !boundary.described.is_null()) {
                let rebuilt = boundary.rebuild();
                let answer = rebuilt.and_then(|rebuilt| extras(&found, boundary.report.clone()).answer(&rebuilt));
                document["boundaries"][index]["answer"] = json!(answer.ok());
            }
            program.print_json(&document)?;
        }
        false => print(&found, Some(&folder), program)?,
    }
    Ok(0)
}

/// The table of that name; the first one if the name is empty.
fn find_sheet(sheets: Vec<Sheet>, name: &str) -> Result<Sheet> {
    let names: Vec<String> = sheets.iter().map(|sheet| format!("`{}`", sheet.name)).collect();
    let found = sheets.into_iter().find(|sheet| name.is_empty() || sheet.name == name);
    found.ok_or_else(|| match names.is_empty() {
        true => Fault::new(
            Kind::Io,
            "this run has no table: no points, loads, experiments or breakdowns",
        )
        .hint("see what it has with --json"),
        false => Fault::usage(format!("this run has no table `{name}`")).hint(format!("it has {}", names.join(", "))),
    })
}

fn print_foreign(input: &ComparisonInput, json: bool, program: &Program) -> Result<()> {
    if !json {
        let text = report::comparison_input(input, Page::from(&program.terminal))?;
        return program.terminal.print(&hide(&text));
    }
    let mut document = serde_json::to_value(input).map_err(|error| Fault::internal(error.to_string()))?;
    document["schema"] = SCHEMA.into();
    program.print_json(&document)
}

/// Prints the result of a finished run, as the run itself did.
pub(super) fn print_finished(found: &RecordedRun, json: bool, program: &Program) -> Result<()> {
    match json {
        true => program.print_json(&found.document()),
        false => print(found, None, program),
    }
}

/// Prints the results of a run; with its folder, also its memory over time and the path of its page.
fn print(found: &RecordedRun, folder: Option<&Folder>, program: &Program) -> Result<()> {
    let page = Page::from(&program.terminal);
    let notice = notice(found);
    let mut parts = vec![head(found)];
    if !found.missing.is_empty() {
        let texts = found.missing.iter().map(String::as_str);
        parts.push(format!("missing in this folder\n{}", report::lines(texts, page)));
    }
    for boundary in found.boundaries.iter().filter(|boundary| !boundary.described.is_null()) {
        let extras = extras(found, boundary.report.clone());
        // An unreadable boundary must not hide the rest.
        let drawn = boundary
            .rebuild()
            .and_then(|rebuilt| summarize(&rebuilt, &extras, page));
        parts.push(drawn.unwrap_or_else(|fault| format!("this boundary cannot be shown: {}", fault.message)));
    }
    for (name, value) in &found.breakdowns {
        let footprint: Footprint = serde_json::from_value(value.clone())
            .map_err(|error| Fault::new(Kind::Io, format!("a breakdown of this run cannot be read: {error}")))?;
        let text = breakdown(name, &footprint, page);
        parts.push(with_notice(notice.as_deref(), &text, page));
    }
    for (_, text) in &found.shown {
        parts.push(with_notice(notice.as_deref(), text, page));
    }
    for (_, value) in &found.experiments {
        let experiment = compare::read_experiment(value).map_err(|fault| {
            Fault::new(
                Kind::Io,
                format!("an experiment of this run cannot be read: {}", fault.message),
            )
        })?;
        let text = report::experiment(&experiment, page);
        parts.push(with_notice(notice.as_deref(), &text, page));
    }
    parts.extend(stages(&found.stages, page));
    parts.extend(folder.and_then(|folder| report::memory(folder, &found.stages, page)));
    if !found.records.is_empty() {
        let lines = found.records.iter().map(|(name, value)| format!("  {name}: {value}"));
        parts.push(format!("recorded\n{}", lines.collect::<Vec<_>>().join("\n")));
    }
    if let Some(result) = found.result().filter(|result| !already_shown(found, result)) {
        // The boundary is drawn above: no thousands of lines of JSON that repeat or contradict it.
        let drawn = result["frontier"].is_array() && found.boundaries.iter().any(|one| !one.points.is_empty());
        parts.push(match drawn {
            true => {
                "result: it does not match the points of the journal, which are drawn above; --json has it".to_owned()
            }
            false => format!("result: {}", json_text(result)?),
        });
    }
    let warnings = report::group_warnings(found.warnings(), &found.load_warnings());
    if !warnings.is_empty() {
        let several = warnings.iter().any(|one| one.messages.len() > 1);
        let head = if several {
            "warnings, similar ones grouped (--json has each)"
        } else {
            "warnings"
        };
        let lines = warnings.iter().map(|one| format!("  {}", one.sentence()));
        parts.push(format!("{head}\n{}", lines.collect::<Vec<_>>().join("\n")));
    }
    parts.extend(folder.map(page_line));
    program.terminal.print_wrapped(&hide(&parts.join("\n\n")))
}

/// The path of the run's page, or how to make it.
fn page_line(folder: &Folder) -> String {
    match page_of(folder) {
        Some(page) => format!("report: {}", page.display()),
        None => format!("report: none yet; profiler report {} makes it", folder.path().display()),
    }
}

fn extras(found: &RecordedRun, report: Option<Value>) -> Extras {
    Extras {
        report,
        stopped: (!found.done()).then(|| found.ended()),
        script: found.manifest.script.path.clone(),
        set: found.manifest.set.clone(),
        simulated: notice(found),
    }
}

/// Prints the boundaries of an interrupted run, except those that were reported already.
pub(super) fn print_partial(folder: &Path, program: &Program) -> Result<()> {
    let stopped = program.signals.stopped_by();
    let found = RecordedRun::read(folder)?;
    let page = Page::from(&program.terminal);
    let open = found
        .boundaries
        .iter()
        .filter(|boundary| !boundary.described.is_null() && !boundary.points.is_empty() && boundary.report.is_none());
    let mut parts = Vec::new();
    for boundary in open {
        let mut extras = extras(&found, None);
        extras.stopped = Some(stopped.to_owned());
        parts.push(summarize(&boundary.rebuild()?, &extras, page)?);
    }
    if parts.is_empty() {
        return Ok(());
    }
    program.terminal.print_wrapped(&hide(&parts.join("\n\n")))
}

fn head(found: &RecordedRun) -> String {
    let manifest = &found.manifest;
    let mut lines = vec![format!("run {} of {}", manifest.run, manifest.script.path)];
    lines.push(found.ended());
    let until = found
        .last
        .as_ref()
        .map_or_else(String::new, |last| format!(", last event {last}"));
    if !manifest.started.is_empty() {
        lines.push(format!("began {}{until}", manifest.started));
    }
    if found.finished > 0 {
        let least = if found.ends_early { "at least " } else { "" };
        lines.push(format!(
            "probes, loads and experiments finished: {least}{}",
            found.finished
        ));
    }
    // Other sections carry the notice themselves.
    let drawn = [&found.breakdowns, &found.experiments]
        .iter()
        .any(|drawn| !drawn.is_empty());
    if manifest.simulated && found.boundaries.is_empty() && !drawn && found.shown.is_empty() {
        lines.extend(notice(found));
    }
    lines.join("\n")
}

/// The notice of a simulated run.
fn notice(found: &RecordedRun) -> Option<String> {
    let simulated = found.manifest.simulated;
    simulated.then(|| simulated_line(&found.simulated_engines()))
}

/// Whether the result was shown as a report, breakdown, experiment or text of the script.
fn already_shown(found: &RecordedRun, result: &Value) -> bool {
    let reports = found.boundaries.iter().filter_map(|boundary| boundary.report.as_ref());
    let drawn = found
        .breakdowns
        .iter()
        .chain(&found.experiments)
        .map(|(_, value)| value);
    let texts = found.shown.iter().map(|(value, _)| value);
    result.is_null() || reports.chain(drawn).chain(texts).any(|shown| shown == result)
}
