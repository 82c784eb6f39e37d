//! Start of TensorRT-LLM (wording of 1.2): weights, an estimation pass with a small cache, then a cache of the
//! remaining memory. It becomes ready even if the cache holds less than one request.

use super::{LinePrefix, LogLine, ServingEngine, Stage, StartOutcome, StartPlan, exit_with_error, pool_options};
use crate::sim::memory::{PoolOptions, PoolPlan, gib};
use crate::sim::options::{Length, Setup};
use crate::sim::profile::{Pool, Speculation};
use crate::sim::scheduler::KvAllocation;

/// A request is admitted only if its whole length fits (`GUARANTEED_NO_EVICT`).
const WHOLE_REQUEST: KvAllocation = KvAllocation::Slice(u64::MAX);

/// Number of graphs that the profile's `graphs_mib` covers: the batch sizes below, for one draft length.
const PROFILE_GRAPHS: f64 = 34.0;

pub(super) fn plan(setup: &Setup, profile: &Pool) -> StartPlan {
    let graphs = graphs(setup);
    let graphs_mib = profile.graphs_mib * graphs.len() as f64 / PROFILE_GRAPHS;
    let profile = Pool {
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
    let pool = PoolPlan::new(
        &profile,
        &PoolOptions {
            utilization: 1.0,
            speculate: true,
            ..pool_options(setup)
        },
    );
    let time = &setup.profile.time;
    let mut stages = vec![
        Stage::new(time.boot_seconds, pool.used_context, vec![banner(setup)]),
        Stage::new(time.load_seconds, pool.used_weights.min(pool.total), weights(&pool)),
    ];
    let end = if pool.blocks == 0 {
        stages.push(Stage::new(
            time.profile_seconds,
            pool.used_weights.min(pool.total),
            crash(),
        ));
        exit_with_error()
    } else {
        stages.push(Stage::new(
            time.profile_seconds,
            pool.used_peak,
            estimated(&pool, &graphs),
        ));
        let serving = serving(setup, &pool);
        stages.push(Stage::new(
            time.graphs_seconds * graphs.len() as f64 / PROFILE_GRAPHS,
            pool.used_graphs,
            created(setup, &pool, serving.max_total, &graphs),
        ));
        stages.push(Stage::new(
            time.warm_up_seconds,
            pool.used_ready,
            vec![LogLine::new(
                LinePrefix::Bare,
                "INFO:     Application startup complete.",
            )],
        ));
        StartOutcome::Serve(Box::new(serving))
    };
    StartPlan::of_pool(&pool, false, stages, end)
}

fn serving(setup: &Setup, pool: &PoolPlan) -> ServingEngine {
    let max_total = match setup.length {
        Length::Tokens(tokens) => tokens,
        Length::Auto => setup.profile.defaults.max_position_embeddings,
    };
    ServingEngine::of_pool(setup, pool, WHOLE_REQUEST, max_total, max_total.saturating_sub(1))
}

fn weights(pool: &PoolPlan) -> Vec<LogLine> {
    vec![info(format!("Use {:.2} GB for model weights.", gib(pool.weights)))]
}

/// The first of two passes, with a cache for one step's tokens.
fn estimated(pool: &PoolPlan, graphs: &[Graph]) -> Vec<LogLine> {
    let small = pool.kv_bytes_for(8224);
    let profiled = "in memory usage profiling";
    let activation = gib(pool.used_peak - pool.used_weights);
    let context = gib(pool.used_context - pool.used_baseline);
    let profiled_lines = [
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
        .chain(profiled_lines)
        .collect()
}

fn created(setup: &Setup, pool: &PoolPlan, max_total: u64, graphs: &[Graph]) -> Vec<LogLine> {
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

/// A CUDA graph, for a batch size and a draft length.
struct Graph {
    batch: u64,
    draft: u64,
}

/// CUDA graphs in capture order: all batch sizes without padding up to the maximum, each with the draft length; also
/// with draft length 0 if speculation may be switched off.
fn graphs(setup: &Setup) -> Vec<Graph> {
    if setup.eager {
        return Vec::new();
    }
    let sizes = (1..=32).chain([64, 128]).filter(|size| *size <= setup.max_seqs);
    let mut drafts = vec![setup.draft_tokens];
    if setup.draft_tokens > 0 && setup.speculation_max_concurrency.is_some() {
        drafts.push(0);
    }
    let sizes: Vec<u64> = sizes.collect();
    let of = |batch: u64| drafts.iter().map(move |draft| Graph { batch, draft: *draft });
    sizes.into_iter().rev().flat_map(of).collect()
}

/// Log lines of one capture of the graphs.
fn captured(graphs: &[Graph]) -> Vec<LogLine> {
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

fn cache(bytes: u64, tokens: u64) -> LogLine {
    info(format!(
        "[MemUsageChange] Allocated {:.2} GiB for max tokens in paged KV cache ({tokens}).",
        gib(bytes)
    ))
}

fn crash() -> Vec<LogLine> {
    vec![
        LogLine::new(
            LinePrefix::TensorrtLlm("E"),
            "Executor creation failed due to insufficient GPU memory.",
        ),
        LogLine::new(LinePrefix::Bare, "RuntimeError: Executor worker returned error"),
    ]
}

fn banner(setup: &Setup) -> LogLine {
    LogLine::new(
        LinePrefix::Start,
        format!(
            "[TensorRT-LLM] TensorRT-LLM version: {} (SIMULATED, profile {})",
            setup.version(),
            setup.profile.name
        ),
    )
}

fn info(text: impl Into<String>) -> LogLine {
    LogLine::new(LinePrefix::TensorrtLlm("I"), text)
}
