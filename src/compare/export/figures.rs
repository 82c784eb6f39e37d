//! The figures of a run for monitoring and tracking.

use std::collections::BTreeMap;

use crate::compare::{ComparisonInput, Unit};
use crate::run::{RecordedRun, hide};

/// One figure of a run.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) value: f64,
    /// Labels that distinguish figures of the same name: case, component, axis.
    pub(super) labels: BTreeMap<&'static str, String>,
}

/// Labels of the whole run.
pub(super) fn subject(found: &RecordedRun) -> BTreeMap<&'static str, String> {
    let input = ComparisonInput::from_run(found, "");
    let manifest = &found.manifest;
    let all = [
        ("run", Some(manifest.run.clone())),
        ("script", Some(manifest.script.name.clone())),
        ("model", input.model),
        ("engine", input.engine),
        ("simulated", Some(manifest.simulated.to_string())),
    ];
    let some = all
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
    some.map(|(name, value)| (name, hide(&value).into_owned())).collect()
}

/// All figures of the run that `compare` uses, memory by component, and the largest points that fit.
pub(super) fn figures(found: &RecordedRun) -> Vec<Figure> {
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
    // Only points that were probed or are implied by probes, no predicted ones.
    let frontier = input
        .boundary
        .and_then(|boundary| boundary.rebuild().ok()?.frontier().ok());
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

/// The suffix of a Prometheus name, and the unit in OpenTelemetry's notation (UCUM).
pub(super) fn unit(unit: Unit) -> (&'static str, &'static str) {
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

/// Milliseconds since 1970 of a time as text; 0 if it is unknown or invalid.
pub(super) fn milliseconds(time: Option<&String>) -> i64 {
    let parsed = time.and_then(|time| time.parse::<jiff::Timestamp>().ok());
    parsed.map_or(0, jiff::Timestamp::as_millisecond)
}
