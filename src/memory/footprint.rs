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
    /// What tensor parallel adds; none on one device, and where nobody knows what one copy of the weights takes.
    pub overhead: Option<Overhead>,
    /// What else the script tells of it, by name: repeats, data types, the engine.
    #[serde(default)]
    pub details: Value,
}

/// What tensor parallel really adds: what the ranks hold together beyond the KV cache and one copy of the weights. Weights that are
/// replicated, a context and buffers of the communication library for each rank, activations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// Bytes. Below zero where the copy of the weights that was given is not the one that is loaded.
    pub bytes: i64,
    /// The least sure of its figures.
    pub provenance: Provenance,
    /// How it was got, for people.
    pub source: String,
}

impl Footprint {
    /// Adds devices up. `weights` is what one copy of the weights takes, where that is known.
    ///
    /// # Errors
    ///
    /// `usage` without a device, or where their parts do not nest alike.
    pub fn of(per_gpu: Vec<Breakdown>, weights: Option<&Part>, details: Value) -> Result<Self> {
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
        let overhead = weights
            .filter(|_| per_gpu.len() > 1)
            .map(|weights| overhead(&all, weights));
        Ok(Self {
            all,
            per_gpu,
            overhead,
            details,
        })
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

/// Σ over ranks of what is neither KV cache, nor somebody else's, less one copy of the weights.
fn overhead(all: &Breakdown, weights: &Part) -> Overhead {
    let figure = |component| all.part(component).map_or(0, |part: &Part| part.bytes);
    let kv = match all.part(Component::KvPool) {
        Some(pool) => pool.bytes,
        None => figure(Component::KvUsed),
    };
    let others = figure(Component::OtherTenants);
    let total = i64::try_from(all.total).unwrap_or(i64::MAX);
    let used = [Component::KvPool, Component::KvUsed, Component::OtherTenants];
    let least_sure = used
        .into_iter()
        .filter_map(|component| all.part(component))
        .map(|part| part.provenance)
        .chain([weights.provenance, Provenance::Computed])
        .max();
    Overhead {
        bytes: total - kv - others - weights.bytes,
        provenance: least_sure.unwrap_or(Provenance::Computed),
        source: format!(
            "the physical figure of all ranks, less KV cache, other tenants and one copy of the weights ({})",
            weights.source
        ),
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
        let footprint = Footprint::of(devices, Some(&copy), Value::Null).unwrap();
        let weights = footprint.all.part(Component::Weights).unwrap();
        assert_eq!((weights.bytes, weights.provenance), (62, Provenance::Assumed));
        assert_eq!((footprint.all.total, footprint.all.unexplained()), (210, 15 + 23));
        // 210 - 100 of KV cache - 10 of others - 58 of weights.
        assert_eq!(footprint.overhead.unwrap().bytes, 42);
    }

    #[test]
    fn one_device_has_no_overhead_and_a_part_of_one_of_two_says_so() {
        let copy = part(Component::Weights, 30, Provenance::Computed);
        let alone = device("a", 100, vec![copy.clone()]);
        let footprint = Footprint::of(vec![alone.clone()], Some(&copy), Value::Null).unwrap();
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
