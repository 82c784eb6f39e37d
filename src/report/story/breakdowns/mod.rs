//! Where memory goes: components, measured beside estimated, and how each is known.

mod picture;
mod sheet;
#[cfg(test)]
mod tests;
mod words;

use serde_json::Value;

use super::memory::{Device, devices};
use super::{Part, Source};
use crate::memory::{Breakdown, Footprint};

/// A breakdown as it is told.
struct Told<'a> {
    /// What the script calls it.
    name: &'a str,
    /// The breakdown.
    footprint: Footprint,
    /// Its devices, in their order.
    devices: Vec<Device>,
    /// What was expected by the model's architecture, of all devices together; none where nobody asked.
    estimate: Option<Breakdown>,
}

/// The parts; what the folder lacks is added to `missing`.
pub(super) fn parts(source: &Source, missing: &mut Vec<String>) -> Vec<Part> {
    let found = source.found;
    let mut part = Part {
        name: "breakdown".to_owned(),
        title: "Where memory goes".to_owned(),
        ..Part::default()
    };
    for (index, (name, value)) in found.breakdowns.iter().enumerate() {
        let Ok(footprint) = serde_json::from_value::<Footprint>(value.clone()) else {
            missing.push(format!("the breakdown `{name}` cannot be read: it is not told"));
            continue;
        };
        let ids: Vec<&str> = footprint
            .per_gpu
            .iter()
            .map(|device| device.device.as_deref().unwrap_or_default())
            .collect();
        // Any start that was looked at on these devices knows how much they have.
        let knows = |(_, usage): &&(String, Value)| {
            let told = usage["peak"]["per_gpu"].as_array();
            told.is_some_and(|told| ids.iter().all(|id| told.iter().any(|device| device["id"] == **id)))
        };
        let usage = found.stages.iter().find(knows).map_or(&Value::Null, |(_, usage)| usage);
        let told = Told {
            name,
            devices: devices(&ids, usage, None, &found.manifest),
            estimate: footprint.estimate(),
            footprint,
        };
        part.paragraphs
            .extend(words::details(&told, found.breakdowns.len() > 1));
        part.plots.push(picture::plot(&told, index, found.manifest.simulated));
    }
    match &part.plots[..] {
        [] => return Vec::new(),
        [only] => part.title.clone_from(&only.title),
        _ => {}
    }
    if found.manifest.simulated {
        part.paragraphs.insert(
            0,
            "SIMULATED: the memory of a model of an engine; no GPU was looked at.".to_owned(),
        );
    }
    vec![part]
}
