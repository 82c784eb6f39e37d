//! `profiler run --dry-run`: what a run would do, without starting anything.
//!
//! The script runs until it needs an answer that only a started engine can give. Probes of a boundary are answered as
//! if half of the search space fitted. So the script itself reveals its parameters, the engine that it would launch,
//! and the points that it would probe.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::options::{Author, ScriptOptions, ask_consent};
use super::program::{Program, Status};
use crate::boundary::Point;
use crate::fault::{Kind, Result};
use crate::fmt::grouped;
use crate::report::{planned_starts, simulated_line};
use crate::run::{Event, Run, RunPlan};
use crate::runtime::Want;
use crate::script::{self, Main};
use crate::task::lock;

/// Number of first points shown.
const FIRST_POINTS: usize = 5;

/// Preview of a run.
#[derive(Default, Serialize)]
struct Preview {
    dry_run: bool,
    simulated: bool,
    parameters: Map<String, Value>,
    /// All permissions that the script needs, allowed or not.
    wants: Vec<Want>,
    engines: Vec<Value>,
    boundaries: Vec<Search>,
    /// Output of the script.
    said: Vec<String>,
    experiments: Vec<Value>,
    /// The user's time limit of the search. The duration of a probe is unknown before the first one.
    seconds_at_most: Value,
}

/// The search of one boundary.
#[derive(Default, Serialize)]
struct Search {
    axes: Value,
    question: Value,
    first_points: Vec<Point>,
    probes: usize,
    /// `None` if the script reached something that cannot be simulated.
    expected_probes: Option<usize>,
    /// The engine starts, if each point gets a fresh engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_starts: Option<usize>,
}

impl Preview {
    fn add(&mut self, event: &Event) {
        match event {
            Event::Boundary { axes: described, .. } => self.boundaries.push(Search {
                axes: described["axes"].clone(),
                question: described["question"].clone(),
                ..Search::default()
            }),
            Event::Print { text } | Event::Note { text } => self.said.extend(text.lines().map(str::to_owned)),
            Event::Experiment { value, .. } => self.experiments.push(value.clone()),
            Event::Engine { info } => self.engines.push(info.clone()),
            Event::Point { boundary, point, .. } => {
                let Some(search) = self.boundaries.get_mut(*boundary) else {
                    return;
                };
                search.probes += 1;
                if search.probes <= FIRST_POINTS {
                    search.first_points.push(point.clone());
                }
            }
            _ => {}
        }
    }
}

pub(super) fn execute(
    options: &ScriptOptions,
    json: bool,
    script: &Path,
    main: &Main,
    plan: RunPlan,
    program: &Program,
) -> Result<Status> {
    let run = Run::ephemeral("dry-run");
    let names_gpus = plan.set.contains_key("gpus");
    let host = options.host(script, plan.set, run, true, Author::from_script(main), program)?;
    ask_consent(&host, None::<fn(&mut dyn FnMut())>);
    let preview = Arc::new(Mutex::new(Preview::default()));
    let listener = Arc::clone(&preview);
    host.run.listen(Box::new(move |event| lock(&listener).add(event)));
    let ended = script::run(&host, main);
    let mut preview = lock(&preview);
    let (mut missing, is_complete) = (None, ended.is_ok());
    if let Err(diagnostic) = ended {
        match diagnostic.fault.kind {
            Kind::DryRun => {}
            // The permissions and output so far are shown too.
            Kind::NotAllowed => missing = Some(diagnostic),
            Kind::Missing if !preview.said.is_empty() => missing = Some(diagnostic),
            _ if preview.engines.is_empty() => return Ok(program.complain(&diagnostic)),
            // Simulated answers lack values that only a real answer has.
            _ => {}
        }
    }
    let parameters = host.state().params.clone().unwrap_or_default();
    let limit = parameters.get("search").map(|search| search["max_seconds"].clone());
    preview.dry_run = true;
    preview.simulated = host.run.simulated();
    preview.wants = host.permits.wants();
    preview.seconds_at_most = limit.unwrap_or_default();
    preview.parameters = parameters;
    let isolates = preview
        .engines
        .iter()
        .any(|engine| engine["options"]["isolate"] == true);
    for search in &mut preview.boundaries {
        search.expected_probes = is_complete.then_some(search.probes);
        search.expected_starts = isolates.then_some(search.probes);
    }
    if json {
        program.print_json(&*preview)?;
    } else {
        let notice = preview.simulated.then(|| simulated_line(&host.run.simulated_engines()));
        let text = describe(&preview, notice);
        program.terminal.print_wrapped(&text)?;
    }
    // A launch that is not allowed is described instead of ending the script, and a script may continue without a
    // permission.
    let refused = preview.engines.iter().any(|engine| !engine["not_allowed"].is_null())
        || preview.wants.iter().any(|want| !want.allowed);
    let lacks_gpu = names_gpus && preview.engines.iter().any(|engine| !engine["no_gpu"].is_null());
    Ok(match missing {
        Some(diagnostic) => program.complain(&diagnostic),
        None if refused => Kind::NotAllowed.exit_code(),
        None if lacks_gpu => Kind::Missing.exit_code(),
        None => 0,
    })
}

