//! `profiler run --dry-run`: what a run would do, without starting anything.
//!
//! The script runs until it needs an answer that only a started engine can give. Probes of a boundary are
//! answered as if half of the search space fitted. So the script itself reveals its parameters, the engine that
//! it would launch, and the points that it would test.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::options::ScriptOptions;
use super::program::{Program, Status};
use crate::boundary::Point;
use crate::fault::{Kind, Result};
use crate::fmt::grouped;
use crate::report::{planned_starts, simulated_line};
use crate::run::{Event, Plan, Run};
use crate::script::{self, Host, Main};

/// Number of first points shown.
const FIRST_POINTS: usize = 5;

#[derive(Default)]
struct Preview {
    boundaries: Vec<Value>,
    engines: Vec<Value>,
    /// Output of the script.
    output: Vec<String>,
    experiments: Vec<Value>,
    /// The recorded points of each boundary.
    points: BTreeMap<usize, Vec<Point>>,
    /// Whether the script reached something that cannot be simulated.
    cut_off: bool,
}

pub(super) fn execute(
    options: &ScriptOptions,
    json: bool,
    script: &Path,
    main: &Main,
    plan: Plan,
    program: &Program,
) -> Result<Status> {
    let run = Arc::new(Run::ephemeral("dry-run"));
    let host = options.host(script, plan.set, run, true, program)?;
    let preview = Arc::new(Mutex::new(Preview::default()));
    let listener = Arc::clone(&preview);
    host.run.listen(Box::new(move |event| {
        let mut seen = listener.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Boundary { axes, .. } => seen.boundaries.push(axes.clone()),
            Event::Print { text } => seen.output.extend(text.lines().map(str::to_owned)),
            Event::Experiment { value, .. } => seen.experiments.push(value.clone()),
            Event::Engine { info } => seen.engines.push(info.clone()),
            Event::Point { boundary, point, .. } => seen.points.entry(*boundary).or_default().push(point.clone()),
            _ => {}
        }
    }));
    let ended = script::run(&host, main);
    let mut preview = preview.lock().unwrap_or_else(PoisonError::into_inner);
    let mut missing = None;
    if let Err(diagnostic) = ended {
        match diagnostic.fault.kind {
            Kind::DryRun => {}
            // If the script found something missing, its output up to there is printed too.
            Kind::Missing | Kind::NotAllowed if !preview.output.is_empty() => missing = Some(diagnostic),
            _ if preview.engines.is_empty() => return Ok(program.complain(&diagnostic)),
            // After a made-up answer, the script may miss values that only a real answer has.
            _ => {}
        }
        preview.cut_off = true;
    }
    let document = document(&preview, &host, &plan.permissions)?;
    match json {
        true => program.print_json(&document)?,
        false => {
            let notice = host
                .run
                .simulated()
                .then(|| simulated_line(&host.run.simulated_engines()));
            let text = describe(&document, notice);
            program.terminal.print_wrapped(&crate::run::hide(&text))?;
        }
    }
    Ok(missing.map_or(0, |diagnostic| program.complain(&diagnostic)))
}

fn document(preview: &Preview, host: &Host, permissions: &[String]) -> Result<Value> {
    let parameters = host.state().params.clone().unwrap_or_default();
    let boundaries: Vec<_> = preview
        .boundaries
        .iter()
        .enumerate()
        .map(|(index, described)| {
            let points = preview.points.get(&index).map_or(&[][..], Vec::as_slice);
            json!({
                "axes": described["axes"],
                "question": described["question"],
                "first_points": points[..points.len().min(FIRST_POINTS)],
                "probes": points.len(),
                "expected_probes": (!preview.cut_off).then_some(points.len()),
            })
        })
        .collect();
    Ok(json!({
        "dry_run": true,
        "simulated": host.run.simulated(),
        "parameters": parameters,
        "permissions": permissions,
        "engines": preview.engines,
        "boundaries": boundaries,
        "said": preview.output,
        "experiments": preview.experiments,
        "seconds_at_most": seconds(&parameters),
    }))
}

/// Whether a parameter says nothing: `()`, or an empty map or array.
fn is_unset(value: &Value) -> bool {
    value.is_null() || *value == json!({}) || *value == json!([])
}

/// The user's time limit of the search. The duration of a probe is unknown before the first one.
fn seconds(parameters: &Map<String, Value>) -> Option<&Value> {
    parameters
        .get("search")?
        .get("max_seconds")
        .filter(|seconds| !seconds.is_null())
}

/// What would be launched: image, arguments, limits. Docker options are shown only for containers, commands
/// only for processes.
fn launch(engine: &Value) -> Vec<String> {
    let launch = &engine["launch"];
    let of = |runtime: &str, name: &str| match engine["runtime"] == runtime {
        true => &launch[name],
        false => &Value::Null,
    };
    let line = |name: &str, value: &Value| {
        let text = match value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            Value::Array(words) if words.is_empty() => return None,
            Value::Array(words) => {
                let words = words
                    .iter()
                    .map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned));
                words.collect::<Vec<_>>().join(" ")
            }
            other => other.to_string(),
        };
        Some(format!("{name}: {text}"))
    };
    let lines = [
        line("engine", &engine["info"]["engine"]),
        line("runtime", &engine["runtime"]),
        line("image", of("docker", "image")),
        line("entry point", of("docker", "entrypoint")),
        line("arguments", of("docker", "args")),
        line("command", of("process", "command")),
        line("environment", &launch["env"]),
        line("files", &launch["files"]),
        line("mounts", of("docker", "mounts")),
        line("GPUs", &launch["gpus"]),
        line("limits", &engine["limits"]),
        line("not allowed", &engine["not_allowed"]),
    ];
    let withheld = engine["withheld"].as_array().into_iter().flatten();
    lines
        .into_iter()
        .chain(withheld.map(|what| line("not given", what)))
        .flatten()
        .filter(|line| !line.ends_with(": {}"))
        .collect()
}

