//! The start of each engine (pure): stages with model time, memory in use and log lines, and its result. Nothing sleeps
//! or is printed here. The log lines of a stage or failure are the section with its name in the engine's file (see
//! [`texts`](super::texts)).

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::exit::Exit;
use super::memory::{CudaOom, DynamicMemory, StartMemory};
use super::options::{FailedStart, Setup, TGI_SLICE};
use super::profile::{Engine, MemoryProfile, PoolProfile, Speculation};
use super::scheduler::{KvAllocation, KvStore, Scheduler};
use crate::fault::{Fault, Result};

/// Tokens of the small KV cache that TensorRT-LLM allocates to estimate its memory.
const ESTIMATE_TOKENS: u64 = 8224;

/// Number of TensorRT-LLM's graphs covered by the profile's `graphs_mib`: all batch sizes, for one draft length.
const PROFILE_GRAPHS: f64 = 34.0;

/// One stage of a start.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage {
    /// Model time of the stage.
    pub(super) seconds: f64,
    /// Bytes of the device in use at its end.
    pub(super) used: u64,
    /// Lines logged at its end.
    pub(super) lines: Vec<String>,
}

/// A whole start.
#[derive(Clone, Debug)]
pub(super) struct StartPlan {
    /// Bytes of the device.
    pub(super) total: u64,
    /// Bytes in use before the start.
    pub(super) baseline: u64,
    /// Whether the engine accepts connections (and answers 503) while loading.
    pub(super) listens_early: bool,
    pub(super) stages: Vec<Stage>,
    /// The engine, or the exit status of an engine that could not start.
    pub(super) end: Result<Box<Serving>, Exit>,
}

/// An engine that has started.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    pub(super) scheduler: Scheduler,
    pub(super) limits: Limits,
}

/// The capacity and limits of a started engine.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Maximum input plus output.
    pub(super) max_total: u64,
    /// Maximum input.
    pub(super) max_input: u64,
    /// Tokens of KV cache, if it is allocated at the start.
    pub(super) kv_tokens: Option<u64>,
    pub(super) memory: StartMemory,
    /// Ollama: why the model could not be loaded. The server runs and reports it.
    pub(super) load_error: Option<String>,
}

