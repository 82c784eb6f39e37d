//! CSV tables of a run: points, loads, experiments, breakdowns, the frontier of its loads, and the tables that the run
//! wrote.

use serde_json::{Map, Value, json};

use crate::compare::{self, load_metrics};
use crate::csv;
use crate::fault::Fault;
use crate::run::{AskedServer, Evidence, Folder, PointAnswer, RecordedBoundary, RecordedRun, hide};

/// A CSV table of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// `points`, `loads`, `experiments`, `breakdowns`, `frontier`, or `tables/NAME`.
    pub name: String,
    /// CSV with a header.
    pub text: String,
}

/// Settings of a load.
const LOAD_SETTINGS: [&str; 7] = ["concurrency", "rate", "requests", "duration", "input", "output", "seed"];

/// The non-empty tables of a run: points, loads, experiments, breakdowns, frontier, then those in `tables/`. Adds
/// unreadable ones to `missing`.
pub fn sheets(found: &RecordedRun, folder: &Folder, missing: &mut Vec<String>) -> Vec<Sheet> {
    let own = [
        ("points", points(found)),
        ("loads", loads(found)),
        ("experiments", experiments(found)),
        ("breakdowns", breakdowns(found)),
        ("frontier", frontier(found)),
    ]
    .into_iter()
    .filter(|(_, table)| !table.rows.is_empty())
    .map(|(name, table)| Sheet {
        name: name.to_owned(),
        text: csv::write(&table.columns, &table.rows),
    });
    own.chain(stored_tables(folder, missing)).collect()
}

/// A table whose rows have the same columns.
#[derive(Default)]
struct Table {
    columns: Vec<String>,
    rows: Vec<Map<String, Value>>,
}

impl Table {
    fn row(&mut self, cells: impl IntoIterator<Item = (impl Into<String>, Value)>) {
        let cells: Vec<(String, Value)> = cells.into_iter().map(|(name, value)| (name.into(), value)).collect();
        self.columns = cells.iter().map(|(name, _)| name.clone()).collect();
        self.rows.push(cells.into_iter().collect());
    }
}

