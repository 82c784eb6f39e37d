//! A newcomer follows the README and the book (`docs`): every command and every script runs, the output shown is the
//! output printed, and every link resolves.
//!
//! The blocks of a page run in order in one folder. The words after "```" say how a block is used:
//!
//! | block | |
//! |---|---|
//! | `sh` | shell commands, which must all succeed |
//! | `sh exit=N` | the last command exits with this status |
//! | `sh needs=NAME` | as `sh`; the page is skipped where this machine lacks that program |
//! | `sh dry-run` | needs a GPU, a model or an image: `--dry-run` is added |
//! | `sh server` | as `sh`, while a server listens on 127.0.0.1:8000 |
//! | `sh background` | a server that runs until the end of the page |
//! | `sh read` | needs something of the reader's: only the options of the program's commands are read |
//! | `repl` | lines for `profiler repl` |
//! | `text` | the output of the previous block; a line `…` stands for any lines |
//! | `text NAME` | the output of `profiler show` for that folder in `tests/data/runs` |
//! | `rhai` | a script, which must succeed |
//! | `rhai NAME.rhai` | a script for the following commands, which `profiler check` accepts |
//! | `rhai NAME.part`, `yaml FILE`, `entries FILE`, … | a file for the following commands |

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use regex::Regex;
use tempfile::TempDir;

use crate::support::{Profiler, SHARED_STATE, model, needs_program, temp};

/// One test per page, so that they run in parallel.
macro_rules! pages {
    ($($name:ident $path:literal)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(
            #[test]
            fn $name() {
                Page::new($path).read();
            }
        )*
    };
}

pages! {
    readme "README.md"
    install "docs/install.md"
    tutorial "docs/tutorial.md"
    recipes "docs/recipes.md"
    how_it_decides "docs/how-it-decides.md"
    api "docs/api.md"
    commands "docs/commands.md"
    comparison "docs/comparison.md"
    faq "docs/faq.md"
    from_hpml "docs/from-hpml.md"
    from_llm_sizer "docs/from-llm-sizer.md"
    from_tensorrt_graphs "docs/from-tensorrt-graphs.md"
    from_tgi_profiler "docs/from-tgi-profiler.md"
    from_the_profiling_guide "docs/from-the-profiling-guide.md"
    models "docs/models.md"
    parity "docs/parity.md"
    permissions "docs/permissions.md"
    predecessors "docs/predecessors.md"
    real_runs "docs/real-runs.md"
    samples "docs/samples.md"
    servers "docs/servers.md"
    sharing "docs/sharing.md"
    tune "docs/tune.md"
    benchmarks "benches/README.md"
    contributing "CONTRIBUTING.md"
    scripts "scripts/README.md"
    adapters "stdlib/engines/README.md"
    clusters "stdlib/clusters/README.md"
    probes "stdlib/probes/README.md"
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text_of(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Markdown events of a file.
fn markdown(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// A fenced block: the words after "```", and its lines.
struct Block {
    words: Vec<String>,
    text: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open = false;
    for event in markdown(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(words))) => {
                open = true;
                found.push(Block {
                    words: words.split_whitespace().map(str::to_owned).collect(),
                    text: String::new(),
                });
            }
            Event::Text(text) if open => found.last_mut().unwrap().text.push_str(&text),
            Event::End(TagEnd::CodeBlock) => open = false,
            _ => {}
        }
    }
    found
}

