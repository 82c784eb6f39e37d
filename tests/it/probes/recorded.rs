//! What the probes told on a real GPU: documents of an H200 in tests/data, held against themselves and against the estimate of the same model.

use serde_json::Value;

use crate::support::Profiler;

fn recorded(probe: &str) -> Value {
    let path = format!(
        "{}/tests/data/torch-2.11.0-h200/{probe}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(document["schema"], "profiler-probe/1");
    assert_eq!(document["probe"], probe);
    assert_eq!(document["versions"]["torch"], "2.11.0+cu130");
    document
}

/// What `profiler estimate` says of the model that both probes were run with: bytes of a component.
fn estimated(arguments: &[&str], component: &str) -> i64 {
    let config = format!(
        "{}/tests/data/shapes/llama-1b-shape.config.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let outcome = Profiler::new()
        .file("llama/config.json", std::fs::read(config).unwrap())
        .args(["estimate", "llama", "--json"])
        .args(arguments)
        .run()
        .success()
        .json();
    let parts = outcome["estimates"][0]["ranks"][0]["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["component"] == component).unwrap();
    part["bytes"].as_i64().unwrap()
}

fn bytes(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or_else(|| panic!("no `{key}`: {value:#}"))
}

#[test]
fn layers_of_a_real_pass_are_those_of_the_estimate() {
    let document = recorded("layers");
    let layers = document["layers"].as_array().unwrap();
    let sum = |key: &str| layers.iter().map(|layer| bytes(layer, key)).sum::<i64>();
    assert_eq!(sum("parameters"), bytes(&document, "parameters"));
    assert_eq!(sum("parameter_bytes"), bytes(&document, "parameter_bytes"));
    assert_eq!(bytes(&document, "parameter_bytes"), estimated(&[], "weights"));
    // A decoder layer at its highest holds what the estimate takes for the peak of a step of as many tokens, to the byte.
    let tokens = document["tokens"].to_string();
    let blocks: Vec<&Value> = layers
        .iter()
        .filter(|layer| layer["type"] == "LlamaDecoderLayer")
        .collect();
    assert_eq!(blocks.len(), 16);
    let activations = estimated(&["--input", &tokens, "--output", "0"], "activations");
    for block in blocks {
        assert_eq!(bytes(block, "peak"), activations, "{block}");
        // It hands on one hidden state of each token.
        assert_eq!(bytes(block, "kept"), 4096 * 2048 * 2, "{block}");
    }
    // transformers makes logits of every token, beside the last hidden states: more than any layer, and more than an engine that serves.
    let head = layers.last().unwrap();
    assert_eq!(bytes(head, "peak"), 4096 * 32_000 * 2);
    assert_eq!(
        bytes(&document, "activation_peak"),
        bytes(head, "peak") + 4096 * 2048 * 2
    );
    let device = &document["devices"][0];
    assert!(
        bytes(device, "peak_allocated") >= bytes(&document, "parameter_bytes") + bytes(&document, "activation_peak")
    );
}

#[test]
fn the_allocators_stages_add_up_to_what_the_driver_sees() {
    let document = recorded("allocator");
    let stages = document["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["context", "loaded", "generated"]);
    let device = |index: usize| &stages[index]["devices"][0];
    for device in (0..3).map(device) {
        assert!(bytes(device, "allocated") <= bytes(device, "reserved"), "{device}");
        assert_eq!(
            bytes(device, "outside_torch"),
            bytes(device, "process_used") - bytes(device, "reserved"),
            "{device}"
        );
        assert!(
            bytes(device, "process_used") <= bytes(device, "device_used"),
            "{device}"
        );
        assert_eq!(bytes(device, "num_ooms"), 0);
    }
    // Loading costs torch what the estimate says, and blocks of 512 bytes and of 2 MiB on top.
    let weights = estimated(&[], "weights");
    let loaded = bytes(device(1), "allocated");
    assert!(
        (weights..weights + (4 << 20)).contains(&loaded),
        "{loaded} of {weights}"
    );
    assert_eq!(bytes(device(1), "outside_torch"), bytes(device(0), "outside_torch"));
    // Four sequences of 2048 and 128 tokens: keys and values, and a prefill of all inputs at once.
    let asked = [
        "--input",
        "2048",
        "--output",
        "128",
        "--concurrency",
        "4",
        "--prefill-chunk",
        "8192",
    ];
    let least = estimated(&asked, "kv_used") + estimated(&asked, "activations");
    let added = bytes(device(2), "peak_allocated") - loaded;
    assert!(added >= least && added < least * 6 / 5, "{added} of {least}");
}

#[test]
fn what_a_serving_engine_gains_is_what_its_allocator_reserves() {
    let text = include_str!("../../data/torch-2.11.0-h200/allocator-vllm.json");
    let looks: Value = serde_json::from_str(text).unwrap();
    let gained = |key: &str| {
        let of = |look: &str| bytes(&looks[look]["processes"][0]["devices"][0], key);
        of("after") - of("idle")
    };
    assert_eq!(gained("process_used"), gained("reserved"));
    assert_eq!((gained("allocated"), gained("outside_torch")), (0, 0));
    assert!(gained("reserved") > 1 << 30);
}
