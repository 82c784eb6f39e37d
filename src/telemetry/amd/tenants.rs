//! Memory of processes on AMD cards, read from their file descriptors' fdinfo (Linux,
//! `Documentation/gpu/drm-usage-stats.rst`).

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use crate::telemetry::reading::Tenant;

use super::card::{Card, text};

/// The processes that hold memory on these cards. Processes of other users cannot be read and are missing.
pub(super) fn tenants(proc: &Path, cards: &[Card]) -> Vec<Tenant> {
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
    let mut memory = BTreeMap::new();
    let mut seen = HashSet::new();
    let Ok(entries) = fs::read_dir(fdinfo) else {
        return memory;
    };
    for entry in entries.flatten() {
        let Some(client) = text(&entry.path()).and_then(|text| Client::parse(&text)) else {
            continue;
        };
        if seen.insert((client.address.clone(), client.number)) {
            *memory.entry(client.address).or_default() += client.bytes;
        }
    }
    memory
}

/// The content of one fdinfo file.
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
        // Newer kernels use the second name.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_fdinfo() {
        let text = "pos:\t0\nflags:\t02\ndrm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t2048 KiB\n";
        let client = Client::parse(text).unwrap();
        assert_eq!((client.number, client.bytes), (7, 2 << 20));
        assert_eq!(Client::parse(&text.replace("amdgpu", "i915")), None);
        assert_eq!(Client::parse("pos:\t0\n"), None);
        assert_eq!(Client::parse(&text.replace("2048 KiB", "a lot")), None);
    }

    #[test]
    fn parses_the_kernels_units() {
        assert_eq!(bytes("12"), Some(12));
        assert_eq!(bytes("3 MiB"), Some(3 << 20));
        assert_eq!(bytes("3 GB"), None);
        assert_eq!(bytes("99999999999999999 MiB"), None);
    }
}