/// A page whose blocks are being run.
struct Page {
    path: &'static str,
    folder: TempDir,
    /// The port used in place of 8000, which may be taken.
    port: u16,
    servers: Vec<Child>,
    /// The output of the previous block.
    printed: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // Both fail if the server has already exited and been reaped.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Page {
    /// Prepares a folder with the files of a checkout, a model to estimate, and a model for dry runs only.
    fn new(path: &'static str) -> Self {
        let folder = temp();
        for name in ["docs", "scripts", "tests"] {
            std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).unwrap();
        }
        std::fs::create_dir_all(folder.path().join("models/llama-8b")).unwrap();
        std::fs::write(folder.path().join("models/my.gguf"), "").unwrap();
        let shape = root().join("tests/data/shapes/llama-3.1-8b.config.json");
        std::fs::copy(shape, folder.path().join("models/llama-8b/config.json")).unwrap();
        std::fs::write(folder.path().join("models/llama-8b/tokenizer.json"), model::tokenizer()).unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self {
            path,
            folder,
            port: free.local_addr().unwrap().port(),
            servers: Vec::new(),
            printed: String::new(),
        }
    }

    fn read(mut self) {
        let blocks = blocks(&text_of(self.path));
        let words = blocks.iter().flat_map(|block| &block.words);
        let needed: BTreeSet<&str> = words.filter_map(|word| word.strip_prefix("needs=")).collect();
        // Later blocks use what those of the program made.
        if !needed.into_iter().all(needs_program) {
            return;
        }
        for block in blocks {
            let words: Vec<&str> = block.words.iter().map(String::as_str).collect();
            match words.as_slice() {
                // This test is itself run by that command.
                ["sh"] if block.text.trim() == "cargo test" => {}
                ["sh"] => self.run(&block.text, 0),
                ["sh", "dry-run"] => self.run(&dry(&block.text), 0),
                ["sh", "server"] => {
                    self.serve(
                        "profiler sim --profile llama-8b-24gb-vllm --max-model-len 8000 --time-scale 0.001 --port 8000",
                    );
                    self.run(&block.text, 0);
                }
                ["sh", "background"] => self.serve(&block.text),
                ["sh", "read"] => self.run(&read_only(&block.text), 0),
                ["repl"] => {
                    let lines = block.text.lines().map(|line| line.strip_prefix("> ").unwrap_or(line));
                    let lines: Vec<_> = lines.chain(["END"]).collect();
                    self.run(&format!("profiler repl <<'END'\n{}", lines.join("\n")), 0);
                }
                ["sh", word] => match word.split_once('=').unwrap() {
                    ("exit", status) => self.run(&block.text, status.parse().unwrap()),
                    ("needs", _) => self.run(&block.text, 0),
                    _ => panic!("{}: {word}", self.path),
                },
                ["text"] => self.printed(&block.text),
                ["text", run] => {
                    self.run(&format!("profiler show tests/data/runs/{run}"), 0);
                    self.printed(&block.text);
                }
                ["rhai"] => {
                    std::fs::write(self.folder.path().join("block.rhai"), &block.text).unwrap();
                    self.run("profiler run block.rhai", 0);
                }
                [language, file] => {
                    std::fs::write(self.folder.path().join(file), &block.text).unwrap();
                    if *language == "rhai" && file.ends_with(".rhai") {
                        self.run(&format!("profiler check {file}"), 0);
                    }
                }
                _ => panic!("{}: a block that nothing tests:\n{}", self.path, block.text),
            }
        }
    }

    /// A shell with the tested program on its path, `HOME` in the page's folder, and no hub.
    fn shell(&self, commands: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_profiler"));
        let path = std::env::var("PATH").unwrap_or_default();
        let commands = commands
            .replace("cargo run --release -- ", "profiler ")
            .replace(":8000", &format!(":{}", self.port))
            .replace("--port 8000", &format!("--port {}", self.port));
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", &commands])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
            .env("HOME", self.folder.path())
            .env("XDG_CACHE_HOME", self.folder.path().join("cache"))
            .env("XDG_STATE_HOME", SHARED_STATE)
            .envs([("NO_COLOR", "1"), ("LC_ALL", "C.UTF-8"), ("HF_HUB_OFFLINE", "1")])
            .stdin(Stdio::null());
        for name in ["HF_HOME", "HF_TOKEN", "OPENAI_API_KEY", "XDG_DATA_HOME"] {
            shell.env_remove(name);
        }
        shell
    }

    fn run(&mut self, commands: &str, status: i32) {
        let output = self.shell(&quick(commands)).output().unwrap();
        self.printed = [output.stdout, output.stderr]
            .map(|stream| String::from_utf8(stream).unwrap())
            .join("\n");
        let (path, printed) = (self.path, &self.printed);
        let expected = if lacks_gpu(commands, printed) {
            Some(3)
        } else {
            Some(status)
        };
        assert_eq!(output.status.code(), expected, "{path}\n{commands}\n{printed}");
    }

    /// Starts a server and waits until it is ready.
    fn serve(&mut self, command: &str) {
        let mut shell = self.shell(&format!("exec {command}"));
        let mut server = shell.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
        self.servers.push(server);
        let ready = log.any(|line| line.is_ok_and(|line| line.contains("startup complete")));
        assert!(ready, "{}: not ready: {command}", self.path);
        // Drain the log, so that the pipe cannot fill up.
        std::thread::spawn(move || log.for_each(drop));
    }

    /// Fails unless these lines were printed in this order.
    #[track_caller]
    fn printed(&self, shown: &str) {
        // Elapsed times differ by machine.
        let times = Regex::new(r"(?m), \d+:\d\d$").unwrap();
        let (printed, shown) = (times.replace_all(&self.printed, ""), times.replace_all(shown, ""));
        let mut rest = printed.as_ref();
        for part in shown.split("…\n").filter(|part| !part.trim().is_empty()) {
            let (_, after) = rest
                .split_once(part.trim_end())
                .unwrap_or_else(|| panic!("{}: not printed any more:\n{part}\nbut:\n{printed}", self.path));
            rest = after;
        }
    }
}

