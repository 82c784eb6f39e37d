//! Converts a run into a [`ComparisonInput`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::serving::trial_cases;
use super::{Case, ComparisonInput, Unit, configuration, load_metrics, serving_points, trial_loads};
use crate::experiment::Experiment;
use crate::fmt::Gib;
use crate::load::stats::Spread;
use crate::memory::compare::{ModelFacts, implausible};
use crate::run::{AskedServer, Manifest, RecordedLoad, RecordedRun};

impl ComparisonInput {
    /// Converts a run; `title` is its folder as the user named it. Its notes list the parts that cannot be read.
    pub fn from_run(found: &RecordedRun, title: &str) -> Self {
        let engines = &found.manifest.engines;
        let facts = facts(engines);
        let mut cases = Vec::new();
        for (name, footprint) in found.footprints() {
            let mut case = Case::new(name);
            case.facts = ModelFacts {
                tensor_parallel: facts
                    .tensor_parallel
                    .or(u64::try_from(footprint.per_gpu.len()).ok().filter(|gpus| *gpus > 1)),
                ..facts.clone()
            };
            case.implausible = implausible(Some(&footprint.all), &case.facts);
            case.breakdown = Some(footprint.all);
            cases.push(case);
        }
        let (configured, doubts) = configurations(found, &facts);
        cases.extend(configured);
        cases.extend(super::experiments(found).flat_map(|(_, experiment)| settings(&experiment)));
        cases.extend(loads(&found.loads));
        let mut notes = found.missing.clone();
        if !trial_loads(found).is_empty() {
            let (trials, recommended) = trial_cases(found);
            cases.extend(trials);
            notes.extend(recommended);
        }
        cases.extend(found.result().and_then(answers));
        notes.extend(doubts);
        notes.extend(found.totals.warnings.iter().map(|warning| warning.message.clone()));
        if found.drawn().count() > 1 {
            notes.push("of several boundaries, the first is compared".to_owned());
        }
        if !found.done() {
            notes.push(format!(
                "the run did not come to its end: its figures may be of a part ({})",
                found.ended()
            ));
        }
        Self {
            title: title.to_owned(),
            format: "run",
            holds: "what a run of profiler found",
            unfinished: (!found.done()).then(|| found.ended()),
            model: agreed_value(engines, &["/info/model", "/options/model"]),
            engine: engine(engines),
            gpus: None,
            simulated: found.manifest.simulated,
            setup: setup(&found.manifest),
            boundary: found.drawn().next().cloned(),
            cases,
            series: Vec::new(),
            serving: serving_points(found),
            notes,
        }
    }
}

/// The configurations of a batch, and what to know of them. Those that were never sent are only in its rows.
fn configurations(found: &RecordedRun, facts: &ModelFacts) -> (Vec<Case>, Vec<String>) {
    let mut all = Vec::new();
    for (args, answer) in &found.configurations {
        let trial = &args["trial"];
        let mut case = configuration::case(&trial["point"], answer);
        case.facts = case.facts.or(facts);
        case.model = trial["model"].as_str().map(str::to_owned);
        let setting = |key: &str| configuration::text(&args["launch"][key]);
        let settings = [
            ("engine", configuration::text(&args["engine"])),
            ("container", setting("container")),
            ("dtype", setting("dtype")),
            ("quantization", setting("quantization")),
            ("kv_cache_dtype", setting("kv_cache_dtype")),
            ("tensor_parallel", setting("tensor_parallel")),
            ("memory_fraction", setting("memory_fraction")),
            ("entry", configuration::text(&trial["entry"])),
        ];
        all.push((case, settings.to_vec(), answer));
    }
    let (cases, answers): (Vec<_>, Vec<_>) = all
        .into_iter()
        .map(|(case, settings, answer)| ((case, settings), answer))
        .unzip();
    let cases = configuration::told_apart(cases);
    let measured = cases.iter().zip(answers);
    let mut notes: Vec<String> = measured
        .filter_map(|(case, answer)| configuration::note(&case.name, answer))
        .collect();
    let rows = found
        .result_so_far()
        .and_then(|value| value["configurations"].as_array());
    let key = |parts: [&Value; 4]| json!(parts).to_string();
    let sent: BTreeSet<String> = found
        .configurations
        .iter()
        .map(|(args, _)| {
            let (trial, point) = (&args["trial"], &args["trial"]["point"]);
            key([
                &trial["entry"],
                &point["input"],
                &point["output"],
                &point["concurrency"],
            ])
        })
        .collect();
    for row in rows.into_iter().flatten() {
        let of_row = [&row["entry"], &row["input_len"], &row["output_len"], &row["batch_size"]];
        if !sent.contains(&key(of_row)) {
            let part = |key: &str| configuration::text(&row[key]).unwrap_or_default();
            let name = format!(
                "{} concurrency={} input={} output={}",
                part("model_id"),
                part("batch_size"),
                part("input_len"),
                part("output_len")
            );
            notes.extend(configuration::note(&name, row));
        }
    }
    (cases, notes)
}