/// The permissions that a run of this script lacks, as far as that shows without starting anything.
pub(super) fn missing(
    options: &ScriptOptions,
    script: &Path,
    main: &Main,
    set: Map<String, Value>,
    program: &Program,
) -> Result<Vec<Want>> {
    let run = Run::ephemeral("dry-run");
    let host = options.host(script, set, run, true, Author::from_script(main), program)?;
    // However the script ends, the permissions that it needed so far are known.
    let _ = script::run(&host, main);
    let wants = host.permits.wants().into_iter();
    Ok(wants.filter(|want| !want.allowed).collect())
}

/// Whether a parameter has no value: `()`, or an empty map or array.
fn is_unset(value: &Value) -> bool {
    value.is_null() || *value == json!({}) || *value == json!([])
}

/// Lines of the launch preview: label, the only runtime it applies to, JSON pointer.
const LAUNCH: [(&str, Option<&str>, &str); 17] = [
    ("engine", None, "/info/engine"),
    ("runtime", None, "/runtime"),
    ("image", Some("docker"), "/launch/image"),
    ("in the container", Some("process"), "/options/container"),
    ("entry point", Some("docker"), "/launch/entrypoint"),
    ("arguments", Some("docker"), "/launch/args"),
    ("command", Some("process"), "/launch/command"),
    ("environment", None, "/launch/env"),
    ("files", None, "/launch/files"),
    ("mounts", Some("docker"), "/launch/mounts"),
    ("published at port", Some("docker"), "/options/host_port"),
    ("memory limit, bytes", Some("docker"), "/launch/memory_limit"),
    ("shared memory, bytes", Some("docker"), "/launch/shm_size"),
    ("GPUs", None, "/launch/gpus"),
    ("missing", None, "/no_gpu"),
    ("limits", None, "/limits"),
    ("not allowed", None, "/not_allowed"),
];

fn launch(engine: &Value) -> Vec<String> {
    let line = |name: &str, value: &Value| {
        let text = match value {
            Value::Array(words) => words.iter().map(text).collect::<Vec<_>>().join(" "),
            other => text(other),
        };
        (!is_unset(value)).then(|| format!("{name}: {text}"))
    };
    let lines = LAUNCH.into_iter().filter_map(|(name, runtime, pointer)| {
        let applies = runtime.is_none_or(|runtime| engine["runtime"] == runtime);
        line(name, engine.pointer(pointer).filter(|_| applies)?)
    });
    let withheld = engine["withheld"].as_array().into_iter().flatten();
    lines
        .chain(withheld.filter_map(|what| line("not given", what)))
        .collect()
}

/// A value in the form that people write.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The permissions that the script needs, and the option that allows the missing ones.
fn permissions(wants: &[Want]) -> Vec<String> {
    let missing = wants.iter().filter(|want| !want.allowed).collect::<Vec<_>>();
    let line = |want: &Want| {
        let state = if want.allowed { "allowed" } else { "missing" };
        format!("{state}: {}: {}", want.allow, want.to)
    };
    let add =
        (!missing.is_empty()).then(|| format!("to allow what is missing: {}", Want::option(missing.iter().copied())));
    wants.iter().map(line).chain(add).collect()
}

fn describe(preview: &Preview, notice: Option<String>) -> String {
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
    let parameters = preview
        .parameters
        .iter()
        .filter(|(_, value)| !is_unset(value))
        .map(|(name, value)| format!("{name} = {value}"));
    list("parameters", parameters.collect());
    list("permissions", permissions(&preview.wants));
    if !preview.said.is_empty() {
        list("the script says", preview.said.clone());
    }
    for engine in &preview.engines {
        list("engine", launch(engine));
    }
    for experiment in &preview.experiments {
        let name = experiment["name"].as_str().unwrap_or_default();
        list(&format!("experiment: {name}"), planned_starts(experiment));
    }
    for search in &preview.boundaries {
        let mut entries = ranges(search);
        entries.push(match search.expected_probes {
            Some(probes) => format!("about {probes} probes, if half of it fits"),
            None => format!("{} probes and more", search.probes),
        });
        let isolates = search.expected_starts.is_some();
        if let Some(starts) = search.expected_starts {
            entries.push(format!("about {starts} engine starts: each point gets a fresh engine"));
        }
        entries.push(match preview.seconds_at_most.as_f64() {
            Some(seconds) => format!("at most {seconds} s, as `search.max_seconds` says"),
            None if isolates => {
                "duration: that of a start and a probe for each point, known after the first; `search.max_seconds` bounds it".to_owned()
            }
            None => "duration: known after the first one; `search.max_seconds` bounds it".to_owned(),
        });
        let first = search.first_points.iter().enumerate();
        entries.extend(first.map(|(index, point)| format!("point {}: {}", index + 1, json!(point))));
        list("search range", entries);
    }
    lines.join("\n")
}

/// The range of each axis, and how ranges that the user did not give are derived.
fn ranges(search: &Search) -> Vec<String> {
    let question = &search.question;
    let axes = search.axes.as_object().into_iter().flatten();
    let mut lines: Vec<String> = axes
        .map(
            |(name, axis)| match axis.get("range").unwrap_or(axis).as_array().map(Vec::as_slice) {
                Some([low, .., high]) if low == high => format!("{name} {}", number(low)),
                Some([low, .., high]) => format!("{name} {} to {}", number(low), number(high)),
                Some([only]) => format!("{name} {}", number(only)),
                _ => format!("{name} {axis}"),
            },
        )
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
                "concurrency: up to the memory estimate, plus a margin".to_owned()
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
