//! A user starts engines through the adapters: every flag is checked against the options that published wheels accept
//! (tests/data/flags), and the request to the Docker daemon is compared as a whole.

mod accepted;
mod docker;
mod process;

use std::sync::Arc;

use profiler::engine::{Adapter, LaunchOptions};
use profiler::fault::Fault;
use profiler::runtime::{Launch, Origin, Permits, RuntimeKind};
use profiler::script;
use serde_json::{Value, json};

use super::script::bench::Bench;
use crate::support::Profiler;

fn adapter(engine: &str) -> Arc<dyn Adapter> {
    script::adapter(&Bench::script("").host(), engine).unwrap()
}

/// The options as an adapter receives them: options that were not given are null.
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

/// The arguments of a launch that name a length.
fn lengths(engine: &str, given: &Value) -> Vec<String> {
    let launched = launch(engine, given).unwrap();
    let words = if given["runtime"] == "docker" {
        launched.args
    } else {
        launched.command
    };
    words
        .into_iter()
        .filter(|word| word.contains("len=") || word.contains("length=") || word.contains("-tokens="))
        .collect()
}

#[test]
fn an_engine_that_can_is_left_to_fit_the_length() {
    let vllm = |given: Value| {
        let mut options = json!({ "fit_length": true });
        options
            .as_object_mut()
            .unwrap()
            .extend(given.as_object().unwrap().clone());
        lengths("vllm", &options)
    };
    let (fitted, exact) = (["--max-model-len=-1"], ["--max-model-len=6500"]);
    assert_eq!(vllm(json!({ "runtime": "docker" })), fitted);
    assert_eq!(
        vllm(json!({ "runtime": "docker", "image": "mine", "version": null })),
        exact
    );
    assert_eq!(vllm(json!({ "version": "0.14.0" })), fitted);
    assert_eq!(vllm(json!({ "version": "0.33.0rc1" })), fitted);
    assert_eq!(vllm(json!({ "version": "0.13.0" })), exact);
    assert_eq!(vllm(json!({ "version": null })), exact, "not known");
    assert_eq!(vllm(json!({ "version": "0.24.0", "fit_length": false })), exact);
    let tgi = |given: Value| lengths("tgi", &given).len();
    assert_eq!(tgi(json!({ "runtime": "docker", "fit_length": true })), 0);
    for not_known in [
        json!({ "fit_length": true }),
        json!({ "runtime": "docker", "image": "mine", "fit_length": true }),
    ] {
        assert_eq!(tgi(not_known), 3);
    }
    assert_eq!(tgi(json!({ "runtime": "docker" })), 3);
    assert_eq!(lengths("sglang", &json!({ "fit_length": true })), [""; 0]);
    // It shortens what it serves, and starts.
    assert_eq!(
        lengths("tensorrt_llm", &json!({ "fit_length": true })),
        lengths("tensorrt_llm", &json!({}))
    );
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
fn every_image_that_ships_gets_the_model_cache_and_the_token_unasked() {
    for engine in ["vllm", "sglang", "tensorrt_llm", "tgi", "llamacpp"] {
        for vendor in ["nvidia", "amd"] {
            if (engine, vendor) == ("tensorrt_llm", "amd") {
                continue;
            }
            let given =
                json!({ "runtime": "docker", "gpu_vendor": vendor, "prefix_cache": null, "random_weights": false });
            let launch = launch(engine, &given).unwrap();
            let origin = Origin::ShippedAdapter {
                replaced: false,
                unlisted: Vec::new(),
            };
            let grant = Permits::default()
                .check_launch(RuntimeKind::Docker, &launch, &origin)
                .unwrap();
            assert!(
                launch.cache.is_some() && grant.token && grant.withheld.is_empty(),
                "{engine} {vendor}: {grant:?}"
            );
        }
    }
}

#[test]
fn a_dry_run_says_what_is_withheld_and_refused() {
    let dry = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let outcome = Profiler::new()
            .args(["run", "adaptive", "--dry-run", "--json"])
            .args(sets)
            .run();
        outcome.json()["engines"][0].clone()
    };
    assert_eq!(dry(&["engine=sglang"])["withheld"], json!([]));
    let harmless = r#"engine_args=["--max-running-requests=8"]"#;
    assert_eq!(
        dry(&["engine=sglang", "image=mine/sglang:1", harmless])["withheld"],
        json!([]),
        "the user named it"
    );
    let unknown = dry(&["engine=sglang", r#"engine_args=["--tokenizer-path=x"]"#])["withheld"].to_string();
    assert!(
        unknown.contains("`--tokenizer-path`") && unknown.contains("--allow token"),
        "{unknown}"
    );
    let process = dry(&["engine=vllm", "runtime=process"]);
    let refused = process["not_allowed"].as_str().unwrap();
    assert!(refused.contains("--allow process"), "{refused}");
}

#[test]
fn a_dry_run_shows_what_its_runtime_starts_and_nothing_else() {
    let shown = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        Profiler::new()
            .args([
                "run",
                "adaptive",
                "--dry-run",
                "--set",
                "engine=tensorrt_llm",
                "--set",
                "prefix_cache=false",
            ])
            .args(sets)
            .run()
    };
    let _ = shown(&["runtime=docker"])
        .success()
        .stdout("  image: nvcr.io/nvidia/tensorrt-llm/release:1.2.1\n  arguments: trtllm-serve ")
        .stdout("enable_block_reuse")
        .nowhere("  command: ");
    let _ = shown(&["runtime=process"])
        .code(3)
        .stdout("  command: trtllm-serve ")
        .nowhere("  image: ")
        .nowhere("  arguments: ");
}

#[test]
fn ranks_need_a_gpu_each() {
    let status = |gpus: &str| {
        Profiler::new()
            .args([
                "run",
                "adaptive",
                "--dry-run",
                "--set",
                "engine=vllm",
                "--set",
                "tensor_parallel=2",
                "--set",
                gpus,
            ])
            .run()
    };
    let _ = status("gpus=[0]").code(2).stderr("`gpus` names 1");
    let _ = status("gpus=[0,1]").stdout("--tensor-parallel-size=2");
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
    let speculation = |max_concurrency: Value| json!({ "draft": 4, "method": "ngram", "model": null, "ngram": null, "max_concurrency": max_concurrency });
    let speculating = extra(json!({ "speculation": speculation(json!(16)) }));
    assert_eq!(
        speculating["speculative_config"],
        json!({ "decoding_type": "NGram", "max_draft_len": 4, "max_matching_ngram_size": 2, "max_concurrency": 16 })
    );
    assert_eq!(speculating["disable_overlap_scheduler"], true);
    let by = |engine: &str, method: &str, model: Value| {
        let given = json!({ "speculation": { "draft": 4, "method": method, "model": model, "ngram": null, "max_concurrency": null } });
        if engine == "tensorrt_llm" {
            return extra(given)["speculative_config"].clone();
        }
        let words = launch(engine, &given).unwrap().command;
        let config = words
            .iter()
            .find_map(|word| word.strip_prefix("--speculative-config="))
            .unwrap();
        serde_json::from_str(config).unwrap()
    };
    assert_eq!(
        by("tensorrt_llm", "mtp", Value::Null),
        json!({ "decoding_type": "MTP", "num_nextn_predict_layers": 4, "max_concurrency": null })
    );
    assert_eq!(
        by("tensorrt_llm", "draft_model", json!("a/b")),
        json!({ "decoding_type": "DraftTarget", "max_draft_len": 4, "speculative_model_dir": "a/b", "max_concurrency": null })
    );
    for method in ["eagle", "eagle3"] {
        assert_eq!(
            by("tensorrt_llm", method, json!("a/b")),
            json!({
                "decoding_type": "Eagle", "max_draft_len": 4, "speculative_model_dir": "a/b", "eagle3_one_model": false, "max_concurrency": null
            })
        );
        assert_eq!(
            by("vllm", method, json!("a/b")),
            json!({ "method": method, "model": "a/b", "num_speculative_tokens": 4 })
        );
    }
    assert_eq!(
        by("vllm", "mtp", Value::Null),
        json!({ "method": "mtp", "num_speculative_tokens": 4 })
    );
    // Further entries of the file, beside those that other options make.
    let words = [
        "--options.kv_cache_config.free_gpu_memory_fraction=0.8",
        "--options.moe_config.backend=CUTLASS",
        "--pp_size=2",
    ];
    let given = json!({ "kv_cache_dtype": "fp8", "engine_args": words });
    let entries = extra(given.clone());
    assert_eq!(
        entries["kv_cache_config"],
        json!({ "dtype": "fp8", "free_gpu_memory_fraction": 0.8 })
    );
    assert_eq!(entries["moe_config"], json!({ "backend": "CUTLASS" }));
    let command = launch("tensorrt_llm", &given).unwrap().command;
    assert!(command.contains(&"--pp_size=2".to_owned()) && !command.iter().any(|word| word.contains("moe_config")));
    for engine in ["tgi", "llamacpp", "ollama", "transformers"] {
        let fault = launch(engine, &json!({ "speculation": speculation(Value::Null) })).unwrap_err();
        assert!(
            fault.message.contains("`speculation`") && fault.hint.is_some(),
            "{fault}"
        );
    }
    let fault = launch("vllm", &json!({ "speculation": speculation(json!(16)) })).unwrap_err();
    assert!(fault.message.contains("`max_concurrency`"), "{fault}");
    let words = launch("vllm", &json!({ "speculation": speculation(Value::Null) }))
        .unwrap()
        .command;
    let config = words
        .iter()
        .find_map(|word| word.strip_prefix("--speculative-config="))
        .unwrap();
    let config: Value = serde_json::from_str(config).unwrap();
    assert_eq!(
        config,
        json!({ "method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 2 })
    );
    let words = |given: Value| {
        let all = launch("sglang", &json!({ "speculation": given })).unwrap().command;
        let own = all.iter().filter_map(|word| word.strip_prefix("--speculative-"));
        own.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words(speculation(Value::Null)), "algorithm=NGRAM num-draft-tokens=4");
    assert_eq!(
        words(json!({ "draft": 3, "method": "mtp", "model": null, "ngram": null, "max_concurrency": null })),
        "algorithm=NEXTN num-steps=3 eagle-topk=1 num-draft-tokens=4"
    );
    assert_eq!(
        words(json!({ "draft": 3, "method": "eagle3", "model": "a/b", "ngram": null, "max_concurrency": null })),
        "algorithm=EAGLE3 num-steps=3 eagle-topk=1 num-draft-tokens=4 draft-model-path=a/b"
    );
    let fault = launch("sglang", &json!({ "speculation": speculation(json!(16)) })).unwrap_err();
    assert!(fault.message.contains("`max_concurrency`"), "{fault}");
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
        adapter("sglang").flags(&limits.unwrap(), true).unwrap()
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

/// The suggested flags start the engine as it was measured, including its memory fraction and its number formats.
#[test]
fn flags_to_paste_keep_what_was_set() {
    for (engine, wanted) in [
        ("vllm", ["--gpu-memory-utilization=0.7", "--kv-cache-dtype=fp8"]),
        ("sglang", ["--mem-fraction-static=0.7", "--kv-cache-dtype=fp8_e4m3"]),
        ("tgi", ["--cuda-memory-fraction=0.7", "--kv-cache-dtype=fp8"]),
    ] {
        let options = options(&json!({ "memory_fraction": 0.7, "kv_cache_dtype": "fp8" }));
        let flags = adapter(engine).settings(&options).unwrap();
        assert!(
            wanted.iter().all(|flag| flags.iter().any(|own| own == flag)),
            "{engine}: {flags:?}"
        );
    }
    let shown = Profiler::new()
        .args([
            "run",
            "adaptive",
            "--set",
            "engine=sim",
            "--set",
            "memory_fraction=0.75",
            "--set",
            "output=[128,256]",
        ])
        .run()
        .success();
    let _ = shown.stdout("--max-model-len 18016 --gpu-memory-utilization 0.75");
}
