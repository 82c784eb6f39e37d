//! Start of llama-server (as with `-lv 4`): buffers for weights, KV cache of the whole context and scratch, or its
//! exit.
//!
//! Start of Ollama (wording of 0.30 and later): the server is up at once, and a child llama-server loads the model. If
//! that fails, the server keeps running and reports the error to requests.

use super::{LinePrefix, LogLine, ServingEngine, Stage, StartOutcome, StartPlan, exit_with_error, scheduler};
use crate::sim::memory::{BlockPool, FixedPlan, gib};
use crate::sim::options::{Length, Setup};
use crate::sim::profile::Fixed;
use crate::sim::scheduler::{KvAllocation, KvStore};

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
        scheduler: scheduler(setup, store),
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

pub(super) fn plan_ollama(setup: &Setup, profile: &Fixed, url: &str) -> StartPlan {
    let context = context(setup);
    let slot = context / setup.max_seqs;
    let memory = FixedPlan::new(profile, context, setup.memory_limit);
    let mut stages = vec![Stage {
        seconds: 0.0,
        used: memory.reserved,
        lines: vec![
            slog(
                "INFO",
                format!("msg=\"Listening on {url} (version {})\"", setup.version()),
            ),
            slog(
                "INFO",
                format!(
                    "msg=\"inference compute\" id=GPU-0 library=CUDA compute=9.0 name=CUDA0 total=\"{:.1} GiB\" available=\"{:.1} GiB\"",
                    gib(memory.total),
                    gib(memory.free)
                ),
            ),
            slog(
                "INFO",
                format!(
                    "msg=\"starting llama-server\" cmd=\"llama-server --model {} -c {context} -np {}\"",
                    setup.model, setup.max_seqs
                ),
            ),
        ],
    }];
    let load_error = match load(setup, profile, &memory, context, &mut stages) {
        Ok(()) => {
            stages.push(Stage {
                seconds: setup.profile.time.warm_up_seconds,
                used: memory.used(3),
                lines: vec![
                    initializing(setup.max_seqs, slot),
                    slog(
                        "INFO",
                        format!(
                            "msg=\"llama-server started in {:.2} seconds\"",
                            setup.profile.time.load_seconds
                        ),
                    ),
                ],
            });
            None
        }
        Err(mut lines) => {
            let last = lines.first().map(|line| line.text.clone()).unwrap_or_default();
            let why = format!("llama-server process has terminated: exit status 1: {last}");
            lines.push(slog(
                "INFO",
                format!("msg=\"Load failed\" model={} error=\"{why}\"", setup.model),
            ));
            stages.push(Stage {
                seconds: 0.0,
                used: memory.reserved,
                lines,
            });
            Some(why)
        }
    };
    StartPlan {
        total: memory.total,
        baseline: memory.reserved,
        listens_early: true,
        stages,
        end: StartOutcome::Serve(Box::new(ServingEngine {
            load_error,
            ..slots(setup, &memory, context)
        })),
    }
}

fn slog(level: &'static str, text: String) -> LogLine {
    LogLine::new(LinePrefix::Slog { level }, text)
}