/// Facts on which all engines of the run agree.
fn facts(engines: &[Value]) -> ModelFacts {
    let text = |pointers: &[&str]| agreed_value(engines, pointers).filter(|text| text != "auto");
    let count = |pointers: &[&str]| agreed_value(engines, pointers).and_then(|text| text.parse().ok());
    ModelFacts {
        weight_dtype: text(&["/options/dtype", "/facts/dtype"]),
        quantization: text(&["/options/quantization"]),
        kv_dtype: text(&["/options/kv_cache_dtype"]),
        tensor_parallel: count(&["/options/tensor_parallel"]),
        kv_tokens: count(&["/info/kv_tokens", "/facts/kv_tokens"]),
        prefill_chunk: count(&["/facts/max_num_batched_tokens"]),
        input: count(&["/limits/input"]),
        output: count(&["/limits/output"]),
        concurrency: count(&["/limits/concurrency"]),
        capacity: count(&["/memory_total"]).and_then(|bytes: u64| i64::try_from(bytes).ok()),
        ..ModelFacts::default()
    }
}

fn engine(engines: &[Value]) -> Option<String> {
    let name = agreed_value(engines, &["/info/engine"])?;
    Some(match agreed_value(engines, &["/info/version"]) {
        Some(version) => format!("{name} {version}"),
        None => name,
    })
}

/// The value at the first pointer where any engine has one; `None` if the engines disagree.
fn agreed_value(engines: &[Value], pointers: &[&str]) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    pointers.iter().find_map(|pointer| {
        let mut values = engines.iter().filter_map(|engine| text(engine.pointer(pointer)?));
        let first = values.next()?;
        values.all(|other| other == first).then_some(first)
    })
}

/// One case per setting with the means of its starts, and one for the experiment's further results.
fn settings(experiment: &Experiment) -> Vec<Case> {
    let mut cases: Vec<Case> = experiment
        .measured
        .settings
        .iter()
        .enumerate()
        .map(|(index, setting)| {
            let mut case = Case::new(&setting.name);
            for one in &experiment.comparisons {
                let metric = experiment
                    .measured
                    .metrics
                    .iter()
                    .find(|metric| metric.name == one.name);
                let rounded = metric.map_or(0.0, |metric| metric.resolution);
                let spread = Spread::from_values(one.values[index].iter().map(|value| Some(*value)));
                let interval = spread
                    .and_then(|spread| spread.ci)
                    .map(|[low, high]| [low - rounded, high + rounded]);
                case.metric_with_interval(&one.name, one.means[index], one.unit, interval);
            }
            case
        })
        .collect();
    if !experiment.further.is_empty() {
        let mut case = Case::new("summary");
        for one in &experiment.further {
            case.metric(&one.name, one.value, one.unit);
        }
        cases.push(case);
    }
    cases
}

/// One case per load. Loads that differ only in their seed, or in their part of a file of prompts, are repeats: the
/// case has their means, with intervals.
fn loads(loads: &[RecordedLoad]) -> Vec<Case> {
    let mut kinds: Vec<(Value, Vec<Case>)> = Vec::new();
    for (args, answer) in loads {
        let case = load_metrics::case(args, answer);
        let mut args = args.clone();
        args["load"]["seed"] = Value::Null;
        args["load"]["prompts_from"] = Value::Null;
        match kinds.iter_mut().find(|(kind, _)| *kind == args) {
            Some((_, cases)) => cases.push(case),
            None => kinds.push((args, vec![case])),
        }
    }
    let mut cases: Vec<Case> = Vec::new();
    for (_, repeats) in kinds {
        let mut case = Case::mean(repeats);
        let same = |other: &&Case| other.name.split(" #").next() == Some(&*case.name);
        let earlier = cases.iter().filter(same).count();
        if earlier > 0 {
            case.name = format!("{} #{}", case.name, earlier + 1);
        }
        cases.push(case);
    }
    cases
}

