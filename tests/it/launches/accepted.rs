//! A user starts an engine of a published version: its argument parser accepts every flag that the adapter can emit.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{adapter, launch};

/// An option, as tests/data/flags/options.py prints it.
struct Known {
    takes: String,
    choices: Vec<String>,
}

fn known(version: &str) -> BTreeMap<String, Known> {
    let path = format!("{}/tests/data/flags/{version}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut known = BTreeMap::new();
    for line in text.lines() {
        let [spellings, takes, choices] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{version}: {line}");
        };
        for spelling in spellings.split_whitespace() {
            let option = Known {
                takes: takes.trim().to_owned(),
                choices: choices.split_whitespace().map(str::to_owned).collect(),
            };
            known.insert(spelling.to_owned(), option);
        }
    }
    assert!(known.len() > 100, "{version}");
    known
}

/// Describes why the parser would reject this flag, if it would.
fn wrong(known: &BTreeMap<String, Known>, flag: &str) -> Option<String> {
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (flag, None),
    };
    let Some(option) = known.get(name) else {
        return Some(format!("`{name}` is not known"));
    };
    match (option.takes.as_str(), value) {
        ("one", None) => Some(format!("`{name}` needs a value")),
        ("none", Some(_)) => Some(format!("`{name}` takes no value")),
        ("one", Some(value)) if !option.choices.is_empty() && !option.choices.iter().any(|known| known == value) => {
            Some(format!("`{name}` does not take `{value}`, but {:?}", option.choices))
        }
        _ => None,
    }
}

/// Neutral options, each with all its usual values.
fn given() -> Vec<Value> {
    let mut given = vec![json!({
        "revision": "main", "dtype": "bfloat16", "quantization": "fp8", "kv_cache_dtype": "fp8", "tensor_parallel": 2, "memory_fraction": 0.85,
        "cuda_graphs": false, "prefix_cache": false, "random_weights": true, "trust_remote_code": true,
    })];
    given.extend([json!({}), json!({ "cuda_graphs": true, "prefix_cache": true })]);
    given.extend(["auto", "bfloat16", "float16", "float32"].map(|kind| json!({ "dtype": kind })));
    given.extend(["auto", "fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16"].map(|kind| json!({ "kv_cache_dtype": kind })));
    given.extend(["awq", "gptq", "fp8", "bitsandbytes"].map(|kind| json!({ "quantization": kind })));
    let drafts = |method: &str, model: Value| json!({ "speculation": { "method": method, "draft": 3, "model": model, "ngram": null, "max_concurrency": null } });
    given.extend(["ngram", "mtp"].map(|method| drafts(method, Value::Null)));
    given.extend(["eagle", "eagle3", "draft_model"].map(|method| drafts(method, json!("a/b"))));
    given
}

fn assert_accepted(engine: &str, version: &str) {
    let known = known(version);
    // The table of settings is that of newer versions.
    if !["vllm-0.11.0", "sglang-0.5.5"].contains(&version) {
        let settings = adapter(engine).tunable().unwrap();
        let flags = settings.iter().flat_map(|setting| [&setting.flag, &setting.off]);
        let lacking = flags.filter(|flag| !flag.is_empty() && !known.contains_key(*flag));
        assert_eq!(lacking.collect::<Vec<_>>(), [""; 0], "{version}");
    }
    for given in given() {
        let launch = launch(engine, &given).unwrap();
        for words in [&launch.command, &launch.args] {
            let flags: Vec<_> = words.iter().filter(|word| word.starts_with("--")).collect();
            assert!(flags.len() >= 4, "{words:?}");
            let wrong: Vec<_> = flags.iter().filter_map(|flag| wrong(&known, flag)).collect();
            assert!(wrong.is_empty(), "{version}: {wrong:?} of {words:?}");
        }
    }
}

#[test]
fn vllm_is_given_only_options_that_it_accepts() {
    for version in ["vllm-0.11.0", "vllm-0.24.0", "vllm-0.33.0"] {
        assert_accepted("vllm", version);
    }
}

#[test]
fn sglang_is_given_only_options_that_it_accepts() {
    for version in ["sglang-0.5.5", "sglang-0.5.23"] {
        assert_accepted("sglang", version);
    }
}

/// The options of `trtllm-serve` as its documentation lists them: the package index alone cannot provide its wheel.
#[test]
fn tensorrt_llm_is_given_only_options_that_are_documented() {
    let documented = [
        "--host",
        "--port",
        "--max_batch_size",
        "--max_num_tokens",
        "--max_seq_len",
        "--tp_size",
        "--pp_size",
        "--ep_size",
        "--kv_cache_free_gpu_memory_fraction",
        "--enable_chunked_prefill",
        "--extra_llm_api_options",
        "--trust_remote_code",
        "--served_model_name",
        "--log_level",
    ];
    let all = json!({
        "dtype": "bfloat16", "kv_cache_dtype": "fp8", "tensor_parallel": 2, "memory_fraction": 0.85, "cuda_graphs": false, "prefix_cache": false,
        "random_weights": true, "trust_remote_code": true,
    });
    let launch = launch("tensorrt_llm", &all).unwrap();
    for word in launch
        .command
        .iter()
        .chain(&launch.args)
        .filter(|word| word.starts_with("--"))
    {
        let name = word.split('=').next().unwrap();
        assert!(documented.contains(&name), "{word}");
    }
}

#[test]
fn an_unknown_flag_is_found() {
    let known = known("vllm-0.33.0");
    for flag in ["--max-seq-len=5", "--dtype=int3", "--port", "--enforce-eager=1"] {
        assert!(wrong(&known, flag).is_some(), "{flag}");
    }
    assert_eq!(wrong(&known, "--no-enable-prefix-caching"), None);
}
