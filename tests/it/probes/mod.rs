//! A user runs in-process probes in a real Python, with real torch on the CPU and with stand-ins where a GPU is needed.

mod container;
mod engine;
mod given_up;
mod layers;
mod own;
mod recorded;
mod shipped;

use std::path::Path;

use crate::support::{Outcome, Profiler};

/// Stand-ins for torch on a GPU, transformers and TensorRT-LLM.
const STAND_INS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/probes");

/// The program with a script and `--allow process`.
fn script(text: &str) -> Profiler {
    Profiler::new()
        .file("main.rhai", text)
        .args(["run", "main.rhai", "--json", "--allow", "process"])
}

/// Standard error of the newest probe of that name, from the run folder.
fn said(outcome: &Outcome, name: &str) -> String {
    let runs = std::fs::read_dir(outcome.folder().join("runs")).unwrap();
    let run = runs.flatten().next().unwrap().path();
    std::fs::read_to_string(run.join(format!("logs/probe-{name}.log"))).unwrap()
}

/// A folder with the configuration of a small Llama.
fn model(folder: &Path) -> String {
    let config = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false}"#;
    std::fs::write(folder.join("config.json"), config).unwrap();
    folder.display().to_string()
}
