//! Memory by component, adding up to what is physically there.

use serde::{Deserialize, Serialize};

use super::{Component, Part, Provenance};
use crate::fault::{Fault, Result};

/// What the memory of one device, or of all devices of an engine together, consists of.
///
/// The parts that lie within no other add up to `total` exactly: [`Breakdown::new`] puts what is left into
/// [`Component::Unexplained`], and never into another part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breakdown {
    /// The device's id; none for all devices of the engine together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Physical bytes, by everybody, at the moment that is broken down.
    pub total: u64,
    /// The parts, in the order of [`Component::ALL`].
    pub parts: Vec<Part>,
}

impl Breakdown {
    /// Breaks `total` bytes into `parts`; what they leave is unexplained.
    ///
    /// # Errors
    ///
    /// `usage` where a component comes twice, where one is given as unexplained or below zero, or where a part lies within one that is not
    /// there or is smaller than itself.
    pub fn new(device: Option<String>, total: u64, mut parts: Vec<Part>) -> Result<Self> {
        for (index, part) in parts.iter().enumerate() {
            let name = part.component;
            if name == Component::Unexplained {
                return Err(Fault::usage(
                    "what is unexplained follows from the other parts: leave it out",
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
        let total_signed = i64::try_from(total).map_err(|_| Fault::usage("no device has so many bytes"))?;
        let explained = parts
            .iter()
            .filter(|part| part.within.is_none())
            .try_fold(0_i64, |sum, part| sum.checked_add(part.bytes))
            .ok_or_else(|| Fault::usage("the parts are more bytes than any device has"))?;
        parts.push(Part {
            component: Component::Unexplained,
            bytes: total_signed - explained,
            provenance: Provenance::Computed,
            source: "the physical figure less the other parts".into(),
            within: None,
        });
        parts.sort_by_key(|part| part.component);
        Ok(Self { device, total, parts })
    }

    /// The part of a component; none where nothing is known of it.
    #[must_use]
    pub fn part(&self, component: Component) -> Option<&Part> {
        self.parts.iter().find(|part| part.component == component)
    }

    /// What no part explains; below zero where the parts say more than is there.
    #[must_use]
    pub fn unexplained(&self) -> i64 {
        self.part(Component::Unexplained).map_or(0, |part| part.bytes)
    }
}

#[cfg(test)]
mod tests;
