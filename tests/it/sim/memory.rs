//! A user watches memory over an engine's life: samples, rejected requests, out-of-memory deaths, and queueing.

use profiler::sim::{Exit, ProcessState};
use serde_json::{Value, json};

use super::{Engine, completion};

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn memory_rises_with_the_start_and_falls_back_at_the_end() {
    let engine = Engine::start(
        "llama-8b-h200-vllm",
        json!({ "max_model_len": 32768, "gpu_memory_utilization": 0.9 }),
    )
    .await;
    let reading = engine.handle.reading();
    assert_eq!(
        (reading.devices[0].id.as_str(), reading.devices[0].total),
        ("sim0", 143_771 * MIB)
    );
    // The measured value is 130,687 MiB.
    assert_eq!(engine.used() / MIB / 100, 1306);
    assert_eq!(
        engine.get("/sim/memory").await.json()["devices"][0]["used"],
        engine.used()
    );
    let exit = engine.handle.stop(std::time::Duration::from_secs(5)).await;
    assert_eq!(
        exit,
        Exit {
            code: 0,
            oom_killed: false
        }
    );
    assert_eq!(engine.used(), 615 * MIB);
}

#[tokio::test]
async fn a_pool_that_does_not_fit_is_an_exit_with_the_engines_words() {
    let refused = [
        (
            json!({ "max_model_len": 131_072, "gpu_memory_utilization": 0.16, "enforce_eager": true }),
            "the estimated maximum model length is 633",
        ),
        (
            json!({ "max_model_len": 8192, "gpu_memory_utilization": 0.1 }),
            "No available memory for the cache blocks",
        ),
        (
            json!({ "max_model_len": 200_000 }),
            "is greater than the derived max_model_len",
        ),
        (
            json!({ "gpu_memory_utilization": 1.0 }),
            "on startup is less than desired GPU memory utilization",
        ),
        (
            json!({ "memory_limit": 10_u64 << 30, "gpu_memory_utilization": 0.5 }),
            "CUDA out of memory. Tried to allocate",
        ),
    ];
    for (options, words) in refused {
        let engine = Engine::start("llama-8b-h200-vllm", options).await;
        assert_eq!(
            engine.handle.state(),
            ProcessState::Exited(Exit {
                code: 1,
                oom_killed: false
            }),
            "{words}"
        );
        engine.assert_logged(words);
        engine.assert_logged("Engine core initialization failed");
    }
    let tgi = Engine::start(
        "llama-1b-h200-tgi",
        json!({ "memory_limit": 4_u64 << 30, "max_model_len": 131_072 }),
    )
    .await;
    tgi.assert_logged("Not enough memory to handle `max_total_tokens=131072`");
    assert!(tgi.log().iter().any(|line| line.starts_with("Error: WebserverFailed")));
    let llamacpp = Engine::start("llama-1b-llamacpp", json!({ "ctx_size": 1_000_000 })).await;
    llamacpp.assert_logged("cudaMalloc failed: out of memory");
    llamacpp.assert_logged("failed to allocate buffer for kv cache");
    llamacpp.assert_logged("exiting due to model loading error");
}

#[tokio::test]
async fn the_default_profile_has_its_boundary_inside_the_default_box() {
    let start = async |total: u64| {
        let serve = json!({ "input": 128, "output": total - 128, "total": total, "concurrency": 1 });
        Engine::start("llama-8b-24gb-vllm", json!({ "serve": serve })).await
    };
    let smallest = start(128 + 128).await;
    smallest.assert_ready();
    let largest = start(8192 + 4096).await;
    assert!(matches!(largest.handle.state(), ProcessState::Exited(_)));
    largest.assert_logged("the estimated maximum model length is 8352");
    start(8352).await.assert_ready();
    assert!(matches!(start(8353).await.handle.state(), ProcessState::Exited(_)));
}

