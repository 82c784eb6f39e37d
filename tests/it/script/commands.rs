//! `check`, `list` and `fork` as a user runs them.

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
        .stderr("error: there is no function `slep`\n --> bad.rhai:2:1\n  |\n2 | slep(x);\n  | ^^^^")
        .stderr(" --> bad.rhai:3:1");
}

#[test]
fn check_knows_shipped_scripts_and_parameters() {
    Profiler::new()
        .args(["check", "adaptive", "grid", "bisect"])
        .run()
        .success();
    Profiler::new()
        .args(["check", "adaptive", "--set", "modle=x"])
        .run()
        .code(2)
        .stderr("unknown parameter `modle`")
        .stderr("a similar parameter exists: `model`");
    Profiler::new()
        .args(["check", "adaptve"])
        .run()
        .code(2)
        .stderr("there is no script `adaptve`")
        .stderr("`adaptive`");
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
    Profiler::new().args(["list"]).run().success().stdout("adaptive");
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
    // That the copy is what runs: break it, and the script is broken.
    let check = || {
        Profiler::new()
            .args(["check", "own/mine.rhai"])
            .current_dir(forked.folder())
            .run()
    };
    let _sound = check().success();
    fs::write(path("search.rhai"), "fn nothing() { 1 }").unwrap();
    let _broken = check().code(2).stderr("there is no function `search::adaptive`");
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
        .stderr("a similar name exists: `adaptive`");
}
