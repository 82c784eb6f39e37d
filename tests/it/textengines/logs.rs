//! A user reads the cause of a failure that an adapter finds in log lines, here built from old and new format strings
//! of the engines. Real logs are in tests/data and `tests/it/logs.rs`.

use serde_json::{Value, json};

use crate::logs::rules;

fn facts(engine: &str, log: &str) -> Value {
    read(engine, log)["facts"].clone()
}

fn read(engine: &str, log: &str) -> Value {
    let lines: Vec<String> = log.lines().map(|line| line.trim().to_owned()).collect();
    json!(rules(engine).read_start(&lines, 1))
}

fn mib(mib: f64) -> i64 {
    (mib * 1_048_576.0).round() as i64
}

const LLAMA: &str = "load_tensors: offloaded 33/33 layers to GPU
    load_tensors:   CPU_Mapped model buffer size =   281.81 MiB
    load_tensors:        CUDA0 model buffer size =  4403.49 MiB
    llama_context: n_ctx                 = 8192
    llama_context: n_ctx_seq             = 4096
    llama_kv_cache:      CUDA0 KV buffer size =  1024.00 MiB
    llama_kv_cache: size = 1024.00 MiB (  4096 cells,  32 layers,  2/2 seqs), K (f16):  512.00 MiB, V (f16):  512.00 MiB
    sched_reserve:      CUDA0 compute buffer size =   560.00 MiB
    sched_reserve:  CUDA_Host compute buffer size =    24.01 MiB";

#[test]
fn llamacpp_tells_its_buffers_in_new_and_old_words() {
    let old = "llm_load_tensors:        CPU buffer size =   281.81 MiB
        llm_load_tensors:      CUDA0 buffer size =  4403.49 MiB
        llama_new_context_with_model: n_ctx      = 8192
        llama_new_context_with_model: n_ctx_per_seq = 4096
        llama_kv_cache_init:      CUDA0 KV buffer size =  1024.00 MiB
        llama_new_context_with_model:      CUDA0 compute buffer size =   560.00 MiB
        llama_new_context_with_model:  CUDA_Host compute buffer size =    24.01 MiB";
    for (log, name) in [(LLAMA, "new"), (old, "old")] {
        let facts = facts("llamacpp", log);
        assert_eq!(facts["weights_bytes"], mib(4403.49), "{name}: {facts}");
        assert_eq!(facts["kv_bytes"], mib(1024.0), "{name}: {facts}");
        assert_eq!(facts["activations_bytes"], mib(560.0), "{name}: {facts}");
        assert_eq!(
            (&facts["kv_tokens"], &facts["max_model_len"]),
            (&json!(8192), &json!(4096)),
            "{name}: {facts}"
        );
    }
    assert_eq!(facts("llamacpp", LLAMA)["layers_on_gpu"], 33);
}

#[test]
fn llamacpp_that_goes_on_with_smaller_buffers_has_not_failed() {
    let went_on = "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 1
        llama_context: compute buffer allocation failed, retrying without pipeline parallelism";
    assert_eq!(read("llamacpp", went_on)["verdict"], Value::Null);
    let failed = "allocating 100.00 MiB on device 0: cudaMalloc failed: out of memory";
    assert_eq!(read("llamacpp", failed)["cause"], "memory");
}

#[test]
fn ollama_tells_its_buffers_in_new_and_old_words() {
    let old = r#"time=2025-11-01T10:00:00Z level=INFO source=device.go:240 msg="model weights" device=CUDA0 size="4.3 GiB"
        time=2025-11-01T10:00:00Z level=INFO source=device.go:251 msg="kv cache" device=CUDA0 size="1.0 GiB"
        time=2025-11-01T10:00:00Z level=INFO source=device.go:262 msg="compute graph" device=CUDA0 size="560.0 MiB"
        time=2025-11-01T10:00:00Z level=INFO source=device.go:272 msg="total memory" size="5.8 GiB"
        time=2025-11-01T10:00:02Z level=INFO source=server.go:1289 msg="llama runner started in 2.25 seconds""#;
    let facts = facts("ollama", old);
    assert_eq!(facts["weights_bytes"], mib(4.3 * 1024.0), "{facts}");
    assert_eq!(facts["kv_bytes"], mib(1024.0));
    assert_eq!(facts["activations_bytes"], mib(560.0));
    assert_eq!(facts["start_seconds"], 2.25);
    let new = self::facts("ollama", LLAMA);
    assert_eq!(
        (&new["weights_bytes"], &new["kv_tokens"]),
        (&json!(mib(4403.49)), &json!(8192)),
        "{new}"
    );
    let listening = self::facts(
        "ollama",
        r#"level=INFO source=routes.go:1 msg="Listening on [::]:11434 (version 0.32.15)""#,
    );
    assert_eq!(listening["version"], "0.32.15");
}

