//! A user has each point probed on a fresh engine: simulated, as a process, in a container, several at once, resumed.

use serde_json::Value;

use crate::support::attached::table;
use crate::support::scripted::{Scripted, healthy};
use crate::support::{Outcome, Profiler, image, killed_and_resumed_at, needs_docker};

/// The finished probes and loads in a journal.
fn answers(journal: &str) -> Vec<Value> {
    let events = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let done =
        events.filter(|event| event["event"] == "done" && matches!(event["kind"].as_str(), Some("probe" | "load")));
    done.map(|event| event["answer"].clone()).collect()
}

/// Fails unless each answer that an engine gave came from an engine of its own. Returns the number of engines.
#[track_caller]
fn each_alone(journal: &str) -> usize {
    let answers = answers(journal);
    let sent = answers
        .iter()
        .filter(|answer| answer["evidence"]["issued"].as_u64() != Some(0));
    let sent: Vec<&Value> = sent.collect();
    assert!(sent.len() > 1, "{answers:?}");
    for answer in &sent {
        assert_eq!(answer["isolated"]["back"], true, "{answer}");
        assert!(answer["starts"].as_u64().is_none_or(|starts| starts >= 1), "{answer}");
    }
    let served = journal.matches("\"event\":\"engine\"").count();
    assert_eq!(
        served,
        sent.len(),
        "no engine serves two points, and none starts for nothing"
    );
    served
}

/// Runs a script on simulated engines.
fn run(command: &str) -> (Outcome, String) {
    let words = command.split_whitespace().map(str::to_owned);
    let program = Profiler::new()
        .arg("run")
        .args(words)
        .args(["--out", "out", "--json", "--engine", "sim"]);
    let outcome = program.run().success();
    let journal = std::fs::read_to_string(outcome.folder().join("out/journal.jsonl")).unwrap();
    (outcome, journal)
}

const SEARCH: &str =
    "--search.isolate true --input 128..12000 --output 64..512 --sim.time-scale 0 --search.max-probes 8";

/// Each strategy says so in its result, and counts a start for each point.
fn strategy(script: &str) {
    let (outcome, journal) = run(&format!("{script} {SEARCH}"));
    let served = each_alone(&journal);
    let found = &outcome.json()["result"]["search"];
    assert_eq!(found["isolated"], true, "{found}");
    assert!(found["starts"].as_u64().unwrap() >= served as u64 - 1, "{found}");
}

table! { strategy:
    adaptive: "adaptive";
    grid: "grid --search.grid-size 3";
    bisect: "bisect";
    neighbours: "neighbours --search.grid-size 3";
    model_guided: "model_guided";
}

#[test]
fn each_level_of_a_load_gets_a_fresh_engine() {
    let (_, journal) = run("throughput --isolate true --concurrency 1,2,4 --min-requests 6 --output 8");
    assert_eq!(each_alone(&journal), 3);
}

