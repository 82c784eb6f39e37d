//! AMD GPUs, read from the kernel driver's files.
//!
//! Memory, power and utilisation come from sysfs (Linux, `Documentation/gpu/amdgpu/driver-misc.rst`:
//! `mem_info_vram_*`; `thermal.rst` in the same folder: `gpu_busy_percent`, and hwmon's `power1_average` and
//! `power1_input` in microwatts). Memory of processes comes from their file descriptors' fdinfo
//! (`Documentation/gpu/drm-usage-stats.rst`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Activity, Device, GpuFiles, GpuInfo, GpuVendor, Reading, Source, Tenant, Vendor, indices};
use crate::fault::{Fault, Kind, Result};

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

/// AMD.
pub struct Amd;

impl GpuVendor for Amd {
    fn name(&self) -> &'static str {
        "amd"
    }

    fn list(&self) -> Result<Vec<GpuInfo>> {
        AmdCards::default().list()
    }

    fn source(&self, ids: &[String]) -> Result<Box<dyn Source>> {
        Ok(Box::new(AmdCards::default().source(ids)?))
    }

    fn choices(&self) -> &'static [&'static str] {
        &["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"]
    }

    fn visible(&self, gpus: &[GpuInfo]) -> Vec<(&'static str, String)> {
        vec![("HIP_VISIBLE_DEVICES", indices(gpus))]
    }

    fn files(&self, gpus: &[GpuInfo]) -> Option<GpuFiles> {
        Some(device_files(gpus, Path::new("/dev")))
    }
}

/// The device files of these GPUs; `dev` is the folder of device files.
///
/// AMD's instructions also disable seccomp (`seccomp=unconfined`) and share the host's IPC namespace. The first only
/// allows binding memory to NUMA nodes, the second only replaces a small `/dev/shm`; containers get neither.
fn device_files(gpus: &[GpuInfo], dev: &Path) -> GpuFiles {
    let all_known = gpus.iter().all(|gpu| !gpu.nodes.is_empty());
    let (files, env) = if all_known {
        let files = gpus.iter().flat_map(|gpu| &gpu.nodes).map(|node| format!("dri/{node}"));
        // Only these files can be opened, so the runtime numbers them from 0.
        let numbers: Vec<String> = (0..gpus.len()).map(|index| index.to_string()).collect();
        (files.collect(), format!("HIP_VISIBLE_DEVICES={}", numbers.join(",")))
    } else {
        let env = format!("ROCR_VISIBLE_DEVICES={}", indices(gpus));
        (vec!["dri".to_owned()], env)
    };
    let devices: Vec<String> = std::iter::once("kfd".to_owned())
        .chain(files)
        .map(|file| dev.join(file).display().to_string())
        .collect();
    // `render` has no fixed number, so the owning groups on this host are given too.
    let owners = devices.iter().filter_map(|file| owning_group(Path::new(file)));
    let mut groups: Vec<String> = owners.chain(["video".to_owned()]).collect();
    groups.sort();
    groups.dedup();
    GpuFiles {
        devices,
        groups,
        env: vec![env],
    }
}

/// Gid of a device file; `None` for root's group.
fn owning_group(file: &Path) -> Option<String> {
    let group = file.metadata().ok()?.gid();
    (group != 0).then(|| group.to_string())
}

