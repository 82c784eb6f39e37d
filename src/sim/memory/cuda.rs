//! PyTorch's out-of-memory message, as worded since torch 2.5.

use std::fmt;

/// A failed allocation. All sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CudaOom {
    /// Requested.
    pub(crate) tried: u64,
    /// Size of the device as seen by torch.
    pub(crate) capacity: u64,
    /// Used by the process, including its CUDA context.
    pub(crate) process: u64,
    /// Limit of the allocator, if it is capped.
    pub(crate) allowed: Option<u64>,
    pub(crate) allocated: u64,
    /// Reserved, including the allocated bytes.
    pub(crate) reserved: u64,
}

impl fmt::Display for CudaOom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is free. \
             Including non-PyTorch memory, this process has {} memory in use. ",
            Size(self.tried),
            Size(self.capacity),
            Size(self.capacity.saturating_sub(self.process)),
            Size(self.process),
        )?;
        if let Some(allowed) = self.allowed {
            write!(f, "{} allowed; ", Size(allowed))?;
        }
        write!(
            f,
            "Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated.",
            Size(self.allocated),
            Size(self.reserved.saturating_sub(self.allocated)),
        )
    }
}

/// Bytes as torch writes them: two decimals, in the largest unit with a value of at least one.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} bytes", self.0),
            1024..1_048_576 => write!(f, "{:.2} KiB", bytes / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.2} MiB", bytes / super::MIB),
            _ => write!(f, "{:.2} GiB", bytes / super::GIB),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_matches_the_known_pattern() {
        let oom = CudaOom {
            tried: 1_610_612_736,
            capacity: 150_109_000_000,
            process: 13_196_000_000,
            allowed: Some(12 << 30),
            allocated: 9_513_000_000,
            reserved: 12_337_000_000,
        };
        let text = oom.to_string();
        let pattern = regex::Regex::new(concat!(
            r"CUDA out of memory\. Tried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)\. GPU (\d+) has a total capacity of ",
            r"([\d.]+) (MiB|GiB) of which ([\d.]+) (bytes|KiB|MiB|GiB) is free"
        ))
        .unwrap();
        let found = pattern.captures(&text).unwrap();
        assert_eq!((&found[1], &found[2], &found[4]), ("1.50", "GiB", "139.80"));
        assert!(text.contains("12.00 GiB allowed; "));
    }
}
