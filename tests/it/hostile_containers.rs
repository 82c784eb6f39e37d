//! Containers that a stranger made, and the user attaches to or only runs: their labels, environment, command line, log
//! and events are text within bounds, and take nothing from anybody.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{CreateContainerOptions, StartContainerOptions};

use crate::support::{Profiler, eventually, image, needs_docker};

const GIB: u64 = 1 << 30;

/// Paints the terminal, and leaves the page's text.
const PAINT: &str = "\u{1b}]0;PWN\u{7}\u{1b}[2J</script><script>alert(1)</script>\u{202e}";

/// Removes its container when dropped.
struct Container(String);

impl Drop for Container {
    fn drop(&mut self) {
        docker(&["rm", "--force", "--volumes", &self.0]);
    }
}

fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "docker {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

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

/// Labels of 20 MB, words that paint, keys, and a log without end: what is shown and kept of it.
#[test]
fn what_a_container_says_of_itself_is_bounded_and_only_text() {
    if !needs_docker() {
        return;
    }
    let key = "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";
    let flood = format!(
        "printf '%s\\n' \"$PAINT\" \"authorization: Bearer {key}\"; \
         /app/server sim --host 0.0.0.0 --port 8000 --time-scale 0 & \
         x=\"$PAINT\"; i=0; while [ $i -lt 5 ]; do x=\"$x$x\"; i=$((i+1)); done; while :; do printf '%s\\n' \"$x\" \"$x\" \"$x\"; sleep 0.02; done"
    );
    let network = Network::create();
    let labels = (0..2).map(|number| (format!("{number}{PAINT}"), "x".repeat(10_000_000)));
    let hostile = start(ContainerCreateBody {
        image: Some(image::shell_and_sim().to_owned()),
        cmd: Some(vec![
            "-c".to_owned(),
            flood,
            PAINT.to_owned(),
            format!("--api-key={key}"),
        ]),
        env: Some(vec![
            format!("PAINT={PAINT}"),
            format!("HF_TOKEN={key}"),
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
        .args(["--max-disk", "50MB", "--max-time", "60s"])
        .measured()
        .run();
    assert!(outcome.peak() < GIB, "{} MiB", outcome.peak() >> 20);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for shown in [&outcome.stdout, &outcome.stderr] {
        assert!(
            !shown.contains(['\u{1b}', '\u{202e}']) && !shown.contains(key),
            "{shown}"
        );
    }
    let run = outcome.folder().join("run");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(!page.contains("<script>alert"));
    let bytes = all_files(&run, &mut |path, text| {
        assert!(!text.contains(key), "{}", path.display());
    });
    assert!(bytes <= 60_000_000, "{bytes}");
}

/// Calls `look` with the text of each file below a folder, a part at a time, and returns their bytes.
fn all_files(folder: &Path, look: &mut impl FnMut(&Path, &str)) -> usize {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bytes += all_files(&path, look);
        } else {
            let text = fs::read(&path).unwrap();
            look(&path, &String::from_utf8_lossy(&text));
            bytes += text.len();
        }
    }
    bytes
}
