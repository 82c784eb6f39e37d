//! A user starts engines that cannot start, or attaches to running ones that cannot be recognised, queried or seen: the
//! error comes after one start at most.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::sim::process::Served;
use crate::support::hub::{self, error};
use crate::support::made_up::MadeUp;
use crate::support::{Outcome, Profiler, model};

/// Runs a shipped script with these parameters.
fn run(script: &str, set: &[&str]) -> Outcome {
    let set = set.iter().flat_map(|set| ["--set", set]);
    Profiler::new().args(["run", script]).args(set).run()
}

/// Runs a search with a native vLLM whose program is this shell script.
#[track_caller]
fn search(script: &str) -> Outcome {
    let folder = crate::support::temp();
    search_with(
        script,
        &model::write(folder.path()).display().to_string(),
        "http://127.0.0.1:1",
    )
}

/// Like `search`, with a model and the URL of a hub. The program appends a line to `starts` at each start.
#[track_caller]
fn search_with(script: &str, model: &str, hub: &str) -> Outcome {
    let text = format!("#!/bin/sh\necho started >> starts\n{script}\n");
    let program = Profiler::new().file("fake-vllm", text);
    let path = program.folder().join("fake-vllm");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    program
        .env("HF_ENDPOINT", hub)
        .args(["run", "adaptive", "--out", "out", "--allow", "process"])
        .args(["--set", "engine=vllm", "--set", "runtime=process", "--set", "gpus=[]"])
        .args([
            "--set",
            "input=[128,4096]",
            "--set",
            "output=16",
            "--set",
            "search.max_probes=4",
        ])
        .args(["--set", &format!("program={}", path.display())])
        .args(["--set", &format!("model={model}")])
        .run()
}

#[track_caller]
fn starts(outcome: &Outcome) -> usize {
    let text = fs::read_to_string(outcome.folder().join("starts")).unwrap();
    text.lines().count()
}

#[test]
fn a_missing_module_ends_the_run_after_one_start() {
    let outcome = search(
        "echo 'Traceback (most recent call last):' >&2
         echo '  File \"vllm/entrypoints/cli/main.py\", line 3, in <module>' >&2
         echo \"ModuleNotFoundError: No module named 'pydantic'\" >&2
         exit 1",
    )
    .code(3)
    .stderr("`vllm` cannot start: ModuleNotFoundError: No module named 'pydantic'")
    .stderr("Traceback (most recent call last):")
    .stderr("install it there")
    .stderr("`out/logs`")
    .nowhere("nothing is known to fit");
    assert_eq!(starts(&outcome), 1);
    let document = fs::read_to_string(outcome.folder().join("out/result.json")).unwrap();
    assert!(document.contains("\"start_failed\""), "{document}");
}

/// The first error of several processes is followed by many lines that only report its consequences.
#[test]
fn an_exit_that_nobody_knows_shows_the_first_error_and_the_last_lines() {
    let outcome = search(
        "echo '(EngineCore pid=7) ERROR 11-20 12:50:21 [core.py:1231] ValueError: tokens must be odd'
         for n in $(seq 30); do echo \"  further line $n\"; done
         echo 'RuntimeError: Engine core initialization failed. See root cause above.'
         exit 7",
    )
    .code(3)
    .stderr("it exited with status 7 before it was ready")
    .stderr("ValueError: tokens must be odd")
    .stderr("further line 30")
    .stderr("See root cause above")
    .nowhere("further line 9");
    assert_eq!(starts(&outcome), 1);
}

