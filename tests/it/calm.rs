//! A user interrupts what reads and writes, types ahead, or has a full disk: nothing is left, nothing is lost, nothing is
//! allowed that was not asked for.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Profiler, copy_run, eventually, needs_git, temp};

/// A packed run of so many files that it takes long to unpack.
fn many_files() -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    header.set_mode(0o644);
    for number in 0..60_000 {
        archive
            .append_data(&mut header, format!("run/tables/{number}.csv"), &b""[..])
            .unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// Processes that have this text in their command line.
fn running(text: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines
        .filter(|line| memchr::memmem::find(line, text.as_bytes()).is_some())
        .count()
}

#[test]
fn a_signal_ends_what_only_reads_and_writes_within_two_seconds() {
    if !needs_git() {
        return;
    }
    // It accepts, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("git+http://{}/it.git", listener.local_addr().unwrap());
    let packed = many_files();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        for args in [
            vec!["add", "--name", "it", &*address],
            vec!["update", "it"],
            vec!["show", "many.tar.gz"],
            vec!["report", "many.tar.gz"],
            vec!["compare", "many.tar.gz", "many.tar.gz"],
            vec!["pack", "run", "packed.tar.gz"],
            vec!["doctor"],
        ] {
            let temporary = temp();
            // A daemon of its own: `git` may still wait for the other one.
            let daemon = TcpListener::bind("127.0.0.1:0").unwrap();
            let lock = format!(
                "[added.it]\nsource = {address:?}\nmain = \"it.rhai\"\n[added.it.files]\n\"it.rhai\" = \"0\"\n"
            );
            let program = Profiler::new()
                .file("many.tar.gz", &packed)
                .file("data/profiler/profiler.lock", lock)
                .env("TMPDIR", temporary.path())
                // For `doctor`, which asks the daemon.
                .env("DOCKER_HOST", format!("tcp://{}", daemon.local_addr().unwrap()))
                .args(&args);
            if args[0] == "pack" {
                copy_run("tgi-oom", &program.folder().join("run"));
                let many = program.folder().join("run/tables");
                fs::create_dir_all(&many).unwrap();
                for number in 0..40 {
                    fs::write(many.join(format!("{number}.csv")), "a,b\n1,2\n".repeat(200_000)).unwrap();
                }
            }
            let (mut child, folder) = program.spawn();
            let is_left = || {
                let parts = fs::read_dir(temporary.path()).unwrap().next().is_some();
                parts || folder.path().join("packed.tar.gz").exists()
            };
            let began = || match args[0] {
                // It has nothing to leave: it waits for the daemon, or for its first line.
                "doctor" => true,
                _ => is_left(),
            };
            eventually("it has begun", began);
            if ["add", "update"].contains(&args[0]) {
                eventually("git asks", || running(&address[4..]) > 0);
            }
            if args[0] == "doctor" {
                let connection = daemon.accept().unwrap();
                std::mem::forget(connection);
            }
            let sent = Instant::now();
            kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
            let status = child.wait().unwrap();
            assert!(
                sent.elapsed() < Duration::from_secs(2),
                "{args:?} {signal}: {:?}",
                sent.elapsed()
            );
            assert_eq!(status.code(), Some(128 + signal as i32), "{args:?}");
            assert!(!is_left(), "{args:?} {signal} leaves a temporary file");
            eventually("no process is left", || running(&address[4..]) == 0);
        }
    }
}

