//! A user starts engines that cannot start, or attaches to running ones that cannot be recognised, queried or seen: the
//! error comes after one start at most.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::sim::process::Served;
use crate::support::attached::{attached, table};
use crate::support::hub::{self, error};
use crate::support::made_up::{MadeUp, made_up};
use crate::support::{Outcome, Profiler, model, temp};

/// Runs a search with a native vLLM whose program is this shell script. The program appends a line to `starts` at each
/// start.
#[track_caller]
fn search(script: &str, model: &str, hub: &str) -> Outcome {
    let asked = "adaptive --engine vllm --input 128..4096 --output 16 --search.max-probes 4 --model MODEL";
    run(asked, script, model, hub)
}

/// Runs a script of ours, in whose arguments `MODEL` stands for `model`, with that program.
#[track_caller]
fn run(arguments: &str, script: &str, model: &str, hub: &str) -> Outcome {
    let text = format!("#!/bin/sh\necho started >> starts\n{script}\n");
    let program = Profiler::new().file("fake-vllm", text);
    let path = program.folder().join("fake-vllm");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    program
        .env("HF_ENDPOINT", hub)
        .arg("run")
        .args(arguments.split(' ').map(|word| word.replace("MODEL", model)))
        .args("--out out --allow process --runtime process --gpus []".split(' '))
        .args(["--set", &format!("program={}", path.display())])
        .run()
}

/// Fails unless a search ends with exit status 3 after this many starts of the program `script`, and says `parts`.
fn check(script: &str, starts: usize, parts: &[&str]) {
    let folder = temp();
    let outcome = search(
        script,
        &model::write(folder.path()).display().to_string(),
        "http://127.0.0.1:1",
    );
    let outcome = outcome.sees(3, parts);
    let text = fs::read_to_string(outcome.folder().join("starts")).unwrap();
    assert_eq!(text.lines().count(), starts);
    let document = fs::read_to_string(outcome.folder().join("out/result.json")).unwrap();
    assert!(document.contains("\"start_failed\""), "{document}");
}

table! { check:
    a_missing_module:
        "echo 'Traceback (most recent call last):' >&2
         echo '  File \"vllm/entrypoints/cli/main.py\", line 3, in <module>' >&2
         echo \"ModuleNotFoundError: No module named 'pydantic'\" >&2
         exit 1",
        1, &["`vllm`", "ModuleNotFoundError: No module named 'pydantic'", "!main.py", "install", "`out/logs`"];
    /// The first error of several processes is followed by many lines that only report its consequences.
    the_first_error_and_the_last_lines:
        "echo '(EngineCore pid=7) ERROR 11-20 12:50:21 [core.py:1231] ValueError: tokens must be odd'
         for n in $(seq 30); do echo \"  further line $n\"; done
         echo 'RuntimeError: Engine core initialization failed. See root cause above.'
         exit 7",
        1, &["status 7", "ValueError: tokens must be odd", "further line 30", "See root cause above", "!further line 9"];
    a_busy_port_may_pass:
        "echo 'OSError: [Errno 98] Address already in use'; exit 1",
        3, &["Address already in use", "`port`"];
}

/// A warning and the failed import of an optional part, as lines before the reason of a failed start.
const NOISE: &str =
    "echo '(Worker pid=12) WARNING 08-01 10:00:01 [parallel.py:750] Address already in use. Retrying with a new port.'
    echo 'Traceback (most recent call last):'
    echo \"ModuleNotFoundError: No module named 'flash_attn'\"";

/// Fails unless a start that ends with this line after some noise, and before a consequence, is explained by `parts`.
fn explained(line: &str, parts: &[&str]) {
    let consequence = "RuntimeError: Engine core initialization failed. See root cause above.";
    check(&format!("{NOISE}\n{line}\necho '{consequence}'; exit 1"), 1, parts);
}

table! { explained:
    a_gated_repository:
        "echo '(EngineCore pid=11) ERROR 08-01 10:00:05 [core.py:1584] OSError: You are trying to access a gated repo.'",
        &["OSError: You are trying to access a gated repo.", "set HF_TOKEN"];
    heads_that_ranks_cannot_share:
        "echo '  Value error, Total number of attention heads (28) must be divisible by tensor parallel size (8). [type=value_error]'",
        &["must be divisible by tensor parallel size (8)", "--tensor-parallel-size"];
}

