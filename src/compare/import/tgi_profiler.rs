//! Reads tgi-profiler's `profile_res_*.json`: `config` and `results[]` of input length, output length and
//! success.
//!
//! Its search counts every failure as "does not fit" and records only the name of a Python exception. Here a
//! failure moves the boundary only if its text says that memory ran out. A success has the lengths that the
//! tool counted, a failure those that it requested. Files written by `compare::export` have verdicts in place
//! of exceptions, and are read back unchanged.

use serde::Deserialize;
use serde_json::{Value, json};

use super::source::Source;
use super::values::{LenientNumber, bounded_list};
use crate::boundary::{Point, Verdict};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::Result;
use crate::memory::compare::Facts;
use crate::run::RecordedBoundary;

const TOOL: &str = "tgi-profiler";

/// PyTorch's messages for a full device.
const OUT_OF_MEMORY: [&str; 3] = ["CUDA out of memory", "HIP out of memory", "OutOfMemoryError"];

#[derive(Deserialize)]
struct File {
    config: Config,
    #[serde(deserialize_with = "bounded_list")]
    results: Vec<TestResult>,
}

#[derive(Deserialize)]
#[serde(default)]
struct Config {
    model_id: Option<String>,
    #[serde(deserialize_with = "bounded_list")]
    gpu_ids: Vec<Value>,
    min_input_length: LenientNumber,
    max_input_length: LenientNumber,
    min_output_length: LenientNumber,
    max_output_length: LenientNumber,
    output_tolerance_pct: LenientNumber,
    multimodal: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model_id: None,
            gpu_ids: Vec::new(),
            min_input_length: LenientNumber(None),
            max_input_length: LenientNumber(None),
            min_output_length: LenientNumber(None),
            max_output_length: LenientNumber(None),
            // The default of tgi-profiler's constructor.
            output_tolerance_pct: LenientNumber(Some(0.05)),
            multimodal: false,
        }
    }
}

#[derive(Deserialize)]
struct TestResult {
    input_length: LenientNumber,
    output_length: LenientNumber,
    success: bool,
    #[serde(default)]
    error_type: Option<String>,
    #[serde(default)]
    error_msg: Option<String>,
    #[serde(default)]
    container_logs: Option<String>,
}

pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    let file: File = source.parse(TOOL)?;
    let mut points = Vec::new();
    let (mut ok, mut unclear) = (Lengths::default(), Lengths::default());
    for (index, result) in file.results.iter().enumerate() {
        let (Some(input), Some(output)) = (length(result.input_length), length(result.output_length)) else {
            return Err(source.broken(TOOL, format!("`results[{index}]` has no whole lengths")));
        };
        let answer = answer(result);
        if result.success {
            ok.add(input, output);
        } else {
            unclear.add(input, output);
        }
        points.push((Point::default().with("input", input).with("output", output), answer));
    }
    let mut case = Case::new("lengths");
    case.metric("points", Some(to_f64(points.len())), Unit::Count);
    case.metric("succeeded", Some(to_f64(ok.count)), Unit::Count);
    case.metric("not_succeeded", Some(to_f64(unclear.count)), Unit::Count);
    case.metric("largest_total_that_succeeded", ok.largest, Unit::Tokens);
    case.metric("smallest_total_that_failed", unclear.smallest, Unit::Tokens);
    case.facts = Facts {
        tensor_parallel: u64::try_from(file.config.gpu_ids.len()).ok().filter(|gpus| *gpus > 0),
        ..Facts::default()
    };
    let axes = axes(&file.config, &points);
    Ok(ComparisonInput {
        model: file.config.model_id.clone(),
        engine: Some("tgi".to_owned()),
        boundary: axes.map(|axes| RecordedBoundary {
            described: json!({ "axes": axes }),
            points,
            ..RecordedBoundary::default()
        }),
        cases: vec![case],
        notes: notes(&file),
        ..ComparisonInput::default()
    })
}

/// A result as an answer in our terms.
fn answer(result: &TestResult) -> Value {
    if result.success {
        return json!({ "verdict": "ok" });
    }
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
    let (kind, message, logs) = (
        text(&result.error_type),
        text(&result.error_msg),
        text(&result.container_logs),
    );
    let says = |word: &&str| message.contains(*word) || logs.contains(*word) || kind.contains(*word);
    if Verdict::from_name(&kind).is_some() {
        return json!({ "verdict": kind, "cause": result.error_msg, "evidence": { "log": logs.lines().collect::<Vec<_>>() } });
    }
    let (verdict, cause) = if OUT_OF_MEMORY.iter().any(says) {
        ("oom", Some("cuda"))
    } else {
        match kind.as_str() {
            "TokenGenerationError" => ("short_output", None),
            "ContainerError" => ("start_failed", None),
            _ => ("error", None),
        }
    };
    json!({ "verdict": verdict, "cause": cause, "evidence": { "error_type": kind, "error_msg": message } })
}

/// The search space; without bounds in the file, that of the points.
fn axes(config: &Config, points: &[(Point, Value)]) -> Option<Value> {
    let axis = |name: &str, low: LenientNumber, high: LenientNumber| {
        let values = || points.iter().filter_map(|(point, _)| point.int(name));
        let low = length(low).or_else(|| values().min())?;
        let high = length(high).or_else(|| values().max())?;
        Some(json!([low.min(high), high.max(low)]))
    };
    Some(json!({
        "input": axis("input", config.min_input_length, config.max_input_length)?,
        "output": axis("output", config.min_output_length, config.max_output_length)?,
    }))
}

fn notes(file: &File) -> Vec<String> {
    let mut notes = Vec::new();
    let failed = |kind: &str| {
        let of_kind = |result: &&TestResult| !result.success && result.error_type.as_deref() == Some(kind);
        file.results.iter().filter(of_kind).count()
    };
    let (starts, lengths) = (failed("ContainerError"), failed("TokenGenerationError"));
    let ours = |result: &&TestResult| result.error_type.as_deref().and_then(Verdict::from_name).is_some();
    let failures = || file.results.iter().filter(|result| !result.success);
    let all = failures().count() - failures().filter(ours).count();
    if all > 0 {
        notes.push(format!(
            "tgi-profiler takes all {all} failures as lack of memory and keeps no container logs: {starts} are containers that did not start, for whatever \
             reason, {lengths} are answers of another length than requested, {} something else; they are shown as undecided unless their \
             message says that memory ran out",
            all - starts - lengths
        ));
    }
    let tolerance = 100.0 * file.config.output_tolerance_pct.0.unwrap_or(0.05);
    if tolerance > 0.0 {
        notes.push(format!(
            "a success may be {tolerance:.0} % off the requested output length, as its text was tokenized again"
        ));
    }
    if file.config.multimodal {
        notes.push("the tokens of the image in each prompt are not in the input lengths".to_owned());
    }
    notes
}

/// A count, and the smallest and largest totals.
#[derive(Default)]
struct Lengths {
    count: usize,
    largest: Option<f64>,
    smallest: Option<f64>,
}

impl Lengths {
    fn add(&mut self, input: i64, output: i64) {
        let total = input.saturating_add(output) as f64;
        self.count += 1;
        self.largest = Some(self.largest.map_or(total, |largest| largest.max(total)));
        self.smallest = Some(self.smallest.map_or(total, |smallest| smallest.min(total)));
    }
}

fn length(value: LenientNumber) -> Option<i64> {
    value.count().and_then(|count| i64::try_from(count).ok())
}

fn to_f64(count: usize) -> f64 {
    count as f64
}
