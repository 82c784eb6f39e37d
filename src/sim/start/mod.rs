//! How each engine starts (pure): stages with model time, memory in use and log lines, and the outcome. Nothing is
//! slept or printed here.

mod llamacpp;
mod sglang;
mod tensorrt_llm;
mod tgi;
mod vllm;

use std::fmt;

use jiff::Zoned;

use super::handle::Exit;
use super::memory::{BlockPool, DynamicMemory, PoolOptions, PoolPlan, mib};
use super::misbehave::FailedStart;
use super::options::{Length, Setup};
use super::profile::{Dynamic, Engine, MemoryProfile};
use super::scheduler::{KvAllocation, KvStore, Scheduler};
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

impl Stage {
    fn new(seconds: f64, used: u64, lines: Vec<LogLine>) -> Self {
        Self { seconds, used, lines }
    }
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

impl StartPlan {
    fn of_pool(pool: &PoolPlan, listens_early: bool, stages: Vec<Stage>, end: StartOutcome) -> Self {
        Self {
            total: pool.total,
            baseline: pool.used_baseline,
            listens_early,
            stages,
            end,
        }
    }
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

impl ServingEngine {
    fn of_pool(setup: &Setup, pool: &PoolPlan, allocation: KvAllocation, max_total: u64, max_input: u64) -> Self {
        Self {
            scheduler: scheduler(
                setup,
                KvStore::Pool(BlockPool::new(pool.blocks, pool.block_tokens), allocation),
            ),
            max_total,
            max_input,
            kv_tokens: Some(pool.kv_tokens()),
            blocks: Some((pool.blocks, pool.block_tokens)),
            used: pool.used_serving,
            load_error: None,
            sizes: Some(MemorySizes {
                weights: pool.weights,
                kv: pool.blocks * pool.block_bytes,
                graphs: pool.graphs,
            }),
        }
    }
}

fn scheduler(setup: &Setup, store: KvStore) -> Scheduler {
    Scheduler::new(
        store,
        setup.profile.time,
        setup.eager,
        setup.max_seqs,
        setup.step_tokens,
    )
}

fn pool_options(setup: &Setup) -> PoolOptions {
    PoolOptions {
        utilization: setup.utilization,
        batch_tokens: setup.step_tokens,
        eager: setup.eager,
        fp8: setup.fp8,
        speculate: false,
        limit: setup.memory_limit,
    }
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
        (Engine::Ollama, MemoryProfile::Fixed(fixed)) => Ok(llamacpp::plan_ollama(setup, fixed, url)),
        (Engine::Transformers, MemoryProfile::Dynamic(dynamic)) => Ok(plan_transformers(setup, dynamic, url)),
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
        self.end = StartOutcome::Exit(failed.ending);
        Ok(self)
    }
}

fn exit_with_error() -> StartOutcome {
    StartOutcome::Exit(Exit::FAILED)
}

/// Prefix of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinePrefix {
    /// `(EngineCore pid=2) INFO 11-20 12:50:39 [gpu_worker.py:508] `
    Vllm {
        /// `APIServer` or `EngineCore`.
        process: &'static str,
        /// `INFO`, `WARNING` or `ERROR`.
        level: &'static str,
        /// Source file and line.
        place: &'static str,
    },
    /// `(APIServer pid=1) `, for lines that are not vLLM's own.
    VllmRaw(&'static str),
    /// `2026-11-20T14:48:02.408481Z  INFO text_generation_launcher: `
    Tgi {
        /// `INFO`, `WARN` or `ERROR`.
        level: &'static str,
        module: &'static str,
    },
    /// `time=2026-11-20T14:48:02.408Z level=INFO source=SIMULATED `
    Slog {
        /// `INFO`, `WARN` or `ERROR`.
        level: &'static str,
    },
    /// `[2026-11-20 12:50:39 TP0] `
    Sglang,
    /// `[11/20/2026-12:50:39] [TRT-LLM] [I] `, with the given level.
    TensorrtLlm(&'static str),
    /// Only `SIMULATED`.
    Bare,
    /// None: the text must start the line, and contains `SIMULATED` itself.
    Start,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLine {
    pub(crate) prefix: LinePrefix,
    pub(crate) text: String,
}

impl LogLine {
    pub(crate) fn new(prefix: LinePrefix, text: impl Into<String>) -> Self {
        Self {
            prefix,
            text: text.into(),
        }
    }

    /// The line as logged at this time.
    pub(crate) fn at<'a>(&'a self, time: &'a Zoned) -> impl fmt::Display + 'a {
        Stamped { line: self, time }
    }
}

struct Stamped<'a> {
    line: &'a LogLine,
    time: &'a Zoned,
}

impl fmt::Display for Stamped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = |process: &str| if process == "APIServer" { 1 } else { 2 };
        match self.line.prefix {
            LinePrefix::Vllm { process, level, place } => write!(
                f,
                "({process} pid={} SIMULATED) {level} {} [{place}] ",
                pid(process),
                self.time.strftime("%m-%d %H:%M:%S")
            )?,
            LinePrefix::VllmRaw(process) => write!(f, "({process} pid={} SIMULATED) ", pid(process))?,
            LinePrefix::Tgi { level, module } => write!(
                f,
                "{} {level:>5} {module}: SIMULATED: ",
                self.time.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            )?,
            LinePrefix::Slog { level } => write!(
                f,
                "time={} level={level} source=SIMULATED ",
                self.time.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
            )?,
            LinePrefix::Sglang => write!(f, "[{} TP0] SIMULATED ", self.time.strftime("%Y-%m-%d %H:%M:%S"))?,
            LinePrefix::TensorrtLlm(level) => write!(
                f,
                "[{}] [TRT-LLM] [{level}] SIMULATED ",
                self.time.strftime("%m/%d/%Y-%H:%M:%S")
            )?,
            LinePrefix::Bare => write!(f, "SIMULATED ")?,
            LinePrefix::Start => {}
        }
        f.write_str(&self.line.text)
    }
}

