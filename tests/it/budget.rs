//! A user opens files of strangers at each door that reads bytes from outside: the program holds less than 1 GiB, ends
//! within seconds, and writes nothing through what lies at the place of its page.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Outcome, Profiler, copy_run, needs_docker, needs_git};

const GIB: u64 = 1 << 30;

/// What each door may take on a quiet machine is seconds; a busy one needs more.
const TIME: Duration = Duration::from_secs(120);

/// Runs the program to its end, which is not success; fails if it held 1 GiB or took long.
#[track_caller]
fn refuses(door: &str, program: Profiler) -> Outcome {
    let began = Instant::now();
    let outcome = program.measured().run();
    let (peak, took) = (outcome.peak(), began.elapsed());
    eprintln!("{door}: {} MiB, {:.1} s", peak >> 20, took.as_secs_f64());
    assert!(peak < GIB && took < TIME, "{door}: {} MiB, {took:?}", peak >> 20);
    assert!(
        ![0, 101, 134, 137].contains(&outcome.code.unwrap_or(0)),
        "{door}: {}",
        outcome.stderr
    );
    outcome
}

/// A text, and how many times it stands there.
type Part<'a> = (&'a [u8], usize);

/// A file of texts, each so many times. It is written bit by bit: scripts of other tests are stopped if this process
/// holds much.
fn fill(path: &Path, parts: &[Part<'_>]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = fs::File::create(path).unwrap();
    for (text, times) in parts {
        let many = text.repeat(10_000.min(*times));
        for _ in 0..times / 10_000 {
            file.write_all(&many).unwrap();
        }
        file.write_all(&text.repeat(times % 10_000)).unwrap();
    }
}

/// A list of 100 MB whose values would take ten times as much.
const VALUES: [Part<'_>; 3] = [(b"[", 1), (b"{},", 33_000_000), (b"{}]", 1)];

#[test]
fn files_of_other_tools() {
    let files: [(&str, &[Part<'_>]); 6] = [
        ("values.json", &VALUES),
        ("strings.json", &[(b"[", 1), (b"\"a\",", 20_000_000), (b"1]", 1)]),
        ("lines.jsonl", &[(b"{\"a\":1}\n", 8_000_000)]),
        ("deep.json", &[(b"[", 5_000_000)]),
        ("columns.csv", &[(b",", 50_000_000), (b"\n1\n", 1)]),
        ("quote.csv", &[(b"a,b\n\"", 1), (b"x", 100_000_000)]),
    ];
    for (name, parts) in files {
        for command in ["show", "compare"] {
            // Both read it in the same way; one is enough for the slow ones.
            if command == "show" || name == "deep.json" {
                let args = [command, name, name];
                let program = Profiler::new();
                fill(&program.folder().join(name), parts);
                let _ = refuses(name, program.args(&args[..2 + usize::from(command == "compare")])).code(2);
            }
        }
    }
}

#[test]
fn files_of_a_run() {
    let run = |name: &str| {
        let program = Profiler::new();
        copy_run("tgi-oom", &program.folder().join("run"));
        (program.folder().join("run").join(name), program.args(["show", "run"]))
    };
    // The output names the file that holds too much.
    let shows = |program: Profiler, file: &str| {
        let shown = program.measured().run();
        assert!(shown.peak() < GIB, "{file}: {} MiB", shown.peak() >> 20);
        let _ = shown.success().stdout(file);
    };
    let (path, program) = run("manifest.json");
    let set: [&[Part<'_>]; 3] = [&[(b"{\"schema\":1,\"set\":", 1)], &VALUES, &[(b"}", 1)]];
    fill(&path, &set.concat());
    shows(program, "manifest.json");
    let (path, program) = run("journal.jsonl");
    // It has no line end, and no bytes on the disk.
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    shows(program, "journal.jsonl");
}

#[test]
fn files_of_a_model() {
    let config = r#"{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"num_hidden_layers":2,
        "num_attention_heads":4,"num_key_value_heads":4,"intermediate_size":128,"vocab_size":1000}"#;
    let dimensions = 45_000_000;
    let (before, after) = (r#"{"t":{"dtype":"F32","shape":["#, r#"1],"data_offsets":[0,4]}}"#);
    let length = (before.len() + 2 * dimensions + after.len()) as u64;
    let program = Profiler::new().file("model/config.json", config);
    let header: [Part<'_>; 4] = [
        (&length.to_le_bytes(), 1),
        (before.as_bytes(), 1),
        (b"1,", dimensions),
        (after.as_bytes(), 1),
    ];
    fill(&program.folder().join("model/model.safetensors"), &header);
    let _ = refuses("safetensors: dimensions", program.args(["estimate", "model"])).stderr("dimensions");
    let program = Profiler::new();
    let config: [Part<'_>; 3] = [(b"{\"a\":[", 1), (b"{\"a\":1},", 1_500_000), (b"1]}", 1)];
    fill(&program.folder().join("model/config.json"), &config);
    let _ = refuses("config", program.args(["estimate", "model"]));
}

#[test]
fn tokenizers() {
    let plain: serde_json::Value = serde_json::from_slice(
        &fs::read(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/attacks/chat-template-bomb/tokenizer.json"
        ))
        .unwrap(),
    )
    .unwrap();
    // The tokenizer with these bytes in place of one of its parts.
    let run = |part: &str, value: &[Part<'_>]| {
        let mut changed = plain.clone();
        changed[part] = "HERE".into();
        let text = changed.to_string();
        let (before, after) = text.split_once("\"HERE\"").unwrap();
        let program = Profiler::new().file(
            "s.rhai",
            r#"prompt::tokens(2000, #{ tokenizer: "./model", form: "text" }).count"#,
        );
        let around: [&[Part<'_>]; 3] = [&[(before.as_bytes(), 1)], value, &[(after.as_bytes(), 1)]];
        fill(&program.folder().join("model/tokenizer.json"), &around.concat());
        program.args(["run", "s.rhai", "--max-time", "60s"])
    };
    let replace = serde_json::json!({ "type": "Replace", "pattern": { "String": "e" }, "content": "e".repeat(100) });
    let replaces = serde_json::json!({ "type": "Sequence", "normalizers": vec![replace; 8] }).to_string();
    let _ = refuses("normalizer", run("normalizer", &[(replaces.as_bytes(), 1)]));
    let prepend: [Part<'_>; 3] = [
        (br#"{"type":"Prepend","prepend":""#, 1),
        (b"x", 40_000_000),
        (b"\"}", 1),
    ];
    let _ = refuses("prepend", run("normalizer", &prepend));
    let template: [Part<'_>; 5] = [
        (
            br#"{"type":"TemplateProcessing","pair":[],"special_tokens":{"[A]":{"id":"[A]","ids":["#,
            1,
        ),
        (b"1,", 4_000_000),
        (br#"1],"tokens":["#, 1),
        (br#""x","#, 4_000_000),
        (
            br#""x"]}},"single":[{"SpecialToken":{"id":"[A]","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]}"#,
            1,
        ),
    ];
    let _ = refuses("template", run("post_processor", &template));
    // Patterns that would take for ever are given up by the library, or done.
    for pattern in [
        "(a*)*b",
        "(?:[a-z]+ ?)+$(?!x)1",
        "((a{1,1000}){1,1000}){1,1000}",
        "(.*)*(?=!)",
        "(\\w+\\s?)*\\1!",
    ] {
        let split = serde_json::json!({
            "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false,
        });
        let split = split.to_string();
        let program = run("pre_tokenizer", &[(split.as_bytes(), 1)]);
        let began = Instant::now();
        let outcome = program.measured().run();
        assert!(outcome.peak() < GIB && began.elapsed() < TIME, "{pattern}");
        assert!(
            [0, 1, 2, 124].contains(&outcome.code.unwrap()),
            "{pattern}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn lists_of_jobs_and_locks() {
    let nested = (1..12).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, at| {
        format!("{text}a{at}: &a{at} [{}]\n", vec![format!("*a{}", at - 1); 9].join(","))
    });
    for (door, text) in [
        ("YAML: aliases", nested),
        ("YAML: depth", "[".repeat(1_000_000)),
        ("YAML: items", format!("jobs: [{}]", "{},".repeat(300_000))),
    ] {
        let program = Profiler::new().file("jobs.yaml", text);
        let _ = refuses(door, program.args(["fleet", "jobs.yaml", "--dry-run"]));
    }
    let program = Profiler::new();
    let jobs: [Part<'_>; 3] = [(b"jobs: [", 1), (b"{},", 13_000_000), (b"]", 1)];
    fill(&program.folder().join("jobs.yaml"), &jobs);
    let _ = refuses("YAML: size", program.args(["fleet", "jobs.yaml", "--dry-run"]));
    for (door, text) in [
        ("lock: depth", format!("a={}", "[".repeat(2_000_000))),
        ("lock: keys", format!("{}a=1", "a.".repeat(1_900_000))),
        ("lock: size", "#".repeat(5 << 20)),
    ] {
        let program = Profiler::new().file("data/profiler/profiler.lock", text);
        let _ = refuses(door, program.arg("list")).code(if door == "lock: size" { 1 } else { 2 });
    }
}

/// Stands for `git`: what it does when it fetches is in `$DOES`.
const GIT: &str = "#!/bin/bash
case \" $* \" in *' fetch '*) eval \"$DOES\" ;; *' init '*) ;; *) exec \"$REAL\" \"$@\" ;; esac
";

fn with_git(does: &str) -> Profiler {
    let program = Profiler::new().file("bin/git", GIT);
    let bin = program.folder().join("bin");
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let program = program.env("PATH", path).env("REAL", "/usr/bin/git").env("DOES", does);
    program.args(["add", "git+https://127.0.0.1:1/it.git"])
}

#[test]
fn what_git_says_and_takes() {
    if !needs_git() {
        return;
    }
    for (door, does) in [
        ("git: output", "exec cat /dev/zero"),
        ("git: memory", "exec python3 -c 'x = bytearray(600 << 20)'"),
        ("git: a file", "exec head -c 300M /dev/zero > big"),
    ] {
        let outcome = refuses(door, with_git(does));
        assert!(!outcome.stderr.contains('\0'), "{door}");
    }
}

/// What does not end, ends after the minute that each step of Git has.
#[test]
#[ignore = "two minutes: `.ci/long` runs it"]
fn git_that_does_not_end() {
    for does in ["exec cat /dev/zero >&2", "exec sleep 1000"] {
        let outcome = refuses(does, with_git(does));
        assert!(outcome.stderr.contains("60 s"), "{does}: {}", outcome.stderr);
    }
}

/// Logs of an engine meet the patterns of an adapter: long lines, and patterns that others would try for ever.
#[test]
fn patterns_of_an_adapter() {
    let mut tried = String::new();
    for number in 0..60 {
        tried += &format!("\"(?:\\\\w+\\\\s?)*{number}(?:[a-z]{{1,90}}){{1,9}}!\", ");
    }
    let adapter = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/stdlib/engines/sim.rhai")).unwrap();
    assert!(adapter.contains("fn failures()"));
    let adapter = adapter.replace("fn failures()", "fn old_failures()")
        + format!("\nfn failures() {{ [{tried}].map(|one| #{{ pattern: one, verdict: \"oom\", cause: \"cuda\" }}) }}")
            .as_str();
    let program = Profiler::new().file("mine.rhai", adapter).file(
        "s.rhai",
        "import \"std/engines\" as engines;\nlet e = engines::describe(\"./mine.rhai\", #{ model: \"m\" }); print(e.probe(#{ input: 9, output: 1 }).verdict);",
    );
    let outcome = program.args(["run", "s.rhai", "--max-time", "60s"]).measured().run();
    assert!(outcome.peak() < GIB, "{} MiB", outcome.peak() >> 20);
    assert_ne!(outcome.code, Some(101), "{}", outcome.stderr);
}

#[test]
fn nothing_is_written_through_what_lies_at_the_place_of_the_page() {
    let program = Profiler::new().file("victim", "mine").file("folder/x", "");
    let folder = program.folder().to_owned();
    let run = folder.join("run");
    let page = run.join("report.html");
    let place: [(&str, &dyn Fn()); 5] = [
        ("a link", &|| symlink(folder.join("victim"), &page).unwrap()),
        ("a link to nothing", &|| symlink(folder.join("made"), &page).unwrap()),
        ("a hard link", &|| fs::hard_link(folder.join("victim"), &page).unwrap()),
        ("a pipe", &|| {
            nix::unistd::mkfifo(&page, nix::sys::stat::Mode::S_IRWXU).unwrap()
        }),
        ("a folder", &|| fs::create_dir(&page).unwrap()),
    ];
    for (what, put) in place {
        copy_run("tgi-oom", &run);
        let _ = fs::remove_file(&page);
        put();
        let ran = Profiler::new().current_dir(&folder).args(["report", "run"]).run();
        assert_eq!(fs::read_to_string(folder.join("victim")).unwrap(), "mine", "{what}");
        assert!(!folder.join("made").exists(), "{what}");
        match what {
            "a folder" => drop(ran.code(1)),
            _ => {
                let _ = ran.success();
                assert!(fs::symlink_metadata(&page).unwrap().is_file(), "{what}");
            }
        }
        let left = fs::read_dir(&run).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".new")
        });
        assert_eq!(left.count(), 0, "{what}");
    }
}

/// A container writes without line ends, faster than anybody reads, and paints the terminal.
#[test]
fn logs_of_a_container() {
    if !needs_docker() {
        return;
    }
    let image = crate::support::image::shell();
    let flood = "printf '\\033]0;PWN\\007\\033[2J'; x=$(printf %0100000d 0); while :; do printf %s $x; done";
    let script = format!(
        "let c = docker::start(#{{ image: {image:?}, args: [\"-c\", {flood:?}] }}); sleep(6); let lines = c.logs(#{{ last: 3 }}); print(lines.len()); for line in lines {{ print(line.sub_string(0, 50)); }} c.stop();"
    );
    let program = Profiler::new().file("s.rhai", script);
    let args = ["run", "s.rhai", "--out", "run", "--max-disk", "50MB", "--allow"];
    let allow = format!("image={image},entrypoint");
    let began = Instant::now();
    let outcome = program.args(args).arg(allow).measured().run();
    let (peak, took) = (outcome.peak(), began.elapsed());
    eprintln!(
        "container: {} MiB, {took:?}, {:?}: {}",
        peak >> 20,
        outcome.code,
        outcome.stderr
    );
    assert!(peak < GIB && took < TIME);
    assert_ne!(outcome.code, Some(101));
    assert!(!outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'));
    let logs = fs::read_dir(outcome.folder().join("run/logs")).unwrap();
    let bytes: u64 = logs.map(|log| log.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 60_000_000, "{bytes}");
    std::io::stderr().flush().unwrap();
}