fn describe(document: &Value, notice: Option<String>) -> String {
    let mut lines = vec!["dry run: nothing was started".to_owned()];
    lines.extend(notice);
    let mut list = |title: &str, entries: Vec<String>| {
        lines.push(String::new());
        lines.push(title.to_owned());
        if entries.is_empty() {
            lines.push("  none".to_owned());
        }
        lines.extend(entries.into_iter().map(|entry| format!("  {entry}")));
    };
    let texts = |value: &Value| -> Vec<String> {
        let entries = value.as_array().into_iter().flatten();
        entries
            .map(|entry| entry.as_str().map_or_else(|| entry.to_string(), str::to_owned))
            .collect()
    };
    let parameters = document["parameters"].as_object();
    list(
        "parameters",
        parameters
            .into_iter()
            .flatten()
            .filter(|(_, value)| !is_unset(value))
            .map(|(name, value)| format!("{name} = {value}"))
            .collect(),
    );
    list("permissions", texts(&document["permissions"]));
    let output = texts(&document["said"]);
    if !output.is_empty() {
        list("the script says", output);
    }
    for engine in document["engines"].as_array().into_iter().flatten() {
        list("engine", launch(engine));
    }
    for experiment in document["experiments"].as_array().into_iter().flatten() {
        let name = experiment["name"].as_str().unwrap_or_default();
        list(&format!("experiment: {name}"), planned_starts(experiment));
    }
    for boundary in document["boundaries"].as_array().into_iter().flatten() {
        let mut entries = ranges(boundary);
        entries.push(match boundary["expected_probes"].as_u64() {
            Some(probes) => format!("about {probes} probes, if half of it fits"),
            None => format!("{} probes and more", boundary["probes"]),
        });
        entries.push(match document["seconds_at_most"].as_f64() {
            Some(seconds) => format!("at most {seconds} s, as `search.max_seconds` says"),
            None => "how long they take is known once the first was made; `search.max_seconds` bounds it".to_owned(),
        });
        entries.extend(
            texts(&boundary["first_points"])
                .into_iter()
                .enumerate()
                .map(|(index, point)| format!("point {}: {point}", index + 1)),
        );
        list("search range", entries);
    }
    lines.join("\n")
}

/// The range of each axis, and what those follow from that the user did not give.
fn ranges(boundary: &Value) -> Vec<String> {
    let question = &boundary["question"];
    let axes = boundary["axes"].as_object().into_iter().flatten();
    let mut lines: Vec<String> = axes
        .map(|(name, axis)| {
            let (low, high) = match axis.get("range").unwrap_or(axis) {
                Value::Array(ends) => (ends.first(), ends.last()),
                _ => (None, None),
            };
            match (low, high) {
                (Some(low), Some(high)) if low == high => format!("{name} {}", number(low)),
                (Some(low), Some(high)) => format!("{name} {} to {}", number(low), number(high)),
                _ => format!("{name} {axis}"),
            }
        })
        .collect();
    let work = &question["workload"];
    if let (Some(name), Some(described)) = (work["name"].as_str(), work["description"].as_str()) {
        lines.push(format!("workload {name}: {described}; its 95th percentiles"));
    }
    let open = question["searched"].as_array().into_iter().flatten();
    let given = question["given"].as_array().into_iter().flatten().collect::<Vec<_>>();
    if open.filter(|axis| !given.contains(axis)).count() > 0 {
        let bounds = &question["bounds"];
        let counts = question["searched"] == json!(["concurrency"]);
        lines.push(match (&bounds["positions"], &bounds["estimate"]) {
            (_, estimate) if counts && estimate.is_number() => {
                "concurrency: as many as the memory estimate lets expect, with a margin".to_owned()
            }
            (positions, estimate) if positions.is_number() && estimate.is_number() => format!(
                "lengths: the model's {} positions, cut to {} tokens by the memory estimate",
                number(positions),
                number(estimate)
            ),
            (positions, _) if positions.is_number() && !counts => {
                format!("lengths: the model's {} positions", number(positions))
            }
            (_, estimate) if estimate.is_number() => {
                format!("lengths: {} tokens by the memory estimate", number(estimate))
            }
            _ => "neither the engine nor the model reports what it can hold: a common range".to_owned(),
        });
        if let Some(why) = bounds["no_estimate"].as_str() {
            lines.push(format!("no memory estimate: {why}"));
        }
        lines.push("what the running engine reports then narrows it".to_owned());
    }
    lines
}

fn number(value: &Value) -> String {
    grouped(&value.to_string())
}
