//! Several runs on one page: what they have in common, in one picture and one table for each kind of thing. Each run is named by what sets it apart.

mod experiments;
mod frontiers;
mod loads;
mod memory;
mod names;

use super::{Part, Source};
use crate::report::plot::{Entry, Sheet};

/// What these runs have in common, a part for each kind of thing; nothing for fewer than two.
pub(super) fn together(sources: &[Source]) -> Vec<Part> {
    if sources.len() < 2 {
        return Vec::new();
    }
    let names = names::names(sources);
    let named: Vec<(&str, &Source)> = names.iter().map(String::as_str).zip(sources).collect();
    let mut parts = vec![runs(&named)];
    parts.extend(frontiers::part(&named));
    parts.extend(loads::part(&named));
    parts.extend(memory::part(&named));
    parts.extend(experiments::part(&named));
    if parts.len() == 1
        && let Some(part) = parts.first_mut()
    {
        part.paragraphs
            .push("They have nothing in common that could stand in one picture: each is told below.".to_owned());
    }
    parts
}

/// Which runs these are.
fn runs(named: &[(&str, &Source)]) -> Part {
    let simulated: Vec<&str> = named
        .iter()
        .filter(|(_, source)| source.found.manifest.simulated)
        .map(|one| one.0)
        .collect();
    let mut paragraphs = Vec::new();
    if !simulated.is_empty() && simulated.len() < named.len() {
        paragraphs.push(format!(
            "SIMULATED, and beside runs that are not: {}.",
            simulated.join("; ")
        ));
    }
    let rows = named.iter().map(|(name, source)| {
        let manifest = &source.found.manifest;
        let settings = names::settings(manifest);
        let told = |key: &str| {
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
            told("engine"),
            told("model"),
            told("GPU"),
            source.found.state().into(),
            manifest.run.as_str().into(),
        ]
    });
    Part {
        name: "together-runs".to_owned(),
        title: "The runs".to_owned(),
        paragraphs,
        sheets: vec![Sheet {
            title: String::new(),
            columns: ["called here", "", "script", "engine", "model", "GPU", "status", "run"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows.collect(),
        }],
        ..Part::default()
    }
}
