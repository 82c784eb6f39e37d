//! A user adds an engine by stdlib/engines/README.md: the adapter is the one on that page, and drives a separate
//! server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use profiler::engine::{Facts, MetricRules};
use profiler::runtime::Launch;
use regex::Regex;
use serde_json::json;

use crate::support::{Profiler, model, temp};

/// The first Rhai block below this heading.
fn example(heading: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("stdlib/engines/README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, after) = page.split_once(heading).unwrap();
    let (_, block) = after.split_once("```rhai ").unwrap();
    let (_, block) = block.split_once('\n').unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_short_adapters_of_the_readme_are_sound() {
    for heading in ["### Almost like another engine", "### A chat server"] {
        let checked = Profiler::new()
            .file("mine.rhai", example(heading))
            .args(["check", "mine.rhai"]);
        let _ = checked.run().success();
        let preview = Profiler::new()
            .file("mine.rhai", example(heading))
            .args([
                "run",
                "adaptive",
                "--set",
                "engine=./mine.rhai",
                "--set",
                "image=mine:1",
                "--dry-run",
            ])
            .args(["--allow", "image=mine"]);
        let _ = preview.run().success().stdout("mine:1");
    }
}

#[test]
fn the_adapter_of_the_readme_is_sound_and_drives_a_server() {
    let mine = example("### All six functions");
    let _ = Profiler::new()
        .file("mine.rhai", &mine)
        .args(["check", "mine.rhai"])
        .run()
        .success();

    // The user's server, a standalone program started with the adapter's flags.
    let folder = temp();
    model::write(folder.path());
    let server = folder.path().join("our-server");
    let program = env!("CARGO_BIN_EXE_profiler");
    let text = format!("#!/bin/sh\nexec {program} sim --profile llama-8b-24gb-vllm --time-scale 0 \"$@\"\n");
    std::fs::write(&server, text).unwrap();
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "import \"std/engines\" as engines;
         let engine = engines::describe(\"./mine.rhai\", #{{
             runtime: \"process\", program: \"{server}\", model: \"our-model\", tokenizer: \"{folder}/tokenizer.json\", gpus: [],
             limits: #{{ input: 900, output: 100 }},
         }});
         let fits = engine.probe(#{{ input: 900, output: 100 }});
         let info = engine.info();
         let flags = engine.flags();
         let fails = engine.probe(#{{ input: 100000, output: 1000 }});
         engine.stop();
         #{{ fits: fits.verdict, input: fits.input, kv_tokens: info.kv_tokens, flags: flags, fails: fails.verdict, cause: fails.cause }}",
        server = server.display(),
        folder = folder.path().display(),
    );
    let outcome = Profiler::new()
        .file("mine.rhai", &mine)
        .file("main.rhai", script)
        .args(["run", "main.rhai", "--json", "--allow", "process"])
        .args(["--allow", &format!("mount={}", folder.path().display())])
        .run()
        .success();
    assert_eq!(
        outcome.json()["result"],
        json!({
            "fits": "ok", "input": 900, "kv_tokens": 8352, "flags": ["--max-model-len=1000"],
            "fails": "start_failed", "cause": "memory",
        })
    );
}

#[test]
fn the_page_names_all_that_an_adapter_may_give() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("stdlib/engines/README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, contract) = page.split_once("## The contract").unwrap();
    let mut launch = json!(Launch::default());
    // Left out: fields that are always rejected, and fields that the program fills in.
    for key in [
        "privileged",
        "network",
        "pid",
        "ipc",
        "devices",
        "capabilities",
        "security",
        "in_process",
    ] {
        assert!(launch.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    let parts = [launch, json!(Facts::default()), json!(MetricRules::default())];
    for key in parts.iter().flat_map(|part| part.as_object().unwrap().keys()) {
        let word = Regex::new(&format!(r"\b{key}\b")).unwrap();
        assert!(word.is_match(contract), "`{key}` is not on the page");
    }
}

#[test]
fn every_shipped_adapter_is_in_the_table_and_sound() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("stdlib/engines/README.md")).unwrap();
    for file in std::fs::read_dir(root.join("stdlib/engines")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rhai") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(page.contains(&format!("| `{name}` |")), "`{name}` is not in the table");
        let module = format!("std/engines/{name}");
        let _ = Profiler::new().args(["check", &module]).run().success();
    }
}
