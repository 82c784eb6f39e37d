//! Start of TGI (wording of 3.3): launcher, shard, warm-up with the pool of blocks; or the launcher's exit.

use super::{LinePrefix, LogLine, ServingEngine, Stage, StartOutcome, StartPlan, exit_with_error, pool_options};
use crate::sim::memory::PoolPlan;
use crate::sim::options::{Length, Setup};
use crate::sim::profile::Pool;
use crate::sim::scheduler::KvAllocation;

/// Output tokens after which TGI's router resubmits a request.
const SLICE: u64 = 1024;

const LAUNCHER: &str = "text_generation_launcher";
const ROUTER: &str = "text_generation_router_v3";

pub(super) fn plan(setup: &Setup, profile: &Pool) -> StartPlan {
    let pool = PoolPlan::new(profile, &pool_options(setup));
    let time = &setup.profile.time;
    let mut stages = vec![
        Stage::new(time.boot_seconds, pool.used_context, booting(setup)),
        Stage::new(
            time.load_seconds,
            pool.used_weights,
            vec![
                launcher(format!("Shard ready in {:.8}s rank=0", time.boot_seconds / 2.0)),
                launcher("Starting Webserver"),
                router("Warming up model"),
            ],
        ),
    ];
    let end = match warm_up(setup, &pool) {
        Ok(lines) => {
            stages.push(Stage::new(time.profile_seconds, pool.used_kv, Vec::new()));
            stages.push(Stage::new(
                time.graphs_seconds + time.warm_up_seconds,
                pool.used_ready,
                lines,
            ));
            StartOutcome::Serve(Box::new(serving(setup, &pool)))
        }
        Err(cause) => {
            stages.push(Stage::new(time.profile_seconds, pool.used_weights, crash(&cause)));
            exit_with_error()
        }
    };
    StartPlan::of_pool(&pool, false, stages, end)
}

fn max_total(setup: &Setup, pool: &PoolPlan) -> u64 {
    match setup.length {
        Length::Tokens(tokens) if setup.length_given => tokens,
        Length::Auto | Length::Tokens(_) => setup.profile.defaults.max_position_embeddings.min(pool.kv_tokens()),
    }
}

fn serving(setup: &Setup, pool: &PoolPlan) -> ServingEngine {
    let max_total = max_total(setup, pool);
    let max_input = setup.max_input.unwrap_or(max_total - 1).min(max_total - 1);
    ServingEngine::of_pool(setup, pool, KvAllocation::Slice(SLICE), max_total, max_input)
}

/// Log lines of a warm-up that fits, or the error.
fn warm_up(setup: &Setup, pool: &PoolPlan) -> Result<Vec<LogLine>, String> {
    if pool.used_weights > pool.total {
        return Err(format!(
            "Not enough VRAM to run the model: Available: {:.2}GB - Model {:.2}GB.",
            pool.free as f64 / 1e9,
            pool.weights as f64 / 1e9
        ));
    }
    if pool.available <= 0 {
        return Err(format!(
            "Not enough memory to handle {} prefill tokens. You need to decrease `--max-batch-prefill-tokens`",
            setup.step_tokens
        ));
    }
    let max_total = max_total(setup, pool);
    if max_total > pool.kv_tokens() || max_total < 2 {
        return Err(format!("Not enough memory to handle `max_total_tokens={max_total}`"));
    }
    let graphs = if setup.eager {
        "Cuda Graphs are disabled (CUDA_GRAPHS=None)."
    } else {
        "Cuda Graphs are enabled for sizes [32, 16, 8, 4, 2, 1]"
    };
    Ok(vec![
        launcher(format!("KV-cache blocks: {}, size: {}", pool.blocks, pool.block_tokens)),
        launcher(graphs),
        router(format!("Setting max batch total tokens to {}", pool.kv_tokens())),
        router("Using backend V3"),
        LogLine::new(
            LinePrefix::Tgi {
                level: "INFO",
                module: "text_generation_router::server",
            },
            "Connected",
        ),
    ])
}

fn booting(setup: &Setup) -> Vec<LogLine> {
    let model = &setup.model;
    vec![
        launcher(format!(
            "engine, profile {}: version {}",
            setup.profile.name,
            setup.version()
        )),
        launcher("Using attention paged - Prefix caching 0"),
        launcher(format!("Starting check and download process for {model}")),
        launcher(format!("Successfully downloaded weights for {model}")),
        launcher("Starting shard rank=0"),
    ]
}

fn crash(cause: &str) -> Vec<LogLine> {
    let error = |text: String| {
        LogLine::new(
            LinePrefix::Tgi {
                level: "ERROR",
                module: LAUNCHER,
            },
            text,
        )
    };
    vec![
        error(cause.to_owned()),
        error(format!("Unable to warmup the Python model shards: {cause}")),
        error("Webserver Crashed".to_owned()),
        LogLine::new(LinePrefix::Start, "Error: WebserverFailed (SIMULATED)"),
    ]
}

fn launcher(text: impl Into<String>) -> LogLine {
    LogLine::new(
        LinePrefix::Tgi {
            level: "INFO",
            module: LAUNCHER,
        },
        text,
    )
}

fn router(text: impl Into<String>) -> LogLine {
    LogLine::new(
        LinePrefix::Tgi {
            level: "INFO",
            module: ROUTER,
        },
        text,
    )
}
