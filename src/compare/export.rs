//! Writes results in formats that other programs read: a run's results as CSV tables (points, loads, experiments,
//! breakdowns, and tables that the run wrote), its figures for monitoring and tracking, and the files of other tools, the
//! counterpart of `import`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::boundary::{Boundary, Moves, Scalar};
use crate::compare::{self, ComparisonInput, LoadMetric, Unit, load_metrics};
use crate::csv;
use crate::fault::{Fault, Result};
use crate::load::stats::{EvaluatedRequest, LoadStats, Settings};
use crate::load::{LoadAnswer, Record};
use crate::run::{AskedServer, Folder, PointAnswer, RecordedBoundary, RecordedRun, hide};

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

/// The non-empty tables of a run: points, loads, experiments, breakdowns, then those in `tables/`. Adds
/// unreadable ones to `missing`.
pub fn sheets(found: &RecordedRun, folder: &Folder, missing: &mut Vec<String>) -> Vec<Sheet> {
    let own = [
        ("points", points(found)),
        ("loads", loads(found)),
        ("experiments", experiments(found)),
        ("breakdowns", breakdowns(found)),
    ];
    let own = own.into_iter().filter(|(_, table)| !table.rows.is_empty());
    let own = own.map(|(name, table)| Sheet {
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
        let cells = cells.into_iter().map(|(name, value)| (name.into(), value));
        let cells: Vec<(String, Value)> = cells.collect();
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
                ("evidence", evidence(answer.judged.evidence.as_ref())),
            ];
            let measured = [
                ("peak", json!(answer.peak)),
                ("ttft_ms", json!(answer.ttft_ms)),
                ("tpot_ms", json!(answer.tpot_ms)),
                ("itl_ms", json!(answer.itl_ms)),
                ("e2el_ms", json!(answer.e2el_ms)),
                ("seconds", json!(answer.seconds)),
            ];
            let cells = boundary_number.into_iter().chain(coordinates);
            let cells = cells.chain(judged).chain(measured).chain(asked.clone());
            table.row(cells.chain([("time", json!(boundary.times.get(number)))]));
        }
    }
    table
}

/// Who was asked. Of several engines, each property has the values of all.
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

/// What each point proves about the boundary; empty if its axes are lost.
fn moves(boundary: &RecordedBoundary) -> Vec<Value> {
    let rebuilt = boundary.rebuild().ok();
    let records = rebuilt.iter().flat_map(|rebuilt| rebuilt.records());
    records.map(|(_, record)| json!(record.moves)).collect()
}

/// The first line of the evidence.
fn evidence(evidence: Option<&Value>) -> Value {
    let evidence = evidence.unwrap_or(&Value::Null);
    let texts = [evidence, &evidence["message"], &evidence["log"][0]];
    let first = texts.iter().find_map(|value| value.as_str()?.lines().next());
    first.map_or(Value::Null, |line| line.trim().into())
}

