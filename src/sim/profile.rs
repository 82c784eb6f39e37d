//! Profiles: TOML files that describe one model on one device with one engine. Some are built in, others are read from
//! a path. Every number in a file has a comment on its source. MiB are 2^20 bytes; the formulas are in `sim/memory.rs`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Timing;
use crate::fault::{Fault, Result};
use crate::file;
use profiler_search::names;

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
    /// Architecture of the model, if known.
    pub shape: Option<ConfigSource>,
    /// Name of the device as a driver would report it.
    pub gpu: String,
    /// Memory.
    pub memory: MemoryProfile,
    /// Changes with several devices, if known.
    pub tensor_parallel: Option<TensorParallel>,
    /// Power of the device, if simulated.
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

names!(Engine {
    Vllm "vllm",
    Tgi "tgi",
    Sglang "sglang",
    TensorrtLlm "tensorrt_llm",
    Llamacpp "llamacpp",
    Ollama "ollama",
    Transformers "transformers",
});

impl Engine {
    /// Whether it turns the rest of its memory into a pool of KV blocks at its start.
    pub(super) fn has_pool(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang | Self::TensorrtLlm | Self::Tgi)
    }

    /// Whether it can cache prefixes of prompts.
    pub(super) fn has_prefix_cache(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang | Self::TensorrtLlm)
    }
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

/// Most bytes of a profile.
const MAX_FILE: u64 = 1 << 20;

