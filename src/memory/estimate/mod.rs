//! Estimates the memory of a model without starting anything: weights, KV cache and activations, per tensor-parallel
//! rank.
//!
//! Figures follow from the model's [`ModelShape`] and the request; each part states its formula. Only the runtime context is
//! assumed, and marked so. Memory without a formula is left out and named in the notes.

mod blocks;
mod components;
mod modules;
mod quantization;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::blocks::StateBlocks;
use self::components::{Kv, Weights, activations, weights};
use self::quantization::Quantization;
use super::shape::{Config, Dtype, ModelShape, Stored, count_equal, read};
use super::{Breakdown, Component, Part, Provenance};
use crate::fault::{Fault, Result};
use crate::memory::compare::size;
use crate::memory::shape::Headers;

/// Layers that keep the same state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerKind {
    /// The number of these layers.
    pub count: u64,
    /// Bytes per token of one layer; 0 for a recurrent layer.
    pub kv_bytes_per_token: u64,
    /// The number of most recent tokens that a layer keeps; `None` for all.
    pub window: Option<u64>,
    /// Bytes per sequence of one layer, independent of its length.
    pub state_bytes: u64,
}

/// The memory that a model needs, in bytes; for the whole model unless noted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The model's family.
    pub family: String,
    /// Parameters, from the headers of the weights if there are any; a tied output matrix counts once.
    pub parameters: u64,
    /// The model's maximum positions.
    pub positions: Option<u64>,
    /// Bytes of all weights; replicated ones count once.
    pub weight_bytes: u64,
    /// Data type of the unquantized weights.
    pub dtype: Dtype,
    /// Format of the quantized weights.
    pub quantization: Option<String>,
    /// Data type of the KV cache.
    pub kv_cache_dtype: Dtype,
    /// Bytes of KV cache per token of a sequence shorter than every window; replicated heads count once.
    pub kv_bytes_per_token: u64,
    /// As `kv_bytes_per_token`, on one rank.
    pub kv_bytes_per_token_per_rank: u64,
    /// Bytes per sequence that do not depend on its length.
    pub state_bytes_per_sequence: u64,
    /// The state that the layers keep, by kind.
    pub layers: Vec<LayerKind>,
    /// The blocks of a hybrid model, in which attention and recurrent states share one pool.
    pub state_blocks: Option<StateBlocks>,
    /// The memory of all ranks together.
    pub total: Breakdown,
    /// The memory of each rank.
    pub ranks: Vec<Breakdown>,
    /// The capacity of a GPU, if its memory was given.
    pub fits: Option<Fits>,
    /// Memory that the figures do not include, for people.
    pub notes: Vec<String>,
    /// The request.
    pub question: EstimateRequest,
}

/// Estimates the memory that a model needs.
///
/// # Errors
///
/// `usage` if the request is invalid, if the model's files contain too little information (the hint names the missing
/// file), or if ranks cannot share the model's heads.
pub fn estimate(files: &ModelFiles, request: &EstimateRequest) -> Result<Estimate> {
    request.check()?;
    let config = Config::new(&files.config)?;
    let stored = files
        .headers
        .as_ref()
        .map(|headers| Stored::new(headers, &config))
        .transpose()?;
    let shape = read(&config, stored.as_ref())?;
    check_headers_suffice(&shape, request)?;
    check_heads_divide(&shape, request.tensor_parallel)?;
    let quantization = Quantization::stated(&config, files.quantization.as_ref());
    let weights = weights(&shape, stored.as_ref(), quantization.as_ref(), files, request)?;
    let requested = request.kv_cache_dtype.as_deref().filter(|name| *name != "auto");
    // With `auto`, engines take the type that the checkpoint was made for, else that of the weights.
    let dtype = match (requested, &quantization) {
        (Some(name), _) => name.parse()?,
        (None, Ok(Some(stated))) => stated.kv_cache.unwrap_or(weights.dtype),
        (None, _) => weights.dtype,
    };
    let kv = Kv {
        dtype,
        state: weights.dtype,
        ranks: request.tensor_parallel,
    };
    let towers = config.towers().to_vec();
    Model {
        blocks: StateBlocks::new(&shape, kv),
        shape,
        weights,
        kv,
        stored,
        towers,
    }
    .answer(files, request)
}