/// A warning, the failed import of an optional part and a consequence are all in the log of a start that failed for
/// another reason.
#[test]
fn the_reason_of_a_failed_start_is_what_ended_it() {
    let noise = "echo '(Worker pid=12) WARNING 08-01 10:00:01 [parallel.py:750] Address already in use. Retrying with a new port.'
         echo 'Traceback (most recent call last):'
         echo \"ModuleNotFoundError: No module named 'flash_attn'\"";
    let end = "echo 'RuntimeError: Engine core initialization failed. See root cause above.'; exit 1";
    let outcome = search(&format!(
        "{noise}
         echo '(EngineCore pid=11) ERROR 08-01 10:00:05 [core.py:1584] OSError: You are trying to access a gated repo.'
         {end}"
    ))
    .code(3)
    .stderr("OSError: You are trying to access a gated repo.")
    .stderr("set HF_TOKEN");
    assert_eq!(starts(&outcome), 1);
    let outcome = search(&format!(
        "{noise}
         echo '  Value error, Total number of attention heads (28) must be divisible by tensor parallel size (8). [type=value_error]'
         {end}"
    ))
    .code(3)
    .stderr("must be divisible by tensor parallel size (8)")
    .stderr("set `--tensor-parallel-size` to a divisor");
    assert_eq!(starts(&outcome), 1);
    let outcome = search(&format!(
        "{noise}
         echo '(EngineCore pid=11) ERROR 08-01 10:00:05 [core.py:1584] ValueError: max_num_seqs (64) exceeds available Mamba cache blocks (3).'
         {end}"
    ));
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

#[test]
fn a_busy_port_may_pass_and_is_tried_three_times() {
    let outcome = search("echo 'OSError: [Errno 98] Address already in use'; exit 1")
        .code(3)
        .stderr("Address already in use")
        .stderr("`port`");
    assert_eq!(starts(&outcome), 3);
}

#[test]
fn a_model_that_is_not_there_costs_no_start() {
    for path in ["/no/such/model", "no-such.gguf"] {
        search_with("exit 1", path, "http://127.0.0.1:9")
            .code(3)
            .stderr(&format!("there is no model `{path}`"))
            .stderr("a model of the Hugging Face hub is named `org/name`")
            .nowhere("ready");
    }
}

/// The hub is a local server that answers like the real one.
#[tokio::test]
async fn a_gated_model_without_a_token_costs_no_start() {
    let gated = HashMap::from([("/org/name/resolve/main/config.json", vec![error(401, "GatedRepo")])]);
    let hub = hub::Server::start(gated).await;
    let endpoint = format!("http://{}", hub.address);
    let outcome = tokio::task::spawn_blocking(move || search_with("exit 1", "org/name", &endpoint));
    let outcome = outcome.await.unwrap().code(3);
    let outcome = outcome.stderr("`org/name` is gated").stderr("set HF_TOKEN");
    let _ = outcome.stderr("or choose a model without terms").nowhere("starting");
}

#[test]
fn memory_is_not_looked_for_over_http() {
    let server = MadeUp::default().start();
    let outcome = run("memory_breakdown", &[&format!("url={}", server.url)]).code(3);
    let outcome = outcome
        .stderr("memory cannot be seen over HTTP")
        .stderr("profiler doctor");
    let _ = outcome.nowhere("called from");
    let asked = server.completions();
    assert!(
        asked.len() == 1 && asked[0].body["max_tokens"] == 4,
        "only which requests it takes: {asked:?}"
    );
}

/// Each simulated server is recognised by its API, and still reported as simulated.
#[test]
fn engines_are_recognised_by_their_address_alone() {
    for (profile, ready, told) in [
        ("llama-8b-h200-vllm", "Application startup complete", "vllm 0."),
        ("llama-1b-h200-sglang", "ready to roll", "sglang 0.5"),
        ("llama-1b-h200-tgi", "Connected", "tgi 3.3"),
        ("llama-1b-llamacpp", "listening", "llamacpp b"),
        ("llama-1b-ollama", "llama-server started", "ollama 0."),
        (
            "llama-1b-h200-trtllm",
            "Application startup complete",
            "tensorrt_llm 1.2",
        ),
    ] {
        // A time scale of 0 makes model time pass at once.
        let mut served = Served::start(&["--profile", profile, "--max-model-len", "4096", "--time-scale", "0"]);
        served.until(ready);
        let outcome = run("engine_info", &[&format!("url={}", served.url)]).success();
        let _ = outcome.stdout(told).stdout("SIMULATED").stdout("serves llama");
    }
}

#[test]
fn a_server_that_still_loads_is_told_so() {
    let served = Served::start(&["--profile", "llama-1b-llamacpp", "--time-scale", "1000"]);
    let outcome = Profiler::new().args(["run", "engine_info", "--url", &served.url, "--wait", "1s"]);
    let _ = outcome
        .run()
        .code(3)
        .stderr("is not ready: status 503 at `/v1/models`")
        .stderr("Loading model");
}

#[test]
fn a_server_that_says_nothing_is_given_up_after_one_page() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("url={}", listener.local_addr().unwrap());
    let _ = run("adaptive", &[&url])
        .code(3)
        .stderr("accepts connections, but does not answer")
        .stderr("such as `engine=vllm`");
    listener.set_nonblocking(true).unwrap();
    let connections = std::iter::from_fn(|| listener.accept().ok()).count();
    assert_eq!(connections, 2, "whether it accepts any, and the list of models");
    let named = run("adaptive", &[&url, "engine=openai"]).code(3);
    let _ = named.stderr("is not ready after 5 s");
}

