//! Model of GPU memory in bytes (pure): what an engine allocates at its start and for requests, and when it runs out.
//!
//! Three styles: [`pool`] (vLLM, TGI), [`dynamic`] (transformers), [`fixed`] (llama.cpp).

mod blocks;
mod cuda;
mod dynamic;
mod fixed;
mod pool;

pub(super) use blocks::BlockPool;
pub(super) use cuda::CudaOom;
pub(super) use dynamic::DynamicMemory;
pub(super) use fixed::FixedPlan;
pub(super) use pool::{PoolOptions, PoolPlan};

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_073_741_824.0;

/// Bytes of a profile's size in MiB.
pub(super) fn mib(size: f64) -> u64 {
    (size * MIB).round() as u64
}

pub(super) fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}

/// Size of the device as seen by torch: without the driver's share, and at most `limit`.
pub(super) fn visible_bytes(total: u64, reserved: u64, limit: Option<u64>) -> u64 {
    total.saturating_sub(reserved).min(limit.unwrap_or(u64::MAX))
}
