//! The start of TensorRT-LLM (wording of 1.2): weights, an estimate with a small cache, the cache of what is left. It is ready even where the
//! cache holds less than one request.

use super::line::{Head, Line};
use super::{End, Plan, Serving, Sizes, Stage, failed};
use crate::sim::memory::{Blocks, PoolAsk, PoolPlan, gib};
use crate::sim::profile::{Pool, Speculation};
use crate::sim::schedule::{Batch, Growth, Store};
use crate::sim::setup::{Length, Setup};

/// A request is let in only when its whole length has room (`GUARANTEED_NO_EVICT`).
const WHOLE: Growth = Growth::Slice(u64::MAX);

/// Graphs of the profile's `graphs_mib`: those of the batch sizes below, for one draft length.
const USUAL: f64 = 34.0;

/// The start of TensorRT-LLM.
pub(super) fn plan(setup: &Setup, profile: &Pool) -> Plan {
    let graphs = graphs(setup);
    let graphs_mib = profile.graphs_mib * graphs.len() as f64 / USUAL;
    let profile = Pool {
        // The share is one of what is free after weights and activations, not of the device.
        kv_share: setup.utilization,
        // Graphs are captured before the cache is sized, and taken off it.
        speculation: Some(Speculation {
            activation_mib: 0.0,
            graphs_estimated_mib: graphs_mib,
            graphs_mib,
        }),
        ..profile.clone()
    };
    let pool = PoolPlan::new(
        &profile,
        &PoolAsk {
            utilization: 1.0,
            batch_tokens: setup.step_tokens,
            eager: setup.eager,
            fp8: setup.fp8,
            speculate: true,
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
        stages.push(stage(time.profile_seconds, pool.used_peak, estimated(&pool, &graphs)));
        let serving = serving(setup, &pool);
        stages.push(stage(
            time.graphs_seconds * graphs.len() as f64 / USUAL,
            pool.used_graphs,
            created(setup, &pool, serving.max_total, &graphs),
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
fn estimated(pool: &PoolPlan, graphs: &[Graph]) -> Vec<Line> {
    let small = pool.needs(8224);
    let profiled = "in memory usage profiling";
    let activation = gib(pool.used_peak - pool.used_weights);
    let context = gib(pool.used_context - pool.used_baseline);
    let told = [
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
    ];
    std::iter::once(cache(small, 8224))
        .chain(captured(graphs))
        .chain(told)
        .collect()
}

fn created(setup: &Setup, pool: &PoolPlan, max_total: u64, graphs: &[Graph]) -> Vec<Line> {
    let mut lines = vec![
        info(format!("Number of tokens per block: {}.", pool.block_tokens)),
        info(format!("Number of blocks in KV cache primary pool: {}", pool.blocks)),
        cache(pool.blocks * pool.block_bytes, pool.kv_tokens()),
        info(format!(
            "max_seq_len={max_total}, max_num_requests={}, max_num_tokens={}, max_batch_size={}",
            setup.max_seqs, setup.step_tokens, setup.max_seqs
        )),
    ];
    lines.extend(captured(graphs));
    lines
}

/// A graph: the sequences and the drafted tokens of each that it is for.
struct Graph {
    batch: u64,
    draft: u64,
}

/// The graphs of a start, in the order in which they are captured: batch sizes without padding, up to the largest batch, and for each the draft
/// length; and draft length 0 as well where speculation may be switched off.
fn graphs(setup: &Setup) -> Vec<Graph> {
    if setup.eager {
        return Vec::new();
    }
    let sizes = (1..=32).chain([64, 128]).filter(|size| *size <= setup.max_seqs);
    let mut drafts = vec![setup.drafts];
    if setup.drafts > 0 && setup.drafts_up_to.is_some() {
        drafts.push(0);
    }
    let sizes: Vec<u64> = sizes.collect();
    let of = |batch: u64| drafts.iter().map(move |draft| Graph { batch, draft: *draft });
    sizes.into_iter().rev().flat_map(of).collect()
}

/// What is logged of them, each time that they are captured.
fn captured(graphs: &[Graph]) -> Vec<Line> {
    let Some(first) = graphs.first() else {
        return Vec::new();
    };
    let sizes = graphs.iter().filter(|graph| graph.draft == first.draft).count();
    let heading = info(format!("Creating CUDA graph instances for {sizes} batch sizes."));
    let line = |graph: &Graph| {
        info(format!(
            "Run generation only CUDA graph warmup for batch size={}, draft_len={}",
            graph.batch, graph.draft
        ))
    };
    std::iter::once(heading).chain(graphs.iter().map(line)).collect()
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
