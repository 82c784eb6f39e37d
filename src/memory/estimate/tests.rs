//! Properties of every estimate, and comparisons with measurements.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::memory::{Component, Provenance};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The known shapes: name and `config.json`.
fn shapes() -> BTreeMap<String, Value> {
    let files = std::fs::read_dir(data("shapes"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let named = files.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".config.json")?.to_owned();
        Some((name, serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()))
    });
    named.collect()
}

fn files(config: &Value) -> ModelFiles {
    ModelFiles {
        config: config.clone(),
        ..ModelFiles::default()
    }
}

fn shape(name: &str) -> ModelFiles {
    files(&shapes()[name])
}

#[test]
fn parameters_are_as_many_as_transformers_counts() {
    let file: Value = serde_json::from_slice(&std::fs::read(data("shapes/counts.json")).unwrap()).unwrap();
    let counts = file["parameters"].as_object().unwrap();
    let shapes = shapes();
    assert_eq!(counts.len(), shapes.len(), "run tests/data/shapes/count.py");
    let mut families = std::collections::BTreeSet::new();
    for (name, config) in &shapes {
        let found = estimate(&files(config), &EstimateRequest::default()).unwrap();
        assert_eq!(Some(found.parameters), counts[name].as_u64(), "{name}");
        families.insert(found.family);
    }
    assert!(families.len() >= 12, "{families:?}");
}

/// Every folder of the wheel `aiconfigurator_core`, with what transformers makes of most (`tests/data/shapes/folders.py`).
#[test]
fn folders_of_real_models_are_read() {
    let file: Value = serde_json::from_slice(&std::fs::read(data("shapes/folders.json")).unwrap()).unwrap();
    let folders = file.as_object().unwrap();
    assert_eq!(folders.len(), 89);
    let mut compared = 0;
    for (name, folder) in folders {
        let known = ModelFiles {
            quantization: folder.get("hf_quant_config").cloned(),
            ..files(&folder["config"])
        };
        let found = estimate(&known, &EstimateRequest::default()).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        // The name of a checkpoint says how its weights are stored, and its size must show it.
        let per_weight = found.weight_bytes as f64 / found.parameters as f64;
        let (least, most) = match name {
            name if name.contains("NVFP4") => (0.5, 1.1),
            name if name.contains("FP8") => (1.0, 1.2),
            _ if found.quantization.is_none() => (2.0, 2.0),
            _ => (0.5, 1.2),
        };
        assert!(
            (least..=most).contains(&per_weight),
            "{name}: {per_weight} bytes per weight, {:?}",
            found.quantization
        );
        let states_dtype = !folder["config"].to_string().contains("dtype\":\"bfloat16");
        assert_eq!(
            found.notes.iter().any(|note| note.contains("is assumed")),
            states_dtype,
            "{name}: {:?}",
            found.notes
        );
        let Some(parameters) = folder["transformers"]["parameters"].as_u64() else {
            continue;
        };
        compared += 1;
        assert_eq!(found.parameters, parameters, "{name}");
        let elements = folder["transformers"]["keys_and_values"].as_u64().unwrap();
        if elements > 0 {
            let bfloat16 = EstimateRequest {
                kv_cache_dtype: Some("bfloat16".into()),
                ..EstimateRequest::default()
            };
            let kv = estimate(&known, &bfloat16).unwrap().kv_bytes_per_token;
            // vLLM keeps 128 bytes and a scale of 4 for each key of DeepSeek's indexer; MiniMax's are in the type of the cache.
            let indexers = folder["transformers"]["indexers"].as_u64().unwrap();
            let index = if name.contains("MiniMax-M3") { 256 } else { 132 };
            assert_eq!(kv, elements * 2 + indexers * index, "{name}");
        }
    }
    assert!(compared >= 84, "{compared}");
}

/// Numbers that were published beside the models' configurations.
#[test]
fn published_numbers_hold() {
    let folders: Value = serde_json::from_slice(&std::fs::read(data("shapes/folders.json")).unwrap()).unwrap();
    let found = |name: &str| {
        let known = files(&folders[name]["config"]);
        estimate(&known, &EstimateRequest::default()).unwrap()
    };
    let published: Value = serde_json::from_slice(&std::fs::read(data("shapes/published.json")).unwrap()).unwrap();
    for row in published.as_array().unwrap() {
        let name = row["model"].as_str().unwrap();
        let found = found(name);
        let near = |is: u64, of: &str, within: f64| {
            if let Some(wanted) = row[of].as_f64() {
                let off = (is as f64 / wanted - 1.0).abs();
                assert!(
                    off <= within,
                    "{name}: {of} is {is}, published {wanted} ({})",
                    row["source"]
                );
            }
        };
        near(found.kv_bytes_per_token, "kv_bytes_per_token", 0.01);
        near(found.weight_bytes, "weight_bytes", 0.03);
        near(found.parameters, "parameters", 0.03);
    }
}