/// Fails unless this script says what to do about a part that the engine lacks.
fn lacks_a_part(arguments: &str) {
    let script = "echo 'Traceback (most recent call last):'
        echo \"ModuleNotFoundError: No module named 'xgrammar'\"; exit 1";
    let folder = temp();
    let model = model::write(folder.path()).display().to_string();
    let outcome = run(arguments, script, &model, "http://127.0.0.1:9");
    let _ = outcome.sees(3, &["No module named 'xgrammar'", "install it there"]);
}

table! { lacks_a_part:
    second_graphs: "cuda_graphs --engine tensorrt_llm --max-draft-len 4 --model MODEL";
    formats: "kv_dtype --engine vllm --model MODEL";
    tuned: "tune --engine vllm --slo.tpot-ms 30 --model MODEL";
    batched: "batch --engine vllm --input 64 --output 8 --concurrency 1,2 --models MODEL";
    loaded: "throughput --engine sglang --model MODEL";
}

#[test]
fn stated_state_slots_are_in_the_evidence() {
    let folder = temp();
    let line = "echo '(EngineCore pid=11) ERROR 08-01 10:00:05 [core.py:1584] ValueError: max_num_seqs (64) exceeds available Mamba cache blocks (3).'";
    let outcome = search(
        &format!("{NOISE}\n{line}; exit 1"),
        &model::write(folder.path()).display().to_string(),
        "http://127.0.0.1:9",
    );
    let journal = fs::read_to_string(outcome.folder().join("out/journal.jsonl")).unwrap();
    for part in [
        r#""verdict":"start_failed""#,
        r#""cause":"memory""#,
        r#""limit":{"concurrency":3,"by":"state_slots"}"#,
        "lower `--max-num-seqs`",
    ] {
        assert!(journal.contains(part), "{part}: {journal}");
    }
}

/// Fails unless a search of this model ends before any start.
fn no_model(model: &str, hub: &str, parts: &[&str]) {
    let outcome = search("exit 1", model, hub).sees(3, parts).nowhere("starting");
    assert!(!outcome.folder().join("starts").exists());
}

table! { no_model:
    a_folder_that_is_not_there: "/no/such/model", "http://127.0.0.1:9", &["`/no/such/model`", "`org/name`"];
    a_file_that_is_not_there: "no-such.gguf", "http://127.0.0.1:9", &["`no-such.gguf`", "`org/name`"];
}

/// The hub is a local server that answers like the real one.
#[tokio::test]
async fn a_gated_model_without_a_token() {
    let gated = HashMap::from([("/org/name/resolve/main/config.json", vec![error(401, "GatedRepo")])]);
    let hub = hub::Server::start(gated).await;
    let endpoint = format!("http://{}", hub.address);
    let run = move || no_model("org/name", &endpoint, &["`org/name` is gated", "HF_TOKEN"]);
    tokio::task::spawn_blocking(run).await.unwrap();
}

/// Fails unless this simulated server, whose log says `ready`, is recognised by its API and reported as simulated.
fn recognised(profile: &str, ready: &str, version: &str) {
    // A time scale of 0 makes model time pass at once.
    let mut served = Served::start(&["--profile", profile, "--max-model-len", "4096", "--time-scale", "0"]);
    served.until(ready);
    let outcome = attached(&served.url, "run engine_info").run();
    let _ = outcome.sees(0, &[version, "SIMULATED", "serves llama"]);
}

table! { recognised:
    vllm: "llama-8b-h200-vllm", "Application startup complete", "vllm 0.";
    sglang: "llama-1b-h200-sglang", "ready to roll", "sglang 0.5";
    tgi: "llama-1b-h200-tgi", "Connected", "tgi 3.3";
    llamacpp: "llama-1b-llamacpp", "listening", "llamacpp b";
    ollama: "llama-1b-ollama", "llama-server started", "ollama 0.";
    tensorrt_llm: "llama-1b-h200-trtllm", "Application startup complete", "tensorrt_llm 1.2";
}

