//! Reads tgi-profiler's `profile_res_*.json`: `config` and `results[]` of input length, output length and
//! success.
//!
//! Its search counts every failure as "does not fit" and records only the name of a Python exception. Here a failure
//! moves the boundary only if its text says that memory ran out. A success has the lengths counted by the tool, a
//! failure the requested lengths. Files written by `compare::export` have verdicts in place of exceptions, and are read
//! back unchanged.

use serde_json::{Map, Value, json};

use super::document::Node;
use crate::boundary::{Cause, JsonText, Point, Verdict};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::run::RecordedBoundary;

/// PyTorch's messages for a full device.
const OUT_OF_MEMORY: [&str; 3] = ["CUDA out of memory", "HIP out of memory", "OutOfMemoryError"];

/// A tested point.
struct Tested<'a> {
    point: Point,
    success: bool,
    error_type: &'a str,
    result: Node<'a>,
}

impl<'a> Tested<'a> {
    fn read(result: Node<'a>, index: usize) -> Result<Self, String> {
        let place = format!("`results[{index}]");
        let (Some(input), Some(output)) = (length(&result, "input_length")?, length(&result, "output_length")?) else {
            return Err(format!("{place}` has no whole lengths"));
        };
        let Some(success) = result.at("success").0.as_bool() else {
            return Err(format!("{place}.success` is neither true nor false"));
        };
        Ok(Self {
            point: Point::default().with("input", input).with("output", output),
            success,
            error_type: text(result, "error_type"),
            result,
        })
    }

    fn length(&self, axis: &str) -> i64 {
        self.point.int(axis).unwrap_or_default()
    }
}

/// The text with that name, of any length.
fn text<'a>(node: Node<'a>, name: &str) -> &'a str {
    node.at(name).0.as_str().unwrap_or_default()
}

fn length(node: &Node, path: &str) -> Result<Option<i64>, String> {
    Ok(node.count(path)?.and_then(|count| i64::try_from(count).ok()))
}

pub(super) fn read(file: &Node) -> Result<ComparisonInput, String> {
    let results: Vec<Tested<'_>> = file
        .at("results")
        .objects()?
        .into_iter()
        .enumerate()
        .map(|(index, result)| Tested::read(result, index))
        .collect::<Result<_, _>>()?;
    let totals = |success: bool| -> Vec<i64> {
        let of_kind = results.iter().filter(|tested| tested.success == success);
        of_kind
            .map(|tested| tested.length("input").saturating_add(tested.length("output")))
            .collect()
    };
    let (fits, fails) = (totals(true), totals(false));
    let largest = fits.iter().max().map(|total| *total as f64);
    let smallest = fails.iter().min().map(|total| *total as f64);
    let mut case = Case::new("lengths");
    for (name, value, unit) in [
        ("points", Some(results.len() as f64), Unit::Count),
        ("succeeded", Some(fits.len() as f64), Unit::Count),
        ("not_succeeded", Some(fails.len() as f64), Unit::Count),
        ("largest_total_that_succeeded", largest, Unit::Tokens),
        ("smallest_total_that_failed", smallest, Unit::Tokens),
    ] {
        case.metric(name, value, unit);
    }
    let config = file.at("config");
    let gpus = config.at("gpu_ids").objects()?.len() as u64;
    case.facts.tensor_parallel = Some(gpus).filter(|gpus| *gpus > 0);
    let points = results
        .iter()
        .map(|tested| (tested.point.clone(), JsonText::from(&answer(tested))));
    Ok(ComparisonInput {
        model: config.text("model_id"),
        engine: Some("tgi".to_owned()),
        gpus: Some(config.at("gpu_ids").0.clone()).filter(Value::is_array),
        boundary: axes(&config, &results)?.map(|axes| RecordedBoundary {
            described: json!({ "axes": axes }),
            points: points.collect(),
            ..RecordedBoundary::default()
        }),
        cases: vec![case],
        notes: notes(&config, &results)?,
        ..ComparisonInput::default()
    })
}

