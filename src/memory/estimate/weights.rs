//! Bytes of the weights: from the files if known, else from each tensor's type or format.

use super::quantization::Scheme;
use super::{EstimateRequest, ModelFiles};
use crate::fault::{Fault, Result};
use crate::memory::shape::{Config, Dtype, Shape};

pub(super) struct Weights {
    /// All of them, once.
    pub(super) bytes: u64,
    pub(super) on_rank: u64,
    /// The type of weights that are not quantized, and the default of the KV cache.
    pub(super) dtype: Dtype,
    pub(super) quantization: Option<String>,
    /// How the figure was derived, for people.
    pub(super) source: String,
}

pub(super) fn weights(
    shape: &Shape,
    config: &Config,
    files: &ModelFiles,
    request: &EstimateRequest,
) -> Result<Weights> {
    let stated = config.get(&["quantization_config"]).is_some();
    let scheme = match request.quantization.as_deref() {
        None => None,
        Some("none") if !stated => None,
        Some("none") => {
            return Err(Fault::usage(
                "the model's own files are quantized: `quantization` cannot be `none`",
            ));
        }
        Some(name) => Some(Scheme::from_name(name)?),
    };
    let stored = shape.dtype.or_else(|| files.headers.as_ref()?.float());
    let requested = request.dtype.as_deref().filter(|name| *name != "auto");
    let requested = requested.map(str::parse::<Dtype>).transpose()?;
    let dtype = requested.or(stored).ok_or_else(|| {
        Fault::usage("`config.json` does not say the type of the weights (`dtype`)")
            .hint("give it as `dtype`: `bfloat16`, for example")
    })?;
    // The file sizes apply only if the weights are loaded as stored.
    let as_stored = scheme.is_none() && (requested.is_none() || requested == stored);
    if let Some((bytes, source)) = files.stored().filter(|_| as_stored) {
        // Only for display; the bytes do not depend on it.
        let quantization = config
            .get(&["quantization_config"])
            .and_then(|stated| stated["quant_method"].as_str());
        let computed = |ranks| sum(shape, None, dtype, ranks);
        return Ok(Weights {
            bytes,
            on_rank: share(bytes, computed(request.tensor_parallel), computed(1)),
            dtype,
            quantization: quantization.map(str::to_owned),
            source,
        });
    }
    let scheme = match scheme {
        None => Scheme::from_config(config)?,
        some => some,
    };
    let name = scheme.as_ref().map(|scheme| scheme.name.clone());
    let source = match &name {
        None => format!("{} parameters of {dtype}, from `config.json`", shape.parameters()),
        Some(name) => format!(
            "{} parameters, from `config.json`: `{name}` with its scales and zero points, the rest {dtype}",
            shape.parameters()
        ),
    };
    Ok(Weights {
        bytes: sum(shape, scheme.as_ref(), dtype, 1),
        on_rank: sum(shape, scheme.as_ref(), dtype, request.tensor_parallel),
        dtype,
        quantization: name,
        source,
    })
}

impl ModelFiles {
    /// Bytes of the tensors in the files, and their source.
    fn stored(&self) -> Option<(u64, String)> {
        if let Some(headers) = &self.headers {
            let types = headers.by_dtype();
            let types: Vec<String> = types.iter().map(|(name, bytes)| format!("{bytes} of {name}")).collect();
            return Some((
                headers.bytes(),
                format!("headers of the safetensors files: bytes {}", types.join(", ")),
            ));
        }
        if let Some(bytes) = self.indexed {
            return Some((bytes, "`total_size` of `model.safetensors.index.json`".to_owned()));
        }
        self.gguf.map(|bytes| (bytes, "size of the GGUF file".to_owned()))
    }
}

/// Bytes on one of `ranks`.
fn sum(shape: &Shape, scheme: Option<&Scheme>, dtype: Dtype, ranks: u64) -> u64 {
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
