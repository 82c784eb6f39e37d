//! Parses failed GPU allocations from allocator messages.
//!
//! Supported are PyTorch's `CUDA out of memory. Tried to allocate …` (since 2.1, also with HIP; used by five engines)
//! and ggml's `allocating … on device 0: cudaMalloc failed` and `failed to allocate CUDA0 buffer of size …`.

use serde::{Deserialize, Serialize};

/// A failed allocation and the GPU's memory at that moment, in bytes. PyTorch prints sizes with two decimals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocation {
    /// Index of the GPU among the engine's visible devices.
    pub gpu: u64,
    /// Size of the failed allocation.
    pub tried: u64,
    /// Capacity of the GPU.
    pub total: Option<u64>,
    /// Free memory.
    pub free: Option<u64>,
    /// Memory in use by the process, including its CUDA context.
    pub process: Option<u64>,
    /// The allocator's limit, if one was set.
    pub allowed: Option<u64>,
    /// Allocated by PyTorch.
    pub allocated: Option<u64>,
    /// Reserved by PyTorch but unallocated.
    pub reserved: Option<u64>,
}

/// Failed allocations in these texts; the last one of each GPU.
pub(super) fn allocations<'a>(texts: impl IntoIterator<Item = &'a String>) -> Vec<Allocation> {
    let mut found: Vec<Allocation> = Vec::new();
    for text in texts {
        let Some(new) = torch(text).or_else(|| ggml(text)) else {
            continue;
        };
        match found.iter_mut().find(|old| old.gpu == new.gpu) {
            Some(old) => *old = new,
            None => found.push(new),
        }
    }
    found.sort_by_key(|allocation| allocation.gpu);
    found
}

fn torch(text: &str) -> Option<Allocation> {
    let (_, text) = text.split_once("out of memory. Tried to allocate ")?;
    let (_, gpu) = text.split_once("GPU ")?;
    Some(Allocation {
        gpu: leading(gpu)?,
        tried: size(text)?,
        total: after(text, "total capacity of "),
        free: after(text, "of which "),
        process: after(text, "this process has "),
        allowed: before(text, " allowed"),
        allocated: before(text, " is allocated by PyTorch"),
        reserved: before(text, " is reserved by PyTorch"),
    })
}

fn ggml(text: &str) -> Option<Allocation> {
    if let Some((head, reason)) = text.split_once(" on device ") {
        let tried = head.split_once("allocating ").and_then(|(_, tried)| size(tried));
        return Some(Allocation {
            gpu: leading(reason).filter(|_| reason.contains("alloc failed"))?,
            tried: tried?,
            ..Allocation::default()
        });
    }
    let (device, bytes) = text
        .split_once("failed to allocate ")?
        .1
        .split_once(" buffer of size ")?;
    Some(Allocation {
        gpu: leading(device.trim_start_matches(|c: char| c.is_ascii_alphabetic()))?,
        tried: leading(bytes)?,
        ..Allocation::default()
    })
}

/// Parses the integer at the start of a text.
fn leading(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn after(text: &str, words: &str) -> Option<u64> {
    size(text.split_once(words)?.1)
}

fn before(text: &str, words: &str) -> Option<u64> {
    let head = text.split_once(words)?.0;
    let (rest, unit) = head.rsplit_once(' ')?;
    let number = rest.rsplit(' ').next()?;
    bytes(number, unit)
}

/// Parses the size at the start of a text: `1.50 GiB`, `512 bytes`.
fn size(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    bytes(words.next()?, words.next()?.trim_end_matches(['.', ',', ';']))
}

fn bytes(number: &str, unit: &str) -> Option<u64> {
    let scale = match unit {
        "bytes" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok().filter(|number: &f64| *number >= 0.0)?;
    Some((number * scale).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn found(texts: &[&str]) -> Vec<Allocation> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        allocations(&texts)
    }

    #[test]
    fn torch_reports_the_memory_of_the_gpu() {
        let text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 1 has a total capacity of 2.00 GiB of \
                    which 512 bytes is free. Including non-PyTorch memory, this process has 1.50 GiB memory in use. 1.25 GiB allowed; Of the \
                    allocated memory 1.00 GiB is allocated by PyTorch, and 3.00 KiB is reserved by PyTorch but unallocated. If reserved";
        let expected = Allocation {
            gpu: 1,
            tried: 768 * MIB,
            total: Some(2048 * MIB),
            free: Some(512),
            process: Some(1536 * MIB),
            allowed: Some(1280 * MIB),
            allocated: Some(1024 * MIB),
            reserved: Some(3072),
        };
        assert_eq!(found(&[text]), [expected]);
    }

    #[test]
    fn ggml_reports_the_requested_size() {
        let log = [
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 30.50 MiB on device 2: cudaMalloc failed: out of memory",
            "alloc_tensor_range: failed to allocate CUDA2 buffer of size 31981568",
        ];
        let of = |log: &[&str]| found(log).iter().map(|one| (one.gpu, one.tried)).collect::<Vec<_>>();
        assert_eq!(of(&log[..1]), [(2, 31_981_568)]);
        assert_eq!(of(&log), [(2, 31_981_568)]);
        assert_eq!(of(&["failed to allocate CPU buffer of size 12"]), [], "no GPU");
    }

    #[test]
    fn each_gpu_has_its_last_failure() {
        let oom = |gpu: u64, tried: &str| {
            format!(
                "HIP out of memory. Tried to allocate {tried}. GPU {gpu} has a total capacity of 1.00 GiB of which 0 bytes is free."
            )
        };
        let texts = [oom(1, "1.00 MiB"), oom(0, "2.00 MiB"), oom(1, "3.00 MiB")];
        let found = allocations(&texts);
        let figures: Vec<_> = found.iter().map(|one| (one.gpu, one.tried / MIB, one.free)).collect();
        assert_eq!(figures, [(0, 2, Some(0)), (1, 3, Some(0))]);
    }

    #[test]
    fn other_messages_are_ignored() {
        for text in [
            "CUDA error: out of memory",
            "out of memory. Tried to allocate x",
            "GPU 0",
            "allocating 3 MiB on device 0: ok",
        ] {
            assert_eq!(found(&[text]), [], "{text}");
        }
    }
}
