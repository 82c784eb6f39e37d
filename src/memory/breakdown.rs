//! Memory by component, which adds up to the physical total.

use serde::{Deserialize, Serialize};

use super::{Component, Part, Provenance};
use crate::fault::{Fault, Result};

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
    /// Physical bytes in use by all processes at that moment.
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
            source: "the physical figure less the other parts".into(),
            within: None,
        });
        parts.sort_by_key(|part| part.component);
        Ok(Self { device, total, parts })
    }

    /// The part of a component; `None` if it is unknown.
    #[must_use]
    pub fn part(&self, component: Component) -> Option<&Part> {
        self.parts.iter().find(|part| part.component == component)
    }

    /// What no part explains; negative if the parts exceed the total.
    #[must_use]
    pub fn unexplained(&self) -> i64 {
        self.part(Component::Unexplained).map_or(0, |part| part.bytes)
    }
}

#[cfg(test)]
mod tests;
