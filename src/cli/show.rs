//! `profiler show`: prints the results of a run, finished or not, or the content of a file of another tool.

use serde_json::{Value, json};

use super::program::{Program, Status, json_text};
use super::report::page_of;
use crate::compare::export::{self, Sheet};
use crate::compare::{ComparisonInput, import, serving_points};
use crate::fault::{Fault, Kind, Result};
use crate::report::{self, Block, Extras, Page, Section, SoFar, WarningGroup, Weight, simulated_notice};
use crate::run::{Folder, RecordedBoundary, RecordedRun, SCHEMA};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The folder of a run, or a file of another tool: tgi-profiler, LLM-sizer, hpml, vllm bench (or the folder of its
    /// sweep), TensorRT-LLM graph memory
    #[arg(value_name = "DIR|FILE")]
    path: std::path::PathBuf,
    /// One JSON document, in bytes; for a run: its own --json output, and all measurements
    #[arg(long)]
    json: bool,
    /// A table as CSV, in bytes, milliseconds and tokens: points, loads, experiments, breakdowns, frontier, or one in
    /// tables/; without a name, the first of these that the run has
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "json")]
    csv: Option<String>,
    /// Markdown for a comment on a pull request: the answer, then the whole page, charts as tables
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    markdown: bool,
    /// The figures of a run for Prometheus (text format) or OpenTelemetry (OTLP's JSON)
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["csv", "json", "markdown"])]
    export: Option<Export>,
    /// Write the run into a file store of MLflow, such as mlruns
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["csv", "json", "markdown", "export"])]
    mlflow: Option<std::path::PathBuf>,
    /// Write the loads of a run into FOLDER as `vllm bench sweep` does (`SERVE--…-BENCH--…/run=N.json`, `summary.json`,
    /// `summary.csv`), so that `vllm bench sweep plot FOLDER` reads them
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["csv", "json", "markdown", "export", "mlflow"])]
    vllm_sweep: Option<std::path::PathBuf>,
    /// Write the loads of a run into FOLDER with the keys of hpml's studies: `metrics_data.json` (a row for each request),
    /// `gpu_memory_data.json`, `kv_cache_data.json`; those of several loads in `load-N/`, of several repeats in
    /// `repeat-M/`
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["csv", "json", "markdown", "export", "mlflow", "vllm_sweep"])]
    hpml: Option<std::path::PathBuf>,
}

