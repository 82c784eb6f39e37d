//! Memory of a model by component: measured breakdowns of an engine, and estimates from the model's architecture.
//!
//! `shape` reads a model's `config.json` and the headers of its weights; `estimate` computes from a shape what the model
//! needs; [`compare`] sets an estimate, or that of another tool, beside a measured breakdown.
//!
//! Pure: `telemetry` measures, `engine` reads what engines report, and `report` prints. All values are bytes; GiB
//! appear only in output for people.

pub mod compare;
mod estimate;
mod shape;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use estimate::{Estimate, EstimateRequest, Fits, LayerKind, ModelFiles, StateBlocks, estimate};
pub use shape::{Dtype, Headers};

use crate::fault::{Fault, Result};

/// The memory of an engine by component, as stored by [`crate::run::Event::Breakdown`] and returned to scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// All devices together. A part that is known for some devices only is too small; the missing amount is
    /// unexplained.
    pub all: Breakdown,
    /// Each device.
    pub per_gpu: Vec<Breakdown>,
    /// The cost of tensor parallelism; `None` on one device, or without a baseline.
    pub overhead: Option<Overhead>,
    /// Further data from the script, by name: repeats, data types, the engine.
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
    /// The least certain provenance among its figures.
    pub provenance: Provenance,
    /// How it was derived, for people.
    pub source: String,
}

/// The baseline for the memory of several devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverheadBaseline {
    /// This engine on one device: the difference is the cost of tensor parallelism.
    OneGpu,
    /// One copy of the weights: the difference is contexts, communication buffers, activations and graphs of every
    /// rank.
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
    /// Adds up devices. `baseline` is the model's memory on one device.
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

/// The memory of all ranks without KV cache and other processes, minus the baseline.
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

/// The total without KV cache and other processes, and the least certain provenance of the subtracted parts.
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

/// The use of a part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The model's parameters, as stored on the device.
    Weights,
    /// The KV cache that the engine has reserved, used or not.
    KvPool,
    /// The KV cache that holds tokens: within the pool if there is one, otherwise a component of its own.
    KvUsed,
    /// Memory of a forward pass beyond weights and KV cache, at its peak.
    Activations,
    /// Captured CUDA graphs.
    CudaGraphs,
    /// CUDA context, libraries and communication buffers, outside the framework's allocator.
    RuntimeContext,
    /// Other processes. Shown, but never counted as the engine's.
    OtherTenants,
    /// The remainder of the total in use; negative if the other parts exceed it.
    Unexplained,
}

impl Component {
    /// Every component, in display order.
    pub const ALL: [Component; 8] = [
        Component::Weights,
        Component::KvPool,
        Component::KvUsed,
        Component::Activations,
        Component::CudaGraphs,
        Component::RuntimeContext,
        Component::OtherTenants,
        Component::Unexplained,
    ];

    /// The name in JSON and in scripts.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        NAMES[self as usize].1
    }
}

/// Names of the components in JSON and for people, in their order.
const NAMES: [(&str, &str); 8] = [
    ("weights", "weights"),
    ("kv_pool", "KV cache"),
    ("kv_used", "KV cache in use"),
    ("activations", "activations"),
    ("cuda_graphs", "CUDA graphs"),
    ("runtime_context", "CUDA context"),
    ("other_tenants", "other processes"),
    ("unexplained", "unaccounted"),
];

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a figure comes from, most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Read from the driver, the kernel or the framework's allocator while the engine ran.
    Measured,
    /// Reported by the engine: its log, metrics or information pages.
    EngineReported,
    /// Computed from the architecture, or from other figures.
    Computed,
    /// Assumed, by us or by the author of the estimate.
    Assumed,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["measured", "engine-reported", "computed", "assumed"][*self as usize])
    }
}

/// The memory of one component on one device, or on all devices of an engine together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The component.
    pub component: Component,
    /// Bytes. Negative only for the unexplained remainder.
    pub bytes: i64,
    /// Where the figure comes from.
    pub provenance: Provenance,
    /// How it was derived, for people: the log line, the formula, the name of the counter.
    pub source: String,
    /// The component that contains this part, so that it is not counted twice: the KV cache in use lies within the
    /// pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Component>,
}

/// The components of the memory of one device, or of all devices of an engine together.
///
/// The parts that lie within no other add up to `total` exactly: [`Breakdown::new`] puts the remainder into
/// [`Component::Unexplained`], never into another part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breakdown {
    /// The device's id; `None` for all devices of the engine together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Bytes in use by all processes at that moment.
    pub total: u64,
    /// The parts, in the order of [`Component::ALL`].
    pub parts: Vec<Part>,
}