/// One row per load: its settings, and all metrics, measured or not, under the names of vLLM's bench.
fn loads(found: &RecordedRun) -> Table {
    let measured = load_metrics::columns();
    // A setting and its measured counterpart need different names.
    let column = |name: &String| match LOAD_SETTINGS.contains(&name.as_str()) {
        true => format!("measured_{name}"),
        false => name.clone(),
    };
    let mut table = Table::default();
    for (number, (args, answer)) in found.loads.iter().enumerate() {
        let settings = LOAD_SETTINGS.map(|key| (key.to_owned(), args["load"][key].clone()));
        let engines = found.manifest.engines.iter();
        let engines =
            engines.filter(|engine| engine["options"] == args["launch"] && engine["info"]["engine"] == args["engine"]);
        let [_, asked @ ..] = server_columns(&engines.filter_map(AskedServer::from_engine).collect::<Vec<_>>());
        let load = [("load", json!(number + 1)), ("engine", args["engine"].clone())];
        let cells = load_metrics::row(answer);
        let measured = measured.iter();
        let measured = measured.map(|name| (column(name), cells.get(name).cloned().unwrap_or_default()));
        let load = load.into_iter().chain(asked);
        let load = load.map(|(name, value)| (name.to_owned(), value));
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
        let devices = footprint.per_gpu.iter();
        let devices = devices.map(|one| (one.device.as_deref().unwrap_or("not named"), one));
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

/// One figure of a run.
struct Figure {
    name: String,
    unit: Unit,
    value: f64,
    /// What sets it apart from others of this name: the case, the component, the axis.
    labels: BTreeMap<&'static str, String>,
}

/// What holds of the whole run.
fn subject(found: &RecordedRun) -> BTreeMap<&'static str, String> {
    let input = ComparisonInput::from_run(found, "");
    let manifest = &found.manifest;
    let all = [
        ("run", Some(manifest.run.clone())),
        ("script", Some(manifest.script.name.clone())),
        ("model", input.model),
        ("engine", input.engine),
        ("simulated", Some(manifest.simulated.to_string())),
    ];
    let some = all.into_iter();
    let some = some.filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
    some.map(|(name, value)| (name, hide(&value).into_owned())).collect()
}

/// Every figure that `compare` knows of the run, the memory by component, and the largest points that fit.
fn figures(found: &RecordedRun) -> Vec<Figure> {
    let input = ComparisonInput::from_run(found, "");
    let mut figures = Vec::new();
    for case in &input.cases {
        let labels = |more: Option<(&'static str, String)>| {
            let named = (!case.name.is_empty()).then(|| ("case", hide(&case.name).into_owned()));
            named.into_iter().chain(more).collect()
        };
        figures.extend(case.figures.iter().map(|metric| Figure {
            name: metric.name.clone(),
            unit: metric.unit,
            value: metric.value,
            labels: labels(None),
        }));
        let parts = case.breakdown.iter().flat_map(|breakdown| &breakdown.parts);
        figures.extend(parts.map(|part| Figure {
            name: "memory".to_owned(),
            unit: Unit::Bytes,
            value: part.bytes as f64,
            labels: labels(Some(("component", part.component.name().to_owned()))),
        }));
    }
    // What was probed or follows from it: nothing that is only predicted.
    let frontier = input.boundary;
    let frontier = frontier.and_then(|boundary| boundary.rebuild().ok()?.frontier().ok());
    for (number, point) in (1..).zip(frontier.iter().flatten()) {
        figures.extend(point.0.iter().map(|(axis, value)| Figure {
            name: "largest_that_fits".to_owned(),
            unit: Unit::Count,
            value: value.as_f64(),
            labels: BTreeMap::from([("axis", axis.clone()), ("point", number.to_string())]),
        }));
    }
    figures
}

/// The end of a Prometheus name, and the unit as OpenTelemetry writes it (UCUM).
fn unit(unit: Unit) -> (&'static str, &'static str) {
    match unit {
        Unit::Bytes => ("_bytes", "By"),
        Unit::Tokens => ("_tokens", "{token}"),
        Unit::TokensPerSecond => ("_tokens_per_second", "{token}/s"),
        Unit::RequestsPerSecond => ("_requests_per_second", "{request}/s"),
        Unit::Seconds => ("_seconds", "s"),
        Unit::Milliseconds => ("_ms", "ms"),
        Unit::Percent => ("_percent", "%"),
        Unit::Watts => ("_watts", "W"),
        Unit::Celsius => ("_celsius", "Cel"),
        Unit::Count => ("", "1"),
    }
}

/// `profiler_mean_ttft_ms`: letters, digits and `_`, with its unit at the end.
fn prometheus_name(figure: &Figure) -> String {
    let name = figure.name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    let (end, _) = unit(figure.unit);
    format!("profiler_{}{end}", name.strip_suffix(end).unwrap_or(&name))
}

/// The text format of Prometheus, version 0.0.4, as the text-file collector of its node exporter reads it.
pub fn prometheus(found: &RecordedRun) -> String {
    let subject = subject(found);
    let mut families: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
    for figure in figures(found) {
        families.entry(prometheus_name(&figure)).or_default().push(figure);
    }
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut text = String::new();
    for (name, figures) in families {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {name} gauge");
        for figure in figures {
            let labels = subject.iter().chain(&figure.labels);
            let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
            let labels: Vec<String> = labels.collect();
            let _ = writeln!(text, "{name}{{{}}} {}", labels.join(","), figure.value);
        }
    }
    text
}

/// A document of OTLP's JSON encoding, as a collector takes it at `/v1/metrics`: gauges at the time of the run's end.
pub fn opentelemetry(found: &RecordedRun) -> Value {
    let attribute = |(name, value): (&&str, &String)| json!({ "key": name, "value": { "stringValue": value } });
    let mut metrics: BTreeMap<(String, &str), Vec<Value>> = BTreeMap::new();
    let nanoseconds = i128::from(milliseconds(found.manifest.ended.as_ref())) * 1_000_000;
    for figure in figures(found) {
        let name = format!("profiler.{}", figure.name);
        metrics.entry((name, unit(figure.unit).1)).or_default().push(json!({
            "timeUnixNano": nanoseconds.to_string(),
            "asDouble": figure.value,
            "attributes": figure.labels.iter().map(attribute).collect::<Vec<_>>(),
        }));
    }
    let metrics = metrics.into_iter();
    let metrics =
        metrics.map(|((name, unit), points)| json!({ "name": name, "unit": unit, "gauge": { "dataPoints": points } }));
    let subject = subject(found);
    let mut resource = vec![json!({ "key": "service.name", "value": { "stringValue": "profiler" } })];
    let subject = subject.iter();
    resource.extend(subject.map(|(name, value)| attribute((&&*format!("profiler.{name}"), value))));
    json!({ "resourceMetrics": [{
        "resource": { "attributes": resource },
        "scopeMetrics": [{
            "scope": { "name": "profiler", "version": found.manifest.profiler },
            "metrics": metrics.collect::<Vec<_>>(),
        }],
    }] })
}

/// The files of MLflow's file store, by their paths below its folder (`mlruns`): an experiment for the script, and the run in it.
pub fn mlflow(found: &RecordedRun) -> Vec<(PathBuf, String)> {
    let manifest = &found.manifest;
    let digest = Sha256::digest(manifest.script.name.as_bytes());
    let experiment: String = digest.iter().take(9).map(|byte| format!("{:02}", byte % 100)).collect();
    let digest = Sha256::digest(manifest.run.as_bytes());
    let run: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let [started, ended] = [Some(&manifest.started), manifest.ended.as_ref()].map(milliseconds);
    let folder = PathBuf::from(&experiment).join(&run);
    // JSON is YAML.
    let of_experiment = json!({
        "artifact_location": "", "creation_time": started, "experiment_id": experiment, "last_update_time": ended,
        "lifecycle_stage": "active", "name": format!("profiler {}", manifest.script.name),
    });
    let of_run = json!({
        "artifact_uri": "", "end_time": ended, "entry_point_name": "", "experiment_id": experiment, "lifecycle_stage": "active",
        "run_id": run, "run_name": manifest.run, "run_uuid": run, "source_name": "", "source_type": 4, "source_version": "",
        "start_time": started, "status": if manifest.done() { 3 } else { 4 }, "tags": [], "user_id": "profiler",
    });
    let mut files = vec![
        (PathBuf::from(&experiment).join("meta.yaml"), of_experiment.to_string()),
        (folder.join("meta.yaml"), of_run.to_string()),
        (folder.join("tags/mlflow.runName"), manifest.run.clone()),
    ];
    let tags = subject(found).into_iter();
    files.extend(tags.map(|(name, value)| (folder.join("tags").join(format!("profiler.{name}")), value)));
    let parameters = manifest.parameters.as_ref().and_then(Value::as_object);
    for (name, value) in parameters.into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        files.push((folder.join("params").join(mlflow_name(name)), hide(&text).into_owned()));
    }
    let mut seen = BTreeMap::new();
    for figure in figures(found) {
        let labels = figure.labels.values().map(|value| mlflow_name(value));
        let name: Vec<String> = std::iter::once(mlflow_name(&figure.name)).chain(labels).collect();
        seen.insert(name.join("."), figure.value);
    }
    let seen = seen.into_iter();
    files.extend(seen.map(|(name, value)| (folder.join("metrics").join(name), format!("{ended} {value} 0\n"))));
    files
}

