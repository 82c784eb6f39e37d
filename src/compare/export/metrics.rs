//! The figures of a run for what watches and tracks: Prometheus' text format, OpenTelemetry's JSON (OTLP), and the files of
//! MLflow's file store.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::compare::{ComparisonInput, Unit};
use crate::run::{RecordedRun, hide};

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
