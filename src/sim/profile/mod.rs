//! Profiles: TOML files that describe one model on one device with one engine. Some are built in, others are read
//! from a path. Every number in a file has a comment on its source.

mod memory;
mod ranks;
mod shape;
mod shipped;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use memory::{Dynamic, Fixed, Kv, MemoryProfile, Pool, Reservation, Speculation};
use ranks::TensorParallel;
pub use shape::Shape;
pub use shipped::names;

use super::time::Timing;
use crate::fault::{Fault, Result};

/// One model on one device with one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name.
    pub name: String,
    /// One-line description.
    pub description: String,
    /// The imitated engine.
    pub engine: Engine,
    /// The imitated version.
    pub version: String,
    /// Model name in the API.
    pub model: String,
    /// Architecture of the model, if shipped_names.
    pub shape: Option<Shape>,
    /// Name of the device as a driver would report it.
    pub gpu: String,
    /// Memory.
    pub memory: MemoryProfile,
    /// Changes with several devices, if shipped_names.
    pub tensor_parallel: Option<TensorParallel>,
    /// Power of the device, if it is to be simulated.
    pub power: Option<Power>,
    /// Durations.
    pub time: Timing,
    /// Default launch options.
    pub defaults: Defaults,
}

/// Power of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Watts when idle.
    pub idle_w: u64,
    /// Watts when busy.
    pub busy_w: u64,
}

/// The imitated engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// vLLM: OpenAI routes, token ids, Prometheus metrics.
    Vllm,
    /// Text Generation Inference: `/generate`, `/generate_stream` and OpenAI routes.
    Tgi,
    /// SGLang: OpenAI routes, token ids, `/server_info`, Prometheus metrics.
    Sglang,
    /// TensorRT-LLM: OpenAI routes, token ids, metrics as JSON.
    #[serde(rename = "tensorrt_llm")]
    TensorrtLlm,
    /// llama-server: `/completion` and OpenAI routes.
    Llamacpp,
    /// Ollama: `/api/generate` as NDJSON, no metrics.
    Ollama,
    /// `transformers serve`: OpenAI routes, no metrics.
    Transformers,
}

/// Default launch options.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// Maximum input plus output supported by the model's positions.
    pub max_position_embeddings: u64,
    /// Maximum input plus output. Default: the positional limit.
    pub max_model_len: Option<u64>,
    /// Share of the device that the engine may use.
    pub gpu_memory_utilization: f64,
    /// Maximum concurrent sequences.
    pub max_num_seqs: u64,
    /// Maximum prompt tokens computed in one step.
    pub max_num_batched_tokens: u64,
    /// Whether CUDA graphs are disabled.
    pub enforce_eager: bool,
    /// TGI: maximum concurrent requests; further ones are answered with 429.
    pub max_concurrent_requests: Option<u64>,
    /// Seconds of real time per second of model time.
    pub time_scale: f64,
}

impl Profile {
    /// Loads a shipped profile by name, or a file by path.
    pub fn load(name: &str) -> Result<Self> {
        if let Some(text) = shipped::text(name) {
            return Self::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "toml") || path.exists() {
            let text = std::fs::read_to_string(path).map_err(|error| Fault::io(path, &error))?;
            return Self::parse(name, &text);
        }
        let shipped_names: Vec<_> = names().collect();
        Err(Fault::usage(format!("unknown profile `{name}`")).hint(format!(
            "shipped: {}; or give the path of a TOML file",
            shipped_names.join(", ")
        )))
    }

    /// Parses a profile; `name` is for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let profile: Self = toml::from_str(text)
            .map_err(|error| Fault::usage(format!("profile `{name}`: {}", error.to_string().trim_end())))?;
        profile
            .check()
            .map_err(|fault| fault.while_doing(format!("profile `{name}`")))?;
        Ok(profile)
    }

    fn check(&self) -> Result<()> {
        self.memory.check()?;
        self.time.check()?;
        if let Some(shape) = &self.shape {
            shape.config()?;
        }
        if let Some(ranks) = &self.tensor_parallel {
            ranks.check()?;
        }
        let share = self.defaults.gpu_memory_utilization;
        if !(share > 0.0 && share <= 1.0) {
            return Err(Fault::usage(format!(
                "`gpu_memory_utilization` is {share}, not in (0, 1]"
            )));
        }
        if self.defaults.max_num_seqs == 0 || self.defaults.max_num_batched_tokens == 0 {
            return Err(Fault::usage(
                "`max_num_seqs` and `max_num_batched_tokens` must be at least 1",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_parses_and_has_its_name() {
        for name in names() {
            assert_eq!(Profile::load(name).unwrap().name, name);
        }
    }

    #[test]
    fn every_shipped_profile_is_marked_as_simulated_and_states_its_sources() {
        for name in names() {
            let text = shipped::text(name).unwrap();
            assert!(text.starts_with("# SIMULATED"), "{name}");
            for line in text
                .lines()
                .filter(|line| !line.starts_with('#') && line.contains(" = "))
            {
                assert!(
                    line.contains(" # ") || line.contains('"'),
                    "{name}: no provenance: {line}"
                );
            }
        }
    }

    #[test]
    fn an_unknown_profile_lists_the_shipped_ones() {
        let fault = Profile::load("llama-8b").unwrap_err();
        assert!(fault.hint.unwrap().contains("llama-8b-24gb-vllm"));
    }

    #[test]
    fn an_unknown_key_or_an_impossible_number_is_refused() {
        let good = shipped::text("llama-8b-24gb-vllm").unwrap();
        let extra = good.replacen("[time]", "[time]\nspeed = 1.0", 1);
        assert!(Profile::parse("x", &extra).unwrap_err().message.contains("speed"));
        let share = good.replacen("gpu_memory_utilization = 0.", "gpu_memory_utilization = 3.", 1);
        assert!(Profile::parse("x", &share).is_err());
    }
}
