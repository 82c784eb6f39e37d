//! The results of a run's jobs side by side: by model, engine and GPU, job by job, and failures with their reasons.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::source::{PAGE, Source};
use super::{answers, facts};
use crate::compare::{Case, ComparisonInput, Role};
use crate::fault::{Fault, Result};
use crate::report::document::{Block, Section, Weight, text};
use crate::report::plot::{Entry, Sheet};
use crate::report::{Count, Page};
use crate::run::{Folder, RecordedRun, RunStatus};

/// Maximum number of jobs in the table, and of failures in the list. `tables/jobs.csv` has all.
const MAX_ROWS: usize = 200;
const MAX_FAILURES: usize = 50;

/// The result of a job, as the journal keeps it and scripts see it.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct JobResult {
    name: String,
    /// `done`, `out of time`, `failed` or `given up`.
    status: String,
    script: String,
    /// Its values of the `matrix`, as text.
    setting: Option<String>,
    model: Option<String>,
    engine: Option<String>,
    gpu: Option<String>,
    /// The result in one line.
    answer: Option<String>,
    /// The largest input and output together that fit, tokens.
    tokens: Option<f64>,
    /// The highest concurrency that fits, if the job searched for it.
    concurrency: Option<f64>,
    /// Output tokens per second, mean TTFT and cost: [`speed`].
    output_throughput: Option<f64>,
    mean_ttft_ms: Option<f64>,
    cost_output: Option<f64>,
    why: Option<String>,
    hint: Option<String>,
    simulated: bool,
}

/// The result of the run in this folder, as the job `name`.
///
/// # Errors
///
/// `io` if nothing of it can be read.
pub fn job_result(folder: &Path, name: &str) -> Result<Value> {
    let folder = Folder::open(folder)?;
    let run = RecordedRun::from_folder(&folder)?;
    let source = Source::new(folder, &run);
    let input = ComparisonInput::from_run(&run, name);
    let [output_throughput, mean_ttft_ms, cost_output] = speed(&run, &input);
    let frontier = input
        .boundary
        .as_ref()
        .and_then(|found| found.rebuild().ok()?.frontier().ok())
        .unwrap_or_default();
    let largest = |axes: &[&str]| {
        let sums = frontier.iter().filter_map(|point| {
            let values = axes.iter().filter_map(|axis| Some(point.0.get(*axis)?.as_f64()));
            values.reduce(|sum, value| sum + value)
        });
        sums.reduce(f64::max)
    };
    let named = |names: Vec<String>| Some(names.join(", ")).filter(|names| !names.is_empty());
    let status = match run.manifest.status {
        RunStatus::Done => "done",
        RunStatus::OutOfTime => "out of time",
        _ => "failed",
    };
    let fault = |key: &str| Some(run.fault.as_ref()?.get(key)?.as_str()?.to_owned());
    let found = JobResult {
        name: name.to_owned(),
        status: status.to_owned(),
        script: run.manifest.script.path.clone(),
        setting: None,
        model: input.model.clone().or_else(|| named(facts::models(&run.manifest))),
        engine: input.engine.clone(),
        gpu: named(facts::cards(&run.manifest)),
        // Without a measurement there is no result so far.
        answer: (status == "done" || status == "out of time" && run.totals.has_measured())
            .then(|| answers::headline(&source)),
        tokens: largest(&["input", "output"]),
        concurrency: largest(&["concurrency"]),
        output_throughput,
        mean_ttft_ms,
        cost_output,
        why: fault("message"),
        hint: fault("hint"),
        simulated: run.manifest.simulated,
    };
    let mut found = json!(found);
    if let Value::Object(row) = &mut found {
        row.retain(|_, value| !value.is_null());
    }
    Ok(found)
}

/// Output tokens/s, mean TTFT and cost: of the load that a search chose, if it chose one, since its faster loads may
/// miss its limits; of any other run, those of the fastest load, and the lowest cost.
fn speed(run: &RecordedRun, input: &ComparisonInput) -> [Option<f64>; 3] {
    if run.result_so_far().is_some_and(|result| result.get("chosen").is_some()) {
        let chosen = input.serving.iter().find(|point| point.role == Some(Role::Chosen));
        let figure = |name| chosen.and_then(|point| point.figures.get(name).copied());
        let cost = chosen.and_then(|point| point.cost);
        return [figure("output_throughput"), figure("mean_ttft_ms"), cost];
    }
    let figure = |case: &Case, name: &str| case.figure(name).map(|figure| figure.value);
    let fastest = input.cases.iter().max_by(|one, other| {
        let speed = |case| figure(case, "output_throughput").unwrap_or_default();
        speed(one).total_cmp(&speed(other))
    });
    let of_fastest = |name| fastest.and_then(|case| figure(case, name));
    let cost = input.cases.iter().filter_map(|case| figure(case, "cost_output"));
    [
        of_fastest("output_throughput"),
        of_fastest("mean_ttft_ms"),
        cost.reduce(f64::min),
    ]
}

/// Jobs as text for the terminal.
///
/// # Errors
///
/// `usage` if `found` is not a list of values from [`job_result`].
pub fn jobs_text(found: &Value, page: Page) -> Result<String> {
    let read = |error| Fault::usage(format!("these are no results of jobs: {error}"));
    let found: Vec<JobResult> = serde_json::from_value(found.clone()).map_err(read)?;
    Ok(text(&blocks(&found, |_| None), page))
}

