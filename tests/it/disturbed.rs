//! A user probes an engine that others disturb: the kernel kills it, or somebody stops, removes or pauses its
//! container.

use serde_json::Value;

use crate::runtime::docker;
use crate::support::{Profiler, eventually, image, needs_docker};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/probes");

/// The answer to a probe of an engine that closes its connections, in a container with these options. `disturb` gets
/// the container's name as soon as the request has arrived.
fn probed(options: &str, disturb: impl FnOnce(&str)) -> Value {
    let adapter = format!(
        r#"
fn launch(options) {{
    #{{
        image: "{image}", entrypoint: ["/usr/bin/python3"], args: ["{FOLDER}/closing.py", "8000"], port: 8000, env: options.env,
        mounts: [#{{ host: "/usr", container: "/usr" }}, #{{ host: "{FOLDER}", container: "{FOLDER}" }}],
        memory_limit: options.memory_limit, stop_grace: 0.1,
    }}
}}
fn ready(engine) {{ engine.get("/health").status == 200 }}
fn request(point) {{
    #{{ protocol: "openai_completions", path: "/v1/completions", prompt: "tokens", body: #{{ max_tokens: point.output, stream: true }} }}
}}
fn facts() {{ #{{}} }}
fn failures() {{ [] }}
fn flags(limits) {{ [] }}
"#,
        image = image::shell()
    );
    let script = format!(
        r#"import "std/engines" as engines;
let engine = engines::describe("./mine.rhai", #{{ runtime: "docker", stop_grace: 0.1 }} + {options});
engine.probe(#{{ input: 1000, output: 200 }})"#
    );
    let (child, folder) = Profiler::new()
        .file("main.rhai", script)
        .file("mine.rhai", adapter)
        .args(["run", "main.rhai", "--json", "--out", "out"])
        .args([
            "--allow",
            &format!("mount=/usr,mount={FOLDER},image={},entrypoint", image::shell()),
        ])
        .spawn();
    let log = folder.path().join("out/logs/engine-1.log");
    let label = format!("label=profiler.pid={}", child.id());
    let waiting = std::thread::spawn(move || child.wait_with_output().unwrap());
    eventually("a request", || {
        waiting.is_finished() || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("asked"))
    });
    if !waiting.is_finished() {
        disturb(&docker(&["ps", "--quiet", "--filter", &label]));
    }
    let output = waiting.join().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{stderr}"));
    answer["result"].clone()
}

#[track_caller]
fn expect(answer: &Value, verdict: &str, cause: &str, said: &str) {
    assert_eq!(
        (&answer["verdict"], &answer["cause"]),
        (&verdict.into(), &cause.into()),
        "{answer}"
    );
    let message = answer["evidence"]["message"].as_str().unwrap();
    assert!(message.contains(said), "{message}");
}

#[test]
fn a_kernel_kill_is_memory_even_if_the_stream_seemed_to_end() {
    if !needs_docker() {
        return;
    }
    let options = r#"#{ memory_limit: 67108864, env: #{ BYTES_PER_TOKEN: "200000", DELAY: "0.01" } }"#;
    let answer = probed(options, |_| ());
    expect(&answer, "oom", "host", "OOM killer");
    assert_eq!(answer["evidence"]["oom_killed"], true);
}

#[test]
fn an_engine_that_somebody_else_stopped_is_told_as_that() {
    if !needs_docker() {
        return;
    }
    let slow = r#"#{ env: #{ DELAY: "0.02" } }"#;
    let killed = probed(slow, |container| drop(docker(&["kill", container])));
    expect(
        &killed,
        "error",
        "stopped",
        "somebody else stopped the engine's container (signal 9)",
    );
    let removed = probed(slow, |container| drop(docker(&["rm", "--force", container])));
    expect(&removed, "error", "stopped", "somebody else");
}

#[test]
fn the_times_of_a_paused_container_are_not_used() {
    if !needs_docker() {
        return;
    }
    let answer = probed(r#"#{ env: #{ DELAY: "0.02" } }"#, |container| {
        docker(&["pause", container]);
        docker(&["unpause", container]);
    });
    assert_eq!(answer["verdict"], "ok", "{answer}");
    let message = answer["evidence"]["message"].as_str().unwrap();
    assert!(message.contains("was paused"), "{message}");
    for time in ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"] {
        assert_eq!(answer[time], Value::Null, "{time}");
    }
    let undisturbed = probed(r#"#{ env: #{ DELAY: "0.001" } }"#, |_| ());
    assert!(
        undisturbed["ttft_ms"].is_number() && undisturbed["evidence"]["message"].is_null(),
        "{undisturbed}"
    );
}
