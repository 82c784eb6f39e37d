//! Containers that a stranger made, and the user attaches to or only runs: their labels, environment, command line, log
//! and events are text within bounds, and take nothing from anybody.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{CreateContainerOptions, StartContainerOptions};

use serde_json::{Value, json};

use crate::runtime::daemon::{Daemon, message};
use crate::sim::process::Served;
use crate::support::container::{Container, docker};
use crate::support::{Profiler, eventually, image, needs_docker};

const GIB: u64 = 1 << 30;

/// Paints the terminal, and leaves the page's text.
const PAINT: &str = "\u{1b}]0;PWN\u{7}\u{1b}[2J</script><script>alert(1)</script>\u{202e}";

/// A network of its own, removed when dropped.
struct Network(String);

impl Network {
    fn create() -> Self {
        let name = format!("profiler-test-hostile-{}", std::process::id());
        docker(&["network", "create", &name]);
        Self(name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        docker(&["network", "rm", &self.0]);
    }
}

/// Starts a container by the daemon's own interface, which takes longer words than a command line.
fn start(body: ContainerCreateBody) -> Container {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let daemon = Docker::connect_with_defaults().unwrap();
        let created = daemon.create_container(None::<CreateContainerOptions>, body).await;
        let container = Container(created.unwrap().id);
        let started = daemon.start_container(&container.0, None::<StartContainerOptions>);
        started.await.unwrap();
        container
    })
}

/// An image can have our labels, and a container has those of its image.
#[test]
fn a_container_with_labels_like_ours_is_left_alone() {
    if !needs_docker() {
        return;
    }
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let labels = [
        ("profiler.run", "of-a-stranger".to_owned()),
        ("profiler.host", format!("1:1:another-boot:{}:1", machine.trim())),
    ];
    let foreign = start(ContainerCreateBody {
        image: Some(image::shell().to_owned()),
        cmd: Some(vec!["-c".to_owned(), "sleep 1000".to_owned()]),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
        network_disabled: Some(true),
        ..ContainerCreateBody::default()
    });
    let _ = Profiler::new()
        .args(["doctor", "--clean"])
        .run()
        .nowhere("of-a-stranger");
    assert_eq!(
        docker(&["inspect", "--format", "{{.State.Running}}", &foreign.0]),
        "true"
    );
}

