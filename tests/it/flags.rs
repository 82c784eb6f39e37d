//! A user passes the parameters of a script as flags of `profiler run`: what each command line sets, and what is
//! refused before anything starts.

use serde_json::{Value, json};

use crate::support::made_up::MadeUp;
use crate::support::{Outcome, Profiler};

/// A script that returns its parameters, one of each type.
const SCRIPT: &str = r#"
let p = params(#{
    length: param((), "a range", #{ takes: "range", example: "128..8192", least: 1 }),
    drawn: param(512, "lengths", #{ takes: "lengths" }),
    levels: param([], "levels", #{ example: "1,8,64" }),
    restart: param(false, "yes or no"),
    cuda_graphs: param((), "yes, no or as the engine does", #{ takes: "bool" }),
    name: param("auto", "a text"),
    share: param(0.5, "a share", #{ least: 0, most: 1 }),
    repeats: param(3, "a number", #{ least: 1 }),
    env: param(#{}, "any keys"),
    space: param(#{}, "lists by any keys", #{ lists: true }),
    assume: param(#{ tpot_ms: 30.0, start: 120 }, "these keys"),
    search: param(#{}, "options of search::adaptive"),
    any: param((), "anything"),
    seed: param(7, "also an option of the program"),
});
p
"#;

fn run(args: &[&str]) -> Outcome {
    Profiler::new()
        .file("s.rhai", SCRIPT)
        .args(["run", "s.rhai", "--json"])
        .args(args)
        .run()
}

#[test]
fn each_way_to_write_a_flag_sets_the_parameter() {
    let rows: &[(&[&str], &str, Value)] = &[
        (&["--repeats", "5"], "repeats", json!(5)),
        (
            &["--space.max-num-seqs", "64,256"],
            "space",
            json!({ "max_num_seqs": [64, 256] }),
        ),
        (&["--space.kv", "fp8"], "space", json!({ "kv": ["fp8"] })),
        (
            &["--space", r#"{"a":[1],"b":2}"#],
            "space",
            json!({ "a": [1], "b": [2] }),
        ),
        (&["--repeats=5"], "repeats", json!(5)),
        (&["--set", "repeats=4", "--repeats", "5"], "repeats", json!(5)),
        (&["--name", "7"], "name", json!("7")),
        (&["--name", "\"7\""], "name", json!("7")),
        (&["--share", "1"], "share", json!(1.0)),
        (&["--restart"], "restart", json!(true)),
        (&["--restart=false"], "restart", json!(false)),
        (&["--restart", "true", "--repeats", "5"], "restart", json!(true)),
        (&["--cuda-graphs"], "cuda_graphs", json!(true)),
        (&["--cuda_graphs=false"], "cuda_graphs", json!(false)),
        (&["--env.MY_VAR", "x"], "env", json!({ "MY_VAR": "x" })),
        (&["--env.--max_num-seqs", "64"], "env", json!({ "--max_num-seqs": 64 })),
        (
            &["--assume.tpot-ms", "20"],
            "assume",
            json!({ "tpot_ms": 20.0, "start": 120 }),
        ),
        (
            &["--search.max-probes", "40", "--search.use_report=false"],
            "search",
            json!({ "max_probes": 40, "use_report": false }),
        ),
        (&["--levels", "8"], "levels", json!([8])),
        (&["--levels", "8,16"], "levels", json!([8, 16])),
        (&["--levels", "[8,16]"], "levels", json!([8, 16])),
        (&["--levels", "2..4"], "levels", json!([2, 3, 4])),
        (
            &["--levels", "vllm,{\"engine\":\"tgi\",\"tp\":2}"],
            "levels",
            json!(["vllm", { "engine": "tgi", "tp": 2 }]),
        ),
        (&["--set", "levels=8,16"], "levels", json!([8, 16])),
        (&["--length", "512"], "length", json!(512)),
        (&["--length", "128..512"], "length", json!([128, 512])),
        (&["--length=[128,512]"], "length", json!([128, 512])),
        (&["--set", "length=128..512"], "length", json!([128, 512])),
        (&["--drawn", "128..512"], "drawn", json!({ "uniform": [128, 512] })),
        (&["--any", "1..8"], "any", json!([1, 8])),
        // The program's own option takes precedence.
        (&["--seed", "3"], "seed", json!(7)),
        (&["--set", "seed=3"], "seed", json!(3)),
    ];
    for (args, name, value) in rows {
        let outcome = run(args).success();
        assert_eq!(outcome.json()["result"][name], *value, "{args:?}");
    }
}

#[test]
fn the_script_may_come_after_its_flags() {
    let profiler = Profiler::new().file("s.rhai", SCRIPT);
    let args = ["run", "--repeats", "5", "--dry_run", "--restart", "s.rhai", "--json"];
    let outcome = profiler.args(args).run().success();
    assert_eq!(outcome.json()["parameters"]["repeats"], 5);
    assert!(!outcome.folder().join("runs").exists());
}

/// Nothing has started, and the hint shows a valid command line.
#[test]
fn what_cannot_be_meant_is_refused_with_what_can() {
    let rows: &[(&[&str], &str)] = &[
        (&["--repeat", "5"], "--repeats"),
        (&["--num-prompts", "5"], "--repeats"),
        (&["--runs=5"], "--repeats"),
        (&["--dummy-image", "x.png"], "prompts are text"),
        (&["--random-input-len", "5"], "--input"),
        (&["--max-seconds", "60"], "--search.max-seconds"),
        (&["--output-path", "x"], "--out"),
        (&["--search.max-probe", "5"], "--search.max-probes"),
        (&["--length", "4,8"], "--length 4..8"),
        (&["--length", "8..4"], "--length 128..8192"),
        (&["--length", "0"], "at least 1"),
        (&["--levels", "1..100000"], "--levels 1,8,64"),
        (&["--repeats", "many"], "`3`"),
        (&["--repeats"], "--repeats"),
        (&["--repeats", "--restart"], "--repeats"),
        (&["--repeats", "-3"], "at least 1"),
        (&["--share", "90"], "at most 1"),
        (&["--search.coverage", "90"], "at most 1"),
        (&["--search.coverage", "0"], "at most 1"),
        (&["--search.max-probes", "-1"], "0"),
        (&["--search.proof", "none"], "verified"),
        (&["--search.confirm", "some"], "`3`"),
    ];
    for (args, hint) in rows {
        let outcome = run(args).code(2);
        assert!(outcome.stderr.contains(hint), "{args:?}: {}", outcome.stderr);
        assert!(!outcome.folder().join("runs").exists(), "{args:?}");
    }
    let _ = Profiler::new().args(["run", "--input", "5"]).run().code(2);
    let _ = Profiler::new()
        .args(["run", "adaptive", "--rate", "5"])
        .run()
        .code(2)
        .stderr("--rates");
    let _ = Profiler::new()
        .args(["run", "throughput", "--rate", "5"])
        .run()
        .code(2)
        .stderr("--rates");
}

/// Every option of the predecessors' programs that is none of ours is answered with what to do instead.
#[test]
fn the_predecessors_options_are_answered() {
    let options = [
        "run neighbours --model-id --gpu-ids --min-input-length --max-input-length --min-output-length \
         --max-output-length --grid-size --refinement-rounds --retries-per-point --base-url --output-dir --hf-token \
         --hf-cache-dir --output-tolerance-pct --temp --k-neighbors --m-random --distance-scale --consistency-radius \
         --redundancy-weight --max-pair-distance --min-refinement-dist --resume-from-file --multimodal --dummy-image \
         --dummy-image-path",
        "run memory_breakdown --max-tokens --batch-size",
        "run profile --prompt --max-tokens --hf-model-id --tensor-parallel-size --enforce-eager --max-model-len \
         --gpu-memory-utilization --container-name",
        "run batch --config --input-len --output-len --batch-size --results-dir --tensor-parallel-size \
         --gpu-memory-utilization --hf-model-id",
        "run throughput --mode --scenario --runs-per-prompt --disable-log-requests --max-model-len --max-concurrency \
         --num-prompts --publish --volume -p -e",
        "run cuda_graphs --model-path --model-name --max-batch-size --max-concurrency-test --output-file \
         --isolate-subprocess --force-separate-pools",
        "compare a.json --calc-weights --calc-kv --calc-activations --calc-overhead",
    ];
    let answered = |(command, option): (&str, &str)| {
        let words = command.split(' ').chain([option, "1"]);
        let said = Profiler::new().args(words).run().code(2).stderr;
        let hint = said.lines().find_map(|line| line.strip_prefix("hint: "));
        assert!(
            hint.is_some_and(|hint| !hint.ends_with("lists them")),
            "{command} {option}: {said}"
        );
    };
    std::thread::scope(|scope| {
        for line in options {
            let (command, options) = line.split_at(line.find(" -").unwrap());
            let mut options = options.split_whitespace().peekable();
            assert!(options.peek().is_some());
            scope.spawn(move || options.for_each(|option| answered((command, option))));
        }
    });
    for (command, hint) in [("profile", "profiler run profile"), ("visualize", "profiler report")] {
        let _ = Profiler::new().args([command, "a.json"]).run().code(2).stderr(hint);
    }
}

#[test]
fn the_shipped_scripts_take_lists_and_ranges_where_they_want_them() {
    let rows: &[(&[&str], &str, Value)] = &[
        (
            &["adaptive", "--input", "2000", "--concurrency", "1..16"],
            "concurrency",
            json!([1, 16]),
        ),
        (&["throughput", "--concurrency", "8,16"], "concurrency", json!([8, 16])),
        (&["throughput", "--rates", "0.5"], "rates", json!([0.5])),
        (
            &["throughput", "--input", "128..512"],
            "input",
            json!({ "uniform": [128, 512] }),
        ),
        (
            &["batch", "--input", "512", "--output", "128", "--concurrency", "1,8"],
            "input",
            json!([512]),
        ),
    ];
    for (args, name, value) in rows {
        let outcome = Profiler::new()
            .arg("run")
            .args(*args)
            .args(["--dry-run", "--json", "--engine", "sim"])
            .run();
        assert_eq!(outcome.success().json()["parameters"][name], *value, "{args:?}");
    }
    for wrong in [
        ["adaptive", "--concurrency", "4,8"],
        ["adaptive", "--tolerance", "-3"],
        ["slo", "--attainment", "95"],
    ] {
        let outcome = Profiler::new().arg("run").args(wrong).run().code(2);
        assert!(!outcome.folder().join("runs").exists(), "{wrong:?}");
    }
}

#[test]
fn a_shell_completes_the_values_of_a_parameter() {
    let offers = |words: &[&str]| {
        let line = ["profiler", "run"].iter().chain(words);
        let outcome = Profiler::new()
            .file("jobs.yaml", "")
            .env("PROFILER_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", (words.len() + 1).to_string())
            .arg("--")
            .args(line.collect::<Vec<_>>())
            .run();
        outcome.success().stdout
    };
    assert_eq!(offers(&["throughput", "--order", ""]).trim(), "up\ndown\nrandom");
    assert_eq!(offers(&["adaptive", "--search.proof", ""]).trim(), "verified\ncoverage");
    assert_eq!(offers(&["adaptive", "--engine", "vl"]).trim(), "vllm");
    assert_eq!(offers(&["batch", "--file", "jo"]).trim(), "jobs.yaml");
}

#[test]
fn help_lists_the_flags_and_check_warns_of_those_that_are_hidden() {
    let help = run(&["--help"]).success();
    let _ = help
        .stdout("--length")
        .stdout("--search.max-probes")
        .stdout("128..8192")
        .stdout("--set seed=");
    let check = Profiler::new()
        .file("s.rhai", SCRIPT)
        .args(["check", "s.rhai"])
        .run()
        .success();
    let _ = check.stderr("--set seed=").nowhere("--set name=");
}

#[test]
fn a_run_from_standard_input_can_be_repeated_and_resumed() {
    let script = r#"let p = params(#{ repeats: param(3, "a number") }); print(p.repeats); if p.repeats == 5 { throw "no"; } p.repeats"#;
    let outcome = Profiler::new()
        .stdin(script)
        .args(["run", "-", "--repeats", "4", "--out", "run"])
        .run()
        .success();
    assert_eq!(outcome.stdout.lines().next(), Some("4"), "{}", outcome.stderr);
    let kept = std::fs::read_to_string(outcome.folder().join("run/script.rhai")).unwrap();
    assert_eq!(kept, script);
    let again = Profiler::new()
        .current_dir(outcome.folder())
        .args(["run", "--resume", "run"])
        .run();
    let _ = again.success();
    let _ = Profiler::new()
        .stdin("let x = ;")
        .args(["run", "-"])
        .run()
        .code(2)
        .stderr("1:9");
}

#[test]
fn help_is_a_command_and_documentation_is_searched() {
    let whole = Profiler::new().arg("help").run().success();
    assert_eq!(whole.stdout, Profiler::new().arg("--help").run().success().stdout);
    let _ = Profiler::new().args(["help", "run"]).run().success().stdout("--resume");
    let _ = Profiler::new()
        .args(["help", "run", "adaptive"])
        .run()
        .success()
        .stdout("--concurrency");
    let _ = Profiler::new().args(["help", "nonsense"]).run().code(2);
    let found = Profiler::new().args(["doc", "gpu", "memory"]).run().success();
    assert!(
        found.stdout.lines().filter(|line| line.starts_with("- `")).count() > 1,
        "{}",
        found.stdout
    );
    // A match by name comes before matches in texts.
    let found = Profiler::new().args(["doc", "sleep"]).run().success();
    assert!(found.stdout.starts_with("# `sleep("), "{}", found.stdout);
    let _ = Profiler::new().args(["doc", "zzyzx"]).run().code(2);
}

/// Exit status 3, and no run folder if the engine is not even named.
#[test]
fn what_is_missing_is_found_before_anything_begins() {
    let server = MadeUp {
        key: Some("sk-made-up"),
        ..MadeUp::default()
    }
    .start();
    // More GPUs than any machine has.
    for args in [["--gpus", "97"], ["--url", server.url.as_str()]] {
        let outcome = Profiler::new()
            .env("OPENAI_API_KEY", "sk-of-somebody-else-0123456789")
            .args(["run", "adaptive"])
            .args(args)
            .run()
            .code(3);
        assert!(!outcome.folder().join("runs").exists(), "{args:?}: {}", outcome.stderr);
    }
    let _ = Profiler::new()
        .args(["estimate", "nowhere"])
        .run()
        .code(2)
        .stderr("no folder");
    let _ = Profiler::new()
        .file("mine/x", "")
        .args(["estimate", "mine/llama-8b"])
        .run()
        .code(2);
}
