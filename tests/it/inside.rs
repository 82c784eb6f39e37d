//! A user has an engine started in a container that sleeps: it is watched and ended there, and the container is left as
//! it was.

use crate::support::container::docker;
use crate::support::{Outcome, Profiler, eventually, image, needs_docker};

/// A container that sleeps, with a shell and the simulated engine in it. Removed when dropped.
struct Sleeping(String);

impl Drop for Sleeping {
    fn drop(&mut self) {
        docker(&["rm", "--force", "--volumes", &self.0]);
    }
}

/// An adapter whose engine needs this long to load: seconds for a second of the modelled one.
fn adapter(time_scale: &str, further: &str) -> String {
    format!(
        r#"import "std/engines/vllm" as vllm;
        fn launch(options) {{
            let own = ["--host", "0.0.0.0", "--port", "{{port}}", "--time-scale", "{time_scale}", "--max-model-len", "4096"];
            #{{ command: ["/app/server", "sim"] + own + [{further}] }}
        }}
        fn ready(engine) {{ vllm::ready(engine) }}
        fn request(point) {{ vllm::request(point) }}
        fn facts() {{ vllm::facts() }}
        fn failures() {{ vllm::failures() }}
        fn flags(limits) {{ vllm::flags(limits) }}"#
    )
}

const FAST: &str = "0";
/// Its start takes longer than any machine needs to kill it.
const SLOW: &str = "1000";

impl Sleeping {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(options: &[&str]) -> Self {
        let name = [
            "run",
            "--detach",
            "--label",
            "profiler-test=inside",
            "--entrypoint",
            "sleep",
        ];
        Self(docker(
            &[&name[..], options, &[image::shell_and_sim(), "infinity"]].concat(),
        ))
    }

    /// A search with an engine in the container.
    fn search(&self, time_scale: &str, further: &str, words: &str) -> Profiler {
        let program = Profiler::new()
            .file("mine.rhai", adapter(time_scale, further))
            .args("run grid --engine ./mine.rhai --runtime process --out out --json".split(' '))
            .args(["--container", &self.0, "--set", "model="])
            .args("--output 8 --search.grid-size 2 --gpus []".split(' '))
            .args(words.split_whitespace());
        match words.contains("--input") {
            true => program,
            false => program.args(["--input", "64..512"]),
        }
    }

    /// The processes in the container, and the files that changed in it.
    fn state(&self) -> (usize, String) {
        let listed = docker(&["top", &self.0, "-o", "pid,args"]);
        (listed.lines().count() - 1, docker(&["diff", &self.0]))
    }

    /// Waits until nothing but its own process is left.
    #[track_caller]
    fn is_as_it_was(&self) {
        eventually("only the container's own process", || self.state().0 == 1);
        assert_eq!(self.state().1, "", "no files");
    }

    fn engine_runs(&self) -> bool {
        docker(&["top", &self.0, "-o", "pid,args"]).contains("/app/server")
    }

    /// Whether a process has this command line.
    fn runs(&self, command: &[&str]) -> bool {
        let listed = docker(&["top", &self.0, "-o", "pid,args"]);
        let mut commands = listed.lines().map(|line| line.split_whitespace().skip(1));
        commands.any(|words| words.eq(command.iter().copied()))
    }
}

fn journal(outcome: &Outcome) -> String {
    std::fs::read_to_string(outcome.folder().join("out/journal.jsonl")).unwrap()
}

#[test]
fn an_engine_is_started_in_it_probed_and_ended() {
    if !needs_docker() {
        return;
    }
    let sleeping = Sleeping::new();
    let outcome = sleeping.search(FAST, "", "").run().sees(3, &["--allow exec"]);
    assert!(!journal(&outcome).contains("\"event\":\"engine\""));
    sleeping.is_as_it_was();
    let outcome = sleeping.search(FAST, "", "--allow exec").run().success();
    assert_eq!(outcome.json()["result"]["points"][0]["verdict"], "ok");
    let log = std::fs::read_to_string(outcome.folder().join("out/logs/engine-1.log")).unwrap();
    assert!(log.contains("Using max model len 4096"), "{log}");
    sleeping.is_as_it_was();
}

