//! A user runs the adapters of the GPU engines from start to verdict: each launches a stand-in for its engine, which
//! translates the engine's flags into those of the simulated one, in a process of its own.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::Profiler;

/// The stand-in for `sglang`: its flags, as a `case` of a shell script.
const SGLANG: &str = r#"
    --context-length=*) length="${word#*=}" ;;
    --max-running-requests=*) seqs="${word#*=}" ;;
    --mem-fraction-static=*) share="${word#*=}" ;;
"#;

/// The stand-in for `trtllm-serve`. Its memory fraction is in the options file.
const TRTLLM: &str = r#"
    --max_seq_len=*) length="${word#*=}" ;;
    --max_batch_size=*) seqs="${word#*=}" ;;
    --extra_llm_api_options=*) share="$(sed -n 's/.*"free_gpu_memory_fraction": *\([0-9.e-]*\).*/\1/p' "${word#*=}")" ;;
"#;

/// The stand-in for `vllm`.
const VLLM: &str = r#"
    --max-model-len=*) length="${word#*=}" ;;
    --max-num-seqs=*) seqs="${word#*=}" ;;
    --gpu-memory-utilization=*) share="${word#*=}" ;;
"#;

/// Runs a script in which `engine` is launched with these options; the program is a stand-in that reads these flags.
fn run(engine: &str, flags: &str, profile: &str, options: &str, script: &str) -> Value {
    let profiler = env!("CARGO_BIN_EXE_profiler");
    let program = format!(
        "#!/bin/sh\nfor word in \"$@\"; do case \"$word\" in\n--port=*) port=\"${{word#*=}}\" ;;{flags}esac; done\n\
         exec {profiler} sim --profile {profile} --time-scale 0 --gather-ms 20 --port \"$port\" --max-model-len \"$length\" --max-num-seqs \"$seqs\" \
         ${{share:+--gpu-memory-utilization $share}}\n"
    );
    let run = Profiler::new().file("engine", program);
    let path = run.folder().join("engine");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "import \"std/engines\" as engines;\nlet engine = engines::describe(\"{engine}\", #{{ runtime: \"process\", program: \"{}\", {options} }});\n{script}",
        path.display()
    );
    let outcome = run
        .file("ask.rhai", script)
        .args(["run", "ask.rhai", "--allow", "process", "--json"])
        .run()
        .code(0);
    outcome.json()["result"].clone()
}

const LIMITS: &str = "limits: #{ input: 7000, output: 1000, concurrency: 8 }";

fn verdict(answer: &Value) -> (&str, &str) {
    (
        answer["verdict"].as_str().unwrap_or_default(),
        answer["cause"].as_str().unwrap_or_default(),
    )
}

