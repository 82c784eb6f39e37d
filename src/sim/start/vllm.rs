//! Start of vLLM (wording of 0.24): weights, profiling, the pool, CUDA graphs; or a failure with the engine's own
//! messages.

use super::{LinePrefix, LogLine, ServingEngine, Stage, StartOutcome, StartPlan, exit_with_error, pool_options};
use crate::sim::memory::{CudaOom, PoolOptions, PoolPlan, gib};
use crate::sim::options::{Length, Setup};
use crate::sim::profile::Pool;
use crate::sim::scheduler::KvAllocation;

pub(super) fn plan(setup: &Setup, profile: &Pool, url: &str) -> StartPlan {
    let pool = PoolPlan::new(
        profile,
        &PoolOptions {
            speculate: setup.draft_tokens > 0,
            ..pool_options(setup)
        },
    );
    let mut stages = Vec::new();
    let end = match start(setup, &pool, &mut stages, url) {
        Ok(serving) => StartOutcome::Serve(Box::new(serving)),
        Err(cause) => {
            let used = stages.last().map_or(pool.used_baseline, |stage: &Stage| stage.used);
            stages.push(Stage {
                seconds: 0.0,
                used,
                lines: failure(&cause),
            });
            exit_with_error()
        }
    };
    StartPlan::of_pool(&pool, false, stages, end)
}

fn start(setup: &Setup, pool: &PoolPlan, stages: &mut Vec<Stage>, url: &str) -> Result<ServingEngine, String> {
    let time = &setup.profile.time;
    let longest = setup.profile.defaults.max_position_embeddings;
    let requested = match setup.length {
        Length::Auto => longest,
        Length::Tokens(tokens) => tokens,
    };
    if requested > longest {
        stages.push(Stage::new(time.boot_seconds, pool.used_baseline, vec![banner(setup)]));
        return Err(format!(
            "ValueError: User-specified max_model_len ({requested}) is greater than the derived max_model_len \
             (max_position_embeddings={longest} or model_max_length=None in model's config.json)."
        ));
    }
    let boot = vec![
        banner(setup),
        api("model.py:1725", format!("Using max model len {requested}")),
        api(
            "scheduler.py:252",
            format!(
                "Chunked prefill is enabled with max_num_batched_tokens={}.",
                setup.step_tokens
            ),
        ),
        core(
            "core.py:114",
            format!(
                "Initializing a V1 LLM engine (v{}) with config: model='{}', max_seq_len={requested}",
                setup.version(),
                setup.model
            ),
        ),
    ];
    stages.push(Stage::new(time.boot_seconds, pool.used_context, boot));
    if pool.free < pool.budget {
        return Err(format!(
            "ValueError: Free memory on device cuda:0 ({:.2}/{:.2} GiB) on startup is less than desired GPU memory \
             utilization ({}, {:.2} GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
            gib(pool.free),
            gib(pool.device),
            python(setup.utilization),
            gib(pool.budget),
        ));
    }
    fits(pool, pool.used_context, pool.used_weights)?;
    let loaded = format!(
        "Model loading took {} GiB and {:.6} seconds",
        size(pool.weights),
        time.load_seconds
    );
    stages.push(Stage::new(
        time.load_seconds,
        pool.used_weights,
        vec![core("model_runner.py:302", loaded)],
    ));
    fits(pool, pool.used_weights, pool.used_peak)?;
    stages.push(profiled(setup, pool));
    let max_len = fitting_length(setup, pool, requested)?;
    let mut lines = Vec::new();
    if setup.length == Length::Auto {
        lines.push(core("kv_cache_utils.py:1954", auto_fit(pool, longest, max_len)));
    }
    lines.push(core(
        "kv_cache_utils.py:2146",
        format!("GPU KV cache size: {} tokens", grouped(pool.kv_tokens())),
    ));
    lines.push(core(
        "kv_cache_utils.py:2147",
        format!(
            "Maximum concurrency for {} tokens per request: {:.2}x",
            grouped(max_len),
            pool.blocks as f64 / max_len.div_ceil(pool.block_tokens) as f64
        ),
    ));
    stages.push(Stage::new(0.0, pool.used_kv, lines));
    fits(pool, pool.used_kv, pool.used_ready)?;
    if !setup.eager {
        stages.push(captured(setup, pool));
    }
    stages.push(ready(setup, pool, url));
    let allocation = KvAllocation::Grow;
    Ok(ServingEngine::of_pool(setup, pool, allocation, max_len, max_len))
}

/// The length that is served, or the error.
fn fitting_length(setup: &Setup, pool: &PoolPlan, requested: u64) -> Result<u64, String> {
    if pool.blocks == 0 {
        return Err(
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when \
                    initializing the engine."
                .to_owned(),
        );
    }
    match setup.length {
        Length::Auto => Ok(requested.min(pool.kv_tokens())),
        Length::Tokens(tokens) if tokens <= pool.kv_tokens() => Ok(tokens),
        Length::Tokens(tokens) => Err(format!(
            "ValueError: To serve at least one request with the model's max seq len ({tokens}), ({} GiB KV cache is needed, which \
             is larger than the available KV cache memory ({} GiB). Based on the available memory, the estimated maximum \
             model length is {}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
            size(pool.kv_bytes_for(tokens)),
            size(pool.available.max(0).unsigned_abs()),
            pool.kv_tokens(),
        )),
    }
}

