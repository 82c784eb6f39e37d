//! A user sends requests that an engine must reject, and gets the status and message of that engine.

use serde_json::{Value, json};

use super::{Engine, completion};

#[tokio::test]
async fn too_long_a_request_is_refused_in_each_engines_words() {
    let table = [
        (
            "llama-8b-h200-vllm",
            json!({ "max_model_len": 100 }),
            "/v1/completions",
            completion(90, 20),
            400,
            "maximum context length is 100 tokens. However, you requested 20 output tokens and your prompt contains at least 90 input tokens",
        ),
        (
            "llama-8b-h200-vllm",
            json!({ "max_model_len": 100, "clip_output": true }),
            "/v1/completions",
            completion(90, 20),
            400,
            "min_tokens must be less than or equal to max_tokens=10, got 20",
        ),
        (
            "llama-1b-h200-tgi",
            json!({ "max_model_len": 10, "max_input_tokens": 9 }),
            "/generate_stream",
            json!({ "inputs": "a b c d e f g h", "parameters": { "max_new_tokens": 5 } }),
            200,
            "`inputs` tokens + `max_new_tokens` must be <= 10. Given: 9 `inputs` tokens and 5 `max_new_tokens`",
        ),
        (
            "llama-1b-llamacpp",
            json!({ "ctx_size": 64 }),
            "/completion",
            json!({ "prompt": vec![1; 64], "n_predict": 1 }),
            400,
            "request (64 tokens) exceeds the available context size (64 tokens)",
        ),
    ];
    for (profile, options, path, body, status, words) in table {
        let engine = Engine::start(profile, options).await;
        let answer = engine.post(path, body).await;
        assert_eq!(answer.status, status, "{profile}: {}", answer.text);
        assert!(answer.text.contains(words), "{profile}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_body_that_makes_no_sense_is_the_clients_fault() {
    for (profile, path, status) in [
        ("llama-8b-h200-vllm", "/v1/completions", 400),
        ("llama-1b-llamacpp", "/completion", 400),
    ] {
        let engine = Engine::start(profile, json!({})).await;
        for body in [json!({ "prompt": [1, "a"], "inputs": 7 }), json!([]), json!({})] {
            let answer = engine.post(path, body).await;
            assert_eq!(answer.status, status, "{profile}: {}", answer.text);
            assert!(!answer.json()["error"].is_null(), "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn vllm_knows_its_model_only() {
    let engine = Engine::start("llama-8b-h200-vllm", json!({})).await;
    let answer = engine
        .post("/v1/completions", json!({ "model": "other", "prompt": [1] }))
        .await;
    assert_eq!(answer.status, 404);
    assert!(answer.text.contains("The model `other` does not exist."));
}

#[tokio::test]
async fn tgi_turns_away_what_is_beyond_its_permits() {
    // A start of 30 s takes 0.3 s, 1,000 tokens take 30 ms, and the whole answer of 100,000 tokens would take 3 s.
    let options = json!({ "max_concurrent_requests": 1, "time_scale": 0.01 });
    let engine = Engine::start("llama-1b-h200-tgi", options).await;
    let long = json!({ "inputs": "a", "parameters": { "max_new_tokens": 100_000 } });
    let (client, url) = (engine.client.clone(), format!("{}/generate_stream", engine.handle.url));
    // The first bytes prove that the request is being served.
    let mut first = client.post(&url).json(&long).send().await.unwrap();
    first.chunk().await.unwrap().unwrap();
    let streamed = engine.post("/generate_stream", long.clone()).await;
    assert_eq!(
        (streamed.status, streamed.event(0)["error"].clone()),
        (200, json!("Model is overloaded"))
    );
    // A client that disconnects frees its slot.
    drop(first);
    for _ in 0..1000 {
        if engine.metric("tgi_batch_current_size").await == 0.0 {
            break;
        }
    }
    assert_eq!(engine.metric("tgi_batch_current_size").await, 0.0);
}

#[tokio::test]
async fn an_option_that_a_profile_cannot_honour_is_refused_by_name() {
    let start = |profile: &str, options: Value| {
        let spec: profiler::sim::Spec =
            serde_json::from_value(json!({ "profile": profile, "options": options })).unwrap();
        let (profile, options) = spec.resolve()?;
        profiler::sim::Sim::start(
            profile,
            options,
            ([127, 0, 0, 1], 0).into(),
            std::sync::Arc::new(|_| {}),
        )
    };
    for (profile, option, value) in [
        ("llama-1b-12gib-transformers", "gpu_memory_utilization", json!(0.5)),
        ("llama-1b-llamacpp", "kv_cache_dtype", json!("fp8")),
        ("llama-8b-24gb-vllm", "num_speculative_tokens", json!(4)),
        ("llama-8b-24gb-vllm", "ctx_size", json!(4096)),
        ("llama-8b-24gb-vllm", "oom", json!("process")),
    ] {
        let fault = start(profile, json!({ option: value })).err().unwrap();
        assert_eq!(fault.kind, profiler::fault::Kind::Usage);
        assert!(fault.message.contains(option), "{}", fault.message);
    }
}