/// Whether a dry run names GPUs that this machine lacks, and lacks nothing else.
fn lacks_gpu(commands: &str, printed: &str) -> bool {
    if commands.starts_with("profiler fleet") && printed.contains("no host has ") {
        return !["/dev/nvidiactl", "/dev/kfd"]
            .iter()
            .any(|device| Path::new(device).exists());
    }
    let names_gpus = commands.contains("--gpus") || commands.contains("gpus=");
    let only = !printed.contains("not allowed") && printed.contains("  missing: no ");
    names_gpus && only && printed.contains("dry run: nothing was started")
}

/// Words of the predecessors' rows that stand for something of the reader's, and what is taken here.
const PLACEHOLDERS: [(&str, &str); 30] = [
    ("show RUN --hpml FOLDER", "show done --hpml studies"),
    ("show RUN --vllm-sweep FOLDER", "show done --vllm-sweep swept"),
    ("--resume-from", "--resume-other true --resume-from"),
    (
        "profile_res_….json",
        "tests/data/runs/vllm-neighbours/profile_res_20261123_212120.json",
    ),
    ("results_….json", "tests/data/foreign/tensorrt-graphs-matrix.json"),
    ("batch-bench-results-….csv", "tests/data/foreign/llm-sizer-batch-39.csv"),
    ("validation-results.csv", "tests/data/foreign/llm-sizer-validation.csv"),
    (
        "report gpu_memory_data.json",
        "report tests/data/foreign/hpml-gpu-memory.json",
    ),
    (
        "report kv_cache_data.json",
        "report tests/data/foreign/hpml-kv-cache.json",
    ),
    ("report summary.csv", "report tests/data/foreign/vllm-bench-summary.csv"),
    ("show FOLDER", "show tests/data/foreign/vllm-sweep"),
    ("show RUN", "show tests/data/runs/vllm-sweep"),
    ("report RUN", "report tests/data/runs/vllm-breakdown"),
    (
        "compare RUN",
        "compare tests/data/runs/vllm-breakdown --model models/llama-8b",
    ),
    (
        "compare FILE …",
        "compare tests/data/foreign/llm-sizer-transformers.json",
    ),
    ("show FILE", "show tests/data/foreign/llm-sizer-2.0.json"),
    ("--model FOLDER", "--model models/llama-8b"),
    ("--model M", "--model models/llama-8b"),
    ("--models M", "--models Qwen/Qwen3-8B"),
    ("--hf-home FOLDER", "--hf-home models"),
    ("--png FOLDER", "--png pictures"),
    ("--out FOLDER", "--out mine"),
    ("--out RUN", "--out mine"),
    ("--image IMAGE", "--image vllm/vllm-openai:v0.24.0"),
    ("--hf-token-env NAME", "--hf-token-env ./token"),
    ("NAME", "name"),
    ("FILE", "new.json"),
    ("HF_TOKEN=…", "HF_TOKEN=x"),
    ("HF_DIR=…", "HF_DIR=models"),
    (" … ", " "),
];

