//! A user's image is not there: it is pulled from a registry on this machine, and a registry's refusal is told with its
//! remedy.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use profiler::runtime::{Launch, RuntimeKind};
use serde_json::json;

use crate::runtime::daemon::{Daemon, message};
use crate::runtime::{self, context, docker, shell};
use crate::support::{Profiler, eventually, image, needs_docker, needs_registry, temp};

const START: &str = r#"docker::start(#{ image: IMAGE, args: ["-c", "echo up; sleep 100"] }); ()"#;

fn start(reference: &str) -> Profiler {
    let script = START.replace("IMAGE", &format!("\"{reference}\""));
    let program = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--json", "--out", "out"]);
    program.arg(format!("--allow=image={reference}"))
}

struct Registry(Child);

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_a_registry_is_pulled_and_its_digest_kept() {
    if !needs_docker() || !needs_registry() {
        return;
    }
    let folder = temp();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let config = json!({
        "version": 0.1, "log": { "level": "error" },
        "storage": { "filesystem": { "rootdirectory": folder.path().join("data") } },
        "http": { "addr": format!("127.0.0.1:{port}") },
    });
    // JSON is YAML.
    std::fs::write(folder.path().join("config.yml"), config.to_string()).unwrap();
    let registry = Command::new("docker-registry")
        .arg("serve")
        .arg(folder.path().join("config.yml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _registry = Registry(registry.unwrap());
    eventually("the registry listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let reference = format!("127.0.0.1:{port}/profiler-test/shell:1");
    docker(&["tag", image::shell(), &reference]);
    let pushed = docker(&["push", &reference]);
    let digest = pushed
        .rsplit("digest: ")
        .next()
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    assert!(digest.starts_with("sha256:"), "{pushed}");
    docker(&["rmi", &reference]);

    let context = context("");
    let launch = Launch {
        image: Some(reference.clone()),
        ..shell("sleep 1000")
    };
    let service = runtime::start(RuntimeKind::Docker, &launch, &context).await;
    let name = format!("127.0.0.1:{port}/profiler-test/shell");
    assert_eq!(service.info()["digest"], format!("{name}@{digest}"));
    context.services.stop_all(Duration::from_millis(100)).await.unwrap();
    docker(&["rmi", &reference]);
    start(&format!("127.0.0.1:{port}/profiler-test/shell:none"))
        .run()
        .code(3)
        .stderr("check the name and the tag");
}

/// Answers of registries: the status of every request, and a word of the remedy.
#[test]
fn a_registrys_refusal_is_told_with_its_remedy() {
    if !needs_docker() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (status, code, remedy) in [
        (401, "UNAUTHORIZED", "docker login"),
        (404, "NAME_UNKNOWN", "check the name"),
        (429, "TOOMANYREQUESTS", "wait"),
    ] {
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let status = StatusCode::from_u16(status).unwrap();
        let body = json!({ "errors": [{ "code": code, "message": "no" }] });
        let answer = move |uri: axum::http::Uri| {
            let body = body.clone();
            async move {
                let is_hello = uri.path().trim_end_matches('/') == "/v2";
                (if is_hello { StatusCode::OK } else { status }, axum::Json(body))
            }
        };
        runtime.spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
        start(&format!("127.0.0.1:{port}/x/engine:1"))
            .run()
            .code(3)
            .stderr(remedy);
    }
}

#[test]
fn a_pull_that_is_cut_off_goes_on() {
    let pulls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pulls);
    let daemon = Daemon::new(move |asked| match asked {
        "POST /images/create" if count.fetch_add(1, Ordering::SeqCst) == 0 => (
            200,
            json!({"errorDetail": {"message": "unexpected EOF"}, "error": "unexpected EOF"}),
        ),
        "POST /images/create" => (200, json!({"status": "Pull complete", "id": "0123456789ab"})),
        "GET /images/engine:1/json" if count.load(Ordering::SeqCst) == 2 => (200, json!({"Id": "sha256:1"})),
        "POST /containers/create" => message(500, "far enough"),
        _ => message(404, "No such image: engine:1"),
    });
    let _ = daemon
        .run(r#"docker::start(#{ image: "engine:1" })"#, &[])
        .stderr("was cut off")
        .stderr("far enough");
    assert_eq!(pulls.load(Ordering::SeqCst), 2);
}

/// The registry lists a layer that no disk could hold, and the daemon has it already.
#[test]
fn layers_that_are_there_need_no_room() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let reference = format!("{}/x/engine:1", listener.local_addr().unwrap());
    let digest = format!("sha256:{}", "a".repeat(64));
    let manifest = json!({"layers": [{"digest": digest, "size": 4_000_000_000_000_000_u64}]});
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let answer = move || {
        count.fetch_add(1, Ordering::SeqCst);
        let manifest = manifest.clone();
        async move { axum::Json(manifest) }
    };
    runtime.spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
    let pulls = Arc::new(AtomicUsize::new(0));
    let daemon = Daemon::new(move |asked| match asked {
        "POST /images/create" => {
            pulls.fetch_add(1, Ordering::SeqCst);
            (200, json!({"status": "Already exists", "id": "a".repeat(12)}))
        }
        "POST /containers/create" => message(500, "far enough"),
        _ if asked.starts_with("GET /images/") && pulls.load(Ordering::SeqCst) > 0 => (200, json!({"Id": "sha256:1"})),
        _ => message(404, "No such image"),
    });
    let script = format!(r#"docker::start(#{{ image: "{reference}" }})"#);
    let allowed = format!("image={reference}");
    let _ = daemon.run(&script, &["--allow", &allowed]).stderr("far enough");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// A daemon without `docker-init` starts the container all the same, and says so.
#[test]
fn a_container_starts_without_an_init_process() {
    let daemon = Daemon::new(|asked| match asked {
        "GET /images/engine:1/json" => (200, json!({"Id": "sha256:1"})),
        "POST /containers/create" => (201, json!({"Id": "c0ffee", "Warnings": []})),
        "POST /containers/c0ffee/start" => message(500, "exec: \"docker-init\": executable file not found in $PATH"),
        _ => message(404, "not found"),
    });
    let _ = daemon
        .run(r#"docker::start(#{ image: "engine:1" })"#, &[])
        .stderr("without an init process");
    let init: Vec<_> = daemon.asked("POST /containers/create");
    let init: Vec<_> = init.iter().map(|body| &body["HostConfig"]["Init"]).collect();
    assert_eq!(init, [&json!(true), &json!(false)]);
}
