//! The devices whose memory was looked at: what people call them, and how much they have.

use serde_json::Value;

use crate::run::{Life, Manifest};

/// One device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::report::story) struct Device {
    /// Its id in the series.
    pub(in crate::report::story) id: String,
    /// What it is called: `GPU 0`, `host memory`, `sim0`.
    pub(in crate::report::story) label: String,
    /// What it is, where that is known: `NVIDIA H200`.
    pub(in crate::report::story) model: Option<String>,
    /// Bytes that are there, where that is known.
    pub(in crate::report::story) total: Option<u64>,
    /// Bytes that the engine was to stay within by `memory_fraction`, with the fraction.
    pub(in crate::report::story) budget: Option<(f64, u64)>,
}

impl Device {
    /// What it is called, and what it is: `GPU 0 (NVIDIA H200)`.
    pub(in crate::report::story) fn named(&self) -> String {
        match &self.model {
            Some(model) => format!("{} ({model})", self.label),
            None => self.label.clone(),
        }
    }
}

/// The devices of a start: `ids` as its series names them, `usage` what its stages tell, `life` what the journal does.
pub(in crate::report::story) fn devices(
    ids: &[&str],
    usage: &Value,
    life: Option<&Life>,
    manifest: &Manifest,
) -> Vec<Device> {
    let fraction = life.and_then(fraction);
    ids.iter()
        .map(|id| {
            let share = share(usage, id);
            let listed = manifest.gpus.iter().find(|gpu| gpu["id"] == **id);
            let whole = life.filter(|_| ids.len() == 1).map(|life| &life.info["memory_total"]);
            let told = [
                share.map(|share| &share["total"]),
                listed.map(|gpu| &gpu["total"]),
                whole,
            ];
            let total = told
                .into_iter()
                .flatten()
                .find_map(Value::as_u64)
                .filter(|&total| total > 0);
            let names = [share.map(|share| &share["name"]), listed.map(|gpu| &gpu["name"])];
            let model = names.into_iter().flatten().find_map(Value::as_str);
            Device {
                id: (*id).to_owned(),
                label: label(id, listed),
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

fn label(id: &str, listed: Option<&Value>) -> String {
    match listed.and_then(|gpu| gpu["index"].as_u64()) {
        Some(index) => format!("GPU {index}"),
        None if id == "host" || id.starts_with('/') => "host memory".to_owned(),
        None => id.to_owned(),
    }
}

/// What the newest stage tells of a device.
fn share<'a>(usage: &'a Value, id: &str) -> Option<&'a Value> {
    let stages = ["peak", "loaded", "baseline", "after"].into_iter();
    stages
        .filter_map(|stage| usage[stage]["per_gpu"].as_array())
        .flatten()
        .find(|share| share["id"] == id)
}

/// The share of the memory that the engine was given, by its log or its options.
fn fraction(life: &Life) -> Option<f64> {
    let told = [
        &life.info["facts"]["memory_fraction"],
        &life.info["options"]["memory_fraction"],
    ];
    told.into_iter()
        .find_map(Value::as_f64)
        .filter(|fraction| (0.0..1.0).contains(fraction))
}

fn scaled(total: u64, fraction: f64) -> u64 {
    (total as f64 * fraction) as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn devices_are_called_as_people_know_them() {
        let usage = json!({ "peak": { "per_gpu": [{ "id": "GPU-a", "name": "NVIDIA H200", "total": 1000 }] } });
        let life = Life {
            info: json!({ "options": { "memory_fraction": 0.9 }, "memory_total": 7 }),
            ..Life::default()
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
}
