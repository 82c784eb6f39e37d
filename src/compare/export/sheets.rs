//! A run's results as CSV tables: points, loads, experiments, breakdowns, and tables that the run wrote.

use serde_json::{Map, Value, json};

use crate::compare::{load_metrics, read_experiment};
use crate::csv;
use crate::fault::Fault;
use crate::load::LoadAnswer;
use crate::memory::{Breakdown, Footprint};
use crate::run::{Folder, RecordedBoundary, RecordedRun};

/// A CSV table of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// `points`, `loads`, `experiments`, `breakdowns`, or `tables/NAME`.
    pub name: String,
    /// CSV with a header.
    pub text: String,
}

/// Settings of a load.
const LOAD_SETTINGS: [&str; 7] = ["concurrency", "rate", "requests", "duration", "input", "output", "seed"];

/// Keys of a probe's answer beyond verdict and cause.
const PROBE_RESULTS: [&str; 6] = ["peak", "ttft_ms", "tpot_ms", "itl_ms", "e2el_ms", "seconds"];

/// The non-empty tables of a run: points, loads, experiments, breakdowns, then those in `tables/`. Adds
/// unreadable ones to `missing`.
pub fn sheets(found: &RecordedRun, folder: &Folder, missing: &mut Vec<String>) -> Vec<Sheet> {
    let own = [
        ("points", points(found)),
        ("loads", loads(found)),
        ("experiments", experiments(found)),
        ("breakdowns", breakdowns(found)),
    ];
    let own = own.into_iter().filter(|(_, (_, rows))| !rows.is_empty());
    let mut sheets: Vec<Sheet> = own
        .map(|(name, (columns, rows))| Sheet {
            name: name.to_owned(),
            text: csv::write(&columns, &rows),
        })
        .collect();
    sheets.append(&mut stored_tables(folder, missing));
    sheets
}

/// Column names in order, and rows.
type Rows = (Vec<String>, Vec<Map<String, Value>>);

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// One row per point, in order of recording: coordinates, verdict, cause, effect on the boundary, evidence,
/// measurements, time.
fn points(found: &RecordedRun) -> Rows {
    let several = found.boundaries.len() > 1;
    let mut columns = if several { strings(&["boundary"]) } else { Vec::new() };
    for (point, _) in found.boundaries.iter().flat_map(|boundary| &boundary.points) {
        for axis in point
            .0
            .keys()
            .filter(|axis| !columns.contains(axis))
            .collect::<Vec<_>>()
        {
            columns.push(axis.clone());
        }
    }
    columns.extend(strings(&["verdict", "cause", "moves", "evidence"]));
    columns.extend(strings(&PROBE_RESULTS));
    columns.push("time".to_owned());
    let rows = found.boundaries.iter().enumerate().flat_map(|(index, boundary)| {
        let moves = moves(boundary);
        let rows = boundary
            .points
            .iter()
            .enumerate()
            .map(move |(number, (point, answer))| {
                let mut row = Map::new();
                if several {
                    row.insert("boundary".to_owned(), (index + 1).into());
                }
                row.extend(point.0.iter().map(|(axis, value)| (axis.clone(), json!(value))));
                // A script may answer with the bare verdict.
                let verdict = if answer.is_string() { answer } else { &answer["verdict"] };
                row.insert("verdict".to_owned(), verdict.clone());
                row.insert("cause".to_owned(), answer["cause"].clone());
                row.insert("moves".to_owned(), moves.get(number).cloned().unwrap_or_default());
                row.insert("evidence".to_owned(), evidence(answer));
                row.extend(PROBE_RESULTS.map(|key| (key.to_owned(), answer[key].clone())));
                row.insert("time".to_owned(), json!(boundary.times.get(number)));
                row
            });
        rows.collect::<Vec<_>>()
    });
    (columns, rows.collect())
}

/// What each point proves about the boundary; empty if its axes are lost.
fn moves(boundary: &RecordedBoundary) -> Vec<Value> {
    let rebuilt = boundary.rebuild().ok();
    let records = rebuilt.iter().flat_map(|rebuilt| {
        rebuilt
            .records()
            .map(|(_, record)| json!(record.moves))
            .collect::<Vec<_>>()
    });
    records.collect()
}

/// The first line of the evidence.
fn evidence(answer: &Value) -> Value {
    let evidence = &answer["evidence"];
    let lines = [evidence, &evidence["message"], &evidence["log"][0]];
    let first = lines
        .iter()
        .find_map(|value| value.as_str())
        .and_then(|text| text.lines().next());
    first.map_or(Value::Null, |line| line.trim().into())
}