/// Letters, digits, `_`, `-` and blanks, of which MLflow makes names.
fn mlflow_name(text: &str) -> String {
    text.replace(
        |letter: char| !letter.is_ascii_alphanumeric() && !"_- ".contains(letter),
        "_",
    )
}

/// Milliseconds since 1970 of a time as text; 0 where it is not known.
fn milliseconds(time: Option<&String>) -> i64 {
    let parsed = time.and_then(|time| time.parse::<jiff::Timestamp>().ok());
    parsed.map_or(0, jiff::Timestamp::as_millisecond)
}

/// tgi-profiler's `profile_res_*.json` as its version 1.0.0 does: `config` with twenty keys, `results[]`
/// with seven.
///
/// Verdicts go into the failure fields: the verdict is the `error_type`, its cause the `error_msg`, and the log
/// lines of the evidence are the `container_logs`, which tgi-profiler always left empty.
///
/// Its members are the parts of `config` that a boundary does not hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TgiProfiler {
    /// The model's id.
    model: String,
    /// GPU ids; `[0]` if none are given.
    gpus: Vec<Value>,
    /// Search options under that tool's names; unknown ones are ignored.
    search: Map<String, Value>,
    /// Output tokens that may be missing from a success.
    output_tolerance: u64,
}

impl TgiProfiler {
    /// The document. All results have the same time, that of writing.
    ///
    /// # Errors
    ///
    /// `usage` for a boundary over anything but integer `input` and `output`.
    pub fn document(&self, boundary: &Boundary) -> Result<Value> {
        let lattice = boundary.lattice();
        if lattice.axis_names() != ["input", "output"] {
            return Err(Fault::usage(format!(
                "tgi-profiler knows the axes `input` and `output`, not `{}`",
                lattice.axis_names().join("`, `")
            ))
            .hint("search over these two, with one request at a time"));
        }
        let (input, output) = (lattice.axes()[0].range(), lattice.axes()[1].range());
        let length = |scalar: Scalar| match scalar {
            Scalar::Int(length) => Ok(length),
            Scalar::Float(other) => Err(Fault::usage(format!("tgi-profiler knows whole lengths, not `{other}`"))),
        };
        let time = zoneless();
        let results = boundary.records().map(|(point, record)| {
            let of = |axis| point.int(axis).unwrap_or_default();
            result(of("input"), of("output"), record, &time)
        });
        let results: Vec<Value> = results.collect();
        let option = |name: &str, default: Value| self.search.get(name).cloned().unwrap_or(default);
        Ok(json!({
            "config": {
                "model_id": self.model,
                "gpu_ids": if self.gpus.is_empty() { json!([0]) } else { json!(self.gpus) },
                // The engine's address is not recorded.
                "base_url": "",
                "min_input_length": length(input.0)?,
                "max_input_length": length(input.1)?,
                "min_output_length": length(output.0)?,
                "max_output_length": length(output.1)?,
                "grid_size": option("grid_size", json!(8)),
                "refinement_rounds": option("refinement_rounds", json!(2)),
                // A share there: that of the shortest output.
                "output_tolerance_pct": self.output_tolerance as f64 / length(output.0)?.max(1) as f64,
                "temp": 1.0,
                "multimodal": false,
                "dummy_image_path": null,
                "k_neighbors": option("k_neighbors", json!(5)),
                "m_random": option("m_random", json!(3)),
                "distance_scale": option("distance_scale", json!(1000)),
                "consistency_radius": option("consistency_radius", json!(1000)),
                "redundancy_weight": option("redundancy_weight", json!(0.5)),
                "max_pair_distance": option("max_pair_distance", json!(1e12)),
                "min_refinement_dist": option("min_refinement_dist", json!(50)),
            },
            "results": results,
        }))
    }
}

