//! A user runs `profiler sim` as a server: address, log, signals, exit status.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tempfile::TempDir;

use crate::support::Profiler;

/// A running `profiler sim`.
pub struct Served {
    child: Child,
    pub url: String,
    _folder: TempDir,
}

impl Served {
    /// Starts the server and reads its address.
    pub fn start(args: &[&str]) -> Self {
        let (mut child, folder) = Profiler::new().arg("sim").args(args).spawn();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut url)
            .unwrap();
        Self {
            child,
            url: url.trim().to_owned(),
            _folder: folder,
        }
    }

    /// Waits for this text in the log.
    pub fn until(&mut self, part: &str) {
        let lines = BufReader::new(self.child.stderr.as_mut().unwrap()).lines();
        assert!(
            lines.map_while(Result::ok).any(|line| line.contains(part)),
            "`{part}` never logged"
        );
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Served {
    /// A failed test leaves no server behind.
    fn drop(&mut self) {
        // Both fail if it has already exited and been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const READY: &str = "Application startup complete";

#[tokio::test]
async fn it_serves_and_leaves_cleanly_on_sigterm() {
    let mut served = Served::start(&[
        "--profile",
        "llama-8b-24gb-vllm",
        "--max-model-len",
        "4096",
        "--model",
        "mine",
        "--time-scale",
        "0",
    ]);
    served.until(READY);
    let client = profiler::http::build(profiler::http::direct()).unwrap();
    let body = json!({ "model": "mine", "prompt": [1, 2], "max_tokens": 3 });
    let request = client.post(format!("{}/v1/completions", served.url)).json(&body);
    let answer: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["usage"]["completion_tokens"], 3);
    let memory: profiler::telemetry::Reading = client
        .get(format!("{}/sim/memory", served.url))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert!(memory.devices[0].used > 16 << 30);
    served.signal(Signal::SIGTERM);
    served.until("shutdown triggered");
    assert_eq!(served.wait().code(), Some(143));
}

#[test]
fn a_start_that_fails_is_the_exit_status_and_the_log() {
    Profiler::new()
        .args([
            "sim",
            "--profile",
            "llama-8b-24gb-vllm",
            "--time-scale",
            "0",
            "--max-model-len",
            "12288",
        ])
        .run()
        .code(1)
        .stderr("estimated maximum model length is 8352");
}

/// A standalone server serves its longest context by default.
#[tokio::test]
async fn without_options_it_serves_the_longest_that_fits() {
    for args in [
        &["--time-scale", "0"] as &[&str],
        &["--profile", "llama-8b-24gb-vllm", "--time-scale", "0"],
    ] {
        let mut served = Served::start(args);
        served.until(READY);
        let client = profiler::http::build(profiler::http::direct()).unwrap();
        let models = client.get(format!("{}/v1/models", served.url)).send().await.unwrap();
        let models: serde_json::Value = models.json().await.unwrap();
        assert_eq!(models["data"][0]["max_model_len"], 8352);
    }
}

#[test]
fn a_port_that_is_taken_is_exit_3_with_the_remedy() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    Profiler::new()
        .args(["sim", "--profile", "llama-8b-24gb-vllm", "--port", &port])
        .run()
        .code(3)
        .stderr(&format!("port {port} is in use"))
        .stderr("--port");
}

#[test]
fn wrong_usage_is_exit_2_with_what_is_known() {
    Profiler::new()
        .args(["sim", "--profile", "nope"])
        .run()
        .code(2)
        .stderr("llama-8b-24gb-vllm");
    let misbehave = ["sim", "--profile", "llama-8b-24gb-vllm", "--misbehave", "explode"];
    Profiler::new().args(misbehave).run().code(2).stderr("die_mid_stream");
    let profile = Profiler::new()
        .file("mine.toml", "name = \"mine\"")
        .args(["sim", "--profile", "mine.toml"]);
    profile.run().code(2).stderr("missing field");
}

#[test]
fn it_can_refuse_to_stop_and_lie_about_its_end() {
    let mut stubborn = Served::start(&[
        "--profile",
        "llama-1b-12gib-transformers",
        "--misbehave",
        "ignore_sigterm",
        "--time-scale",
        "0",
    ]);
    stubborn.until(READY);
    stubborn.signal(Signal::SIGTERM);
    // Still running and serving after it handled the signal.
    let mut health = std::net::TcpStream::connect(stubborn.url.trim_start_matches("http://")).unwrap();
    std::io::Write::write_all(
        &mut health,
        b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    .unwrap();
    let mut answer = String::new();
    health.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("200 OK"), "{answer}");
    stubborn.signal(Signal::SIGKILL);
    assert_eq!(stubborn.wait().code(), None);

    let mut liar = Served::start(&[
        "--profile",
        "llama-1b-12gib-transformers",
        "--misbehave",
        "exit_code:137",
        "--time-scale",
        "0",
    ]);
    liar.until(READY);
    liar.signal(Signal::SIGTERM);
    assert_eq!(liar.wait().code(), Some(137));
}
