//! A user kills a run with SIGKILL, and everything that it started ends. If the supervisor is killed too, `doctor
//! --clean` finds the leftovers by their mark. Everything that a live run uses is left alone.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use profiler::runtime::RuntimeKind;
use tempfile::TempDir;

use crate::runtime::{below, containers_of, context, docker, labelled, line, lives, native, shell, start};
use crate::support::{Profiler, eventually, image, needs_docker};

/// Starts a run of this script. Returns the rest of the line that begins with `started `.
fn started(script: &str) -> (Child, TempDir, String) {
    started_by(Profiler::new(), script, "process,image=profiler-test")
}

fn started_by(program: Profiler, script: &str, allow: &str) -> (Child, TempDir, String) {
    let program = program.file("left.rhai", script);
    let (mut child, folder) = program.args(["run", "left.rhai", "--allow", allow]).spawn();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find_map(|line| line.split_once("started ").map(|(_, rest)| rest.to_owned()));
    (child, folder, said.unwrap())
}

fn clean() {
    Profiler::new()
        .args(["doctor", "--clean"])
        .run()
        .success()
        .stdout("leftovers");
}

#[test]
fn processes_end_with_their_killed_run() {
    // A daemon with an empty environment, and two `exec` commands: one still running, one that left a background
    // process.
    let script = r#"
        let s = process::start(#{ command: ["sh", "-c", "setsid -f env -i sh -c 'echo $$; exec sleep 1000'; sleep 1000"] });
        while s.logs() == [] { sleep(0.01); }
        let left = s.exec(["sh", "-c", "setsid sleep 1000 >&- 2>&- & echo $!"]).output;
        print(`started ${s.logs()[0]} ${left}`);
        s.exec(["sh", "-c", "echo > running; sleep 1000"]);"#;
    let (mut child, folder, said) = started(script);
    let mut pids: Vec<u32> = said.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    eventually("the last command runs", || folder.path().join("running").exists());
    pids.extend(below(child.id()));
    assert!(pids.iter().all(|&pid| lives(pid)));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("everything ended", || pids.iter().all(|&pid| !lives(pid)));
}

/// A foreign container, removed on drop.
struct Theirs(String);

impl Drop for Theirs {
    fn drop(&mut self) {
        docker(&["rm", "--force", &self.0]);
    }
}

#[test]
fn a_probe_in_somebody_elses_container_ends_with_the_killed_run() {
    if !needs_docker() {
        return;
    }
    // The host's Python, mounted into an image that has none.
    let stand_ins = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/probes");
    let engine = format!("{stand_ins}/engine.py");
    let mount = format!("{stand_ins}:{stand_ins}:ro");
    let mut run = vec!["run", "--detach", "--publish", "127.0.0.1::8000", "--env"];
    let path = format!("PYTHONPATH={stand_ins}");
    run.extend([
        &path,
        "--volume",
        "/usr:/usr:ro",
        "--volume",
        &mount,
        "--entrypoint",
        "/usr/bin/python3",
    ]);
    run.extend([image::shell(), &engine, "8000", "0.0.0.0"]);
    let theirs = Theirs(docker(&run));
    let script = format!(
        r#"import "std/engines" as engines;
        let engine = engines::attach("./mine.rhai", #{{ container: "{}" }});
        engine.start();
        print("started ");
        engine.run_probe("./sleeper.py", #{{ python: "/usr/bin/python3" }});"#,
        theirs.0
    );
    let adapter = r#"
        fn launch(options) { #{} }
        fn ready(engine) { engine.get("/health").status == 200 }
        fn request(point) { #{ protocol: "openai_completions", path: "/v1/completions", prompt: "tokens", body: #{} } }
        fn facts() { #{} }
        fn failures() { [] }
        fn flags(limits) { [] }"#;
    let sleeper = "import subprocess\nsubprocess.run(['/bin/sleep', '4321.125'])";
    let program = Profiler::new().file("mine.rhai", adapter).file("sleeper.py", sleeper);
    let (mut child, _folder, _) = started_by(program, &script, "exec");
    let inside = || docker(&["top", &theirs.0, "-eo", "pid,args"]);
    eventually("the probe runs", || inside().contains("sleep 4321.125"));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the probe ended", || {
        !inside().contains("4321.125") && !inside().contains("sleeper.py")
    });
    assert_eq!(
        docker(&["inspect", "--format", "{{.State.Running}}", &theirs.0]),
        "true"
    );
    let files = docker(&["exec", &theirs.0, "/bin/sh", "-c", "echo /profiler-probe-*"]);
    assert_eq!(files, "/profiler-probe-*", "its files are gone");
}

#[test]
fn containers_are_removed_with_their_killed_run() {
    if !needs_docker() {
        return;
    }
    let script = format!(
        r#"let s = docker::start(#{{ image: "{}", args: ["-c", "sleep 1000"] }});
        print(`started ${{s}}`);
        sleep(1000);"#,
        image::shell()
    );
    for with_supervisor in [false, true] {
        let (mut child, _folder, _) = started(&script);
        let mark = format!("label=profiler.pid={}", child.id());
        let containers = || labelled(&mark);
        assert_ne!(containers(), "");
        if with_supervisor {
            for pid in below(child.id()) {
                kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        eventually("the container is removed", || {
            if with_supervisor {
                clean();
            }
            containers().is_empty()
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_live_run_uses_is_left_alone() {
    let own = context("process");
    let service = start(RuntimeKind::Process, &native("echo ready; sleep 1000"), &own).await;
    line(&service, "ready").await;
    let container = if needs_docker() {
        Some(start(RuntimeKind::Docker, &shell("sleep 1000"), &own).await)
    } else {
        None
    };
    tokio::task::spawn_blocking(clean).await.unwrap();
    assert!(service.state().await.unwrap().exit().is_none());
    if container.is_some() {
        assert_ne!(containers_of(own.run.id()), "");
    }
    own.services.stop_all(Duration::from_millis(100)).await.unwrap();
}
