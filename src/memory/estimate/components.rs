//! The components of an estimate: weights, KV cache and activations.

use super::quantization::Quantization;
use super::{EstimateRequest, ModelFiles};
use crate::fault::{Fault, Result};
use crate::memory::shape::{Dtype, Headers, Layer, ModelShape, PerToken, Phase, Stored};

pub(super) struct Weights {
    /// Elements of all weights; a tied output matrix counts once.
    pub(super) parameters: u64,
    /// Bytes of all weights, each counted once.
    pub(super) bytes: u64,
    pub(super) on_rank: u64,
    /// The type of weights that are not quantized, and the default of the KV cache.
    pub(super) dtype: Dtype,
    pub(super) quantization: Option<String>,
    /// How the figure was derived, for people.
    pub(super) source: String,
    /// Whether nothing says the type, so that it is assumed.
    pub(super) assumed: bool,
}

/// If the weights are loaded as stored, uses the headers of the files first, then their sizes. Otherwise uses the shape
/// that `config.json` describes.
pub(super) fn weights(
    shape: &ModelShape,
    stored: Option<&Stored>,
    stated: Result<&Option<Quantization>, &Fault>,
    files: &ModelFiles,
    request: &EstimateRequest,
) -> Result<Weights> {
    let is_quantized = !matches!(stated, Ok(None));
    let scheme = match request.quantization.as_deref() {
        None => None,
        Some("none") if !is_quantized => None,
        Some("none") => {
            return Err(Fault::usage(
                "the model's own files are quantized: `quantization` cannot be `none`",
            ));
        }
        Some(name) => Some(Quantization::from_name(name)?),
    };
    let headers = stored.map(|stored| &stored.loaded);
    let own = shape.dtype.or_else(|| headers?.float());
    let requested = request
        .dtype
        .as_deref()
        .filter(|name| *name != "auto")
        .map(str::parse::<Dtype>)
        .transpose()?;
    let dtype = requested.or(own).unwrap_or(ASSUMED);
    // Several quantized weights may be packed into one element.
    let countable = |headers: &&Headers| !is_quantized && !headers.has_integer_weights();
    let parameters = match headers.filter(countable) {
        Some(headers) => headers.parameters(4),
        None => shape.parameters(),
    };
    let known = |bytes, quantization, source| {
        let computed = |ranks| weight_bytes(shape, None, dtype, ranks);
        Weights {
            parameters,
            bytes,
            on_rank: share(bytes, computed(request.tensor_parallel), computed(1)),
            dtype,
            quantization,
            source,
            assumed: requested.or(own).is_none(),
        }
    };
    let as_stored = scheme.is_none() && (requested.is_none() || requested == own);
    if let Some((bytes, source)) = files.stored(headers).filter(|_| as_stored) {
        // Only for display; the bytes do not depend on it.
        let quantization = stated.ok().and_then(Option::as_ref).map(|stated| stated.name.clone());
        return Ok(known(bytes, quantization, source));
    }
    let scheme = match (&scheme, stated) {
        (Some(scheme), _) => Some(scheme),
        (None, stated) => stated.map_err(Fault::clone)?.as_ref(),
    };
    let Some(scheme) = scheme else {
        let towers = stored.is_some_and(|stored| stored.towers > 0);
        // The headers also count a vision tower, which engines load in its own type, so `dtype` times their count would
        // be wrong.
        let (parameters, counted_by) = if headers.is_some() && (shape.by_headers || !towers) {
            (parameters, "the headers of the weights")
        } else {
            (shape.parameters(), "`config.json`")
        };
        let source = format!("{parameters} parameters of {dtype}, from {counted_by}");
        return Ok(known(dtype.bytes(parameters), None, source));
    };
    Ok(Weights {
        parameters,
        bytes: weight_bytes(shape, Some(scheme), dtype, 1),
        on_rank: weight_bytes(shape, Some(scheme), dtype, request.tensor_parallel),
        dtype,
        source: format!(
            "{} parameters, from `config.json`: `{}` with its scales and zero points, the rest {dtype}",
            shape.parameters(),
            scheme.name
        ),
        quantization: Some(scheme.name.clone()),
        assumed: requested.or(own).is_none(),
    })
}

/// The type of weights of which nothing says the type. vLLM loads those in it, on GPUs that have it.
const ASSUMED: Dtype = Dtype::Bfloat16;

impl ModelFiles {
    /// Bytes of the tensors in the files that engines load, and their source.
    fn stored(&self, headers: Option<&Headers>) -> Option<(u64, String)> {
        if let Some(headers) = headers {
            let types: Vec<String> = headers
                .by_dtype()
                .iter()
                .map(|(name, bytes)| format!("{bytes} of {name}"))
                .collect();
            let source = format!("from the headers of the weights: bytes {}", types.join(", "));
            return Some((headers.bytes(), source));
        }
        if let Some(bytes) = self.indexed {
            return Some((bytes, "`total_size` of `model.safetensors.index.json`".to_owned()));
        }
        self.gguf.map(|bytes| (bytes, "size of the GGUF file".to_owned()))
    }
}

