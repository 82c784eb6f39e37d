//! A user's clients speak each protocol to the simulated engine; answers match the real engine's exactly where those
//! are known.

use serde_json::{Value, json};

use super::{Engine, completion};

#[tokio::test]
async fn vllm_streams_tokens_then_usage_then_done() {
    let engine = Engine::start("llama-8b-24gb-vllm", json!({ "max_model_len": 4096 })).await;
    engine.assert_ready();
    let answer = engine.post("/v1/completions", completion(100, 30)).await;
    assert_eq!(answer.status, 200);
    let events = answer.events();
    assert_eq!(events.len(), 30 + 2);
    assert_eq!(events[31], "[DONE]");
    let usage = answer.event(30);
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(
        usage["usage"],
        json!({ "prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130 })
    );
    assert_eq!(answer.event(28)["choices"][0]["finish_reason"], Value::Null);
    assert_eq!(answer.event(29)["choices"][0]["finish_reason"], "length");

    let body = json!({ "prompt": "four words of text", "max_tokens": 5, "return_token_ids": true, "stream": true });
    let answer = engine.post("/v1/completions", body).await;
    assert_eq!(answer.events().len(), 6, "no usage unless asked for: {}", answer.text);
    assert!(answer.event(0)["choices"][0]["token_ids"][0].is_u64());
}

#[tokio::test]
async fn vllm_answers_whole_bodies_chat_and_its_information_pages() {
    let engine = Engine::start("llama-8b-h200-vllm", json!({ "max_model_len": 8192, "model": "mine" })).await;
    let answer = engine
        .post(
            "/v1/completions",
            json!({ "model": "mine", "prompt": "a b c", "max_tokens": 4 }),
        )
        .await
        .json();
    // Three words and BOS.
    assert_eq!(
        answer["usage"],
        json!({ "prompt_tokens": 4, "completion_tokens": 4, "total_tokens": 8 })
    );
    assert_eq!(
        answer["choices"][0]["text"]
            .as_str()
            .unwrap()
            .split_whitespace()
            .count(),
        4
    );
    assert_eq!(answer["object"], "text_completion");

    let chat = json!({ "messages": [{ "role": "user", "content": "two words" }], "max_completion_tokens": 3, "stream": true,
        "stream_options": { "include_usage": true } });
    let answer = engine.post("/v1/chat/completions", chat).await;
    assert_eq!(answer.event(0)["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(answer.event(1)["object"], "chat.completion.chunk");
    assert_eq!(answer.event(4)["usage"]["prompt_tokens"], 2 + 4 + 3);

    assert_eq!(engine.get("/health").await.status, 200);
    assert!(
        engine.get("/version").await.json()["version"]
            .as_str()
            .unwrap()
            .contains("SIMULATED")
    );
    assert_eq!(engine.get("/v1/models").await.json()["data"][0]["max_model_len"], 8192);
    let tokens = engine
        .post("/tokenize", json!({ "prompt": "a b", "add_special_tokens": false }))
        .await
        .json();
    assert_eq!(
        (tokens["count"].clone(), tokens["tokens"].as_array().unwrap().len()),
        (json!(2), 2)
    );
    assert_eq!(engine.metric("vllm:generation_tokens_total").await, 7.0);
    assert!(engine.get("/metrics").await.text.contains("num_gpu_blocks="));
}

#[tokio::test]
async fn tgi_answers_as_the_real_one_did() {
    let engine = Engine::start(
        "llama-1b-h200-tgi",
        json!({ "max_model_len": 4096, "max_input_tokens": 4095 }),
    )
    .await;
    engine.assert_ready();
    let info = engine.get("/info").await.json();
    assert_eq!(
        (&info["max_input_tokens"], &info["max_total_tokens"]),
        (&json!(4095), &json!(4096))
    );
    assert!(info["version"].as_str().unwrap().contains("SIMULATED"));

    let inputs = json!({ "inputs": "hello world foo bar", "parameters": { "max_new_tokens": 5, "details": true } });
    let answer = engine.post("/generate_stream", inputs).await;
    assert_eq!(answer.events().len(), 5, "no [DONE]: {}", answer.text);
    assert_eq!(answer.event(3)["details"], Value::Null);
    let details = json!({ "finish_reason": "length", "generated_tokens": 5, "seed": null, "input_length": 5 });
    assert_eq!(
        (answer.event(4)["details"].clone(), &answer.event(4)["index"]),
        (details, &json!(5))
    );

    // Output beyond the context is clipped without an error: 4,096 tokens minus `hi` and BOS.
    let clipped = json!({ "inputs": "hi", "parameters": { "max_new_tokens": 5000, "details": true } });
    let answer = engine.post("/generate_stream", clipped).await;
    assert_eq!(answer.event(4093)["details"]["generated_tokens"], 4094);
    assert_eq!(engine.metric("tgi_queue_size").await, 0.0);
}

#[tokio::test]
async fn llamacpp_streams_until_stop_and_tells_its_slots() {
    let engine = Engine::start("llama-1b-llamacpp", json!({ "ctx_size": 2048, "max_num_seqs": 2 })).await;
    engine.assert_ready();
    let body = json!({ "prompt": [1, 2, 3], "n_predict": 4, "stream": true, "return_tokens": true });
    let answer = engine.post("/completion", body).await;
    assert_eq!(answer.events().len(), 5, "no [DONE]: {}", answer.text);
    let last = answer.event(4);
    assert_eq!(
        (&last["stop"], &last["stop_type"], &last["truncated"]),
        (&json!(true), &json!("limit"), &json!(false))
    );
    assert_eq!(
        (&last["tokens_predicted"], &last["tokens_evaluated"]),
        (&json!(4), &json!(3))
    );
    assert_eq!(answer.event(0)["tokens"].as_array().unwrap().len(), 1);

    // Each slot has half of the context and stops at its end.
    let full = engine
        .post("/completion", json!({ "prompt": vec![1; 1000], "n_predict": 100 }))
        .await;
    let full = full.event(full.events().len() - 1);
    assert_eq!(
        (&full["tokens_predicted"], &full["truncated"]),
        (&json!(23), &json!(true))
    );
    assert_eq!(
        engine.get("/props").await.json()["default_generation_settings"]["n_ctx"],
        1024
    );
    assert_eq!(engine.get("/slots").await.json().as_array().unwrap().len(), 2);
    let openai = engine.post("/v1/completions", completion(10, 2)).await;
    assert_eq!(openai.events().last(), Some(&"[DONE]"));
    assert_eq!(engine.metric("llamacpp:tokens_predicted_total").await, 4.0 + 23.0 + 2.0);
}

#[tokio::test]
async fn transformers_tells_usage_with_the_last_token_and_never_says_done() {
    let engine = Engine::start("llama-1b-12gib-transformers", json!({})).await;
    engine.assert_ready();
    let config = json!({ "max_new_tokens": 3, "min_new_tokens": 3 }).to_string();
    let body = json!({ "prompt": "a b", "stream": true, "generation_config": config });
    let answer = engine.post("/v1/completions", body).await;
    assert_eq!(answer.events().len(), 3, "{}", answer.text);
    assert_eq!(answer.event(2)["choices"][0]["finish_reason"], "length");
    assert_eq!(answer.event(2)["usage"]["completion_tokens"], 3);
    assert_eq!(engine.get("/health").await.json(), json!({ "status": "ok" }));
    assert_eq!(engine.get("/metrics").await.status, 404);
}

#[tokio::test]
async fn text_is_counted_with_a_tokenizer_where_one_is_given() {
    let folder = crate::support::temp();
    let path = folder.path().join("tokenizer.json");
    let vocabulary = json!({ "<unk>": 0, "a": 1, "b": 2 });
    let tokenizer = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null, "decoder": null,
        "pre_tokenizer": { "type": "Split", "pattern": { "String": "" }, "behavior": "Isolated", "invert": false },
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>" },
        "truncation": null, "padding": null,
    });
    std::fs::write(&path, tokenizer.to_string()).unwrap();
    let engine = Engine::start(
        "llama-8b-h200-vllm",
        json!({ "max_model_len": 4096, "tokenizer": path }),
    )
    .await;
    let answer = engine
        .post("/v1/completions", json!({ "prompt": "abba", "max_tokens": 1 }))
        .await
        .json();
    assert_eq!(answer["usage"]["prompt_tokens"], 4);
}

#[tokio::test]
async fn every_log_line_of_every_engine_says_simulated() {
    for profile in profiler::sim::names() {
        let options = if profile == "llama-8b-24gb-vllm" {
            json!({ "max_model_len": 4096 })
        } else {
            json!({})
        };
        let engine = Engine::start(profile, options).await;
        let log = engine.log();
        assert!(log.len() > 2, "{profile}: {log:?}");
        assert!(log.iter().all(|line| line.contains("SIMULATED")), "{profile}: {log:#?}");
    }
}
