//! A user gets facts, and the reason of a failed start, from the logs of real engines, as the shipped adapters read
//! them (tests/data/README.md).

use profiler::engine::Rules;
use profiler::script;
use serde_json::{Value, json};

use super::script::bench::Bench;

/// The rules of a shipped adapter.
pub fn rules(name: &str) -> Rules {
    Rules::from_adapter(script::adapter(&Bench::script("").host(), name).unwrap().as_ref()).unwrap()
}

/// The facts and the reason that an adapter reads from a log, if the engine ended with `code`.
fn read(engine: &str, file: &str, code: i64) -> Value {
    let path = format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"));
    let log: Vec<String> = std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    json!(rules(engine).read_start(&log, code))
}

#[test]
fn vllm_tells_its_memory() {
    let facts = read("vllm", "vllm-0.24.0-h200/default.log", 0)["facts"].clone();
    assert_eq!(facts["kv_tokens"], 910_336);
    assert_eq!(facts["version"], "0.24.0");
    assert_eq!(facts["weights_bytes"], gib(13.54));
    assert_eq!(facts["kv_bytes"], gib(111.13));
    assert_eq!(facts["graphs_bytes"], gib(0.98));
    assert_eq!(facts["max_model_len"], 32_768);
    assert_eq!(
        read("vllm", "vllm-0.24.0-h200/eager.log", 0)["facts"]["kv_tokens"],
        910_816
    );
    assert_eq!(
        read("vllm", "vllm-0.24.0-h200/fp8kv.log", 0)["facts"]["kv_tokens"],
        126_176
    );
}

#[test]
fn vllm_that_reduces_its_length_says_so() {
    let facts = read("vllm", "vllm-0.24.0-h200/autolen.log", 0)["facts"].clone();
    assert_eq!(facts["max_model_len"], 63_344);
    assert!(facts["degraded"].as_str().unwrap().contains("63344"), "{facts}");
}

#[test]
fn vllm_starts_that_failed_for_memory_are_told() {
    for (file, longest) in [("toolow", Value::Null), ("toolong", json!(63_344))] {
        let read = read("vllm", &format!("vllm-0.24.0-h200/{file}.log"), 1);
        assert_eq!(
            (&read["verdict"], &read["cause"]),
            (&json!("start_failed"), &json!("memory")),
            "{file}: {read}"
        );
        assert_eq!(read["facts"]["longest"], longest, "{file}");
    }
}

#[test]
fn a_log_of_a_good_start_holds_no_failure() {
    for (engine, file) in [
        ("vllm", "vllm-0.24.0-h200/default.log"),
        ("vllm", "vllm-0.24.0-h200/small.log"),
        ("vllm", "vllm-0.24.0-h200/ngram.log"),
        ("tgi", "tgi-3.3.6-h200/start.log"),
        ("tgi", "tgi-3.3.6-h200/start-large.log"),
        ("transformers", "transformers-5.17.0-h200/serve.log"),
    ] {
        assert_eq!(read(engine, file, 0)["verdict"], Value::Null, "{file}");
    }
}

#[test]
fn a_shard_that_dies_on_an_import_is_no_lack_of_memory() {
    let read = read("tgi", "tgi-3.3.6-h200/start-failed-not-memory.log", 1);
    assert_ne!(read["cause"], "memory", "{read}");
}

/// The facts that an adapter reads from lines built from the format strings of the engine's source; no real run gave
/// them.
fn facts_of(engine: &str, lines: &[&str]) -> Value {
    let log: Vec<String> = lines
        .iter()
        .flat_map(|line| line.split('\r'))
        .map(str::to_owned)
        .collect();
    json!(rules(engine).read_start(&log, 0))["facts"].clone()
}

fn gib(gib: f64) -> Value {
    json!((gib * 1_073_741_824.0_f64).round() as i64)
}

