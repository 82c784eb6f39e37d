//! `profiler` finds by experiment what a GPU will hold: it starts an inference engine, sends prompts of exactly N tokens,
//! watches memory, and closes in on the boundary between what fits and what fails. All decisions are Rhai scripts.
//!
//! The modules, from the top down. Each imports only modules below it; `tests/it/modules.rs` checks that.
//!
//! | module | owns |
//! |---|---|
//! | [`cli`] | one file per command: parse arguments, call, print |
//! | [`script`] | the Rhai host; the only module that knows Rhai |
//! | [`report`] | what people see: terminal, live view, pages, charts, comparisons |
//! | [`engine`] | a running engine: readiness, protocols, facts from its log, metrics, verdicts |
//! | [`compare`] | our runs and the files of other tools in one form; which way a metric is better |
//! | [`runtime`] | Docker containers, native processes, attached servers; the only module that knows Docker |
//! | [`run`] | the run folder: journal, manifest, resume |
//! | [`sim`] | the simulated engine |
//! | [`load`] | requests in time: load client, arrivals, latency statistics |
//! | [`telemetry`] | memory over time; the only module that knows NVML |
//! | [`prompt`] | tokenizers; prompts of exactly N tokens |
//! | [`boundary`] | points, dominance, frontier, search (pure) |
//! | [`memory`] | model shapes, memory estimates and breakdowns (pure) |
//! | [`experiment`] | one setting compared with another, with run-to-run noise (pure) |
//! | [`csv`], [`http`], [`task`], [`unit`], [`fault`] | one file each: CSV text, HTTP clients, background tasks, units, the error type |

pub mod boundary;
pub mod cli;
pub mod compare;
pub mod csv;
pub mod engine;
pub mod experiment;
pub mod fault;
pub mod http;
pub mod load;
pub mod memory;
pub mod prompt;
pub mod report;
pub mod run;
pub mod runtime;
pub mod script;
pub mod sim;
pub mod task;
pub mod telemetry;
pub mod unit;