impl AmdCards {
    /// Lists the AMD GPUs of this machine; never empty.
    pub fn list(&self) -> Result<Vec<GpuInfo>> {
        let driver = text(&self.sys.join("module/amdgpu/version"));
        let describe = |(index, card): (usize, Card)| {
            let memory = card.memory()?;
            Some(GpuInfo {
                index: u32::try_from(index).ok()?,
                id: card.id,
                name: card.name,
                vendor: Vendor(&Amd),
                used: memory.0,
                total: memory.1,
                driver: driver.clone(),
                nodes: card.nodes,
            })
        };
        let gpus: Vec<GpuInfo> = self.cards().into_iter().enumerate().filter_map(describe).collect();
        if gpus.is_empty() {
            return Err(Fault::missing(
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
            let found = cards.iter().find(|card| card.id == *id).cloned();
            let message = || format!("there is no GPU `{id}`");
            found.ok_or_else(|| Fault::missing(message(), "`gpu::list()` lists the available GPUs"))
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

    /// Finding processes requires reading every open file's fdinfo, which is slow.
    fn slow_source(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.clone()))
    }
}

#[derive(Clone, Debug)]
struct Card {
    folder: PathBuf,
    /// Its serial number, otherwise its PCI address.
    id: String,
    name: String,
    /// PCI address, as in the processes' fdinfo: `0000:03:00.0`.
    address: String,
    /// Its device files below `/dev/dri`: `card0`, `renderD128`.
    nodes: Vec<String>,
}

impl Card {
    /// The card in this sysfs folder; `None` if it does not report its memory.
    fn at(folder: &Path) -> Option<Self> {
        number(&folder.join("mem_info_vram_total"))?;
        let uevent = text(&folder.join("uevent")).unwrap_or_default();
        let address = uevent
            .lines()
            .find_map(|line| line.strip_prefix("PCI_SLOT_NAME="))
            .unwrap_or_default()
            .to_owned();
        // The chip's serial number, as in ROCm's tools; small cards have none.
        let id = match text(&folder.join("unique_id")).filter(|id| id.bytes().any(|byte| byte != b'0')) {
            Some(unique) => format!("GPU-{unique}"),
            None => format!("PCI-{address}"),
        };
        let name = text(&folder.join("product_name")).filter(|name| !name.is_empty());
        Some(Self {
            folder: folder.to_owned(),
            id,
            name: name.unwrap_or_else(|| "AMD GPU".to_owned()),
            address,
            nodes: nodes(&folder.join("drm")),
        })
    }

    /// Used and total bytes.
    fn memory(&self) -> Option<(u64, u64)> {
        Some((
            number(&self.folder.join("mem_info_vram_used"))?,
            number(&self.folder.join("mem_info_vram_total"))?,
        ))
    }

    fn activity(&self) -> Activity {
        Activity {
            device: self.id.clone(),
            power_mw: self.power_uw().map(|power| power / 1000),
            busy_percent: number(&self.folder.join("gpu_busy_percent")),
        }
    }

    /// Reads the only folder below `hwmon`, whose number changes between boots. Newer chips report only the current
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
fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The processes that hold memory on these cards. Processes of other users cannot be read and are missing.
fn tenants(proc: &Path, cards: &[Card]) -> Vec<Tenant> {
    let Ok(entries) = fs::read_dir(proc) else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut tenants = Vec::new();
    for pid in pids {
        let memory = memory_by_card(&proc.join(pid.to_string()).join("fdinfo"));
        tenants.extend(cards.iter().filter_map(|card| {
            Some(Tenant {
                pid,
                device: card.id.clone(),
                used: Some(*memory.get(&card.address)?),
            })
        }));
    }
    tenants.sort_by_key(|tenant| tenant.pid);
    tenants
}

/// Bytes of video memory by PCI address. Several descriptors of a process can refer to one client; each client counts
/// once.
fn memory_by_card(fdinfo: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(fdinfo).into_iter().flatten().flatten();
    let clients: BTreeMap<(String, u64), u64> = entries.filter_map(|entry| client(&text(&entry.path())?)).collect();
    let mut memory = BTreeMap::new();
    for ((address, _), bytes) in clients {
        *memory.entry(address).or_default() += bytes;
    }
    memory
}

/// The content of one fdinfo file: the card's PCI address with the number of the client, and its bytes.
fn client(text: &str) -> Option<((String, u64), u64)> {
    let field = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::trim))
    };
    if field("drm-driver")? != "amdgpu" {
        return None;
    }
    // Newer kernels use the second name.
    let memory = field("drm-memory-vram").or_else(|| field("drm-resident-vram"))?;
    let number = field("drm-client-id")?.parse().ok()?;
    Some(((field("drm-pdev")?.to_owned(), number), bytes(memory)?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_fdinfo() {
        let text = "pos:\t0\nflags:\t02\ndrm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t2048 KiB\n";
        assert_eq!(client(text), Some((("0000:03:00.0".to_owned(), 7), 2 << 20)));
        assert_eq!(client(&text.replace("amdgpu", "i915")), None);
        assert_eq!(client("pos:\t0\n"), None);
        assert_eq!(client(&text.replace("2048 KiB", "a lot")), None);
    }

    #[test]
    fn parses_the_kernels_units() {
        assert_eq!(bytes("12"), Some(12));
        assert_eq!(bytes("3 MiB"), Some(3 << 20));
        assert_eq!(bytes("3 GB"), None);
        assert_eq!(bytes("99999999999999999 MiB"), None);
    }

    #[test]
    fn amd_gpus_with_unknown_device_files_are_selected_by_environment() {
        let gpu = |index, nodes: &[&str]| GpuInfo {
            index,
            id: format!("PCI-{index}"),
            name: "AMD GPU".into(),
            vendor: Vendor(&Amd),
            used: 0,
            total: 1,
            driver: None,
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        };
        let amd = device_files(&[gpu(1, &["renderD129"]), gpu(3, &[])], Path::new("/nowhere"));
        assert_eq!(amd.devices, ["/nowhere/kfd", "/nowhere/dri"]);
        assert_eq!(amd.env, ["ROCR_VISIBLE_DEVICES=1,3"]);
        assert_eq!(amd.groups, ["video"]);
    }
}