/// Rejects options that need more information than the headers of an unknown family.
fn check_headers_suffice(shape: &ModelShape, request: &EstimateRequest) -> Result<()> {
    let (name, what) = if request.tensor_parallel > 1 {
        ("tensor_parallel", "how ranks share its tensors")
    } else if request.quantization.is_some() {
        ("quantization", "which of its tensors are quantized")
    } else {
        return Ok(());
    };
    if !shape.by_headers {
        return Ok(());
    }
    let family = &shape.family;
    Err(Fault::usage(format!(
        "the family `{family}` is not known: {what} cannot be determined"
    ))
    .hint(format!("leave out `{name}`")))
}

/// Rejects ranks that cannot share the model's heads evenly, as every engine does.
fn check_heads_divide(shape: &ModelShape, ranks: u64) -> Result<()> {
    if shape.heads.is_multiple_of(ranks) {
        return Ok(());
    }
    Err(Fault::usage(format!(
        "{} attention heads cannot be shared by {ranks} ranks",
        shape.heads
    ))
    .hint("choose a `tensor_parallel` that divides them"))
}

/// The capacity of each GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fits {
    /// Usable bytes of each GPU.
    pub budget: u64,
    /// Bytes left for the KV cache after weights, activations and context; 0 if those alone exceed the budget.
    pub kv_bytes: u64,
    /// Tokens that these bytes hold, of sequences shorter than every window; `None` if tokens take no memory.
    pub tokens: Option<u64>,
    /// Concurrent sequences of the requested length that fit.
    pub sequences: u64,
    /// The most sequences for which vLLM starts with CUDA graphs, whatever their length: blocks of the pool of a hybrid
    /// model. `None` for another model.
    pub state_slots: Option<u64>,
    /// Tokens of the longest single sequence that fits, at most the model's positions.
    pub longest: u64,
    /// Whether the request fits.
    pub fits: bool,
}

/// The largest number up to `most` that satisfies `holds`, by bisection; 0 if there is none.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// CUDA context, libraries and the framework before the first weight: 15,333 MiB in use after vLLM 0.24 had loaded
/// 13.54 GiB on an H200, minus 615 MiB in use before (`tests/data/vllm-starts.csv`).
const CONTEXT: u64 = 853 << 20;
/// Longer than any sequence, if the model does not state its positions.
const LONGEST: u64 = 1 << 32;
const MOST_SEQUENCES: u64 = 1 << 32;

struct Model {
    shape: ModelShape,
    weights: Weights,
    kv: Kv,
    blocks: Option<StateBlocks>,
    stored: Option<Stored>,
    /// Keys of `config.json` for parts that are not the language model.
    towers: Vec<String>,
}

impl Model {
    fn answer(self, files: &ModelFiles, request: &EstimateRequest) -> Result<Estimate> {
        let ranks = request.tensor_parallel;
        let parts = self.parts(request)?;
        let rank = |number: u64| Breakdown::new(Some(format!("rank {number}")), total(&parts), parts.clone());
        let all: Vec<Part> = parts
            .iter()
            .map(|part| {
                let bytes = part.bytes.checked_mul(i64::try_from(ranks).unwrap_or(i64::MAX));
                bytes.map(|bytes| Part { bytes, ..part.clone() }).ok_or_else(too_large)
            })
            .collect::<Result<_>>()?;
        let whole = Kv { ranks: 1, ..self.kv };
        let kinds = self.shape.layers.iter().map(|layer| {
            let windows = layer.per_token.iter().map(|cache| cache.window);
            let window = windows
                .collect::<Option<Vec<u64>>>()
                .and_then(|windows| windows.into_iter().max());
            (1, (whole.token_of(layer), window, whole.state_of(layer)))
        });
        let layers = count_equal(kinds)
            .into_iter()
            .map(|(count, (kv_bytes_per_token, window, state_bytes))| LayerKind {
                count,
                kv_bytes_per_token,
                window,
                state_bytes,
            });
        Ok(Estimate {
            parameters: self.weights.parameters,
            positions: self.shape.max_positions,
            weight_bytes: self.weights.bytes,
            dtype: self.weights.dtype,
            quantization: self.weights.quantization.clone(),
            kv_cache_dtype: self.kv.dtype,
            kv_bytes_per_token: whole.token(&self.shape),
            kv_bytes_per_token_per_rank: self.kv.token(&self.shape),
            state_bytes_per_sequence: whole.state(&self.shape),
            layers: layers.collect(),
            state_blocks: self.blocks,
            total: Breakdown::new(None, total(&all), all)?,
            ranks: (0..ranks).map(rank).collect::<Result<_>>()?,
            fits: request.gpu_memory.map(|memory| self.fits(memory, request)),
            notes: self.notes(files, request),
            question: request.clone(),
            family: self.shape.family,
        })
    }

