//! Dynamic style: memory grows with the requests through PyTorch's caching allocator, which does not return memory by
//! itself.
//!
//! allocated = base + bytes per token · tokens (prefill includes activations, decode only the KV cache)
//! reserved = allocated + cache + (ratio − 1) · (allocated − base), rounded up to segments of 2 MiB
//!
//! Allocation fails when reserved exceeds the cap: in the measured rows fragmentation, not a lack of bytes, fails
//! first.

use super::{CudaOom, mib, visible_bytes};
use crate::sim::profile::Dynamic;

/// The allocator requests memory from the driver in segments of this size.
const SEGMENT: u64 = 2 << 20;

#[derive(Clone, Debug)]
pub(crate) struct DynamicMemory {
    profile: Dynamic,
    device: u64,
    cap: u64,
    reserved: u64,
}

impl DynamicMemory {
    /// Memory after the start. `limit`: visible bytes of the device.
    pub(crate) fn new(profile: &Dynamic, limit: Option<u64>) -> Self {
        let device = visible_bytes(mib(profile.total_mib), mib(profile.reserved_mib), limit);
        let room = device.saturating_sub(profile.context_bytes);
        let mut memory = Self {
            profile: profile.clone(),
            device,
            cap: profile.cap_bytes.map_or(room, |cap| cap.min(room)),
            reserved: 0,
        };
        memory.reserved = memory.reserved_for(profile.base_bytes);
        memory
    }

    /// Bytes allocated at the peak of a prefill, while other sequences hold `resident` tokens.
    pub(crate) fn prefill(&self, tokens: u64, resident: u64) -> u64 {
        self.profile.base_bytes
            + self.profile.prefill_bytes_per_token.saturating_mul(tokens)
            + self.profile.kv_bytes_per_token.saturating_mul(resident)
    }

    /// Bytes allocated while `resident` tokens are held.
    pub(crate) fn decode(&self, resident: u64) -> u64 {
        self.prefill(0, resident)
    }

    /// Bytes reserved for this many allocated bytes.
    pub(crate) fn reserved_for(&self, allocated: u64) -> u64 {
        let grown = allocated.saturating_sub(self.profile.base_bytes) as f64;
        let cached =
            self.profile.base_bytes as f64 + self.profile.cache_bytes as f64 + self.profile.cache_ratio * grown;
        (cached.ceil() as u64).div_ceil(SEGMENT).saturating_mul(SEGMENT)
    }

    /// Grows to this many allocated bytes, or fails. A failure empties the cache.
    pub(crate) fn grow(&mut self, allocated: u64) -> Result<(), CudaOom> {
        let reserved = self.reserved_for(allocated);
        if reserved <= self.cap {
            self.reserved = self.reserved.max(reserved);
            return Ok(());
        }
        let base = self.profile.base_bytes + self.profile.cache_bytes;
        let possible =
            self.profile.base_bytes + (self.cap.saturating_sub(base) as f64 / self.profile.cache_ratio.max(1.0)) as u64;
        self.reserved = self.reserved_for(self.profile.base_bytes);
        Err(CudaOom {
            tried: allocated.saturating_sub(possible).max(SEGMENT),
            capacity: self.device,
            process: self.cap + self.profile.context_bytes,
            allowed: self.profile.cap_bytes,
            allocated: possible.min(self.cap),
            reserved: self.cap,
        })
    }

    /// Whether the engine itself fits.
    pub(crate) fn check_start(&self) -> Result<(), CudaOom> {
        self.clone().grow(self.profile.base_bytes)
    }

    /// Bytes in use on the device: driver, context, and the reserved maximum.
    pub(crate) fn used(&self) -> u64 {
        mib(self.profile.reserved_mib) + self.profile.context_bytes + self.reserved
    }

    /// Size of the device as reported by NVML.
    pub(crate) fn total(&self) -> u64 {
        self.device + mib(self.profile.reserved_mib)
    }
}

#[cfg(test)]
mod tests;