#[test]
fn what_was_added_stays_as_it_was_whatever_fails() {
    let home = temp();
    let start = || {
        Profiler::new()
            .env("HOME", home.path())
            .env("XDG_DATA_HOME", home.path().join("data"))
    };
    let script = home.path().join("it.rhai");
    fs::write(&script, "//! One.\nprint(1);").unwrap();
    let _ = start().args(["add"]).arg(&script).run().success();
    let data = home.path().join("data/profiler");
    let kept = data.join("scripts/it/it.rhai");

    // A limit on the size of files stands for a full disk.
    fs::write(&script, format!("//! Two.\nprint(2);\n//{}", "x".repeat(9000))).unwrap();
    let failing = "ulimit -f 4 && exec \"$0\" update it";
    let failed = std::process::Command::new("bash")
        .args(["-c", failing, env!("CARGO_BIN_EXE_profiler")])
        .env("HOME", home.path())
        .env("XDG_DATA_HOME", home.path().join("data"))
        .output()
        .unwrap();
    assert!(!failed.status.success());
    assert!(fs::read_to_string(&kept).unwrap().contains("One"));
    let _ = start().args(["run", "it"]).run().success().stdout("1");
    let names = fs::read_dir(data.join("scripts")).unwrap();
    assert_eq!(names.count(), 1, "no half of an update is left");

    // So it is when all but the lock can be written.
    let in_the_way = data.join("profiler.lock.new");
    fs::create_dir_all(in_the_way.join("x")).unwrap();
    let _ = start().args(["update", "it"]).run().code(1);
    let _ = start().args(["remove", "it"]).run().code(1);
    let _ = start().args(["run", "it"]).run().success().stdout("1");
    assert_eq!(fs::read_dir(data.join("scripts")).unwrap().count(), 1);
    fs::remove_dir_all(&in_the_way).unwrap();

    // A link in its place runs nothing else.
    let other = home.path().join("other.rhai");
    fs::write(&other, "print(\"other\")").unwrap();
    fs::remove_file(&kept).unwrap();
    std::os::unix::fs::symlink(&other, &kept).unwrap();
    let _ = start().args(["run", "it"]).run().code(3);
    fs::remove_file(&kept).unwrap();
    fs::write(&kept, "//! One.\nprint(1);").unwrap();

    // A lock that was tampered with leads nowhere else.
    let lock = data.join("profiler.lock");
    let text = fs::read_to_string(&lock).unwrap();
    for changed in [
        text.replace("[added.it]", "[added.\"../../victim\"]")
            .replace("[added.it.files]", "[added.\"../../victim\".files]"),
        text.replace("\"it.rhai\" =", "\"../../../victim/file.rhai\" ="),
    ] {
        assert_ne!(changed, text);
        fs::create_dir_all(home.path().join("victim")).unwrap();
        fs::write(&lock, changed).unwrap();
        for args in [["remove", "../../victim"], ["update", "it"], ["remove", "it"]] {
            let _ = start().args(args).run().code(2);
        }
        assert!(home.path().join("victim").is_dir());
    }
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &lock).unwrap();
    let _ = start().args(["list"]).run().code(2);
}

#[test]
fn a_lock_keeps_no_secret_of_an_address() {
    for address in [
        "https://me@example.org/it.rhai",
        "https://example.org/it.rhai?token=abcdefgh1234",
        "git+https://hf_SECRETSECRET123@example.org/it",
        "git+https://me:pass@example.org/it",
        "https://example.org/sk-AbCdEfGhAbCdEfGhAbCdEfGh/it.rhai",
    ] {
        let _ = Profiler::new().args(["add", address]).run().code(2).stderr("secret");
    }
    let _ = Profiler::new()
        .env("HF_TOKEN", "hunter2hunter2")
        .args(["add", "https://example.org/hunter2%68unter2/it.rhai"])
        .run()
        .code(2)
        .stderr("secret");
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    let mut dialogue = Profiler::new()
        .file(
            "want.rhai",
            "print(\"begun\"); sleep(1.0); process::start(#{ command: [\"touch\", \"made\"] }).wait();",
        )
        .args(["run", "want.rhai", "--out", "run"])
        .on_terminal();
    dialogue.expect("begun");
    dialogue.line("y");
    dialogue.expect("N: no");
    dialogue.line("n");
    let made = dialogue.folder().join("made");
    dialogue.expect("not allowed");
    assert!(!made.exists());
}

#[test]
fn the_history_of_the_repl_and_what_it_saves_keep_no_secret() {
    let key = "hf_AbCdEfGhAbCdEfGhAbCdEfGhAbCdEfGh";
    let mut dialogue = Profiler::new().arg("repl").on_terminal();
    dialogue.expect("leaves");
    dialogue.line(&format!("let key = \"{key}\";"));
    dialogue.line(":save saved.rhai");
    dialogue.line("1 + 41");
    dialogue.expect("42");
    for file in ["state/profiler/history", "saved.rhai"] {
        let text = fs::read_to_string(dialogue.folder().join(file)).unwrap();
        assert!(text.contains("let key") && !text.contains(key), "{file}: {text}");
    }
}

#[test]
fn a_history_that_is_a_link_is_neither_read_nor_written() {
    let program = Profiler::new()
        .file("other", "#V2\nmine\n")
        .file("state/profiler/x", "")
        .arg("repl");
    let other = program.folder().join("other");
    std::os::unix::fs::symlink(&other, program.folder().join("state/profiler/history")).unwrap();
    let mut dialogue = program.on_terminal();
    dialogue.expect("not a regular file");
    dialogue.line("1 + 41");
    dialogue.expect("42");
    assert_eq!(fs::read_to_string(&other).unwrap(), "#V2\nmine\n");
}