/// How far answers are from those of a reference, as `std/quality` says: of the run, or of the setting that it chose.
fn answers(result: &Value) -> Option<Case> {
    let found = [result, &result["quality"]]
        .into_iter()
        .find(|one| one["agreement"].is_number())?;
    let mut case = Case::new("answers");
    let (share, tokens) = (found["agreement"].as_f64()?, found["tokens"].as_f64()?);
    // Wilson's interval, as if tokens were independent.
    let z = 1.96;
    let middle = (share + z * z / (2.0 * tokens)) / (1.0 + z * z / tokens);
    let half = z / (1.0 + z * z / tokens) * (share * (1.0 - share) / tokens + z * z / (4.0 * tokens * tokens)).sqrt();
    let interval = [100.0 * (middle - half), 100.0 * (middle + half)];
    case.metric_with_interval("agreement", Some(100.0 * share), Unit::Percent, Some(interval));
    // The difference of the reference from itself is its noise.
    let nats = found["difference"].as_f64();
    let band = nats.zip(found["usual"]["difference"].as_f64());
    let interval = band.map(|(nats, rounding)| [nats - rounding, nats + rounding]);
    case.metric_with_interval("nats_per_token", nats, Unit::Count, interval);
    Some(case)
}

/// Longer parameter values are cut: they only need to be distinguishable.
const MAX_LENGTH: usize = 120;

/// The setup of a run. A parameter `input` is named `parameter input`.
fn setup(manifest: &Manifest) -> BTreeMap<String, String> {
    let mut setup = BTreeMap::new();
    let mut add = |name: &str, text: String| {
        if !text.is_empty() {
            setup.insert(name.to_owned(), text);
        }
    };
    // It is unknown which GPUs an attached server uses.
    let used: Vec<&Value> = manifest.gpus.iter().filter(|gpu| manifest.uses_gpu(gpu)).collect();
    let all = || manifest.gpus.iter().collect();
    if !manifest.simulated {
        add("GPU", gpus(if used.is_empty() { all() } else { used }));
    }
    let memory: Vec<Value> = manifest
        .engines
        .iter()
        .filter_map(|engine| engine["memory_total"].as_u64())
        .map(|bytes| Gib::from(bytes).to_string().into())
        .collect();
    add("memory of the GPUs", distinct(memory.iter()));
    add("driver", manifest.driver.clone().unwrap_or_default());
    add("machine", manifest.host.name.clone());
    add("profiler", manifest.profiler.clone());
    add("script", manifest.script.path.clone());
    add("text of the script", manifest.script.sha256.chars().take(12).collect());
    add("seed", manifest.seed.map_or_else(String::new, |seed| seed.to_string()));
    for (name, pointer) in [
        ("runtime", "/runtime"),
        ("image", "/launched/image"),
        ("simulated profile", "/launched/profile"),
    ] {
        let values = manifest.engines.iter().filter_map(|engine| engine.pointer(pointer));
        add(name, distinct(values));
    }
    let addresses = manifest
        .engines
        .iter()
        .filter_map(|engine| Some(json!(AskedServer::from_engine(engine)?.address?)));
    add("address", distinct(addresses.collect::<Vec<_>>().iter()));
    if let Some(Value::Object(parameters)) = &manifest.parameters {
        for (name, value) in parameters {
            add(&format!("parameter {name}"), text(value));
        }
    }
    setup
}

/// GPU names with counts: `2 x NVIDIA H200`.
fn gpus(gpus: Vec<&Value>) -> String {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for name in gpus.into_iter().filter_map(|gpu| gpu["name"].as_str()) {
        *counted.entry(name).or_default() += 1;
    }
    let each = counted.iter().map(|(name, count)| match count {
        1 => (*name).to_owned(),
        count => format!("{count} x {name}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The distinct values of all engines.
fn distinct<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    let mut texts: Vec<String> = values.filter(|value| !value.is_null()).map(text).collect();
    texts.sort_unstable();
    texts.dedup();
    texts.join(", ")
}

fn text(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    match text.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_gpus_of_a_setup_are_those_that_the_engine_was_given() {
        let manifest = |run: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs").join(run);
            RecordedRun::read(&folder).unwrap().manifest
        };
        let gpus_of = |manifest: &Manifest| setup(manifest).get("GPU").cloned();
        let card = "NVIDIA H100 80GB HBM3";
        let mut one = manifest("vllm-one-engine");
        assert_eq!(gpus_of(&one).as_deref(), Some(card), "one of the machine's two");
        assert_eq!(gpus_of(&manifest("vllm-two-engines")), Some(format!("2 x {card}")));
        one.simulated = true;
        assert_eq!(gpus_of(&one), None, "a simulation uses none of them");
    }
}
