//! One search over engines of several hosts: by a real sshd, one of them cut off, and on a real Slurm.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::slurm::Slurm;
use crate::support::ssh::Hosts;
use crate::support::{Outcome, Profiler, needs_slurm, needs_ssh};

/// A search of simulated engines.
fn search(scale: &str) -> Profiler {
    Profiler::new()
        .args([
            "run",
            "adaptive",
            "--json",
            "--out",
            "out",
            "--set",
            "engine=sim",
            "--set",
        ])
        .arg(format!("sim.time_scale={scale}"))
}

fn by_ssh(search: Profiler, hosts: &Hosts) -> Profiler {
    search
        .args(["--set", "cluster=ssh", "--set"])
        .arg(format!("cluster_options={}", hosts.options("")))
        .args(["--allow", "command=ssh"])
}

fn journal(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("out/journal.jsonl")).unwrap_or_default();
    // The last line may be half written.
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The points that fit at the edge, and what is said of the limit.
fn found(document: &Value) -> Value {
    let result = &document["result"];
    let limit = |key: &str| &result["answer"]["inequality"][key];
    json!([
        document["simulated"],
        result["frontier"],
        [limit("fits"), limit("fails"), limit("reported")],
        result["search"]["verified"]["ends"],
    ])
}

/// Each point that was probed with its verdict.
fn verdicts(folder: &Path) -> Vec<(String, String)> {
    let events = journal(folder).into_iter().filter(|event| event["event"] == "point");
    let mut all: Vec<_> = events
        .map(|event| (event["point"].to_string(), event["verdict"].to_string()))
        .collect();
    all.sort();
    all.dedup();
    all
}

