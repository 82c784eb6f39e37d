//! AMD GPUs, read from the kernel driver's files.

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

/// Roots of the kernel's file systems; different folders in tests.
#[derive(Clone, Debug)]
pub struct AmdCards {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Default for AmdCards {
    fn default() -> Self {
        Self {
            sys: "/sys".into(),
            proc: "/proc".into(),
        }
    }
}

impl AmdCards {
    /// Lists the AMD GPUs of this machine; never empty.
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
                "no AMD GPU: no card in /sys/class/drm reports its memory",
                "load the `amdgpu` driver",
            ));
        }
        Ok(gpus)
    }

    /// A source that reads the cards with these ids.
    pub fn source(&self, ids: &[String]) -> Result<impl Source + use<>> {
        let cards = self.cards();
        let find = |id: &String| {
            cards.iter().find(|card| card.id == *id).cloned().ok_or_else(|| {
                Fault::missing(
                    format!("there is no GPU `{id}`"),
                    "`gpu::list()` lists the available GPUs",
                )
            })
        };
        Ok(CardSource {
            cards: ids.iter().map(find).collect::<Result<_>>()?,
            proc: self.proc.clone(),
        })
    }

    /// The cards that report their memory, ordered by the number in their name.
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

#[derive(Clone)]
struct CardSource {
    cards: Vec<Card>,
    proc: PathBuf,
}

impl CardSource {
    fn devices(&self) -> Result<Vec<Device>> {
        let device = |card: &Card| {
            let (used, total) = card
                .memory()
                .ok_or_else(|| Fault::new(Kind::Io, format!("GPU `{}` no longer reports its memory", card.id)))?;
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

impl Source for CardSource {
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

    fn read_memory(&mut self) -> Result<Reading> {
        Ok(Reading {
            devices: self.devices()?,
            ..Reading::default()
        })
    }

    /// Processes are found by reading every open file's fdinfo, which is slow.
    fn slow_source(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.clone()))
    }
}
