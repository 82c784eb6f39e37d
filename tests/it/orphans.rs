//! What a run leaves when it is killed with SIGKILL is found by its marks and ended; what a live run uses is not.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use profiler::runtime::RuntimeKind;

use crate::runtime::{containers_of, context, docker, eventually, line, lives, native, shell, start};
use crate::support::{Profiler, image, needs_docker};

/// Starts something in a program of its own, kills that program, and gives what the script printed.
fn killed(script: &str) -> String {
    let program = Profiler::new().file(
        "left.rhai",
        format!(
            "{script}
sleep(1000);"
        ),
    );
    let (mut child, _folder) = program.args(["run", "left.rhai", "--allow", "process"]).spawn();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let printed = lines
        .into_iter()
        .find_map(|line| line.split_once("started ").map(|(_, rest)| rest.to_owned()));
    child.kill().unwrap();
    child.wait().unwrap();
    printed.unwrap()
}

fn clean() {
    Profiler::new()
        .args(["doctor", "--clean"])
        .run()
        .success()
        .stdout("leftovers");
}

#[test]
fn processes_of_a_killed_run_are_ended() {
    let script = r#"let s = process::start(#{ command: ["sh", "-c", "setsid sleep 1000 & echo $!; sleep 1000"] }); while s.logs() == [] { sleep(0.01); } print(`started ${s.logs()[0]}`);"#;
    let pid: u32 = killed(script).trim().parse().unwrap();
    clean();
    eventually("the process ended", || !lives(pid));
}

#[test]
fn containers_of_a_killed_run_are_removed() {
    if !needs_docker() {
        return;
    }
    let script = format!(
        r#"let s = docker::start(#{{ image: "{}", args: ["-c", "cat /proc/self/mountinfo; sleep 1000"] }}); print(`started ${{s}}`);"#,
        image::shell()
    );
    let before = docker(&["ps", "--quiet", "--no-trunc", "--filter", "label=profiler.run"]);
    killed(&script);
    let after = docker(&["ps", "--quiet", "--no-trunc", "--filter", "label=profiler.run"]);
    let new: Vec<&str> = after.lines().filter(|id| !before.contains(id)).collect();
    // Other tests have containers of their own, whose hosts may die at any time: those whose host lives stay as they are.
    eventually("no container of a dead host is there", || {
        clean();
        let left = docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", "label=profiler.run"]);
        new.iter().filter(|id| left.contains(**id)).all(|id| {
            let pid = docker(&["inspect", "--format", r#"{{index .Config.Labels "profiler.pid"}}"#, id]);
            pid.parse().is_ok_and(lives) || pid.is_empty()
        })
    });
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
