//! Memory by component of a whole engine: each device, all of them together, and what sharing the model between them costs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Breakdown, Component, Part, Provenance};
use crate::fault::{Fault, Result};

/// Where the memory of an engine goes: what [`crate::run::Event::Breakdown`] keeps, and what scripts get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// All devices together. A part that is known of some devices only is smaller than the truth; the rest of it is unexplained.
    pub all: Breakdown,
    /// Each device.
    pub per_gpu: Vec<Breakdown>,
    /// What tensor parallel costs; none on one device, and where nothing is known of the model on one device.
    pub overhead: Option<Overhead>,
    /// What else the script tells of it, by name: repeats, data types, the engine.
    #[serde(default)]
    pub details: Value,
}

/// What sharing the model between devices costs, without the KV cache and other tenants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// What it goes beyond.
    #[serde(default)]
    pub beyond: Beyond,
    /// Bytes. Below zero where all devices together hold less than what it goes beyond.
    pub bytes: i64,
    /// The least sure of its figures.
    pub provenance: Provenance,
    /// How it was got, for people.
    pub source: String,
}

/// What the memory of several devices is held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beyond {
    /// The same engine on one device: the rest is what tensor parallel adds.
    OneGpu,
    /// One copy of the weights alone: contexts, buffers of the communication library, activations and graphs of every rank are the rest.
    #[default]
    Weights,
}

/// What is known of the model on one device.
#[derive(Clone, Copy, Debug)]
pub enum Alone<'a> {
    /// The same engine was broken down on one device.
    Gpu(&'a Breakdown),
    /// What one copy of the weights takes.
    Weights(&'a Part),
}

impl Overhead {
    /// The name that people read.
    #[must_use]
    pub fn title(&self) -> &'static str {
        match self.beyond {
            Beyond::OneGpu => "tensor parallel adds",
            Beyond::Weights => "beyond one copy",
        }
    }
}

impl Footprint {
    /// Adds devices up. `alone` is what is known of the model on one device.
    ///
    /// # Errors
    ///
    /// `usage` without a device, or where their parts do not nest alike.
    pub fn of(per_gpu: Vec<Breakdown>, alone: Option<Alone<'_>>, details: Value) -> Result<Self> {
        if per_gpu.is_empty() {
            return Err(Fault::usage("a breakdown needs a device"));
        }
        let total = per_gpu.iter().map(|device| device.total).sum();
        let parts = Component::ALL
            .into_iter()
            .filter(|component| *component != Component::Unexplained)
            .filter_map(|component| sum(component, &per_gpu))
            .collect();
        let all = Breakdown::new(None, total, parts)?;
        let overhead = alone.filter(|_| per_gpu.len() > 1).map(|alone| overhead(&all, alone));
        Ok(Self {
            all,
            per_gpu,
            overhead,
            details,
        })
    }

    /// What was expected by the model's architecture, of all devices together, where the script kept it: `details.estimate.all`.
    #[must_use]
    pub fn estimate(&self) -> Option<Breakdown> {
        Breakdown::deserialize(self.details.get("estimate")?.get("all")?).ok()
    }
}

/// One component of all devices together.
fn sum(component: Component, devices: &[Breakdown]) -> Option<Part> {
    let parts: Vec<&Part> = devices.iter().filter_map(|device| device.part(component)).collect();
    let first = parts.first()?;
    let same = parts.iter().all(|part| part.source == first.source);
    let source = match (devices.len(), parts.len()) {
        (1, _) => first.source.clone(),
        (all, known) if known < all => format!("known of {known} of {all} devices: {}", first.source),
        (all, _) if same => format!("{all} devices: {}", first.source),
        (all, _) => format!("{all} devices, the first: {}", first.source),
    };
    Some(Part {
        component,
        bytes: parts.iter().map(|part| part.bytes).sum(),
        provenance: parts.iter().map(|part| part.provenance).max()?,
        source,
        within: first.within,
    })
}