    /// The parts of one rank.
    fn parts(&self, request: &EstimateRequest) -> Result<Vec<Part>> {
        let activations = activations(&self.shape, request, self.weights.dtype);
        let context = "as one H200 had it with vLLM 0.24 before the first weight".to_owned();
        let figures = [
            (Component::Weights, self.weights.on_rank, self.weights.source.clone()),
            (Component::KvUsed, self.kv_bytes(request), self.kv_source(request)),
            (Component::Activations, activations.bytes, activations.source),
            (Component::RuntimeContext, CONTEXT, context),
        ];
        let part = |(component, bytes, source)| {
            let assumed = component == Component::RuntimeContext;
            Ok(Part {
                component,
                bytes: i64::try_from(bytes).map_err(|_| too_large())?,
                provenance: if assumed {
                    Provenance::Assumed
                } else {
                    Provenance::Computed
                },
                source,
                within: None,
            })
        };
        figures.into_iter().map(part).collect()
    }

    fn kv_source(&self, request: &EstimateRequest) -> String {
        let sequences = match request.concurrency {
            1 => "1 sequence".to_owned(),
            several => format!("{several} sequences"),
        };
        if let Some(blocks) = self.blocks {
            return format!(
                "{sequences} of {} tokens; in vLLM's blocks of {} tokens, {} bytes each: {} for each such part of a sequence, and {} for its state",
                request.tokens(),
                blocks.tokens,
                blocks.bytes,
                blocks.per_tokens,
                blocks.per_sequence
            );
        }
        let state = match self.kv.state(&self.shape) {
            0 => String::new(),
            bytes => format!(", and {bytes} of each sequence"),
        };
        format!(
            "{sequences} of {} tokens; {} bytes of each token in {}{state}",
            request.tokens(),
            self.kv.token(&self.shape),
            self.kv.dtype,
        )
    }

    fn kv_bytes(&self, request: &EstimateRequest) -> u64 {
        if let Some(blocks) = self.blocks {
            return blocks.bytes_of(request.tokens(), request.concurrency);
        }
        self.kv
            .sequence(&self.shape, request.tokens())
            .saturating_mul(request.concurrency)
    }

    /// Bytes on one rank besides the KV cache.
    fn non_kv_bytes(&self, request: &EstimateRequest) -> u64 {
        let activations = activations(&self.shape, request, self.weights.dtype).bytes;
        self.weights.on_rank.saturating_add(activations).saturating_add(CONTEXT)
    }

    fn fits(&self, memory: u64, request: &EstimateRequest) -> Fits {
        let budget = (memory as f64 * request.memory_fraction) as u64;
        let need = |request: &EstimateRequest| self.non_kv_bytes(request).saturating_add(self.kv_bytes(request));
        let kv_bytes = budget.saturating_sub(self.non_kv_bytes(request));
        let longest = self.shape.max_positions.unwrap_or(LONGEST);
        Fits {
            budget,
            kv_bytes,
            state_slots: self.blocks.map(|blocks| kv_bytes / blocks.bytes),
            tokens: kv_bytes.checked_div(self.kv.token(&self.shape)),
            sequences: largest(MOST_SEQUENCES, |concurrency| {
                need(&EstimateRequest {
                    concurrency,
                    ..request.clone()
                }) <= budget
            }),
            longest: largest(longest, |input| {
                need(&EstimateRequest {
                    input,
                    output: 0,
                    concurrency: 1,
                    ..request.clone()
                }) <= budget
            }),
            fits: need(request) <= budget,
        }
    }

