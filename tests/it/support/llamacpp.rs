//! The real llama-server in a container with limited memory, without our program. Tests compare our answers with its
//! behaviour.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{image, needs_docker, needs_llama_server};

/// The image with the real server, built once; `None` without Docker or the server.
#[track_caller]
pub fn image() -> Option<&'static str> {
    static IMAGE: OnceLock<String> = OnceLock::new();
    let server = needs_llama_server()?;
    needs_docker().then(|| IMAGE.get_or_init(|| image::of(&server, "llama-server")).as_str())
}

/// The outcome of a server start.
#[derive(Debug, PartialEq, Eq)]
pub enum Start {
    /// It answers `/health`.
    Serves,
    /// The kernel killed it for lack of memory.
    KilledForMemory,
}

/// Starts the server on the model in `folder` with this context and memory limit, and removes it afterwards.
pub fn start(image: &str, folder: &Path, context: u64, memory: u64) -> Start {
    let started = docker(&[
        "run",
        "--detach",
        "--label",
        "profiler-test=llamacpp",
        "--publish",
        "127.0.0.1:0:8080",
        "--memory",
        &memory.to_string(),
        "--memory-swap",
        &memory.to_string(),
        "--volume",
        &format!("{}:/models:ro", folder.display()),
        image,
        "--model",
        "/models/tiny.gguf",
        "--ctx-size",
        &context.to_string(),
        "--parallel",
        "1",
        "--fit",
        "off",
        "--cache-ram",
        "0",
        "--host",
        "0.0.0.0",
        "--port",
        "8080",
    ]);
    let container = Removed(started);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        // The status is read before the health, because a dead server stays dead.
        match docker(&[
            "inspect",
            "--format",
            "{{.State.Status}} {{.State.OOMKilled}}",
            &container.0,
        ])
        .as_str()
        {
            "exited true" => return Start::KilledForMemory,
            "exited false" => panic!("ended by itself: {}", docker(&["logs", &container.0])),
            _ => {}
        }
        let port = docker(&["port", &container.0, "8080"]);
        if healthy(&port) {
            return Start::Serves;
        }
        assert!(
            Instant::now() < deadline,
            "neither ready nor dead: {}",
            docker(&["logs", &container.0])
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// True if it answers `/health`.
pub fn healthy(address: &str) -> bool {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(address) else {
        return false;
    };
    let mut status = [0; 12];
    stream
        .write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .is_ok()
        && stream.read_exact(&mut status).is_ok()
        && status.ends_with(b" 200")
}

struct Removed(String);

impl Drop for Removed {
    fn drop(&mut self) {
        docker(&["rm", "--force", &self.0]);
    }
}

/// The first line that a Docker command prints.
fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}
