//! A running engine: adapter contract, start and stop, wire protocols (OpenAI completions and chat, TGI, llama.cpp,
//! Ollama), facts from logs, metrics, probes, loads and verdicts. Engine-specific code is limited to the protocols; the
//! rest is in `stdlib/engines/*.rhai`.
//!
//! [`Engine`] is the handle that scripts hold. `handle` keeps the engine running: `plan` chooses the limits and `start`
//! starts it. `probe` tests a point: `batch` sends the requests and `judge` decides the verdict with the rules in
//! `failure`. `load` runs a load.

mod adapter;
mod allocation;
mod answer;
mod architecture;
mod batch;
mod bounds;
mod bounds_report;
mod context;
mod counts;
mod facts;
mod failure;
mod handle;
mod in_process;
mod info;
mod judge;
mod limits;
mod load;
mod memory;
mod metrics;
mod moments;
mod needs;
mod options;
mod pattern;
mod plan;
mod preview;
mod probe;
mod probe_options;
mod progress;
mod prometheus;
mod prompting;
mod protocol;
mod queue_metrics;
mod reported_facts;
mod rules;
mod send;
mod server;
mod speed;
mod start;
mod trial;
mod usage;

pub use adapter::{
    Adapter, Facts, FailureRule, InfoRule, Limits, MetricFormat, MetricRules, ProgressRule, Protocol, Readiness,
    RequestForm, RulePhase,
};
pub use allocation::Allocation;
pub use answer::{Evidence, ProbeAnswer};
pub use architecture::Architecture;
pub use bounds_report::BoundsReport;
pub use context::{Axes, Context, Gpus};
pub use handle::Engine;
pub use in_process::{Arguments, ProbeProgram, ProgramOptions};
pub use info::Info;
pub use load::{ArrivalOption, LoadOptions, StepOption, WarmupOption};
pub use memory::Memory;
pub use metrics::Metrics;
pub use needs::{Device, MissingItem, Needs};
pub use options::{LaunchOptions, LimitsOption, Speculation};
pub use probe_options::ProbeOptions;
pub use protocol::{Wire, decoder};
pub use reported_facts::ReportedFact;
pub use rules::{Reading, read_metrics, read_request, read_start};
pub use send::{SendAnswer, SendOptions};
pub use usage::{DeviceUsage, OverTime, ProcessUsage, Stage, Usage};
