//! The start of TensorRT-LLM (wording of 1.2): weights, an estimate with a small cache, the cache of what is left. It is ready even where the
//! cache holds less than one request.

use super::line::{Head, Line};
use super::{End, Plan, Serving, Sizes, Stage, failed};
use crate::sim::memory::{Blocks, PoolAsk, PoolPlan, gib};
use crate::sim::profile::Pool;
use crate::sim::schedule::{Batch, Growth, Store};
use crate::sim::setup::{Length, Setup};

/// A request is let in only when its whole length has room (`GUARANTEED_NO_EVICT`).
const WHOLE: Growth = Growth::Slice(u64::MAX);

/// The start of TensorRT-LLM.
pub(super) fn plan(setup: &Setup, profile: &Pool) -> Plan {
    // The share is one of what is free after weights and activations, not of the device.
    let profile = Pool {
        kv_share: setup.utilization,
        ..profile.clone()
    };
    let pool = PoolPlan::new(
        &profile,
        &PoolAsk {
            utilization: 1.0,
            batch_tokens: setup.step_tokens,
            eager: setup.eager,
            fp8: setup.fp8,
            speculate: false,
            limit: setup.limit,
        },
    );
    let time = &setup.profile.time;
    let mut stages = vec![
        stage(time.boot_seconds, pool.used_context, vec![banner(setup)]),
        stage(time.load_seconds, pool.used_weights.min(pool.total), weights(&pool)),
    ];
    let end = if pool.blocks == 0 {
        stages.push(stage(time.profile_seconds, pool.used_weights.min(pool.total), crash()));
        failed()
    } else {
        stages.push(stage(time.profile_seconds, pool.used_peak, estimated(&pool)));
        let serving = serving(setup, &pool);
        stages.push(stage(
            time.graphs_seconds,
            pool.used_graphs,
            created(setup, &pool, serving.max_total),
        ));
        stages.push(stage(
            time.warm_up_seconds,
            pool.used_ready,
            vec![Line::new(Head::Bare, "INFO:     Application startup complete.")],
        ));
        End::Serve(Box::new(serving))
    };
    Plan {
        total: pool.total,
        baseline: pool.used_baseline,
        listens_early: false,
        stages,
        end,
    }
}

fn serving(setup: &Setup, pool: &PoolPlan) -> Serving {
    let max_total = match setup.length {
        Length::Tokens(tokens) => tokens,
        Length::Auto => setup.profile.defaults.max_position_embeddings,
    };
    let store = Store::Pool(Blocks::new(pool.blocks, pool.block_tokens), WHOLE);
    Serving {
        batch: Batch::new(
            store,
            setup.profile.time,
            setup.eager,
            setup.max_seqs,
            setup.step_tokens,
        ),
        max_total,
        max_input: max_total.saturating_sub(1),
        kv_tokens: Some(pool.kv_tokens()),
        blocks: Some((pool.blocks, pool.block_tokens)),
        used: pool.used_serving,
        unloadable: None,
        sizes: Some(Sizes {
            weights: pool.weights,
            kv: pool.blocks * pool.block_bytes,
            graphs: pool.graphs,
        }),
    }
}

fn weights(pool: &PoolPlan) -> Vec<Line> {
    vec![info(format!("Use {:.2} GB for model weights.", gib(pool.weights)))]
}

/// The first of two passes, with a cache for a step's tokens.
fn estimated(pool: &PoolPlan) -> Vec<Line> {
    let small = pool.needs(8224);
    let profiled = "in memory usage profiling";
    let activation = gib(pool.used_peak - pool.used_weights);
    let context = gib(pool.used_context - pool.used_baseline);
    vec![
        cache(small, 8224),
        info(format!(
            "Memory used after loading model weights (inside torch) {profiled}: {:.2} GiB",
            gib(pool.weights)
        )),
        info(format!(
            "Memory used after loading model weights (outside torch) {profiled}: {context:.2} GiB"
        )),
        info(format!(
            "Memory dynamically allocated during inference (inside torch) {profiled}: {activation:.2} GiB"
        )),
        info(format!(
            "Memory used outside torch (e.g., NCCL and CUDA graphs) {profiled}: {:.2} GiB",
            context + gib(pool.graphs)
        )),
        info(format!(
            "Peak memory during memory usage profiling (torch + non-torch): {:.2} GiB, available KV cache memory when calculating max \
             tokens: {:.2} GiB",
            gib(pool.used_peak + small),
            gib(pool.blocks * pool.block_bytes)
        )),
        info(format!("Estimated max tokens in KV cache : {}", pool.kv_tokens())),
    ]
}

fn created(setup: &Setup, pool: &PoolPlan, max_total: u64) -> Vec<Line> {
    let mut lines = vec![
        info(format!("Number of tokens per block: {}.", pool.block_tokens)),
        info(format!("Number of blocks in KV cache primary pool: {}", pool.blocks)),
        cache(pool.blocks * pool.block_bytes, pool.kv_tokens()),
        info(format!(
            "max_seq_len={max_total}, max_num_requests={}, max_num_tokens={}, max_batch_size={}",
            setup.max_seqs, setup.step_tokens, setup.max_seqs
        )),
    ];
    if !setup.eager {
        lines.push(info("Creating CUDA graph instances for 34 batch sizes."));
    }
    lines
}

fn cache(bytes: u64, tokens: u64) -> Line {
    info(format!(
        "[MemUsageChange] Allocated {:.2} GiB for max tokens in paged KV cache ({tokens}).",
        gib(bytes)
    ))
}

fn crash() -> Vec<Line> {
    vec![
        Line::new(
            Head::TensorrtLlm("E"),
            "Executor creation failed due to insufficient GPU memory.",
        ),
        Line::new(Head::Bare, "RuntimeError: Executor worker returned error"),
    ]
}

fn banner(setup: &Setup) -> Line {
    Line::new(
        Head::Start,
        format!(
            "[TensorRT-LLM] TensorRT-LLM version: {} (SIMULATED, profile {})",
            setup.version(),
            setup.profile.name
        ),
    )
}

fn stage(seconds: f64, used: u64, lines: Vec<Line>) -> Stage {
    Stage { seconds, used, lines }
}

fn info(text: impl Into<String>) -> Line {
    Line::new(Head::TensorrtLlm("I"), text)
}
