//! Bytes of the weights: of the files where they are known, else of each tensor in its type or format.

use super::quantization::Scheme;
use super::{Known, Question};
use crate::fault::{Fault, Result};
use crate::memory::shape::{Config, Dtype, Shape};

/// What the weights take, and how that is known.
pub(super) struct Weights {
    /// All of them, once.
    pub(super) bytes: u64,
    /// What one rank holds.
    pub(super) on_rank: u64,
    /// Numbers that are not quantized, and of the KV cache unless it has a type of its own.
    pub(super) dtype: Dtype,
    /// The format, where there is one.
    pub(super) quantization: Option<String>,
    /// How the figure was got.
    pub(super) source: String,
}

/// The weights on `ranks` ranks.
pub(super) fn weights(shape: &Shape, config: &Config, known: &Known, question: &Question) -> Result<Weights> {
    let stated = config.get(&["quantization_config"]).is_some();
    let scheme = match question.quantization.as_deref() {
        None => None,
        Some("none") if !stated => None,
        Some("none") => {
            return Err(Fault::usage(
                "the model's own files are quantized: `quantization` cannot be `none`",
            ));
        }
        Some(name) => Some(Scheme::named(name)?),
    };
    let own = shape.dtype.or_else(|| known.headers.as_ref()?.float());
    let asked = question.dtype.as_deref().filter(|name| *name != "auto");
    let asked = asked.map(str::parse::<Dtype>).transpose()?;
    let dtype = asked.or(own).ok_or_else(|| {
        Fault::usage("`config.json` does not say the type of the weights (`dtype`)")
            .hint("give it as `dtype`: `bfloat16`, for example")
    })?;
    // The files tell it only as long as they are loaded as they are.
    let as_stored = scheme.is_none() && (asked.is_none() || asked == own);
    if let Some((bytes, source)) = known.stored().filter(|_| as_stored) {
        // The format is named where it is known; the bytes do not depend on it.
        let quantization = config
            .get(&["quantization_config"])
            .and_then(|stated| stated["quant_method"].as_str());
        let computed = |ranks| sum(shape, None, dtype, ranks);
        return Ok(Weights {
            bytes,
            on_rank: share(bytes, computed(question.tensor_parallel), computed(1)),
            dtype,
            quantization: quantization.map(str::to_owned),
            source,
        });
    }
    let scheme = match scheme {
        None => Scheme::stated(config)?,
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
        on_rank: sum(shape, scheme.as_ref(), dtype, question.tensor_parallel),
        dtype,
        quantization: name,
        source,
    })
}

impl Known {
    /// Bytes of the files' tensors and how they are known.
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

/// Bytes that one of `ranks` holds.
fn sum(shape: &Shape, scheme: Option<&Scheme>, dtype: Dtype, ranks: u64) -> u64 {
    shape.tensors().fold(0, |sum: u64, (count, tensor)| {
        let share = tensor.on_rank(ranks);
        let bytes = scheme.map_or_else(|| dtype.bytes(share.parameters()), |scheme| scheme.bytes(&share, dtype));
        sum.saturating_add(bytes.saturating_mul(count))
    })
}

/// A rank's share of `bytes` as `part` is of `whole`, rounded up.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    let scaled = (u128::from(bytes) * u128::from(part)).div_ceil(u128::from(whole.max(1)));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