/// An engine keeps the memory that it once took, so only a fresh one shows what the small point needs.
#[test]
fn a_point_is_not_measured_on_what_another_left() {
    let peaks = |isolate: bool| {
        let script = format!(
            r#"import "std/engines" as engines;
            let engine = engines::describe("sim", #{{ profile: "llama-1b-12gib-transformers", isolate: {isolate}, sim: #{{ time_scale: 0.0 }} }});
            [8000, 1000].map(|input| engine.probe(#{{ input: input, output: 16 }}).peak)"#
        );
        let outcome = Profiler::new()
            .file("s.rhai", script)
            .args(["run", "s.rhai", "--json"])
            .run()
            .success();
        let peaks = outcome.json()["result"].clone();
        (peaks[0].as_u64().unwrap(), peaks[1].as_u64().unwrap())
    };
    let (large, after) = peaks(false);
    assert_eq!(large, after);
    let (large, alone) = peaks(true);
    assert!(alone < large, "{alone} of {large}");
}

#[test]
fn several_engines_start_for_their_own_points() {
    let (_, journal) = run(&format!("adaptive {SEARCH} --search.parallel 2"));
    each_alone(&journal);
    assert!(journal.contains("\"engine\":2"), "the second engine answers too");
}

#[test]
fn a_killed_run_goes_on_with_fresh_engines() {
    let program = Profiler::new().args(["run", "adaptive", "--engine", "sim", "--json", "--out", "killed"]);
    let (result, journal) = killed_and_resumed_at(program.args(SEARCH.split(' ')), "\"event\":\"point\"", 3);
    let answers = answers(&journal);
    let sent = answers.iter().filter(|answer| answer["evidence"]["issued"] != 0);
    assert!(
        sent.clone().all(|answer| answer["isolated"]["back"] == true),
        "{answers:?}"
    );
    assert_eq!(result["search"]["isolated"], true);
    assert_eq!(
        result["search"]["probes"].as_u64().unwrap() as usize,
        answers.len(),
        "no probe is repeated"
    );
}

/// A budget of starts is one of points.
#[test]
fn no_point_is_started_beyond_the_budget() {
    let (outcome, journal) = run(&format!("adaptive {SEARCH} --search.max-starts 3"));
    let found = &outcome.json()["result"]["search"];
    assert_eq!(
        (&found["stopped"], &found["starts"]),
        (&"max_starts".into(), &3.into()),
        "{journal}"
    );
}

#[test]
fn nothing_is_sent_to_a_server_that_cannot_be_restarted() {
    for engine in ["auto", "openai"] {
        let server = Scripted::start(healthy);
        let program = Profiler::new().args(["run", "adaptive", "--url", &server.url, "--engine", engine]);
        let outcome = program.args(["--search.isolate", "true"]).run().sees(2, &["isolate"]);
        assert_eq!(server.asked(|_| true).len(), 0);
        assert!(!outcome.folder().join("runs").exists());
    }
}

#[test]
fn a_dry_run_counts_the_starts() {
    let program = Profiler::new().args(["run", "adaptive", "--engine", "sim", "--dry-run", "--json"]);
    let document = program.args(SEARCH.split(' ')).run().success().json();
    let search = &document["boundaries"][0];
    assert!(search["expected_starts"].as_u64().unwrap() > 1, "{search}");
    assert_eq!(search["expected_starts"], search["expected_probes"]);
}

/// A strategy of one's own whose engine is not described with the option is told so: it is never ignored.
#[test]
fn an_engine_that_is_not_isolated_is_refused() {
    let script = r#"import "std/engines" as engines;
        import "std/search" as search;
        let engine = engines::describe("sim", #{ sim: #{ time_scale: 0.0 } });
        let map = boundary(#{ input: [128, 2000], output: [64, 64] }, #{});
        search::grid(map, |point| engine.probe(point), #{ isolate: true })"#;
    let program = Profiler::new().file("s.rhai", script).args(["run", "s.rhai"]);
    let _ = program.run().sees(2, &["engines::describe"]);
}

/// The containers of the run come and go, one at a time.
#[test]
fn each_point_gets_a_container_of_its_own() {
    if !needs_docker() {
        return;
    }
    let adapter = r#"import "std/engines/vllm" as vllm;
        fn launch(options) { #{ image: "profiler-test/sim", args: ["--time-scale", "0", "--max-model-len", "4096"], port: 8000 } }
        fn ready(engine) { vllm::ready(engine) }
        fn request(point) { vllm::request(point) }
        fn facts() { vllm::facts() }
        fn failures() { vllm::failures() }
        fn flags(limits) { vllm::flags(limits) }"#;
    image::sim();
    let program = Profiler::new()
        .file("mine.rhai", adapter)
        .args(["run", "grid", "--out", "out", "--json", "--set", "model="]);
    let words = "--engine ./mine.rhai --runtime docker --gpus [] --allow image=profiler-test --input 64..6000 --output 8 --search.grid-size 2 --search.max-probes 3 --search.isolate true";
    let outcome = program.args(words.split(' ')).run().success();
    let journal = std::fs::read_to_string(outcome.folder().join("out/journal.jsonl")).unwrap();
    each_alone(&journal);
    let ids: std::collections::BTreeSet<&str> = journal
        .lines()
        .filter(|line| line.contains("\"event\":\"engine\""))
        .filter_map(|line| Some(&line.split("\"id\":\"").nth(1)?[..12]))
        .collect();
    assert!(ids.len() > 1, "{journal}");
    let left = std::process::Command::new("docker")
        .args(["ps", "--all", "--quiet", "--no-trunc"])
        .output()
        .unwrap();
    let left = String::from_utf8_lossy(&left.stdout).into_owned();
    assert!(ids.iter().all(|id| !left.contains(id)), "{left}");
}