fn here() -> Outcome {
    search("0.02").run().success()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(180);
    while !is() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn engines_on_two_hosts_find_what_one_here_does() {
    if !needs_ssh() {
        return;
    }
    let hosts = Hosts::start(2);
    let both = by_ssh(search("0.02"), &hosts).run().success();
    let here = here();
    assert_eq!(found(&both.json()), found(&here.json()));
    assert_eq!(verdicts(both.folder()), verdicts(here.folder()));
    let events = journal(both.folder());
    let mut started: Vec<_> = events
        .iter()
        .filter_map(|event| event["info"]["host"].as_str())
        .collect();
    started.sort_unstable();
    assert_eq!(started, ["h1: slot 1", "h2: slot 1"]);
    for engine in [1, 2] {
        let answered = |event: &&Value| event["event"] == "done" && event["engine"] == engine;
        assert!(
            events.iter().any(|event| answered(&event)),
            "engine {engine} answered nothing"
        );
    }
    for host in [1, 2] {
        until("nothing is left running", || hosts.running(host).is_empty());
    }
    // What was answered is not asked again, though no host is there any more but for one.
    let done = fs::read_to_string(both.folder().join("out/journal.jsonl")).unwrap();
    let manifest = fs::read_to_string(both.folder().join("out/manifest.json")).unwrap();
    let kept: String = done
        .lines()
        .filter(|line| !line.contains(r#""event":"end""#))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(both.folder().join("out/journal.jsonl"), kept).unwrap();
    fs::write(
        both.folder().join("out/manifest.json"),
        manifest.replace("\"done\"", "\"running\""),
    )
    .unwrap();
    hosts.cut(2);
    let resumed =
        Profiler::new()
            .current_dir(both.folder())
            .args(["run", "--resume", "out", "--json", "--allow", "command=ssh"]);
    assert_eq!(found(&resumed.run().success().json()), found(&here.json()));
    let probes = |events: &[Value]| {
        events
            .iter()
            .filter(|event| event["event"] == "done" && event["kind"] == "probe")
            .count()
    };
    assert_eq!(probes(&journal(both.folder())), probes(&events));
}

#[test]
fn a_search_goes_on_without_a_host_that_is_cut_off_and_ends_when_none_is_left() {
    if !needs_ssh() {
        return;
    }
    let hosts = Hosts::start(2);
    let (child, folder) = by_ssh(search("0.1"), &hosts).spawn();
    let mut last = None;
    // The longest probe: seconds.
    until("an engine has begun with the last corner", || {
        let events = journal(folder.path());
        last = events
            .into_iter()
            .find(|event| event["phase"] == "probing" && event["detail"] == "input=5632 output=2688");
        last.is_some()
    });
    let host = usize::try_from(last.unwrap()["engine"].as_u64().unwrap()).unwrap();
    hosts.cut(host);
    let ended = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{errors}");
    assert!(errors.contains(&format!("`h{host}: slot 1` is left out: ")), "{errors}");
    let here = here();
    assert_eq!(
        found(&serde_json::from_slice(&ended.stdout).unwrap()),
        found(&here.json())
    );
    assert_eq!(verdicts(folder.path()), verdicts(here.folder()));
    let events = journal(folder.path());
    let lost = events
        .iter()
        .filter(|event| event["answer"]["cause"] == "host_lost" && event["kind"] == "probe");
    assert_eq!(
        lost.map(|event| event["answer"]["moves"].clone()).collect::<Vec<_>>(),
        ["none"]
    );
    for host in [1, 2] {
        until("nothing is left running", || hosts.running(host).is_empty());
    }
    hosts.cut(3 - host);
    let none = by_ssh(search("0.1"), &hosts).args(["--set", "search.parallel=2"]).run();
    let _ = none.code(3).stderr("no host answers");
}

#[test]
fn on_slurm_each_engine_of_a_search_has_its_node() {
    if !needs_slurm() {
        return;
    }
    let slurm = Slurm::start();
    let run = search("0.02")
        .env("SLURM_CONF", slurm.conf())
        .args(["--set", "cluster=slurm", "--set", "search.parallel=2"])
        .args(["--set", "cluster_options.args=[\"--cpus-per-task=4\"]"])
        .args(["--allow", "command=srun,command=scontrol"])
        .run()
        .success();
    let here = here();
    assert_eq!(found(&run.json()), found(&here.json()));
    assert_eq!(verdicts(run.folder()), verdicts(here.folder()));
    until("the queue is empty", || slurm.said("squeue", &["-h"]).is_empty());
}

#[test]
fn what_an_engine_elsewhere_is_not_asked_for_is_refused() {
    let file = "fn slots(options) { [#{ name: \"a\", host: \"a\", gpu: (), gpus: [] }] }\nfn connect(job, words) { [options()] + words }\nfn options() { \"PROGRAM\" }";
    let script = |program: &str, rest: &str| {
        let file = file.replace("PROGRAM", program);
        Profiler::new()
            .file("mine.rhai", file)
            .file("s.rhai", format!("import \"std/engines\" as engines;\nlet engine = engines::launch(\"sim\", #{{ cluster: \"./mine.rhai\", sim: #{{ time_scale: 0.02 }} }});\n{rest}"))
            .args(["run", "s.rhai", "--allow", "command=env,command=false"])
            .run()
    };
    let load = script("env", "engine.load(#{ requests: 4, input: 64, output: 16 })").code(2);
    let _ = load
        .stderr("the engine is on `a`, where only points are probed")
        .stderr("profiler fleet");
    let _ = script(
        "env",
        "`${engine.needs().devices.len()} ${engine.probe(#{ input: 64, output: 16 }).verdict}`",
    )
    .success()
    .stdout("1 ok");
    let gone = script("false", "engine.probe(#{ input: 64, output: 16 })").code(3);
    let _ = gone.stderr("no host is left to probe on; `a`: the connection ended");
    let _ = script("printenv", "1").code(3).stderr("--allow command=printenv");
}

/// A host may answer anything: what has no meaning is left out, and it is lost when it says no more.
#[test]
fn a_host_that_answers_nonsense_is_left_out() {
    let cluster = r#"
        fn slots(options) { [#{ name: "h1", host: "h1", gpu: (), gpus: [] }] }
        fn submit(jobs) { [] }
        fn status(jobs) { [] }
        fn cancel(job) {}
        fn logs(job) { [] }
        fn collect(job) {}
        fn connect(job, words) { ["cat", "said"] }
    "#;
    let said = r#"{"event":{"event":"engine","info":"x"}}
{"event":{"event":"done","kind":"file","args":null,"answer":1}}
"#;
    let script = r#"
        import "std/engines" as engines;
        let engine = engines::launch("sim", #{ cluster: "./cluster.rhai" });
        engine.probe(#{ input: 64, output: 16 })
    "#;
    let profiler = Profiler::new().file("cluster.rhai", cluster).file("said", said);
    let run = profiler
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--allow", "command=cat"])
        .run();
    run.code(3)
        .stderr("no host is left to probe on; `h1`: the connection ended");
}
