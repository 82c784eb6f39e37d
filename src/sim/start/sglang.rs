//! Start of SGLang (wording of 0.5.23): weights, a pool of tokens within the given share, CUDA graphs; or an exit
//! whose code does not tell the cause.

use super::{LinePrefix, LogLine, ServingEngine, Stage, StartOutcome, StartPlan, pool_options};
use crate::sim::handle::Exit;
use crate::sim::memory::{CudaOom, PoolPlan, gib};
use crate::sim::options::{Length, Setup};
use crate::sim::profile::Pool;
use crate::sim::scheduler::KvAllocation;

/// It listens from the beginning, and answers 503.
pub(super) fn plan(setup: &Setup, profile: &Pool) -> StartPlan {
    let pool = PoolPlan::new(profile, &pool_options(setup));
    let mut stages = Vec::new();
    let end = match start(setup, &pool, &mut stages) {
        Ok(serving) => StartOutcome::Serve(Box::new(serving)),
        Err(cause) => {
            let used = stages.last().map_or(pool.used_baseline, |stage: &Stage| stage.used);
            stages.push(Stage::new(0.0, used, crash(&cause)));
            // SGLang kills itself when a worker fails; this is not an OOM kill.
            StartOutcome::Exit(Exit::KILLED)
        }
    };
    StartPlan::of_pool(&pool, true, stages, end)
}

fn start(setup: &Setup, pool: &PoolPlan, stages: &mut Vec<Stage>) -> Result<ServingEngine, String> {
    let time = &setup.profile.time;
    let longest = setup.profile.defaults.max_position_embeddings;
    let context = match setup.length {
        Length::Auto => longest,
        Length::Tokens(tokens) => tokens,
    };
    if context > longest {
        stages.push(Stage::new(time.boot_seconds, pool.used_baseline, vec![banner(setup)]));
        return Err(format!(
            "ValueError: Warning: User-specified context_length ({context}) is greater than the derived context_length ({longest}). \
             This may lead to incorrect model outputs or CUDA errors."
        ));
    }
    let free = |used: u64| gib(pool.total.saturating_sub(used));
    stages.push(Stage::new(
        time.boot_seconds,
        pool.used_context,
        vec![
            banner(setup),
            line(format!(
                "Memory baseline taken. mem usage={:.2} GB",
                gib(pool.used_context - pool.used_baseline)
            )),
            line(format!(
                "Load weight begin. avail mem={:.2} GB",
                free(pool.used_context)
            )),
        ],
    ));
    if pool.used_weights > pool.total {
        let oom = CudaOom {
            tried: pool.weights,
            capacity: pool.device,
            process: pool.used_context - pool.used_baseline,
            allowed: None,
            allocated: 0,
            reserved: 0,
        };
        return Err(format!("torch.OutOfMemoryError: {oom}"));
    }
    let loaded = format!(
        "Load weight end. elapsed={:.2} s, type=LlamaForCausalLM, avail mem={:.2} GB, mem usage={:.2} GB.",
        time.load_seconds,
        free(pool.used_weights),
        gib(pool.weights)
    );
    stages.push(Stage::new(time.load_seconds, pool.used_weights, vec![line(loaded)]));
    if pool.blocks == 0 {
        return Err(format!(
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static={:?}",
            setup.utilization
        ));
    }
    let tokens = pool.kv_tokens();
    let half = gib(pool.blocks * pool.block_bytes) / 2.0;
    stages.push(Stage::new(
        0.0,
        pool.used_kv,
        vec![
            line(format!(
                "KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: {half:.2} GB, V size: {half:.2} GB"
            )),
            line(format!("Memory pool end. avail mem={:.2} GB", free(pool.used_kv))),
        ],
    ));
    if !setup.eager {
        stages.push(captured(setup, pool));
    }
    stages.push(ready(setup, pool, context));
    let max_input = context.min(tokens).saturating_sub(6);
    Ok(ServingEngine::of_pool(
        setup,
        pool,
        KvAllocation::Grow,
        context,
        max_input,
    ))
}

fn captured(setup: &Setup, pool: &PoolPlan) -> Stage {
    let seconds = setup.profile.time.graphs_seconds;
    let free = gib(pool.total.saturating_sub(pool.used_graphs));
    let text = format!(
        "Capture target decode CUDA graph end. elapsed={seconds:.2} s, mem usage={:.2} GB, avail mem={free:.2} GB.",
        gib(pool.graphs)
    );
    Stage::new(
        seconds,
        pool.used_graphs,
        vec![
            line("Capture target decode CUDA graph begin. backend=full, bs=[1, 2, 4], avail mem=0.00 GB"),
            line(text),
        ],
    )
}

fn ready(setup: &Setup, pool: &PoolPlan, context: u64) -> Stage {
    let tokens = pool.kv_tokens();
    let mut lines = vec![line(format!(
        "max_total_num_tokens={tokens}, chunked_prefill_size={}, max_prefill_tokens=16384, max_running_requests={}, context_len={context}, \
         available_gpu_mem={:.2} GB",
        setup.step_tokens,
        setup.max_seqs,
        gib(pool.total.saturating_sub(pool.used_ready))
    ))];
    if tokens < context {
        lines.push(line(format!(
            "KV pool holds {tokens} tokens, fewer than --context-length {context}. One full-length request cannot fit, so long requests \
             will be refused or truncated at serving time."
        )));
    }
    lines.push(line("The server is fired up and ready to roll!"));
    Stage::new(setup.profile.time.warm_up_seconds, pool.used_ready, lines)
}

fn crash(cause: &str) -> Vec<LogLine> {
    vec![
        line("Scheduler hit an exception: Traceback (most recent call last):"),
        LogLine::new(LinePrefix::Bare, cause),
        line("Received sigquit from a child process. It usually means the child failed."),
    ]
}

fn banner(setup: &Setup) -> LogLine {
    line(format!(
        "engine, profile {}: version {}, model {}",
        setup.profile.name,
        setup.version(),
        setup.model
    ))
}

fn line(text: impl Into<String>) -> LogLine {
    LogLine::new(LinePrefix::Sglang, text)
}
