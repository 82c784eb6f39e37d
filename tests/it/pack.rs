//! A user packs a run into one file, without secrets, and every command reads it like a run folder.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::{Outcome, Profiler};

/// A kept run of a real engine.
const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/runs/vllm-capacity");

/// Packs that run as `sent.tar.gz`.
fn packed() -> Outcome {
    Profiler::new()
        .args(["pack", RUN, "sent.tar.gz"])
        .run()
        .success()
        .stdout("sent.tar.gz")
}

fn read(args: &[&str]) -> Outcome {
    let sent = fs::read(packed().folder().join("sent.tar.gz")).unwrap();
    Profiler::new().file("sent.tar.gz", sent).args(args).run()
}

#[test]
fn every_command_that_reads_a_run_reads_a_packed_one() {
    let folder = |args: &[&str]| Profiler::new().args(args).run().success().stdout;
    let shown = read(&["show", "sent.tar.gz", "--json"]).success().json();
    let mut original = Profiler::new().args(["show", RUN, "--json"]).run().success().json();
    // A packed run has no path for its page.
    original["html"] = shown["html"].clone();
    assert_eq!(shown, original);
    assert_eq!(
        read(&["show", "sent.tar.gz", "--csv"]).success().stdout,
        folder(&["show", RUN, "--csv"])
    );
    let _ = read(&["compare", "sent.tar.gz", RUN]).success();
    let reported = read(&["report", "sent.tar.gz"]).success().stdout("report.html");
    let page = fs::read_to_string(reported.folder().join("report.html")).unwrap();
    assert!(page.contains("</html>"));
    let _ = read(&["run", "--resume", "sent.tar.gz"]).code(2).stderr("tar -xzf");
    let _ = read(&["pack", RUN, "sent.tar.gz"]).code(2).stderr("exists");
}

/// A run with a log and one file in `files/`.
fn run_with(file: &str, text: &str) -> Profiler {
    let ran = Profiler::new()
        .file("s.rhai", "print(1)")
        .args(["run", "s.rhai", "--out", "run"])
        .run()
        .success();
    let program = Profiler::new();
    let copy = program.folder().join("run");
    assert!(
        std::process::Command::new("cp")
            .arg("-r")
            .arg(ran.folder().join("run"))
            .arg(&copy)
            .status()
            .unwrap()
            .success()
    );
    fs::create_dir_all(copy.join("logs")).unwrap();
    fs::create_dir_all(copy.join("files")).unwrap();
    fs::write(copy.join("logs/engine.log"), "the log").unwrap();
    fs::write(copy.join(file), text).unwrap();
    program
}

fn names(archive: &Path) -> Vec<String> {
    let listed = std::process::Command::new("tar")
        .arg("-tzf")
        .arg(archive)
        .output()
        .unwrap();
    String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn logs_are_left_out_unless_they_are_asked_for_and_no_secret_leaves() {
    let plain = run_with("files/a.txt", "nothing").args(["pack", "run"]).run().success();
    let listed = names(&plain.folder().join("run.tar.gz"));
    assert!(listed.contains(&"run/manifest.json".to_owned()) && listed.contains(&"run/files/a.txt".to_owned()));
    assert!(!listed.iter().any(|name| name.contains("logs")), "{listed:?}");
    // Even a run this small is reported with its size in KiB.
    let _ = plain.stderr(" KiB, without logs");
    let logs = run_with("files/a.txt", "nothing")
        .args(["pack", "run", "--logs"])
        .run()
        .success();
    assert!(names(&logs.folder().join("run.tar.gz")).contains(&"run/logs/engine.log".to_owned()));

    let key = format!("hf_{}", "a1B2".repeat(9));
    for (text, variable) in [
        (key.as_str(), ""),
        ("-----BEGIN PRIVATE KEY-----", ""),
        ("its word is open-sesame-77", "open-sesame-77"),
    ] {
        let packed = run_with("files/a.txt", text)
            .env("MY_TOKEN", variable)
            .args(["pack", "run"])
            .run()
            .code(3);
        let packed = packed
            .stderr("`files/a.txt` holds a secret")
            .stderr("--without files/a.txt")
            .nowhere(&key);
        assert!(!packed.folder().join("run.tar.gz").exists());
    }
    let without = run_with("files/a.txt", &key)
        .args(["pack", "run", "--without", "files"])
        .run()
        .success();
    assert!(
        !names(&without.folder().join("run.tar.gz"))
            .iter()
            .any(|name| name.contains("files"))
    );
    let linked = run_with("files/a.txt", "nothing");
    std::os::unix::fs::symlink("/etc/passwd", linked.folder().join("run/files/b.txt")).unwrap();
    let _ = linked.args(["pack", "run"]).run().code(1).stderr("symbolic link");
}

#[test]
fn a_file_that_was_made_to_harm_is_refused() {
    let archive = |kind: tar::EntryType, name: &str, size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..4].copy_from_slice(b"/etc");
        header.set_cksum();
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(header.as_bytes()).unwrap();
        packed.write_all(&[0; 1024]).unwrap();
        packed.finish().unwrap()
    };
    for (bytes, message) in [
        (archive(tar::EntryType::Regular, "../escape", 0), "escape"),
        (archive(tar::EntryType::Symlink, "run/link", 0), "is not a packed run"),
        (
            archive(tar::EntryType::Regular, "run/huge", 1 << 40),
            "as much as a run may write",
        ),
        (archive(tar::EntryType::Directory, "run/", 0), "manifest.json"),
        (vec![0x1f, 0x8b, 1, 2, 3], "broken"),
    ] {
        let shown = Profiler::new()
            .file("in/sent.tar.gz", bytes)
            .args(["show", "in/sent.tar.gz"])
            .run();
        assert_ne!(shown.code, Some(0), "{message}");
        let shown = shown.stderr(message);
        assert!(!shown.folder().join("escape").exists() && !shown.folder().join("in/escape").exists());
    }
}
