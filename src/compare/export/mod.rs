//! What other programs read: what other tools write, written from our boundaries, the counterpart of `import`.

mod sheets;
mod tgi_profiler;
mod vllm_bench;

pub use sheets::{Sheet, sheets};
pub use tgi_profiler::TgiProfiler;
pub use vllm_bench::{Traffic, VllmBench};