    fn notes(&self, files: &ModelFiles, request: &EstimateRequest) -> Vec<String> {
        let mut notes = files.notes.clone();
        notes.extend(self.shape.notes.clone());
        match &self.stored {
            Some(stored) => {
                if stored.towers > 0 {
                    notes.push(format!(
                        "{} bytes of the weights are parts for images, sound or video, which engines load unless told otherwise",
                        stored.towers
                    ));
                }
                if stored.drafts > 0 {
                    notes.push(format!(
                        "{} bytes of the files are layers for multi-token prediction, which engines load only for speculative decoding: not counted",
                        stored.drafts
                    ));
                }
            }
            None if files.indexed.is_none() && !self.towers.is_empty() => notes.push(format!(
                "only the language model is counted: the weights of {} are not known without the headers of the files",
                self.towers
                    .iter()
                    .map(|key| format!("`{key}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
            None => {}
        }
        if self.weights.dtype == Dtype::Float32 && request.dtype.is_none() {
            notes.push(
                "the weights are float32: an engine that loads them as 16-bit needs half; set `dtype` for that"
                    .to_owned(),
            );
        }
        if self.weights.assumed {
            notes.push(format!(
                "no file says the type of the weights that are not quantized: {} is assumed, in which vLLM loads them; set `dtype` for another",
                self.weights.dtype
            ));
        }
        let tokens = request.tokens();
        if let Some(positions) = self.shape.max_positions.filter(|&positions| positions < tokens) {
            notes.push(format!(
                "the model was made for {positions} positions, fewer than the {tokens} tokens asked for"
            ));
        }
        if request.tensor_parallel > 1 {
            notes.push("communication buffers of the ranks are not included: they must be measured".to_owned());
        }
        notes.push("CUDA graphs, library workspaces and memory fragmentation are not included".to_owned());
        notes
    }
}

fn total(parts: &[Part]) -> u64 {
    let bytes = parts.iter().map(|part| u64::try_from(part.bytes).unwrap_or(0));
    bytes.fold(0, u64::saturating_add)
}

fn too_large() -> Fault {
    Fault::usage("the estimate is more than any device has")
}

const MOST_RANKS: u64 = 1024;

/// The workload and the model's settings. Keys in JSON and in scripts, options of `profiler estimate`.
#[derive(clap::Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EstimateRequest {
    /// Input tokens of each sequence
    #[arg(long, value_name = "TOKENS", default_value_t = Self::default().input)]
    pub input: u64,
    /// Output tokens of each sequence
    #[arg(long, value_name = "TOKENS", default_value_t = Self::default().output)]
    pub output: u64,
    /// Concurrent sequences
    #[arg(long, value_name = "N", default_value_t = Self::default().concurrency)]
    pub concurrency: u64,
    /// Type of the weights instead of the model's own: bfloat16, float16, float32
    #[arg(long)]
    pub dtype: Option<String>,
    /// Quantization of the weights instead of the model's own: awq, gptq, fp8, `nf4`, mxfp4, `q4_k`, …
    #[arg(long)]
    pub quantization: Option<String>,
    /// Type of the KV cache: auto (the type of the weights), fp8, `q8_0`, …
    #[arg(long, value_name = "DTYPE")]
    pub kv_cache_dtype: Option<String>,
    /// GPUs that share each layer
    #[arg(long, value_name = "N", default_value_t = Self::default().tensor_parallel)]
    pub tensor_parallel: u64,
    /// Tokens of a full step of the prefill (vLLM's `max_num_batched_tokens`); all input of a sequence when absent
    #[arg(long, value_name = "TOKENS")]
    pub prefill_chunk: Option<u64>,
    /// Memory of each GPU, in bytes or with a unit (80GiB, 80GB): shows what fits; exit status 1 if a model does not
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub gpu_memory: Option<u64>,
    /// Usable share of that memory
    #[arg(long, value_name = "SHARE", default_value_t = Self::default().memory_fraction)]
    pub memory_fraction: f64,
}

impl Default for EstimateRequest {
    fn default() -> Self {
        Self {
            input: 2048,
            output: 256,
            concurrency: 1,
            dtype: None,
            quantization: None,
            kv_cache_dtype: None,
            tensor_parallel: 1,
            prefill_chunk: None,
            gpu_memory: None,
            memory_fraction: 0.9,
        }
    }
}

impl EstimateRequest {
    pub(super) fn check(&self) -> Result<()> {
        let above_zero = [
            ("concurrency", Some(self.concurrency)),
            ("tensor_parallel", Some(self.tensor_parallel)),
            ("prefill_chunk", self.prefill_chunk),
            ("gpu_memory", self.gpu_memory),
        ];
        for (name, value) in above_zero {
            if value == Some(0) {
                return Err(Fault::usage(format!("`{name}` cannot be 0")));
            }
        }
        if self.input.saturating_add(self.output) == 0 {
            return Err(Fault::usage("a sequence has at least one token, input or output"));
        }
        if self.tensor_parallel > MOST_RANKS {
            return Err(Fault::usage(format!(
                "`tensor_parallel` cannot be {}: at most {MOST_RANKS}",
                self.tensor_parallel
            )));
        }
        if !(self.memory_fraction > 0.0 && self.memory_fraction <= 1.0) {
            return Err(Fault::usage(format!(
                "`memory_fraction` must be above 0 and at most 1, and is {}",
                self.memory_fraction
            )));
        }
        Ok(())
    }

    /// Tokens per sequence.
    pub(super) fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Tokens of one prefill step. A given chunk counts in full, whatever the request: engines with chunked prefill run
    /// one before they serve (vLLM, TensorRT-LLM), and keep the memory.
    pub(super) fn step(&self) -> u64 {
        self.prefill_chunk.unwrap_or(self.input.max(1))
    }
}

/// The contents of a model's files that determine its size.
#[derive(Clone, Debug, Default)]
pub struct ModelFiles {
    /// `config.json`.
    pub config: Value,
    /// The headers of all its safetensors files.
    pub headers: Option<Headers>,
    /// `metadata.total_size` of its `model.safetensors.index.json`: bytes of all tensors.
    pub indexed: Option<u64>,
    /// `hf_quant_config.json`, by which NVIDIA's Model Optimizer says how the weights are quantized.
    pub quantization: Option<Value>,
    /// Bytes of its GGUF files, all of one model.
    pub gguf: Option<u64>,
    /// Reasons why some of the files above are missing although they were looked for, for people.
    pub notes: Vec<String>,
}

/// Parses bytes with or without a unit.
fn bytes(text: &str) -> Result<u64, String> {
    // A small number without a unit is probably missing one.
    let (number, least) = match size(text) {
        Some((number, Some(unit))) => (number * unit, 1.0),
        Some((number, None)) => (number, 1_048_576.0),
        None => (0.0, 1.0),
    };
    if !(least..9e15).contains(&number) {
        return Err("bytes, or a number with a unit behind it: 80GiB, 80GB".to_owned());
    }
    Ok(number as u64)
}

#[cfg(test)]
mod request_tests {
    use super::bytes;

    #[test]
    fn sizes_are_bytes_or_say_their_unit() {
        assert_eq!(bytes("80GiB"), Ok(80 << 30));
        assert_eq!(bytes("139.80 GiB"), Ok(150_109_106_995));
        assert_eq!(bytes("80GB"), Ok(80_000_000_000));
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        for wrong in ["80", "-1GiB", "infGiB", "nanGiB", "GiB", ""] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
