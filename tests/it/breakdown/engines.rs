//! A user reads the breakdown of engines that cannot run here: log lines are built from their format strings, memory
//! figures are made up, and the log lines leave a part of the memory unexplained.

use serde_json::json;

use super::{assert_adds_up, assert_part, broken_down, facts, part, stage};

const GIB: f64 = super::GIB;

fn gib(gib: f64) -> i64 {
    (gib * GIB) as i64
}

/// Memory before the start, when ready, and at the peak, in GiB.
fn usage(before: f64, ready: f64, peak: f64) -> serde_json::Value {
    json!({ "baseline": stage(gib(before)), "loaded": stage(gib(ready)), "peak": stage(gib(peak)) })
}

/// Checks the used share of the pool, and the memory that no line explains.
fn assert_rest(found: &serde_json::Value, used: f64, unexplained: f64) {
    assert_adds_up(found);
    assert_part(found, "kv_used", used, "computed");
    let (left, _) = part(found, "unexplained");
    assert!((left - unexplained).abs() < 0.01, "{left} of {unexplained}: {found:#}");
}

#[test]
fn sglang_tells_keys_and_values_apart_and_one_size_of_a_latent() {
    let head = "[2026-11-20 12:52:21 TP0]";
    let common = |cache: &str| {
        format!(
            "{head} Memory baseline taken. mem usage=0.60 GB\n\
             {head} Load weight end. elapsed=1.20 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=136.00 GB, mem usage=2.06 GB.\n\
             {cache}\n\
             {head} Capture target decode CUDA graph end. elapsed=4.10 s, mem usage=0.60 GB, avail mem=20.00 GB.\n\
             {head} Capture target prefill CUDA graph end. elapsed=4.10 s, mem usage=0.30 GB, avail mem=19.70 GB.\n\
             {head} max_total_num_tokens=400000, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, \
             context_len=131072, available_gpu_mem=19.70 GB"
        )
    };
    let apart = format!(
        "{head} KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, K size: 6.00 GB, V size: 6.00 GB"
    );
    let latent = format!("{head} KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, KV size: 12.00 GB");
    for cache in [apart, latent] {
        let facts = facts("sglang", &common(&cache));
        assert_eq!(facts["max_num_batched_tokens"][0]["value"], 8192, "{facts:#}");
        // The engine's own 2.06 + 12 + 0.9 + 0.6 on top of 0.5 of other processes; 0.3 that no line explains, and 0.4
        // that came with the requests.
        let found = broken_down(&facts, &usage(0.5, 16.36, 16.76), "#{ tokens: 100000 }");
        assert_part(&found, "weights", 2.06, "engine_reported");
        assert_part(&found, "kv_pool", 12.0, "engine_reported");
        assert_part(&found, "cuda_graphs", 0.9, "engine_reported");
        assert_part(&found, "runtime_context", 0.6, "engine_reported");
        assert_part(&found, "activations", 0.4, "measured");
        assert_part(&found, "other_tenants", 0.5, "measured");
        assert_rest(&found, 3.0, 0.3);
    }
}

#[test]
fn of_tensorrt_llms_two_passes_the_last_counts() {
    let log = "[11/20/2026-12:50:00] [TRT-LLM] [RANK 0] [I] Use 2.06 GB for model weights.\n\
        [11/20/2026-12:50:01] [TRT-LLM] [RANK 0] [I] [MemUsageChange] Allocated 0.25 GiB for max tokens in paged KV cache (8224).\n\
        [11/20/2026-12:50:02] [TRT-LLM] [RANK 0] [I] Memory used after loading model weights (inside torch) in memory usage profiling: 2.06 GiB\n\
        [11/20/2026-12:50:02] [TRT-LLM] [RANK 0] [I] Memory used after loading model weights (outside torch) in memory usage profiling: 0.90 GiB\n\
        [11/20/2026-12:50:02] [TRT-LLM] [RANK 0] [I] Memory dynamically allocated during inference (inside torch) in memory usage profiling: 1.20 GiB\n\
        [11/20/2026-12:50:02] [TRT-LLM] [RANK 0] [I] Memory used outside torch (e.g., NCCL and CUDA graphs) in memory usage profiling: 2.00 GiB\n\
        [11/20/2026-12:50:03] [TRT-LLM] [RANK 0] [I] [MemUsageChange] Allocated 100.00 GiB for max tokens in paged KV cache (3276800).\n\
        [11/20/2026-12:50:03] [TRT-LLM] [RANK 0] [I] max_seq_len=2048, max_num_requests=64, max_num_tokens=4096, max_batch_size=64";
    let facts = facts("tensorrt_llm", log);
    assert_eq!(facts["max_num_batched_tokens"][0]["value"], 4096, "{facts:#}");
    let found = broken_down(&facts, &usage(0.0, 105.5, 105.5), "#{ tokens: 819200 }");
    assert_part(&found, "weights", 2.06, "engine_reported");
    assert_part(&found, "kv_pool", 100.0, "engine_reported");
    // The final figure outside torch: the 0.90 present with the weights, and 1.10 more.
    assert_part(&found, "runtime_context", 2.0, "computed");
    assert_part(&found, "activations", 1.2, "engine_reported");
    assert_rest(&found, 25.0, 105.5 - 2.06 - 100.0 - 2.0 - 1.2);
}

