//! Sections that compare several runs: one chart and table for each kind of result. Each run is named by what
//! distinguishes it.

mod experiments;
mod frontiers;
mod loads;
mod memory;
mod names;

use super::{Section, Source};
use crate::report::plot::{Entry, Sheet};

/// The sections; none for fewer than two runs.
pub(super) fn sections(sources: &[Source]) -> Vec<Section> {
    if sources.len() < 2 {
        return Vec::new();
    }
    let names = names::names(sources);
    let named: Vec<(&str, &Source)> = names.iter().map(String::as_str).zip(sources).collect();
    let mut sections = vec![runs(&named)];
    sections.extend(frontiers::section(&named));
    sections.extend(loads::section(&named));
    sections.extend(memory::section(&named));
    sections.extend(experiments::sections(&named));
    if sections.len() == 1
        && let Some(section) = sections.first_mut()
    {
        section
            .paragraphs
            .push("They have no kind of result in common; each run is shown below.".to_owned());
    }
    sections
}

/// The list of the runs.
fn runs(named: &[(&str, &Source)]) -> Section {
    let simulated: Vec<&str> = named
        .iter()
        .filter(|(_, source)| source.found.manifest.simulated)
        .map(|one| one.0)
        .collect();
    let mut paragraphs = Vec::new();
    if !simulated.is_empty() && simulated.len() < named.len() {
        paragraphs.push(format!(
            "SIMULATED, compared with measured runs: {}.",
            simulated.join("; ")
        ));
    }
    let rows = named.iter().map(|(name, source)| {
        let manifest = &source.found.manifest;
        let settings = names::settings(manifest);
        let setting = |key: &str| {
            settings
                .get(key)
                .and_then(|value| value.as_str())
                .map_or(Entry::None, Entry::from)
        };
        vec![
            (*name).into(),
            if manifest.simulated {
                "SIMULATED".into()
            } else {
                Entry::None
            },
            manifest.script.path.as_str().into(),
            setting("engine"),
            setting("model"),
            setting("GPU"),
            source.found.state().into(),
            manifest.run.as_str().into(),
        ]
    });
    Section {
        name: "together-runs".to_owned(),
        title: "The runs".to_owned(),
        paragraphs,
        sheets: vec![Sheet {
            title: String::new(),
            columns: ["name", "", "script", "engine", "model", "GPU", "status", "run"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows.collect(),
        }],
        ..Section::default()
    }
}
