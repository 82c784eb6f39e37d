//! Throughput and latency curves of all runs, by concurrency and by request rate.

use std::collections::BTreeSet;

use super::super::loads::{Sweep, SweepFindings, comparison_section, list, sweeps};
use super::super::{Section, Source};

/// One section for each sweep axis.
pub(super) fn section(named: &[(&str, &Source)]) -> Vec<Section> {
    let mut all: Vec<(Sweep, SweepFindings)> = Vec::new();
    for (name, source) in named {
        for mut sweep in sweeps(source.found) {
            let findings = SweepFindings::new(&sweep, source.found);
            sweep.name = if sweep.name.is_empty() {
                (*name).to_owned()
            } else {
                format!("{name}, {}", sweep.name)
            };
            all.push((sweep, findings));
        }
    }
    let axes: BTreeSet<&str> = all.iter().map(|(sweep, _)| sweep.axis.name()).collect();
    let parts = axes.into_iter().filter_map(|name| {
        let same_axis: Vec<(&Sweep, &SweepFindings)> = all
            .iter()
            .filter(|(sweep, _)| sweep.axis.name() == name)
            .map(|(sweep, findings)| (sweep, findings))
            .collect();
        let mut section = comparison_section(&same_axis, &format!("together-{name}"), &format!("Loads along {name}"))?;
        section.paragraphs.extend(workload_differences(&same_axis));
        Some(section)
    });
    parts.collect()
}

/// Workload settings that differ and make the curves incomparable.
fn workload_differences(sweeps: &[(&Sweep, &SweepFindings)]) -> Option<String> {
    let differences = ["input", "output", "shared_prefix", "prompts"]
        .into_iter()
        .filter_map(|key| {
            let text = |sweep: &Sweep| {
                sweep
                    .settings
                    .get(key)
                    .map_or_else(|| "none".to_owned(), ToString::to_string)
            };
            let all: BTreeSet<String> = sweeps.iter().map(|(sweep, _)| text(sweep)).collect();
            (all.len() > 1).then(|| format!("{key} ({})", all.into_iter().collect::<Vec<_>>().join(" against ")))
        });
    let differences: Vec<String> = differences.collect();
    (!differences.is_empty()).then(|| {
        format!(
            "Their workloads differ in {}, so their throughput is not comparable.",
            list(&differences)
        )
    })
}