/// Labels of 20 MB, words that paint, keys that stand only in a shell's line, and a log without end: what is shown and
/// kept of it.
#[test]
fn what_a_container_says_of_itself_is_bounded_and_only_text() {
    if !needs_docker() {
        return;
    }
    // One has a service's form, the other only a name.
    let keys = ["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", "8f3aQ7zL2mXw9RtK"];
    let [formed, named] = keys;
    let flood = format!(
        "printf '%s\\n' \"$PAINT\" \"authorization: Bearer {formed}\" \"for {named}\"; \
         API_KEY='{named}' /app/server sim --host 0.0.0.0 --port 8000 --time-scale 0 & \
         x=\"$PAINT\"; i=0; while [ $i -lt 5 ]; do x=\"$x$x\"; i=$((i+1)); done; while :; do printf '%s\\n' \"$x\" \"$x\" \"$x\"; sleep 0.02; done"
    );
    let network = Network::create();
    let labels = (0..2).map(|number| (format!("{number}{PAINT}"), "x".repeat(10_000_000)));
    let hostile = start(ContainerCreateBody {
        image: Some(image::shell_and_sim().to_owned()),
        cmd: Some(vec!["-c".to_owned(), flood, PAINT.to_owned()]),
        env: Some(vec![
            format!("PAINT={PAINT}"),
            format!("MODEL_ID={PAINT}"),
            format!("LONG={}", "x".repeat(100_000)),
        ]),
        labels: Some(labels.collect::<HashMap<_, _>>()),
        host_config: Some(HostConfig {
            network_mode: Some(network.0.clone()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    });
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let address = docker(&["inspect", "--format", format, &hostile.0]);
    eventually("the server", || {
        std::net::TcpStream::connect((address.as_str(), 8000)).is_ok()
    });
    let outcome = Profiler::new()
        .args([
            "run",
            "engine_info",
            "--container",
            &hostile.0,
            "--port",
            "8000",
            "--out",
            "run",
        ])
        .args(["--max-disk", "50MB"])
        .measured()
        .run();
    assert!(outcome.peak() < GIB, "{} MiB", outcome.peak() >> 20);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for shown in [&outcome.stdout, &outcome.stderr] {
        let has_key = keys.iter().any(|key| shown.contains(key));
        assert!(!shown.contains(['\u{1b}', '\u{202e}']) && !has_key, "{shown}");
    }
    let run = outcome.folder().join("run");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(!page.contains("<script>alert"));
    // The log grows with the time that the run takes.
    let mut besides_the_log = 0;
    all_files(&run, &mut |path, text| {
        if !path.starts_with(run.join("logs")) {
            besides_the_log += text.len();
        }
        assert!(!keys.iter().any(|key| text.contains(key)), "{}", path.display());
    });
    assert!(besides_the_log < 5_000_000, "{besides_the_log}");
}

/// Numbers, dates, names and addresses of any kind, events without end, an end while it is awaited: each costs at most
/// the run, with a message.
#[test]
fn whatever_is_said_of_a_container_is_taken_or_told() {
    let served = Served::start(&["--time-scale", "0"]);
    let port = served.url.rsplit(':').next().unwrap();
    let script = r#"import "std/engines" as engines;
        let engine = engines::attach("sim", #{ container: "x", port: 8000 });
        print(engine.probe(#{ input: 16, output: 4 }).verdict);"#;
    let network = |changes: Value| json!({ "NetworkSettings": changes });
    let elsewhere =
        |ip: &str, port: &str| network(json!({ "Ports": { "8000/tcp": [{ "HostIp": ip, "HostPort": port }] } }));
    // The changed part of its description, whether there are events, and the fault that ends the run.
    let rows = [
        (
            json!({ "State": { "Pid": i64::MIN, "ExitCode": i64::MAX }, "RestartCount": i64::MIN, "SizeRw": -1 }),
            false,
            "",
        ),
        (
            json!({ "HostConfig": { "Memory": i64::MIN, "PidsLimit": i64::MAX, "NanoCpus": -1 } }),
            false,
            "",
        ),
        (
            json!({ "State": { "StartedAt": "-009999-01-02T01:59:59Z", "FinishedAt": "9999-12-31T23:59:59Z" } }),
            false,
            "",
        ),
        (
            json!({ "State": { "StartedAt": "today", "Pid": 1 }, "Created": PAINT }),
            false,
            "",
        ),
        (
            json!({ "Id": PAINT, "Name": PAINT, "Image": PAINT, "Path": PAINT, "Args": [PAINT] }),
            false,
            "",
        ),
        (
            json!({ "Config": { "Image": PAINT.repeat(1000), "Labels": { PAINT: PAINT }, "Env": [PAINT, "=", ""] } }),
            false,
            "",
        ),
        (json!({}), true, ""),
        (
            json!({ "State": { "Running": false, "ExitCode": 137, "FinishedAt": "9999-12-30T22:00:00Z" } }),
            false,
            "is not running",
        ),
        (
            json!({ "Later": { "Running": false, "ExitCode": 137, "StartedAt": "2026-11-29T15:00:00Z", "FinishedAt": "9999-12-30T22:00:00Z" } }),
            false,
            "ended with status 137",
        ),
        (elsewhere("127.0.0.1/../x@y:80#", port), false, "has no IP address"),
        (elsewhere("127.0.0.1", "22/x"), false, "has no IP address"),
        (
            network(json!({ "Networks": { "x": { "IPAddress": format!("127.0.0.1:{port}/#") } } })),
            false,
            "has no IP address",
        ),
    ];
    for (said, events, fault) in rows {
        let mut container = json!({
            "Id": "c0ffee", "State": { "Running": true, "StartedAt": "2026-11-29T15:00:00Z" },
            "Config": { "ExposedPorts": { "8000/tcp": {} } },
            "NetworkSettings": { "Ports": { "8000/tcp": [{ "HostIp": "127.0.0.1", "HostPort": port }] } },
        });
        for (part, said) in said.as_object().unwrap() {
            match (container[part].as_object_mut(), said.as_object()) {
                // Networks take the place of ports.
                (Some(before), Some(said)) if part != "NetworkSettings" => before.extend(said.clone()),
                _ => container[part] = said.clone(),
            }
        }
        // It has ended when it is looked at again.
        let mut later = container.clone();
        if let Some(state) = said.get("Later") {
            later["State"] = state.clone();
        }
        let looks = Arc::new(AtomicUsize::new(0));
        let daemon = Daemon::new(move |asked| match asked {
            "GET /events" if events => (
                200,
                json!({ "Type": "container", "time": i64::MAX, "timeNano": i64::MIN }),
            ),
            _ if asked.starts_with("GET /containers/") && asked != "GET /containers/json" => {
                let first = looks.fetch_add(1, Ordering::Relaxed) == 0;
                (200, if first { &container } else { &later }.clone())
            }
            _ => message(404, PAINT),
        });
        let outcome = daemon
            .run(script, &["--allow", "exec", "--out", "run"])
            .code(if fault.is_empty() { 0 } else { 3 })
            .stderr(fault);
        assert!(
            !outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains(['\u{1b}', '\u{202e}']),
            "{said}"
        );
        // A run that did not start leaves no page.
        if fault.is_empty() {
            let page = fs::read_to_string(outcome.folder().join("run/report.html")).unwrap();
            assert!(!page.contains("<script>alert"), "{said}");
        }
    }
}

/// Calls `look` with the text of each file below a folder.
fn all_files(folder: &Path, look: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all_files(&path, look);
        } else {
            look(&path, &String::from_utf8_lossy(&fs::read(&path).unwrap()));
        }
    }
}
