//! A user sets the common options, and each adapter launches its engine with them or rejects them by name.

use profiler::engine::Limits;
use profiler::fault::Kind;
use profiler::runtime::Launch;
use serde_json::{Value, json};

use super::{adapter, options};

const ENGINES: [&str; 4] = ["tgi", "ollama", "transformers", "llamacpp"];

#[track_caller]
fn launch(engine: &str, given: Value) -> Launch {
    adapter(engine).launch(&options(&given)).unwrap()
}

/// True if the arguments or the environment of the launch contain `text`.
fn says(launch: &Launch, text: &str) -> bool {
    let env = launch.env.iter().map(|(name, value)| format!("{name}={value}"));
    let words: Vec<String> = launch.args.iter().cloned().chain(env).collect();
    words.join(" ").contains(text)
}

#[test]
fn every_option_is_honoured_or_refused_by_name() {
    // For each option and value: the argument or environment of each engine, or `None` where it must reject the option.
    let image = json!("mine");
    let table: [(&str, Value, [Option<&str>; 4]); 12] = [
        (
            "dtype",
            json!("float16"),
            [Some("--dtype=float16"), None, Some("--dtype float16"), None],
        ),
        (
            "quantization",
            json!("bnb-8bit"),
            [Some("--quantize=bnb-8bit"), None, Some("--quantization bnb-8bit"), None],
        ),
        (
            "kv_cache_dtype",
            json!("q8_0"),
            [
                Some("--kv-cache-dtype=q8_0"),
                Some("OLLAMA_KV_CACHE_TYPE=q8_0"),
                None,
                Some("--cache-type-k q8_0 --cache-type-v q8_0"),
            ],
        ),
        (
            "memory_fraction",
            json!(0.5),
            [Some("--cuda-memory-fraction=0.5"), None, None, None],
        ),
        ("tensor_parallel", json!(2), [Some("--num-shard=2"), None, None, None]),
        (
            "cuda_graphs",
            json!(false),
            [
                Some("--cuda-graphs=0"),
                Some("GGML_CUDA_DISABLE_GRAPHS=1"),
                Some(""),
                Some("GGML_CUDA_DISABLE_GRAPHS=1"),
            ],
        ),
        ("cuda_graphs", json!(true), [Some(""), Some(""), None, Some("")]),
        (
            "prefix_cache",
            json!(false),
            [Some("PREFIX_CACHING=0"), None, Some(""), Some("--no-cache-prompt")],
        ),
        (
            "prefix_cache",
            json!(true),
            [Some("PREFIX_CACHING=1"), Some(""), None, None],
        ),
        ("random_weights", json!(true), [None, None, None, None]),
        ("revision", json!("abc"), [Some("--revision=abc"), None, None, None]),
        (
            "engine_args",
            json!(["--x", "1"]),
            [Some("--x 1"), None, Some("--x 1"), Some("--x 1")],
        ),
    ];
    for (option, value, expected) in table {
        for (engine, expected) in ENGINES.into_iter().zip(expected) {
            let launched = adapter(engine).launch(&options(&json!({ option: value, "image": image })));
            match (launched, expected) {
                (Ok(launch), Some(text)) => assert!(says(&launch, text), "{engine} {option} {value}: {launch:?}"),
                (Err(fault), None) => {
                    assert_eq!(fault.kind, Kind::Usage, "{engine} {option}: {fault}");
                    assert!(
                        fault.message.contains(option) && fault.hint.is_some(),
                        "{engine}: {fault}"
                    );
                }
                (Ok(launch), None) => panic!("{engine} does not refuse {option}={value}: {launch:?}"),
                (Err(fault), Some(_)) => panic!("{engine} refuses {option}={value}: {fault}"),
            }
        }
    }
}

#[test]
fn limits_become_what_bounds_each_engine() {
    let flags = |engine: &str, input: u64, output: u64| {
        let limits = Limits {
            input,
            output,
            total: input + output,
            concurrency: 4,
        };
        adapter(engine).flags(&limits, true).unwrap().join(" ")
    };
    assert_eq!(flags("llamacpp", 1000, 100), "--ctx-size 4404 --parallel 4");
    assert_eq!(
        flags("ollama", 1000, 100),
        "OLLAMA_CONTEXT_LENGTH=1101 OLLAMA_NUM_PARALLEL=4 OLLAMA_MAX_LOADED_MODELS=1"
    );
    assert!(flags("tgi", 1000, 100).starts_with("--max-input-tokens=1000 --max-total-tokens=1100"));
    // The third slice begins with 1000 + 2048 tokens of input.
    assert!(flags("tgi", 1000, 2049).starts_with("--max-input-tokens=3048 --max-total-tokens=3049"));
    assert!(flags("tgi", 1000, 2048).starts_with("--max-input-tokens=2024 --max-total-tokens=3048"));
    assert_eq!(flags("transformers", 1000, 100), "");
}

#[test]
fn amd_gpus_get_the_images_that_are_made_for_them() {
    for (engine, image) in [
        ("tgi", "ghcr.io/huggingface/text-generation-inference:3.3.5-rocm"),
        ("ollama", "ollama/ollama:0.32.15-rocm"),
    ] {
        let launched = launch(engine, json!({ "gpus": ["0"], "gpu_vendor": "amd" }));
        assert_eq!(launched.image.as_deref(), Some(image));
        let mine = launch(engine, json!({ "gpus": ["0"], "gpu_vendor": "amd", "image": "mine" }));
        assert_eq!(mine.image.as_deref(), Some("mine"));
        let nvidia = launch(engine, json!({ "gpus": ["0"], "gpu_vendor": "nvidia" }));
        assert!(!nvidia.image.unwrap().contains("rocm"));
    }
}

#[test]
fn ollama_makes_a_model_of_a_file_in_a_container_of_its_own_and_nowhere_else() {
    let made = launch("ollama", json!({ "model": "/models/a.gguf" }));
    assert_eq!(made.files["Modelfile"], "FROM /models/a.gguf");
    let script = &made.entrypoint[2];
    assert!(
        script.contains("ollama create") && script.ends_with("exec ollama serve"),
        "{script}"
    );
    let named = launch(
        "ollama",
        json!({ "model": "llama3.2:1b", "env": { "OLLAMA_MODELS": "/store" } }),
    );
    assert_eq!(
        (named.entrypoint, named.args),
        (vec!["/bin/ollama".to_owned()], vec!["serve".to_owned()])
    );
    assert_eq!(
        (named.mounts[0].host.as_str(), named.mounts[0].writable),
        ("/store", false),
        "the store is read-only"
    );
    assert_eq!(named.env["OLLAMA_CONTEXT_LENGTH"], "1101");
    let process = options(&json!({ "model": "/models/a.gguf", "runtime": "process" }));
    let fault = adapter("ollama").launch(&process).unwrap_err();
    assert!(fault.message.contains("your own store"), "{fault}");
}
