//! A user runs scripts, models and engines of strangers: what they may take of memory, disk and time, and how engines
//! that lie are judged.
//!
//! The program holds less than 1 GiB, whatever it runs. The inputs in `tests/data/attacks` once took up to 15 GB.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::support::{Outcome, Profiler};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn attack(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/data/attacks", name]
        .iter()
        .collect()
}

/// Runs a script of the attacks with these arguments; fails if the program held `most` bytes or more.
#[track_caller]
fn run(script: &str, args: &[&str], most: u64) -> Outcome {
    let outcome = Profiler::new()
        .args(["run", "--out", "run"])
        .args(args)
        .arg(attack(script))
        .measured()
        .run();
    check_peak(&outcome, script, most);
    outcome
}

#[track_caller]
fn check_peak(outcome: &Outcome, what: &str, most: u64) {
    let peak = outcome.peak();
    assert!(peak < most, "{what}: {} MiB\n{}", peak >> 20, outcome.stderr);
}

#[test]
fn scripts_that_write_or_draw_without_end_are_stopped() {
    for (script, args, says) in [
        ("record_big.rhai", &["--max-disk", "1MB"][..], "a run may write: 1 MB"),
        ("record_flood.rhai", &["--max-disk", "1MB"], "a run may write: 1 MB"),
        (
            "files_append_flood.rhai",
            &["--max-disk", "40MiB"],
            "a run may write: 42 MB",
        ),
        (
            "files_empty_flood.rhai",
            &["--max-disk", "1MB"],
            "a run may write: 1 MB",
        ),
        ("note_flood.rhai", &["--max-disk", "1MB"], "a run may write: 1 MB"),
        ("print_flood.rhai", &["--max-disk", "1MB"], "a run may write: 1 MB"),
        ("print_big.rhai", &["--max-disk", "1MB"], "a run may write: 1 MB"),
        ("heat400.rhai", &[], "160,000 cells; at most 40,000"),
        ("heat700.rhai", &[], "490,000 cells; at most 40,000"),
        ("heat1000.rhai", &[], "1,000,000 cells; at most 40,000"),
    ] {
        let outcome = run(script, args, GIB).code(1).stderr(says);
        let folder = outcome.folder().join("run");
        let sizes = walk(&folder);
        assert!(sizes < 200 * MIB, "{script}: {sizes} bytes were written");
        let _ = Profiler::new().current_dir(&folder).args(["show", "."]).run();
        assert!(
            folder.join("result.json").exists(),
            "{script}: the run was ended properly"
        );
    }
    let _ = run("heat200.rhai", &[], GIB).success();
}

fn walk(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.path() {
            path if path.is_dir() => walk(&path),
            path => path.metadata().unwrap().len(),
        })
        .sum()
}