/// Runs the command against a server; returns the paths that it was asked for.
fn asked(server: MadeUp, command: &str, code: i32, parts: &[&str]) -> Vec<String> {
    let server = server.start();
    let _ = attached(&server.url, command)
        .run()
        .sees(code, parts)
        .nowhere("called from");
    server.all().into_iter().map(|seen| seen.path).collect()
}

/// As [`asked`], of servers that must not be asked to generate anything.
fn not_probed(server: MadeUp, command: &str, code: i32, parts: &[&str]) {
    let paths = asked(server, command, code, parts);
    let generates = |path: &String| path.ends_with("completions");
    assert!(!paths.iter().any(generates), "{paths:?}");
}

table! { not_probed:
    a_redirect: made_up! { always: Some(302) }, "run adaptive", 3, &["302", "`https://login.example/`", "--url URL"];
    a_redirect_of_openai: made_up! { always: Some(302) }, "run adaptive --engine openai", 3, &["302", "`https://login.example/`"];
    a_redirect_of_vllm: made_up! { always: Some(302) }, "run adaptive --engine vllm", 3, &["302", "`https://login.example/`"];
    forbidden: made_up! { always: Some(403) }, "run adaptive", 3, &["403", "/v1/models", "no such thing here", "hint"];
    unprocessable: made_up! { always: Some(422) }, "run adaptive", 3, &["422", "/v1/models", "no such thing here", "hint"];
}

#[test]
fn a_slow_list_of_models() {
    let slow = made_up! { lists_after: Duration::from_secs(2) };
    asked(slow, "run engine_info", 0, &["serves made-up"]);
}

#[test]
fn memory_is_not_looked_for_over_http() {
    let paths = asked(
        MadeUp::default(),
        "run memory_breakdown",
        3,
        &["HTTP", "profiler doctor"],
    );
    let generated = paths.iter().filter(|path| path.ends_with("completions"));
    assert_eq!(generated.count(), 1, "one request finds out what the server accepts");
}

#[test]
fn a_server_that_still_loads() {
    let served = Served::start(&["--profile", "llama-1b-llamacpp", "--time-scale", "1000"]);
    let outcome = attached(&served.url, "run engine_info --wait 1s").run();
    let _ = outcome.sees(3, &["503", "`/v1/models`", "Loading model"]);
}

#[test]
fn a_server_that_says_nothing_is_given_up_after_one_page() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = listener.local_addr().unwrap().to_string();
    let _ = attached(&url, "run adaptive")
        .run()
        .sees(3, &["accepts connections", "engine=vllm"]);
    listener.set_nonblocking(true).unwrap();
    let connections = std::iter::from_fn(|| listener.accept().ok()).count();
    assert_eq!(connections, 2, "whether it accepts any, and the list of models");
    let _ = attached(&url, "run adaptive --engine openai")
        .run()
        .sees(3, &["not ready", "5 s"]);
}

const ASK: &str = r#"
    import "std/engines" as engines;
    let p = params(engines::parameters() + #{ input: param(16, "tokens") });
    engines::describe("auto", engines::options(p)).probe(#{ input: p.input, output: 4 });
    throw "later"
"#;

/// Only the user may send a key to an address, and a run folder may come from a stranger.
#[test]
fn a_resumed_run_has_the_key_where_its_command_line_allows_it_again() {
    let server = made_up! { key: Some("sk-made-up") }.start();
    let key = ("OPENAI_API_KEY", "sk-made-up");
    let first = Profiler::new().file("s.rhai", ASK).env(key.0, key.1);
    let first = first.args("run s.rhai --allow net=127.0.0.1,token --out out --set input=32 --url".split(' '));
    let first = first.arg(&server.url).run().sees(1, &["later"]);
    let resume = |args: &str| {
        let profiler = Profiler::new().current_dir(first.folder()).env(key.0, key.1);
        let profiler = profiler.args("run s.rhai --resume out --allow net=127.0.0.1".split(' '));
        profiler.args(args.split_whitespace()).run()
    };
    let _ = resume("").sees(3, &["401", "`--url URL`"]);
    let asked = server.completions().len();
    let _ = resume("--allow token").sees(1, &["later", "!sk-made-up"]);
    assert_eq!(
        server.completions().len(),
        asked,
        "its input is still 32, and was answered"
    );
    let _ = resume("--url http://127.0.0.1:1").sees(2, &["same run"]);
}