/// One row per point, in order of recording: coordinates, verdict, cause, effect on the boundary, evidence,
/// measurements, time.
fn points(found: &RecordedRun) -> Table {
    let several = found.boundaries.len() > 1;
    let points = || found.boundaries.iter().flat_map(|boundary| &boundary.points);
    let mut axes: Vec<&String> = Vec::new();
    for axis in points().flat_map(|(point, _)| point.0.keys()) {
        if !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    let mut table = Table::default();
    let asked = server_columns(&found.totals.asked);
    for (index, boundary) in found.boundaries.iter().enumerate() {
        let moves = moves(boundary);
        for (number, (point, answer)) in boundary.points.iter().enumerate() {
            // Points that cannot be read were left out.
            let Ok(answer) = PointAnswer::read(&answer.value()) else {
                continue;
            };
            let boundary_number = several.then(|| ("boundary", json!(index + 1)));
            let coordinates = axes.iter().map(|axis| (axis.as_str(), json!(point.0.get(*axis))));
            let judged = [
                ("verdict", json!(answer.judged.verdict)),
                ("cause", json!(answer.judged.cause)),
                ("moves", moves.get(number).cloned().unwrap_or_default()),
                ("evidence", json!(first_line(&answer.evidence))),
            ];
            let measured = [
                ("peak", json!(answer.peak)),
                ("ttft_ms", json!(answer.ttft_ms)),
                ("tpot_ms", json!(answer.tpot_ms)),
                ("itl_ms", json!(answer.itl_ms)),
                ("e2el_ms", json!(answer.e2el_ms)),
                ("seconds", json!(answer.seconds)),
            ];
            let cells = boundary_number
                .into_iter()
                .chain(coordinates)
                .chain(judged)
                .chain(measured)
                .chain(asked.clone());
            table.row(cells.chain([("time", json!(boundary.times.get(number)))]));
        }
    }
    table
}

/// The servers that were probed. With several engines, each property lists the values of all.
fn server_columns(all: &[AskedServer]) -> [(&'static str, Value); 4] {
    let together = |property: &dyn Fn(&AskedServer) -> Option<String>| {
        let mut values: Vec<String> = all.iter().filter_map(property).collect();
        values.dedup();
        json!((!values.is_empty()).then(|| hide(&values.join("; ")).into_owned()))
    };
    [
        ("engine", together(&|asked| Some(asked.engine.clone()))),
        ("version", together(&|asked| asked.version.clone())),
        ("model", together(&|asked| asked.model.clone())),
        ("address", together(&|asked| asked.address.clone())),
    ]
}

/// The effect of each point on the boundary; empty if its axes are lost.
fn moves(boundary: &RecordedBoundary) -> Vec<Value> {
    let rebuilt = boundary.rebuild().ok();
    let records = rebuilt.iter().flat_map(|rebuilt| rebuilt.records());
    records.map(|(_, record)| json!(record.moves)).collect()
}

/// The first line of the evidence.
fn first_line(evidence: &Evidence) -> Option<&str> {
    let texts = evidence.message.iter().chain(evidence.log.first());
    texts.filter_map(|text| text.lines().next()).map(str::trim).next()
}

/// One row per load: its settings, and all metrics, measured or not, under the names of vLLM's bench.
fn loads(found: &RecordedRun) -> Table {
    let metrics = load_metrics::columns();
    // A setting and its measured counterpart need different names.
    let column = |name: &String| {
        if LOAD_SETTINGS.contains(&name.as_str()) {
            format!("measured_{name}")
        } else {
            name.clone()
        }
    };
    let mut table = Table::default();
    let trials = compare::trial_loads(found);
    for (number, (args, answer)) in found.loads.iter().chain(trials).enumerate() {
        let trial = (!trials.is_empty()).then(|| ("setting", args["trial"]["setting"].clone()));
        let settings = LOAD_SETTINGS.map(|key| (key.to_owned(), args["load"][key].clone()));
        let engines = found
            .manifest
            .engines
            .iter()
            .filter(|engine| engine["options"] == args["launch"] && engine["info"]["engine"] == args["engine"]);
        let [_, asked @ ..] = server_columns(&engines.filter_map(AskedServer::from_engine).collect::<Vec<_>>());
        let cells = load_metrics::row(answer);
        let measured = metrics
            .iter()
            .map(|name| (column(name), cells.get(name).cloned().unwrap_or_default()));
        let load = [("load", json!(number + 1)), ("engine", args["engine"].clone())]
            .into_iter()
            .chain(asked)
            .chain(trial)
            .map(|(name, value)| (name.to_owned(), value));
        table.row(load.chain(settings).chain(measured));
    }
    table
}

/// One row per setting and metric; the later settings are compared with the first.
fn experiments(found: &RecordedRun) -> Table {
    let mut table = Table::default();
    for (name, experiment) in compare::experiments(found) {
        for comparison in &experiment.comparisons {
            for (index, setting) in experiment.measured.settings.iter().enumerate() {
                let contrast = comparison.contrasts.iter().find(|contrast| contrast.setting == index);
                let interval = contrast.and_then(|contrast| contrast.interval);
                table.row([
                    ("experiment", json!(name)),
                    ("figure", json!(comparison.name)),
                    ("unit", json!(comparison.unit)),
                    ("setting", json!(setting.name)),
                    ("starts", json!(comparison.values.get(index).map_or(0, Vec::len))),
                    ("mean", json!(comparison.means.get(index))),
                    ("difference", json!(contrast.and_then(|contrast| contrast.difference))),
                    ("percent", json!(contrast.and_then(|contrast| contrast.percent))),
                    ("low", json!(interval.map(|[low, _]| low))),
                    ("high", json!(interval.map(|[_, high]| high))),
                    ("verdict", json!(contrast.map(|contrast| contrast.verdict.name()))),
                ]);
            }
        }
    }
    table
}

/// One row per component of each device, and of all devices together.
fn breakdowns(found: &RecordedRun) -> Table {
    let mut table = Table::default();
    for (name, footprint) in found.footprints() {
        let devices = footprint
            .per_gpu
            .iter()
            .map(|one| (one.device.as_deref().unwrap_or("not named"), one));
        for (device, breakdown) in std::iter::once(("all", &footprint.all)).chain(devices) {
            let total = json!({ "component": "physical", "bytes": breakdown.total, "provenance": "measured" });
            for part in breakdown.parts.iter().map(|part| json!(part)).chain([total]) {
                let on = [("breakdown", json!(name)), ("device", json!(device))];
                let keys = ["component", "within", "bytes", "provenance", "source"];
                let cells = keys.map(|key| (key, part[key].clone()));
                table.row(on.into_iter().chain(cells));
            }
        }
    }
    table
}

/// One row per setting and load: tokens/s of a user and of a GPU, and whether another one dominates it.
fn frontier(found: &RecordedRun) -> Table {
    let points = compare::serving_points(found);
    let dominated = compare::dominated(&points.iter().collect::<Vec<_>>());
    let mut table = Table::default();
    for (point, dominated) in points.iter().zip(dominated) {
        table.row([
            ("engine", json!(point.engine)),
            ("settings", json!(point.settings)),
            ("workload", json!(point.workload)),
            ("level", json!(point.level)),
            ("gpus", json!(point.gpus)),
            ("tokens_per_user", json!(point.per_user)),
            ("tokens_per_gpu", json!(point.per_gpu)),
            ("cost_output", json!(point.cost)),
            ("origin", json!(point.origin)),
            ("role", json!(point.role)),
            ("dominated", json!(dominated)),
            ("command", json!(point.command)),
        ]);
    }
    table
}

/// The CSV tables in the run's folder. Adds unreadable ones to `missing`.
pub fn stored_tables(folder: &Folder, missing: &mut Vec<String>) -> Vec<Sheet> {
    let mut record_missing = |fault: Fault| missing.push(fault.message);
    let files = folder.names("tables").map_err(&mut record_missing).unwrap_or_default();
    let sheets = files.iter().filter_map(|file| {
        let name = file.strip_suffix(".csv")?;
        let read = folder.read(format!("tables/{file}"));
        let bytes = read.map_err(&mut record_missing).ok()??;
        Some(Sheet {
            name: format!("tables/{name}"),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    });
    sheets.collect()
}
