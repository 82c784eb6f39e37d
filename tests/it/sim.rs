//! A user runs the simulated engine, as a client, as its owner, and in a container.

pub mod adapter;
mod container;
mod errors;
mod gpu_engines;
mod memory;
mod misbehave;
pub mod process;
mod protocols;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use profiler::sim::{ProcessState, Sim, SimHandle, Spec};
use serde_json::{Value, json};

/// An engine inside the test's process, with its log.
struct Engine {
    handle: SimHandle,
    log: Arc<Mutex<Vec<String>>>,
    client: reqwest::Client,
}

/// An HTTP answer.
struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The `data:` field of every event, without surrounding blanks.
    fn events(&self) -> Vec<&str> {
        self.text
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data:"))
            .map(str::trim)
            .collect()
    }

    #[track_caller]
    fn event(&self, at: usize) -> Value {
        serde_json::from_str(self.events()[at]).unwrap()
    }
}

impl Engine {
    /// Starts an engine and waits until it serves or has exited.
    async fn start(profile: &str, options: Value) -> Self {
        let engine = Self::begin(profile, options);
        engine.handle.wait_started().await;
        engine
    }

    /// Starts an engine without waiting. Model time is free unless the options say otherwise.
    fn begin(profile: &str, options: Value) -> Self {
        let mut spec: Spec = serde_json::from_value(json!({ "profile": profile, "options": options })).unwrap();
        spec.options.time_scale.get_or_insert(0.0);
        let (profile, options) = spec.resolve().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&log);
        let handle = Sim::start(
            profile,
            options,
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            Arc::new(move |line| sink.lock().unwrap().push(line.to_owned())),
        )
        .unwrap();
        let client = profiler::http::build(profiler::http::direct()).unwrap();
        Self { handle, log, client }
    }

    /// Fails unless the engine serves.
    #[track_caller]
    fn assert_ready(&self) {
        assert_eq!(self.handle.state(), ProcessState::Ready, "{:?}", self.log());
    }

    async fn get(&self, path: &str) -> Answer {
        answer(self.client.get(format!("{}{path}", self.handle.url)))
            .await
            .unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.try_post(path, body).await.unwrap()
    }

    /// The answer, or the connection's error.
    async fn try_post(&self, path: &str, body: Value) -> Result<Answer, reqwest::Error> {
        answer(self.client.post(format!("{}{path}", self.handle.url)).json(&body)).await
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    #[track_caller]
    fn assert_logged(&self, part: &str) {
        let log = self.log();
        assert!(log.iter().any(|line| line.contains(part)), "no `{part}` in {log:#?}");
    }

    /// Bytes in use now.
    fn used(&self) -> u64 {
        self.handle.reading().devices[0].used
    }

    /// One value of the metrics page.
    async fn metric(&self, name: &str) -> f64 {
        let page = self.get("/metrics").await.text;
        let line = page
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name} in {page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    Ok(Answer {
        status,
        text: response.text().await?,
    })
}

/// A streamed completion of token ids.
fn completion(input: usize, output: u64) -> Value {
    json!({
        "prompt": vec![7; input], "max_tokens": output, "min_tokens": output, "ignore_eos": true,
        "stream": true, "stream_options": { "include_usage": true },
    })
}
