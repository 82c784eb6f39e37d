//! The text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::figures::{Figure, figures, subject, unit};
use crate::run::RecordedRun;

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
            let labels: Vec<String> = subject
                .iter()
                .chain(&figure.labels)
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            let _ = writeln!(text, "{name}{{{}}} {}", labels.join(","), figure.value);
        }
    }
    text
}