fn result(input: i64, output: i64, record: &crate::boundary::Record, time: &str) -> Value {
    let success = record.moves == Moves::Fits;
    let evidence = record.evidence().unwrap_or_default();
    let lines = evidence["log"].as_array();
    let lines: Vec<&str> = lines.into_iter().flatten().filter_map(Value::as_str).collect();
    json!({
        "input_length": input,
        "output_length": output,
        "success": success,
        "error_type": (!success).then(|| record.verdict.name()),
        "error_msg": record.cause.as_ref().filter(|_| !success),
        "container_logs": if success { String::new() } else { lines.join("\n") },
        "timestamp": time,
    })
}

/// The current time in UTC as tgi-profiler writes it, without a zone: `2026-11-21T03:30:00.123456`.
fn zoneless() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}

/// A load's result in the layout of `vllm bench serve --save-result --save-detailed`, version 0.33.0
/// (`vllm/benchmarks/serve.py`), with `--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles
/// 50,90,95,99,99.9`. Pure.
///
/// Keys and formulas are vLLM's; these values differ:
/// - What was not measured is `null`, where vLLM writes 0: latencies if nothing completed, times and tokens of
///   failed requests, `rtfx` (speech only), percentiles that the sample cannot support.
/// - A request is complete when it has the requested number of tokens. `failed` counts all others, including
///   requests cut off at the end, which vLLM does not have.
/// - `queue_times` are from when a request was due until it was sent. In a closed loop it is due when a slot is
///   free; vLLM counts from the start of the load.
/// - `max_concurrent_requests` is the number of concurrent requests; vLLM 0.33.0 counts requests within the
///   same second, later versions count as here. In `max_output_tokens_per_s`, an event with several tokens
///   counts each of them, not as one.
///
/// Its members are the metadata of a load. `None`: unknown or not applicable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VllmBench {
    /// The date, as `20261121-033000`.
    pub date: String,
    /// The engine or its protocol, called backend in vLLM.
    pub backend: String,
    /// The model.
    pub model: Option<String>,
    /// The tokenizer of the prompts.
    pub tokenizer: Option<String>,
    /// The arrival process.
    pub arrivals: Traffic,
    /// Maximum number of concurrent requests.
    pub max_concurrency: Option<u64>,
}

