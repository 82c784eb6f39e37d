//! Profiles: TOML files that describe one model on one device with one engine. Some are built in, others are read from
//! a path. Every number in a file has a comment on its source.

mod memory;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::time::Timing;
use crate::fault::{Fault, Result};

pub use memory::{Dynamic, Fixed, Kv, MemoryProfile, Pool, Reservation, Speculation};

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
        if let Some(text) = shipped_text(name) {
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

/// Changes with several devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorParallel {
    /// Buffers and code for communication, on each device.
    pub communication_mib: f64,
    /// Share of the first device's speed that each further device adds, 0 to 1.
    pub efficiency: f64,
}

impl TensorParallel {
    fn check(self) -> Result<()> {
        if !(self.communication_mib.is_finite()
            && self.communication_mib >= 0.0
            && (0.0..=1.0).contains(&self.efficiency))
        {
            return Err(Fault::usage(
                "`communication_mib` must be a size, and `efficiency` within 0 to 1",
            ));
        }
        Ok(())
    }
}

impl Profile {
    /// Per-rank profile: weights and KV cache are divided by `ranks`; activations, graphs and context are not.
    /// Unchanged for one rank or when unmeasured.
    #[must_use]
    pub(in crate::sim) fn per_rank(mut self, ranks: u64) -> Self {
        let (Some(parallel), MemoryProfile::Pool(pool)) = (self.tensor_parallel, &mut self.memory) else {
            return self;
        };
        if ranks <= 1 {
            return self;
        }
        let count = ranks as f64;
        pool.weights_mib /= count;
        pool.fp8_mib /= count;
        pool.context_mib += parallel.communication_mib;
        pool.kv.bytes_per_token = pool.kv.bytes_per_token.div_ceil(ranks);
        let faster = 1.0 + (count - 1.0) * parallel.efficiency;
        let time = &mut self.time;
        time.load_seconds /= count;
        time.prefill_tokens_per_second *= faster;
        time.step_seconds /= faster;
        time.step_eager_seconds /= faster;
        time.sequence_seconds /= faster;
        self
    }
}

const SHIPPED_SHAPES: [(&str, &str); 3] = [
    ("llama-1b-shape", include_str!("../shapes/llama-1b-shape.json")),
    ("llama-3.1-8b", include_str!("../shapes/llama-3.1-8b.json")),
    ("llama-8b-shape", include_str!("../shapes/llama-8b-shape.json")),
];

/// A `config.json`: the name of a shipped one, or its keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Shape {
    /// Name of a shipped one.
    Shipped(String),
    /// Keys in the profile itself.
    Inline(Map<String, Value>),
}

impl Shape {
    /// The keys.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown name.
    pub fn config(&self) -> Result<Value> {
        let name = match self {
            Self::Inline(keys) => return Ok(Value::Object(keys.clone())),
            Self::Shipped(name) => name,
        };
        let text = SHIPPED_SHAPES
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, text)| *text);
        let text = text.ok_or_else(|| {
            let known = SHIPPED_SHAPES.map(|(known, _)| known).join(", ");
            Fault::usage(format!("unknown `shape` `{name}`")).hint(format!(
                "shipped: {known}; or write the keys of a `config.json` below `[shape]`"
            ))
        })?;
        serde_json::from_str(text).map_err(|error| Fault::internal(format!("shape `{name}`: {error}")))
    }
}

const SHIPPED_PROFILES: [(&str, &str); 8] = [
    (
        "llama-1b-12gib-transformers",
        include_str!("../profiles/llama-1b-12gib-transformers.toml"),
    ),
    (
        "llama-1b-h200-sglang",
        include_str!("../profiles/llama-1b-h200-sglang.toml"),
    ),
    ("llama-1b-h200-tgi", include_str!("../profiles/llama-1b-h200-tgi.toml")),
    (
        "llama-1b-h200-trtllm",
        include_str!("../profiles/llama-1b-h200-trtllm.toml"),
    ),
    ("llama-1b-llamacpp", include_str!("../profiles/llama-1b-llamacpp.toml")),
    ("llama-1b-ollama", include_str!("../profiles/llama-1b-ollama.toml")),
    (
        "llama-8b-24gb-vllm",
        include_str!("../profiles/llama-8b-24gb-vllm.toml"),
    ),
    (
        "llama-8b-h200-vllm",
        include_str!("../profiles/llama-8b-h200-vllm.toml"),
    ),
];