#[tokio::test]
async fn dynamic_memory_grows_with_requests_and_the_request_dies_or_the_process() {
    let engine = Engine::start("llama-1b-12gib-transformers", json!({})).await;
    let idle = engine.used();
    let answer = engine.post("/v1/completions", completion(32_768, 8)).await;
    assert_eq!(answer.event(7)["usage"]["prompt_tokens"], 32_768);
    let high = engine.used();
    // 6,182 MB were reserved, compared with 2,247 MB before any request.
    assert!(
        (3_700 * MIB..3_800 * MIB).contains(&(high - idle)),
        "{}",
        (high - idle) / MIB
    );
    // A batch of eight prompts, for plain `generate`.
    let batch = json!({ "prompt": vec![vec![7; 16_384]; 8], "max_tokens": 8, "stream": true });
    let failed = engine.post("/v1/completions", batch).await;
    assert_eq!(failed.status, 200);
    assert!(
        failed.events()[0].starts_with("{\"error\": \"CUDA out of memory. Tried to allocate"),
        "{}",
        failed.text
    );
    engine.assert_logged("CUDA out of memory");
    assert_eq!(engine.used(), idle);
    engine.assert_ready();
    assert_eq!(
        engine.post("/v1/completions", completion(512, 8)).await.events().len(),
        8
    );

    for (victim, exit) in [
        (
            "process",
            Exit {
                code: 1,
                oom_killed: false,
            },
        ),
        (
            "killed",
            Exit {
                code: 137,
                oom_killed: true,
            },
        ),
    ] {
        let engine = Engine::start("llama-1b-12gib-transformers", json!({ "oom": victim })).await;
        engine
            .try_post("/v1/completions", completion(98_304, 8))
            .await
            .err()
            .expect("the connection is cut");
        assert_eq!(engine.handle.wait_exited().await, exit);
    }
}

#[tokio::test]
async fn a_full_pool_preempts_or_queues_and_everybody_gets_everything() {
    // A KV cache of 1,984 tokens: four requests of 400 tokens fit, and outgrow it before they generate 200 more.
    let vllm = json!({ "serve": { "input": 400, "output": 200, "total": 600, "concurrency": 16 }, "gather_ms": 50, "memory_limit": 16_931_u64 << 20, "gpu_memory_utilization": 0.9 });
    let engine = Engine::start("llama-8b-h200-vllm", with_eager(vllm)).await;
    engine.assert_ready();
    assert_eq!(all_complete(&engine, 16, 400, 200).await, 16);
    assert!(
        engine.metric("vllm:num_preemptions_total").await > 0.0,
        "{}",
        engine.get("/metrics").await.text
    );
    assert_eq!(engine.metric("vllm:kv_cache_usage_perc").await, 0.0);
    assert_eq!(engine.metric("vllm:request_success_total").await, 16.0);
}

fn with_eager(mut options: Value) -> Value {
    options["enforce_eager"] = true.into();
    options
}

async fn all_complete(engine: &Engine, requests: usize, input: usize, output: u64) -> usize {
    let answers = (0..requests).map(|_| engine.post("/v1/completions", completion(input, output)));
    let answers = futures_util::future::join_all(answers).await;
    let complete = |answer: &&super::Answer| {
        let usage = answer.event(answer.events().len() - 2);
        usage["usage"]["completion_tokens"] == output && usage["usage"]["prompt_tokens"] == input
    };
    answers.iter().filter(complete).count()
}

#[tokio::test]
async fn time_passes_as_the_model_says() {
    // At a scale of 0.02, 2,000 steps of 3 ms take 0.12 s, and the start of 30 s takes 0.6 s.
    let options = json!({ "time_scale": 0.02, "max_model_len": 8192 });
    let engine = Engine::start("llama-1b-h200-tgi", options).await;
    let began = std::time::Instant::now();
    let body = json!({ "inputs": "a", "parameters": { "max_new_tokens": 2000, "details": true } });
    let answer = engine.post("/generate_stream", body).await;
    assert_eq!(answer.event(1999)["details"]["generated_tokens"], 2000);
    let took = began.elapsed().as_secs_f64();
    assert!(took >= 0.9 * 2000.0 * 0.003 * 0.02, "{took}");
}
