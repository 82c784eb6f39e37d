//! A user calls `check`, `list` and `fork`.

use std::fs;

use crate::support::Profiler;

#[test]
fn check_shows_every_finding_with_its_excerpt() {
    Profiler::new()
        .args(["check", "good.rhai", "bad.rhai"])
        .file("good.rhai", "print(1);")
        .file("bad.rhai", "let x = 1;\nslep(x);\nnap(x);")
        .run()
        .code(2)
        .stderr("`slep`\n --> bad.rhai:2:1\n  |\n2 | slep(x);\n  | ^^^^")
        .stderr(" --> bad.rhai:3:1");
}

#[test]
fn check_knows_shipped_scripts_and_parameters() {
    Profiler::new()
        .args(["check", "adaptive", "grid", "bisect"])
        .run()
        .success()
        .stdout("adaptive: ok\ngrid: ok\nbisect: ok");
    Profiler::new()
        .args(["check", "adaptive", "--set", "modle=x"])
        .run()
        .code(2)
        .stderr("unknown parameter `modle`")
        .stderr("`model`?");
    Profiler::new()
        .args(["check", "adaptve"])
        .run()
        .code(2)
        .stderr("`adaptve`")
        .stderr("`adaptive`");
}

#[test]
fn check_warns_of_a_cause_that_is_nearly_a_known_one() {
    let adapter = |cause: &str| {
        let adapter = format!(
            "import \"std/engines/sim\" as sim;
            fn launch(options) {{ sim::launch(options) }}
            fn ready(engine) {{ sim::ready(engine) }}
            fn request(point) {{ sim::request(point) }}
            fn facts() {{ sim::facts() }}
            fn failures() {{ [#{{ pattern: \"x\", verdict: \"refused\", cause: \"{cause}\" }}] }}
            fn flags(limits) {{ sim::flags(limits) }}"
        );
        let check = Profiler::new().args(["check", "mine.rhai"]).file("mine.rhai", &adapter);
        check.run().success().stdout("mine.rhai: ok").stderr
    };
    let warned = adapter("kv_cahce");
    assert!(
        warned.contains("failures()[0]") && warned.contains("`kv_cache`"),
        "{warned}"
    );
    for cause in ["kv_cache", "adapter_slots"] {
        assert_eq!(adapter(cause), "", "{cause}");
    }
}

#[test]
fn list_shows_scripts_and_modules_with_their_first_line() {
    let listing = Profiler::new().args(["list", "--json"]).run().success().json();
    for (kind, name) in [
        ("scripts", "adaptive"),
        ("modules", "std/search"),
        ("modules", "std/engines/vllm"),
    ] {
        let one = listing[kind].as_array().unwrap().iter().find(|one| one["name"] == name);
        let summary = one.unwrap_or_else(|| panic!("{name} is not listed"))["summary"].as_str();
        assert!(summary.is_some_and(|line| !line.is_empty()), "{name} has no first line");
    }
    let scripts = Profiler::new().args(["list"]).run().success().stdout("adaptive");
    assert!(!scripts.stdout.contains("std/search"), "{}", scripts.stdout);
    // Every line fits a narrow terminal.
    for narrow in [
        vec!["list"],
        vec!["run", "adaptive", "--dry-run", "--model", "Qwen/Qwen3-8B"],
        vec!["run", "engine_info", "--model", "Qwen/Qwen3-8B"],
    ] {
        let outcome = Profiler::new().env("COLUMNS", "80").args(narrow).run().success();
        let warnings = outcome.stderr.lines().filter(|line| !line.starts_with('['));
        for line in outcome.stdout.lines().chain(warnings) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    Profiler::new()
        .args(["list", "--modules"])
        .run()
        .success()
        .stdout("std/search");
}

#[test]
fn run_finds_what_check_does_before_anything_starts() {
    for (script, words) in [
        ("slep(1)", "`sleep`?"),
        (
            "import \"std/search\" as search;\nlet map = boundary(#{ input: [1, 9] }, #{});\nsearch::adaptive(map, |p| \"ok\")",
            "search::adaptive",
        ),
        ("import \"lib\" as lib;", "expected"),
        ("let a = #{ verdict: 1 }; a.verdct", "`verdict`?"),
    ] {
        let outcome = Profiler::new()
            .file("s.rhai", script)
            .file("lib.rhai", "fn f( { 1 }")
            .args(["run", "s.rhai"])
            .run()
            .stderr(words);
        assert_ne!(outcome.code, Some(0), "{script}");
        assert!(!outcome.folder().join("runs").exists(), "{script} leaves a folder");
    }
}

#[test]
fn mistakes_of_the_user_show_the_remedy_and_no_line_of_ours() {
    let profile = Profiler::new()
        .args(["run", "adaptive", "--set", "engine=sim", "--set", "profile=no-such"])
        .run()
        .code(2)
        .stderr("unknown profile `no-such`")
        .stderr("llama-8b-h200-vllm");
    assert!(!profile.stderr.contains(".rhai"), "{}", profile.stderr);
    assert!(!profile.folder().join("runs").exists(), "a start was needed to see it");
    for (script, option, near) in [
        ("adaptive", "search.prof=verified", "`proof`"),
        ("neighbours", "search.gridsize=3", "`grid_size`"),
        ("model_guided", "search.memory_limt=3", "`memory_limit`"),
    ] {
        let search = Profiler::new().args(["run", script, "--set", option]).run().code(2);
        let search = search.stderr("unknown parameter `search.").stderr(&format!("{near}?"));
        assert!(
            !search.folder().join("runs").exists(),
            "{option}: a start was needed to see it"
        );
    }
    let own = "import \"std/engines\" as engines;\nimport \"std/search\" as search;\n\
               let map = boundary(#{ input: [1, 9], output: [1, 9] }, #{});\n\
               let engine = engines::describe(\"sim\", #{ profile: \"no-such\" });\n\
               search::adaptive(map, |p| engine.probe(p), #{})";
    let own = Profiler::new()
        .file("own.rhai", own)
        .args(["run", "own.rhai"])
        .run()
        .code(2)
        .stderr("own.rhai:5:");
    assert!(!own.stderr.contains("std/"), "{}", own.stderr);
}

#[test]
fn help_begins_with_what_most_runs_set() {
    let help = Profiler::new().args(["run", "adaptive", "--help"]).run().success();
    let at = |text: &str| {
        help.stdout
            .find(text)
            .unwrap_or_else(|| panic!("{text} is not in\n{}", help.stdout))
    };
    let order = [
        "--engine <",
        "--url <",
        "--model <",
        "--input <",
        "--output <",
        "--concurrency <",
        "--search.<",
        "--search.max-probes <",
        "--search.coverage <",
        "--search.confirm <",
        "--dtype <",
        "Examples",
        "--search.max-probes 20",
    ];
    assert!(order.map(at).is_sorted(), "{}", help.stdout);
    Profiler::new()
        .args(["--help"])
        .run()
        .success()
        .stdout("Measure:")
        .stdout("profiler run adaptive");
    Profiler::new()
        .args(["run", "--help"])
        .run()
        .success()
        .stdout("Permissions and limits:")
        .stdout("--model");
}

#[test]
fn short_options_set_parameters_and_quiet_leaves_the_result() {
    let script = "let p = params(#{ model: param(\"tiny\", \"model\") });\nprint(p.model); 42";
    let outcome = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--model", "7b", "--quiet"])
        .run()
        .success();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("7b\n42\n", ""));
    let coloured =
        Profiler::new()
            .file("s.rhai", script)
            .args(["run", "s.rhai", "--url", "http://x", "--color=always"]);
    coloured
        .run()
        .code(2)
        .stderr("\u{1b}[")
        .stderr("unknown parameter `url`");
}

#[test]
fn a_fork_says_where_it_comes_from_and_is_sound() {
    let forked = Profiler::new()
        .args(["fork", "adaptive"])
        .run()
        .success()
        .stdout("adaptive.rhai");
    let text = fs::read_to_string(forked.folder().join("adaptive.rhai")).unwrap();
    assert!(text.starts_with("//! "));
    assert!(
        text.contains("//! origin: profiler 0.1.0 scripts/adaptive.rhai sha256:"),
        "{text}"
    );
    assert!(text.contains("import \"std/search\""), "{text}");
    Profiler::new()
        .args(["check", "adaptive.rhai"])
        .current_dir(forked.folder())
        .run()
        .success();
}

#[test]
fn a_module_is_forked_by_its_whole_name() {
    let _ = Profiler::new()
        .args(["fork", "vllm"])
        .run()
        .code(2)
        .stderr("`std/engines/vllm`");
    let _ = Profiler::new()
        .args(["fork", "std/engines/vllm", "mine.rhai"])
        .run()
        .success();
}

#[test]
fn a_fork_with_its_strategy_uses_the_copy() {
    let forked = Profiler::new()
        .args(["fork", "adaptive", "own/mine.rhai", "--strategy"])
        .run()
        .success()
        .stdout("own/mine.rhai\nown/search.rhai");
    let path = |name: &str| forked.folder().join("own").join(name);
    let text = fs::read_to_string(path("mine.rhai")).unwrap();
    assert!(text.contains("import \"./search\" as search;"), "{text}");
    // The copy is the code that runs: breaking it breaks the script.
    let check = || {
        Profiler::new()
            .args(["check", "own/mine.rhai"])
            .current_dir(forked.folder())
            .run()
    };
    let _sound = check().success();
    fs::write(path("search.rhai"), "fn nothing() { 1 }").unwrap();
    let _broken = check().code(2).stderr("`search::adaptive`");
}

#[test]
fn a_fork_overwrites_nothing() {
    let outcome = Profiler::new()
        .args(["fork", "adaptive", "mine.rhai", "--strategy"])
        .file("search.rhai", "// mine")
        .run()
        .code(2)
        .stderr("`search.rhai` exists");
    assert!(!outcome.folder().join("mine.rhai").exists());
    assert_eq!(
        fs::read_to_string(outcome.folder().join("search.rhai")).unwrap(),
        "// mine"
    );
}

#[test]
fn an_adapter_can_be_forked() {
    let forked = Profiler::new()
        .args(["fork", "std/engines/vllm", "mine.rhai"])
        .run()
        .success();
    assert!(
        fs::read_to_string(forked.folder().join("mine.rhai"))
            .unwrap()
            .contains("fn launch(options)")
    );
    let _refused = Profiler::new()
        .args(["fork", "adaptiv"])
        .run()
        .code(2)
        .stderr("`adaptive`?");
}
