//! How each engine starts (pure): stages with model time, memory in use and log lines, and the outcome. Nothing is
//! slept or printed here.

mod llamacpp;
mod log_line;
mod ollama;
mod sglang;
mod tensorrt_llm;
mod tgi;
mod transformers;
mod vllm;

pub(super) use log_line::{LinePrefix, LogLine};

use super::failing::FailedStart;
use super::handle::Exit;
use super::profile::{Engine, MemoryProfile};
use super::schedule::Scheduler;
use super::setup::Setup;
use crate::fault::{Fault, Result};

/// One stage of a start.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage {
    /// Model time of the stage.
    pub(super) seconds: f64,
    /// Bytes of the device in use at its end.
    pub(super) used: u64,
    /// Lines logged at its end.
    pub(super) lines: Vec<LogLine>,
}

/// A whole start.
#[derive(Clone, Debug)]
pub(super) struct StartPlan {
    /// Bytes of the device.
    pub(super) total: u64,
    /// Bytes in use before the start.
    pub(super) baseline: u64,
    /// Whether it accepts connections (and answers 503) while loading.
    pub(super) listens_early: bool,
    pub(super) stages: Vec<Stage>,
    pub(super) end: StartOutcome,
}

#[derive(Clone, Debug)]
pub(super) enum StartOutcome {
    Serve(Box<ServingEngine>),
    Exit(Exit),
}

/// An engine that has started.
#[derive(Clone, Debug)]
pub(super) struct ServingEngine {
    pub(super) scheduler: Scheduler,
    /// Maximum input plus output.
    pub(super) max_total: u64,
    /// Maximum input.
    pub(super) max_input: u64,
    /// Tokens of KV cache, if there is a pool.
    pub(super) kv_tokens: Option<u64>,
    /// Number of blocks, and tokens of each.
    pub(super) blocks: Option<(u64, u64)>,
    /// Bytes in use from the first request on; not used by dynamic engines.
    pub(super) used: u64,
    /// Ollama: why the model could not be loaded. The server runs and reports it.
    pub(super) load_error: Option<String>,
    /// For information pages.
    pub(super) sizes: Option<MemorySizes>,
}

/// Memory of a pool engine, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemorySizes {
    pub(super) weights: u64,
    pub(super) kv: u64,
    pub(super) graphs: u64,
}

pub(super) fn plan(setup: &Setup, url: &str) -> Result<StartPlan> {
    let profile = &setup.profile;
    match (profile.engine, &profile.memory) {
        (Engine::Vllm, MemoryProfile::Pool(pool)) => Ok(vllm::plan(setup, pool, url)),
        (Engine::Sglang, MemoryProfile::Pool(pool)) => Ok(sglang::plan(setup, pool)),
        (Engine::TensorrtLlm, MemoryProfile::Pool(pool)) => Ok(tensorrt_llm::plan(setup, pool)),
        (Engine::Tgi, MemoryProfile::Pool(pool)) => Ok(tgi::plan(setup, pool)),
        (Engine::Llamacpp, MemoryProfile::Fixed(fixed)) => Ok(llamacpp::plan(setup, fixed, url)),
        (Engine::Ollama, MemoryProfile::Fixed(fixed)) => Ok(ollama::plan(setup, fixed, url)),
        (Engine::Transformers, MemoryProfile::Dynamic(dynamic)) => Ok(transformers::plan(setup, dynamic, url)),
        _ => Err(Fault::usage(format!(
            "profile `{}`: the memory style does not match the engine",
            profile.name
        ))
        .hint("vllm, sglang, tensorrt_llm and tgi: pool; llamacpp and ollama: fixed; transformers: dynamic")),
    }
}

impl StartPlan {
    /// The same start, but failing on the way.
    pub(super) fn with_failure(mut self, failed: &FailedStart) -> Result<Self> {
        let lines = |stage: &Stage| stage.lines.iter().position(|line| line.text.contains(&failed.after));
        let at = self
            .stages
            .iter()
            .enumerate()
            .find_map(|(index, stage)| Some((index, lines(stage)?)));
        let used = match at {
            _ if failed.after.is_empty() => {
                self.stages.clear();
                self.baseline
            }
            Some((stage, line)) => {
                self.stages.truncate(stage + 1);
                let last = &mut self.stages[stage];
                last.lines.truncate(line + 1);
                last.used
            }
            None => {
                return Err(Fault::usage(format!(
                    "`fail_start`: no log line of this start contains `{}`",
                    failed.after
                )));
            }
        };
        let lines = failed
            .log
            .iter()
            .map(|text| LogLine::new(LinePrefix::Bare, text))
            .collect();
        self.stages.push(Stage {
            seconds: 0.0,
            used,
            lines,
        });
        self.end = StartOutcome::Exit(failed.ending.into());
        Ok(self)
    }
}

fn exit_with_error() -> StartOutcome {
    StartOutcome::Exit(Exit {
        code: 1,
        oom_killed: false,
    })
}
