//! A user's Docker daemon is restarted, as by an update, in the middle of a start, of a probe, of a pull: the program
//! says so, waits for it and goes on.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::support::dockerd::{Dockerd, is_inside};
use crate::support::{Profiler, engines, eventually, image, needs_docker, needs_dockerd};

/// A run of two probes on an engine whose start and probes take a second or two.
struct Asking {
    child: Child,
    said: Arc<Mutex<String>>,
    folder: TempDir,
}

impl Asking {
    fn start(daemon: &Dockerd) -> Self {
        daemon.sim();
        Self::with(daemon, r#"runtime: "docker""#, engines::container(0.04, "[]"))
    }

    /// With these options of the engine, and this adapter.
    fn with(daemon: &Dockerd, options: &str, adapter: String) -> Self {
        let script = r#"import "std/engines" as engines;
let engine = engines::describe("./mine.rhai", #{ OPTIONS, limits: #{ input: 2000, output: 5000 }, stop_grace: 1 });
let ask = |input| engine.probe(#{ input: input, output: if input == 64 { 64 } else { 5000 } });
let answers = [ask.call(64), ask.call(2000)];
if answers[1].cause == "stopped" { answers.push(ask.call(2000)); }
answers.map(|answer| [answer.verdict, answer.evidence.message ?? ""])"#
            .replace("OPTIONS", options);
        let (mut child, folder) = Profiler::new()
            .file("main.rhai", script)
            .file("mine.rhai", adapter)
            .args([
                "run",
                "main.rhai",
                "--out",
                "out",
                "--json",
                "--allow",
                "image=profiler-test,exec",
            ])
            .env("DOCKER_HOST", daemon.host())
            .spawn();
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| {
                let mut heard = heard.lock().unwrap();
                heard.push_str(&line);
                heard.push('\n');
            });
        });
        Self { child, said, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("out").join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits until the file has this text that often.
    #[track_caller]
    fn reaches(&mut self, name: &str, text: &str, times: usize) {
        eventually(&format!("{times} × {text} in {name}"), || {
            self.text(name).matches(text).count() >= times || self.child.try_wait().unwrap().is_some()
        });
    }

    /// The result of a run that succeeded.
    #[track_caller]
    fn result(mut self) -> (Value, Self) {
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.said());
        let result: Value = serde_json::from_str(&printed).unwrap();
        (result["result"].clone(), self)
    }

    /// The run succeeds, says that its daemon was away, and which probe that ended.
    #[track_caller]
    fn ended_by_its_daemon(self) {
        let (result, run) = self.result();
        let ended = "the Docker daemon was restarted, which ended the engine";
        // The daemon may go just before the second probe is sent: then the engine is started again first.
        let before = json!([["ok", ""], ["ok", ""]]);
        let within = json!([["ok", ""], ["error", ended], ["ok", ""]]);
        assert!(result == within || result == before, "{result}\n{}", run.said());
        let warned = run.text("journal.jsonl").matches("\"docker_away\"").count();
        assert!(warned > 0, "{}", run.said());
    }
}

/// The daemon ends its containers: the start is made once more, and the probe's cause is told.
#[test]
fn a_daemon_that_ends_its_containers() {
    if !needs_dockerd() || !is_inside() {
        return;
    }
    let mut daemon = Dockerd::start(&[]);
    let mut run = Asking::start(&daemon);
    run.reaches("logs/engine-1.log", "\n", 1);
    daemon.restart(Signal::SIGTERM);
    run.reaches("journal.jsonl", "\"began\"", 2);
    daemon.restart(Signal::SIGKILL);
    run.ended_by_its_daemon();
}

/// With `live-restore`, containers outlive their daemon: the engine goes on, and its log with it, though its first lines
/// were rotated away.
#[test]
fn a_daemon_that_leaves_its_containers() {
    if !needs_dockerd() || !is_inside() {
        return;
    }
    let mut daemon = Dockerd::start(&["--live-restore", "--log-opt=max-size=1k", "--log-opt=max-file=1"]);
    let mut run = Asking::start(&daemon);
    run.reaches("journal.jsonl", "\"began\"", 2);
    daemon.restart(Signal::SIGTERM);
    let (result, run) = run.result();
    assert_eq!(result, json!([["ok", ""], ["ok", ""]]), "{}", run.said());
    let log = run.text("logs/engine-1.log");
    // Its first lines may be rotated away before they are read, and Docker 20.10 may repeat a block that it rotates.
    assert!(log.contains("shutdown triggered"), "{log}");
    assert!(!run.path("logs/engine-2.log").exists(), "{}", run.said());
}

/// A container that sleeps outlives its daemon, and the engine that was started in it does not.
#[test]
fn a_daemon_of_a_container_that_an_engine_was_started_in() {
    if !needs_dockerd() || !is_inside() {
        return;
    }
    let mut daemon = Dockerd::start(&["--live-restore"]);
    let image = image::shell_and_sim_at(Some(&daemon.host()));
    let sleeping = [
        "run",
        "--detach",
        "--network=host",
        "--name=mine",
        "--entrypoint=sleep",
        &image,
        "infinity",
    ];
    assert!(daemon.docker(&sleeping).status().unwrap().success());
    let adapter = engines::process_of("/app/server", 0.04, "[]");
    let mut run = Asking::with(&daemon, r#"runtime: "process", container: "mine""#, adapter);
    run.reaches("journal.jsonl", "\"began\"", 2);
    daemon.restart(Signal::SIGTERM);
    run.ended_by_its_daemon();
}

/// The pull goes on with what is missing.
#[test]
fn a_daemon_in_the_middle_of_a_pull() {
    if !needs_dockerd() || !needs_docker() || !is_inside() {
        return;
    }
    let registry = Registry::serve();
    let mut daemon = Dockerd::start(&[]);
    let script = format!(
        r#"docker::start(#{{ image: "{0}", args: ["-c", "echo up"] }}).wait(); ()"#,
        registry.reference
    );
    let (child, _folder) = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--allow", &format!("image={}", registry.reference)])
        .env("DOCKER_HOST", daemon.host())
        .spawn();
    eventually("the layer is asked for", || registry.asked.load(Ordering::SeqCst));
    registry.open.store(true, Ordering::SeqCst);
    daemon.restart(Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("was cut off"), "{said}");
}

/// A registry with the shell's image, whose layer is not sent until it is open.
struct Registry {
    reference: String,
    asked: Arc<AtomicBool>,
    open: Arc<AtomicBool>,
    _runtime: tokio::runtime::Runtime,
}

impl Registry {
    fn serve() -> Self {
        let [config, layer] = image::parts_of(image::shell()).map(Arc::new);
        let digest = |bytes: &[u8]| {
            let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("sha256:{hex}")
        };
        let (config_name, layer_name) = (digest(&config), digest(&layer));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": { "mediaType": "application/vnd.docker.container.image.v1+json", "size": config.len(), "digest": config_name },
            "layers": [{ "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": layer.len(), "digest": layer_name }],
        })
        .to_string();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let reference = format!("{}/x/shell:1", listener.local_addr().unwrap());
        let (asked, open) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (was_asked, is_open) = (Arc::clone(&asked), Arc::clone(&open));
        let answer = move |uri: axum::http::Uri| {
            let (config, layer, manifest) = (Arc::clone(&config), Arc::clone(&layer), manifest.clone());
            let (config_name, layer_name) = (config_name.clone(), layer_name.clone());
            let (was_asked, is_open) = (Arc::clone(&was_asked), Arc::clone(&is_open));
            async move {
                let path = uri.path();
                let kind = if path.contains("/manifests/") {
                    "application/vnd.docker.distribution.manifest.v2+json"
                } else {
                    "application/octet-stream"
                };
                let body = if path.contains("/manifests/") {
                    manifest.into_bytes()
                } else if path.ends_with(&config_name) {
                    config.to_vec()
                } else if path.ends_with(&layer_name) {
                    if !is_open.load(Ordering::SeqCst) {
                        was_asked.store(true, Ordering::SeqCst);
                        // The daemon gives up first.
                        std::future::pending::<()>().await;
                    }
                    layer.to_vec()
                } else {
                    b"{}".to_vec()
                };
                ([("content-type", kind)], body)
            }
        };
        runtime.spawn(axum::serve(listener, axum::Router::new().fallback(answer)).into_future());
        Self {
            reference,
            asked,
            open,
            _runtime: runtime,
        }
    }
}
