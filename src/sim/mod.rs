//! Simulated inference engine: a model of GPU memory and time behind the real HTTP APIs.
//!
//! It imitates vLLM, SGLang, TensorRT-LLM, TGI, llama-server, Ollama and `transformers serve`: their routes, log
//! lines and out-of-memory failures. It runs in-process ([`Sim::start`]), as `profiler sim`, and as a container. All
//! its output contains `SIMULATED`. What an engine logs and its pages are text: `engines/NAME.jinja`.

mod engine_core;
mod handle;
mod http;
mod memory;
mod misbehave;
mod options;
mod process;
mod profile;
mod scheduler;
mod start;
#[cfg(test)]
mod tests;
mod texts;
mod time;
mod tokens;

pub use handle::{Exit, LogSink, SimHandle, State};
pub use misbehave::{AfterFailure, FailedRequest, FailedStart, Misbehave};
pub use options::{Options, Serve, Spec, Victim};
pub use process::Sim;
pub use profile::{
    Defaults, Dynamic, Engine, Fixed, Kv, MemoryProfile, Pool, Profile, Reservation, Shape, Speculation, names,
};
pub use time::Timing;