fn plan_transformers(setup: &Setup, profile: &Dynamic, url: &str) -> StartPlan {
    let memory = DynamicMemory::new(profile, setup.memory_limit);
    let total = memory.total();
    let time = &setup.profile.time;
    let baseline = mib(profile.reserved_mib);
    let mut stages = vec![Stage {
        seconds: time.boot_seconds,
        used: baseline + profile.context_bytes,
        lines: vec![
            line(format!(
                "engine, profile {}: version {}",
                setup.profile.name,
                setup.version()
            )),
            line(format!("[transformers] Loading {}", setup.model)),
        ],
    }];
    let end = match memory.check_start() {
        Ok(()) => {
            stages.push(Stage {
                seconds: time.load_seconds + time.warm_up_seconds,
                used: memory.used(),
                lines: vec![
                    line("Loading weights: 100%"),
                    line("INFO:     Application startup complete."),
                    line(format!("INFO:     Uvicorn running on {url} (Press CTRL+C to quit)")),
                ],
            });
            // No length is checked unless a limit is given here.
            let longest = match setup.length {
                Length::Tokens(tokens) if setup.length_given => tokens,
                Length::Auto | Length::Tokens(_) => u64::MAX,
            };
            StartOutcome::Serve(Box::new(ServingEngine {
                used: memory.used(),
                scheduler: scheduler(setup, KvStore::Dynamic(Box::new(memory))),
                max_total: longest,
                max_input: longest,
                kv_tokens: None,
                blocks: None,
                load_error: None,
                sizes: None,
            }))
        }
        Err(oom) => {
            stages.push(Stage {
                seconds: time.load_seconds,
                used: baseline + profile.context_bytes,
                lines: vec![
                    line("Traceback (most recent call last):"),
                    line(format!("torch.OutOfMemoryError: {oom}")),
                ],
            });
            exit_with_error()
        }
    };
    StartPlan {
        total,
        baseline,
        listens_early: false,
        stages,
        end,
    }
}

fn line(text: impl Into<String>) -> LogLine {
    LogLine::new(LinePrefix::Bare, text)
}