/// As vLLM 0.24 logged them for Falcon-H1 on an H100 (`tests/data/README.md`), and as its developers name them for
/// Qwen3-Next (pull request 32492).
#[test]
fn blocks_of_hybrids_are_those_of_vllm() {
    let blocks = |name: &str| {
        let found = estimate(&shape(name), &EstimateRequest::default()).unwrap();
        let blocks = found.state_blocks?;
        Some((blocks.tokens, blocks.per_tokens, blocks.per_sequence))
    };
    assert_eq!(blocks("falcon-h1-1.5b"), Some((1568, 1, 1)));
    assert_eq!(blocks("qwen3-next-80b-a3b"), Some((544, 1, 3)));
    assert_eq!(blocks("llama-3.1-8b"), None);
    assert_eq!(blocks("gemma-2-9b"), None);
}

#[test]
fn kv_of_a_token_is_what_vllm_had() {
    let size = regex::Regex::new(r"GPU KV cache size: ([\d,]+) tokens").unwrap();
    let memory = regex::Regex::new(r"Available KV cache memory: (-?[\d.]+) GiB").unwrap();
    let needed = regex::Regex::new(r"max seq len \((\d+)\), \(([\d.]+) GiB KV cache is needed").unwrap();
    let mut compared = 0;
    for entry in std::fs::read_dir(data("vllm-0.24.0-h200")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let log = std::fs::read_to_string(&path).unwrap();
        let kv_cache_dtype = log.contains("kv_cache_dtype': 'fp8").then(|| "fp8".to_owned());
        let request = EstimateRequest {
            kv_cache_dtype,
            ..EstimateRequest::default()
        };
        let per_token = estimate(&shape("llama-8b-shape"), &request).unwrap().kv_bytes_per_token;
        let tokens = size.captures(&log).map(|found| found[1].replace(',', ""));
        let pairs = tokens
            .zip(memory.captures(&log).map(|found| found[1].to_owned()))
            .into_iter()
            .chain(
                needed
                    .captures(&log)
                    .map(|found| (found[1].to_owned(), found[2].to_owned())),
            );
        for (tokens, gib) in pairs {
            let bytes = tokens.parse::<f64>().unwrap() * per_token as f64 / f64::from(1 << 30);
            // Tolerance: the log's digits, and the blocks that were rounded away.
            assert!(
                (bytes - gib.parse::<f64>().unwrap()).abs() < 0.0075,
                "{path:?}: {bytes} and {gib}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 7, "{compared}");
}

#[test]
fn the_slope_of_a_real_prefill_is_kv_and_activations() {
    // transformers, one sequence, the whole prompt in one step: bytes at the peak at 32,768 and 65,536 tokens.
    let log = std::fs::read_to_string(data("transformers-5.17.0-h200/generate-1b-12gib-cap.jsonl")).unwrap();
    let rows: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let peak = |tokens: u64| {
        let row = rows
            .iter()
            .find(|row| row["b"] == 1 && row["i"] == tokens && row["o"] == 8);
        row.unwrap()["alloc"].as_u64().unwrap()
    };
    let slope = (peak(65_536) - peak(32_768)) / 32_768;

    let parts = |input| {
        let request = EstimateRequest {
            input,
            output: 0,
            ..EstimateRequest::default()
        };
        let all = estimate(&shape("llama-1b-shape"), &request).unwrap().total;
        let bytes = |component| u64::try_from(all.part(component).unwrap().bytes).unwrap();
        (bytes(Component::KvUsed), bytes(Component::Activations))
    };
    let (more, fewer) = (parts(65_536), parts(32_768));
    let (kv, activations) = ((more.0 - fewer.0) / 32_768, (more.1 - fewer.1) / 32_768);
    assert_eq!(kv, 32_768);
    // Further memory of transformers: the embeddings and the layer's input (2 · 2048 · 2 bytes), cosines and sines of a
    // head (2 · 64 · 2), and four lists of 8-byte positions and ids.
    assert_eq!(slope, kv + activations + 8192 + 256 + 32);
}

#[test]
fn provenance_is_stated_and_parts_add_up() {
    let request = EstimateRequest {
        tensor_parallel: 2,
        ..EstimateRequest::default()
    };
    let found = estimate(&shape("llama-3.1-8b"), &request).unwrap();
    for rank in found.ranks.iter().chain([&found.total]) {
        assert_eq!(rank.unexplained(), 0);
        for part in &rank.parts {
            let assumed = part.component == Component::RuntimeContext;
            assert_eq!(part.provenance == Provenance::Assumed, assumed, "{part:?}");
        }
    }
}

#[test]
fn ranks_replicate_what_cannot_be_shared() {
    let on = |name: &str, ranks| {
        let request = EstimateRequest {
            tensor_parallel: ranks,
            ..EstimateRequest::default()
        };
        estimate(&shape(name), &request).unwrap()
    };
    // 8 KV heads on 16 ranks: every rank holds one.
    assert_eq!(on("llama-3.1-8b", 16).kv_bytes_per_token_per_rank, 32 * 2 * 128 * 2);
    // A latent is one head: every rank holds all of it.
    let latent = on("deepseek-v3", 8);
    assert_eq!(latent.kv_bytes_per_token_per_rank, latent.kv_bytes_per_token);
    assert_eq!(latent.kv_bytes_per_token, 61 * (512 + 64) * 2);
    let refused = EstimateRequest {
        tensor_parallel: 3,
        ..EstimateRequest::default()
    };
    assert!(
        estimate(&shape("llama-3.1-8b"), &refused)
            .unwrap_err()
            .message
            .contains("3 ranks")
    );
}

#[test]
fn windows_and_states_do_not_grow() {
    let kv = |name: &str, input| {
        let request = EstimateRequest {
            input,
            output: 0,
            ..EstimateRequest::default()
        };
        let all = estimate(&shape(name), &request).unwrap().total;
        all.part(Component::KvUsed).unwrap().bytes
    };
    // Every layer of Mistral 7B v0.1 has a window of 4,096.
    assert_eq!(kv("mistral-7b-v0.1", 4096), kv("mistral-7b-v0.1", 32_768));
    // In Gemma 3 every sixth layer grows: 4 of 26.
    let grown = kv("gemma-3-1b", 32_000) - kv("gemma-3-1b", 16_000);
    assert_eq!(grown, 16_000 * 4 * 2 * 256 * 2);
    // In Qwen3-Next every fourth layer grows: 12 of 48, in blocks of 544 tokens.
    let grown = kv("qwen3-next-80b-a3b", 2176) - kv("qwen3-next-80b-a3b", 1088);
    assert_eq!(grown, 1088 * 12 * 2 * 2 * 256 * 2);
    // Gemma 2B has one KV head per layer. MHA's formula would give 8 times as much.
    assert_eq!(kv("gemma-2b", 100), 100 * 18 * 2 * 256 * 2);
}

#[test]
fn quantized_weights_have_their_published_size() {
    let bytes = |name: &str, quantization: &str| {
        let request = EstimateRequest {
            quantization: Some(quantization.to_owned()),
            ..EstimateRequest::default()
        };
        estimate(&shape(name), &request).unwrap().weight_bytes
    };
    // `total_size` in the index of the published gpt-oss-20b: MXFP4 experts, everything else bfloat16.
    assert_eq!(bytes("gpt-oss-20b", "mxfp4"), 13_761_264_768);
}

#[test]
fn files_decide_as_long_as_they_are_loaded_as_they_are() {
    let known = ModelFiles {
        indexed: Some(1_000_000),
        ..shape("llama-biased-small")
    };
    let bytes = |request: &EstimateRequest| estimate(&known, request).unwrap().weight_bytes;
    assert_eq!(bytes(&EstimateRequest::default()), 1_000_000);
    let float = EstimateRequest {
        dtype: Some("float32".into()),
        ..EstimateRequest::default()
    };
    assert_eq!(bytes(&float), 478_704 * 4);
    let two = EstimateRequest {
        tensor_parallel: 2,
        ..EstimateRequest::default()
    };
    let on_two = estimate(&known, &two).unwrap().total;
    assert!(on_two.part(Component::Weights).unwrap().bytes >= 1_000_000);
}

#[test]
fn unknown_values_are_refused_and_never_guessed() {
    let refused = |config: Value| estimate(&files(&config), &EstimateRequest::default()).unwrap_err();
    let family = refused(json!({"model_type": "brand_new", "hidden_size": 8}));
    assert!(family.message.contains("`brand_new` is not known"), "{family}");
    assert!(family.hint.unwrap().contains("safetensors"));
    let mut config = shapes()["llama-3.1-8b"].clone();
    config["num_hidden_layers"] = Value::Null;
    assert!(refused(config.clone()).message.contains("`num_hidden_layers`"));
    config["num_hidden_layers"] = json!(32);
    config["dtype"] = Value::Null;
    let assumed = estimate(&files(&config), &EstimateRequest::default()).unwrap();
    assert!(assumed.notes[0].contains("bfloat16 is assumed"), "{:?}", assumed.notes);
    config["dtype"] = json!("bfloat17");
    assert!(refused(config.clone()).message.contains("`bfloat17`"));
    config["dtype"] = json!("bfloat16");
    config["quantization_config"] = json!({"quant_method": "aqlm"});
    assert!(refused(config).message.contains("`aqlm`"));
    let mut config = shapes()["jamba-v0.1"].clone();
    config["attn_layer_period"] = Value::Null;
    assert!(refused(config).message.contains("`attn_layer_period`"));
}

#[test]
fn missing_keys_have_the_defaults_of_transformers() {
    let parameters = |config: &Value| {
        estimate(&files(config), &EstimateRequest::default())
            .unwrap()
            .parameters
    };
    let changed = |name: &str, key: &str, value: Value| {
        let mut config = shapes()[name].clone();
        config[key] = value;
        config
    };
    for (name, key, default) in [
        ("jamba-v0.1", "mamba_dt_rank", json!(256)),
        ("falcon-h1-1.5b", "mamba_rms_norm", json!(false)),
        // Only GPT-2 learns its positions.
        ("pythia-6.9b", "n_positions", json!(4096)),
    ] {
        let (with, without) = (changed(name, key, default), changed(name, key, Value::Null));
        assert_eq!(parameters(&with), parameters(&without), "{name}: {key}");
    }
    let mut dense = changed("deepseek-v3", "first_k_dense_replace", json!(100));
    let with = parameters(&dense);
    dense["n_routed_experts"] = Value::Null;
    assert_eq!(parameters(&dense), with);
}

#[test]
fn absurd_configs_do_not_overflow() {
    for mut config in shapes().into_values() {
        let values = config.as_object_mut().unwrap();
        for (name, value) in values.iter_mut() {
            if value.is_u64() && !name.contains("layers") && !name.contains("offset") {
                *value = json!(1_u64 << 26);
            }
        }
        // Any answer is fine, but it must not panic.
        let _answer = estimate(&files(&config), &EstimateRequest::default());
    }
}

fn questions() -> impl Strategy<Value = EstimateRequest> {
    let ranks = prop::sample::select(vec![1_u64, 2, 4]);
    let chunk = prop::option::of(1..10_000_u64);
    (0..50_000_u64, 1..5000_u64, 1..100_u64, ranks, chunk).prop_map(
        |(input, output, concurrency, tensor_parallel, prefill_chunk)| EstimateRequest {
            input,
            output,
            concurrency,
            tensor_parallel,
            prefill_chunk,
            gpu_memory: Some(80 << 30),
            ..EstimateRequest::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn more_is_never_less(request in questions(), more in 1..5000_u64) {
        for (name, config) in shapes() {
            let known = files(&config);
            let Ok(found) = estimate(&known, &request) else {
                continue;
            };
            let larger = [
                EstimateRequest { input: request.input + more, ..request.clone() },
                EstimateRequest { output: request.output + more, ..request.clone() },
                EstimateRequest { concurrency: request.concurrency + more, ..request.clone() },
            ];
            for larger in larger {
                let needs = estimate(&known, &larger).unwrap();
                prop_assert!(needs.total.total >= found.total.total, "{}", name);
                let (before, after) = (found.fits.as_ref().unwrap(), needs.fits.as_ref().unwrap());
                prop_assert!(before.fits || !after.fits, "{}", name);
            }
            let single = estimate(&known, &EstimateRequest { tensor_parallel: 1, ..request.clone() }).unwrap();
            prop_assert!(found.total.total >= single.total.total, "{}", name);
            prop_assert!(found.ranks[0].total <= single.total.total, "{}", name);
            let fits = found.fits.unwrap();
            prop_assert_eq!(fits.fits, fits.sequences >= request.concurrency, "{}", name);
        }
    }
}

#[test]
fn the_largest_is_found_from_either_end() {
    assert_eq!(largest(100, |n| n <= 37), 37);
    assert_eq!(largest(100, |_| true), 100);
    assert_eq!(largest(u64::MAX, |_| false), 0);
}