#[test]
fn ollama_that_serves_another_configuration_says_so() {
    let reduced = r#"level=WARN source=sched.go:652 msg="llama-server load failed; reducing automatic context and retrying once" model=m old_num_ctx=262144 effective_num_ctx=262144 new_num_ctx=32768 old_num_batch=2048"#;
    let facts = facts("ollama", reduced);
    assert_eq!(facts["fitted"], 32768, "{facts}");
    assert!(
        facts["degraded"]
            .as_str()
            .unwrap()
            .contains("reducing automatic context")
    );
    let capped = r#"level=WARN source=sched.go:1 msg="requested context size too large for model" num_ctx=9000 n_ctx_train=4096"#;
    assert!(self::facts("ollama", capped)["degraded"].is_string());
}

#[test]
fn ollamas_lack_of_memory_is_told_in_new_and_old_words() {
    for line in [
        r#"level=INFO msg="Load failed" model=m error="llama-server process has terminated: exit status 1: cudaMalloc failed: out of memory""#,
        "llama-server reported out-of-memory during startup: failed to allocate compute pp buffers",
        "model requires more system memory (12.0 GiB) than is available (8.0 GiB)",
    ] {
        assert_eq!(read("ollama", line)["cause"], "memory", "{line}");
    }
    // Exit status 137 without any further message.
    assert_ne!(read("ollama", "level=INFO msg=done")["cause"], "memory");
}

#[test]
fn tgi_tells_its_pool_its_graphs_and_what_it_gave_up() {
    let log = "2026-11-20T14:45:42Z  INFO text_generation_launcher: Using attention flashinfer - Prefix caching true
        2026-11-20T14:45:43Z DEBUG text_generation_launcher: Free memory 10.50GB , (real: 12.00GB
        2026-11-20T14:45:44Z  INFO text_generation_launcher: KV-cache blocks: 65536, size: 1
        2026-11-20T14:45:44Z DEBUG text_generation_launcher: Free RAM before cuda graph 32 9.50GB
        2026-11-20T14:45:45Z  INFO text_generation_launcher: Cuda Graphs are enabled for sizes [32, 16, 8, 4, 2, 1]
        2026-11-20T14:45:45Z DEBUG text_generation_launcher: Free RAM after cuda graphs 9.25GB
        2026-11-20T14:45:45Z  INFO text_generation_router_v3: Setting max batch total tokens to 65536";
    let facts = facts("tgi", log);
    assert_eq!(
        (&facts["kv_tokens"], &facts["kv_blocks"]),
        (&json!(65536), &json!(65536)),
        "{facts}"
    );
    assert_eq!(facts["free_before_graphs_bytes"], 9_500_000_000_i64);
    assert_eq!(facts["free_after_graphs_bytes"], 9_250_000_000_i64);
    assert_eq!(
        (&facts["attention"], &facts["prefix_cache"]),
        (&json!("flashinfer"), &json!("true"))
    );
    assert_eq!(facts["graph_sizes"], "32, 16, 8, 4, 2, 1");
    let paged = log.replace("blocks: 65536, size: 1", "blocks: 4096, size: 16");
    assert_eq!(self::facts("tgi", &paged)["kv_tokens"], 65536);
    let swallowed = "WARN text_generation_launcher: Decode cuda graph warmup failed";
    assert!(self::facts("tgi", swallowed)["degraded"].is_string());
}

#[test]
fn transformers_tells_its_paged_cache() {
    let log = "Memory available for cache allocation: 2048 MB
        Paged cache initialized: self.max_batch_tokens = 4096, self.num_sectors = 8192, mb_per_sector = 1
        [Request received] Model: m@main, CB: True";
    let facts = facts("transformers", log);
    assert_eq!(
        (&facts["kv_bytes"], &facts["batch_tokens"]),
        (&json!(mib(2048.0)), &json!(4096)),
        "{facts}"
    );
    let small = "MemoryError: Memory footprint 900 is more than available memory 500";
    assert_eq!(read("transformers", small)["cause"], "memory");
}