impl Breakdown {
    /// Divides `total` bytes into `parts`; the remainder is unexplained.
    ///
    /// # Errors
    ///
    /// `usage` if a component occurs twice, is `unexplained` or negative, or lies within a component that is missing or
    /// smaller.
    pub fn new(device: Option<String>, total: u64, mut parts: Vec<Part>) -> Result<Self> {
        for (index, part) in parts.iter().enumerate() {
            let name = part.component;
            if name == Component::Unexplained {
                return Err(Fault::usage(
                    "`unexplained` is computed from the other parts: leave it out",
                ));
            }
            if part.bytes < 0 {
                return Err(Fault::usage(format!(
                    "`{name}` cannot be below zero: it is {}",
                    part.bytes
                )));
            }
            if parts[..index].iter().any(|earlier| earlier.component == name) {
                return Err(Fault::usage(format!("`{name}` comes twice")));
            }
            if let Some(outer) = part.within {
                let around = parts
                    .iter()
                    .find(|part| part.component == outer && part.within.is_none())
                    .ok_or_else(|| {
                        Fault::usage(format!("`{name}` lies within `{outer}`, which is not among the parts"))
                    })?;
                if around.bytes < part.bytes {
                    return Err(Fault::usage(format!(
                        "`{name}` is larger than `{outer}`, which it lies within: {} and {} bytes",
                        part.bytes, around.bytes
                    )));
                }
            }
        }
        let total_signed = i64::try_from(total).map_err(|_| Fault::usage("the total is more than any device has"))?;
        let explained = parts
            .iter()
            .filter(|part| part.within.is_none())
            .try_fold(0_i64, |sum, part| sum.checked_add(part.bytes))
            .ok_or_else(|| Fault::usage("the parts add up to more than any device has"))?;
        parts.push(Part {
            component: Component::Unexplained,
            bytes: total_signed - explained,
            provenance: Provenance::Computed,
            source: "total used minus the other components".into(),
            within: None,
        });
        parts.sort_by_key(|part| part.component);
        Ok(Self { device, total, parts })
    }

    /// The part of a component; `None` if it is unknown.
    pub fn part(&self, component: Component) -> Option<&Part> {
        self.parts.iter().find(|part| part.component == component)
    }

    /// Bytes that no part explains; negative if the parts exceed the total.
    pub fn unexplained(&self) -> i64 {
        self.part(Component::Unexplained).map_or(0, |part| part.bytes)
    }
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

#[cfg(test)]
mod breakdown_tests {
    use super::*;
    use proptest::prelude::*;

    fn part(component: Component, bytes: i64, within: Option<Component>) -> Part {
        Part {
            component,
            bytes,
            provenance: Provenance::Measured,
            source: String::new(),
            within,
        }
    }

    #[test]
    fn kv_in_use_lies_within_its_pool() {
        let parts = vec![
            part(Component::KvUsed, 30, Some(Component::KvPool)),
            part(Component::KvPool, 50, None),
            part(Component::Weights, 40, None),
        ];
        let breakdown = Breakdown::new(None, 100, parts).unwrap();
        assert_eq!(breakdown.unexplained(), 10);
        assert_eq!(breakdown.parts[0].component, Component::Weights);
    }

    #[test]
    fn parts_that_cannot_be_are_refused() {
        let refused = |parts: Vec<Part>| Breakdown::new(None, 100, parts).unwrap_err().to_string();
        assert!(refused(vec![part(Component::Weights, -1, None)]).contains("below zero"));
        assert!(refused(vec![part(Component::Unexplained, 1, None)]).contains("leave it out"));
        let twice = vec![part(Component::Weights, 1, None), part(Component::Weights, 1, None)];
        assert!(refused(twice).contains("comes twice"));
        let alone = vec![part(Component::KvUsed, 1, Some(Component::KvPool))];
        assert!(refused(alone).contains("not among the parts"));
        let larger = vec![
            part(Component::KvPool, 1, None),
            part(Component::KvUsed, 2, Some(Component::KvPool)),
        ];
        assert!(refused(larger).contains("larger than"));
    }

    proptest! {
        #[test]
        fn parts_add_up_to_what_is_there(total in 0..1_u64 << 40, weights in 0..1_i64 << 40, pool in 0..1_i64 << 40) {
            let parts = vec![part(Component::Weights, weights, None), part(Component::KvPool, pool, None)];
            let breakdown = Breakdown::new(None, total, parts).unwrap();
            let sum: i64 = breakdown.parts.iter().map(|part| part.bytes).sum();
            prop_assert_eq!(u64::try_from(sum).unwrap(), total);
        }
    }
}