/// One row per load: its settings, and all metrics, measured or not, under the names of vLLM's bench.
fn loads(found: &RecordedRun) -> Rows {
    let measured = load_metrics::columns();
    let mut columns = strings(&["load", "engine"]);
    columns.extend(strings(&LOAD_SETTINGS));
    // A setting and its measured counterpart need different names.
    let column = |name: &String| match LOAD_SETTINGS.contains(&name.as_str()) {
        true => format!("measured_{name}"),
        false => name.clone(),
    };
    columns.extend(measured.iter().map(column));
    let mut rows = Vec::new();
    for (number, (args, answer)) in found.loads.iter().enumerate() {
        let mut row = Map::new();
        row.insert("load".to_owned(), (number + 1).into());
        row.insert("engine".to_owned(), args["engine"].clone());
        row.extend(LOAD_SETTINGS.map(|key| (key.to_owned(), args["load"][key].clone())));
        // Without counts the answer is damaged: zeros in their place must not look measured.
        if answer["issued"].is_u64() && answer["duration"].is_number() {
            let cells = load_metrics::row(&LoadAnswer::read(answer));
            row.extend(cells.into_iter().map(|(name, value)| (column(&name), value)));
        }
        rows.push(row);
    }
    (columns, rows)
}

/// One row per setting and metric; the later settings are compared with the first.
fn experiments(found: &RecordedRun) -> Rows {
    let columns = [
        "experiment",
        "figure",
        "unit",
        "setting",
        "starts",
        "mean",
        "difference",
        "percent",
        "low",
        "high",
        "verdict",
    ];
    let mut rows = Vec::new();
    for (name, value) in &found.experiments {
        let Ok(experiment) = read_experiment(value) else {
            continue;
        };
        for comparison in &experiment.comparisons {
            for (index, setting) in experiment.measured.settings.iter().enumerate() {
                let contrast = comparison.contrasts.iter().find(|contrast| contrast.setting == index);
                let interval = contrast.and_then(|contrast| contrast.interval);
                let cells = [
                    json!(name),
                    json!(comparison.name),
                    json!(comparison.unit),
                    json!(setting.name),
                    json!(comparison.values.get(index).map_or(0, Vec::len)),
                    json!(comparison.means.get(index)),
                    json!(contrast.and_then(|contrast| contrast.difference)),
                    json!(contrast.and_then(|contrast| contrast.percent)),
                    json!(interval.map(|[low, _]| low)),
                    json!(interval.map(|[_, high]| high)),
                    json!(contrast.map(|contrast| contrast.verdict.words())),
                ];
                rows.push(columns.map(str::to_owned).into_iter().zip(cells).collect());
            }
        }
    }
    (strings(&columns), rows)
}

/// One row per component of each device, and of all devices together.
fn breakdowns(found: &RecordedRun) -> Rows {
    let columns = [
        "breakdown",
        "device",
        "component",
        "within",
        "bytes",
        "provenance",
        "source",
    ];
    let mut rows = Vec::new();
    for (name, value) in &found.breakdowns {
        let Ok(footprint) = serde_json::from_value::<Footprint>(value.clone()) else {
            continue;
        };
        let mut add = |device: &str, breakdown: &Breakdown| {
            let mut row = |cells: [Value; 5]| {
                let cells = [json!(name), json!(device)].into_iter().chain(cells);
                rows.push(columns.map(str::to_owned).into_iter().zip(cells).collect());
            };
            for part in &breakdown.parts {
                row([
                    json!(part.component),
                    json!(part.within),
                    json!(part.bytes),
                    json!(part.provenance),
                    json!(part.source),
                ]);
            }
            row([
                json!("physical"),
                Value::Null,
                json!(breakdown.total),
                json!("measured"),
                Value::Null,
            ]);
        };
        add("all", &footprint.all);
        for device in &footprint.per_gpu {
            add(device.device.as_deref().unwrap_or("not named"), device);
        }
    }
    (strings(&columns), rows)
}

/// The CSV tables in the run's folder.
fn stored_tables(folder: &Folder, missing: &mut Vec<String>) -> Vec<Sheet> {
    let mut record_missing = |fault: Fault| missing.push(fault.message);
    let files = folder.names("tables").map_err(&mut record_missing).unwrap_or_default();
    let sheets = files.iter().filter_map(|file| {
        let name = file.strip_suffix(".csv")?;
        let bytes = folder
            .read(format!("tables/{file}"))
            .map_err(&mut record_missing)
            .ok()??;
        Some(Sheet {
            name: format!("tables/{name}"),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    });
    sheets.collect()
}