fn profiled(setup: &Setup, pool: &PoolPlan) -> Stage {
    let time = &setup.profile.time;
    let mut lines = Vec::new();
    let mut seconds = time.profile_seconds;
    if !setup.eager {
        seconds += time.compile_seconds;
        lines.push(core(
            "monitor.py:53",
            format!("torch.compile took {:.2} s in total", time.compile_seconds),
        ));
    }
    if pool.graphs_estimated > 0 {
        let estimate = format!(
            "Estimated CUDA graph memory: {:.2} GiB total",
            gib(pool.graphs_estimated)
        );
        lines.push(core("gpu_model_runner.py:6588", estimate));
    }
    let sign = if pool.available < 0 { "-" } else { "" };
    let available = size(pool.available.unsigned_abs());
    lines.push(core(
        "gpu_worker.py:508",
        format!("Available KV cache memory: {sign}{available} GiB"),
    ));
    Stage::new(seconds, pool.used_peak, lines)
}

fn captured(setup: &Setup, pool: &PoolPlan) -> Stage {
    let seconds = setup.profile.time.graphs_seconds;
    let (actual, estimated) = (gib(pool.graphs), gib(pool.graphs_estimated));
    let mut lines = vec![core(
        "model_runner.py:726",
        format!("Graph capturing finished in {seconds:.0} secs, took {actual:.2} GiB"),
    )];
    if pool.graphs_estimated > 0 {
        let (difference, share) = ((actual - estimated).abs(), (actual - estimated).abs() / actual * 100.0);
        lines.push(core(
            "gpu_worker.py:667",
            format!(
                "CUDA graph pool memory: {actual:.2} GiB (actual), {estimated:.2} GiB (estimated), difference: {difference:.2} GiB ({share:.1}%)."
            ),
        ));
    }
    Stage::new(seconds, pool.used_graphs, lines)
}

fn ready(setup: &Setup, pool: &PoolPlan, url: &str) -> Stage {
    let time = &setup.profile.time;
    let mut took = time.profile_seconds + time.warm_up_seconds;
    if !setup.eager {
        took += time.compile_seconds + time.graphs_seconds;
    }
    // Not a message of vLLM. The simulation is too fast for a sampler to observe these amounts.
    let own = format!(
        "memory: {} bytes of context, {} of activations",
        pool.used_context - pool.used_baseline,
        pool.used_ready - pool.used_graphs
    );
    let lines = vec![
        LogLine::new(LinePrefix::Bare, own),
        core(
            "core.py:337",
            format!("init engine (profile, create kv cache, warmup model) took {took:.2} s"),
        ),
        api("api_server.py:581", format!("Starting vLLM server on {url}")),
        LogLine::new(
            LinePrefix::VllmRaw("APIServer"),
            "INFO:     Application startup complete.",
        ),
    ];
    Stage::new(time.warm_up_seconds, pool.used_ready, lines)
}

fn auto_fit(pool: &PoolPlan, longest: u64, max_len: u64) -> String {
    let available = size(pool.available.max(0).unsigned_abs());
    if max_len == longest {
        format!(
            "Auto-fit max_model_len: full model context length {longest} fits in available GPU memory ({available} GiB available for KV cache)"
        )
    } else {
        format!(
            "Auto-fit max_model_len: reduced from {longest} to {max_len} to fit in available GPU memory ({available} GiB available for KV cache)"
        )
    }
}

/// Torch's error if growing from one amount in use to another exceeds the device.
fn fits(pool: &PoolPlan, from: u64, to: u64) -> Result<(), String> {
    if to <= pool.total {
        return Ok(());
    }
    let process = from.saturating_sub(pool.used_baseline);
    let allocated = from.saturating_sub(pool.used_context);
    let oom = CudaOom {
        tried: to - from,
        capacity: pool.device,
        process,
        allowed: None,
        allocated,
        reserved: allocated,
    };
    Err(format!("torch.OutOfMemoryError: {oom}"))
}

fn failure(cause: &str) -> Vec<LogLine> {
    let prefix = LinePrefix::Vllm {
        process: "EngineCore",
        level: "ERROR",
        place: "core.py:1231",
    };
    vec![
        LogLine::new(prefix, "EngineCore failed to start."),
        LogLine::new(prefix, "Traceback (most recent call last):"),
        LogLine::new(prefix, cause),
        LogLine::new(
            LinePrefix::VllmRaw("APIServer"),
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        ),
    ]
}

fn banner(setup: &Setup) -> LogLine {
    api(
        "api_utils.py:339",
        format!(
            "SIMULATED engine, profile {}: version {}, model {}",
            setup.profile.name,
            setup.version(),
            setup.model
        ),
    )
}

fn api(place: &'static str, text: impl Into<String>) -> LogLine {
    LogLine::new(
        LinePrefix::Vllm {
            process: "APIServer",
            level: "INFO",
            place,
        },
        text,
    )
}

fn core(place: &'static str, text: impl Into<String>) -> LogLine {
    LogLine::new(
        LinePrefix::Vllm {
            process: "EngineCore",
            level: "INFO",
            place,
        },
        text,
    )
}

/// GiB as vLLM logs them: two decimals without trailing zeros, but at least one decimal.
fn size(bytes: u64) -> String {
    python((gib(bytes) * 100.0).round() / 100.0)
}

fn python(value: f64) -> String {
    format!("{value:?}")
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
