//! A user opens run folders that are broken, each in one way, and still reads what is left and what is missing.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{Outcome, Profiler, SHARED_STATE, copy_run, sealed, temp};

/// A copy of a real run.
fn copy(run: &str) -> (TempDir, PathBuf) {
    let room = temp();
    let to = copy_run(run, &room.path().join("2026-11-21T072910Z-adaptive"));
    (room, to)
}

fn show(folder: &Path, more: &[&str]) -> Outcome {
    Profiler::new().arg("show").arg(folder).args(more).run()
}

/// Changes a file; the lines of a journal get valid checksums afterwards.
fn change(folder: &Path, name: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let path = folder.join(name);
    let changed = change(fs::read(&path).unwrap());
    let sealed = match String::from_utf8(changed) {
        Ok(text) if name == "journal.jsonl" => sealed(&text).into_bytes(),
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    fs::write(path, sealed).unwrap();
}

fn cut(folder: &Path, name: &str, part: f64) {
    change(folder, name, |text| {
        text[..(text.len() as f64 * part) as usize].to_vec()
    });
}

fn remove(folder: &Path, name: &str) {
    fs::remove_file(folder.join(name)).unwrap();
}

/// Replaces each line that contains `word` with `line`.
fn replace_lines(folder: &Path, word: &str, line: &str) {
    change(folder, "journal.jsonl", |text| {
        let text = String::from_utf8(text).unwrap();
        let lines = text.lines().map(|old| if old.contains(word) { line } else { old });
        lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
    });
}

/// Name, damage to the folder, and texts that must still be shown.
type Mutilation = (&'static str, fn(&Path), &'static [&'static str]);

const ALL: &str = "63,329 tokens (KV cache); 63,330 fails";

const MUTILATIONS: &[Mutilation] = &[
    (
        "no manifest",
        |run| remove(run, "manifest.json"),
        &[
            "manifest.json is not there; not known: driver, ",
            "seed",
            "run 2026-11-21T072910Z-adaptive of script.rhai\ndone\nbegan 2026-11-21T07:29:10.400Z",
            ALL,
        ],
    ),
    (
        "an empty manifest",
        |run| cut(run, "manifest.json", 0.0),
        &["manifest.json cannot be read (", "; not known: ", ALL],
    ),
    (
        "half a manifest",
        |run| cut(run, "manifest.json", 0.5),
        &["manifest.json cannot be read (", "of script.rhai\ndone", ALL],
    ),
    (
        "a manifest of zeros",
        |run| change(run, "manifest.json", |text| vec![0; text.len()]),
        &["manifest.json cannot be read (", ALL],
    ),
    (
        "a manifest with a member of another shape",
        |run| {
            change(run, "manifest.json", |text| {
                String::from_utf8(text).unwrap().replace("\"done\"", "[1]").into_bytes()
            })
        },
        &["manifest.json cannot be read (", ALL],
    ),
    (
        "a manifest that is a folder",
        |run| {
            remove(run, "manifest.json");
            fs::create_dir(run.join("manifest.json")).unwrap();
        },
        &["manifest.json cannot be read (", ALL],
    ),
    (
        "no journal",
        |run| remove(run, "journal.jsonl"),
        &[
            "journal.jsonl: it is not there: all events are missing",
            "the result of the script is not in the journal",
        ],
    ),
    (
        "an empty journal",
        |run| cut(run, "journal.jsonl", 0.0),
        &["journal.jsonl: it is empty: all events are missing"],
    ),
    (
        "a last line that was being written",
        |run| {
            change(run, "journal.jsonl", |mut text| {
                text.extend(b"{\"event\":\"po");
                text
            })
        },
        &["journal.jsonl: its last line is incomplete", ALL],
    ),
    (
        "garbage in the middle",
        |run| replace_lines(run, "\"phase\":\"loading\"", "\u{0}\u{1}garbage"),
        &["journal.jsonl: line 5"],
    ),
    (
        "lines that are JSON and no events",
        |run| replace_lines(run, "\"event\":\"phase\"", "{\"a\":1}"),
        &["cannot be read: these events are missing", ALL],
    ),
    (
        "a line that is no text",
        |run| {
            change(run, "journal.jsonl", |mut text| {
                text[10] = 0xff;
                text
            })
        },
        &["journal.jsonl: line 1"],
    ),
    (
        "the boundary's axes are damaged",
        |run| {
            change(run, "journal.jsonl", |text| {
                String::from_utf8(text)
                    .unwrap()
                    .replacen("\"range\":[1024,70000]", "\"range\":[\"a\"]", 1)
                    .into_bytes()
            })
        },
        &["the boundary: its axes are lost or damaged", "missing in this folder"],
    ),
    (
        "a point outside of the axes",
        |run| {
            change(run, "journal.jsonl", |mut text| {
                text.extend(b"{\"event\":\"point\",\"boundary\":0,\"point\":{\"width\":1},\"verdict\":\"ok\",\"cause\":null,\"moves\":\"fits\",\"answer\":\"ok\",\"time\":\"x\"}\n");
                text
            })
        },
        &["points are damaged: skipped", ALL],
    ),
    (
        "a boundary of an impossible number",
        |run| {
            change(run, "journal.jsonl", |mut text| {
                text.extend(b"{\"event\":\"boundary\",\"index\":99999999999,\"axes\":{},\"time\":\"x\"}\n");
                text
            })
        },
        &["cannot be read: these events are missing", ALL],
    ),
    (
        "half a journal",
        |run| cut(run, "journal.jsonl", 0.5),
        &["its last line is incomplete", "of the search range fits"],
    ),
    (
        "half a usage",
        |run| cut(run, "memory/engine-2.usage.json", 0.5),
        &[
            "memory/engine-2.usage.json is incomplete: memory of engine-2 by stage is missing",
            "engine-2, cut off",
            ALL,
        ],
    ),
    (
        "memory is a file",
        |run| {
            fs::remove_dir_all(run.join("memory")).unwrap();
            fs::write(run.join("memory"), "").unwrap();
        },
        &["memory/ cannot be read", ALL],
    ),
    (
        "the journal's end is lost",
        |run| replace_lines(run, "\"event\":\"end\"", "{"),
        &["the result of the script is not in the journal", ALL],
    ),
];

#[test]
fn what_is_left_of_a_broken_folder_is_told() {
    for (name, mutilate, parts) in MUTILATIONS {
        let (_room, run) = copy("vllm-longest");
        mutilate(&run);
        let outcome = show(&run, &[]);
        assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
        // Notes are wrapped.
        let shown = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in *parts {
            let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(shown.contains(&part), "{name}: not shown: {part}\n{}", outcome.stdout);
        }
        let document = show(&run, &["--json"]).success().json();
        assert!(
            !document["missing"].as_array().unwrap().is_empty(),
            "{name}: {document}"
        );
    }
}

/// Makes a simulated run, damages it with `mutilate`, and rebuilds its page.
fn simulated(mutilate: fn(&Path)) -> (Outcome, PathBuf, String) {
    let begun = Profiler::new()
        .args(["run", "adaptive", "--out", "out", "--seed", "7", "--set", "engine=sim"])
        .args(["--set", "memory_fraction=0.69"])
        .run()
        .success();
    let out = begun.folder().join("out");
    mutilate(&out);
    let page = || fs::read_to_string(out.join("report.html")).unwrap();
    let whole = page();
    assert!(
        whole.contains("--memory-fraction 0.69 --seed 7"),
        "the whole folder tells it"
    );
    let _ = Profiler::new().arg("report").arg(&out).run().success();
    let html = page();
    (begun, out, html)
}

#[test]
fn what_a_torn_manifest_does_not_tell_is_said_to_be_not_known() {
    let (_begun, _out, html) = simulated(|run| change(run, "manifest.json", |text| text[..300].to_vec()));
    assert!(!html.contains("profiler run"), "no command repeats what is not known");
    for text in [
        "not known: manifest.json is lost or damaged, and with it the script, what was set, the seed, what was allowed",
        "<dt>host</dt>",
        "<dt>GPU driver</dt>",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains(", , 0 CPUs"), "a machine without a name has no CPUs");
    assert!(!html.contains("nothing beyond the defaults"));
}

/// Keeps the first half of the journal's lines.
fn halve(run: &Path) {
    change(run, "journal.jsonl", |text| {
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        lines[..lines.len() / 2]
            .iter()
            .flat_map(|line| [line, "\n"])
            .collect::<String>()
            .into_bytes()
    });
}

#[test]
fn a_journal_that_ends_early_is_told_to() {
    let (_begun, out, html) = simulated(halve);
    let _ = show(&out, &[])
        .success()
        .stdout("journal.jsonl ends early, at ")
        .stdout("the result of the script is not in the journal")
        .stdout("finished: at least ")
        .nowhere("result: {");
    assert!(html.contains("ends early"));
    assert!(
        !html.contains("was never written"),
        "the memory that is drawn was written"
    );
}

#[test]
fn a_whole_folder_misses_nothing() {
    let runs: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data/runs"].iter().collect();
    for run in fs::read_dir(runs).unwrap() {
        let run = run.unwrap().path();
        let _ = show(&run, &[]).success().nowhere("missing in this folder");
        assert!(
            show(&run, &["--json"]).success().json()["missing"].is_null(),
            "{}",
            run.display()
        );
    }
}

#[test]
fn damaged_breakdowns_and_experiments_are_named() {
    let (_room, run) = copy("vllm-breakdown");
    change(&run, "journal.jsonl", |text| {
        String::from_utf8(text)
            .unwrap()
            .replace("\"per_gpu\"", "\"pergpu\"")
            .into_bytes()
    });
    let _ = show(&run, &[]).success().stdout("the breakdown `vllm` is damaged");
    let (_room, run) = copy("vllm-cuda-graphs");
    change(&run, "journal.jsonl", |text| {
        String::from_utf8(text)
            .unwrap()
            .replace("\"trials\"", "\"tests\"")
            .into_bytes()
    });
    let _ = show(&run, &[]).success().stdout("is damaged: skipped");
}

#[test]
fn nothing_at_all_is_a_fault() {
    let (_room, run) = copy("vllm-longest");
    for name in ["manifest.json", "journal.jsonl", "result.json"] {
        cut(&run, name, 0.0);
    }
    let _ = show(&run, &[])
        .code(1)
        .stderr("nothing of the run in")
        .stderr("manifest.json cannot be read")
        .stderr("journal.jsonl: it is empty");
    for name in ["manifest.json", "journal.jsonl", "result.json"] {
        remove(&run, name);
    }
    let _ = show(&run, &[]).code(2).stderr("is not the folder of a run");
}

#[test]
fn a_folder_of_another_version_is_not_guessed_at() {
    let (_room, run) = copy("vllm-longest");
    change(&run, "manifest.json", |text| {
        String::from_utf8(text)
            .unwrap()
            .replacen("\"schema\": 2", "\"schema\": 1", 1)
            .into_bytes()
    });
    let _ = show(&run, &[])
        .code(2)
        .stderr("has schema 1; this profiler reads schema 2");
}

#[test]
fn a_run_that_lost_its_manifest_still_says_that_it_was_simulated() {
    let outcome = Profiler::new()
        .args([
            "run",
            "adaptive",
            "--out",
            "out",
            "--set",
            "engine=sim",
            "--set",
            "search.max_probes=3",
        ])
        .run();
    let out = outcome.folder().join("out");
    remove(&out, "manifest.json");
    let _ = show(&out, &[])
        .success()
        .stdout("SIMULATED")
        .stdout("manifest.json is not there");
    assert_eq!(show(&out, &["--json"]).success().json()["simulated"], true);
}

#[test]
fn a_broken_folder_is_not_gone_on_with() {
    let script = "let map = boundary(#{ input: [1, 9] }, #{}); map.record(#{ input: 4 }, \"ok\"); throw \"later\"";
    let begun = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--out", "out"])
        .run()
        .code(1);
    let resume = || {
        let command = std::process::Command::new(env!("CARGO_BIN_EXE_profiler"))
            .env("XDG_STATE_HOME", SHARED_STATE)
            .current_dir(begun.folder())
            .args(["run", "s.rhai", "--resume", "out"])
            .output();
        let output = command.unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let out = begun.folder().join("out");
    cut(&out, "manifest.json", 0.5);
    let (code, stderr) = resume();
    assert!(code == Some(1) && stderr.contains("manifest.json"), "{stderr}");
}
