//! A user runs a script that needs permissions. They are listed, requested at a terminal, refused elsewhere with the
//! option that grants them, and remembered.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::made_up::MadeUp;
use crate::support::{Profiler, temp};

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/engine_info.rhai");

const ADAPTIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/adaptive.rhai");

/// A script that starts a process.
const STARTS: &str = r#"print(`code ${process::start(#{ command: ["true"] }).wait().code}`)"#;

#[test]
fn what_the_command_line_names_counts_for_shipped_scripts_alone() {
    let server = MadeUp::default().start();
    let port = server.url.rsplit(':').next().unwrap().to_owned();
    let fork = format!("// mine\n{}", fs::read_to_string(SHIPPED).unwrap());
    let run = |script: &str, more: &[&str]| {
        let program = Profiler::new().file("fork.rhai", &fork);
        program.args(["run", script, "--url", &server.url]).args(more).run()
    };
    let _ = run("engine_info", &[]).success();
    let _ = run(SHIPPED, &[]).success();
    let before = server.all().len();
    let _ = run("fork.rhai", &[])
        .code(3)
        .stderr(&format!("connect to `127.0.0.1:{port}`"))
        .stderr(&format!("--allow port={port}"));
    assert_eq!(server.all().len(), before, "it was refused before it asked anything");
    let _ = run("fork.rhai", &["--allow", &format!("port={port}")]).success();
    // A stranger's adapter gets no more permissions than a script.
    let adapter = "import \"std/engines/openai\" as o;\nfn launch(p) { o::launch(p) }\nfn ready(e) { o::ready(e) }\nfn request(p) { o::request(p) }
        fn facts() { o::facts() }\nfn failures() { o::failures() }\nfn flags(l) { o::flags(l) }";
    let outcome = Profiler::new()
        .file("mine.rhai", adapter)
        .args([
            "run",
            "engine_info",
            "--url",
            &server.url,
            "--set",
            "engine=./mine.rhai",
        ])
        .run();
    let _ = outcome.code(3).stderr(&format!("--allow port={port}"));
    // Nor can the adapter reach the server that the user named for the script by calling it directly.
    let page = format!("fn facts() {{ server::page(\"{}\", \"/\", \"\");", server.url);
    let program = Profiler::new().file("mine.rhai", adapter.replace("fn facts() {", &page));
    let before = server.all().len();
    let args = [
        "run",
        "adaptive",
        "--url",
        &server.url,
        "--set",
        "engine=./mine.rhai",
        "--set",
        "runtime=docker",
    ];
    let _ = program.args(args).run().code(3).stderr(&format!("--allow port={port}"));
    assert_eq!(server.all().len(), before);
}

