//! The folder of a `vllm bench sweep`, for its `plot`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::csv;
use crate::fault::{Fault, Result};
use crate::run::{Folder, RecordedRun};

/// The files below the folder of a sweep: for each engine and setting of a load `SERVE--…-BENCH--…/run=N.json`, a run for
/// each repeat, and `summary.json`, a list of them; and `summary.csv` with all runs. They are the run's own files of
/// `loads/`, which have vLLM's keys, without the lists of single requests; what was varied is added, as vLLM does.
///
/// # Errors
///
/// `usage` if the run has no loads, or was made by a version that kept no such files.
pub fn vllm_sweep(found: &RecordedRun, folder: &Folder) -> Result<Vec<(PathBuf, String)>> {
    let mut settings: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let loads = || found.loads.iter().chain(&found.experiment_loads);
    let launches = differing(loads().map(|(args, _)| &args["launch"]));
    for (args, answer) in loads() {
        let varied = varied(args, &launches);
        let words = |part: &str| {
            let of_part = varied.iter().filter(|setting| setting.serves == (part == "SERVE"));
            let words: Vec<String> = of_part
                .map(|setting| format!("{}={}", setting.name, setting.word))
                .collect();
            format!("{part}--{}", words.join("-"))
        };
        let name = format!("{}-{}", words("SERVE"), words("BENCH"));
        let repeats = answer.repeats.as_ref().map_or(1, |repeats| repeats.each.len());
        let runs = settings.entry(name).or_default();
        for repeat in 1..=repeats {
            let file = match repeat {
                1 => format!("loads/{}.json", answer.number),
                _ => format!("loads/{}-repeat-{repeat}.json", answer.number),
            };
            let Some(bytes) = folder.read(&file)? else { continue };
            let damaged = |error| Fault::usage(format!("`{file}` of this run cannot be read: {error}"));
            let read: BTreeMap<String, Figure> = serde_json::from_slice(&bytes).map_err(damaged)?;
            let figures = read.into_iter().filter_map(|(name, figure)| Some((name, figure.0?)));
            let mut run: Map<String, Value> = figures.collect();
            run.insert("run_number".to_owned(), runs.len().into());
            run.extend(
                varied
                    .iter()
                    .map(|setting| (setting.name.clone(), setting.value.clone())),
            );
            runs.push(Value::Object(run));
        }
    }
    settings.retain(|_, runs| !runs.is_empty());
    if settings.is_empty() {
        return Err(Fault::usage("this run has no files of loads in vLLM's layout")
            .hint("give the folder of a run of `throughput`, `slo`, `batch` or `compare_engines`; packed runs may be without them"));
    }
    let all: Vec<&Value> = settings.values().flatten().collect();
    let mut files = vec![(PathBuf::from("summary.csv"), summary(&all))];
    for (name, runs) in &settings {
        let folder = PathBuf::from(name);
        for (index, run) in runs.iter().enumerate() {
            files.push((folder.join(format!("run={index}.json")), format!("{run:#}")));
        }
        files.push((folder.join("summary.json"), format!("{:#}", Value::Array(runs.clone()))));
    }
    Ok(files)
}

/// A value that is no list or object: those of single requests may be long, and are not kept.
struct Figure(Option<Value>);

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(FigureVisitor)
    }
}

struct FigureVisitor;

impl<'de> Visitor<'de> for FigureVisitor {
    type Value = Figure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<Figure, E> {
        Ok(Figure(Some(Value::Null)))
    }

    fn visit_bool<E: Error>(self, value: bool) -> std::result::Result<Figure, E> {
        Ok(Figure(Some(value.into())))
    }

    fn visit_i64<E: Error>(self, value: i64) -> std::result::Result<Figure, E> {
        Ok(Figure(Some(value.into())))
    }

