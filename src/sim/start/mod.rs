//! How each engine starts (pure): stages of model time with the memory in use and the log lines of each, and how it ends, serving or
//! exiting. Nothing is slept or printed here.

mod line;
mod llamacpp;
mod ollama;
mod sglang;
mod tensorrt_llm;
mod tgi;
mod transformers;
mod vllm;

pub(super) use line::{Head, Line};

use super::failing::FailedStart;
use super::handle::Exit;
use super::profile::{Engine, MemoryProfile};
use super::schedule::Batch;
use super::setup::Setup;
use crate::fault::{Fault, Result};

/// One stage of a start.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage {
    /// Model time until it is over.
    pub(super) seconds: f64,
    /// Bytes of the device in use once it is over.
    pub(super) used: u64,
    /// What is logged then.
    pub(super) lines: Vec<Line>,
}

/// A whole start.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Bytes of the device.
    pub(super) total: u64,
    /// Bytes in use before anything starts.
    pub(super) baseline: u64,
    /// Whether connections are taken (and answered with 503) while it loads.
    pub(super) listens_early: bool,
    /// The stages.
    pub(super) stages: Vec<Stage>,
    /// How it ends.
    pub(super) end: End,
}

/// How a start ends.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// It serves.
    Serve(Box<Serving>),
    /// The process exits.
    Exit(Exit),
}

/// An engine that serves.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    pub(super) batch: Batch,
    /// Longest input and output together.
    pub(super) max_total: u64,
    /// Longest input.
    pub(super) max_input: u64,
    /// Tokens of KV cache, where there is a pool.
    pub(super) kv_tokens: Option<u64>,
    /// Blocks of the pool and tokens of each.
    pub(super) blocks: Option<(u64, u64)>,
    /// Bytes in use from the first request on; dynamic engines tell their own.
    pub(super) used: u64,
    /// Ollama: why the model could not be loaded. The server lives, and says so.
    pub(super) unloadable: Option<String>,
    /// What its information pages tell, where they do.
    pub(super) sizes: Option<Sizes>,
}

/// Where the memory of a pool engine went, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    pub(super) weights: u64,
    pub(super) kv: u64,
    pub(super) graphs: u64,
}

/// The start of this engine.
pub(super) fn plan(setup: &Setup, url: &str) -> Result<Plan> {
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
            "profile `{}`: this engine does not take memory in this style",
            profile.name
        ))
        .hint("vllm, sglang, tensorrt_llm and tgi: pool; llamacpp and ollama: fixed; transformers: dynamic")),
    }
}

impl Plan {
    /// The same start, failing on its way.
    pub(super) fn failing(mut self, failed: &FailedStart) -> Result<Self> {
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
                    "`fail_start`: no line of this start has `{}`",
                    failed.after
                )));
            }
        };
        let lines = failed.log.iter().map(|text| Line::new(Head::Bare, text)).collect();
        self.stages.push(Stage {
            seconds: 0.0,
            used,
            lines,
        });
        self.end = End::Exit(failed.ending.into());
        Ok(self)
    }
}

/// The exit of a failed start.
fn failed() -> End {
    End::Exit(Exit {
        code: 1,
        oom_killed: false,
    })
}
