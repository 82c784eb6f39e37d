//! Inference engines under test. Engine-specific code is limited to the protocols; the rest is in
//! `stdlib/engines/*.rhai`.
//!
//! From the bottom up; each part imports only parts before it, and files have no import cycles:
//!
//! * `adapter`: the contract of an engine's Rhai file; `start_limits`: the lengths and concurrency of one start
//! * `facts`: reads logs and metrics; `wire`: requests, answers and pages of a server; `verdict`: interprets failures
//!   and answers
//! * `lifecycle`: one engine, started, kept running, measured and stopped
//! * `probe`, `load`, `send`, `answer`, `in_process`: the operations on a running engine
//! * `pool`: several engines of this machine behind the handle that scripts hold

mod adapter;
mod answer;
mod facts;
mod in_process;
mod lifecycle;
mod load;
mod pool;
mod probe;
mod send;
mod start_limits;
mod verdict;
mod wire;

pub use crate::run::Limits;
pub use adapter::{
    Adapter, Answer, AnswerRequest, Exclusion, Facts, FailureRule, Harmless, InfoRule, MemoryEffect, MetricFormat,
    MetricRules, Pattern, Patterns, ProgressRule, Protocol, Readiness, Rejection, RequestForm, RulePhase, RulePlace,
    RuleRank, Setting, SettingCost, SettingKind, Token,
};
pub use answer::{AnswerOptions, answer};
pub use facts::log::ReportedFact;
pub use in_process::{Arguments, ProbeProgram, ProgramOptions, run_probe, trial};
pub use lifecycle::architecture::{Architecture, architecture, simulated_profile};
pub use lifecycle::engine::Engine;
pub use lifecycle::ensure::{serves, start};
pub use lifecycle::flags::{flags, production_flags};
pub use lifecycle::help::{engine_flag, known_flags};
pub use lifecycle::memory::{Memory, memory, usage};
pub use lifecycle::options::{Axes, Context, DefaultsTo, DraftMethod, Gpus, LaunchOptions, LimitsOption, Speculation};
pub use lifecycle::patience::{Patience, WAIT, await_reachable};
pub use lifecycle::preview::{Device, Needs, needs};
pub use lifecycle::report::{facts, info, logs, metrics};
pub use lifecycle::state::Info;
pub use lifecycle::usage::{DeviceUsage, OverTime, ProcessUsage, Stage, Usage, UsageFile};
pub use load::options::{ArrivalOption, LoadOptions, StepOption, WarmupOption};
pub use load::{check_load, load};
pub use pool::Pool;
pub use probe::answer::{COORDINATES, ProbeOptions};
pub use send::{SendAnswer, SendOptions, send};
pub use verdict::rules::{Reading, Rules, check_adapter};
pub use wire::protocol::decoder;
pub use wire::refusal::{COMPRESSED, Credentials, remedy, short_error_detail, title, wait_longer};
