//! `profiler` finds by experiment what a GPU will hold: it starts an inference engine, sends prompts of exactly N tokens,
//! watches memory, and closes in on the boundary between what fits and what fails. All decisions are Rhai scripts.
//!
//! The rooms, and what each may touch. Data flows one way: script → engine and load → verdict and series → run → report.
//!
//! | room | owns |
//! |---|---|
//! | [`cli`] | a file per command: parses, calls, prints |
//! | [`script`] | the Rhai host; only it knows Rhai |
//! | [`runtime`] | docker, process, attach; only it knows Docker |
//! | [`engine`] | a running engine: readiness, protocols, log facts, metrics, verdicts |
//! | [`load`] | requests in time: streaming, time stamps, percentiles |
//! | [`prompt`] | tokenizers; prompts of exactly N tokens |
//! | [`telemetry`] | memory over time; only it knows NVML |
//! | [`boundary`] | points, dominance, frontier, refinement (pure) |
//! | [`memory`] | model shapes, estimates, breakdowns (pure) |
//! | [`experiment`] | settings of a knob against each other, and against chance (pure) |
//! | [`run`] | the run folder: journal, manifest, resume |
//! | [`report`] | what people see: terminal, live view, pages, pictures, comparisons |
//! | [`sim`] | the simulated engine |

pub mod boundary;
pub mod cli;
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
