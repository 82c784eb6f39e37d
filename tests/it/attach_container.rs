//! A user attaches to a container by its name alone: the program finds its address, its engine and the configuration of
//! its model.

use std::process::Command;

use crate::support::{Outcome, Profiler, image, needs_docker, temp};

/// Removes its container when dropped.
struct Container(String);

impl Drop for Container {
    fn drop(&mut self) {
        docker(&["rm", "--force", "--volumes", &self.0]);
    }
}

impl Container {
    /// Starts a container that serves the simulated engine. `options` are passed to `docker create`.
    fn serving(options: &[&str]) -> Self {
        let mut words = vec!["create", "--label", "profiler-test=attached"];
        words.extend(options);
        words.push(image::sim());
        words.extend(["--time-scale", "0", "--max-model-len", "4096", "--model", "/model"]);
        let container = Self(docker(&words));
        // The configuration of the simulated model.
        let folder = temp();
        let shape = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sim/shapes/llama-3.1-8b.json");
        std::fs::create_dir(folder.path().join("model")).unwrap();
        std::fs::copy(shape, folder.path().join("model/config.json")).unwrap();
        let from = folder.path().join("model").display().to_string();
        docker(&["cp", &from, &format!("{}:/model", container.0)]);
        docker(&["start", &container.0]);
        container
    }

    fn run(&self, script: &str, set: &[&str]) -> Outcome {
        let set = set.iter().flat_map(|set| ["--set", set]);
        Profiler::new()
            .args(["run", script, "--json", "--wait", "5m"])
            .args(["--set", &format!("container={}", self.0)])
            .args(set)
            .run()
    }
}

fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "docker {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_container_is_asked_by_its_published_port_or_its_network() {
    if !needs_docker() {
        return;
    }
    for options in [&["--publish", "127.0.0.1:0:8000"] as &[&str], &[]] {
        let container = Container::serving(options);
        let outcome = container
            .run("adaptive", &["input=64", "output=8", "concurrency=1"])
            .success();
        let answer = &outcome.json()["result"];
        assert_eq!(answer["points"][0]["verdict"], "ok", "{options:?} {answer}");
    }
}

/// With several published ports, the user must choose one.
#[test]
fn of_several_ports_the_user_names_one() {
    if !needs_docker() {
        return;
    }
    let container = Container::serving(&["--publish", "127.0.0.1:0:8000", "--publish", "127.0.0.1:0:9000"]);
    let _ = container
        .run("engine_info", &[])
        .code(2)
        .stderr("[8000, 9000]")
        .stderr("port=8000");
    let outcome = container.run("engine_info", &["port=8000"]).success();
    assert!(outcome.stdout.contains("vllm"), "{}", outcome.stdout);
}

#[test]
fn a_container_that_cannot_be_asked_says_why() {
    if !needs_docker() {
        return;
    }
    let hidden = Container::serving(&["--network", "none"]);
    let _ = hidden
        .run("engine_info", &[])
        .code(3)
        .stderr("no network")
        .stderr("--publish");
    docker(&["stop", "--time", "0", &hidden.0]);
    let stopped = hidden.run("engine_info", &[]).code(3).stderr("is not running");
    let _ = stopped.stderr(&format!("docker start {}", hidden.0));
    let absent = Profiler::new().args(["run", "engine_info", "--set", "container=no-such-container"]);
    let _ = absent.run().code(3).stderr("no-such-container");
}

/// The estimate is for the model inside the container, which no hub has.
#[test]
fn the_models_configuration_is_read_from_the_container() {
    if !needs_docker() {
        return;
    }
    let container = Container::serving(&["--publish", "127.0.0.1:0:8000"]);
    let script = format!(
        r#"import "std/engines" as engines;
        let engine = engines::describe("auto", #{{ container: "{}" }});
        engine.start();
        estimate(engine, #{{ input: 512, output: 64, offline: true }}).kv_bytes_per_token"#,
        container.0
    );
    let own = Profiler::new()
        .file("s.rhai", script)
        .env("HF_ENDPOINT", "http://127.0.0.1:1");
    let outcome = own
        .args(["run", "s.rhai", "--json", "--allow", "exec", "--wait", "5m"])
        .run()
        .success();
    assert_eq!(outcome.json()["result"], 131_072);
}
