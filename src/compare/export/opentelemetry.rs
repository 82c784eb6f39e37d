//! OTLP's JSON encoding.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::figures::{figures, milliseconds, subject, unit};
use crate::run::RecordedRun;

/// A document in OTLP's JSON encoding, as a collector accepts it at `/v1/metrics`: gauges, timestamped with the run's
/// end.
pub fn opentelemetry(found: &RecordedRun) -> Value {
    let attribute = |(name, value): (&&str, &String)| json!({ "key": name, "value": { "stringValue": value } });
    let mut points: BTreeMap<(String, &str), Vec<Value>> = BTreeMap::new();
    let nanoseconds = i128::from(milliseconds(found.manifest.ended.as_ref())) * 1_000_000;
    for figure in figures(found) {
        let name = format!("profiler.{}", figure.name);
        points.entry((name, unit(figure.unit).1)).or_default().push(json!({
            "timeUnixNano": nanoseconds.to_string(),
            "asDouble": figure.value,
            "attributes": figure.labels.iter().map(attribute).collect::<Vec<_>>(),
        }));
    }
    let metrics = points
        .into_iter()
        .map(|((name, unit), points)| json!({ "name": name, "unit": unit, "gauge": { "dataPoints": points } }));
    let mut resource = vec![json!({ "key": "service.name", "value": { "stringValue": "profiler" } })];
    for (name, value) in &subject(found) {
        resource.push(attribute((&&*format!("profiler.{name}"), value)));
    }
    json!({ "resourceMetrics": [{
        "resource": { "attributes": resource },
        "scopeMetrics": [{
            "scope": { "name": "profiler", "version": found.manifest.profiler },
            "metrics": metrics.collect::<Vec<_>>(),
        }],
    }] })
}
