//! Reads tgi-profiler's `profile_res_*.json`: `config` and `results[]` of input length, output length and
//! success.
//!
//! Its search counts every failure as "does not fit" and records only the name of a Python exception. Here a
//! failure moves the boundary only if its text says that memory ran out. A success has the lengths that the
//! tool counted, a failure those that it requested. Files written by `compare::export` have verdicts in place
//! of exceptions, and are read back unchanged.

use serde_json::{Value, json};

use super::document::Node;
use crate::boundary::{Point, Verdict};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::memory::compare::Facts;
use crate::run::RecordedBoundary;

/// PyTorch's messages for a full device.
const OUT_OF_MEMORY: [&str; 3] = ["CUDA out of memory", "HIP out of memory", "OutOfMemoryError"];

/// A tested point.
struct Tested<'a> {
    input: i64,
    output: i64,
    success: bool,
    error_type: &'a str,
    result: &'a Node,
}

impl<'a> Tested<'a> {
    fn read(result: &'a Node, index: usize) -> Result<Self, String> {
        let place = format!("`results[{index}]");
        let (Some(input), Some(output)) = (length(result, "input_length")?, length(result, "output_length")?) else {
            return Err(format!("{place}` has no whole lengths"));
        };
        let Node::Flag(success) = *result.at("success") else {
            return Err(format!("{place}.success` is neither true nor false"));
        };
        Ok(Self {
            input,
            output,
            success,
            error_type: words(result, "error_type"),
            result,
        })
    }
}

/// The text of that name, however long it is.
fn words<'a>(node: &'a Node, name: &str) -> &'a str {
    match node.at(name) {
        Node::Text(text) => text,
        _ => "",
    }
}

fn length(node: &Node, path: &str) -> Result<Option<i64>, String> {
    Ok(node.count(path)?.and_then(|count| i64::try_from(count).ok()))
}

pub(super) fn read(file: &Node) -> Result<ComparisonInput, String> {
    let results = file.at("results").objects()?.iter().enumerate();
    let results: Vec<Tested<'_>> = results
        .map(|(index, result)| Tested::read(result, index))
        .collect::<Result<_, _>>()?;
    let totals = |success: bool| {
        let of_kind = results.iter().filter(move |tested| tested.success == success);
        of_kind.map(|tested| tested.input.saturating_add(tested.output))
    };
    let mut case = Case::new("lengths");
    case.metric("points", Some(results.len() as f64), Unit::Count);
    case.metric("succeeded", Some(totals(true).count() as f64), Unit::Count);
    case.metric("not_succeeded", Some(totals(false).count() as f64), Unit::Count);
    let tokens = |total: Option<i64>| total.map(|total| total as f64);
    case.metric("largest_total_that_succeeded", tokens(totals(true).max()), Unit::Tokens);
    case.metric("smallest_total_that_failed", tokens(totals(false).min()), Unit::Tokens);
    let config = file.at("config");
    case.facts = Facts {
        tensor_parallel: match config.at("gpu_ids") {
            Node::List(list) => u64::try_from(list.length).ok().filter(|gpus| *gpus > 0),
            _ => None,
        },
        ..Facts::default()
    };
    let point = |tested: &Tested<'_>| {
        Point::default()
            .with("input", tested.input)
            .with("output", tested.output)
    };
    let points: Vec<(Point, Value)> = results.iter().map(|tested| (point(tested), answer(tested))).collect();
    let axes = axes(config, &results)?;
    Ok(ComparisonInput {
        model: config.text("model_id"),
        engine: Some("tgi".to_owned()),
        boundary: axes.map(|axes| RecordedBoundary {
            described: json!({ "axes": axes }),
            points,
            ..RecordedBoundary::default()
        }),
        cases: vec![case],
        notes: notes(config, &results)?,
        ..ComparisonInput::default()
    })
}

/// A result as an answer in our terms.
fn answer(tested: &Tested<'_>) -> Value {
    if tested.success {
        return json!({ "verdict": "ok" });
    }
    let kind = tested.error_type;
    let (message, logs) = (
        words(tested.result, "error_msg"),
        words(tested.result, "container_logs"),
    );
    if Verdict::from_name(kind).is_some() {
        let cause = (*tested.result.at("error_msg") != Node::Nothing).then_some(message);
        return json!({ "verdict": kind, "cause": cause, "evidence": { "log": logs.lines().collect::<Vec<_>>() } });
    }
    let says = |word: &&str| [message, logs, kind].iter().any(|text| text.contains(*word));
    let (verdict, cause) = match kind {
        _ if OUT_OF_MEMORY.iter().any(says) => ("oom", Some("cuda")),
        "TokenGenerationError" => ("short_output", None),
        "ContainerError" => ("start_failed", None),
        _ => ("error", None),
    };
    json!({ "verdict": verdict, "cause": cause, "evidence": { "error_type": kind, "error_msg": message } })
}

/// The search space; without bounds in the file, that of the points.
fn axes(config: &Node, results: &[Tested<'_>]) -> Result<Option<Value>, String> {
    let axis = |name: &str, of: fn(&Tested<'_>) -> i64| {
        let low = length(config, &format!("min_{name}_length"))?.or_else(|| results.iter().map(of).min());
        let high = length(config, &format!("max_{name}_length"))?.or_else(|| results.iter().map(of).max());
        Ok::<_, String>(low.zip(high).map(|(low, high)| json!([low.min(high), high.max(low)])))
    };
    let (input, output) = (
        axis("input", |tested| tested.input)?,
        axis("output", |tested| tested.output)?,
    );
    Ok(input
        .zip(output)
        .map(|(input, output)| json!({ "input": input, "output": output })))
}

fn notes(config: &Node, results: &[Tested<'_>]) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    let failures = || results.iter().filter(|tested| !tested.success);
    let failed = |kind: &str| failures().filter(|tested| tested.error_type == kind).count();
    let (starts, lengths) = (failed("ContainerError"), failed("TokenGenerationError"));
    let all = failures()
        .filter(|tested| Verdict::from_name(tested.error_type).is_none())
        .count();
    if all > 0 {
        notes.push(format!(
            "tgi-profiler takes all {all} failures as lack of memory and keeps no container logs: {starts} are containers that did not start, for whatever \
             reason, {lengths} are answers of another length than requested, {} something else; they are shown as undecided unless their \
             message says that memory ran out",
            all - starts - lengths
        ));
    }
    // The default of tgi-profiler's constructor.
    let tolerance = 100.0 * config.number("output_tolerance_pct")?.unwrap_or(0.05);
    if tolerance > 0.0 {
        notes.push(format!(
            "a success may be {tolerance:.0} % off the requested output length, as its text was tokenized again"
        ));
    }
    if *config.at("multimodal") == Node::Flag(true) {
        notes.push("the tokens of the image in each prompt are not in the input lengths".to_owned());
    }
    Ok(notes)
}
