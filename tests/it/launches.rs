//! What the adapters would start: command lines held against the options that published wheels accept (tests/data/flags), and the whole
//! request that the Docker daemon gets.

mod accepted;
mod docker;
mod process;

use std::sync::Arc;

use profiler::engine::{Adapter, LaunchOptions};
use profiler::fault::Fault;
use profiler::runtime::Launch;
use profiler::script;
use serde_json::{Value, json};

use super::script::bench::Bench;

fn adapter(engine: &str) -> Arc<dyn Adapter> {
    script::adapter(&Bench::script("").host(), engine).unwrap()
}

/// The options as an adapter sees them: everything that was not given is null.
fn options(given: &Value) -> Value {
    let mut options = json!(LaunchOptions::default());
    options["runtime"] = json!("process");
    options["limits"] = json!({ "input": 6000, "output": 500, "total": 6500, "concurrency": 16 });
    options["mounts"] = json!([]);
    options["gpu_vendor"] = json!("nvidia");
    options["model"] = json!("org/model");
    for (name, value) in given.as_object().unwrap() {
        options[name] = value.clone();
    }
    options
}

fn launch(engine: &str, given: &Value) -> Result<Launch, Fault> {
    adapter(engine).launch(&options(given))
}

#[test]
fn amd_gpus_have_images_of_their_own_or_a_refusal() {
    for (engine, nvidia, amd) in [
        ("vllm", "vllm/vllm-openai:v0.24.0", "vllm/vllm-openai-rocm:v0.24.0"),
        (
            "sglang",
            "lmsysorg/sglang:v0.5.23",
            "lmsysorg/sglang:v0.5.19-rocm700-mi30x",
        ),
    ] {
        let image = |given: Value| launch(engine, &given).unwrap().image.unwrap();
        assert_eq!(image(json!({})), nvidia);
        assert_eq!(image(json!({ "gpu_vendor": null })), nvidia);
        assert_eq!(image(json!({ "gpu_vendor": "amd" })), amd);
        assert_eq!(image(json!({ "gpu_vendor": "amd", "image": "mine:1" })), "mine:1");
    }
    let fault = launch("tensorrt_llm", &json!({ "gpu_vendor": "amd" })).unwrap_err();
    assert!(fault.message.contains("NVIDIA GPUs only"), "{fault}");
}

#[test]
fn tensorrt_llm_gets_in_a_file_what_its_command_line_does_not_take() {
    let extra = |given: Value| -> Value {
        let launch = launch("tensorrt_llm", &given).unwrap();
        assert!(
            launch
                .command
                .contains(&"--extra_llm_api_options={files}/options.yaml".to_owned())
        );
        serde_json::from_str(&launch.files["options.yaml"]).unwrap()
    };
    assert_eq!(extra(json!({})), json!({ "enable_iter_perf_stats": true }));
    let all = json!({
        "random_weights": true, "dtype": "bfloat16", "cuda_graphs": false, "prefix_cache": false, "kv_cache_dtype": "fp8",
        "memory_fraction": 0.5,
    });
    assert_eq!(
        extra(all),
        json!({
            "enable_iter_perf_stats": true, "load_format": "dummy", "dtype": "bfloat16", "cuda_graph_config": null,
            "kv_cache_config": { "free_gpu_memory_fraction": 0.5, "dtype": "fp8", "enable_block_reuse": false },
        })
    );
    let graphs = extra(json!({ "cuda_graphs": true }));
    assert_eq!(graphs["cuda_graph_config"], json!({ "enable_padding": true }));
    for option in ["quantization", "revision"] {
        let fault = launch("tensorrt_llm", &json!({ option: "x" })).unwrap_err();
        assert!(fault.message.contains(option) && fault.hint.is_some(), "{fault}");
    }
}

#[test]
fn sglang_is_given_the_tokens_that_it_keeps_to_itself() {
    let flags = |input: u64, output: u64| {
        let limits = serde_json::from_value(
            json!({ "input": input, "output": output, "total": input + output, "concurrency": 2 }),
        );
        adapter("sglang").flags(&limits.unwrap()).unwrap()
    };
    assert_eq!(flags(1000, 200), ["--context-length=1202", "--max-running-requests=2"]);
    assert_eq!(flags(1000, 1)[0], "--context-length=1007");
}

#[test]
fn sglang_is_started_by_a_python_or_by_its_own_command() {
    let command = |program: Value| launch("sglang", &json!({ "program": program })).unwrap().command;
    assert_eq!(
        command(json!("/venv/bin/python"))[..3],
        ["/venv/bin/python", "-m", "sglang.launch_server"]
    );
    assert_eq!(command(Value::Null)[0], "python3");
    assert_eq!(command(json!("/venv/bin/sglang"))[..2], ["/venv/bin/sglang", "serve"]);
}
