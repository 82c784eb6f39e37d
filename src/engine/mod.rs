//! A running engine: the adapter contract, readiness, wire protocols (OpenAI completions and chat, TGI, llama.cpp, Ollama),
//! log facts, metrics, probing and verdicts. Nothing of one engine is here but its protocol: the rest is in `stdlib/engines/*.rhai`.
//!
//! [`Engine`] is what scripts hold. `handle` keeps it running (`plan` says with which limits, `start` starts it), `probe` puts points to
//! it (`fire` sends, `judge` decides), `failure` says what a failure was. `judge`, `counts`, `report`, `reported`, `failure`, `progress`, `allocation`,
//! `plan`, `limits`, `metrics`, `facts`, `pace` and `queue` are pure.

mod adapter;
mod allocation;
mod answer;
mod architecture;
mod ask_options;
mod context;
mod counts;
mod facts;
mod failure;
mod fire;
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
mod pace;
mod pattern;
mod plan;
mod preview;
mod probe;
mod progress;
mod prometheus;
mod prompting;
mod protocol;
mod queue;
mod report;
mod reported;
mod rules;
mod send;
mod server;
mod start;
mod told;
mod trial;
mod usage;

pub use adapter::{
    Adapter, Facts, FailureRule, InfoRule, Limits, MetricFormat, MetricRules, ProgressRule, Protocol, Readiness,
    RequestForm, RulePhase,
};
pub use allocation::Allocation;
pub use answer::{Evidence, ProbeAnswer};
pub use architecture::Architecture;
pub use ask_options::ProbeOptions;
pub use context::{Axes, Context, Gpus};
pub use handle::Engine;
pub use in_process::{Arguments, ProbeProgram, ProgramOptions};
pub use info::Info;
pub use load::{ArrivalWord, LoadOptions, StepOption, WarmupOption};
pub use memory::Memory;
pub use metrics::Metrics;
pub use needs::{Device, Lack, Needs};
pub use options::{LaunchOptions, LimitsOption, Speculation};
pub use protocol::{Wire, decoder};
pub use report::Report;
pub use rules::{Reading, read_metrics, read_request, read_start};
pub use send::{SendAnswer, SendOptions};
pub use told::Told;
pub use usage::{Holder, OverTime, Share, Stage, Usage};