#[test]
fn vllm_tells_the_summary_of_a_start_in_two_wordings() {
    let old = facts_of(
        "vllm",
        &[
            "\u{1b}[0;36m(EngineCore_DP0 pid=291)\u{1b}[0;0m INFO 11-20 12:50:21 [gpu_model_runner.py:2653] Model loading took 14.9889 GiB and 4.1 seconds",
            "(EngineCore_DP0 pid=291) INFO 11-20 12:50:43 [gpu_model_runner.py:3400] Estimated CUDA graph memory: 0.46 GiB total",
            "Capturing CUDA graphs (decode, FULL):  97%|#| 34/35\rCapturing CUDA graphs (decode, FULL): 100%|#| 35/35\r(EngineCore_DP0 pid=291) INFO 11-20 12:50:44 [gpu_model_runner.py:3480] Graph capturing finished in 4 secs, took 0.62 GiB",
            "(EngineCore_DP0 pid=291) INFO 11-20 12:50:45 [gpu_worker.py:391] Free memory on device (78.62/79.19 GiB) on startup. Desired GPU memory utilization is (0.9, 71.27 GiB). Actual usage is 14.99 GiB for weight, 5.64 GiB for peak activation, 0.08 GiB for non-torch memory, and 0.62 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=52996980736` (49.36 GiB) to fit into requested memory, or `--kv-cache-memory=60884848640` (56.7 GiB) to fully utilize gpu memory. Current kv cache memory in use is 50.56 GiB.",
        ],
    );
    for (fact, expected) in [
        ("weights_bytes", gib(14.9889)),
        ("activations_bytes", gib(5.64)),
        ("non_torch_bytes", gib(0.08)),
        ("graphs_bytes", gib(0.62)),
        ("graphs_estimated_bytes", gib(0.46)),
        ("free_bytes", gib(78.62)),
        ("device_bytes", gib(79.19)),
        ("budget_bytes", gib(71.27)),
    ] {
        assert_eq!(old[fact], expected, "{fact}: {old:#}");
    }
    let new = facts_of(
        "vllm",
        &[
            "(EngineCore pid=291) INFO 11-20 12:50:21 [model_runner.py:302] Model loading took 13.54 GiB memory and 1.93 seconds",
            "(EngineCore pid=291) INFO 11-20 12:50:39 [kv_cache_planning.py:90] GPU + host KV cache size: 910,336 tokens, Maximum concurrency for 32,768 tokens per request: 27.78x",
            "(EngineCore pid=291) INFO 11-20 12:50:45 [gpu_worker.py:667] CUDA graph pool memory: 0.62 GiB (actual), 0.46 GiB (estimated), difference: 0.16 GiB (25.8%).",
            "(EngineCore pid=291) INFO 11-20 12:50:45 [gpu_worker.py:700] Free memory on device (138.97/139.80 GiB) on startup. Desired GPU memory utilization is (0.92, 128.62 GiB). Actual usage is 14.4 GiB for consumed memory (weights + non-torch), 2.57 GiB for peak activation, and 0.62 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1` (1.0 GiB) to fit into requested memory, or `--kv-cache-memory=2` (2.0 GiB) to fully utilize gpu memory. Current kv cache memory in use is 111.13 GiB.",
        ],
    );
    for (fact, expected) in [
        ("weights_bytes", gib(13.54)),
        ("weights_with_non_torch_bytes", gib(14.4)),
        ("activations_with_graphs_bytes", gib(2.57)),
        ("graphs_bytes", gib(0.62)),
        ("graphs_estimated_bytes", gib(0.46)),
        ("kv_tokens", json!(910_336)),
        // This wording of the log states neither.
        ("activations_bytes", Value::Null),
        ("non_torch_bytes", Value::Null),
    ] {
        assert_eq!(new[fact], expected, "{fact}: {new:#}");
    }
}

#[test]
fn the_first_versions_of_vllm_tell_their_memory_too() {
    let facts = facts_of(
        "vllm",
        &[
            "INFO 01-20 12:50:21 [worker.py:287] model weights take 14.99GiB; non_torch_memory takes 0.14GiB; PyTorch activation peak memory takes 1.20GiB; the rest of the memory reserved for KV Cache is 54.10GiB.",
            "INFO 01-20 12:50:21 [executor_base.py:112] # cuda blocks: 27700, # CPU blocks: 2048",
        ],
    );
    assert_eq!(
        (
            &facts["weights_bytes"],
            &facts["non_torch_bytes"],
            &facts["activations_bytes"]
        ),
        (&gib(14.99), &gib(0.14), &gib(1.2)),
        "{facts:#}"
    );
}

