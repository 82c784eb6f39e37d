//! The README as a newcomer reads it: every command is run, every script too, and what it shows is what the program prints.

use std::path::Path;

use crate::support::Profiler;

/// A fenced block: its language, and its lines.
struct Block {
    language: String,
    text: String,
}

fn blocks(markdown: &str) -> Vec<Block> {
    let mut parts = markdown.split("```").skip(1);
    let mut found = Vec::new();
    while let (Some(inside), _) = (parts.next(), parts.next()) {
        let (language, text) = inside.split_once('\n').unwrap();
        found.push(Block {
            language: language.to_owned(),
            text: text.to_owned(),
        });
    }
    found
}

fn readme() -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    blocks(&std::fs::read_to_string(root.join("README.md")).unwrap())
}

fn of(language: &str) -> Vec<String> {
    let wanted = readme().into_iter().filter(|block| block.language == language);
    let texts: Vec<_> = wanted.map(|block| block.text).collect();
    assert!(!texts.is_empty(), "no {language} block");
    texts
}

/// A command in the repository's folder, with results elsewhere; `cargo run --release --` stands for the binary under test.
fn profiler(words: &[&str], folder: &Path) -> Profiler {
    let command = Profiler::new().current_dir(folder).env("LC_ALL", "C.UTF-8");
    words.iter().fold(command, |command, word| command.arg(word))
}

#[test]
fn every_command_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for block in of("sh") {
        // The commands of one block follow each other in one folder; scripts are reached from there as from the repository.
        let folder = crate::support::temp();
        std::os::unix::fs::symlink(root.join("scripts"), folder.path().join("scripts")).unwrap();
        std::fs::create_dir(folder.path().join("models")).unwrap();
        std::fs::write(folder.path().join("models/my.gguf"), "a dry run opens no model").unwrap();
        std::fs::create_dir(folder.path().join("models/llama-8b")).unwrap();
        let shape = root.join("tests/data/shapes/llama-3.1-8b.config.json");
        std::fs::copy(shape, folder.path().join("models/llama-8b/config.json")).unwrap();
        for line in block.lines() {
            // No quoted word has a blank in it.
            let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches('\'')).collect();
            match words.as_slice() {
                // This is what runs now.
                ["cargo", "test"] => {}
                ["cargo", "run", "--release", "--", words @ ..] | ["profiler", words @ ..] => {
                    let _ = profiler(words, folder.path()).run().success();
                }
                _ => panic!("neither a command of ours nor a known one: {line}"),
            }
        }
    }
}

#[test]
fn every_script_runs() {
    for text in of("rhai") {
        let command = Profiler::new().file("readme.rhai", text);
        let _ = command
            .args(["run", "readme.rhai"])
            .run()
            .success()
            .stdout("what to run");
    }
}

/// The simulated engine and the search have seeds of their own: the same box gives the same picture.
#[test]
fn the_output_shown_is_real() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let outcome = profiler(&["run", "adaptive"], root)
        .args(["--out"])
        .arg(crate::support::temp().path().join("run"));
    let outcome = outcome.run().success();
    // How long it took differs by machine.
    let times = regex::Regex::new(r"(?m), \d+:\d\d$").unwrap();
    let printed = times.replace_all(&outcome.stdout, "");
    for text in of("text") {
        assert!(
            printed.contains(text.trim()),
            "not what is printed now:\n{}",
            outcome.stdout
        );
    }
}

/// One hundredth of the memory less, and the comparison that says what it costs.
#[test]
fn the_comparison_shown_is_real() {
    let folder = crate::support::temp();
    for (name, fraction) in [("base", "0.70"), ("new", "0.69")] {
        let set = format!("memory_fraction={fraction}");
        // Shares of a range can be compared where the range is the same.
        let _ = profiler(&["run", "adaptive", "--set", &set, "--out", name], folder.path())
            .args(["--set", "input=[128,8192]", "--set", "output=[128,4096]"])
            .run()
            .success();
    }
    let thresholds = ["--threshold", "frontier>=-2%", "--threshold", "volume=5%"];
    let mut outcome = profiler(&["compare", "base", "new"], folder.path())
        .args(thresholds)
        .run()
        .code(4);
    for text in of("text comparison") {
        outcome = outcome.stdout(text.trim_end());
    }
}

/// What is shown of a kept run is what the program says of it today.
#[test]
fn what_is_shown_of_real_runs_is_real() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_runs: Vec<Block> = readme()
        .into_iter()
        .filter(|block| block.language.starts_with("text ") && block.language != "text comparison")
        .collect();
    assert!(!of_runs.is_empty());
    for block in of_runs {
        let run = block.language.trim_start_matches("text ");
        let shown = profiler(&["show"], root).arg(root.join("tests/data/runs").join(run));
        let _ = shown.run().success().stdout(block.text.trim());
    }
}