    fn visit_u64<E: Error>(self, value: u64) -> std::result::Result<Figure, E> {
        Ok(Figure(Some(value.into())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> std::result::Result<Figure, E> {
        Ok(Figure(Some(value.into())))
    }

    fn visit_str<E: Error>(self, value: &str) -> std::result::Result<Figure, E> {
        Ok(Figure(Some(value.into())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Figure, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Figure(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Figure, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Figure(None))
    }
}

/// Longest value in the name of a folder, in bytes.
const MAX_WORD: usize = 40;

/// Options of a launch that are always named, with vLLM's names.
const OF_LAUNCH: [(&str, &str); 2] = [("tensor_parallel_size", "tensor_parallel"), ("dtype", "dtype")];

/// Settings of a load, with vLLM's names.
const OF_LOAD: [(&str, &str); 4] = [
    ("max_concurrency", "concurrency"),
    ("request_rate", "rate"),
    ("random_input_len", "input"),
    ("random_output_len", "output"),
];

/// A setting that distinguishes a load.
struct Setting {
    /// Whether it belongs to the engine's start.
    serves: bool,
    name: String,
    value: Value,
    /// The value as a part of a name.
    word: String,
}

/// The options that differ between launches, each with its values in order of appearance.
fn differing<'a>(launches: impl Iterator<Item = &'a Value> + Clone) -> BTreeMap<&'a str, Vec<&'a Value>> {
    let keys: BTreeSet<&str> = launches
        .clone()
        .filter_map(Value::as_object)
        .flat_map(|launch| launch.keys().map(String::as_str))
        .collect();
    let with_values = keys.into_iter().map(|key| {
        let mut values: Vec<&Value> = Vec::new();
        for launch in launches.clone() {
            if !values.contains(&&launch[key]) {
                values.push(&launch[key]);
            }
        }
        (key, values)
    });
    with_values.filter(|(_, values)| values.len() > 1).collect()
}

/// The settings that distinguish a load.
fn varied(args: &Value, launches: &BTreeMap<&str, Vec<&Value>>) -> Vec<Setting> {
    let scalar = |serves: bool, name: &str, value: &Value| {
        (value.is_number() || value.is_string()).then(|| Setting {
            serves,
            name: name.to_owned(),
            value: value.clone(),
            word: plain(value),
        })
    };
    let (launch, load) = (&args["launch"], &args["load"]);
    let engine = scalar(true, "engine", &args["engine"]).into_iter();
    let named = OF_LAUNCH
        .iter()
        .filter_map(|(name, key)| scalar(true, name, &launch[*key]));
    let is_named = |key: &str| key == "engine" || OF_LAUNCH.iter().any(|(_, known)| *known == key);
    let others = launches.iter().filter(|(key, _)| !is_named(key));
    let others = others.map(|(key, values)| {
        let value = &launch[*key];
        let word = plain(value);
        // A long list of arguments is named by its position.
        let position = || values.iter().position(|other| *other == value).unwrap_or_default() + 1;
        Setting {
            serves: true,
            name: (*key).to_owned(),
            value: if value.is_array() || value.is_object() {
                value.to_string().into()
            } else {
                value.clone()
            },
            word: if word.len() > MAX_WORD {
                position().to_string()
            } else {
                word
            },
        }
    });
    let of_load = OF_LOAD
        .iter()
        .filter_map(|(name, key)| scalar(false, name, &load[*key]));
    engine.chain(named).chain(others).chain(of_load).collect()
}

/// A value as part of a name.
fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.replace(
        |letter: char| !letter.is_ascii_alphanumeric() && !"._".contains(letter),
        "_",
    )
}

/// All runs as a table, with an index as its first column, as pandas writes it.
fn summary(runs: &[&Value]) -> String {
    let numbered = runs.iter().enumerate().filter_map(|(index, run)| {
        let mut row = run.as_object()?.clone();
        row.insert(String::new(), index.into());
        Some(row)
    });
    csv::write(&[String::new()], &numbered.collect::<Vec<_>>())
}