impl Profile {
    /// Loads a shipped profile by name, or a file by path.
    pub fn load(name: &str) -> Result<Self> {
        if let Some(text) = shipped_text(name) {
            return Self::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "toml") || path.exists() {
            return Self::parse(name, &String::from_utf8_lossy(&file::read(path, MAX_FILE)?));
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
        if let Some(shape) = &self.shape {
            shape.config()?;
        }
        let written = toml::Value::try_from(self).map_err(Fault::internal)?;
        if let Some((name, value)) = wrong_number(&written) {
            return Err(Fault::usage(format!("`{name}` is {value}, not a number >= 0")));
        }
        let (defaults, blocks) = (
            &self.defaults,
            "`block_tokens` and `bytes_per_token` must be at least 1",
        );
        let kv = |kv: &Kv| (blocks, kv.block_tokens > 0 && kv.bytes_per_token > 0);
        let mut rules = vec![
            (
                "`prefill_tokens_per_second` must be above 0",
                self.time.prefill_tokens_per_second > 0.0,
            ),
            (
                "`efficiency` must be within 0 to 1",
                self.tensor_parallel.is_none_or(|parallel| parallel.efficiency <= 1.0),
            ),
            (
                "`gpu_memory_utilization` must be in (0, 1]",
                is_share(defaults.gpu_memory_utilization),
            ),
            (
                "`max_num_seqs` and `max_num_batched_tokens` must be at least 1",
                defaults.max_num_seqs > 0 && defaults.max_num_batched_tokens > 0,
            ),
        ];
        match &self.memory {
            MemoryProfile::Pool(pool) => rules.extend([
                ("`kv_share` must be in (0, 1]", is_share(pool.kv_share)),
                ("`activation_tokens` must be at least 1", pool.activation_tokens > 0),
                kv(&pool.kv),
            ]),
            MemoryProfile::Dynamic(dynamic) => {
                rules.push(("`cache_ratio` must be at least 1", dynamic.cache_ratio >= 1.0));
            }
            MemoryProfile::Fixed(fixed) => rules.push(kv(&fixed.kv)),
        }
        match rules.iter().find(|(_, holds)| !holds) {
            Some((rule, _)) => Err(Fault::usage(*rule)),
            None => Ok(()),
        }
    }
}

/// Whether the value is a valid size or duration.
pub(super) fn is_size(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// Whether the value is in (0, 1].
pub(super) fn is_share(value: f64) -> bool {
    value > 0.0 && value <= 1.0
}

/// The first number that is not a valid size or duration, with its key.
fn wrong_number(value: &toml::Value) -> Option<(String, f64)> {
    let table = value.as_table()?;
    table.iter().find_map(|(name, value)| match value.as_float() {
        Some(number) => (!is_size(number)).then(|| (name.clone(), number)),
        None => wrong_number(value),
    })
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

impl Profile {
    /// The profile of one rank: weights and KV cache are divided by `ranks`; activations, graphs and context are not.
    /// Unchanged for one rank, or if the profile has no data for several devices.
    pub(super) fn per_rank(mut self, ranks: u64) -> Self {
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

/// The three styles in which engines allocate memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "style", rename_all = "snake_case")]
pub enum MemoryProfile {
    /// vLLM, SGLang, TensorRT-LLM, TGI: the rest of a share of the device becomes a pool of KV blocks at the start.
    Pool(PoolProfile),
    /// transformers: memory grows with each request, through a caching allocator.
    Dynamic(Dynamic),
    /// llama.cpp and Ollama: the KV cache of the whole context is allocated at the start.
    Fixed(Fixed),
}

/// KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kv {
    /// Tokens in a block.
    pub block_tokens: u64,
    /// Blocks that each sequence takes for its recurrent state, from the same pool.
    #[serde(default)]
    pub state_blocks: u64,
    /// Bytes per token in the model's type: 2 · layers · KV heads · head size · bytes per element.
    pub bytes_per_token: u64,
}

/// The pool style.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolProfile {
    /// Size of the device as reported by NVML.
    pub total_mib: f64,
    /// In use by the driver before anything starts; neither free nor the engine's.
    pub reserved_mib: f64,
    /// CUDA context and libraries, before the weights. Not part of the engine's budget.
    pub context_mib: f64,
    /// Weights as logged by the engine.
    pub weights_mib: f64,
    /// Activation peak of the profiling step with `activation_tokens` tokens; proportional to its tokens.
    pub activation_mib: f64,
    /// Tokens of the step at which `activation_mib` was measured.
    pub activation_tokens: u64,
    /// Additional activation if the model is compiled (no `enforce_eager`).
    pub compile_mib: f64,
    /// CUDA graphs, captured after the KV cache is allocated, outside the budget.
    pub graphs_mib: f64,
    /// Kept by the warm-up, eager.
    pub warm_up_eager_mib: f64,
    /// Kept by the warm-up, with CUDA graphs.
    pub warm_up_graphs_mib: f64,
    /// Allocated by the first request and kept.
    pub serving_mib: f64,
    /// Additional weights with an 8-bit KV cache (its scales).
    pub fp8_mib: f64,
    /// Changes with n-gram speculation, if known.
    pub speculation: Option<Speculation>,
    /// Share of the rest of the budget that becomes KV cache.
    pub kv_share: f64,
    /// When blocks are allocated.
    pub reservation: Reservation,
    /// KV cache.
    pub kv: Kv,
}

/// Changes with n-gram speculation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculation {
    /// Additional activation.
    pub activation_mib: f64,
    /// CUDA graphs as estimated in advance, inside the budget.
    pub graphs_estimated_mib: f64,
    /// CUDA graphs as captured.
    pub graphs_mib: f64,
}

/// When a sequence's blocks are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reservation {
    /// Token by token. If no block is left, the newest sequence is preempted and recomputed later (vLLM).
    Grow,
    /// At admission, for the input and up to 1024 tokens of output; a request that does not fit waits (TGI).
    Slice,
}

/// The dynamic style, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dynamic {
    /// Size of the device as reported by NVML.
    pub total_mib: f64,
    /// In use by the driver before anything starts.
    pub reserved_mib: f64,
    /// Maximum bytes that the allocator may reserve. Default: the rest of the device.
    pub cap_bytes: Option<u64>,
    /// CUDA context and libraries, outside the allocator.
    pub context_bytes: u64,
    /// Allocated without requests: weights and workspaces.
    pub base_bytes: u64,
    /// Allocated per prompt token at the peak of a prefill, including its KV cache.
    pub prefill_bytes_per_token: u64,
    /// KV cache per token.
    pub kv_bytes_per_token: u64,
    /// Reserved beyond the allocated bytes without requests.
    pub cache_bytes: u64,
    /// Reserved per byte allocated beyond the base: fragmentation.
    pub cache_ratio: f64,
}