#[test]
fn sglang_serves_and_tells_its_memory() {
    let script = "let one = engine.probe(#{ input: 7000, output: 1000 });
        let eight = engine.probe(#{ input: 300, output: 200, concurrency: 8 });
        #{ one: one, eight: eight, info: engine.info(), metrics: engine.metrics(), facts: engine.facts(), flags: engine.flags() }";
    let result = run("sglang", SGLANG, "llama-1b-h200-sglang", LIMITS, script);
    assert_eq!(
        (verdict(&result["one"]), verdict(&result["eight"])),
        (("ok", ""), ("ok", "")),
        "{result:#}"
    );
    assert_eq!(
        (&result["one"]["input"], &result["one"]["output"]),
        (&json!(7000), &json!(1000))
    );
    assert_eq!(
        (&result["info"]["simulated"], &result["info"]["version"]),
        (&json!(true), &json!("0.5.23+SIMULATED"))
    );
    assert_eq!(
        result["flags"],
        json!(["--context-length=8002", "--max-running-requests=8"])
    );
    assert_eq!(
        (&result["metrics"]["running"], &result["metrics"]["preemptions"]),
        (&json!(0), &json!(0))
    );
    for fact in [
        "weights_bytes",
        "kv_bytes",
        "kv_tokens",
        "graphs_bytes",
        "context_bytes",
    ] {
        assert!(result["facts"][fact].is_array(), "{fact}: {:#}", result["facts"]);
    }
    // Both the server's page and its log report the weights.
    let weights = result["facts"]["weights_bytes"].as_array().unwrap();
    let origins: Vec<_> = weights.iter().map(|fact| &fact["origin"]).collect();
    assert_eq!(origins, ["/server_info", "log"], "{weights:#?}");
}

#[test]
fn sglang_with_a_small_cache_clips_refuses_and_retracts() {
    // 1.6 % of the device less the weights: about 5,900 tokens.
    let options = format!("{LIMITS}, memory_fraction: 0.016");
    let script = "[
            engine.probe(#{ input: 5000, output: 500 }),
            engine.probe(#{ input: 5500, output: 1000 }),
            engine.probe(#{ input: 7000, output: 10 }),
            engine.probe(#{ input: 1000, output: 1000, concurrency: 4 }),
        ]";
    let answers = run("sglang", SGLANG, "llama-1b-h200-sglang", &options, script);
    let verdicts: Vec<_> = answers.as_array().unwrap().iter().map(verdict).collect();
    let expected = [
        ("ok", ""),
        ("refused", "kv_cache"),
        ("refused", "kv_cache"),
        ("preempted", "kv_cache"),
    ];
    assert_eq!(verdicts, expected, "{answers:#}");
    assert!(
        answers[1]["evidence"]["message"]
            .as_str()
            .unwrap()
            .contains("clipped the output"),
        "{answers:#}"
    );
}

#[test]
fn sglang_that_killed_itself_is_read_by_its_log() {
    let options = format!("{LIMITS}, memory_fraction: 0.01");
    let answer = run(
        "sglang",
        SGLANG,
        "llama-1b-h200-sglang",
        &options,
        "engine.probe(#{ input: 10, output: 10 })",
    );
    assert_eq!(verdict(&answer), ("start_failed", "memory"), "{answer:#}");
    assert_eq!(
        (&answer["evidence"]["exit_code"], &answer["evidence"]["oom_killed"]),
        (&json!(137), &json!(false))
    );
}

#[test]
fn tensorrt_llm_serves_and_tells_its_metrics_as_json() {
    let script = "let one = engine.probe(#{ input: 7000, output: 1000 });
        let eight = engine.probe(#{ input: 300, output: 200, concurrency: 8 });
        #{ one: one, eight: eight, info: engine.info(), facts: engine.facts(), flags: engine.flags() }";
    let result = run("tensorrt_llm", TRTLLM, "llama-1b-h200-trtllm", LIMITS, script);
    assert_eq!(
        (verdict(&result["one"]), verdict(&result["eight"])),
        (("ok", ""), ("ok", "")),
        "{result:#}"
    );
    let queue = &result["eight"]["evidence"]["queue"];
    assert!(queue["running"].is_u64() && queue["kv_usage"].is_f64(), "{queue:#}");
    assert_eq!(result["info"]["max_model_len"], 8000);
    for fact in [
        "weights_bytes",
        "kv_bytes",
        "kv_tokens",
        "activations_bytes",
        "non_torch_bytes",
        "context_bytes",
    ] {
        assert!(result["facts"][fact].is_array(), "{fact}: {:#}", result["facts"]);
    }
}

#[test]
fn tensorrt_llm_that_is_ready_without_room_is_refused_by_its_log() {
    // 0.05 % of the free memory: 2,240 tokens.
    let options = format!("{LIMITS}, memory_fraction: 0.0005");
    let script = "[engine.probe(#{ input: 1000, output: 100 }), engine.probe(#{ input: 3000, output: 100 })]";
    let answers = run("tensorrt_llm", TRTLLM, "llama-1b-h200-trtllm", &options, script);
    assert_eq!(
        (verdict(&answers[0]), verdict(&answers[1])),
        (("ok", ""), ("refused", "kv_cache")),
        "{answers:#}"
    );
    let line = answers[1]["evidence"]["log"][0].as_str().unwrap();
    assert!(line.contains("exceeds its GPU-primary capacity"), "{line}");
}

#[test]
fn vllm_serves_what_its_flags_say() {
    let limits = "limits: #{ input: 3000, output: 500, concurrency: 2 }";
    let script = "#{ answer: engine.probe(#{ input: 3000, output: 500 }), facts: engine.facts(), info: engine.info() }";
    let result = run("vllm", VLLM, "llama-8b-24gb-vllm", limits, script);
    assert_eq!(verdict(&result["answer"]), ("ok", ""), "{result:#}");
    assert_eq!(result["info"]["max_model_len"], 3500);
    for fact in ["weights_bytes", "kv_bytes", "kv_tokens", "graphs_bytes"] {
        assert!(result["facts"][fact].is_array(), "{fact}: {:#}", result["facts"]);
    }
}