/// The section of a run with jobs. Unreadable jobs are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let read = |value: &Value| serde_json::from_value::<JobResult>(value.clone());
    let found: Vec<JobResult> = source.found.jobs.iter().filter_map(|job| read(job).ok()).collect();
    if found.len() < source.found.jobs.len() {
        missing.push("the results of some jobs cannot be read".to_owned());
    }
    // The page of a job's own run.
    let page = |job: &JobResult| {
        let page = format!("jobs/{}/{PAGE}", job.name);
        (source.in_folder && source.folder.has_file(&page)).then_some(page)
    };
    vec![Section::new("jobs", "Jobs").with(blocks(&found, page))]
}

/// A text of a job's result.
type JobText = fn(&JobResult) -> Option<&String>;

const SETTING: JobText = |job| job.setting.as_ref();
const MODEL: JobText = |job| job.model.as_ref();
const ENGINE: JobText = |job| job.engine.as_ref();
const GPU: JobText = |job| job.gpu.as_ref();

/// `page` is the address of a job's page.
fn blocks(found: &[JobResult], page: impl Fn(&JobResult) -> Option<String>) -> Vec<Block> {
    let groups = [
        group(found, "model", MODEL),
        group(found, "engine", ENGINE),
        group(found, "GPU", GPU),
    ];
    let mut blocks: Vec<Block> = groups.into_iter().flatten().collect();
    let mut rows: Vec<&JobResult> = found.iter().filter(|job| job.answer.is_some()).collect();
    rows.sort_by_key(|job| (&job.model, &job.engine, &job.gpu, &job.name));
    // A column only for settings in which the jobs differ.
    let differs = |value: JobText| rows.iter().any(|job| value(job) != value(rows[0]));
    let kept = [SETTING, MODEL, ENGINE, GPU].map(|value| differs(value).then_some(value));
    let [setting, model, engine, gpu] = kept
        .map(|value| move |job: &JobResult| -> Entry { value.and_then(|value| value(job)).map(String::as_str).into() });
    let shown = rows.iter().take(MAX_ROWS).map(|job| {
        [
            ("job", job.name.as_str().into()),
            ("setting", setting(job)),
            ("model", model(job)),
            ("engine", engine(job)),
            ("GPU", gpu(job)),
            ("found", job.answer.as_deref().into()),
            ("longest request, tokens", job.tokens.into()),
            ("most concurrent requests", job.concurrency.into()),
            ("tokens/s", job.output_throughput.into()),
            ("mean TTFT, ms", job.mean_ttft_ms.into()),
            ("$/1M output tokens", job.cost_output.into()),
        ]
    });
    if !rows.is_empty() {
        let title = match rows.len() {
            ..=MAX_ROWS => "each job".to_owned(),
            all => format!("the first {MAX_ROWS} of {all} jobs; all are in tables/jobs.csv"),
        };
        let table = Sheet {
            links: rows.iter().map(|job| page(job)).collect(),
            ..Sheet::from_rows(shown).filled().titled(title)
        };
        let common = [MODEL, ENGINE, GPU].into_iter().filter(|value| !differs(*value));
        let common: Vec<&str> = common.filter_map(|value| Some(value(rows[0])?.as_str())).collect();
        if !common.is_empty() {
            blocks.push(Block::Paragraph(format!("all jobs: {}", common.join(", "))));
        }
        blocks.push(table.into());
    }
    let failed: Vec<&JobResult> = found.iter().filter(|job| job.answer.is_none()).collect();
    let mut why: Vec<String> = failed.iter().take(MAX_FAILURES).map(|job| sentence(job)).collect();
    if failed.len() > MAX_FAILURES {
        why.push(format!("and {} more", failed.len() - MAX_FAILURES));
    }
    blocks.extend(Block::list("what failed, and why", why, Weight::Normal));
    blocks
}

fn sentence(job: &JobResult) -> String {
    let why = job.why.as_deref().unwrap_or("its folder does not say why");
    let hint = job.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
    let of = job
        .setting
        .as_ref()
        .map_or_else(String::new, |setting| format!(", {setting}"));
    format!("{} ({}{of}): {}: {why}{hint}", job.name, job.script, job.status)
}

/// The best results for each model, engine or GPU; `None` unless there are at least two.
fn group(found: &[JobResult], name: &str, of: impl Fn(&JobResult) -> Option<&String>) -> Option<Block> {
    let mut groups: BTreeMap<&str, Vec<&JobResult>> = BTreeMap::new();
    for job in found {
        if let Some(value) = of(job) {
            groups.entry(value).or_default().push(job);
        }
    }
    if groups.len() < 2 {
        return None;
    }
    let best = |jobs: &[&JobResult], value: fn(&JobResult) -> Option<f64>, better: fn(f64, f64) -> f64| {
        let values = jobs.iter().filter_map(|job| value(job));
        Entry::from(values.reduce(better))
    };
    let rows = groups.iter().map(|(value, jobs)| {
        let done = jobs.iter().filter(|job| job.status == "done").count();
        [
            (name, (*value).into()),
            ("done", format!("{done} of {}", Count(jobs.len(), "job")).into()),
            ("longest request, tokens", best(jobs, |job| job.tokens, f64::max)),
            ("most concurrent requests", best(jobs, |job| job.concurrency, f64::max)),
            ("highest tokens/s", best(jobs, |job| job.output_throughput, f64::max)),
            ("lowest mean TTFT, ms", best(jobs, |job| job.mean_ttft_ms, f64::min)),
            ("lowest $/1M output tokens", best(jobs, |job| job.cost_output, f64::min)),
        ]
    });
    Some(Sheet::from_rows(rows).filled().titled(format!("by {name}")).into())
}
