//! A user makes the simulated engine misbehave; each kind does what it says, and none happens by default.

use std::time::Duration;

use profiler::sim::{Exit, ProcessState};
use serde_json::{Value, json};

use super::{Engine, completion};

async fn engine(misbehave: Value) -> Engine {
    Engine::start(
        "llama-8b-h200-vllm",
        json!({ "max_model_len": 4096, "misbehave": misbehave }),
    )
    .await
}

#[tokio::test]
async fn it_dies_in_the_middle_of_a_stream() {
    let engine = engine(json!({ "die_mid_stream": 3 })).await;
    assert!(
        engine.try_post("/v1/completions", completion(10, 20)).await.is_err(),
        "the connection is cut"
    );
    assert_eq!(
        engine.handle.wait_exited().await,
        Exit {
            code: 1,
            oom_killed: false
        }
    );
    assert!(
        engine
            .client
            .get(&engine.handle.url)
            .send()
            .await
            .unwrap_err()
            .is_connect()
    );
}

#[tokio::test]
async fn it_hangs() {
    let engine = engine(json!({ "hang": 2 })).await;
    let url = format!("{}/v1/completions", engine.handle.url);
    let mut response = engine.client.post(url).json(&completion(10, 20)).send().await.unwrap();
    let mut text = String::new();
    while text.matches("data:").count() < 2 {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    let more = tokio::time::timeout(Duration::from_millis(200), response.chunk()).await;
    assert!(more.is_err(), "nothing more comes: {more:?}");
    engine.assert_ready();
    // The rest of the engine still works.
    assert_eq!(engine.get("/health").await.status, 200);
}

#[tokio::test]
async fn it_turns_the_first_requests_away() {
    let engine = engine(json!({ "refuse_429": 2 })).await;
    for status in [429, 429, 200] {
        assert_eq!(engine.post("/v1/completions", completion(10, 2)).await.status, status);
    }
}

#[tokio::test]
async fn it_ends_early() {
    let engine = engine(json!({ "end_early": 4 })).await;
    let answer = engine.post("/v1/completions", completion(10, 20)).await;
    assert_eq!(answer.event(3)["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer.event(4)["usage"]["completion_tokens"], 4);
    assert_eq!(answer.events()[5], "[DONE]");
    // Generation stops with the answer. The first reading is the peak since the start.
    assert_eq!(engine.metric("vllm:num_requests_running").await, 1.0);
    assert_eq!(engine.metric("vllm:num_requests_running").await, 0.0);
    let exact = engine.post("/v1/completions", completion(10, 4)).await;
    assert_eq!(exact.event(3)["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn it_sends_two_tokens_in_an_event() {
    let engine = engine(json!({ "two_tokens": true })).await;
    for (output, events) in [(20, 10), (21, 11)] {
        let answer = engine.post("/v1/completions", completion(10, output)).await;
        assert_eq!(answer.events().len(), events + 2, "{}", answer.text);
        assert_eq!(answer.event(events)["usage"]["completion_tokens"], output);
        assert_eq!(answer.event(events - 1)["choices"][0]["finish_reason"], "length");
    }
}

#[tokio::test]
async fn it_sends_an_error_and_then_done() {
    let engine = engine(json!({ "error_then_done": 2 })).await;
    let answer = engine.post("/v1/completions", completion(10, 20)).await;
    assert_eq!((answer.status, answer.events().len()), (200, 4));
    assert_eq!(answer.event(2)["error"]["code"], 500);
    assert_eq!(answer.events()[3], "[DONE]");
    engine.assert_ready();
}

#[tokio::test]
async fn its_port_is_taken_and_its_status_lies() {
    let engine = engine(json!({ "busy_port": true, "exit_code": 0 })).await;
    assert_eq!(
        engine.handle.state(),
        ProcessState::Exited(Exit {
            code: 0,
            oom_killed: false
        })
    );
    engine.assert_logged("address already in use");
}

#[tokio::test]
async fn it_starts_slowly_refusing_connections_or_answering_503() {
    let slow = json!({ "slow_start": 3600.0 });
    let vllm = Engine::begin("llama-8b-h200-vllm", json!({ "misbehave": slow }));
    assert!(vllm.client.get(&vllm.handle.url).send().await.unwrap_err().is_connect());
    assert_eq!(vllm.handle.state(), ProcessState::Starting);

    // Its start of 2 s takes half an hour.
    let llamacpp = Engine::begin("llama-1b-llamacpp", json!({ "time_scale": 1000.0 }));
    let answer = loop {
        match llamacpp
            .client
            .get(format!("{}/health", llamacpp.handle.url))
            .send()
            .await
        {
            Err(error) if error.is_connect() => tokio::task::yield_now().await,
            answer => break answer.unwrap(),
        }
    };
    let answer = super::Answer {
        status: answer.status().as_u16(),
        text: answer.text().await.unwrap(),
    };
    assert_eq!(
        (answer.status, answer.json()["error"]["message"].clone()),
        (503, json!("Loading model"))
    );
    assert_eq!(llamacpp.handle.state(), ProcessState::Starting);
}

#[tokio::test]
async fn it_will_not_stop_and_is_killed() {
    let engine = engine(json!({ "ignore_sigterm": true })).await;
    let exit = engine.handle.stop(Duration::from_millis(50)).await;
    assert_eq!(
        exit,
        Exit {
            code: 137,
            oom_killed: false
        }
    );
}

#[tokio::test]
async fn dropping_the_handle_ends_the_engine_and_cuts_its_streams() {
    let engine = engine(json!({ "hang": 1 })).await;
    let url = format!("{}/v1/completions", engine.handle.url);
    let mut response = engine.client.post(url).json(&completion(10, 20)).send().await.unwrap();
    response.chunk().await.unwrap().unwrap();
    let Engine { handle, .. } = engine;
    drop(handle);
    let rest = async {
        while response.chunk().await?.is_some() {}
        Ok::<_, reqwest::Error>(())
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(5), rest)
            .await
            .unwrap()
            .is_err()
    );
}
