//! Start of llama-server (as with `-lv 4`): buffers for weights, KV cache of the whole context and scratch, or its
//! exit.

use super::log_line::{LinePrefix, LogLine};
use super::{ServingEngine, Stage, StartOutcome, StartPlan, exit_with_error};
use crate::sim::memory::{BlockPool, FixedPlan};
use crate::sim::profile::Fixed;
use crate::sim::schedule::{KvAllocation, KvStore, Scheduler};
use crate::sim::setup::{Length, Setup};

const MIB: f64 = 1_048_576.0;

pub(super) fn plan(setup: &Setup, profile: &Fixed, url: &str) -> StartPlan {
    let context = context(setup);
    let slot = context / setup.max_seqs;
    let memory = FixedPlan::new(profile, context, setup.memory_limit);
    let mut stages = Vec::new();
    let end = match load(setup, profile, &memory, context, &mut stages) {
        Ok(()) => {
            stages.push(Stage {
                seconds: setup.profile.time.warm_up_seconds,
                used: memory.used(3),
                lines: vec![
                    initializing(setup.max_seqs, slot),
                    line("main: model loaded"),
                    line(format!("main: server is listening on {url}")),
                ],
            });
            StartOutcome::Serve(Box::new(slots(setup, &memory, context)))
        }
        Err(lines) => {
            let used = stages.last().map_or(memory.reserved, |stage: &Stage| stage.used);
            stages.push(Stage {
                seconds: 0.0,
                used,
                lines,
            });
            exit_with_error()
        }
    };
    StartPlan {
        total: memory.total,
        baseline: memory.reserved,
        listens_early: true,
        stages,
        end,
    }
}

/// Context length over all slots.
pub(super) fn context(setup: &Setup) -> u64 {
    match setup.length {
        Length::Tokens(0) | Length::Auto => setup.profile.defaults.max_position_embeddings,
        Length::Tokens(tokens) => tokens,
    }
}

/// An engine whose context is divided into equal slots.
pub(super) fn slots(setup: &Setup, memory: &FixedPlan, context: u64) -> ServingEngine {
    let slot = context / setup.max_seqs;
    let store = KvStore::Pool(BlockPool::new(slot * setup.max_seqs, 1), KvAllocation::Slot(slot));
    ServingEngine {
        scheduler: Scheduler::new(
            store,
            setup.profile.time,
            setup.eager,
            setup.max_seqs,
            setup.step_tokens,
        ),
        max_total: slot,
        max_input: slot,
        kv_tokens: Some(context),
        blocks: None,
        used: memory.used(3),
        load_error: None,
        sizes: None,
    }
}

pub(super) fn initializing(slots: u64, slot: u64) -> LogLine {
    line(format!(
        "srv    load_model: initializing, n_slots = {slots}, n_ctx_slot = {slot}, kv_unified = 'false'"
    ))
}

/// Loads model and context: adds the stages that succeed. Returns the log lines of a failure.
pub(super) fn load(
    setup: &Setup,
    profile: &Fixed,
    memory: &FixedPlan,
    context: u64,
    stages: &mut Vec<Stage>,
) -> Result<(), Vec<LogLine>> {
    let time = &setup.profile.time;
    let layers = profile.layers;
    stages.push(Stage {
        seconds: time.boot_seconds,
        used: memory.used(0),
        lines: vec![
            line(format!(
                "engine, profile {}: build {}",
                setup.profile.name,
                setup.version()
            )),
            line(format!(
                "llama_model_load_from_file_impl: using device CUDA0 ({}) - {} MiB free",
                setup.profile.gpu,
                memory.free >> 20
            )),
        ],
    });
    if !memory.fits(1) {
        return Err(failure(
            memory.weights,
            "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
        ));
    }
    stages.push(Stage {
        seconds: time.load_seconds,
        used: memory.used(1),
        lines: vec![
            line(format!("load_tensors: offloaded {0}/{0} layers to GPU", layers + 1)),
            line(format!(
                "load_tensors:        CUDA0 model buffer size = {:8.2} MiB",
                mib(memory.weights)
            )),
            line(format!("llama_context: n_ctx         = {context}")),
            line(format!("llama_context: n_ctx_seq     = {}", context / setup.max_seqs)),
        ],
    });
    if !memory.fits(2) {
        let reason = "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache";
        return Err(failure(memory.kv, reason));
    }
    let (kv, half, slots) = (mib(memory.kv), mib(memory.kv) / 2.0, setup.max_seqs);
    stages.push(Stage {
        seconds: 0.0,
        used: memory.used(2),
        lines: vec![
            line(format!(
                "llama_context:  CUDA_Host  output buffer size = {:8.2} MiB",
                mib(memory.output)
            )),
            line(format!("llama_kv_cache:      CUDA0 KV buffer size = {kv:8.2} MiB")),
            line(format!(
                "llama_kv_cache: size = {kv:7.2} MiB ({context:6} cells, {layers:3} layers, {slots:2}/{slots} seqs), \
                 K (f16): {half:7.2} MiB, V (f16): {half:7.2} MiB"
            )),
        ],
    });
    if !memory.fits(3) {
        let reason = "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers";
        return Err(failure(memory.compute, reason));
    }
    stages.push(Stage {
        seconds: 0.0,
        used: memory.used(3),
        lines: vec![line(format!(
            "llama_context:      CUDA0 compute buffer size = {:8.2} MiB",
            mib(memory.compute)
        ))],
    });
    Ok(())
}

fn failure(bytes: u64, reason: &str) -> Vec<LogLine> {
    vec![
        line(format!(
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating {:.2} MiB on device 0: cudaMalloc failed: out of memory",
            mib(bytes)
        )),
        line(format!(
            "alloc_tensor_range: failed to allocate CUDA0 buffer of size {bytes}"
        )),
        line(reason),
        line("srv    load_model: failed to load model"),
        line("main: exiting due to model loading error"),
    ]
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

fn line(text: impl Into<String>) -> LogLine {
    LogLine::new(LinePrefix::Bare, text)
}