/// The fixed style.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// Size of the device.
    pub total_mib: f64,
    /// In use before anything starts.
    pub reserved_mib: f64,
    /// CUDA context and libraries.
    pub context_mib: f64,
    /// Weights.
    pub weights_mib: f64,
    /// Scratch memory of a step.
    pub compute_mib: f64,
    /// Logits.
    pub output_mib: f64,
    /// Number of layers, for the log.
    pub layers: u64,
    /// KV cache.
    pub kv: Kv,
}

impl MemoryProfile {
    /// Size of each device in bytes.
    pub fn total(&self) -> u64 {
        let (Self::Pool(PoolProfile { total_mib, .. })
        | Self::Dynamic(Dynamic { total_mib, .. })
        | Self::Fixed(Fixed { total_mib, .. })) = self;
        (total_mib * f64::from(1 << 20)) as u64
    }

    /// Whether each sequence takes blocks of the pool for its recurrent state.
    pub fn has_state(&self) -> bool {
        matches!(self, Self::Pool(pool) if pool.kv.state_blocks > 0)
    }

    /// Whether sequences take KV cache token by token, so that the longest one that fits can be computed at the start.
    pub fn grows(&self) -> bool {
        matches!(self, Self::Pool(pool) if pool.reservation == Reservation::Grow)
    }
}

const SHIPPED_SHAPES: [(&str, &str); 3] = [
    ("llama-1b-shape", include_str!("shapes/llama-1b-shape.json")),
    ("llama-3.1-8b", include_str!("shapes/llama-3.1-8b.json")),
    ("llama-8b-shape", include_str!("shapes/llama-8b-shape.json")),
];

/// A `config.json`: the name of a shipped one, or its keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConfigSource {
    /// Name of a shipped `config.json`.
    Shipped(String),
    /// Keys in the profile itself.
    Inline(Map<String, Value>),
}

impl ConfigSource {
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
            .map(|(_, text)| *text)
            .ok_or_else(|| {
                let known = SHIPPED_SHAPES.map(|(known, _)| known).join(", ");
                Fault::usage(format!("unknown `shape` `{name}`")).hint(format!(
                    "shipped: {known}; or write the keys of a `config.json` below `[shape]`"
                ))
            })?;
        serde_json::from_str(text).map_err(|error| Fault::internal(format!("shape `{name}`: {error}")))
    }
}

/// The shipped profiles, sorted by name.
const SHIPPED: [&str; 9] = [
    include_str!("profiles/falcon-h1-h100-vllm.toml"),
    include_str!("profiles/llama-1b-12gib-transformers.toml"),
    include_str!("profiles/llama-1b-h200-sglang.toml"),
    include_str!("profiles/llama-1b-h200-tgi.toml"),
    include_str!("profiles/llama-1b-h200-trtllm.toml"),
    include_str!("profiles/llama-1b-llamacpp.toml"),
    include_str!("profiles/llama-1b-ollama.toml"),
    include_str!("profiles/llama-8b-24gb-vllm.toml"),
    include_str!("profiles/llama-8b-h200-vllm.toml"),
];

/// Names of the shipped profiles, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().filter_map(|text| name_in(text))
}

fn shipped_text(name: &str) -> Option<&'static str> {
    SHIPPED.into_iter().find(|text| name_in(text) == Some(name))
}

/// The name stated in the profile.
fn name_in(text: &str) -> Option<&str> {
    text.lines()
        .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Component, EstimateRequest, ModelFiles, estimate};

    #[test]
    fn every_shipped_profile_parses_and_has_its_name() {
        assert!(names().is_sorted());
        assert_eq!(names().count(), SHIPPED.len());
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
