//! A user creates a script with `profiler new`, which works unchanged, and tests a strategy or an adapter with
//! `profiler test`.

use crate::support::Profiler;

/// A program with the file that `profiler new KIND mine` writes.
fn written(kind: &str) -> Profiler {
    let made = Profiler::new()
        .args(["new", kind, "mine"])
        .run()
        .success()
        .stdout("mine.rhai");
    let text = std::fs::read(made.folder().join("mine.rhai")).unwrap();
    Profiler::new().file("mine.rhai", text)
}

#[test]
fn a_new_strategy_is_sound_and_has_a_score() {
    let _ = written("strategy").args(["check", "mine.rhai"]).run().success();
    let scored = written("strategy").args(["test", "mine.rhai"]).run().success();
    let scored = scored
        .stdout("mine: 10 known limits, ")
        .stdout("0 points wrongly called safe");
    let _ = scored.stdout("mine.rhai sha256:");
    let planned = written("strategy").args(["run", "mine.rhai", "--set", "engine=sim", "--dry-run"]);
    let _ = planned.run().success().stdout("search range");
    let again = written("strategy").args(["new", "strategy", "mine"]).run();
    let _ = again.code(2).stderr("exists");
}

#[test]
fn a_new_adapter_is_sound_and_drives_simulated_servers() {
    let _ = written("adapter").args(["check", "mine.rhai"]).run().success();
    let scored = written("adapter")
        .args(["test", "mine.rhai", "--json"])
        .run()
        .success()
        .json();
    let rows = scored["rows"].as_array().unwrap();
    let vllm = rows.iter().find(|row| row["server"] == "OpenAI, as vLLM").unwrap();
    assert!(vllm["passed"] == true && rows.len() == 7, "{scored:#}");
}

#[test]
fn a_new_experiment_is_sound_and_measures() {
    let _ = written("experiment").args(["check", "mine.rhai"]).run().success();
    let planned = written("experiment").args(["run", "mine.rhai", "--set", "engine=sim", "--dry-run"]);
    let _ = planned.run().success().stdout("experiment: mine");
}

#[test]
fn a_new_cluster_is_sound_and_runs_a_fleet() {
    let _ = written("cluster").args(["check", "mine.rhai"]).run().success();
    let fleet = written("cluster").file(
        "jobs.yaml",
        "defaults: {script: engine_info, set: {engine: sim}}\njobs: [{}, {}]",
    );
    let fleet = fleet.args([
        "fleet",
        "jobs.yaml",
        "--cluster",
        "./mine.rhai",
        "--allow",
        "command=sh,process",
    ]);
    let _ = fleet.run().success().stdout("2 of 2 jobs were done");
}