/// What all ranks hold beside KV cache and other tenants, less what is held alone.
fn overhead(all: &Breakdown, alone: Alone<'_>) -> Overhead {
    let (ranks, of_ranks) = beside_cache(all);
    let (bytes, provenance, beyond, source) = match alone {
        Alone::Gpu(one) => {
            let (held, sure) = beside_cache(one);
            let source =
                "the physical figure of all ranks, less KV cache and other tenants, and less the same on one GPU";
            (held, sure, Beyond::OneGpu, source.to_owned())
        }
        Alone::Weights(weights) => {
            let source = format!(
                "the physical figure of all ranks, less KV cache, other tenants and one copy of the weights ({})",
                weights.source
            );
            (weights.bytes, weights.provenance, Beyond::Weights, source)
        }
    };
    Overhead {
        beyond,
        bytes: ranks - bytes,
        provenance: of_ranks.max(provenance).max(Provenance::Computed),
        source,
    }
}

/// What is neither KV cache nor somebody else's, and the least sure of the figures that were taken off.
fn beside_cache(all: &Breakdown) -> (i64, Provenance) {
    let cache = match all.part(Component::KvPool) {
        Some(pool) => Some(pool),
        None => all.part(Component::KvUsed),
    };
    let off = || cache.into_iter().chain(all.part(Component::OtherTenants));
    let total = i64::try_from(all.total).unwrap_or(i64::MAX);
    let bytes: i64 = off().map(|part| part.bytes).sum();
    let provenance = off().map(|part| part.provenance).max();
    (total - bytes, provenance.unwrap_or(Provenance::Measured))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(component: Component, bytes: i64, provenance: Provenance) -> Part {
        Part {
            component,
            bytes,
            provenance,
            source: "log".into(),
            within: None,
        }
    }

    fn device(id: &str, total: u64, parts: Vec<Part>) -> Breakdown {
        Breakdown::new(Some(id.into()), total, parts).unwrap()
    }

    #[test]
    fn devices_add_up_and_the_least_sure_figure_counts() {
        let known = |weights, provenance| {
            vec![
                part(Component::Weights, weights, provenance),
                part(Component::KvPool, 50, Provenance::EngineReported),
                part(Component::OtherTenants, 5, Provenance::Measured),
            ]
        };
        let devices = vec![
            device("a", 100, known(30, Provenance::EngineReported)),
            device("b", 110, known(32, Provenance::Assumed)),
        ];
        let copy = part(Component::Weights, 58, Provenance::Computed);
        let footprint = Footprint::of(devices.clone(), Some(Alone::Weights(&copy)), Value::Null).unwrap();
        let weights = footprint.all.part(Component::Weights).unwrap();
        assert_eq!((weights.bytes, weights.provenance), (62, Provenance::Assumed));
        assert_eq!((footprint.all.total, footprint.all.unexplained()), (210, 15 + 23));
        // 210 - 100 of KV cache - 10 of others - 58 of weights.
        let overhead = footprint.overhead.unwrap();
        assert_eq!((overhead.bytes, overhead.title()), (42, "beyond one copy"));
        // On one GPU, 75 beside the cache: 58 of weights, 10 of context, and 7 that nothing explains.
        let one = device(
            "a",
            125,
            vec![
                part(Component::KvPool, 50, Provenance::EngineReported),
                part(Component::Weights, 58, Provenance::EngineReported),
            ],
        );
        let overhead = Footprint::of(devices, Some(Alone::Gpu(&one)), Value::Null)
            .unwrap()
            .overhead
            .unwrap();
        assert_eq!((overhead.bytes, overhead.title()), (25, "tensor parallel adds"));
    }

    #[test]
    fn one_device_has_no_overhead_and_a_part_of_one_of_two_says_so() {
        let copy = part(Component::Weights, 30, Provenance::Computed);
        let alone = device("a", 100, vec![copy.clone()]);
        let footprint = Footprint::of(vec![alone.clone()], Some(Alone::Weights(&copy)), Value::Null).unwrap();
        assert_eq!(footprint.overhead, None);
        let two = Footprint::of(vec![alone, device("b", 100, Vec::new())], None, Value::Null).unwrap();
        let weights = two.all.part(Component::Weights).unwrap();
        assert!(
            weights.source.starts_with("known of 1 of 2 devices"),
            "{}",
            weights.source
        );
        assert_eq!((two.all.unexplained(), two.overhead), (170, None));
    }

    #[test]
    fn no_device_is_no_breakdown() {
        assert!(Footprint::of(Vec::new(), None, Value::Null).is_err());
    }
}
