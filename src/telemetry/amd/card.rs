//! One AMD card, read from sysfs (Linux, `Documentation/gpu/amdgpu/driver-misc.rst`: `mem_info_vram_*`; `thermal.rst`
//! in the same folder: `gpu_busy_percent`, and hwmon's `power1_average` and `power1_input` in microwatts).

use std::fs;
use std::path::{Path, PathBuf};

use crate::telemetry::Activity;

#[derive(Clone, Debug)]
pub(super) struct Card {
    folder: PathBuf,
    /// Its serial number, otherwise its PCI address.
    pub(super) id: String,
    pub(super) name: String,
    /// PCI address, as in the processes' fdinfo: `0000:03:00.0`.
    pub(super) address: String,
    /// Its device files below `/dev/dri`: `card0`, `renderD128`.
    pub(super) nodes: Vec<String>,
}

impl Card {
    /// The card in this sysfs folder; `None` if it does not report its memory.
    pub(super) fn at(folder: &Path) -> Option<Self> {
        number(&folder.join("mem_info_vram_total"))?;
        let uevent = text(&folder.join("uevent")).unwrap_or_default();
        let address = uevent
            .lines()
            .find_map(|line| line.strip_prefix("PCI_SLOT_NAME="))
            .unwrap_or_default()
            .to_owned();
        // The chip's serial number, as ROCm's tools show it; small cards have none.
        let id = match text(&folder.join("unique_id")).filter(|id| id.bytes().any(|byte| byte != b'0')) {
            Some(unique) => format!("GPU-{unique}"),
            None => format!("PCI-{address}"),
        };
        Some(Self {
            folder: folder.to_owned(),
            id,
            name: text(&folder.join("product_name"))
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "AMD GPU".to_owned()),
            address,
            nodes: nodes(&folder.join("drm")),
        })
    }

    /// Used and total bytes.
    pub(super) fn memory(&self) -> Option<(u64, u64)> {
        Some((
            number(&self.folder.join("mem_info_vram_used"))?,
            number(&self.folder.join("mem_info_vram_total"))?,
        ))
    }

    pub(super) fn activity(&self) -> Activity {
        Activity {
            device: self.id.clone(),
            power_mw: self.power_uw().map(|power| power / 1000),
            busy_percent: number(&self.folder.join("gpu_busy_percent")),
        }
    }

    /// From the only folder below `hwmon`, whose number changes between boots. Newer chips report only the momentary
    /// power.
    fn power_uw(&self) -> Option<u64> {
        let sensors = fs::read_dir(self.folder.join("hwmon")).ok()?.flatten();
        sensors
            .map(|sensor| sensor.path())
            .find_map(|sensor| number(&sensor.join("power1_average")).or_else(|| number(&sensor.join("power1_input"))))
    }
}

/// The names of a card's device files.
fn nodes(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("card") || name.starts_with("renderD"))
        .collect();
    names.sort();
    names
}

/// The content of a small file without surrounding whitespace.
pub(super) fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}
