//! The model of GPU memory, in bytes (pure): what an engine takes at its start, what requests add, and when it is too much.
//!
//! Three styles, as three kinds of engine do it: [`pool`] (vLLM, TGI), [`dynamic`] (transformers), [`fixed`] (llama.cpp).

mod blocks;
mod cuda;
mod dynamic;
mod fixed;
mod pool;

pub(super) use blocks::Blocks;
pub(super) use cuda::CudaOom;
pub(super) use dynamic::DynamicMemory;
pub(super) use fixed::FixedPlan;
pub(super) use pool::{PoolAsk, PoolPlan};

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_073_741_824.0;

/// MiB of a profile as bytes.
pub(super) fn mib(size: f64) -> u64 {
    (size * MIB).round() as u64
}

/// Bytes as GiB, for messages.
pub(super) fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}

/// What torch sees of a device: its total less what the driver keeps, or less, when a limit makes it seem smaller.
pub(super) fn visible(total: u64, reserved: u64, limit: Option<u64>) -> u64 {
    total.saturating_sub(reserved).min(limit.unwrap_or(u64::MAX))
}
