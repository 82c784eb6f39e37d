//! Writes results in formats that other programs read: CSV tables, and the files of other tools (the
//! counterpart of `import`).

mod sheets;
mod tgi_profiler;
mod vllm_bench;

pub use sheets::{Sheet, sheets};
pub use tgi_profiler::TgiProfiler;
pub use vllm_bench::{Traffic, VllmBench};
