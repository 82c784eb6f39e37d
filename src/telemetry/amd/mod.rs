//! AMD GPUs, by the files of the kernel's driver.

mod card;
mod tenants;

use std::fs;
use std::path::PathBuf;

use crate::fault::{Fault, Kind, Result};

use super::absent::Absent;
use super::gpus::{GpuInfo, Vendor};
use super::reading::{Device, Reading, Source};

use card::{Card, text};
use tenants::tenants;

/// Where the kernel shows cards and processes; other folders in tests.
#[derive(Clone, Debug)]
pub struct Cards {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Default for Cards {
    fn default() -> Self {
        Self {
            sys: "/sys".into(),
            proc: "/proc".into(),
        }
    }
}

impl Cards {
    /// The AMD GPUs of this machine; never empty.
    pub fn list(&self) -> Result<Vec<GpuInfo>, Absent> {
        let driver = text(&self.sys.join("module/amdgpu/version"));
        let describe = |(index, card): (usize, Card)| {
            let memory = card.memory()?;
            Some(GpuInfo {
                index: u32::try_from(index).ok()?,
                id: card.id,
                name: card.name,
                vendor: Vendor::Amd,
                used: memory.0,
                total: memory.1,
                driver: driver.clone(),
                nodes: card.nodes,
            })
        };
        let gpus: Vec<GpuInfo> = self.cards().into_iter().enumerate().filter_map(describe).collect();
        if gpus.is_empty() {
            return Err(Absent::new(
                "no AMD GPU: no card in /sys/class/drm tells its memory",
                "load the `amdgpu` driver",
            ));
        }
        Ok(gpus)
    }

    /// A source that looks at the cards of these ids.
    pub fn source(&self, ids: &[String]) -> Result<impl Source + use<>> {
        let there = self.cards();
        let find = |id: &String| {
            there.iter().find(|card| card.id == *id).cloned().ok_or_else(|| {
                Fault::missing(
                    format!("there is no GPU `{id}`"),
                    "see `gpu::list()` for those that are there",
                )
            })
        };
        Ok(Looks {
            cards: ids.iter().map(find).collect::<Result<_>>()?,
            proc: self.proc.clone(),
        })
    }

    /// The cards that tell their memory, by the number in their name.
    fn cards(&self) -> Vec<Card> {
        let folder = self.sys.join("class/drm");
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut cards: Vec<(u32, Card)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                // `card0` is a card, `card0-DP-1` one of its outputs.
                let number = entry.file_name().to_str()?.strip_prefix("card")?.parse().ok()?;
                Some((number, Card::at(&entry.path().join("device"))?))
            })
            .collect();
        cards.sort_by_key(|(number, _)| *number);
        cards.into_iter().map(|(_, card)| card).collect()
    }
}

/// Looks at chosen cards.
#[derive(Clone)]
struct Looks {
    cards: Vec<Card>,
    proc: PathBuf,
}

impl Looks {
    fn devices(&self) -> Result<Vec<Device>> {
        let device = |card: &Card| {
            let (used, total) = card
                .memory()
                .ok_or_else(|| Fault::new(Kind::Io, format!("GPU `{}` no longer tells its memory", card.id)))?;
            Ok(Device {
                id: card.id.clone(),
                name: card.name.clone(),
                used,
                total,
            })
        };
        self.cards.iter().map(device).collect()
    }
}

impl Source for Looks {
    fn name(&self) -> &'static str {
        "amd"
    }

    fn read(&mut self) -> Result<Reading> {
        Ok(Reading {
            devices: self.devices()?,
            tenants: tenants(&self.proc, &self.cards),
            activity: self.cards.iter().map(Card::activity).collect(),
        })
    }

    fn quick(&mut self) -> Result<Reading> {
        Ok(Reading {
            devices: self.devices()?,
            ..Reading::default()
        })
    }

    /// Every file of every process must be opened to see who holds memory.
    fn slow(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.clone()))
    }
}
