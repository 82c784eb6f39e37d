//! A user sends Ctrl-C or SIGTERM while an engine starts or is probed; everything started ends soon, and the exit
//! status says why.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::runtime::{below, containers_of, lives};
use crate::support::engines::{container, process, processes_of};
use crate::support::{eventually, needs_docker, temp, wait_for_text};

/// Time that an engine has to stop, in seconds.
const GRACE: u64 = 1;

/// Time that the program may take beyond that, with a margin for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(4);

/// Four engines: one is never ready, one also ignores SIGTERM, one never answers, and one does neither.
const STARTING: &str = r#"["--misbehave", "slow_start:1000"]"#;
const NEITHER: &str = r#"["--misbehave", "slow_start:1000", "--misbehave", "ignore_sigterm"]"#;
const HANGING: &str = r#"["--misbehave", "hang"]"#;
const STUBBORN: &str = r#"["--misbehave", "hang", "--misbehave", "ignore_sigterm"]"#;

/// A run with a live engine.
struct Run {
    child: Child,
    id: String,
    docker: bool,
    folder: TempDir,
}

impl Run {
    /// Starts a run and waits for this phase.
    fn until(phase: &str, docker: bool, further: &str, grace: u64) -> Self {
        let folder = temp();
        let script = format!(
            r#"import "std/engines" as engines;
            let engine = engines::describe("./mine.rhai", #{{ runtime: "{}", stop_grace: {grace} }});
            engine.probe(#{{ input: 100, output: 10 }})"#,
            if docker { "docker" } else { "process" }
        );
        let adapter = if docker {
            container(0.0, further)
        } else {
            process(0.0, further)
        };
        std::fs::write(folder.path().join("one.rhai"), script).unwrap();
        std::fs::write(folder.path().join("mine.rhai"), adapter).unwrap();
        // The tests may run under `nohup`, which ignores SIGHUP.
        let child = Command::new("env")
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_profiler")])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .args([
                "run",
                "one.rhai",
                "--json",
                "--allow=process,image=profiler-test",
                "--out",
                "out",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = folder.path().join("out");
        let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
        let wanted = format!(r#""phase":"{phase}""#);
        wait_for_text(&out.join("journal.jsonl"), &wanted, 1);
        let manifest: Value = serde_json::from_str(&text("manifest.json")).unwrap();
        Self {
            child,
            id: manifest["run"].as_str().unwrap().to_owned(),
            docker,
            folder,
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Fails unless the program exits within this time with this status and leaves nothing behind.
    #[track_caller]
    fn ends(&mut self, within: Duration, status: i32) {
        let begun = Instant::now();
        let ended = self.child.wait().unwrap();
        let took = begun.elapsed();
        assert_eq!(ended.code(), Some(status));
        assert!(took < within, "it took {took:?}");
        assert_eq!(processes_of(&self.id), Vec::<u32>::new());
        assert!(!self.docker || containers_of(&self.id).is_empty());
    }

    fn out(&self, name: &str) -> Value {
        let path: &Path = &self.folder.path().join("out").join(name);
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Both fail if it has already exited and been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The available runtimes; `true` is Docker.
fn runtimes() -> Vec<bool> {
    if needs_docker() { vec![false, true] } else { vec![false] }
}

#[test]
fn control_c_while_an_engine_starts() {
    for docker in runtimes() {
        let mut run = Run::until("loading", docker, STARTING, GRACE);
        run.signal(Signal::SIGINT);
        run.ends(SOON + Duration::from_secs(GRACE), 130);
        assert_eq!(run.out("manifest.json")["status"], "interrupted");
    }
}

#[test]
fn control_c_while_an_engine_starts_that_does_not_end() {
    let mut run = Run::until("loading", false, NEITHER, GRACE + 2);
    // From its first log line on, the engine handles signals itself.
    let log = run.folder.path().join("out/logs/engine-1.log");
    wait_for_text(&log, "\n", 1);
    run.signal(Signal::SIGINT);
    run.ends(SOON + Duration::from_secs(GRACE + 2), 130);
    assert_eq!(run.out("manifest.json")["status"], "interrupted");
}

/// The terminal closes.
#[test]
fn a_hangup_ends_the_engine_too() {
    let mut run = Run::until("probing", false, HANGING, GRACE);
    run.signal(Signal::SIGHUP);
    run.ends(SOON + Duration::from_secs(GRACE), 129);
    assert_eq!(run.out("manifest.json")["status"], "interrupted");
}

/// `tests/data/attacks`, defect 10: a process, one in the background, and one in its own session.
#[test]
fn a_hangup_ends_all_that_a_service_started() {
    let folder = temp();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/attacks/hangup.rhai");
    let mut child = Command::new("env")
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_profiler")])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .args(["run", script, "--allow", "process"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The supervisor, the shell, and three `sleep` processes.
    eventually("all run", || below(child.id()).len() == 5);
    let pids = below(child.id());
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGHUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(129));
    eventually("all ended", || pids.iter().all(|&pid| !lives(pid)));
}

#[test]
fn under_nohup_a_closed_terminal_ends_nothing() {
    let folder = temp();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Ends when something writes to the pipe.
    let script = format!(
        "process::start(#{{ command: [\"cat\", \"{}\"] }}).wait()",
        pipe.display()
    );
    std::fs::write(folder.path().join("s.rhai"), script).unwrap();
    let mut child = Command::new("nohup")
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .arg(env!("CARGO_BIN_EXE_profiler"))
        .args(["run", "s.rhai", "--out", "out", "--allow", "process"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_text(&folder.path().join("out/journal.jsonl"), "\"starting\"", 1);
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGHUP).unwrap();
    std::fs::write(pipe, "").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn control_c_before_a_container_is_there() {
    if needs_docker() {
        let mut run = Run::until("starting", true, STARTING, GRACE);
        run.signal(Signal::SIGINT);
        run.ends(SOON + Duration::from_secs(GRACE), 130);
    }
}

#[test]
fn control_c_while_an_engine_is_probed() {
    for docker in runtimes() {
        let mut run = Run::until("probing", docker, HANGING, GRACE);
        run.signal(Signal::SIGINT);
        run.ends(SOON + Duration::from_secs(GRACE), 130);
        assert_eq!(run.out("result.json")["fault"]["kind"], "interrupted");
    }
}

#[test]
fn an_engine_that_does_not_end_is_killed_after_its_grace() {
    for docker in runtimes() {
        // Longer than a script takes to notice the signal, so that waiting for the script must not cut the grace short.
        let mut run = Run::until("probing", docker, STUBBORN, GRACE + 2);
        run.signal(Signal::SIGTERM);
        run.ends(SOON + Duration::from_secs(GRACE + 2), 143);
        assert_eq!(run.out("manifest.json")["status"], "interrupted");
    }
}

#[test]
fn a_second_control_c_kills_at_once() {
    for docker in runtimes() {
        let mut run = Run::until("probing", docker, STUBBORN, 60);
        run.signal(Signal::SIGINT);
        // The first Ctrl-C is being handled, and this engine does not stop.
        std::thread::sleep(Duration::from_millis(300));
        assert!(
            run.child.try_wait().unwrap().is_none(),
            "the engine was not that stubborn"
        );
        run.signal(Signal::SIGINT);
        run.ends(SOON, 130);
    }
}

#[test]
fn an_interrupted_run_prints_what_it_knows_and_blames_no_line_of_the_script() {
    let script = r#"
        let map = boundary(#{ input: [1, 100] }, #{});
        map.record(#{ input: 10 }, "ok");
        sleep(1000);
    "#;
    let [out, err] = ended_by(Signal::SIGINT, 130, script, "\"point\"");
    assert!(
        out.starts_with("undecided: input=10 fits") && out.contains(", stopped by Ctrl-C"),
        "{out}"
    );
    assert!(
        err.contains("error: stopped by Ctrl-C") && !err.contains("-->"),
        "{err}"
    );
    let [out, _] = ended_by(Signal::SIGTERM, 143, script, "\"point\"");
    assert!(out.contains(", stopped by SIGTERM") && !out.contains("Ctrl-C"), "{out}");
    let [_, err] = ended_by(Signal::SIGINT, 130, "print(1); sleep(1000);", "\"print\"");
    assert!(
        err.contains("stopped by Ctrl-C before anything was measured\nresume with: profiler run s.rhai --resume out"),
        "{err}"
    );
}

/// The output of a script that a signal ended once `until` was in its journal.
fn ended_by(signal: Signal, status: i32, script: &str, until: &str) -> [String; 2] {
    let folder = temp();
    std::fs::write(folder.path().join("s.rhai"), script).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_profiler"))
        .current_dir(folder.path())
        .args(["run", "s.rhai", "--out", "out"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_text(&folder.path().join("out/journal.jsonl"), until, 1);
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(status));
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
}