#[test]
fn a_strategy_that_calls_safe_what_it_never_probed_fails() {
    let liar = "const OK = \"ok\";
fn liar(map, probe, options) { map.record(map.largest(), global::OK); #{ stopped: \"lied\" } }
throw \"the script itself is not run\";";
    let scored = Profiler::new()
        .file("liar.rhai", liar)
        .args(["test", "liar.rhai"])
        .run()
        .code(1);
    let _ = scored
        .stdout("points wrongly called safe")
        .nowhere(", 0 points wrongly")
        .nowhere("not run");
}

#[test]
fn one_of_several_strategies_is_named_and_must_prove_enough() {
    let two = "import \"std/search\" as search;
fn full(map, probe, options) { search::adaptive(map, probe, options) }
fn idle(map, probe, options) { #{ stopped: \"at once\" } }";
    let test = |name: &str| {
        let profiler = Profiler::new().file("s.rhai", two);
        profiler.args(["test", name, "--json"]).run()
    };
    assert_eq!(test("s.rhai::full").success().json()["passed"], true);
    assert_eq!(test("s.rhai::idle").code(1).json()["passed"], false);
    let _ = test("s.rhai").code(2).stderr("s.rhai::full");
    let _ = test("s.rhai::none").code(2);
}

#[test]
fn a_mistake_of_a_strategy_is_shown_with_its_line() {
    let strategy = "import \"std/search/steps\" as steps;
fn mine(map, probe, options) {
    let search = steps::begin(map, probe, options);
    MISTAKE
    steps::finish(search)
}";
    for (mistake, message, place, code) in [
        ("search.nothing_here;", "nothing_here", "mine.rhai:4:12", 1),
        // Found before it runs.
        ("map.turn_around(3);", "turn_around", "mine.rhai:4:9", 2),
        ("let none = (); none + 1;", "+", "mine.rhai:4:25", 1),
        ("map.bracket(#{}, \"output\", 1);", "bracket", "mine.rhai:4:9", 1),
    ] {
        let tested = Profiler::new()
            .file("mine.rhai", strategy.replace("MISTAKE", mistake))
            .args(["test", "mine.rhai"])
            .run()
            .code(code)
            .stderr(message);
        let _ = tested.stderr(place).nowhere("ErrorInFunctionCall");
    }
    // The same where a script catches an error of its own and throws it again.
    let _ = Profiler::new()
        .file("s.rhai", "try { let map = #{};\nmap.x.y } catch (e) { throw e; }")
        .args(["run", "s.rhai"])
        .run()
        .code(1)
        .stderr("s.rhai:2:");
}

#[test]
fn what_is_neither_a_strategy_nor_an_adapter_has_no_score() {
    let two = "fn a(map, probe, options) { 1 } fn b(map, probe, options) { 2 }";
    for (text, message) in [
        ("print(1)", "profiler new strategy"),
        ("print(1)", "`profiler fleet` a cluster"),
        (two, "has the strategies `a`, `b`"),
    ] {
        let _ = Profiler::new()
            .file("s.rhai", text)
            .args(["test", "s.rhai"])
            .run()
            .code(2)
            .stderr(message);
    }
    let _ = Profiler::new()
        .args(["new", "strategy", "my-search"])
        .run()
        .code(2)
        .stderr("my_search");
}

/// A copy of a file made by an older version; the shipped file has changed since.
fn older(text: &str) -> String {
    let hash = profiler::script::Source::new("", text).sha256;
    format!("//! origin: profiler 0.0.1 scripts/bisect.rhai sha256:{hash}\n{text}")
}

#[test]
fn a_fork_is_held_against_what_ships_and_only_an_unedited_one_is_replaced() {
    let forked = Profiler::new()
        .args(["fork", "bisect", "mine/b.rhai", "--strategy"])
        .run()
        .success();
    let at = |name: &str| std::fs::read_to_string(forked.folder().join("mine").join(name)).unwrap();
    let fork = |text: &str, flag: &str| {
        let program = Profiler::new()
            .file("mine/b.rhai", text)
            .file("mine/search.rhai", at("search.rhai"));
        let mut program = program;
        for entry in std::fs::read_dir(forked.folder().join("mine/search")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            program = program.file(&format!("mine/search/{name}"), at(&format!("search/{name}")));
        }
        program
            .args(["fork", "bisect", "mine/b.rhai", "--strategy", flag])
            .run()
    };
    // The copy says where it comes from.
    let own = Profiler::new()
        .current_dir(forked.folder())
        .args(["fork", "mine/b.rhai", "--diff"]);
    let _ = own.run().success().stdout("mine/search/choose.rhai is what ships");
    let same = fork(&at("b.rhai"), "--diff").success();
    let _ = same
        .stdout("mine/b.rhai is what ships")
        .stdout("mine/search/steps.rhai is what ships");
    let edited = format!("{}// mine\n", at("b.rhai"));
    let _ = fork(&edited, "--diff")
        .success()
        .stdout("+// mine")
        .stdout("--- what ships");
    let left = fork(&edited, "--update").code(1).stderr("was edited and is left");
    assert_eq!(
        std::fs::read_to_string(left.folder().join("mine/b.rhai")).unwrap(),
        edited
    );
    let updated = fork(&older("import \"std/search\" as search;\n"), "--update").success();
    let updated = updated.stdout("mine/b.rhai was updated");
    assert_eq!(
        std::fs::read_to_string(updated.folder().join("mine/b.rhai")).unwrap(),
        at("b.rhai")
    );
    let rewritten = older("import \"std/search\" as search;\n").replace("std/search", "./search");
    let _ = fork(&rewritten, "--update").success().stdout("mine/b.rhai was updated");
}

#[test]
fn the_rule_of_a_fork_chooses_every_point_but_the_places_of_the_certificate() {
    let forked = Profiler::new()
        .args(["fork", "adaptive", "mine.rhai", "--strategy"])
        .run()
        .success();
    let folder = forked.folder();
    let test = || {
        let outcome = Profiler::new()
            .current_dir(folder)
            .args(["test", "mine.rhai", "--json"])
            .run();
        let score: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        let rows = score["rows"].as_array().unwrap().clone();
        let sum = |key: &str| rows.iter().filter_map(|row| row[key].as_u64()).sum::<u64>();
        (sum("probes"), sum("by_rule"))
    };
    let (probes, by_rule) = test();
    assert!(2 * by_rule > probes, "{by_rule} of {probes}");
    let rule = folder.join("search/choose.rhai");
    let text = std::fs::read_to_string(&rule).unwrap();
    let head = "fn next_points(map, options, telling, count) {\n";
    let (before, after) = text.split_once(head).unwrap();
    std::fs::write(&rule, format!("{before}{head}    return [];\n{after}")).unwrap();
    let (without, none) = test();
    assert_eq!(none, 0);
    assert!(
        without <= probes - by_rule,
        "{without} probes without a rule, {by_rule} of {probes} with it"
    );
}