#[test]
fn sglang_tells_its_memory_in_both_wordings() {
    let new = facts_of(
        "sglang",
        &[
            "[2026-11-20 12:50:18 TP0] Memory baseline taken. mem usage=0.52 GB",
            "[2026-11-20 12:50:19 TP0] Load weight begin. avail mem=138.97 GB",
            "[2026-11-20 12:50:21 TP0] Load weight end. elapsed=1.52 s, type=LlamaForCausalLM, avail mem=123.90 GB, mem usage=15.07 GB.",
            "[2026-11-20 12:50:22 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 868412, K size: 53.00 GB, V size: 53.01 GB",
            "[2026-11-20 12:50:22 TP0] Memory pool end. avail mem=17.60 GB",
            "[2026-11-20 12:50:27 TP0] Capture target decode CUDA graph end. elapsed=4.31 s, mem usage=0.61 GB, avail mem=16.90 GB.",
            "[2026-11-20 12:50:29 TP0] Capture target prefill CUDA graph end. elapsed=1.31 s, mem usage=0.25 GB, avail mem=16.65 GB.",
            "[2026-11-20 12:50:29 TP0] max_total_num_tokens=868410, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=131072, available_gpu_mem=16.65 GB",
        ],
    );
    for (fact, expected) in [
        ("context_bytes", gib(0.52)),
        ("weights_bytes", gib(15.07)),
        ("kv_keys_bytes", gib(53.0)),
        ("kv_values_bytes", gib(53.01)),
        ("kv_tokens", json!(868_410)),
        ("free_bytes", gib(16.65)),
        ("max_model_len", json!(131_072)),
    ] {
        assert_eq!(new[fact], expected, "{fact}: {new:#}");
    }
    let old = facts_of(
        "sglang",
        &[
            "[2025-11-20 12:50:18 TP1] Init torch distributed ends. mem usage=1.02 GB",
            "[2025-11-20 12:50:21 TP1] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=123.90 GB, mem usage=15.07 GB.",
            "[2025-11-20 12:50:22 TP1] KV Cache is allocated. #tokens: 868412, KV size: 26.40 GB",
            "[2025-11-20 12:50:27 TP1] Capture cuda graph end. Time elapsed: 4.31 s. mem usage=0.61 GB. avail mem=16.90 GB.",
        ],
    );
    for (fact, expected) in [
        ("context_bytes", gib(1.02)),
        ("weights_bytes", gib(15.07)),
        ("kv_bytes", gib(26.4)),
        ("kv_tokens", json!(868_412)),
        ("graphs_bytes", gib(0.61)),
    ] {
        assert_eq!(old[fact], expected, "{fact}: {old:#}");
    }
}

#[test]
fn sglang_with_less_cache_than_context_serves_another_configuration() {
    let facts = facts_of(
        "sglang",
        &[
            "[2026-11-20 12:50:22 TP0] KV pool holds 5120 tokens, fewer than --context-length 8194. One full-length request cannot fit, so long requests will be refused or truncated at serving time.",
        ],
    );
    assert_eq!(facts["fitted"], 5120);
    assert!(facts["degraded"].as_str().unwrap().ends_with("8194"), "{facts}");
}

#[test]
fn tensorrt_llm_tells_its_memory_twice_and_the_second_time_counts() {
    let facts = facts_of(
        "tensorrt_llm",
        &[
            "[TensorRT-LLM] TensorRT-LLM version: 1.2.1",
            "[11/20/2026-12:50:19] [TRT-LLM] [I] Use 13.54 GB for model weights.",
            "[11/20/2026-12:50:20] [TRT-LLM] [I] [MemUsageChange] Allocated 1.00 GiB for max tokens in paged KV cache (8224).",
            "[11/20/2026-12:50:25] [TRT-LLM] [I] Memory used after loading model weights (inside torch) in memory usage profiling: 13.60 GiB",
            "[11/20/2026-12:50:25] [TRT-LLM] [I] Memory used after loading model weights (outside torch) in memory usage profiling: 0.85 GiB",
            "[11/20/2026-12:50:25] [TRT-LLM] [I] Memory dynamically allocated during inference (inside torch) in memory usage profiling: 1.97 GiB",
            "[11/20/2026-12:50:25] [TRT-LLM] [I] Memory used outside torch (e.g., NCCL and CUDA graphs) in memory usage profiling: 1.41 GiB",
            "[11/20/2026-12:50:25] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 17.98 GiB, available KV cache memory when calculating max tokens: 110.54 GiB, fraction is set 0.9, kv size is 131072. device total memory 139.80 GiB, , tmp kv_mem 1.00 GiB",
            "[11/20/2026-12:50:25] [TRT-LLM] [I] Estimated max tokens in KV cache : 905541",
            "[TensorRT-LLM][INFO] Number of tokens per block: 32.",
            "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 110.54 GiB for max tokens in paged KV cache (905536).",
            "[11/20/2026-12:50:26] [TRT-LLM] [RANK 0] [I] Running CUDA graph warmup for 34 batch sizes.",
            "[11/20/2026-12:50:27] [TRT-LLM] [I] max_seq_len=8192, max_num_requests=64, max_num_tokens=8192, max_batch_size=64",
        ],
    );
    for (fact, expected) in [
        ("version", json!("1.2.1")),
        ("weights_bytes", gib(13.6)),
        ("context_bytes", gib(0.85)),
        ("activations_bytes", gib(1.97)),
        ("non_torch_bytes", gib(1.41)),
        ("peak_bytes", gib(17.98)),
        ("kv_bytes", gib(110.54)),
        ("kv_tokens", json!(905_536)),
        ("kv_block_tokens", json!(32)),
        ("graph_batch_sizes", json!(34)),
        ("max_model_len", json!(8192)),
    ] {
        assert_eq!(facts[fact], expected, "{fact}: {facts:#}");
    }
    let shrunk = facts_of("tensorrt_llm", &["[TRT-LLM] [W] Adjusted max_seq_len to 4096"]);
    assert_eq!(
        (&shrunk["fitted"], &shrunk["max_model_len"]),
        (&json!(4096), &json!(4096))
    );
    assert!(shrunk["degraded"].is_string());
}