#[test]
fn a_slow_list_of_models_is_waited_for() {
    let server = MadeUp {
        lists_after: Duration::from_secs(2),
        ..MadeUp::default()
    }
    .start();
    let _ = run("engine_info", &[&format!("url={}", server.url)])
        .success()
        .stdout("serves made-up");
}

#[test]
fn a_redirect_is_told_with_its_target_and_not_followed() {
    let server = MadeUp {
        always: Some(302),
        ..MadeUp::default()
    }
    .start();
    for set in [&[][..], &["engine=openai"], &["engine=vllm"]] {
        let url = format!("url={}", server.url);
        let outcome = run("adaptive", &[&[url.as_str()], set].concat()).code(3);
        let _ = outcome
            .stderr("status 302")
            .stderr("`https://login.example/`")
            .stderr("--url URL");
    }
    assert!(server.all().len() <= 6, "{:?}", server.all());
}

#[test]
fn a_server_of_something_else_is_told_with_its_words() {
    for status in [403, 422] {
        let server = MadeUp {
            always: Some(status),
            ..MadeUp::default()
        }
        .start();
        let outcome = run("adaptive", &[&format!("url={}", server.url)]).code(3);
        let outcome = outcome.stderr(&format!("status {status} at ")).stderr("/v1/models");
        let _ = outcome.stderr("no such thing here").stderr("hint");
        assert!(server.completions().is_empty());
    }
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
    let server = MadeUp {
        key: Some("sk-made-up"),
        ..MadeUp::default()
    }
    .start();
    let first = Profiler::new()
        .file("s.rhai", ASK)
        .env("OPENAI_API_KEY", "sk-made-up")
        .args([
            "run",
            "s.rhai",
            "--allow",
            "net=127.0.0.1,token",
            "--out",
            "out",
            "--set",
            "input=32",
            "--url",
            &server.url,
        ])
        .run()
        .code(1)
        .stderr("later");
    let resume = |args: &[&str]| {
        let profiler = Profiler::new()
            .current_dir(first.folder())
            .env("OPENAI_API_KEY", "sk-made-up");
        profiler
            .args(["run", "s.rhai", "--resume", "out", "--allow", "net=127.0.0.1"])
            .args(args)
            .run()
    };
    let _ = resume(&[]).code(3).stderr("status 401").stderr("`--url URL`");
    let asked = server.completions().len();
    let resumed = resume(&["--allow", "token"]).code(1).stderr("later");
    let _ = resumed.nowhere("sk-made-up");
    assert_eq!(
        server.completions().len(),
        asked,
        "its input is still 32, and was answered"
    );
    let _ = resume(&["--url", "http://127.0.0.1:1"])
        .code(2)
        .stderr("not the same run");
}