/// The arrival process, in vLLM's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Traffic {
    /// Closed loop: `request_rate` is `inf`.
    #[default]
    Closed,
    /// Requests per second with gamma-distributed inter-arrival times; burstiness 1 is Poisson, `None` is
    /// constant.
    Rate(f64, Option<f64>),
    /// A trace or rate steps: no single rate.
    Other,
}

impl VllmBench {
    /// The document of a load, with lists that have an entry per request, in seconds.
    pub fn document(&self, records: &[Record], settings: &Settings, figures: &LoadStats) -> Value {
        let mut measured = EvaluatedRequest::all(records, settings);
        measured.retain(|request| !request.record.warmup);
        let completed = || measured.iter().filter(|request| request.completed());
        let input: u64 = completed().map(|request| request.input).sum();
        let output: u64 = completed().filter_map(|request| request.output).sum();
        let list = |of: &dyn Fn(&EvaluatedRequest<'_>, &Record) -> Value| {
            Value::Array(measured.iter().map(|request| of(request, request.record)).collect())
        };
        let seconds = |milliseconds: Option<f64>| json!(milliseconds.map(|milliseconds| milliseconds / 1e3));
        let (rate, burstiness) = match self.arrivals {
            Traffic::Closed => (json!("inf"), Value::Null),
            // Python's infinity is not JSON: a string, as for the rate.
            Traffic::Rate(rate, burstiness) => (
                json!(rate),
                burstiness.map_or(json!("inf"), |burstiness| json!(burstiness)),
            ),
            Traffic::Other => (Value::Null, Value::Null),
        };
        let mut document = json!({
            "date": self.date,
            "endpoint_type": self.backend,
            "backend": self.backend,
            "label": null,
            "model_id": self.model,
            "tokenizer_id": self.tokenizer,
            "num_prompts": figures.issued,
            "request_rate": rate,
            "burstiness": burstiness,
            "max_concurrency": self.max_concurrency,
            "duration": figures.duration,
            "completed": figures.completed,
            "failed": figures.failed + figures.cut_off,
            "total_input_tokens": input,
            "total_output_tokens": output,
            "request_throughput": figures.rates.request_throughput,
            "request_goodput": figures.goodput.as_ref().and_then(|goodput| goodput.counts.request_throughput),
            "output_throughput": figures.rates.output_throughput,
            "total_token_throughput": figures.rates.total_token_throughput,
            "input_lens": list(&|request, _| json!(request.input)),
            "output_lens": list(&|request, _| json!(request.output.filter(|_| request.completed()))),
            "ttfts": list(&|_, record| seconds(record.ttft_ms(record.sent))),
            "itls": list(&|_, record| record.itl_ms.iter().map(|gap| f64::from(*gap) / 1e3).collect()),
            "latencies": list(&|request, record| seconds(record.e2el_ms(record.sent).filter(|_| request.completed()))),
            "start_times": list(&|_, record| json!(record.sent.as_secs_f64())),
            "queue_times": list(&|_, record| json!(record.sent.saturating_sub(record.scheduled).as_secs_f64())),
            "generated_texts": list(&|_, record| json!(record.text)),
            "errors": list(&|request, _| json!(request.error())),
            "max_output_tokens_per_s": figures.max_output_tokens_per_s,
            "max_concurrent_requests": figures.max_concurrent_requests,
            "rtfx": null,
        });
        let stats = figures.clone();
        let load = LoadAnswer {
            stats,
            ..LoadAnswer::default()
        };
        for metric in LoadMetric::all()
            .iter()
            .filter(|metric| metric.unit == Unit::Milliseconds)
        {
            document[metric.name.replace("p99_9", "p99.9")] = json!(metric.value(&load));
        }
        for latency in ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"] {
            document[format!("p50_{latency}")] = document[format!("median_{latency}")].clone();
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Answer, Options, Point};