/// The commands of the program in this block, each with `--help` at its end: it fails where an option is unknown.
fn read_only(commands: &str) -> String {
    let comment = Regex::new(r"(?m)(?:^|\s)# .*$").unwrap();
    // To the end of the line, or to `|`, `;` or `&&` outside quotes.
    let command = Regex::new(r#"(?s)(?:'[^']*'|"[^"]*"|\\.|>&|[^'"\\|;&\n])+"#).unwrap();
    let of_program = Regex::new(r"(?s)^\s*(?:\w+=\S*\s+)*(profiler .*)$").unwrap();
    let commands = comment.replace_all(commands, "");
    command
        .find_iter(&commands)
        .filter_map(|one| of_program.captures(one.as_str()))
        .map(|found| format!("{} --help\n", found[1].trim_end()))
        .collect()
}

#[test]
fn only_commands_of_the_program_are_read() {
    for (commands, read) in [
        (
            "SSL_CERT_FILE=a.pem A=b profiler run x --y  # why; profiler z",
            "profiler run x --y --help\n",
        ),
        (
            "cat a | profiler show --json; ls && profiler doctor",
            "profiler show --json --help\nprofiler doctor --help\n",
        ),
        (
            "profiler run x --set 'a=\"b|c;d\"' \\\n  --y",
            "profiler run x --set 'a=\"b|c;d\"' \\\n  --y --help\n",
        ),
        ("ssh host profiler doctor", ""),
    ] {
        assert_eq!(read_only(commands), read);
    }
}

/// Commands that change this machine or wait for a user: only their options are read.
const ONLY_READ: [&str; 3] = ["profiler repl", "profiler doctor", "profiler add"];

/// The commands of the rows in the page of the predecessors, with the words above in place.
fn predecessors_commands() -> BTreeSet<String> {
    let page = text_of("docs/predecessors.md");
    let row = Regex::new(r"^\| \d+ \|.* \| (.*) \| (?:real|simulated|partly|missing) \|$").unwrap();
    let code = Regex::new("`([^`]+)`").unwrap();
    let mut found = BTreeSet::new();
    for cell in page.lines().filter_map(|line| row.captures(line)) {
        for span in code.captures_iter(&cell[1]) {
            let mut command = span[1].replace("\\|", "|");
            if ["show ", "report ", "compare "]
                .iter()
                .any(|word| command.starts_with(word))
            {
                command = format!("profiler {command}");
            }
            let is_one = command.starts_with("profiler ") || command.starts_with("HF_");
            if is_one {
                let filled = |command: String, (word, taken): &(&str, &str)| command.replace(word, taken);
                found.insert(PLACEHOLDERS.iter().fold(command, filled));
            }
        }
    }
    found
}

/// The table of the predecessors' documents counts the rows below it.
#[test]
fn the_rows_of_the_predecessors_are_counted() {
    let page = text_of("docs/predecessors.md");
    let states = ["real", "simulated", "partly", "missing"];
    let line = |name: &str, rows: &str| {
        let of = |state: &str| {
            rows.lines()
                .filter(|line| line.ends_with(&format!(" | {state} |")))
                .count()
        };
        let all: usize = states.map(of).iter().sum();
        let counts = [all].into_iter().chain(states.map(of)).map(|count| count.to_string());
        format!("| {name} | {} |\n", counts.collect::<Vec<_>>().join(" | "))
    };
    let mut table = String::new();
    let (_, sections) = page.split_once("\n## ").unwrap();
    for section in sections.split("\n## ") {
        let (name, rows) = section.split_once('\n').unwrap();
        table += &line(name, rows);
    }
    table += &line("all", sections);
    assert!(page.contains(&table), "the counts are now:\n{table}");
}

/// Flags that say what is run where: rows that differ in one of them are not tried together.
const PLACES: [&str; 8] = [
    "allow",
    "container",
    "engine",
    "file",
    "model",
    "models",
    "runtime",
    "url",
];

/// Dry runs of one script in one place, as one with the flags of all, and each command by itself. Rows whose values or
/// scripts differ stay apart.
fn together(commands: impl Iterator<Item = String>) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for command in commands {
        let parts: Vec<String> = command.split(" --").map(str::to_owned).collect();
        let name = |part: &String| part.split(' ').next().unwrap_or_default().to_owned();
        let places = |parts: &[String]| -> Vec<String> {
            let of_place = |part: &&String| PLACES.contains(&&*name(part));
            parts.iter().skip(1).filter(of_place).cloned().collect()
        };
        let fits = |(all, _): &&mut (Vec<String>, Vec<String>)| {
            all[0] == parts[0]
                && places(all) == places(&parts)
                && !parts[1..]
                    .iter()
                    .any(|part| all[1..].iter().any(|one| one != part && name(one) == name(part)))
        };
        if let Some((all, members)) = found.iter_mut().find(fits) {
            let new: Vec<String> = parts.into_iter().filter(|part| !all.contains(part)).collect();
            all.extend(new);
            members.push(command);
        } else {
            found.push((parts, vec![command]));
        }
    }
    found
        .into_iter()
        .map(|(parts, members)| (parts.join(" --"), members))
        .collect()
}

