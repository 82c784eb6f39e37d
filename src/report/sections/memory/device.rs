//! The devices of a memory series, and the memory components: names, capacities, colours.

use serde_json::Value;

use crate::memory::{Component, Part};
use crate::report::plot::Colour;
use crate::run::{EngineSession, Manifest};

#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::report::sections) struct Device {
    /// Its id in the series.
    pub(in crate::report::sections) id: String,
    /// Its short name: `GPU 0`, `host memory`, `sim0`.
    pub(in crate::report::sections) label: String,
    /// Its model, if known: `NVIDIA H200`.
    pub(in crate::report::sections) model: Option<String>,
    /// Its capacity in bytes, if known.
    pub(in crate::report::sections) total: Option<u64>,
    /// `memory_fraction` and the bytes that it allows the engine.
    pub(in crate::report::sections) budget: Option<(f64, u64)>,
}

impl Device {
    /// Its name with its model: `GPU 0 (NVIDIA H200)`.
    pub(in crate::report::sections) fn named(&self) -> String {
        match &self.model {
            Some(model) => format!("{} ({model})", self.label),
            None => self.label.clone(),
        }
    }
}

/// The devices of a start. `ids` are from its series, `usage` is its memory by stage, `life` its record in the journal.
pub(in crate::report::sections) fn devices(
    ids: &[&str],
    usage: &Value,
    life: Option<&EngineSession>,
    manifest: &Manifest,
) -> Vec<Device> {
    let fraction = life.and_then(fraction);
    ids.iter()
        .map(|id| {
            let stage_entry = stage_entry(usage, id);
            let gpu = manifest.gpus.iter().find(|gpu| gpu["id"] == **id);
            let only_total = life.filter(|_| ids.len() == 1).map(|life| &life.info["memory_total"]);
            let totals = [
                stage_entry.map(|stage_entry| &stage_entry["total"]),
                gpu.map(|gpu| &gpu["total"]),
                only_total,
            ];
            let total = totals
                .into_iter()
                .flatten()
                .find_map(Value::as_u64)
                .filter(|&total| total > 0);
            let names = [
                stage_entry.map(|stage_entry| &stage_entry["name"]),
                gpu.map(|gpu| &gpu["name"]),
            ];
            let model = names.into_iter().flatten().find_map(Value::as_str);
            Device {
                id: (*id).to_owned(),
                label: label(id, gpu),
                model: model
                    .filter(|model| model != id && !model.is_empty())
                    .map(str::to_owned),
                total,
                budget: fraction
                    .zip(total)
                    .map(|(fraction, total)| (fraction, scaled(total, fraction))),
            }
        })
        .collect()
}

fn label(id: &str, gpu: Option<&Value>) -> String {
    match gpu.and_then(|gpu| gpu["index"].as_u64()) {
        Some(index) => format!("GPU {index}"),
        None if id == "host" || id.starts_with('/') => "host memory".to_owned(),
        None => id.to_owned(),
    }
}

/// The newest stage's entry for a device.
fn stage_entry<'a>(usage: &'a Value, id: &str) -> Option<&'a Value> {
    let stages = ["peak", "loaded", "baseline", "after"].into_iter();
    stages
        .filter_map(|stage| usage[stage]["per_gpu"].as_array())
        .flatten()
        .find(|stage_entry| stage_entry["id"] == id)
}

/// The engine's `memory_fraction`, from its log or its options.
fn fraction(life: &EngineSession) -> Option<f64> {
    let totals = [
        &life.info["facts"]["memory_fraction"],
        &life.info["options"]["memory_fraction"],
    ];
    totals
        .into_iter()
        .find_map(Value::as_f64)
        .filter(|fraction| (0.0..1.0).contains(fraction))
}

fn scaled(total: u64, fraction: f64) -> u64 {
    (total as f64 * fraction) as u64
}

/// Colour of the total-memory line; not used by any component.
pub(in crate::report::sections) const IN_USE: Colour = Colour::Series(4);

pub(in crate::report::sections) fn colour(component: Component) -> Colour {
    match component {
        Component::Weights => Colour::Series(0),
        Component::KvPool => Colour::Series(1),
        Component::KvUsed => Colour::Series(2),
        Component::Activations => Colour::Series(3),
        Component::CudaGraphs => Colour::Series(7),
        Component::RuntimeContext => Colour::Series(5),
        Component::OtherTenants => Colour::Series(6),
        Component::Unexplained => Colour::Open,
    }
}

pub(in crate::report::sections) fn legend_label(part: &Part) -> String {
    format!("{} ({})", part.component.title(), part.provenance)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn devices_have_readable_names() {
        let usage = json!({ "peak": { "per_gpu": [{ "id": "GPU-a", "name": "NVIDIA H200", "total": 1000 }] } });
        let life = EngineSession {
            info: json!({ "options": { "memory_fraction": 0.9 }, "memory_total": 7 }),
            ..EngineSession::default()
        };
        let mut manifest: Manifest = serde_json::from_value(json!({
            "schema": 1, "profiler": "", "run": "", "status": "", "started": "", "ended": null, "script": { "name": "", "path": "", "sha256": "" },
            "modules": {}, "set": {}, "parameters": null, "seed": 1, "permissions": [], "simulated": false, "engines": [],
            "gpus": [{ "id": "GPU-a", "index": 3, "name": "x", "total": 9 }], "driver": null, "host": { "name": "", "kernel": "", "cpus": 1 }
        }))
        .unwrap();
        let one = &devices(&["GPU-a"], &usage, Some(&life), &manifest)[0];
        assert_eq!(
            (one.named().as_str(), one.total, one.budget),
            ("GPU 3 (NVIDIA H200)", Some(1000), Some((0.9, 900)))
        );
        let two = devices(&["GPU-a", "host"], &Value::Null, None, &manifest);
        assert_eq!(
            (two[0].total, two[1].named().as_str(), two[1].total),
            (Some(9), "host memory", None)
        );
        manifest.gpus.clear();
        let alone = &devices(&["sim0"], &Value::Null, Some(&life), &manifest)[0];
        assert_eq!(
            (alone.label.as_str(), alone.total),
            ("sim0", Some(7)),
            "all of the engine's memory is that of its one device"
        );
    }

    #[test]
    fn no_two_components_share_a_colour() {
        let mut colours: HashSet<Colour> = Component::ALL.into_iter().map(colour).collect();
        assert!(colours.insert(IN_USE));
        assert_eq!(colours.len(), Component::ALL.len() + 1);
    }
}
