//! Measures the cost of the simulated engine: time from start to first answer, memory of its process, tokens per
//! second.
//!
//! Run with `cargo bench --bench sim`. It asserts nothing.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench"
)]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use profiler::sim::{Sim, SimHandle, Spec};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const PROFILE: &str = "llama-8b-24gb-vllm";
const ROUNDS: usize = 50;

fn main() {
    let runtime = Runtime::new().unwrap();
    let client = profiler::http::build(profiler::http::direct()).unwrap();
    println!("simulated engine, profile {PROFILE}, no model time; median of {ROUNDS}");
    let ready = median(|| runtime.block_on(async { in_process().await.1 }));
    println!("in-process, start to ready            {:>10.2} ms", ms(ready));
    let answered = median(|| runtime.block_on(until_answered(&client)).1);
    println!("process, spawn to first answer        {:>10.2} ms", ms(answered));
    let (served, _) = runtime.block_on(until_answered(&client));
    println!(
        "process, memory when ready            {:>10.1} MiB",
        resident(&served.child, "VmRSS")
    );
    let began = Instant::now();
    let tokens = runtime.block_on(streams(&client, &served.url, 64, 1000));
    println!(
        "64 streams of 1,000 tokens            {:>10.0} tokens/s",
        tokens as f64 / began.elapsed().as_secs_f64()
    );
    println!(
        "process, most memory while it served  {:>10.1} MiB",
        resident(&served.child, "VmHWM")
    );
    let (handle, _) = runtime.block_on(in_process());
    let request = median(|| {
        let began = Instant::now();
        assert_eq!(runtime.block_on(streams(&client, &handle.url, 1, 128)), 128);
        began.elapsed()
    });
    println!("in-process, one request of 128 tokens {:>10.2} ms", ms(request));
}

/// An engine in this process, and the time until it was ready.
async fn in_process() -> (SimHandle, Duration) {
    let spec: Spec =
        serde_json::from_value(json!({ "profile": PROFILE, "options": { "max_model_len": 4096, "time_scale": 0.0 } }))
            .unwrap();
    let began = Instant::now();
    let (profile, options) = spec.resolve().unwrap();
    let handle = Sim::start(
        profile,
        options,
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        Arc::new(|_| {}),
    )
    .unwrap();
    handle.wait_started().await;
    (handle, began.elapsed())
}

/// A `profiler sim` process, killed when dropped.
struct Served {
    child: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A `profiler sim` process, and the time from its spawn to its first answer.
async fn until_answered(client: &reqwest::Client) -> (Served, Duration) {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_profiler"))
        .args([
            "sim",
            "--profile",
            PROFILE,
            "--time-scale",
            "0",
            "--max-model-len",
            "4096",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut url)
        .unwrap();
    let url = url.trim().to_owned();
    while client.get(format!("{url}/health")).send().await.is_err() {
        tokio::task::yield_now().await;
    }
    (Served { child, url }, began.elapsed())
}

/// Tokens received over `count` concurrent streams.
async fn streams(client: &reqwest::Client, url: &str, count: usize, output: u64) -> u64 {
    let body = json!({ "prompt": [1, 2, 3], "max_tokens": output, "stream": true, "stream_options": { "include_usage": true } });
    let one = async || {
        let request = client.post(format!("{url}/v1/completions")).json(&body);
        let text = request.send().await.unwrap().text().await.unwrap();
        let usage = text.split("data: ").find(|event| event.contains("\"usage\"")).unwrap();
        let event: Value = serde_json::from_str(usage).unwrap();
        event["usage"]["completion_tokens"].as_u64().unwrap()
    };
    futures_util::future::join_all((0..count).map(|_| one()))
        .await
        .into_iter()
        .sum()
}

/// A field of `/proc/PID/status`, in MiB.
fn resident(child: &Child, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

fn median(mut round: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS).map(|_| round()).collect();
    times.sort();
    times[ROUNDS / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