const PICTURES: &str = " --png pictures";

/// Commands that need a container of this machine that has a name, a folder that is not there, a server, or a GPU to write
/// down.
const LACKING: [&str; 4] = [
    "--container name",
    "/no/such/folder",
    "--url http",
    "run profile --engine vllm",
];

/// Each command of the predecessors' rows works as written: a run as far as a dry run goes, which may lack a GPU or a
/// container here, everything else to its end.
#[test]
fn the_commands_of_the_predecessors_rows_work() {
    let page = Page::new("docs/predecessors.md");
    let entry = "models:\n  - {model_id: a/b, input_lengths: [64], output_lengths: [8], batch_sizes: [1]}\n";
    for (name, text) in [
        ("models.yaml", format!("{entry}{}", entry.split_once('\n').unwrap().1)),
        (
            "jobs.yaml",
            "jobs:\n  - {script: engine_info, set: {engine: sim}}\n".to_owned(),
        ),
        ("prompts.txt", "1. one\n2. two\n".to_owned()),
        ("reasoning.txt", "why\n".to_owned()),
        ("token", "hf_abc\n".to_owned()),
        ("files/a", String::new()),
        ("data/a", String::new()),
    ] {
        let path = page.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    // The default model's tokenizer in the caches of the hub, for engines that take text.
    let commit = "0123456789abcdef0123456789abcdef01234567";
    for cache in ["cache/huggingface", "data"] {
        let folder = page.folder.path().join(cache).join("hub/models--Qwen--Qwen3-8B");
        let snapshot = folder.join("snapshots").join(commit);
        std::fs::create_dir_all(folder.join("refs")).unwrap();
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::write(folder.join("refs/main"), commit).unwrap();
        std::fs::write(snapshot.join("tokenizer.json"), model::tokenizer()).unwrap();
    }
    // The script and the run that other commands name. A resume has tests of its own.
    let mut commands = predecessors_commands();
    let fork = "profiler fork adaptive mine.rhai --strategy";
    let done = "profiler run throughput --set sim.time_scale=0.01 --concurrency 1 --requests 4 --out done";
    assert!(
        commands.len() > 120 && commands.remove(fork) && commands.remove("profiler run --resume RUN"),
        "{commands:#?}"
    );
    assert!(
        page.shell(&format!("{fork}\n{done}"))
            .output()
            .unwrap()
            .status
            .success()
    );
    let is_run = |command: &String| command.contains("profiler run ") || command.starts_with("profiler fleet");
    let dried = |command: String| command.replace(" --dry-run", "");
    let (runs, others): (Vec<String>, Vec<String>) = commands.into_iter().partition(is_run);
    let mut tries = together(runs.into_iter().map(dried));
    // Pictures are slow to draw: one report draws them, and the files of the others are shown.
    let mut drawn = false;
    for command in others {
        let is_drawn = command.contains(PICTURES) && !std::mem::replace(&mut drawn, true);
        tries.push(if is_drawn {
            (command, Vec::new())
        } else {
            let shown = command
                .replace(PICTURES, "")
                .replace("profiler report", "profiler show");
            (shown, Vec::new())
        });
    }
    let tried = Mutex::new(tries.into_iter());
    let wrong = Mutex::new(Vec::new());
    let fault = |command: &str| {
        let line = if ONLY_READ.iter().any(|word| command.contains(word)) {
            format!("{command} --help")
        } else if is_run(&command.to_owned()) {
            dry(command)
        } else {
            command.to_owned()
        };
        let output = page.shell(&line).output().unwrap();
        let said = [output.stdout, output.stderr].map(|stream| String::from_utf8_lossy(&stream).into_owned());
        let said = said.join("\n");
        let lacks = lacks_gpu(&line, &said) || LACKING.iter().any(|word| line.contains(word));
        let works = output.status.success() || output.status.code() == Some(3) && lacks;
        (!works).then(|| format!("{}: {line}\n{said}", output.status))
    };
    let work = || {
        loop {
            let Some((command, members)) = tried.lock().unwrap().next() else {
                return;
            };
            let Some(found) = fault(&command) else {
                continue;
            };
            // Flags that exclude each other are tried alone.
            match members.as_slice() {
                [] | [_] => wrong.lock().unwrap().push(found),
                members => wrong
                    .lock()
                    .unwrap()
                    .extend(members.iter().filter_map(|member| fault(member))),
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The commands with `--dry-run`. The dry run of a search is cut to five probes, because more points print nothing new.
fn dry(commands: &str) -> String {
    let of = |line: &str| match line {
        line if ["adaptive", "neighbours"]
            .iter()
            .any(|name| line.starts_with(&format!("profiler run {name}"))) =>
        {
            format!("{line} --set search.max_probes=5 --dry-run\n")
        }
        line => format!("{line} --dry-run\n"),
    };
    commands.lines().map(of).collect()
}

/// The commands, with loads on a simulated engine whose clock runs as fast as the client can follow.
fn quick(commands: &str) -> String {
    let loads = [
        "throughput",
        "slo",
        "kv_cache",
        "compare_engines",
        "cuda_graphs",
        "kv_dtype",
        "tensor_parallel",
        "batch",
        "profile",
    ];
    let of = |line: &str| {
        let script = line
            .strip_prefix("profiler run ")
            .and_then(|rest| rest.split(' ').next());
        let simulated = !["--url", "--dry-run", "engine=", "sim."]
            .iter()
            .any(|word| line.contains(word));
        match script.is_some_and(|script| loads.contains(&script)) && simulated {
            true => format!("{line} --set sim.time_scale=0.02\n"),
            false => format!("{line}\n"),
        }
    };
    commands.lines().map(of).collect()
}

/// The commands within sentences have options that exist.
#[test]
fn every_command_within_a_sentence_has_its_options() {
    let mut commands = BTreeSet::new();
    for page in pages_below(root()) {
        let text = std::fs::read_to_string(&page).unwrap();
        // The rows of the predecessors have a test of their own.
        if !page.ends_with("docs/predecessors.md") {
            commands.extend(markdown(&text).filter_map(|event| match event {
                Event::Code(code) if code.contains(" --") => Some(read_only(&code)),
                _ => None,
            }));
        }
    }
    commands.retain(|command| !command.is_empty());
    assert!(commands.len() > 20, "{commands:#?}");
    let page = Page::new("README.md");
    for command in commands {
        let output = page.shell(&command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // A file or a value of the reader's may be missing.
        let is_unknown = ["unexpected argument", "has no parameter", "unrecognized subcommand"]
            .iter()
            .any(|words| said.contains(words));
        assert!(!is_unknown, "{command}{said}");
    }
}

/// An indented block cannot say how it is used.
#[test]
fn every_block_of_every_page_is_used() {
    for page in pages_below(root()) {
        let path = page.strip_prefix(root()).unwrap().to_str().unwrap();
        // The tests of `profiler doc` run the examples of the reference.
        if path == "docs/reference.md" {
            continue;
        }
        let text = text_of(path);
        let is_indented = |event| matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)));
        assert!(!markdown(&text).any(is_indented), "{path} has an indented block");
        let is_read = PAGES.contains(&path) || blocks(&text).is_empty();
        assert!(is_read, "{path} has blocks that no test uses");
    }
}

#[test]
fn every_page_is_read_and_in_the_book() {
    let chapters = chapters();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap();
        // The tests of `profiler doc` run the examples of the reference.
        if path.ends_with(".md") && !["docs/SUMMARY.md", "docs/reference.md"].contains(&path) {
            assert!(PAGES.contains(&path), "{path} is not read by a test");
            assert!(
                chapters.contains(&PathBuf::from(path)),
                "{path} is not in docs/SUMMARY.md"
            );
        }
    }
}

/// The files of the book, relative to the repository.
fn chapters() -> Vec<PathBuf> {
    let links = links(&text_of("docs/SUMMARY.md"));
    links.iter().map(|link| plain(&Path::new("docs").join(link))).collect()
}

/// The targets of relative links, anchors included. Links to other hosts are left out.
fn links(text: &str) -> Vec<String> {
    let attributes = Regex::new(r#"(?:src|srcset|href)="([^"]+)""#).unwrap();
    let mut found = Vec::new();
    for event in markdown(text) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => found.push(dest_url.to_string()),
            Event::Html(html) | Event::InlineHtml(html) => {
                found.extend(attributes.captures_iter(&html).map(|found| found[1].to_owned()));
            }
            _ => {}
        }
    }
    found.retain(|link| !link.contains("://") && !link.starts_with("mailto:"));
    found
}

/// The anchors of a page's headings, as GitHub and mdBook generate them.
fn anchors(text: &str) -> Vec<String> {
    let mut heading: Option<String> = None;
    let mut found = Vec::new();
    for event in markdown(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => found.extend(heading.take()),
            _ => {}
        }
    }
    let anchor = |heading: String| {
        let lower = heading.trim().to_lowercase().replace(' ', "-");
        lower
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect()
    };
    found.into_iter().map(anchor).collect()
}