#[test]
fn tgis_blocks_and_free_memory_become_a_pool_and_graphs() {
    let log = "2026-11-20T14:45:44Z  INFO text_generation_launcher: KV-cache blocks: 65536, size: 1\n\
        2026-11-20T14:45:44Z DEBUG text_generation_launcher: Free RAM before cuda graph 32 9.50GB\n\
        2026-11-20T14:45:44Z DEBUG text_generation_launcher: Free RAM before cuda graph 16 9.40GB\n\
        2026-11-20T14:45:45Z DEBUG text_generation_launcher: Free RAM after cuda graphs 9.25GB\n\
        2026-11-20T14:45:45Z  INFO text_generation_router_v3: Setting max batch total tokens to 65536";
    let own = format!(
        "#{{ tokens: 16384, estimate: #{{ weight_bytes: {0}, kv_bytes_per_token_per_rank: 32768, ranks: [#{{ parts: [#{{ component: \"weights\", \
         bytes: {0}, provenance: \"computed\", source: \"config.json\" }}] }}] }} }}",
        gib(2.0)
    );
    let found = broken_down(&facts("tgi", log), &usage(0.5, 6.0, 6.25), &own);
    assert_part(&found, "weights", 2.0, "computed");
    assert_part(&found, "kv_pool", 2.0, "computed");
    // These are GB of 10^9 bytes, from before the first graph to after the last.
    assert_part(&found, "cuda_graphs", 0.25 * 1e9 / GIB, "computed");
    assert_part(&found, "activations", 0.25, "measured");
    assert_rest(&found, 0.5, 6.25 - 0.5 - 2.0 - 2.0 - 0.2328 - 0.25);
    // Without the architecture, blocks cannot be converted to bytes, and are not guessed.
    let found = broken_down(&facts("tgi", log), &usage(0.5, 6.0, 6.25), "#{ tokens: 16384 }");
    let named: Vec<_> = found["all"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| &part["component"])
        .collect();
    assert!(
        !named.contains(&&json!("kv_pool")) && !named.contains(&&json!("weights")),
        "{named:?}"
    );
}

#[test]
fn ollamas_buffers_are_those_on_the_device() {
    let log = "load_tensors:   CPU_Mapped model buffer size =   512.00 MiB\n\
        load_tensors:        CUDA0 model buffer size =  4096.00 MiB\n\
        llama_context: n_ctx                 = 8192\n\
        llama_kv_cache:      CUDA0 KV buffer size =  1024.00 MiB\n\
        sched_reserve:      CUDA0 compute buffer size =   512.00 MiB\n\
        sched_reserve:  CUDA_Host compute buffer size =    24.01 MiB";
    let mut usage = usage(0.25, 6.25, 6.25);
    usage["source"] = json!("nvml");
    let found = broken_down(&facts("ollama", log), &usage, "#{ tokens: 2048 }");
    assert_part(&found, "weights", 4.0, "engine_reported");
    assert_part(&found, "kv_pool", 1.0, "engine_reported");
    assert_part(&found, "activations", 0.5, "engine_reported");
    assert_rest(&found, 0.25, 0.5);
}

/// Device numbers are compared as a whole: `CUDA11` is not the second rank.
#[test]
fn the_twelfth_device_is_not_the_second() {
    let line = |device: usize| {
        format!(
            "load_tensors:  CUDA{device} model buffer size =  {}.00 MiB",
            1024 * (device + 1)
        )
    };
    let log: Vec<String> = (0..12).map(line).collect();
    let device = |index: usize| json!({ "id": format!("gpu{index}"), "used": gib(20.0), "total": super::H200 });
    let per_gpu: Vec<_> = (0..12).map(device).collect();
    let usage = json!({ "source": "nvml", "peak": { "per_gpu": per_gpu } });
    let found = broken_down(&facts("llamacpp", &log.join("\n")), &usage, "#{}");
    for (index, device) in found["per_gpu"].as_array().unwrap().iter().enumerate() {
        assert_eq!(device["parts"][0]["bytes"], gib(1.0) * (index as i64 + 1), "{device:#}");
    }
}
