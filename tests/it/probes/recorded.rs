//! A user reads probe results recorded on a real H200 (tests/data), and they agree with each other and with the
//! estimate for the same model.

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

/// Bytes of a component in `profiler estimate` for the model that both probes ran.
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
    // The peak of a decoder layer equals the estimated activation peak of a step with as many tokens, to the byte.
    let tokens = document["tokens"].to_string();
    let blocks: Vec<&Value> = layers
        .iter()
        .filter(|layer| layer["type"] == "LlamaDecoderLayer")
        .collect();
    assert_eq!(blocks.len(), 16);
    let activations = estimated(&["--input", &tokens, "--output", "0"], "activations");
    for block in blocks {
        assert_eq!(bytes(block, "peak"), activations, "{block}");
        // A layer passes on one hidden state per token.
        assert_eq!(bytes(block, "kept"), 4096 * 2048 * 2, "{block}");
    }
    // transformers computes logits for every token and keeps the last hidden states: more than any layer needs, and
    // more than a serving engine.
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
    // Loading in torch takes the estimated bytes, rounded up to blocks of 512 bytes and segments of 2 MiB.
    let weights = estimated(&[], "weights");
    let loaded = bytes(device(1), "allocated");
    assert!(
        (weights..weights + (4 << 20)).contains(&loaded),
        "{loaded} of {weights}"
    );
    assert_eq!(bytes(device(1), "outside_torch"), bytes(device(0), "outside_torch"));
    // Four sequences of 2048 and 128 tokens: keys and values, and one prefill of all inputs.
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
    let samples: Value = serde_json::from_str(text).unwrap();
    let gained = |key: &str| {
        let of = |look: &str| bytes(&samples[look]["processes"][0]["devices"][0], key);
        of("after") - of("idle")
    };
    assert_eq!(gained("process_used"), gained("reserved"));
    assert_eq!((gained("allocated"), gained("outside_torch")), (0, 0));
    assert!(gained("reserved") > 1 << 30);
}