#[test]
fn a_service_of_the_run_itself_may_be_asked() {
    let script = r#"import "std/engines" as engines;
        let mine = process::start(#{ command: ["python3", "-m", "http.server", "--bind", "127.0.0.1", "{port}"] });
        server::page(mine.url, "/", "");
        // Then its port may be another's.
        mine.stop();
        let kind = "none";
        try { server::page(mine.url, "/", ""); } catch (e) { kind = e.kind; }
        kind == "not_allowed""#;
    let program = Profiler::new().file("s.rhai", script);
    let _ = program
        .args(["run", "s.rhai", "--allow", "process"])
        .run()
        .success()
        .stdout("true");
}

#[test]
fn a_dry_run_lists_what_is_wanted_and_how_to_allow_it() {
    let script = r#"import "std/engines" as engines;
        engines::describe("vllm", #{ model: "m", image: "mine/vllm:1", runtime: "docker" }).start()"#;
    let dry = |allow: &[&str]| {
        let program = Profiler::new().file("s.rhai", script);
        program.args(["run", "s.rhai", "--dry-run"]).args(allow).run()
    };
    let _ = dry(&[])
        .code(3)
        .stdout("missing: image=mine/vllm:1: start the image `mine/vllm:1`, which the script chose")
        .stdout("to allow what is missing: --allow image=mine/vllm:1");
    // A permission whose refusal ends the script is listed too.
    let script = r#"import "std/engines" as engines; engines::attach("vllm", #{ url: "http://127.0.0.1:1" })"#;
    let program = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--dry-run"]);
    let _ = program
        .run()
        .code(3)
        .stdout("missing: port=1: connect to `127.0.0.1:1`");
    // So is one that the script can do without.
    let script = r#"import "std/engines" as engines; try { server::page("http://127.0.0.1:1", "/", "") } catch { }"#;
    let program = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--dry-run"]);
    let _ = program.run().code(3).stdout("--allow port=1");
    let _ = dry(&["--allow", "image=mine"])
        .success()
        .stdout("allowed: image=mine/vllm:1")
        .nowhere("to allow");
}

#[test]
fn a_refusal_names_all_that_is_wanted_and_one_that_the_script_caught_is_told_too() {
    let tries = r#"import "std/engines" as engines;
        try { server::page("http://127.0.0.1:1", "/", "") } catch { }"#;
    let starts = r#"
        let probe = |image| engines::describe("vllm", #{ model: "m", image: image, runtime: "docker" }).probe(#{ input: 9, output: 2 });
        probe.call("mine/vllm:1");
        probe.call("mine/other:1");"#;
    let program = |script: &str| Profiler::new().file("s.rhai", script);
    let both = "`--allow port=1,image=mine/vllm:1,image=mine/other:1`";
    let outcome = program(&format!("{tries}{starts}"))
        .args(["run", "s.rhai"])
        .run()
        .code(3);
    let _ = outcome
        .stderr("start the image `mine/vllm:1`")
        .stderr("start the image `mine/other:1`")
        .stderr(both);
    let caught = program(tries).args(["run", "s.rhai"]).run().success();
    let _ = caught.stderr("warning: the script went on");
    // A folder that may not be read does not keep later permissions from being listed.
    let model = temp();
    fs::write(model.path().join("config.json"), "{}").unwrap();
    let set = format!("model={}", model.path().display());
    let fork = program(&format!("// mine\n{}", fs::read_to_string(ADAPTIVE).unwrap()));
    let args = [
        "--set",
        "engine=vllm",
        "--set",
        "image=mine/vllm:1",
        "--set",
        "runtime=docker",
        "--set",
        &set,
    ];
    let outcome = fork.args(["run", "s.rhai"]).args(args).run().code(3);
    let real = model.path().canonicalize().unwrap();
    let _ = outcome
        .stderr(&format!("mount={}", real.display()))
        .stderr("image=mine/vllm:1");
}

#[test]
fn somebody_at_a_terminal_is_asked_and_always_is_remembered_for_this_text() {
    let state = temp();
    let run = |script: &str| {
        let program = Profiler::new().file("s.rhai", script).args(["run", "s.rhai"]);
        program.env("XDG_STATE_HOME", state.path())
    };
    let talk = |script: &str, answer: &str| {
        let mut dialogue = run(script).on_terminal();
        dialogue.expect("`s.rhai` wants to");
        dialogue.expect("(process)");
        dialogue.expect("N: no");
        dialogue.line(answer);
        dialogue
    };
    assert_eq!(talk(STARTS, "").end(), 3);
    let mut once = talk(STARTS, "y");
    once.expect("code 0");
    assert_eq!(once.end(), 0);
    // Without a terminal there is no prompt, and the earlier answer was for one run only.
    let _ = run(STARTS).run().code(3).stderr("--allow process");
    let mut always = talk(STARTS, "a");
    always.expect("code 0");
    assert_eq!(always.end(), 0);
    let manifest = |folder: &Path| fs::read_to_string(run_folder(folder).join("manifest.json")).unwrap();
    let outcome = run(STARTS).run().success().stdout("code 0");
    let manifest: Value = serde_json::from_str(&manifest(outcome.folder())).unwrap();
    assert_eq!(
        manifest["permissions"],
        json!(["process"]),
        "repeating the run needs it"
    );
    // Permissions granted for good can be revoked, while the record of runs stays.
    let remembered = || fs::read_to_string(state.path().join("profiler/remembered")).unwrap();
    let forget = || {
        Profiler::new()
            .env("XDG_STATE_HOME", state.path())
            .args(["doctor", "--forget-allowed"])
            .run()
    };
    let _ = forget().success().stdout("always allowed before: process for `s.rhai`");
    let _ = forget().success().stdout("no script was always allowed anything");
    assert!(!remembered().contains("allow ") && remembered().contains("run "));
    let _ = run(STARTS).run().code(3).stderr("--allow process");
    let mut always = talk(STARTS, "a");
    always.expect("code 0");
    assert_eq!(always.end(), 0);
    // A changed text under the same name is another script.
    let _ = run(&format!("{STARTS};")).run().code(3).stderr("--allow process");
}

#[test]
fn ctrl_c_ends_a_run_that_asks() {
    let mut dialogue = Profiler::new()
        .file("s.rhai", STARTS)
        .args(["run", "s.rhai"])
        .on_terminal();
    dialogue.expect("N: no");
    dialogue.control('c');
    assert_eq!(dialogue.end(), 130);
}

/// The only run below `runs/`.
fn run_folder(folder: &Path) -> PathBuf {
    fs::read_dir(folder.join("runs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
}

/// An unfinished run that reports when it is resumed.
fn begun(state: &Path) -> Profiler {
    let program = Profiler::new()
        .file("sent/mod.rhai", "print(\"its module runs\"); fn one() { 1 }")
        .file(
            "sent/s.rhai",
            "import \"mod\" as m; let p = params(#{ a: param(1, \"a\") }); print(\"its script runs\"); m::one()",
        );
    let outcome = Profiler::new()
        .current_dir(program.folder())
        .env("XDG_STATE_HOME", state)
        .args(["run", "sent/s.rhai", "--out", "run"])
        .run();
    let _ = outcome.success();
    unfinish(&program.folder().join("run"), |_| ());
    program
}

/// Makes a run look as if it was killed at its start, and changes its manifest.
fn unfinish(run: &Path, change: impl FnOnce(&mut Value)) {
    let mut manifest: Value = serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    manifest["status"] = json!("running");
    change(&mut manifest);
    fs::write(run.join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(run.join("journal.jsonl"), "").unwrap();
    let _ = fs::remove_file(run.join("result.json"));
}

#[test]
fn the_run_of_a_stranger_is_shown_and_gone_on_with_only_by_the_hash_of_its_script() {
    let (mine, theirs) = (temp(), temp());
    let at = |program: Profiler, state: &Path| program.env("XDG_STATE_HOME", state);
    let _ = at(begun(mine.path()), mine.path())
        .args(["run", "--resume", "run"])
        .run()
        .success()
        .stdout("its script runs");
    let text = fs::read_to_string(begun(theirs.path()).folder().join("run/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let hash = |pointer: &str| format!("sha256:{}", manifest.pointer(pointer).unwrap().as_str().unwrap());
    let script = hash("/script/sha256");
    let named = format!("{script},{}", hash("/modules/mod.rhai"));
    for args in [
        ["run", "--resume", "run"].as_slice(),
        &["run", "sent/s.rhai", "--resume", "run"],
        &["run", "--resume", "run", "--help"],
        &["run", "--resume", "run", "--trust-script", "sha256:0123"],
        &["run", "--resume", "run", "--trust-script", &script],
    ] {
        let outcome = at(begun(theirs.path()), mine.path()).args(args).run().code(3);
        let _ = outcome.stderr(&format!("`--trust-script {named}`")).nowhere("runs\n");
    }
    let trusted = at(begun(theirs.path()), mine.path()).args(["run", "--resume", "run", "--trust-script", &named]);
    let _ = trusted
        .run()
        .success()
        .stdout("its script runs")
        .stdout("its module runs");
    for args in [["show", "run"], ["report", "run"]] {
        let _ = at(begun(theirs.path()), mine.path())
            .args(args)
            .run()
            .success()
            .nowhere("script runs");
    }
    // A known run does not vouch for another script.
    let swapped = begun(mine.path());
    fs::write(swapped.folder().join("sent/s.rhai"), "print(\"its script runs\")").unwrap();
    let outcome = at(swapped, mine.path())
        .args(["run", "--resume", "run", "--help"])
        .run();
    let _ = outcome.code(2).stderr("has changed").nowhere("script runs");
}

/// The memory file has one line per entry, and a run's id comes from its manifest.
#[test]
fn no_run_of_a_stranger_adds_to_what_is_remembered() {
    let (mine, theirs) = (temp(), temp());
    let program = begun(theirs.path());
    let mut trust = String::new();
    unfinish(&program.folder().join("run"), |manifest| {
        let hash = |pointer: &str| manifest.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        trust = format!("sha256:{},sha256:{}", hash("/script/sha256"), hash("/modules/mod.rhai"));
        manifest["run"] = json!("a\nallow it\nrun b");
    });
    let program = program.env("XDG_STATE_HOME", mine.path());
    let resumed = program.args(["run", "--resume", "run", "--trust-script", &trust]).run();
    let _ = resumed.success().stdout("its module runs");
    let remembered = fs::read_to_string(mine.path().join("profiler/remembered")).unwrap();
    assert!(remembered.contains("run a allow it run b "), "{remembered}");
    assert!(
        remembered.lines().all(|line| line.starts_with("run a ")),
        "{remembered}"
    );
}

/// The run may be killed before the adapter is imported.
#[test]
fn an_adapter_that_is_named_is_ones_own_from_the_beginning() {
    let state = temp();
    for name in ["./mine.rhai", "./mine"] {
        let text = format!("// {name}");
        let program = Profiler::new()
            .file("s.rhai", "let p = params(#{ engine: param(\"\", \"an adapter\") }); 1")
            .file("mine.rhai", &text)
            .args(["run", "s.rhai", "--set", &format!("engine={name}")]);
        let _ = program.env("XDG_STATE_HOME", state.path()).run().success();
        let remembered = fs::read_to_string(state.path().join("profiler/remembered")).unwrap();
        let sha256 = profiler::script::Source::new("", &text).sha256;
        assert!(remembered.lines().any(|line| line.ends_with(&*sha256)), "{name}");
    }
}

/// A copy of the user's own run vouches for the modules that ran in it, and for no others.
#[test]
fn ones_own_run_with_other_modules_is_a_strangers() {
    let (mine, theirs) = (temp(), temp());
    let other = "print(\"its module runs\"); fn one() { 2 }";
    let sha256 = profiler::script::Source::new("", other).sha256;
    for (listed, refusal) in [
        (true, "is not your run, or was changed"),
        (false, "has not used the module"),
    ] {
        for trusts in [false, true] {
            let program = begun(if trusts { theirs.path() } else { mine.path() });
            fs::write(program.folder().join("sent/mod.rhai"), other).unwrap();
            let mut script = String::new();
            unfinish(&program.folder().join("run"), |manifest| {
                manifest["modules"] = if listed {
                    json!({ "mod.rhai": sha256 })
                } else {
                    json!({})
                };
                script = format!(
                    "--trust-script=sha256:{}",
                    manifest["script"]["sha256"].as_str().unwrap()
                );
            });
            let program = program
                .env("XDG_STATE_HOME", mine.path())
                .args(["run", "--resume", "run"]);
            let outcome = program.args(trusts.then_some(&script)).run().code(3);
            let refusal = if listed && trusts { "does not name" } else { refusal };
            let _ = outcome
                .stderr(refusal)
                .stderr("mod.rhai")
                .stderr(&format!("sha256:{sha256}"))
                .nowhere("its module runs");
        }
    }
}

#[test]
fn what_the_command_line_named_is_remembered_with_the_run() {
    let (mine, other) = (temp(), temp());
    let (server, wrong) = (MadeUp::default().start(), MadeUp::default().start());
    let begun = |url: &str| {
        let program = Profiler::new().env("XDG_STATE_HOME", mine.path());
        let outcome = program
            .args(["run", "engine_info", "--url", &server.url, "--out", "run"])
            .run();
        let folder = outcome.folder().to_owned();
        let outcome = outcome.success();
        unfinish(&folder.join("run"), |manifest| manifest["set"]["url"] = json!(url));
        outcome
    };
    let resume = |url: &str, state: &Path| {
        let outcome = begun(url);
        let program = Profiler::new()
            .current_dir(outcome.folder())
            .env("XDG_STATE_HOME", state);
        program.args(["run", "--resume", "run"]).run()
    };
    let _ = resume(&server.url, mine.path()).success();
    // Neither another URL in the folder nor another user's permission counts. The script itself ships with the program.
    let _ = resume(&wrong.url, mine.path()).code(3).stderr("--allow port=");
    let _ = resume(&server.url, other.path()).code(3).stderr("--allow port=");
    assert!(wrong.all().is_empty());
}

#[test]
fn a_pipe_in_place_of_what_is_remembered_is_told_and_waited_for_by_nobody() {
    let program = Profiler::new().file("s.rhai", "1").file("profiler/x", "");
    let pipe = program.folder().join("profiler/remembered");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let state = program.folder().to_owned();
    let outcome = program.env("XDG_STATE_HOME", state).args(["run", "s.rhai"]).run();
    let _ = outcome.success().stderr("regular file");
}

#[test]
fn without_a_state_folder_a_run_is_made_and_says_how_to_go_on_with_it() {
    let program = Profiler::new().file("s.rhai", "1").file("no_folder", "");
    let state = program.folder().join("no_folder");
    let outcome = program.env("XDG_STATE_HOME", state).args(["run", "s.rhai"]).run();
    let _ = outcome.success().stderr("--trust-script");
}
