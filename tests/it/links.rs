//! A user opens run folders of strangers: no link in them is followed, for writing or for reading.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Outcome, Profiler, copy_run, temp};

/// A script that leaves a file in every folder of a run: `files/`, `tables/`, `logs/`, `memory/`, `loads/`, `modules/`.
const SCRIPT: &str = r#"
import "std/engines" as engines;
let engine = engines::describe("sim", #{});
engine.load(#{ concurrency: 1, requests: 2, input: 8, output: 4 });
engine.stop();
files::write("authorized_keys", "a stranger's key\n");
files::append("autostart.desktop", "[Desktop Entry]\n");
keep_table("t", ["a"], [#{ a: 1 }]);
1
"#;

/// A run as a stranger could send it: unfinished, so that `--resume` runs the folder's own script, with an empty
/// journal.
struct Stranger {
    temp: TempDir,
}

impl Stranger {
    fn new() -> Self {
        let temp = temp();
        fs::create_dir(temp.path().join("home")).unwrap();
        fs::write(temp.path().join("sent.rhai"), SCRIPT).unwrap();
        let stranger = Self { temp };
        stranger.profiler(&["run", "sent.rhai", "--out", "sent"]).success();
        let run = stranger.path("sent");
        let manifest = fs::read(run.join("manifest.json")).unwrap();
        let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
        manifest["status"] = json!("running");
        manifest["modules"] = json!({});
        fs::write(run.join("manifest.json"), manifest.to_string()).unwrap();
        fs::write(run.join("journal.jsonl"), "").unwrap();
        fs::remove_file(run.join("result.json")).unwrap();
        fs::remove_file(run.join("report.html")).unwrap();
        stranger
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// The names of the files in the user's home.
    fn home(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("home")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    fn profiler(&self, args: &[&str]) -> Outcome {
        Profiler::new().current_dir(self.temp.path()).args(args).run()
    }
}

#[test]
fn a_resumed_run_writes_nothing_through_its_folders() {
    for folder in ["files", "tables", "logs", "memory", "loads", "modules"] {
        let stranger = Stranger::new();
        let link = stranger.path("sent").join(folder);
        fs::remove_dir_all(&link).unwrap();
        symlink(stranger.path("home"), &link).unwrap();
        let outcome = stranger.profiler(&["run", "--resume", "sent"]);
        assert_eq!(stranger.home(), [""; 0], "{folder}: {}", outcome.stderr);
        outcome.code(1).stderr(&format!(
            "`sent/{folder}` is a symbolic link; links in a run folder are not followed"
        ));
    }
}

#[test]
fn a_resumed_run_appends_nothing_to_what_its_journal_leads_to() {
    let stranger = Stranger::new();
    let journal = stranger.path("sent/journal.jsonl");
    for (link, words) in [
        (symlink as fn(PathBuf, PathBuf) -> _, "is a symbolic link"),
        (|mine, journal| fs::hard_link(mine, journal), "is a hard link"),
    ] {
        let mine = stranger.path("home/mine");
        fs::write(&mine, "").unwrap();
        fs::remove_file(&journal).unwrap();
        link(mine.clone(), journal.clone()).unwrap();
        stranger.profiler(&["run", "--resume", "sent"]).code(1).stderr(words);
        assert_eq!(fs::read(mine).unwrap(), b"");
    }
}

#[test]
fn what_is_written_and_then_renamed_goes_through_no_link() {
    for (name, command) in [
        ("manifest.json.new", ["run", "--resume"].as_slice()),
        ("result.json.new", &["run", "--resume"]),
        ("files/authorized_keys.new", &["run", "--resume"]),
        ("tables/t.csv.new", &["run", "--resume"]),
        ("report.html.new", &["run", "--resume"]),
        ("report.html.new", &["report"]),
        ("page.html.new", &["report", "--html", "sent/page.html"]),
    ] {
        let stranger = Stranger::new();
        let mine = stranger.path("home/mine");
        fs::write(&mine, "precious").unwrap();
        symlink(&mine, stranger.path("sent").join(name)).unwrap();
        let args: Vec<&str> = command.iter().copied().chain(["sent"]).collect();
        stranger.profiler(&args).success();
        assert_eq!(fs::read_to_string(&mine).unwrap(), "precious", "{name}: {command:?}");
        let done = stranger.path("sent").join(name.strip_suffix(".new").unwrap());
        assert!(fs::symlink_metadata(done).unwrap().is_file(), "{name}: {command:?}");
    }
}

/// All files below a folder, relative to it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path).into_iter().map(|file| path.join(file))),
            false => all.push(path),
        }
    }
    let inside = |path: PathBuf| path.strip_prefix(folder).unwrap_or(&path).to_owned();
    all.into_iter().map(inside).collect()
}

#[test]
fn what_files_of_a_run_lead_to_is_shown_nowhere() {
    const SECRET: &str = "SECRET-HOST-FILE-7731";
    let temp = temp();
    let secret = temp.path().join("secret.txt");
    let mut tried = 0;
    for run in ["vllm-sweep", "vllm-breakdown"] {
        for name in files(&copy_run(run, &temp.path().join("run"))) {
            let sent = copy_run(run, &temp.path().join("run"));
            // A valid file with secret words: a reader that followed the link would show them.
            let text = fs::read_to_string(sent.join(&name)).unwrap();
            let words = ["GPU-", "Qwen", "vllm", "kv_pool", "request_throughput"];
            let text = words.iter().fold(text, |text, word| text.replace(word, SECRET));
            fs::write(&secret, text).unwrap();
            fs::remove_file(sent.join(&name)).unwrap();
            symlink(&secret, sent.join(&name)).unwrap();
            for args in [
                ["show"].as_slice(),
                &["show", "--json"],
                &["show", "--csv=tables/throughput"],
                &["report"],
            ] {
                Profiler::new().args(args).arg(&sent).run().nowhere(SECRET);
            }
            let page = fs::read_to_string(sent.join("report.html")).unwrap_or_default();
            assert!(!page.contains(SECRET), "{}", name.display());
            tried += 1;
        }
    }
    assert!(tried > 12, "{tried} files");
}

#[test]
fn what_is_endless_is_refused_at_once() {
    let temp = temp();
    let link = |path: &Path| symlink("/dev/zero", path).unwrap();
    let pipe = |path: &Path| nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap();
    // It takes no space on disk or in an archive.
    let sparse = |path: &Path| File::create(path).unwrap().set_len(1 << 40).unwrap();
    let kinds = [
        (&link as &dyn Fn(&Path), "is a symbolic link"),
        (&pipe, "is not a regular file"),
        (&sparse, "512 MiB"),
    ];
    for name in ["journal.jsonl", "manifest.json", "memory/engine-1.csv"] {
        for (make, why) in kinds {
            let sent = copy_run("vllm-sweep", &temp.path().join("run"));
            fs::remove_file(sent.join(name)).unwrap();
            make(&sent.join(name));
            Profiler::new().arg("report").arg(&sent).run().success();
            let shown = Profiler::new().arg("show").arg(&sent).run().success().stdout;
            let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(shown.contains(why), "{name}: {why}: {shown}");
        }
    }
}

#[test]
fn a_report_below_its_run_goes_through_no_link() {
    let stranger = Stranger::new();
    symlink(stranger.path("home"), stranger.path("sent/pictures")).unwrap();
    for option in ["--svg", "--png", "--html"] {
        let to = if option == "--html" {
            "sent/pictures/page.html"
        } else {
            "./sent/pictures"
        };
        let outcome = stranger.profiler(&["report", "sent", option, to]).code(1);
        outcome.stderr("`sent/pictures` is a symbolic link");
        assert_eq!(stranger.home(), [""; 0], "{option}");
    }
    // Outside the run folder, a link to a folder is the user's own.
    symlink(stranger.path("home"), stranger.path("mine")).unwrap();
    stranger
        .profiler(&["report", "sent", "--html", "mine/page.html"])
        .success();
    assert_eq!(stranger.home(), ["page.html"]);
}

#[test]
fn a_script_reads_its_tables_by_any_of_their_names_and_nothing_else() {
    let script = r#"
        let path = keep_table("t", ["a"], [#{ a: 1 }]);
        let outside = ["../mine.csv", "tables/../../mine.csv", "/etc/passwd", "tables/none.csv"];
        let refused = outside.map(|name| { let kind = ""; try { read_table(name); } catch (fault) { kind = fault.kind; } kind });
        [[path, "tables/t.csv", "./tables/t.csv"].map(|name| read_table(name)), refused]
    "#;
    for out in ["out", "./out", "/absolute/out"] {
        let profiler = Profiler::new().file("main.rhai", script).file("mine.csv", "a\n1\n");
        let out = match out.strip_prefix('/') {
            Some(out) => profiler.folder().join(out),
            None => PathBuf::from(out),
        };
        let outcome = profiler
            .args(["run", "main.rhai", "--json", "--out"])
            .arg(out)
            .run()
            .success();
        let row = json!([{ "a": 1 }]);
        let refused = json!("not_allowed");
        assert_eq!(
            outcome.json()["result"],
            json!([[row, row, row], [refused, refused, refused, refused]])
        );
    }
}

#[test]
fn a_table_that_is_a_link_hides_no_other() {
    let temp = temp();
    let run = copy_run("vllm-sweep", &temp.path().join("run"));
    symlink("/etc/hostname", run.join("tables/other.csv")).unwrap();
    let show = |table: &str| {
        Profiler::new()
            .arg("show")
            .arg(&run)
            .arg(format!("--csv={table}"))
            .run()
    };
    let words = "other.csv` is a symbolic link";
    show("tables/throughput").success().stdout("concurrency").stderr(words);
    show("tables/other").code(2).stderr(words);
}

#[test]
fn a_link_to_the_folder_itself_is_the_users_own() {
    let temp = temp();
    let run = copy_run("vllm-sweep", &temp.path().join("run"));
    symlink(&run, temp.path().join("latest")).unwrap();
    Profiler::new()
        .arg("report")
        .arg(temp.path().join("latest"))
        .run()
        .success();
    assert!(run.join("report.html").is_file());
}