    fn boundary(axes: Value) -> Boundary {
        Boundary::new(&axes, Options::default()).unwrap()
    }

    #[test]
    fn only_what_moves_towards_fitting_is_a_success() {
        let mut map = boundary(json!({ "input": [1, 100], "output": [1, 50] }));
        let answers = [
            json!("ok"),
            json!({ "verdict": "oom", "cause": "cuda", "evidence": { "log": ["one", "two"] } }),
            json!("timeout"),
        ];
        for (answer, input) in answers.iter().zip([10, 90, 50]) {
            let point = Point::default().with("input", input).with("output", 5);
            map.record(&point, &Answer::parse(answer).unwrap()).unwrap();
        }
        let document = TgiProfiler::default().document(&map).unwrap();
        let shown: Vec<_> = document["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                json!([
                    row["input_length"],
                    row["success"],
                    row["error_type"],
                    row["error_msg"],
                    row["container_logs"]
                ])
            })
            .collect();
        let expected = [
            json!([10, true, null, null, ""]),
            json!([90, false, "oom", "cuda", "one\ntwo"]),
            json!([50, false, "timeout", null, ""]),
        ];
        assert_eq!(shown, expected);
        assert_eq!(document["config"]["max_output_length"], 50);
        assert_eq!(document["config"].as_object().unwrap().len(), 20);
    }

    #[test]
    fn other_axes_are_refused() {
        let fault = TgiProfiler::default().document(&boundary(json!({ "concurrency": [1, 9] })));
        assert!(fault.unwrap_err().message.contains("`concurrency`"));
        let fault = TgiProfiler::default().document(&boundary(json!({ "input": [1, 9], "output": [0.5, 1.5] })));
        assert!(fault.unwrap_err().message.contains("whole lengths"));
    }
}

