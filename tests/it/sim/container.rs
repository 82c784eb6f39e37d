//! A user runs the simulated engine as a container, from the image that `.ci/sim-image` builds, through a published
//! port.

use std::process::Command;

use crate::support::container::{Container, docker};
use crate::support::{image, needs_docker};

#[tokio::test]
async fn it_runs_in_a_container_of_its_own() {
    if !needs_docker() {
        return;
    }
    let container = Container(docker(&[
        "run",
        "--detach",
        "--label",
        "profiler-test=sim",
        "--publish",
        "127.0.0.1:0:8000",
        "--memory",
        "100m",
        "--memory-swap",
        "100m",
        image::sim(),
        "--profile",
        "llama-8b-24gb-vllm",
        "--time-scale",
        "0",
        "--max-model-len",
        "4096",
    ]));
    let address = docker(&["port", &container.0, "8000"]);
    let client = profiler::http::build(profiler::http::direct()).unwrap();
    let url = format!("http://{}", address.lines().next().unwrap());
    let mut ready = false;
    for _ in 0..600 {
        ready = client
            .get(format!("{url}/health"))
            .send()
            .await
            .is_ok_and(|health| health.status().is_success());
        if ready {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(ready, "{}", docker(&["logs", &container.0]));
    let body = super::completion(1000, 200);
    let answer = client
        .post(format!("{url}/v1/completions"))
        .json(&body)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(
        answer.contains("\"completion_tokens\":200") && answer.ends_with("data: [DONE]\n\n"),
        "{answer}"
    );
    let memory: profiler::telemetry::Reading = client
        .get(format!("{url}/sim/memory"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert!(memory.devices[0].used > 16 << 30);
    // The image has no CA certificates, which plain HTTP does not need.
    let info = |url: &str| {
        let words = [
            "exec",
            "--workdir",
            "/tmp",
            &container.0,
            "/app/profiler",
            "run",
            "engine_info",
            "--url",
            url,
        ];
        Command::new("docker").args(words).output().unwrap()
    };
    let asked = info("http://127.0.0.1:8000");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let asked = info("https://127.0.0.1:8000");
    assert_eq!(
        asked.status.code(),
        Some(3),
        "{}",
        String::from_utf8_lossy(&asked.stderr)
    );
    docker(&["stop", "--time", "10", &container.0]);
    assert_eq!(
        docker(&["inspect", "--format", "{{.State.ExitCode}}", &container.0]),
        "143"
    );
}
