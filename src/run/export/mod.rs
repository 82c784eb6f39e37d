//! What other programs read: what other tools write, written from our boundaries, the counterpart of `import`; and rows of figures as CSV.

mod sheets;
mod table;
mod tgi_profiler;
mod vllm_bench;

pub use sheets::{Sheet, sheets};
pub use table::csv;
pub use tgi_profiler::TgiProfiler;
pub use vllm_bench::{Traffic, VllmBench};
