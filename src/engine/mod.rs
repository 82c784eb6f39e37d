//! A running engine: adapter contract, start and stop, wire protocols (OpenAI completions and chat, TGI, llama.cpp,
//! Ollama), facts from logs, metrics, probes, loads and verdicts. Engine-specific code is limited to the protocols; the
//! rest is in `stdlib/engines/*.rhai`.
//!
//! [`Engine`] is the handle that scripts hold. `handle` keeps the engine running: `limits` chooses the limits and
//! `start` starts it. `probe` tests a point: `send` sends the requests and `judge` decides the verdict with the rules in
//! `failure`. `load` runs a load.
//!
//! Files without `impl Engine` do not import those with it: `handle` holds the state, and `start`, `memory`, `info`,
//! `preview`, `served`, `forms`, `probe`, `send`, `in_process` and `load` add methods to it.

mod adapter;
mod facts;
mod failure;
mod forms;
mod handle;
mod in_process;
mod info;
mod judge;
mod limits;
mod load;
mod memory;
mod metrics;
mod options;
mod patience;
mod preview;
mod probe;
mod protocol;
mod refusal;
mod residency;
mod send;
mod served;
mod start;
mod usage;

pub use crate::run::Limits;
pub use adapter::{
    Adapter, Facts, FailureRule, Harmless, InfoRule, MetricFormat, MetricRules, Pattern, Patterns, ProgressRule,
    Protocol, Readiness, Rejection, RequestForm, RulePhase,
};
pub use facts::{Reading, ReportedFact, Rules, check_adapter};
pub use handle::Engine;
pub use in_process::{Arguments, ProbeProgram, ProgramOptions};
pub use info::{Architecture, Info};
pub use judge::words;
pub use load::{ArrivalOption, LoadOptions, StepOption, WarmupOption};
pub use memory::Memory;
pub use options::{Axes, Context, DefaultsTo, Gpus, LaunchOptions, LimitsOption, Speculation};
pub use patience::{Patience, WAIT, await_reachable};
pub use preview::{Device, Needs};
pub use probe::{COORDINATES, ProbeOptions};
pub use protocol::decoder;
pub use refusal::{COMPRESSED, Credentials, remedy, title, wait_longer};
pub use send::{SendAnswer, SendOptions};
pub use usage::{DeviceUsage, OverTime, ProcessUsage, Stage, Usage, UsageFile};
