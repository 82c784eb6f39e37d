//! Throughput and latency curves of all runs, those along concurrency apart from those along a rate.

use std::collections::BTreeSet;

use super::super::loads::{Findings, Sweep, compared, list, sweeps};
use super::super::{Part, Source};

/// The parts: one for what goes along concurrency, one for what goes along a rate.
pub(super) fn part(named: &[(&str, &Source)]) -> Vec<Part> {
    let mut all: Vec<(Sweep, Findings)> = Vec::new();
    for (name, source) in named {
        for mut sweep in sweeps(source.found) {
            let findings = Findings::of(&sweep, source.found);
            sweep.name = if sweep.name.is_empty() {
                (*name).to_owned()
            } else {
                format!("{name}, {}", sweep.name)
            };
            all.push((sweep, findings));
        }
    }
    let ways: BTreeSet<&str> = all.iter().map(|(sweep, _)| sweep.along.word()).collect();
    let parts = ways.into_iter().filter_map(|word| {
        let alike: Vec<(&Sweep, &Findings)> = all
            .iter()
            .filter(|(sweep, _)| sweep.along.word() == word)
            .map(|(sweep, findings)| (sweep, findings))
            .collect();
        let mut part = compared(&alike, &format!("together-{word}"), &format!("Loads along {word}"))?;
        part.paragraphs.extend(unlike(&alike));
        Some(part)
    });
    parts.collect()
}

/// What was not asked alike, and spoils the comparison.
fn unlike(sweeps: &[(&Sweep, &Findings)]) -> Option<String> {
    let told = ["input", "output", "shared_prefix", "prompts"]
        .into_iter()
        .filter_map(|key| {
            let text = |sweep: &Sweep| {
                sweep
                    .common
                    .get(key)
                    .map_or_else(|| "none".to_owned(), ToString::to_string)
            };
            let all: BTreeSet<String> = sweeps.iter().map(|(sweep, _)| text(sweep)).collect();
            (all.len() > 1).then(|| format!("{key} ({})", all.into_iter().collect::<Vec<_>>().join(" against ")))
        });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        format!(
            "They were not asked the same: {} differ, and throughput with them.",
            list(&told)
        )
    })
}