/// A result in our terms, with its own time and words.
fn answer(tested: &Tested<'_>) -> Value {
    let time = text(tested.result, "timestamp");
    if tested.success {
        return json!({ "verdict": "ok", "evidence": { "time": time } });
    }
    let kind = tested.error_type;
    let [message, logs] = ["error_msg", "container_logs"].map(|name| text(tested.result, name));
    let log: Vec<&str> = logs.lines().collect();
    if Verdict::from_name(kind).is_some() {
        // Written by this program: `cause: message`, either of them alone, or nothing.
        let (cause, message) = match message.split_once(": ") {
            Some((cause, message)) if is_cause(cause) => (cause, message),
            None if is_cause(message) => (message, ""),
            _ => ("", message),
        };
        let cause = (!cause.is_empty()).then_some(cause);
        return json!({ "verdict": kind, "cause": cause, "evidence": { "message": message, "log": log, "time": time } });
    }
    let says = |word: &&str| [message, logs, kind].iter().any(|text| text.contains(*word));
    let (verdict, cause) = match kind {
        _ if OUT_OF_MEMORY.iter().any(says) => ("oom", Some(Cause::Cuda)),
        "TokenGenerationError" => ("short_output", None),
        "ContainerError" => ("start_failed", None),
        _ => ("error", None),
    };
    let evidence = json!({ "message": message, "error_type": kind, "log": log, "time": time });
    json!({ "verdict": verdict, "cause": cause, "evidence": evidence })
}

/// Whether a word is the name of a cause, not a sentence.
fn is_cause(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
}

/// The search space; without bounds in the file, the range of the points.
fn axes(config: &Node, results: &[Tested<'_>]) -> Result<Option<Value>, String> {
    let mut axes = Map::new();
    for axis in ["input", "output"] {
        let tested = || results.iter().map(|tested| tested.length(axis));
        let low = length(config, &format!("min_{axis}_length"))?.or_else(|| tested().min());
        let high = length(config, &format!("max_{axis}_length"))?.or_else(|| tested().max());
        let Some((low, high)) = low.zip(high) else {
            return Ok(None);
        };
        axes.insert(axis.to_owned(), json!([low.min(high), high.max(low)]));
    }
    Ok(Some(axes.into()))
}

fn notes(config: &Node, results: &[Tested<'_>]) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    let failures = || results.iter().filter(|tested| !tested.success);
    let failed = |kind: &str| failures().filter(|tested| tested.error_type == kind).count();
    let (starts, lengths) = (failed("ContainerError"), failed("TokenGenerationError"));
    let foreign = failures().filter(|tested| Verdict::from_name(tested.error_type).is_none());
    let all = foreign.count();
    if all > 0 {
        notes.push(format!(
            "tgi-profiler takes all {all} failures as lack of memory and keeps no container logs: {starts} are containers that did not start, for whatever \
             reason, {lengths} are answers of another length than requested, {} something else; they are shown as undecided unless their \
             message says that memory ran out",
            all - starts - lengths
        ));
    }
    // tgi-profiler's constructor defaults to 0.05: despite its name, `output_tolerance_pct` is a share.
    let tolerance = 100.0 * config.number("output_tolerance_pct")?.unwrap_or(0.05);
    if tolerance > 0.0 {
        notes.push(format!(
            "a success may be {tolerance:.0} % off the requested output length, as its text was tokenized again"
        ));
    }
    if config.at("multimodal").0 == true {
        notes.push("the tokens of the image in each prompt are not in the input lengths".to_owned());
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cause_is_read_as_the_cause() {
        for (said, cause, message) in [
            ("Connection error: refused", Value::Null, "Connection error: refused"),
            ("cuda: out of memory", json!("cuda"), "out of memory"),
            ("no_counts", json!("no_counts"), ""),
            ("no words: but a colon: two", Value::Null, "no words: but a colon: two"),
            ("", Value::Null, ""),
        ] {
            let result = json!({
                "input_length": 8, "output_length": 4, "success": false, "error_type": "error", "error_msg": said,
            });
            let answer = answer(&Tested::read(Node(&result), 0).unwrap());
            assert_eq!(answer["cause"], cause, "{said}");
            assert_eq!(answer["evidence"]["message"], message, "{said}");
        }
    }
}