/// A path without `..`, resolved without the file system.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut so_far, part| {
        match part {
            Component::ParentDir => drop(so_far.pop()),
            part => so_far.push(part),
        }
        so_far
    })
}

/// Every Markdown file below `folder`, except built or downloaded ones.
fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && !name.starts_with('.') && name != "target" {
            found.extend(pages_below(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

/// Broken links of the pages below `folder`.
fn broken(folder: &Path) -> Vec<String> {
    let mut broken = Vec::new();
    for page in pages_below(folder) {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => page.clone(),
                path => plain(&page.parent().unwrap().join(path)),
            };
            let leads = target.exists()
                && (anchor.is_empty()
                    || anchors(&std::fs::read_to_string(&target).unwrap()).contains(&anchor.to_owned()));
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    broken
}

#[test]
fn every_link_leads_somewhere() {
    let broken = broken(root());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The book that `docs/build` assembles for mdBook has every chapter, with the generated ones filled, and no link leads
/// out of the book.
#[test]
fn the_book_is_whole() {
    let folder = temp();
    let book = folder.path().join("book");
    let built = Command::new(root().join("docs/build"))
        .arg(&book)
        .env("PROFILER", env!("CARGO_BIN_EXE_profiler"))
        .env("XDG_STATE_HOME", SHARED_STATE)
        .env("MDBOOK", "true")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let source = book.join("src");
    let broken = broken(&source);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let text = |name: &str| std::fs::read_to_string(source.join(name)).unwrap();
    assert!(text("docs/reference.md").contains("`sleep(seconds: float)`"));
    assert!(text("docs/commands.md").contains("Usage: profiler estimate"));
    assert!(text("docs/samples.md").contains("](samples/vllm-capacity.html)"));
    assert_eq!(
        pages_below(&source).len(),
        chapters().len() + 1,
        "the chapters and SUMMARY.md"
    );
}

/// Each heading of the page of errors is a message of the program: the text before, between and after its `…` is in the
/// sources.
#[test]
fn the_errors_of_the_faq_are_the_programs() {
    fn read(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                None if path.is_dir() => read(&path, all),
                Some("rs" | "rhai") => all.push_str(&std::fs::read_to_string(&path).unwrap()),
                _ => {}
            }
        }
    }
    let mut sources = String::new();
    for folder in ["src", "crates/search/src", "stdlib", "scripts"] {
        read(&root().join(folder), &mut sources);
    }
    let joined = Regex::new(r"\\\n\s*").unwrap().replace_all(&sources, "").into_owned();
    let faq = text_of("docs/faq.md");
    let headings: Vec<&str> = faq.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert!(headings.len() > 20, "{}", headings.len());
    for heading in headings {
        for words in heading.split('…').map(|words| words.trim_matches(['`', ' ', ':', '…'])) {
            assert!(
                joined.contains(words),
                "not a message of the program: `{words}` of `{heading}`"
            );
        }
    }
}

#[test]
fn a_shell_completes_commands_scripts_and_their_parameters() {
    let script = Profiler::new().args(["completions", "bash"]).run().success().stdout;
    let folder = crate::support::temp();
    std::fs::write(
        folder.path().join("mine.rhai"),
        "params(#{ my_limit: param(1, \"most\") })",
    )
    .unwrap();
    let folders = format!(
        "{}:/usr/bin:/bin",
        Path::new(env!("CARGO_BIN_EXE_profiler")).parent().unwrap().display()
    );
    let ask = |words: &str| {
        let complete = format!(
            "COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9; function=$(complete -p profiler | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
             $function profiler \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\" 2>/dev/null; echo \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash")
            .args(["-c", &format!("{script}\n{complete}")])
            .env("PATH", &folders)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split(|one: char| one.is_whitespace() || one == '\u{b}')
            .map(str::to_owned)
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
    };
    assert_eq!(ask("profiler est"), ["estimate"]);
    assert_eq!(ask("profiler run memory_"), ["memory_breakdown"]);
    assert_eq!(ask("profiler run mi"), ["mine.rhai"]);
    assert_eq!(ask("profiler run --dr"), ["--dry-run"]);
    assert_eq!(ask("profiler run adaptive --conc"), ["--concurrency"]);
    assert_eq!(
        ask("profiler run adaptive --input 2000 --search.max-p"),
        ["--search.max-probes"]
    );
    assert_eq!(ask("profiler run mine.rhai --my"), ["--my-limit"]);
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let _ = Profiler::new()
            .args(["completions", shell])
            .run()
            .success()
            .stdout("profiler");
    }
    Profiler::new().args(["completions", "cmd"]).run().code(2);
}

/// Every command of `--help` has a manual page with its options.
#[test]
fn every_command_has_a_manual_page() {
    let outcome = Profiler::new().args(["man", "share/man1"]).run().success();
    let page = |name: &str| std::fs::read_to_string(outcome.folder().join("share/man1").join(name)).unwrap();
    assert!(page("profiler.1").contains("profiler\\-estimate"));
    assert!(page("profiler-run.1").contains("\\-\\-dry\\-run"));
    assert!(!outcome.folder().join("share/man1/profiler-supervise.1").exists());
    Profiler::new()
        .args(["man", "/dev/null/man1"])
        .run()
        .code(1)
        .stderr("/dev/null/man1");
}
