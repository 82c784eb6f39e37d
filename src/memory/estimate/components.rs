//! The components of an estimate: weights, KV cache and activations.

use super::quantization::Scheme;
use super::{EstimateRequest, ModelFiles};
use crate::fault::{Fault, Result};
use crate::memory::shape::{Config, Dtype, Headers, Layer, ModelShape, Phase};

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
}

/// If the weights are loaded as stored, uses the headers of the files first, then their sizes. Otherwise uses the shape
/// that `config.json` describes.
pub(super) fn weights(
    shape: &ModelShape,
    config: &Config,
    files: &ModelFiles,
    request: &EstimateRequest,
) -> Result<Weights> {
    let stated = config.get(&["quantization_config"]);
    let scheme = match request.quantization.as_deref() {
        None => None,
        Some("none") if stated.is_none() => None,
        Some("none") => {
            return Err(Fault::usage(
                "the model's own files are quantized: `quantization` cannot be `none`",
            ));
        }
        Some(name) => Some(Scheme::from_name(name)?),
    };
    let headers = files.headers.as_ref();
    let stored = shape.dtype.or_else(|| headers?.float());
    let requested = request
        .dtype
        .as_deref()
        .filter(|name| *name != "auto")
        .map(str::parse::<Dtype>)
        .transpose()?;
    let dtype = requested.or(stored).ok_or_else(|| {
        Fault::usage("`config.json` does not say the type of the weights (`dtype`)")
            .hint("give it as `dtype`: `bfloat16`, for example")
    })?;
    // Several quantized weights may be packed into one element.
    let countable = |headers: &&Headers| stated.is_none() && !headers.has_integer_weights();
    let parameters = match headers.filter(countable) {
        Some(headers) => headers.parameters(shape.tied),
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
        }
    };
    let as_stored = scheme.is_none() && (requested.is_none() || requested == stored);
    if let Some((bytes, source)) = files.stored().filter(|_| as_stored) {
        // Only for display; the bytes do not depend on it.
        let quantization = stated.and_then(|stated| stated["quant_method"].as_str());
        return Ok(known(bytes, quantization.map(str::to_owned), source));
    }
    let scheme = match scheme {
        None => Scheme::from_config(config)?,
        some => some,
    };
    let Some(scheme) = scheme else {
        // The headers also count a vision tower, which engines load in its own type, so `dtype` times their count would
        // be wrong.
        let (parameters, counted_by) = if headers.is_some() && (shape.by_headers || !config.is_multimodal()) {
            (parameters, "the headers of the weights")
        } else {
            (shape.parameters(), "`config.json`")
        };
        let source = format!("{parameters} parameters of {dtype}, from {counted_by}");
        return Ok(known(dtype.bytes(parameters), None, source));
    };
    Ok(Weights {
        parameters,
        bytes: weight_bytes(shape, Some(&scheme), dtype, 1),
        on_rank: weight_bytes(shape, Some(&scheme), dtype, request.tensor_parallel),
        dtype,
        source: format!(
            "{} parameters, from `config.json`: `{}` with its scales and zero points, the rest {dtype}",
            shape.parameters(),
            scheme.name
        ),
        quantization: Some(scheme.name),
    })
}

impl ModelFiles {
    /// Bytes of the tensors in the files, and their source.
    fn stored(&self) -> Option<(u64, String)> {
        if let Some(headers) = &self.headers {
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
fn weight_bytes(shape: &ModelShape, scheme: Option<&Scheme>, dtype: Dtype, ranks: u64) -> u64 {
    shape.tensors().fold(0, |sum: u64, (count, tensor)| {
        let share = tensor.on_rank(ranks);
        let bytes = scheme.map_or_else(|| dtype.bytes(share.parameters()), |scheme| scheme.bytes(&share, dtype));
        sum.saturating_add(bytes.saturating_mul(count))
    })
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
    /// Bytes per token of one layer, on one rank, until its window is full.
    pub(super) fn token_of(self, layer: &Layer) -> u64 {
        layer
            .per_token
            .as_ref()
            .map_or(0, |per_token| self.dtype.bytes(per_token.on_rank(self.ranks)))
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
        over_layers(shape, |layer| self.token_of(layer))
    }

    /// Bytes per sequence that do not depend on its length, on one rank.
    pub(super) fn state(self, shape: &ModelShape) -> u64 {
        over_layers(shape, |layer| self.state_of(layer))
    }

    /// Bytes of a sequence of this many tokens, on one rank.
    pub(super) fn sequence(self, shape: &ModelShape, tokens: u64) -> u64 {
        over_layers(shape, |layer| {
            let resident = layer
                .per_token
                .as_ref()
                .map_or(0, |per_token| per_token.resident_tokens(tokens));
            self.token_of(layer)
                .saturating_mul(resident)
                .saturating_add(self.state_of(layer))
        })
    }
}

fn over_layers(shape: &ModelShape, of: impl Fn(&Layer) -> u64) -> u64 {
    shape.layers.iter().fold(0, |sum: u64, layer| {
        sum.saturating_add(of(layer).saturating_mul(layer.count))
    })
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
