//! AMD GPUs, by the files of the kernel's driver (Linux, `Documentation/gpu/amdgpu/driver-misc.rst`: `mem_info_vram_*`;
//! `Documentation/gpu/drm-usage-stats.rst`: what each process holds).

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::fault::{Fault, Kind, Result};

use super::absent::Absent;
use super::gpus::{GpuInfo, Vendor};
use super::reading::{Device, Reading, Source, Tenant};

/// Every file of every process must be opened to see who holds memory, so it is done this often at most.
const TENANTS_EVERY: Duration = Duration::from_millis(500);

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

/// One card.
#[derive(Clone, Debug)]
struct Card {
    folder: PathBuf,
    id: String,
    name: String,
    /// Address on the bus, by which processes name it: `0000:03:00.0`.
    address: String,
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
            tenants: Vec::new(),
            tenants_at: None,
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

impl Card {
    fn at(folder: &Path) -> Option<Self> {
        number(&folder.join("mem_info_vram_total"))?;
        let uevent = text(&folder.join("uevent")).unwrap_or_default();
        let address = uevent
            .lines()
            .find_map(|line| line.strip_prefix("PCI_SLOT_NAME="))
            .unwrap_or_default()
            .to_owned();
        // The serial number of the chip, as ROCm's tools show it; small cards have none.
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
        })
    }

    /// Bytes used and there.
    fn memory(&self) -> Option<(u64, u64)> {
        Some((
            number(&self.folder.join("mem_info_vram_used"))?,
            number(&self.folder.join("mem_info_vram_total"))?,
        ))
    }
}

/// Looks at chosen cards.
struct Looks {
    cards: Vec<Card>,
    proc: PathBuf,
    tenants: Vec<Tenant>,
    tenants_at: Option<Instant>,
}

impl Source for Looks {
    fn name(&self) -> &'static str {
        "amd"
    }

    fn read(&mut self) -> Result<Reading> {
        let mut devices = Vec::with_capacity(self.cards.len());
        for card in &self.cards {
            let (used, total) = card
                .memory()
                .ok_or_else(|| Fault::new(Kind::Io, format!("GPU `{}` no longer tells its memory", card.id)))?;
            devices.push(Device {
                id: card.id.clone(),
                name: card.name.clone(),
                used,
                total,
            });
        }
        if self.tenants_at.is_none_or(|at| at.elapsed() >= TENANTS_EVERY) {
            self.tenants = tenants(&self.proc, &self.cards);
            self.tenants_at = Some(Instant::now());
        }
        Ok(Reading {
            devices,
            tenants: self.tenants.clone(),
        })
    }
}

/// Who holds memory on these cards. Processes of other users cannot be read, and are left out.
fn tenants(proc: &Path, cards: &[Card]) -> Vec<Tenant> {
    let Ok(entries) = fs::read_dir(proc) else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut tenants = Vec::new();
    for pid in pids {
        let held = held_by(&proc.join(pid.to_string()).join("fdinfo"));
        tenants.extend(cards.iter().filter_map(|card| {
            Some(Tenant {
                pid,
                device: card.id.clone(),
                used: Some(*held.get(&card.address)?),
            })
        }));
    }
    tenants.sort_by_key(|tenant| tenant.pid);
    tenants
}

/// Bytes of video memory by card address. Several descriptors of a process can be one client: each client counts once.
fn held_by(fdinfo: &Path) -> BTreeMap<String, u64> {
    let mut held = BTreeMap::new();
    let mut seen = HashSet::new();
    let Ok(entries) = fs::read_dir(fdinfo) else {
        return held;
    };
    for entry in entries.flatten() {
        let Some(client) = text(&entry.path()).and_then(|text| Client::parse(&text)) else {
            continue;
        };
        if seen.insert((client.address.clone(), client.number)) {
            *held.entry(client.address).or_default() += client.bytes;
        }
    }
    held
}

/// What one descriptor tells.
#[derive(Debug, PartialEq, Eq)]
struct Client {
    address: String,
    number: u64,
    bytes: u64,
}

impl Client {
    fn parse(text: &str) -> Option<Self> {
        let field = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::trim))
        };
        if field("drm-driver")? != "amdgpu" {
            return None;
        }
        // The second name is that of newer kernels.
        let memory = field("drm-memory-vram").or_else(|| field("drm-resident-vram"))?;
        Some(Self {
            address: field("drm-pdev")?.to_owned(),
            number: field("drm-client-id")?.parse().ok()?,
            bytes: bytes(memory)?,
        })
    }
}

/// `12 KiB`, `3 MiB` or plain bytes.
fn bytes(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    match words.next() {
        None => Some(number),
        Some("KiB") => number.checked_mul(1 << 10),
        Some("MiB") => number.checked_mul(1 << 20),
        Some(_) => None,
    }
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_descriptor_tells_is_read() {
        let text = "pos:\t0\nflags:\t02\ndrm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t2048 KiB\n";
        let client = Client::parse(text).unwrap();
        assert_eq!((client.number, client.bytes), (7, 2 << 20));
        assert_eq!(Client::parse(&text.replace("amdgpu", "i915")), None);
        assert_eq!(Client::parse("pos:\t0\n"), None);
        assert_eq!(Client::parse(&text.replace("2048 KiB", "a lot")), None);
    }

    #[test]
    fn units_are_those_of_the_kernel() {
        assert_eq!(bytes("12"), Some(12));
        assert_eq!(bytes("3 MiB"), Some(3 << 20));
        assert_eq!(bytes("3 GB"), None);
        assert_eq!(bytes("99999999999999999 MiB"), None);
    }
}
