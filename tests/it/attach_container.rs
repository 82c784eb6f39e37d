//! A user attaches to a container by its name alone: the program finds its address, its engine and the configuration of
//! its model.

use profiler::runtime::Target;

use crate::runtime;
use crate::support::attached::table;
use crate::support::container::{Container, docker};
use crate::support::{Outcome, Profiler, eventually, image, needs_docker, temp};

impl Container {
    /// Starts a container that serves the simulated engine. `options` are passed to `docker create`.
    fn serving(options: &str) -> Self {
        let mut words = vec!["create", "--label", "profiler-test=attached"];
        words.extend(options.split_whitespace());
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

    fn run(&self, command: &str) -> Outcome {
        let program = Profiler::new()
            .args(command.split(' '))
            .args(["--json", "--wait", "5m"]);
        program.args(["--set", &format!("container={}", self.0)]).run()
    }
}

/// Fails unless the command, with a container that was created with these options, does this.
fn check(options: &str, command: &str, code: i32, parts: &[&str]) {
    if needs_docker() {
        let container = Container::serving(options);
        let _ = container.run(command).sees(code, parts);
    }
}

const ONE_PORT: &str = "--publish 127.0.0.1:0:8000";
const TWO_PORTS: &str = "--publish 127.0.0.1:0:8000 --publish 127.0.0.1:0:9000";

table! { check:
    a_published_port: ONE_PORT, "run adaptive --input 64 --output 8 --concurrency 1", 0, &["/result/points/0/verdict=\"ok\""];
    a_network: "", "run adaptive --input 64 --output 8 --concurrency 1", 0, &["/result/points/0/verdict=\"ok\""];
    several_ports: TWO_PORTS, "run engine_info", 2, &["[8000, 9000]", "--port 8000"];
    one_of_several_ports: TWO_PORTS, "run engine_info --port 8000", 0, &["vllm"];
    no_network: "--network none", "run engine_info", 3, &["no network", "--publish"];
}

#[test]
fn a_container_that_does_not_run() {
    if !needs_docker() {
        return;
    }
    let stopped = Container::serving("--network none");
    docker(&["stop", "--time", "0", &stopped.0]);
    let _ = stopped
        .run("run engine_info")
        .sees(3, &[&format!("docker start {}", stopped.0)]);
    docker(&["start", &stopped.0]);
    docker(&["pause", &stopped.0]);
    let _ = stopped.run("run engine_info").sees(3, &["docker unpause"]);
    let absent = Profiler::new().args(["run", "engine_info", "--set", "container=no-such-container"]);
    let _ = absent.run().sees(3, &["no-such-container"]);
}

/// The estimate is for the model inside the container, which no hub has.
#[test]
fn the_models_configuration_is_read_from_the_container() {
    if !needs_docker() {
        return;
    }
    let container = Container::serving(ONE_PORT);
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

/// The processes of two containers, and those that somebody starts in one later.
#[tokio::test(flavor = "multi_thread")]
async fn its_processes_are_told_from_those_of_others() {
    if !needs_docker() {
        return;
    }
    let own = format!("1{}", std::process::id());
    let sleeping = |seconds: &str| {
        let words = [
            "run",
            "--detach",
            "--label",
            "profiler-test=attached",
            "--publish",
            "127.0.0.1::8000",
        ];
        let script = format!("sleep {seconds} & sleep {seconds}");
        Container(docker(&[&words[..], &[image::shell(), "-c", &script]].concat()))
    };
    let (one, _other) = (sleeping(&own), sleeping("2000"));
    let context = runtime::context("exec");
    let attached = profiler::runtime::attach(&Target::Container(one.0.clone(), None), &context)
        .await
        .unwrap();
    let commands = async || {
        let pids = attached.pids().await.unwrap();
        let read = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .replace('\0', " ")
        };
        let mut commands: Vec<String> = pids.iter().map(read).collect();
        commands.sort();
        commands
    };
    let sleep = format!("sleep {own} ");
    let mut expected = vec![format!("/bin/sh -c sleep {own} & sleep {own} "), sleep.clone(), sleep];
    for further in [None, Some("3000")] {
        if let Some(seconds) = further {
            docker(&["exec", "--detach", &one.0, "sleep", seconds]);
            expected.push(format!("sleep {seconds} "));
        }
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while commands().await != expected && std::time::Instant::now() < deadline {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert_eq!(commands().await, expected);
    }
}

/// Fails unless what somebody else does to the container between two probes is told in these words.
fn disturbed(does: &[&str], serves_again: bool, told: &str) {
    if !needs_docker() {
        return;
    }
    let container = Container::serving("");
    let serves = || {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        let address = docker(&["inspect", "--format", format, &container.0]);
        std::net::TcpStream::connect((address.as_str(), 8000)).is_ok()
    };
    eventually("the server", serves);
    let mut repl = Profiler::new().args(["repl", "--allow", "exec"]).on_terminal();
    repl.expect("\x1b[?2004h");
    repl.line("import \"std/engines\" as engines;");
    repl.line(&format!(
        "let engine = engines::describe(\"auto\", #{{ container: \"{}\" }});",
        container.0
    ));
    repl.line("engine.probe(#{ input: 64, output: 8 }).verdict == \"ok\"");
    repl.expect("\ntrue\r\n");
    docker(&[does, &[&container.0]].concat());
    if serves_again {
        eventually("the server", serves);
    }
    repl.line("engine.probe(#{ input: 64, output: 8 }, #{ timeout: 1 }).evidence.message");
    repl.expect(told);
}

table! { disturbed:
    a_container_that_somebody_restarts: &["restart", "--time", "0"], true, "somebody else restarted";
    a_container_that_somebody_pauses: &["pause"], false, "paused";
    a_container_that_somebody_kills: &["kill"], false, "somebody else stopped";
    a_container_that_somebody_removes: &["rm", "--force"], false, "somebody else removed";
}