impl Args {
    /// Whether the figures of a run go to another program instead of the terminal.
    fn exports(&self) -> bool {
        self.export.is_some() || self.mlflow.is_some() || self.vllm_sweep.is_some() || self.hpml.is_some()
    }
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Export {
    Prometheus,
    Opentelemetry,
}

pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    if import::is_foreign(&args.path) {
        if args.csv.is_some() || args.exports() {
            return Err(
                Fault::usage("this needs the folder of a run, and this is a file of another tool")
                    .hint("give such a folder, or use --json"),
            );
        }
        print_foreign(&import::read(&args.path)?, args, program)?;
        return Ok(0);
    }
    if args.markdown {
        program.terminal.print(&report::run_markdown(&args.path)?)?;
        return Ok(0);
    }
    let folder = Folder::open(&args.path)?;
    let found = RecordedRun::from_folder(&folder)?;
    match args.export {
        Some(Export::Prometheus) => program.terminal.print(export::prometheus(&found).trim_end())?,
        Some(Export::Opentelemetry) => program.print_json(&export::opentelemetry(&found))?,
        None => {}
    }
    if let Some(store) = &args.vllm_sweep {
        // `summary.csv` would be that of one of them, and `plot` would read both.
        refuse_earlier(store, "a sweep", |name| {
            name == "summary.csv" || name.starts_with("SERVE-")
        })?;
    }
    if let Some(store) = &args.hpml {
        refuse_earlier(store, "files of a study", |name| {
            export::HPML_FILES.contains(&name) || ["load-", "repeat-"].iter().any(|begin| name.starts_with(begin))
        })?;
    }
    let files = match (&args.mlflow, &args.vllm_sweep, &args.hpml) {
        (Some(store), ..) => Some((store, export::mlflow(&found))),
        (_, Some(store), _) => Some((store, export::vllm_sweep(&found, &folder)?)),
        (.., Some(store)) => Some((store, export::hpml(&found, &folder)?)),
        _ => None,
    };
    if let Some((store, files)) = files {
        for (name, text) in files {
            let path = store.join(name);
            let parent = path.parent().unwrap_or(store);
            let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, text));
            written.map_err(|error| Fault::io(&path, &error))?;
        }
        program.note(format!("added to {}", store.display()));
    }
    if args.exports() {
        return Ok(0);
    }
    if let Some(name) = &args.csv {
        let mut missing = found.missing.clone();
        let sheets = export::sheets(&found, &folder, &mut missing);
        // Otherwise missing data would look as if it had never existed.
        for note in &missing {
            program.note(format!("missing: {note}"));
        }
        let sheet = find_sheet(sheets, name)?;
        program.terminal.print(sheet.text.trim_end_matches('\n'))?;
        return Ok(0);
    }
    if args.json {
        let mut document = found.everything();
        if let Some(so_far) = SoFar::new(&found, &folder) {
            so_far.add_to(&mut document);
        }
        document["html"] = json!(page_of(&folder));
        // Adds each boundary's answer to the JSON, with which the text of `show` begins, also for runs whose journal
        // does not have it.
        let described = found.boundaries.iter().enumerate();
        let is_answered = |boundary: &RecordedBoundary| {
            !boundary.described.is_null() && (boundary.report.is_some() || !boundary.points.is_empty())
        };
        for (index, boundary) in described.filter(|(_, boundary)| is_answered(boundary)) {
            let rebuilt = boundary.rebuild();
            let answer = rebuilt.and_then(|rebuilt| Extras::of_run(&found, boundary.report.clone()).answer(&rebuilt));
            let Ok(answer) = answer.map(|answer| json!(answer)) else {
                continue;
            };
            document["boundaries"][index]["answer"] = answer;
        }
        program.print_json(&document)?;
    } else {
        print(&found, Some(&folder), program)?
    }
    Ok(0)
}

/// Refuses a folder that has such files already.
fn refuse_earlier(store: &std::path::Path, what: &str, is_one: impl Fn(&str) -> bool) -> Result<()> {
    let entries = match std::fs::read_dir(store) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Fault::io(store, &error)),
    };
    for entry in entries {
        let name = entry.map_err(|error| Fault::io(store, &error))?.file_name();
        let name = name.to_string_lossy();
        if is_one(&name) {
            return Err(
                Fault::usage(format!("`{}` has {what} already: `{name}`", store.display()))
                    .hint("name an empty folder"),
            );
        }
    }
    Ok(())
}

/// The table of that name; the first one if the name is empty.
fn find_sheet(sheets: Vec<Sheet>, name: &str) -> Result<Sheet> {
    let names: Vec<String> = sheets.iter().map(|sheet| format!("`{}`", sheet.name)).collect();
    let is_named = |sheet: &Sheet| sheet.name == name || sheet.name.strip_prefix("tables/") == Some(name);
    let found = sheets.into_iter().find(|sheet| name.is_empty() || is_named(sheet));
    found.ok_or_else(|| {
        if names.is_empty() {
            Fault::new(
                Kind::Io,
                "this run has no table: no points, loads, experiments or breakdowns",
            )
            .hint("see what it has with --json")
        } else {
            Fault::usage(format!("this run has no table `{name}`")).hint(format!("it has {}", names.join(", ")))
        }
    })
}

fn print_foreign(input: &ComparisonInput, args: &Args, program: &Program) -> Result<()> {
    if args.json {
        let mut document = serde_json::to_value(input).map_err(Fault::internal)?;
        document["schema"] = SCHEMA.into();
        return program.print_json(&document);
    }
    let page = Page::from(&program.terminal);
    let blocks = report::comparison_input(input, page)?;
    if args.markdown {
        let section = Section::new("", "").with(blocks);
        let title = format!("{}: {}", input.title, input.format);
        return program.terminal.print(&report::markdown(&title, &[section]));
    }
    program.terminal.print_wrapped(&report::text(&blocks, page))
}