/// Names of the shipped profiles, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED_PROFILES.iter().map(|(name, _)| *name)
}

fn shipped_text(name: &str) -> Option<&'static str> {
    SHIPPED_PROFILES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Component, EstimateRequest, ModelFiles, estimate};

    #[test]
    fn every_shipped_profile_parses_and_has_its_name() {
        for name in names() {
            assert_eq!(Profile::load(name).unwrap().name, name);
        }
    }

    #[test]
    fn every_shipped_profile_is_marked_as_simulated_and_states_its_sources() {
        for name in names() {
            let text = shipped_text(name).unwrap();
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
        let good = shipped_text("llama-8b-24gb-vllm").unwrap();
        let extra = good.replacen("[time]", "[time]\nspeed = 1.0", 1);
        assert!(Profile::parse("x", &extra).unwrap_err().message.contains("speed"));
        let share = good.replacen("gpu_memory_utilization = 0.", "gpu_memory_utilization = 3.", 1);
        assert!(Profile::parse("x", &share).is_err());
    }

    #[test]
    fn two_devices_hold_half_each_plus_communication_buffers() {
        let one = Profile::load("llama-8b-h200-vllm").unwrap();
        assert_eq!(one.clone().per_rank(1), one);
        let two = one.clone().per_rank(2);
        let (MemoryProfile::Pool(whole), MemoryProfile::Pool(half)) = (&one.memory, &two.memory) else {
            panic!()
        };
        assert!((2.0 * half.weights_mib - whole.weights_mib).abs() < 1e-9);
        assert_eq!(2 * half.kv.bytes_per_token, whole.kv.bytes_per_token);
        assert!(half.context_mib > whole.context_mib);
        assert!(two.time.step_seconds < one.time.step_seconds && two.time.step_seconds > one.time.step_seconds / 2.0);
        // Not measured, so unchanged.
        let trtllm = Profile::load("llama-1b-h200-trtllm").unwrap();
        assert_eq!(trtllm.clone().per_rank(2), trtllm);
    }

    #[test]
    fn weights_and_kv_of_every_shipped_profile_follow_from_its_shape() {
        for name in names() {
            let profile = Profile::load(name).unwrap();
            let known = ModelFiles {
                config: profile.shape.unwrap().config().unwrap(),
                ..ModelFiles::default()
            };
            let needed = estimate(&known, &EstimateRequest::default()).unwrap();
            let (weights, token) = match profile.memory {
                MemoryProfile::Pool(pool) => (pool.weights_mib, pool.kv.bytes_per_token),
                MemoryProfile::Fixed(fixed) => (fixed.weights_mib, fixed.kv.bytes_per_token),
                // Includes workspaces.
                MemoryProfile::Dynamic(dynamic) => {
                    (dynamic.base_bytes as f64 / 1_048_576.0, dynamic.kv_bytes_per_token)
                }
            };
            let expected = needed.total.part(Component::Weights).unwrap().bytes as f64 / 1_048_576.0;
            assert!(
                (weights / expected - 1.0).abs() < 0.03,
                "{name}: {weights} MiB, by its shape {expected}"
            );
            assert_eq!(token, needed.kv_bytes_per_token, "{name}");
        }
    }

    #[test]
    fn a_profile_may_contain_the_shape_and_an_unknown_name_lists_the_shipped_ones() {
        let text = shipped_text("llama-8b-24gb-vllm").unwrap();
        let own = text.replace("shape = \"llama-3.1-8b\"", "shape = { hidden_size = 8 }");
        let config = Profile::parse("x", &own).unwrap().shape.unwrap().config().unwrap();
        assert_eq!(config["hidden_size"], 8);
        let unknown = text.replace("shape = \"llama-3.1-8b\"", "shape = \"llama-4\"");
        let fault = Profile::parse("x", &unknown).unwrap_err();
        assert!(fault.message.contains("llama-4") && fault.hint.unwrap().contains("llama-8b-shape"));
    }
}