/// Measurements before the limit are kept, and the run can be resumed.
#[test]
fn a_run_ends_when_its_time_is_over() {
    let script = r#"
        let map = boundary(#{ input: [1, 9] }, #{});
        map.record(#{ input: 4 }, "ok");
        sleep(9223372036854775807);
    "#;
    let outcome = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--out", "run", "--max-time", "900ms"])
        .run()
        .code(124)
        .stderr("--max-time was reached")
        .stdout("--resume run --max-time 900ms");
    let shown = Profiler::new()
        .current_dir(outcome.folder())
        .args(["show", "run"])
        .run();
    let _ = shown.stdout("4");
    let endless = Profiler::new()
        .file("s.rhai", "loop { try { sleep(1); } catch { } }")
        .args(["run", "s.rhai", "--max-time", "300ms"]);
    let _ = endless.run().code(124);
    for wrong in ["5", "-1s", "0s", "soon"] {
        let time = format!("--max-time={wrong}");
        let refused = Profiler::new().file("s.rhai", "1").args(["run", "s.rhai", &time]);
        let _ = refused.run().code(2).stderr("90s, 30m or 2h30m");
    }
    for (option, why) in [
        ("--max-time=9000000h", "more than a year"),
        ("--max-disk=2XB", "500MB or 20G"),
        ("--max-disk=1B", "from 100KB"),
        ("--max-disk=9999999TB", "from 100KB"),
    ] {
        let refused = Profiler::new().file("s.rhai", "1").args(["run", "s.rhai", option]);
        let _ = refused.run().code(2).stderr(why);
    }
    for taken in [
        "--max-time=1h30m",
        "--max-disk=500KB",
        "--max-disk=10G",
        "--max-disk=1.5GiB",
    ] {
        let _ = Profiler::new()
            .file("s.rhai", "1")
            .args(["run", "s.rhai", taken])
            .run()
            .success();
    }
}

#[test]
fn a_chat_template_takes_neither_memory_nor_time_without_end() {
    let growing = "{% set ns=namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}";
    let lists = "{% set ns=namespace(s=[1]) %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s|length }}";
    let outcome = run("template_bomb.rhai", &[], 300 * MIB).code(2);
    let _ = outcome.stderr("the chat template cannot be used: it takes more than 192 MiB");
    for template in [
        "{{ range(10)|batch(1000000000,'x')|list }}",
        "{{ range(10)|slice(1000000000)|list }}",
        "{{ ('a'*60000)|replace('a','b'*60000) }}",
        growing,
        lists,
    ] {
        let tokenizer = std::fs::read(attack("chat-template-bomb/tokenizer.json")).unwrap();
        let config = serde_json::json!({ "chat_template": template }).to_string();
        let outcome = Profiler::new()
            .file("model/tokenizer.json", tokenizer)
            .file("model/tokenizer_config.json", config)
            .file(
                "s.rhai",
                r#"prompt::tokens(200, #{ tokenizer: "./model", form: "text", chat: true }).count"#,
            )
            .args(["run", "s.rhai"])
            .measured()
            .run()
            .code(2);
        check_peak(&outcome, template, 300 * MIB);
        let _ = outcome
            .stderr("the chat template cannot be used")
            .nowhere("please report");
    }
}

#[test]
fn a_damaged_tokenizer_is_the_users_to_mend() {
    // The tokenizers library loads the last one, and then panics on every text.
    for number in ["17", "20", "21"] {
        let folder = format!("crash-tokenizer-{number}");
        let _ = run(&format!("tokenizer_crash_{number}.rhai"), &[], GIB)
            .code(2)
            .stderr(&format!("{folder}/tokenizer.json"))
            .stderr("not a tokenizer that can be used")
            .nowhere("please report");
    }
    // Neither a pipe nor a file of unlimited size is read.
    let model = Profiler::new().file(
        "s.rhai",
        r#"prompt::tokens(9, #{ tokenizer: "./model", form: "text" })"#,
    );
    let path = |name: &str| model.folder().join("model").join(name);
    std::fs::create_dir(path("")).unwrap();
    std::fs::copy(attack("chat-template-bomb/tokenizer.json"), path("tokenizer.json")).unwrap();
    nix::unistd::mkfifo(&path("tokenizer_config.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let config = std::fs::File::create(path("config.json")).unwrap();
    config.set_len(1 << 40).unwrap();
    let outcome = model.args(["run", "s.rhai"]).run().code(2);
    let estimate = Profiler::new()
        .current_dir(outcome.folder())
        .args(["estimate", "model"])
        .run();
    let _ = estimate.stderr("`model/config.json`").stderr("64.0 MiB");
    let _ = outcome.stderr("model/tokenizer_config.json`");
}

/// A misbehaving engine; it is stopped when dropped.
struct Misbehaving {
    process: Child,
    url: String,
}

impl Misbehaving {
    /// The first `good` completion requests are answered properly.
    fn start(mode: &str, good: &str) -> Self {
        let mut process = Command::new("python3")
            .arg(attack("eng.py"))
            .args(["0", mode, good])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        said.read_line(&mut port).unwrap();
        let url = format!("http://127.0.0.1:{}", port.trim());
        Self { process, url }
    }

    #[track_caller]
    fn asked(&self, script: &str, args: &[&str]) -> Outcome {
        let url = format!("url={}", self.url);
        let (_, port) = self.url.rsplit_once(':').unwrap();
        let allow = format!("port={port}");
        let args: Vec<&str> = ["--set", &url, "--allow", &allow].iter().chain(args).copied().collect();
        run(script, &args, 700 * MIB)
    }
}

impl Drop for Misbehaving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn pages_and_streams_without_end_are_bounded() {
    for mode in ["models_infinite", "models_huge"] {
        let outcome = Misbehaving::start(mode, "0").asked("engine_probe.rhai", &[]);
        check_peak(&outcome, mode, 300 * MIB);
        let _ = outcome.stdout("VERDICT");
    }
    let metrics = Misbehaving::start("metrics_huge", "0");
    let outcome = metrics.asked("engine_load.rhai", &["--set", "engine=vllm", "--set", "streams=2"]);
    check_peak(&outcome, "metrics_huge", 300 * MIB);
    let _ = outcome.stdout("VERDICT").stderr("`/metrics`").stderr("16 MiB");
    let lines = Misbehaving::start("noline", "1");
    let outcome = lines.asked("engine_load.rhai", &["--set", "streams=64"]);
    let _ = outcome.stdout("LOAD completed=0 failed=128");
}

/// Columns: mode, the probe's verdict with its cause, words of its message, and the completed requests out of 8 in a
/// load.
#[test]
fn engines_that_lie_are_judged_alike_by_probe_and_load() {
    for (mode, verdict, says, completed) in [
        ("good", "ok", "", 8),
        (
            "usagelie",
            "error malformed",
            "counted 4 tokens of output, and sent what can be 1",
            0,
        ),
        (
            "maxusage",
            "error malformed",
            "tokens of output, and sent what can be",
            0,
        ),
        ("usagechange", "error malformed", "tokens of the same prompt", 0),
        ("infinite", "error malformed", "the engine does not stop", 0),
        // As many tokens as were asked for, by its own count.
        ("nofinish", "ok", "", 8),
        ("err200", "oom cuda", "CUDA out of memory", 0),
        ("err200sse", "oom cuda", "CUDA out of memory", 0),
        // The engine's own report of a failure is believed: none of our prompts contains such words.
        ("fakeoom", "oom cuda", "your prompt said", 0),
        // An output longer than requested still fits.
        ("moretokens", "ok", "out=200", 8),
    ] {
        // The first request finds out what the server accepts, so it must be answered properly.
        let outcome = Misbehaving::start(mode, "1").asked("engine_probe.rhai", &[]);
        let line = outcome.stdout.lines().find(|line| line.starts_with("VERDICT"));
        let line = line.unwrap_or_else(|| panic!("{mode}: {}{}", outcome.stdout, outcome.stderr));
        assert!(line.starts_with(&format!("VERDICT {verdict}")), "{mode}: {line}");
        assert!(line.contains(says), "{mode}: {line}");
        let load = format!("LOAD completed={completed} failed={}", 8 - completed);
        assert!(line.contains(&load), "{mode}: {line}");
    }
}

#[test]
fn every_promise_of_security_md_names_a_test_that_exists() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let named = regex::Regex::new("`([a-z_:]+)::([a-z0-9_]+)`").unwrap();
    let mut count = 0;
    for found in named.captures_iter(&page).filter(|found| &found[1] != "file") {
        let path = root.join("tests/it").join(found[1].replace("::", "/"));
        let files = [path.with_extension("rs"), path.join("mod.rs")];
        let file = files.iter().find(|file| file.exists()).unwrap_or(&files[0]);
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(text.contains(&format!("fn {}(", &found[2])), "{}", &found[0]);
        count += 1;
    }
    assert!(count > 20);
}