/// Bytes on one of `ranks` ranks.
fn weight_bytes(shape: &ModelShape, scheme: Option<&Quantization>, dtype: Dtype, ranks: u64) -> u64 {
    let tensors = shape.tensors().map(|(layer, tensor)| {
        let share = tensor.on_rank(ranks);
        scheme.map_or_else(
            || dtype.bytes(share.parameters()),
            |scheme| scheme.bytes(layer, &share, dtype),
        )
    });
    tensors.fold(0, u64::saturating_add)
}

/// A rank's share of `bytes` in proportion `part` to `whole`, rounded up.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    let scaled = (u128::from(bytes) * u128::from(part)).div_ceil(u128::from(whole.max(1)));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// How the cache is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kv {
    pub(super) dtype: Dtype,
    /// The type of a recurrent layer's state, unless the model states another.
    pub(super) state: Dtype,
    /// The number of ranks that share it.
    pub(super) ranks: u64,
}

impl Kv {
    /// Bytes per token of one layer, on one rank, until its window is full; rounded up where an entry stands for several
    /// tokens.
    pub(super) fn token_of(self, layer: &Layer) -> u64 {
        self.tokens_of(layer, |_| SPAN).div_ceil(SPAN)
    }

    /// Bytes that one layer keeps of tokens, on one rank; `entries` of a cache with an entry per token.
    fn tokens_of(self, layer: &Layer, entries: impl Fn(&PerToken) -> u64) -> u64 {
        layer.per_token.iter().fold(0, |sum, cache| {
            let entries = entries(cache).div_ceil(cache.tokens);
            sum.saturating_add(cache.entry(self.dtype, self.ranks).saturating_mul(entries))
        })
    }

    /// Bytes of one layer's state of a sequence, on one rank.
    pub(super) fn state_of(self, layer: &Layer) -> u64 {
        layer.per_sequence.as_ref().map_or(0, |state| {
            let convolution = self.state.bytes(state.convolution.div_ceil(self.ranks));
            let recurrent = state
                .dtype
                .unwrap_or(self.state)
                .bytes(state.recurrent.div_ceil(self.ranks));
            convolution.saturating_add(recurrent)
        })
    }

    /// Bytes per further token of a sequence shorter than every window, on one rank.
    pub(super) fn token(self, shape: &ModelShape) -> u64 {
        over_layers(shape, |layer| self.tokens_of(layer, |_| SPAN)).div_ceil(SPAN)
    }

    /// Bytes per sequence that do not depend on its length, on one rank.
    pub(super) fn state(self, shape: &ModelShape) -> u64 {
        over_layers(shape, |layer| self.state_of(layer))
    }

    /// Bytes of a sequence of this many tokens, on one rank.
    pub(super) fn sequence(self, shape: &ModelShape, tokens: u64) -> u64 {
        over_layers(shape, |layer| {
            let cached = self.tokens_of(layer, |cache| cache.window.map_or(tokens, |window| tokens.min(window)));
            cached.saturating_add(self.state_of(layer))
        })
    }
}

/// Tokens of which whole entries are counted: a multiple of the tokens of every entry.
const SPAN: u64 = 256;

fn over_layers(shape: &ModelShape, of: impl Fn(&Layer) -> u64) -> u64 {
    shape.layers.iter().map(of).fold(0, u64::saturating_add)
}

/// Bytes on one rank, and the formula.
pub(super) struct Activations {
    pub(super) bytes: u64,
    pub(super) source: String,
}

/// The peak of a prefill step on one rank, without weights and KV cache.
///
/// A step of T tokens runs through one layer at a time, so the largest phase of any layer decides: T times the elements
/// that live at the same time (see [`Phase`]). After the last layer, one row of logits per sequence is computed in the
/// model's type and again in float32 for sampling, while the hidden states of the step are still alive. The larger of
/// the two is the peak. Fragmentation and library workspaces are not included.
pub(super) fn activations(shape: &ModelShape, request: &EstimateRequest, dtype: Dtype) -> Activations {
    let (step, ranks, number) = (request.step(), request.tensor_parallel, dtype.bytes(1));
    let per_token = |phase: &Phase| phase.bytes_per_token(ranks, number);
    let phases = shape.layers.iter().flat_map(|layer| &layer.phases);
    let largest = phases.max_by_key(|phase| per_token(phase));
    let layer = largest.map_or(0, |phase| per_token(phase).saturating_mul(step));

    let row = shape.vocabulary.saturating_mul(number.saturating_add(4));
    let hidden = shape.hidden.saturating_mul(number).saturating_mul(step);
    let logits = row.saturating_mul(request.concurrency).saturating_add(hidden);
    if logits > layer {
        return Activations {
            bytes: logits,
            source: format!(
                "{} rows of {} logits in {dtype} and in float32, and the hidden states of a step of {step} tokens",
                request.concurrency, shape.vocabulary
            ),
        };
    }
    let tensors = largest.map_or("", |phase| phase.tensors);
    Activations {
        bytes: layer,
        source: format!("a step of {step} tokens; {tensors}"),
    }
}
