//! Writes results in formats that other programs read, one file for each: the counterpart of `import`.

mod figures;
mod hpml;
mod mlflow;
mod opentelemetry;
mod prometheus;
mod sheets;
mod tgi_profiler;
mod vllm_bench;
mod vllm_sweep;

pub use hpml::{FILES as HPML_FILES, hpml};
pub use mlflow::mlflow;
pub use opentelemetry::opentelemetry;
pub use prometheus::prometheus;
pub use sheets::{Sheet, sheets, stored_tables};
pub use tgi_profiler::TgiProfiler;
pub use vllm_bench::{Traffic, VllmBench};
pub use vllm_sweep::vllm_sweep;
