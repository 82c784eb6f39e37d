//! Simulated inference engine: a model of GPU memory and time behind the real HTTP APIs.
//!
//! It imitates vLLM, SGLang, TensorRT-LLM, TGI, llama-server, Ollama and `transformers serve`: their routes, log
//! lines and out-of-memory failures. It runs in-process ([`Sim::start`]), as `profiler sim`, and as a container. All
//! its output contains `SIMULATED`.

mod devices;
mod engine_core;
mod failing;
#[cfg(test)]
mod fit;
mod handle;
mod http;
mod launch;
mod listener;
mod memory;
mod misbehave;
mod options;
mod prefixes;
mod profile;
mod schedule;
mod setup;
mod start;
mod time;
mod tokens;

pub use failing::{AfterFailure, Ending, FailedRequest, FailedStart};
pub use handle::{Exit, LogSink, SimHandle, State};
pub use launch::Sim;
pub use misbehave::Misbehave;
pub use options::{Options, Serve, Spec, Victim};
pub use profile::{
    Defaults, Dynamic, Engine, Fixed, Kv, MemoryProfile, Pool, Profile, Reservation, Shape, Speculation, names,
};
pub use time::Timing;
