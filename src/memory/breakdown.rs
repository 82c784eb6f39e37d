//! Memory by component, which adds up to the total in use.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// What a part of the memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The model's parameters, as stored on the device.
    Weights,
    /// The KV cache that the engine has reserved, used or not.
    KvPool,
    /// The KV cache that holds tokens: within the pool if there is one, otherwise a component of its own.
    KvUsed,
    /// What a forward pass needs beyond weights and KV cache, at its peak.
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
    /// Bytes. Negative only for what is unexplained.
    pub bytes: i64,
    /// Where the figure comes from.
    pub provenance: Provenance,
    /// How it was derived, for people: the log line, the formula, the name of the counter.
    pub source: String,
    /// The component that contains this part, so that it does not count twice: the KV cache in use lies within the
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
    /// `usage` if a component comes twice, is `unexplained` or negative, or lies within one that is missing or
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
                    .find(|part| part.component == outer && part.within.is_none());
                let around = around.ok_or_else(|| {
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

    /// What no part explains; negative if the parts exceed the total.
    pub fn unexplained(&self) -> i64 {
        self.part(Component::Unexplained).map_or(0, |part| part.bytes)
    }
}

#[cfg(test)]
mod tests {
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
