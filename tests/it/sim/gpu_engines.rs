//! A user's clients talk to simulated SGLang and TensorRT-LLM, and read answers like those in the engines' sources and
//! documentation.

use serde_json::{Value, json};

use super::{Engine, completion};

#[tokio::test]
async fn sglang_clips_without_a_word_and_refuses_what_passes_its_context() {
    let options = json!({ "max_model_len": 1000, "model": "mine" });
    let engine = Engine::start("llama-1b-h200-sglang", options).await;
    engine.assert_ready();
    let answer = engine.post("/v1/completions", completion(800, 198)).await;
    let events = answer.events();
    assert_eq!((events.len(), events[199]), (198 + 2, "[DONE]"));
    assert_eq!(answer.event(197)["choices"][0]["finish_reason"], "length");
    assert_eq!(answer.event(198)["usage"]["completion_tokens"], 198);
    // One token beyond the context: the answer is one token shorter than requested, whatever the minimum length.
    let answer = engine.post("/v1/completions", completion(800, 199)).await;
    assert_eq!(
        (answer.status, answer.event(198)["usage"]["completion_tokens"].clone()),
        (200, json!(198))
    );
    let refused = engine.post("/v1/completions", completion(800, 201)).await;
    let body = refused.json();
    assert_eq!((refused.status, &body["object"]), (400, &json!("error")));
    assert!(
        body["message"]
            .as_str()
            .unwrap()
            .contains("maximum context length of 1000"),
        "{body}"
    );
}

#[tokio::test]
async fn sglang_answers_503_until_it_is_ready_and_tells_its_memory() {
    let engine = Engine::begin("llama-1b-h200-sglang", json!({ "time_scale": 0.02 }));
    while engine.try_post("/ready", json!({})).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.get("/ready").await.status, 503);
    assert_eq!(engine.get("/health").await.status, 503);
    engine.handle.wait_started().await;
    assert_eq!(engine.get("/ready").await.status, 200);
    engine.assert_logged("The server is fired up and ready to roll!");
    let memory = engine.get("/server_info").await.json()["internal_states"][0]["memory_usage"].clone();
    assert_eq!(
        (&memory["weight"], &memory["graph"]["decode"]),
        (&json!(2.057), &json!(0.605))
    );
    assert!(memory["kvcache"].as_f64().unwrap() > 100.0, "{memory}");
    assert_eq!(engine.metric("sglang:num_retracted_requests_total").await, 0.0);
    assert_eq!(
        memory["token_capacity"].as_f64(),
        Some(engine.metric("sglang:max_total_num_tokens").await)
    );
}

#[tokio::test]
async fn sglang_without_room_kills_itself_and_with_little_warns() {
    let engine = Engine::start("llama-1b-h200-sglang", json!({ "gpu_memory_utilization": 0.01 })).await;
    assert_eq!(engine.handle.wait_exited().await.code, 137);
    engine.assert_logged(
        "Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.01",
    );
    let engine = Engine::start("llama-1b-h200-sglang", json!({ "gpu_memory_utilization": 0.016 })).await;
    engine.assert_ready();
    engine.assert_logged("fewer than --context-length 131072");
}

#[tokio::test]
async fn tensorrt_llm_refuses_fields_that_it_does_not_know() {
    let engine = Engine::start("llama-1b-h200-trtllm", json!({ "max_model_len": 1000 })).await;
    engine.assert_ready();
    let mut body = completion(100, 5);
    assert_eq!(engine.post("/v1/completions", body.clone()).await.status, 200);
    body["cache_salt"] = json!("x");
    let refused = engine.post("/v1/completions", body).await;
    assert_eq!((refused.status, &refused.json()["object"]), (400, &json!("error")));
    assert!(
        refused.text.contains("Extra inputs are not permitted"),
        "{}",
        refused.text
    );
    let refused = engine.post("/v1/completions", completion(1000, 5)).await;
    assert!(
        refused.text.contains("default_max_tokens (0) must be greater than 0"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn tensorrt_llm_tells_its_metrics_once() {
    let engine = Engine::start("llama-1b-h200-trtllm", json!({})).await;
    assert_eq!(engine.get("/metrics").await.json(), json!([]));
    engine.post("/v1/completions", completion(100, 5)).await;
    let metrics = engine.get("/metrics").await.json();
    assert_eq!(
        (
            &metrics[0]["numActiveRequests"],
            &metrics[0]["kvCacheStats"]["usedNumBlocks"]
        ),
        (&json!(1), &json!(4)),
        "the highest since the last reading: {metrics}"
    );
    assert_eq!(metrics[0]["kvCacheStats"]["tokensPerBlock"], 32);
    assert_eq!(engine.get("/metrics").await.json(), json!([]));
}

#[tokio::test]
async fn tensorrt_llm_is_ready_though_its_cache_holds_no_request_and_then_just_ends_the_stream() {
    // The free memory after weights and activations, times this fraction, is about 2 MiB: 64 tokens.
    let engine = Engine::start("llama-1b-h200-trtllm", json!({ "gpu_memory_utilization": 0.00002 })).await;
    engine.assert_ready();
    let answer = engine.post("/v1/completions", completion(500, 5)).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, ""));
    engine.assert_logged("KV cache blocks to complete the request, which exceeds its GPU-primary capacity of");
    let paged = engine
        .log()
        .iter()
        .filter(|line| line.contains("paged KV cache"))
        .count();
    assert_eq!(paged, 2, "the start goes through it twice");
    assert_eq!(
        engine.post("/v1/completions", completion(10, 5)).await.events().len(),
        5 + 2
    );
    let none: Value = json!({ "gpu_memory_utilization": 0.000_001 });
    let engine = Engine::start("llama-1b-h200-trtllm", none).await;
    assert_eq!(engine.handle.wait_exited().await.code, 1);
    engine.assert_logged("insufficient GPU memory");
}
