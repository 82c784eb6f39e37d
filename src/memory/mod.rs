//! Memory of a model by component: measured breakdowns of an engine, and estimates from the model's architecture.
//!
//! Pure: `telemetry` measures, `engine` reads what engines report, and `report` prints. All values are bytes; GiB
//! appear only in output for people.

mod breakdown;
pub mod compare;
mod estimate;
mod shape;

pub use breakdown::{Breakdown, Component, Part, Provenance};
pub use estimate::{Estimate, EstimateRequest, Fits, LayerKind, ModelFiles, estimate};
pub use shape::{Dtype, Headers};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::{Fault, Result};

/// The memory of an engine by component, as stored by [`crate::run::Event::Breakdown`] and returned to scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// All devices together. A part that is known for some devices only is too small; the rest of it is unexplained.
    pub all: Breakdown,
    /// Each device.
    pub per_gpu: Vec<Breakdown>,
    /// The cost of tensor parallelism; `None` on one device, or without a baseline.
    pub overhead: Option<Overhead>,
    /// Further data of the script, by name: repeats, data types, the engine.
    #[serde(default)]
    pub details: Value,
}

/// The cost of sharing the model between devices, without KV cache and other processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// The baseline.
    #[serde(default)]
    pub beyond: OverheadBaseline,
    /// Bytes. Negative if all devices together hold less than the baseline.
    pub bytes: i64,
    /// The least certain provenance of its figures.
    pub provenance: Provenance,
    /// How it was derived, for people.
    pub source: String,
}

/// The baseline that the memory of several devices is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverheadBaseline {
    /// The same engine on one device: the rest is what tensor parallelism adds.
    OneGpu,
    /// One copy of the weights: the rest is contexts, communication buffers, activations and graphs of every rank.
    #[default]
    Weights,
}

/// The measured memory of a baseline.
#[derive(Clone, Copy, Debug)]
pub enum BaselineMemory<'a> {
    /// The breakdown of the same engine on one device.
    OneGpu(&'a Breakdown),
    /// One copy of the weights.
    Weights(&'a Part),
}

impl Overhead {
    /// The name for people.
    pub fn title(&self) -> &'static str {
        match self.beyond {
            OverheadBaseline::OneGpu => "tensor parallel adds",
            OverheadBaseline::Weights => "beyond one copy",
        }
    }
}

impl Footprint {
    /// Adds up devices. `baseline` is what the model takes on one device.
    ///
    /// # Errors
    ///
    /// `usage` without a device, or if the parts of the devices nest differently.
    pub fn new(per_gpu: Vec<Breakdown>, baseline: Option<BaselineMemory<'_>>, details: Value) -> Result<Self> {
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
        let overhead = baseline
            .filter(|_| per_gpu.len() > 1)
            .map(|baseline| overhead(&all, baseline));
        Ok(Self {
            all,
            per_gpu,
            overhead,
            details,
        })
    }

    /// The estimate from the model's architecture for all devices together, if the script stored it as
    /// `details.estimate.all`.
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

/// What all ranks hold without KV cache and other processes, minus the baseline.
fn overhead(all: &Breakdown, baseline: BaselineMemory<'_>) -> Overhead {
    let (ranks, of_ranks) = without_kv_cache(all);
    let (bytes, provenance, beyond, source) = match baseline {
        BaselineMemory::OneGpu(one) => {
            let (held, sure) = without_kv_cache(one);
            let source = "total used by all ranks, minus KV cache and other processes, minus the same on one GPU";
            (held, sure, OverheadBaseline::OneGpu, source.to_owned())
        }
        BaselineMemory::Weights(weights) => {
            let source = format!(
                "total used by all ranks, minus KV cache, other processes and one copy of the weights ({})",
                weights.source
            );
            (weights.bytes, weights.provenance, OverheadBaseline::Weights, source)
        }
    };
    Overhead {
        beyond,
        bytes: ranks - bytes,
        provenance: of_ranks.max(provenance).max(Provenance::Computed),
        source,
    }
}

/// The total without KV cache and other processes, and the least certain provenance of what was subtracted.
fn without_kv_cache(all: &Breakdown) -> (i64, Provenance) {
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
        let footprint = Footprint::new(devices.clone(), Some(BaselineMemory::Weights(&copy)), Value::Null).unwrap();
        let weights = footprint.all.part(Component::Weights).unwrap();
        assert_eq!((weights.bytes, weights.provenance), (62, Provenance::Assumed));
        assert_eq!((footprint.all.total, footprint.all.unexplained()), (210, 15 + 23));
        // 210 - 100 of KV cache - 10 of others - 58 of weights.
        let overhead = footprint.overhead.unwrap();
        assert_eq!((overhead.bytes, overhead.title()), (42, "beyond one copy"));
        // On one GPU, 75 without the cache: 58 of weights, 10 of context, and 7 unexplained.
        let one = device(
            "a",
            125,
            vec![
                part(Component::KvPool, 50, Provenance::EngineReported),
                part(Component::Weights, 58, Provenance::EngineReported),
            ],
        );
        let overhead = Footprint::new(devices, Some(BaselineMemory::OneGpu(&one)), Value::Null)
            .unwrap()
            .overhead
            .unwrap();
        assert_eq!((overhead.bytes, overhead.title()), (25, "tensor parallel adds"));
    }

    #[test]
    fn one_device_has_no_overhead_and_a_part_of_one_of_two_says_so() {
        let copy = part(Component::Weights, 30, Provenance::Computed);
        let baseline = device("a", 100, vec![copy.clone()]);
        let footprint = Footprint::new(
            vec![baseline.clone()],
            Some(BaselineMemory::Weights(&copy)),
            Value::Null,
        )
        .unwrap();
        assert_eq!(footprint.overhead, None);
        let two = Footprint::new(vec![baseline, device("b", 100, Vec::new())], None, Value::Null).unwrap();
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
        assert!(Footprint::new(Vec::new(), None, Value::Null).is_err());
    }
}