#[cfg(test)]
mod vllm_bench_tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::load::stats::{Slo, TargetConcurrency};
    use crate::load::{Counts, Failure, FailureForm, Outcome};

    /// The keys of a file that vLLM 0.33.0 wrote with these options and `--goodput`.
    const KEYS: &str = "date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency duration \
        completed failed total_input_tokens total_output_tokens request_throughput request_goodput output_throughput total_token_throughput \
        input_lens output_lens ttfts itls latencies start_times queue_times generated_texts errors max_output_tokens_per_s \
        max_concurrent_requests rtfx";

    fn record(index: u64) -> Record {
        let at = |ms: u64| Duration::from_millis(index * 100 + ms);
        Record {
            index,
            warmup: false,
            input: 100,
            output: 3,
            scheduled: at(0),
            sent: at(5),
            first_byte: Some(at(55)),
            first_token: Some(at(55)),
            last_token: Some(at(85)),
            ended: at(86),
            itl_ms: vec![10.0, 20.0],
            events: 3,
            tokens_seen: None,
            counts: Counts {
                input: Some(100),
                output: Some(3),
            },
            text: Some("a b c".to_owned()),
            finish: Some("length".to_owned()),
            retry_after: None,
            outcome: Outcome::Completed,
        }
    }

    fn document(records: &[Record]) -> Value {
        let settings = Settings {
            target: TargetConcurrency::Closed { concurrency: 1 },
            slo: Some(Slo {
                ttft_ms: Some(60.0),
                ..Slo::default()
            }),
            exact: true,
            ..Settings::default()
        };
        let bench = VllmBench {
            date: "20261121-033000".to_owned(),
            backend: "vllm".to_owned(),
            model: Some("a/b".to_owned()),
            max_concurrency: Some(1),
            ..VllmBench::default()
        };
        bench.document(records, &settings, &LoadStats::from_records(records, &settings))
    }

    fn load() -> Vec<Record> {
        let mut records: Vec<Record> = (0..10).map(record).collect();
        let refused = &mut records[8];
        (refused.first_token, refused.last_token, refused.itl_ms) = (None, None, Vec::new());
        refused.counts = Counts::default();
        refused.outcome = Outcome::Failed(Failure {
            form: FailureForm::Status(429),
            message: "too many".to_owned(),
        });
        records[9].outcome = Outcome::CutOff;
        records
    }

    #[test]
    fn the_keys_are_those_of_vllm() {
        let document = document(&load());
        let keys: BTreeSet<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected: BTreeSet<String> = KEYS.split_whitespace().map(str::to_owned).collect();
        for metric in ["ttft", "tpot", "itl", "e2el"] {
            for figure in ["mean", "median", "std", "p50", "p90", "p95", "p99", "p99.9"] {
                expected.insert(format!("{figure}_{metric}_ms"));
            }
        }
        assert_eq!(keys, expected.iter().map(String::as_str).collect());
    }

    #[test]
    fn what_nobody_measured_is_null() {
        let document = document(&load());
        assert_eq!(
            (&document["completed"], &document["failed"], &document["num_prompts"]),
            (&json!(8), &json!(2), &json!(10))
        );
        assert_eq!(
            (&document["total_input_tokens"], &document["total_output_tokens"]),
            (&json!(800), &json!(24))
        );
        assert_eq!(
            (&document["ttfts"][8], &document["latencies"][8]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(
            (&document["ttfts"][9], &document["latencies"][9]),
            (&json!(0.05), &Value::Null)
        );
        assert_eq!(
            (&document["errors"][7], &document["errors"][8]),
            (&json!(""), &json!("status_429: too many"))
        );
        assert!(document["errors"][9].as_str().unwrap().contains("cut off"));
        assert_eq!(document["itls"][0], json!([0.01, 0.02]));
        assert_eq!(
            (&document["queue_times"][1], &document["start_times"][1]),
            (&json!(0.005), &json!(0.105))
        );
        assert_eq!(
            (&document["p99_ttft_ms"], &document["rtfx"]),
            (&json!(50.0), &Value::Null)
        );
        let nothing = super::vllm_bench_tests::document(&[]);
        assert!(nothing["mean_ttft_ms"].is_null() && nothing["request_throughput"].is_null());
    }

    #[test]
    fn our_reader_reads_it_back() {
        let document = document(&load());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.json");
        std::fs::write(&path, document.to_string()).unwrap();
        let input = crate::compare::import::read(&path).unwrap();
        assert_eq!((input.format, input.model.as_deref()), ("vllm bench", Some("a/b")));
        let case = &input.cases[0];
        assert_eq!(case.name, "concurrency=1");
        let figure = |name: &str| {
            let named = case.figures.iter().find(|figure| figure.name == name);
            named.unwrap_or_else(|| panic!("no {name}")).value
        };
        for name in [
            "completed",
            "failed",
            "duration",
            "output_throughput",
            "request_goodput",
            "mean_tpot_ms",
            "p50_e2el_ms",
        ] {
            let (got, written) = (figure(name), document[name].as_f64().unwrap());
            assert!((got - written).abs() < 1e-9, "{name}: {got} is not {written}");
        }
        assert!(
            input
                .notes
                .iter()
                .any(|note| note.contains("2 requests of a run failed")),
            "{:?}",
            input.notes
        );
    }
}