#[test]
fn each_point_gets_a_start_in_it() {
    if !needs_docker() {
        return;
    }
    let sleeping = Sleeping::new();
    let words = "--allow exec --search.isolate true --input 64..6000 --search.max-probes 3";
    let outcome = sleeping.search(FAST, "", words).run().success();
    assert!(
        journal(&outcome).matches("\"isolated\":{").count() > 1,
        "{}",
        journal(&outcome)
    );
    sleeping.is_as_it_was();
}

#[test]
fn an_engine_that_cannot_start_is_told_in_its_own_words() {
    if !needs_docker() {
        return;
    }
    let sleeping = Sleeping::new();
    let outcome = sleeping.search(FAST, "\"--no-such-flag\"", "--allow exec").run();
    let _ = outcome.sees(3, &["unexpected argument"]);
    sleeping.is_as_it_was();
}

#[test]
fn a_killed_profiler_leaves_nothing_in_it() {
    if !needs_docker() {
        return;
    }
    let sleeping = Sleeping::new();
    let (mut child, _folder) = sleeping.search(SLOW, "", "--allow exec").spawn();
    eventually("the engine in the container", || sleeping.engine_runs());
    child.kill().unwrap();
    child.wait().unwrap();
    sleeping.is_as_it_was();
}

#[test]
fn processes_that_left_the_engines_group_are_ended_with_it() {
    if !needs_docker() {
        return;
    }
    let sleeping = Sleeping::new();
    let setsid = format!("{}:/bin/setsid", sleeping.0);
    docker(&["cp", "--follow-link", "/usr/bin/setsid", &setsid]);
    let search = |time_scale: &str| {
        let server = r#"["/app/server", "sim"]"#;
        let below = r#"["sh", "-c", "setsid sleep 1000 & exec \"$@\"", "sh", "/app/server", "sim"]"#;
        let own = adapter(time_scale, "");
        assert!(own.contains(server));
        sleeping
            .search(time_scale, "", "--allow exec")
            .file("mine.rhai", own.replace(server, below))
    };
    let only_its_own = || eventually("only the container's own process", || sleeping.state().0 == 1);
    let _ = search(FAST).run().success();
    only_its_own();
    let (mut child, _folder) = search(SLOW).spawn();
    eventually("the process in a session of its own", || {
        sleeping.runs(&["sleep", "1000"])
    });
    child.kill().unwrap();
    child.wait().unwrap();
    only_its_own();
}

#[test]
fn a_published_port_where_nothing_listens_is_free() {
    if !needs_docker() {
        return;
    }
    let sleeping = Sleeping::with(&["--publish", "127.0.0.1::8000"]);
    let _ = sleeping.search(FAST, "", "--allow exec").run().success();
    sleeping.is_as_it_was();
}

#[test]
fn a_container_that_somebody_kills_is_told() {
    if !needs_docker() {
        return;
    }
    let sleeping = Sleeping::new();
    let (child, _folder) = sleeping.search(SLOW, "", "--allow exec").spawn();
    eventually("the engine in the container", || sleeping.engine_runs());
    docker(&["kill", &sleeping.0]);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    // The container may go before the request is sent: then the engine cannot be started again.
    assert!(said.contains("signal 9") || said.contains("is not running"), "{said}");
}

#[test]
fn a_container_without_a_shell_or_with_an_engine_is_refused() {
    if !needs_docker() {
        return;
    }
    let args = [
        "run",
        "--detach",
        "--label",
        "profiler-test=inside",
        image::sim(),
        "--time-scale",
        "0",
    ];
    let serving = Sleeping(docker(&args));
    let other = serving.search(FAST, "", "--allow exec --port 8001").run();
    let _ = other.sees(3, &["shell"]);
    let address = docker(&["inspect", "--format", "{{.NetworkSettings.IPAddress}}", &serving.0]);
    eventually("the server", || {
        std::net::TcpStream::connect((address.as_str(), 8000)).is_ok()
    });
    let same = serving.search(FAST, "", "--allow exec").run();
    let _ = same.sees(2, &["8000"]);
}

#[test]
fn attaching_to_it_says_how_to_start_an_engine() {
    if !needs_docker() {
        return;
    }
    let sleeping = Sleeping::new();
    let program = Profiler::new().args(["run", "adaptive", "--container", &sleeping.0, "--port", "8000"]);
    let _ = program.run().sees(3, &["--runtime process"]);
}
