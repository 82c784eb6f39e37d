//! Where memory goes: components, measured and estimated, with the source of each number.

mod chart;
mod table;
#[cfg(test)]
mod tests;
mod text;

use serde_json::Value;

use super::memory::{Device, devices};
use super::{Section, Source};
use crate::memory::{Breakdown, Footprint};

/// A breakdown with its context.
struct BreakdownView<'a> {
    name: &'a str,
    footprint: Footprint,
    devices: Vec<Device>,
    /// Expected from the model's architecture, over all devices.
    estimate: Option<Breakdown>,
}

/// The sections. Unreadable breakdowns are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let found = source.found;
    let mut section = Section {
        name: "breakdown".to_owned(),
        title: "Where memory goes".to_owned(),
        ..Section::default()
    };
    for (index, (name, value)) in found.breakdowns.iter().enumerate() {
        let Ok(footprint) = serde_json::from_value::<Footprint>(value.clone()) else {
            missing.push(format!("skipped breakdown `{name}`: cannot be read"));
            continue;
        };
        let ids: Vec<&str> = footprint
            .per_gpu
            .iter()
            .map(|device| device.device.as_deref().unwrap_or_default())
            .collect();
        // Any start that used these devices recorded their capacity.
        let covers = |(_, usage): &&(String, Value)| {
            let listed = usage["peak"]["per_gpu"].as_array();
            listed.is_some_and(|listed| ids.iter().all(|id| listed.iter().any(|device| device["id"] == **id)))
        };
        let usage = found
            .stages
            .iter()
            .find(covers)
            .map_or(&Value::Null, |(_, usage)| usage);
        let view = BreakdownView {
            name,
            devices: devices(&ids, usage, None, &found.manifest),
            estimate: footprint.estimate(),
            footprint,
        };
        section
            .paragraphs
            .extend(text::details(&view, found.breakdowns.len() > 1));
        section.plots.push(chart::plot(&view, index, found.manifest.simulated));
    }
    match &section.plots[..] {
        [] => return Vec::new(),
        [only] => section.title.clone_from(&only.title),
        _ => {}
    }
    if found.manifest.simulated {
        section.paragraphs.insert(
            0,
            "SIMULATED: memory of a simulated engine; no GPU was measured.".to_owned(),
        );
    }
    vec![section]
}