/// Prints the result of a finished run, as the run itself did.
pub(super) fn print_finished(found: &RecordedRun, json: bool, program: &Program) -> Result<()> {
    if json {
        program.print_json(&found.document())
    } else {
        print(found, None, program)
    }
}

/// Prints the results of a run, then how it ended; with its folder, also its memory over time and the path of its page.
fn print(found: &RecordedRun, folder: Option<&Folder>, program: &Program) -> Result<()> {
    let page = Page::from(&program.terminal);
    let list = |title: &str, items: Vec<String>| Block::list(title, items, Weight::Normal);
    let mut blocks = report::results(found, page, false);
    let so_far = folder.and_then(|folder| SoFar::new(found, folder));
    blocks.extend(so_far.map(|so_far| so_far.facts()));
    blocks.extend(list("", head(found)));
    blocks.extend(list("missing in this folder", found.missing.clone()));
    // The answer of a finished run has its own table.
    let trials = report::trials_sheet(found).filter(|_| !found.done());
    // The page and the CSV have the settings too, which are long.
    let trials = trials.map(|sheet| sheet.without("settings").titled("loads of each start"));
    blocks.extend(trials.map(Block::Table));
    blocks.extend(report::stages_sheet(found).map(Block::Table));
    blocks.extend(folder.and_then(|folder| report::memory(folder, found, page)));
    if folder.is_some() {
        blocks.extend(report::serving_sketch(&[("", &serving_points(found))], page));
    }
    let tables = folder
        .and_then(|folder| folder.names("tables").ok())
        .unwrap_or_default()
        .into_iter()
        .filter(|file| file.ends_with(".csv"));
    blocks.extend(list(
        "tables that the script kept (--csv=tables/NAME prints one)",
        tables.map(|file| format!("tables/{file}")).collect(),
    ));
    let recorded = found.records.iter().map(|(name, value)| format!("{name}: {value}"));
    blocks.extend(list("recorded", recorded.collect()));
    if let Some(result) = found.result().filter(|result| !already_shown(found, result)) {
        // The boundary is drawn above, so thousands of lines of JSON need not repeat it.
        let drawn = result["frontier"].is_array() && found.boundaries.iter().any(|one| !one.points.is_empty());
        blocks.push(Block::Text(if drawn {
            "result: a boundary report; --json has it".to_owned()
        } else {
            format!("result: {}", json_text(result)?)
        }));
    }
    let warnings = report::group_warnings(&found.totals.warnings, &found.load_warnings());
    let grouped = warnings.iter().any(|one| one.messages.len() > 1);
    let more = if grouped {
        ", similar ones grouped (--json has each)"
    } else {
        ""
    };
    let sentences = warnings.iter().map(WarningGroup::sentence).collect();
    blocks.extend(list(&format!("warnings{more}"), sentences));
    blocks.extend(folder.map(page_line).map(Block::Text));
    program.terminal.print_wrapped(&report::text(&blocks, page))
}

/// The path of the run's page, or the command that makes it.
fn page_line(folder: &Folder) -> String {
    match page_of(folder) {
        Some(page) => format!("report: {}", page.display()),
        None => format!("report: none yet; profiler report {} makes it", folder.path().display()),
    }
}

fn head(found: &RecordedRun) -> Vec<String> {
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
    // The answers of boundaries name the servers themselves.
    if found.boundaries.is_empty() {
        lines.extend(found.totals.asked.iter().map(|asked| format!("asked: {asked}")));
    }
    // Other sections have the notice themselves.
    let drawn = found.breakdowns.iter().chain(&found.experiments).next();
    if manifest.simulated && found.boundaries.is_empty() && drawn.is_none() && found.shown.is_empty() {
        lines.extend(simulated_notice(found));
    }
    lines
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