/// A step of a start. If the engine's file has no section with its name, a stage logs nothing, and a check is skipped.
enum Step {
    /// A stage: its section, model time, and bytes in use at its end.
    Stage(&'static str, f64, u64),
    /// Ends the start with the cause in this section if the condition holds.
    Fails(&'static str, bool),
}
use Step::{Fails, Stage as Then};

/// The start of an engine with `setup` that will listen at `url`.
///
/// # Errors
/// `usage` if the profile's memory style does not match its engine.
pub(super) fn plan(setup: &Setup, url: &str) -> Result<StartPlan> {
    let (engine, time) = (setup.profile.engine, &setup.profile.time);
    let graphs = graphs(setup);
    let (memory, dynamic) = memory(setup, graphs.len())?;
    let (allocation, limits) = limits(setup, &memory);
    let refused = dynamic.as_ref().and_then(|dynamic| dynamic.check_start().err());
    let oom = refused.or(out_of_memory(engine, &memory));
    let (compile_seconds, graphs_seconds) = if setup.eager {
        (0.0, 0.0)
    } else if engine == Engine::TensorrtLlm {
        (0.0, time.graphs_seconds * graphs.len() as f64 / PROFILE_GRAPHS)
    } else {
        (time.compile_seconds, time.graphs_seconds)
    };
    let too_small = setup.length.is_some() && limits.max_total > memory.longest();
    // A pool takes only the memory that the budget leaves; exceeding the device is detected later.
    let no_cache = if engine.has_pool() {
        memory.blocks == 0
    } else {
        memory.used_kv > memory.total
    };
    let steps = [
        Then("banner", time.boot_seconds, memory.used_baseline),
        Fails(
            "too_long",
            setup.requested() > setup.profile.defaults.max_position_embeddings,
        ),
        Then("boot", 0.0, memory.used_context),
        Fails("device_in_use", memory.free < memory.budget),
        Fails("no_weights", memory.used_weights > memory.total || refused.is_some()),
        Then("weights", time.load_seconds, memory.used_weights.min(memory.total)),
        Fails("no_room", memory.used_weights > memory.total),
        Fails("no_profiling", memory.used_peak > memory.total),
        Then(
            "profiled",
            time.profile_seconds + compile_seconds,
            memory.used_peak.min(memory.total),
        ),
        Fails("no_cache", no_cache),
        Fails("cache_too_small", too_small || limits.max_input == 0),
        Then("kv_cache", 0.0, memory.used_kv),
        Fails(
            "no_state_slots",
            memory.state_blocks > 0 && !setup.eager && setup.max_seqs > memory.blocks,
        ),
        Fails("no_warm_up", memory.used_ready > memory.total),
        Then("graphs", graphs_seconds, memory.used_graphs),
        Then("ready", time.warm_up_seconds, memory.used_ready),
    ];
    let needed = match engine {
        Engine::TensorrtLlm => ESTIMATE_TOKENS,
        _ => setup.requested(),
    };
    let values = context! {
        profile => setup.profile.name.as_str(),
        version => setup.version(),
        model => setup.model.as_str(),
        gpu => setup.profile.gpu.as_str(),
        url,
        sizes => Value::from(Serde(&setup.profile.memory)),
        time => Value::from(Serde(time)),
        eager => setup.eager,
        auto => setup.length.is_none(),
        requested => setup.requested(),
        longest => setup.profile.defaults.max_position_embeddings,
        utilization => setup.utilization,
        step_tokens => setup.step_tokens,
        max_seqs => setup.max_seqs,
        memory => Value::from(Serde(memory)),
        kv_tokens => memory.kv_tokens(limits.max_total),
        fitting => memory.longest(),
        kv_bytes => memory.blocks.saturating_mul(memory.block_bytes),
        needed => memory.kv_bytes_for(needed),
        max_total => limits.max_total,
        concurrency => memory.sequences(limits.max_total),
        graphs => Value::from(Serde(graphs)),
        oom => oom.map(|oom| oom.to_string()),
        tried => oom.map(|oom| oom.tried),
    };
    let store = match dynamic {
        Some(dynamic) => KvStore::Dynamic(Box::new(dynamic)),
        None => KvStore::Pool(memory.block_pool(), allocation),
    };
    let mut scheduler = Scheduler::new(store, *time, setup.eager, setup.max_seqs, setup.step_tokens);
    scheduler.set_chunked(setup.options.chunked_prefill != Some(false));
    let serving = Serving { scheduler, limits };
    StartPlan::new(engine, &memory, &steps, &values, serving)
}

impl StartPlan {
    /// Takes the steps up to the first that fails.
    fn new(engine: Engine, memory: &StartMemory, steps: &[Step], values: &Value, serving: Serving) -> Result<Self> {
        let section = |name: &str, values: &Value| -> Result<Vec<String>> {
            if engine.has_section(name) {
                Ok(engine.text(name, values)?.lines().map(str::to_owned).collect())
            } else {
                Ok(Vec::new())
            }
        };
        let mut plan = Self {
            total: memory.total,
            baseline: memory.used_baseline,
            listens_early: matches!(engine, Engine::Sglang | Engine::Llamacpp | Engine::Ollama),
            stages: Vec::new(),
            end: Ok(Box::new(serving)),
        };
        for step in steps {
            match *step {
                Then(name, seconds, used) => plan.stages.push(Stage {
                    seconds,
                    used,
                    lines: section(name, values)?,
                }),
                Fails(cause, true) if engine.has_section(cause) => {
                    let cause = engine.text(cause, values)?;
                    let values = context! { cause => cause.trim_end(), ..values.clone() };
                    let used = plan.fail(engine, &values)?;
                    plan.stages.push(Stage {
                        seconds: 0.0,
                        used,
                        lines: section("failed", &values)?,
                    });
                    break;
                }
                Fails(..) => {}
            }
        }
        Ok(plan)
    }

    /// The result of a failed start: an exit, or a server without a model. Returns the bytes in use afterwards.
    fn fail(&mut self, engine: Engine, values: &Value) -> Result<u64> {
        match (engine, &mut self.end) {
            (Engine::Ollama, Ok(serving)) => {
                let error = engine.text("load_error", values)?;
                serving.limits.load_error = Some(error.trim_end().to_owned());
                // The process that ran out of memory is gone; its server stays.
                return Ok(self.baseline);
            }
            // SGLang kills itself when a worker fails; this is not an OOM kill.
            (Engine::Sglang, _) => self.end = Err(Exit::KILLED),
            _ => self.end = Err(Exit::FAILED),
        }
        Ok(self.stages.last().map_or(self.baseline, |stage| stage.used))
    }

    /// Makes the start fail on the way.
    pub(super) fn with_failure(mut self, failed: &FailedStart) -> Result<Self> {
        let lines = |stage: &Stage| stage.lines.iter().position(|line| line.contains(&failed.after));
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
        self.stages.push(Stage {
            seconds: 0.0,
            used,
            lines: failed.log.iter().map(|text| format!("SIMULATED {text}")).collect(),
        });
        self.end = Err(failed.ending);
        Ok(self)
    }
}

/// Memory in the style of the profile, which must be the engine's. `graphs` is the number of TensorRT-LLM's graphs.
fn memory(setup: &Setup, graphs: usize) -> Result<(StartMemory, Option<DynamicMemory>)> {
    let (engine, limit) = (setup.profile.engine, setup.options.memory_limit);
    match &setup.profile.memory {
        MemoryProfile::Pool(profile) if engine.has_pool() => Ok((pool(setup, profile, graphs), None)),
        MemoryProfile::Fixed(profile) if matches!(engine, Engine::Llamacpp | Engine::Ollama) => {
            Ok((StartMemory::fixed(profile, setup.requested(), limit), None))
        }
        MemoryProfile::Dynamic(profile) if engine == Engine::Transformers => {
            let memory = DynamicMemory::new(profile, limit);
            Ok((StartMemory::dynamic(&memory), Some(memory)))
        }
        _ => Err(Fault::usage(format!(
            "profile `{}`: the memory style does not match the engine",
            setup.profile.name
        ))
        .hint("vllm, sglang, tensorrt_llm and tgi: pool; llamacpp and ollama: fixed; transformers: dynamic")),
    }
}

fn pool(setup: &Setup, profile: &PoolProfile, graphs: usize) -> StartMemory {
    if setup.profile.engine != Engine::TensorrtLlm {
        return StartMemory::pool(profile, setup);
    }
    let graphs_mib = profile.graphs_mib * graphs as f64 / PROFILE_GRAPHS;
    let profile = PoolProfile {
        // The share refers to the memory that is free after weights and activations, not to the device.
        kv_share: setup.utilization,
        // Graphs are captured before the cache is sized, and subtracted from it.
        speculation: Some(Speculation {
            activation_mib: 0.0,
            graphs_estimated_mib: graphs_mib,
            graphs_mib,
        }),
        ..profile.clone()
    };
    let setup = Setup {
        utilization: 1.0,
        draft_tokens: 1,
        ..setup.clone()
    };
    StartMemory::pool(&profile, &setup)
}

/// When blocks are allocated, and how long requests may be.
fn limits(setup: &Setup, memory: &StartMemory) -> (KvAllocation, Limits) {
    let (requested, kv_tokens) = (setup.requested(), memory.longest());
    let (allocation, max_total, max_input) = match setup.profile.engine {
        Engine::Sglang => (
            KvAllocation::Grow,
            requested,
            requested.min(kv_tokens).saturating_sub(6),
        ),
        // A request is admitted only if its whole length fits (`GUARANTEED_NO_EVICT`).
        Engine::TensorrtLlm => (KvAllocation::Slice(u64::MAX), requested, requested.saturating_sub(1)),
        Engine::Tgi => {
            let given = setup.length_given && setup.length.is_some();
            let total = if given {
                requested
            } else {
                setup.profile.defaults.max_position_embeddings.min(kv_tokens)
            };
            let longest = total.saturating_sub(1);
            let max_input = setup.options.max_input_tokens.unwrap_or(longest).min(longest);
            (KvAllocation::Slice(TGI_SLICE), total, max_input)
        }
        // The context is divided into equal slots.
        Engine::Llamacpp | Engine::Ollama => {
            let slot = requested / setup.max_seqs;
            (KvAllocation::Slot(slot), slot, slot)
        }
        // No length is checked unless a limit is given here.
        Engine::Transformers if !setup.length_given => (KvAllocation::Grow, u64::MAX, u64::MAX),
        _ if setup.length.is_none() => {
            let fitting = requested.min(kv_tokens);
            (KvAllocation::Grow, fitting, fitting)
        }
        _ => (KvAllocation::Grow, requested, requested),
    };
    let limits = Limits {
        max_total,
        max_input,
        kv_tokens: (setup.profile.engine != Engine::Transformers).then(|| memory.kv_tokens(max_total)),
        memory: *memory,
        load_error: None,
    };
    (allocation, limits)
}

/// The error at the first stage that exceeds the device, as reported by torch.
fn out_of_memory(engine: Engine, memory: &StartMemory) -> Option<CudaOom> {
    let cache = if engine.has_pool() { 0 } else { memory.used_kv };
    let stages = [
        (memory.used_context, memory.used_weights),
        (memory.used_weights, memory.used_peak),
        (memory.used_weights, cache),
        (memory.used_kv, memory.used_ready),
    ];
    let (from, to) = stages.into_iter().find(|(_, to)| *to > memory.total)?;
    let allocated = from.saturating_sub(memory.used_context);
    Some(CudaOom {
        tried: to - from,
        capacity: memory.device,
        process: from.saturating_sub(memory.used_baseline),
        allowed: None,
        allocated,
        reserved: allocated,
    })
}

/// A CUDA graph of TensorRT-LLM, for a batch size and a draft length.
#[derive(Serialize)]
struct Graph {
    batch: u64,
    draft: u64,
}

/// TensorRT-LLM's graphs in capture order: all batch sizes without padding up to the maximum, each with the draft
/// length; also with draft length 0 if speculation may be switched off.
fn graphs(setup: &Setup) -> Vec<Graph> {
    if setup.eager || setup.profile.engine != Engine::TensorrtLlm {
        return Vec::new();
    }
    let mut drafts = vec![setup.draft_tokens];
    if setup.draft_tokens > 0 && setup.options.speculation_max_concurrency.is_some() {
        drafts.push(0);
    }
    let sizes = [128, 64].into_iter().chain((1..=32).rev());
    sizes
        .filter(|size| *size <= setup.max_seqs)
        .flat_map(|batch| drafts.iter().map(move |draft| Graph { batch, draft: *draft }))
        .collect()
}
