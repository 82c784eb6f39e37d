//! A user looks for the launch settings that serve a workload best.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::{Outcome, Profiler, killed_and_resumed_at, killed_and_resumed_with};

/// An engine that by default serves four requests at a time, and could serve many more.
pub const NARROW: [&str; 10] = [
    "engine=sim",
    "profile=slow.toml",
    r#"space={"max_num_seqs":[64]}"#,
    "most=16",
    "input=64",
    "output=8",
    "attainment=0.5",
    "min_requests=8",
    "requests_per_slot=2",
    "hold=1",
];

/// A script on that engine, by the clock of this machine.
pub fn on_slow_engine(script: &str, max_num_seqs: u64) -> Profiler {
    Profiler::new()
        .file("slow.toml", slow(max_num_seqs))
        .args(["run", script, "--engine", "sim", "--profile", "slow.toml"])
        .args(["--sim.time-scale", "1"])
}

/// The profile of that engine. It starts at once, and its steps take 20 ms, to which a busy machine adds little.
fn slow(max_num_seqs: u64) -> String {
    let shipped = include_str!("../../src/sim/profiles/llama-8b-24gb-vllm.toml");
    let lines = shipped.lines().map(|line| match line.split(" = ").next().unwrap() {
        "step_seconds" => "step_seconds = 0.02".to_owned(),
        "step_eager_seconds" => "step_eager_seconds = 0.03".to_owned(),
        "max_num_seqs" => format!("max_num_seqs = {max_num_seqs}"),
        "time_scale" => "time_scale = 1.0".to_owned(),
        name if name.ends_with("_seconds") && name != "sequence_seconds" => format!("{name} = 0.01"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A copy of the script, beside the profile of its engine.
pub fn tune(sets: &[&str], max_num_seqs: u64) -> Profiler {
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    Profiler::new()
        .file("slow.toml", slow(max_num_seqs))
        .file("mine.rhai", include_str!("../../scripts/tune.rhai"))
        .args(["run", "mine.rhai", "--json", "--out", "killed"])
        .args(["--set", "sim.time_scale=1"])
        .args(sets)
}

#[test]
fn a_killed_run_finds_the_better_setting_and_confirms_it() {
    let (found, journal) = killed_and_resumed_at(tune(&NARROW, 4), "\"kind\":\"experiment\"", 2);
    assert_eq!(found["answer"], "winner", "{found}");
    assert_eq!(found["winner"]["max_num_seqs"], 64, "{found}");
    assert!(found["low"].as_f64().unwrap() > 0.2, "{found}");
    assert_eq!(found["starts"], 2, "{found}");
    assert_eq!(found["confirmed"]["starts"], 4, "{found}");
    assert_eq!(found["confirmed"]["held"]["held"], true, "{found}");
    // The defaults do not scale as the simulation says: nobody told it of the limit of four.
    assert_eq!(found["surrogate"], true, "{found}");
    // The defaults were not measured again, although the run was killed after them.
    let defaults = journal
        .lines()
        .filter(|line| line.contains("\"event\":\"began\"") && line.contains("\"tune\":\"defaults\""));
    assert_eq!(defaults.count(), 1, "{journal}");
}

/// The start and the seed of each load that was measured. Each level of a start has its own seed.
fn measured(journal: &str) -> Vec<(String, u64)> {
    let mut start = String::new();
    let mut loads = Vec::new();
    for line in journal.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match (event["event"].as_str(), event["kind"].as_str()) {
            (Some("began"), Some("experiment")) => start = event["args"]["trial"]["tune"].to_string(),
            (Some("done"), Some("load")) => {
                loads.push((start.clone(), event["args"]["load"]["seed"].as_u64().unwrap()))
            }
            _ => {}
        }
    }
    loads
}

#[test]
fn a_level_is_not_measured_again_when_its_start_was_cut_short() {
    let done = "\"event\":\"done\",\"kind\":\"load\"";
    // Less time would mean fewer levels.
    let shorter = ["--set", "minutes=20"];
    let (_, journal) = killed_and_resumed_with(tune(&NARROW, 4), done, 2, &shorter);
    let mut loads = measured(&journal);
    let all = loads.len();
    loads.sort();
    loads.dedup();
    assert_eq!(loads.len(), all, "{loads:?}");
}

#[test]
fn a_finished_run_goes_on_with_more_starts() {
    let sets: Vec<&str> = NARROW
        .iter()
        .map(|set| match set.starts_with("space=") {
            true => r#"space={"max_num_seqs":[2,64]}"#,
            false => *set,
        })
        .chain(["starts=2"])
        .collect();
    let first = tune(&sets, 4).run().success();
    let more = Profiler::new()
        .current_dir(first.folder())
        .args(["run", "mine.rhai", "--resume", "killed", "--set", "starts=3", "--json"])
        .run()
        .success();
    // The search ends for another reason than the budget.
    let why = |outcome: &Outcome| outcome.json()["result"]["why"].clone();
    assert!(why(&more).is_string(), "{}", more.stdout);
    assert_ne!(why(&first), why(&more), "{}", more.stdout);
    let journal = fs::read_to_string(first.folder().join("killed/journal.jsonl")).unwrap();
    let defaults = journal
        .lines()
        .filter(|line| line.contains("\"event\":\"began\"") && line.contains("\"tune\":\"defaults\""));
    assert_eq!(defaults.count(), 1, "{journal}");

    // The starts that confirm are rows too, as is the hold; their worth is that of the gain.
    let table = fs::read_to_string(first.folder().join("killed/tables/starts.json")).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&table).unwrap();
    let found = &more.json()["result"];
    let of = |part: &str| rows.iter().filter(|row| row["part"] == part).collect::<Vec<_>>();
    assert_eq!(
        (of("search").len() as u64, of("confirmation").len()),
        (found["starts"].as_u64().unwrap(), 4),
        "{table}"
    );
    assert_eq!(of("hold").len(), 1, "{table}");
    let worth = |number: usize| of("confirmation")[number]["worth"].as_f64().unwrap();
    let mean = (worth(1) * worth(3)).sqrt() * found["confirmed"]["share"].as_f64().unwrap();
    assert!(
        (found["confirmed"]["worth"].as_f64().unwrap() - mean).abs() < 1e-6 * mean,
        "{table}"
    );
}

#[test]
fn a_smaller_budget_than_what_was_spent_starts_nothing_more() {
    let first = Profiler::new()
        .file("race.rhai", SIDE_BY_SIDE)
        .file("slow.toml", slow(64));
    let args = [
        "run",
        "race.rhai",
        "--json",
        "--out",
        "r",
        "--profile",
        "slow.toml",
        "--starts",
        "3",
    ];
    let first = first.args(args).run().success();
    let fewer = Profiler::new().current_dir(first.folder());
    let fewer = fewer
        .args(["run", "race.rhai", "--json", "--resume", "r", "--starts", "2"])
        .run()
        .success();
    let (before, now) = (&first.json()["result"], &fewer.json()["result"]);
    assert_eq!(now["tried"], before["tried"], "{now}");
    assert_eq!(now["tried"].as_array().unwrap().len(), 3, "{now}");
    // It says what was spent.
    assert!(now["why"].as_str().unwrap().contains('3'), "{now}");
    let journal = fs::read_to_string(first.folder().join("r/journal.jsonl")).unwrap();
    assert_eq!(starts_and_loads(&journal).0.len(), 3, "{journal}");
}

/// A real run, which ended in the hold of its winner.
#[test]
fn the_starts_that_confirm_are_shown_of_a_run_that_was_cut_off() {
    let run = format!("{}/tests/data/runs/vllm-tune-64-cut", env!("CARGO_MANIFEST_DIR"));
    let show = |form: &[&str]| Profiler::new().args(["show", &run]).args(form).run().success().stdout;
    let rows: Vec<Vec<String>> = show(&[])
        .lines()
        .filter(|line| line.contains(" confirmation ") && !line.contains("missing"))
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    let csv = show(&["--csv=loads"]);
    let mut loads = csv::Reader::from_reader(csv.as_bytes());
    let loads: Vec<BTreeMap<String, String>> = loads.deserialize().map(|row| row.unwrap()).collect();
    let named = loads.iter().filter(|load| load["setting"] == "the defaults");
    assert_eq!((loads.len(), named.count()), (11, 7), "{csv}");
    assert!(loads[10]["steady_output_throughput"].starts_with("7060"), "{csv}");
}

/// Each load of a start goes on in the file where the one before ended, and each start begins at its first prompt. So the
/// prefix cache has only what the prompts share.
#[test]
fn a_prefix_cache_is_judged_by_prompts_of_a_file() {
    let start = "a long beginning that all of these prompts have in common ".repeat(6);
    let texts = (0..400).map(|number| format!("{start} {number} {}\n", "and an end of its own ".repeat(4)));
    let mut sets = NARROW.to_vec();
    sets[2] = r#"space={"prefix_cache":[false]}"#;
    sets[4] = "input=128";
    sets.extend(["prompts=own.txt", "starts=2"]);
    let run = tune(&sets, 4)
        .file("own.txt", texts.collect::<String>())
        .run()
        .success();
    let found = run.json()["result"].clone();
    assert_eq!(found["answer"], "defaults", "{found}");
    let journal = fs::read_to_string(run.folder().join("killed/journal.jsonl")).unwrap();
    let (mut sent, mut hits) = (0, Vec::new());
    for line in journal.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match (event["event"].as_str(), event["kind"].as_str()) {
            (Some("began"), Some("experiment")) => {
                sent = 0;
                hits.push(Vec::new());
            }
            (Some("done"), Some("load")) => {
                let (load, answer) = (&event["args"]["load"], &event["answer"]);
                assert_eq!(load["prompts_from"].as_u64().unwrap_or(0), sent, "{line}");
                sent += answer["issued"].as_u64().unwrap() + answer["warmup"]["issued"].as_u64().unwrap();
                hits.last_mut().unwrap().push(answer["prefix_hits"].as_f64());
            }
            _ => {}
        }
    }
    // The beginning is 66 of 91 tokens, in whole blocks of 16.
    let shared = |hits: &Option<f64>| hits.is_some_and(|share| (0.65..0.75).contains(&share));
    assert!(hits[0].len() > 3 && hits[0].iter().all(shared), "{hits:?}");
    assert!(hits[1].iter().all(Option::is_none), "{hits:?}");
}

#[test]
fn the_defaults_win_where_nothing_is_better() {
    let mut sets = NARROW;
    sets[2] = r#"space={"cuda_graphs":[false]}"#;
    let found = tune(&sets, 64).run().success().json()["result"].clone();
    assert_eq!(found["answer"], "defaults", "{found}");
    assert!(found["confirmed"].is_null(), "{found}");
}

#[test]
fn what_no_setting_meets_is_said_within_three_starts() {
    let mut sets = NARROW.to_vec();
    sets[2] = r#"space={"max_num_seqs":[16,64],"cuda_graphs":[false]}"#;
    sets.push(r#"slo={"tpot_ms":5}"#);
    let found = tune(&sets, 64).run().success().json()["result"].clone();
    assert_eq!(found["answer"], "none", "{found}");
    assert!(found["starts"].as_u64().unwrap() <= 3, "{found}");
    assert!(found["finding"].as_str().unwrap().contains("nearest"), "{found}");
}

/// A run with one parameter more ends with status 2 and starts nothing.
#[track_caller]
fn refused(set: &str, says: &str) {
    refused_with(&[set], says);
}

#[track_caller]
fn refused_with(sets: &[&str], says: &str) {
    let set = sets.join(" ");
    let program = Profiler::new()
        .file(
            "other.json",
            r#"{"command": "vllm serve some/other --max-num-seqs 64"}"#,
        )
        .file("empty.json", r#"{"hardware": "h100"}"#)
        .args(["run", "tune", "--engine", "vllm", "--runtime", "docker", "--out", "run"])
        .args(sets.iter().flat_map(|set| ["--set", *set]));
    let outcome = program.run();
    assert_eq!(outcome.code, Some(2), "{set}: {}", outcome.stderr);
    assert!(outcome.stderr.contains(says), "{set}: {}", outcome.stderr);
    assert!(!outcome.folder().join("run").exists(), "{set}: {}", outcome.stderr);
}

#[test]
fn what_cannot_be_is_refused_before_the_first_start() {
    refused("attainment=0.99", "299");
    refused("attainment=0.97", "attainment");
    refused("min_requests=20", "59");
    refused(r#"space={"max_num_sequences":[1]}"#, "max_num_seqs");
    refused(r#"space={"max_num_seqs":["many"]}"#, "max_num_seqs");
    refused(r#"space={"kv_cache_dtype":["fp9"]}"#, "fp8");
    refused(r#"space={"speculation":["ngram"]}"#, "\"method\"");
    refused(r#"space={"speculation":[{"method":"eagle","draft":3}]}"#, "`model`");
    refused(
        r#"space={"speculation":[{"draft":3,"max_concurrency":8}]}"#,
        "max_concurrency",
    );
    refused(r#"space={"tensor_parallel":[2]}"#, "gpus");
    refused("parallel=2", "cannot share 1 GPUs evenly");
    let both = ["gpus=[0,1]", "parallel=2", r#"engine_args=["-tp","2"]"#];
    refused_with(&both, "with 2 for each");
    refused("recipe=other.json", "some/other");
    refused("recipe=empty.json", "recipe");
    refused(r#"slo={"itl_ms":5}"#, "itl_ms");
    let help = Profiler::new().args(["run", "tune", "--help"]).run().success();
    assert!(!help.stdout.contains("itl_ms"), "{}", help.stdout);
    refused("prompts=own.txt", "--input");
    refused("minutes=0.5", "minutes");
    refused("starts=1", "starts");
}

/// As in a run that goes on with more starts, and then has a winner of another number format.
#[test]
fn a_start_without_answers_does_not_stand_in_for_one_with_them() {
    let script = r#"
        //! budgets: more
        import "std/tune/goal" as goal;
        import "std/tune/start" as start;
        import "std/tune/steps" as steps;
        let p = params(#{ more: param(0, "asks for answers", #{ takes: "int" }) });
        let load = #{ input: 64, output: 8, requests_per_slot: 1, min_requests: 8 };
        let plan = #{ engine: "sim", options: #{}, axes: [], limits: #{ input: 512, output: 65, concurrency: 4 }, percentile: 95, load: load };
        let ask = steps::confirmation(goal::goodput(#{}), 4, 4, 0.0);
        if p.more == 1 { ask.answers = #{}; }
        assert((start::run(plan, "confirmation 1", #{}, ask).answers == ()) == (p.more == 0));
    "#;
    let script = script.trim_start();
    let first = Profiler::new().file("s.rhai", script);
    let first = first.args(["run", "s.rhai", "--out", "run"]).run().success();
    let more = Profiler::new().current_dir(first.folder());
    more.args(["run", "s.rhai", "--resume", "run", "--more", "1"])
        .run()
        .success();
}

/// A program that prints some of its flags only with `--help=all`, as vLLM does, and serves nothing.
const HELPFUL: &str = "#!/bin/sh
for word; do
    case $word in
        --help) echo '  --max-num-seqs N'; exit ;;
        --help=all) printf '  --max-num-seqs N\\n  --kv-cache-dtype, --kv_dtype D\\n'; exit ;;
    esac
done
exit 3
";

#[test]
fn a_flag_that_the_installed_engine_lacks_is_refused_before_the_first_start() {
    let run = |space: &str, recipe: &[&str]| {
        let program = Profiler::new()
            .file("vllm", HELPFUL)
            .file("recipe.json", r#"{"command": "vllm serve m --max-num-sequences 64"}"#);
        let path = program.folder().join("vllm");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let args = [
            "run",
            "tune",
            "--engine",
            "vllm",
            "--runtime",
            "process",
            "--allow",
            "process",
        ];
        let program = program.args(args).args(["--program", "./vllm", "--out", "run"]);
        program
            .args(["--model", "m", "--set", &format!("space={space}")])
            .args(recipe)
            .run()
    };
    let recipe = ["--recipe", "recipe.json"];
    for refused in [
        run(r#"{"--max-num-sequences":[1]}"#, &[]),
        run(r#"{"max_num_seqs":[1]}"#, &recipe),
    ] {
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("`--max-num-seqs`"), "{}", refused.stderr);
        assert!(!refused.folder().join("run").exists(), "{}", refused.stderr);
    }
    // With flags that it has it is started, and fails by itself.
    let started = run(r#"{"max_num_seqs":[1],"kv_cache_dtype":["fp8"]}"#, &[]);
    assert_eq!(started.code, Some(3), "{}", started.stderr);
    assert!(started.folder().join("run").exists(), "{}", started.stderr);
}

/// Python takes seconds to import an engine's libraries.
#[test]
fn a_program_is_asked_for_its_flags_once_whatever_options_a_candidate_has() {
    let script = r#"
        import "std/engines" as engines;
        for most in [1, 2, 3] {
            let given = #{ runtime: "process", program: "./vllm", model: "m", engine_args: [`--max-num-seqs=${most}`] };
            assert(engines::describe("vllm", given).check_flags(["--max-num-seqs"]));
        }
    "#;
    let program = Profiler::new()
        .file("vllm", HELPFUL.replace("--help)", "--help) echo asked >> asked;"))
        .file("s.rhai", script);
    let path = program.folder().join("vllm");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let run = program.args(["run", "s.rhai", "--allow", "process"]).run().success();
    let asked = fs::read_to_string(run.folder().join("asked")).unwrap();
    assert_eq!(asked, "asked\n");
}

/// As on an H200, where the first start and its loads took 8 of 20 minutes.
#[test]
fn a_slow_first_start_leaves_time_for_others() {
    let script = r#"
        import "std/tune" as tune;
        import "std/tune/goal" as goal;
        import "std/tune/steps" as steps;
        let axis = |name, values| #{ name: name, values: values, usual: values[0], kv: "same", spare: "same", cost: "restart", excludes: [] };
        let axes = [axis.call("kv_cache_dtype", ["auto", "fp8"]), axis.call("block_size", [16, 32])];
        let search = |seconds, cold| {
            let window = tune::window(seconds);
            let start = |what, candidate, ask| {
                let cost = #{ step: 0.004, decode: 0.00001, prefill: 0.00002, kv: if candidate.is_empty() { 3e-8 } else { 1.5e-8 } };
                let serve = #{ input: 1024, output: 1024, max_num_seqs: 256, max_num_batched_tokens: 2048, kv_tokens: 900000, cost: cost };
                let seen = #{ rows: [], reported: #{ kv_tokens: 900000 }, failed: (), died: (), seconds: if what == "defaults" { cold } else { cold / 2.0 } };
                loop {
                    let level = steps::following(ask, seen.rows);
                    if level == () { break; }
                    let at = levels::forecast([serve + #{ concurrency: level }])[0];
                    seen.rows.push(at + #{ level: level, rate: at.output_throughput, tpot_mean: at.tpot_ms, ttft_mean: at.ttft_ms, e2el_mean: at.e2el_ms, seconds: window, held: false });
                    seen.seconds += window;
                }
                seen
            };
            tune::search(axes, start, #{ goal: goal::goodput(#{}), load: #{ input: 1024, output: 1024 }, total: 2048, most: 64, seconds: seconds })
        };
        let found = search.call(960.0, 120.0);
        // With the time that it names, another start is made.
        let short = search.call(600.0, 300.0);
        let enough = search.call(short.needed, 300.0);
        #{ starts: found.starts, second: found.tried[1].candidate, short: short.starts, enough: enough.starts }
    "#;
    let outcome = Profiler::new()
        .file("budget.rhai", script)
        .args(["run", "budget.rhai", "--json"])
        .run()
        .success();
    let found = &outcome.json()["result"];
    assert!(found["starts"].as_u64() > Some(1), "{found}");
    // An fp8 cache is read at half the bytes, so it is expected to gain most.
    assert_eq!(found["second"]["kv_cache_dtype"], "fp8", "{found}");
    assert_eq!(found["short"], 1, "{found}");
    assert!(found["enough"].as_u64() > Some(1), "{found}");
}

/// In races between equals whose windows wander, looking after each eliminates wrongly in few. The defaults are calibrated,
/// and the candidate is asked for levels, as `tune` does it.
#[test]
fn equals_seldom_lose_a_race() {
    let script = r#"
        import "std/tune/goal" as goal;
        import "std/tune/steps" as steps;
        let x = 7;
        let wrong = 0;
        for number in 0..1000 {
            let goal = goal::goodput(#{ tpot_ms: 30.0 });
            let defaults = [];
            let own = [];
            let ask = steps::calibration(goal, 128, false);
            let raced = false;
            let wander = 0.0;
            loop {
                let rows = if raced { own } else { defaults };
                let level = steps::following(ask, rows);
                if level == () && raced {
                    // Without a worth to beat it would have gone on.
                    if steps::following(ask + #{ beat: 0.0 }, own) != () { wrong += 1; }
                    break;
                }
                if level == () {
                    let base = steps::curve(defaults);
                    let best = goal::best(goal, base, 1.0);
                    raced = true;
                    wander = 0.0;
                    ask = steps::race(goal, 128, base, #{ level: best.level, beat: best.worth, windows: defaults.len(), deviation: steps::deviation(defaults) });
                    continue;
                }
                let draws = [0.0, 0.0];
                for draw in 0..2 { x = (x * 1103515245 + 12345) % 2147483648; draws[draw] = (x + 1) / 2147483649.0; }
                // Normal, by Box and Muller.
                wander = 0.5 * wander + 0.0433 * (-2.0 * draws[0].ln()).sqrt() * (6.283185307 * draws[1]).cos();
                let tpot = (10.0 + 0.3 * level) * (-wander).exp();
                let row = #{ level: level, rate: 1000.0 * level / tpot, ttft_ms: 100.0, tpot_ms: tpot, e2el_ms: 128.0 * tpot, held: false };
                if raced { own.push(row); } else { defaults.push(row); }
            }
        }
        wrong
    "#;
    let outcome = Profiler::new()
        .file("race.rhai", script)
        .args(["run", "race.rhai", "--json"])
        .run()
        .success();
    let wrong = outcome.json()["result"].as_i64().unwrap();
    assert!(wrong <= 50, "{wrong} of 1,000 null races eliminate");
}

/// Candidates on two engines at a time.
const SIDE_BY_SIDE: &str = r#"//! budgets: starts
import "std/engines" as engines;
import "std/tune" as tune;
import "std/tune/goal" as goal;
import "std/tune/settings" as settings;
import "std/tune/start" as start;
let p = params(#{ profile: param("", "of the engine", #{ path: true }), starts: param(7, "most starts") });
let axes = settings::axes(engines::describe("sim", #{}).tunable(), #{ max_num_seqs: [2, 16, 64], max_num_batched_tokens: [1024, 4096] }, #{});
let plan = #{
    engine: "sim", options: #{ profile: p.profile, sim: #{ time_scale: 0.2 } }, axes: axes, limits: #{ input: 64, output: 8, concurrency: 8 }, percentile: 50, lanes: [[], []],
    load: #{ input: 64, output: 8, requests_per_slot: 3, min_requests: 8 },
};
let begin = |what, candidate, ask| start::run(plan, what, candidate, ask);
let found = tune::search(axes, begin, #{ goal: goal::goodput(#{}), load: #{ input: 64, output: 8 }, total: 72, most: 8, starts: p.starts, enough: -1.0, parallel: 2, earlier: start::earlier(plan) });
#{ tried: found.tried.map(|one| settings::text(one.candidate)), why: found.why, seconds: found.seconds, each: found.tried.map(|one| one.seconds) }
"#;

/// Each start of a race: its subject, its engine, and each load within it: once for each time that it was measured. And
/// the most starts at a time.
fn starts_and_loads(journal: &str) -> (Vec<String>, Vec<String>, usize) {
    let mut under_way: BTreeMap<u64, String> = BTreeMap::new();
    let (mut starts, mut loads, mut most) = (Vec::new(), Vec::new(), 0);
    for line in journal.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let engine = event["engine"].as_u64().unwrap_or_default();
        let what = event["args"]["trial"]["setting"].as_str();
        match (event["event"].as_str().unwrap(), event["kind"].as_str()) {
            ("resumed", _) => under_way.clear(),
            ("began", Some("experiment")) => drop(under_way.insert(engine, what.unwrap().to_owned())),
            ("done", Some("experiment")) => {
                under_way.remove(&engine);
                starts.push(what.unwrap().to_owned());
            }
            ("done", Some("load")) => {
                let load = &event["args"]["load"];
                loads.push(format!(
                    "{} {} {}",
                    under_way[&engine], load["concurrency"], load["seed"]
                ));
            }
            _ => {}
        }
        most = most.max(under_way.len());
    }
    (starts, loads, most)
}

#[track_caller]
fn no_two_are_equal(all: &[String]) {
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "{all:?}");
}

/// Killed after a start, while another runs, and within two.
#[test]
fn candidates_run_side_by_side_and_a_killed_race_loses_none() {
    for (what, times) in [("experiment", 4), ("load", 7)] {
        let text = format!("\"event\":\"done\",\"kind\":\"{what}\"");
        let run = Profiler::new()
            .file("race.rhai", SIDE_BY_SIDE)
            .file("slow.toml", slow(64))
            .args([
                "run",
                "race.rhai",
                "--json",
                "--out",
                "killed",
                "--profile",
                "slow.toml",
            ]);
        let (found, journal) = killed_and_resumed_at(run, &text, times);
        let (starts, loads, most) = starts_and_loads(&journal);
        assert_eq!(most, 2, "{journal}");
        no_two_are_equal(&starts);
        no_two_are_equal(&loads);
        let tried: Vec<String> = serde_json::from_value(found["tried"].clone()).unwrap();
        assert!(tried.len() > 2, "{found}");
        let sorted = |mut all: Vec<String>| {
            all.sort();
            all
        };
        assert_eq!(sorted(tried), sorted(starts), "every start that ended counts, {found}");
        // Time is that of the wall.
        let each: Vec<f64> = serde_json::from_value(found["each"].clone()).unwrap();
        let longest = found["seconds"].as_f64().unwrap();
        assert!(longest < each.iter().sum(), "{found}");
    }
}

/// The other objective of `docs/tune.md`, in ten lines.
#[test]
fn another_objective_is_a_closure() {
    let text = include_str!("../../docs/tune.md");
    let code = text
        .split("```rhai goal.part\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let lines = code
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count();
    assert!(lines <= 10, "{lines} lines");
    let outcome = Profiler::new().args(["fork", "tune", "mine.rhai"]).run().success();
    let forked = std::fs::read_to_string(outcome.folder().join("mine.rhai")).unwrap();
    let line = "let goal = if p.objective";
    let own: String = forked
        .lines()
        .map(|old| {
            if old.starts_with(line) {
                code.to_owned()
            } else {
                format!("{old}\n")
            }
        })
        .collect();
    let found = tune(&NARROW, 4).file("mine.rhai", own).run().success().json()["result"].clone();
    let worth = |at: usize| found["tried"][at]["worth"].as_f64().unwrap();
    // A goodput would be hundreds of tokens per second.
    assert!(worth(0) > 0.0 && worth(0) < 10.0 && worth(1) > 0.0, "{found}");
    assert!(
        found["finding"].as_str().unwrap().contains("tokens/s per ms"),
        "{found}"
    );
}
