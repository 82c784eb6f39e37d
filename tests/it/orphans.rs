//! What a run started ends when the run is killed with SIGKILL; where its supervisor is killed too, what is left is found by its mark. What a live run
//! uses is left alone.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use profiler::runtime::RuntimeKind;
use tempfile::TempDir;

use crate::runtime::{below, containers_of, context, eventually, labelled, line, lives, native, shell, start};
use crate::support::{Profiler, image, needs_docker};

/// A run of this script, and what it said after `started `.
fn started(script: &str) -> (Child, TempDir, String) {
    let program = Profiler::new().file("left.rhai", script);
    let (mut child, folder) = program
        .args(["run", "left.rhai", "--allow", "process,image=profiler-test"])
        .spawn();
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
    // One that is a daemon with an empty environment, and the commands of two `exec`: one that runs, one that left something.
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
