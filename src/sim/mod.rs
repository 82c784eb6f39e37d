//! The simulated engine: a model of GPU memory and of time behind the real wire protocols.
//!
//! It speaks what vLLM, SGLang, TensorRT-LLM, TGI, llama-server and `transformers serve` speak, writes their log lines, and fails as they do when memory
//! runs out. It runs in-process ([`Sim::start`]), as `profiler sim`, and as a container. Everything it says bears the word
//! `SIMULATED`. It owns no decision about a search and knows nothing of scripts.

mod failing;
#[cfg(test)]
mod fit;
mod gauge;
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
mod service;
mod setup;
mod start;
mod time;
mod tokens;

pub use failing::{Ending, FailedRequest, FailedStart, Fate};
pub use handle::{Exit, LogSink, SimHandle, State};
pub use launch::Sim;
pub use misbehave::Misbehave;
pub use options::{Options, Serve, Spec, Victim};
pub use profile::{
    Defaults, Dynamic, Engine, Fixed, Kv, MemoryProfile, Pool, Profile, Reservation, Shape, Speculation, names,
};
pub use time::Timing;
