//! Headers of safetensors files: the name, type and size of their tensors; and the shape of a model of an unknown
//! family, as far as the headers determine it.
//!
//! Only the header is read, never a weight. Format: 8 bytes with the header's length (little endian), then JSON that
//! maps each tensor's name to its `dtype`, `shape` and `data_offsets` (safetensors documentation, "Format").
//!
//! The headers list every tensor, so bytes are exact. Keys and values have as many elements as the outputs of the
//! matrices that produce them. A note names the information that headers lack: windows, states of other layers,
//! activations, and how ranks share the tensors.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Config;
use super::model::{Dtype, Layer, ModelShape, Split, group_equal, vector};
use crate::fault::{Fault, Result};

/// The longest header that the format allows.
const LONGEST: u64 = 100_000_000;
/// Bytes of the header's length.
const PREFIX: usize = 8;

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    /// The name: `model.layers.0.self_attn.k_proj.weight`.
    pub name: String,
    /// The type as safetensors names it: `BF16`, `F8_E4M3`, `I32`.
    pub dtype: String,
    /// The dimensions: outputs and inputs for a matrix.
    pub dims: Vec<u64>,
    /// The size in bytes.
    pub bytes: u64,
}

/// Every tensor of a model's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// In the order of the files.
    pub tensors: Vec<StoredTensor>,
}

impl StoredTensor {
    fn numbers(&self) -> u64 {
        self.dims.iter().copied().fold(1, u64::saturating_mul)
    }

    fn is_float(&self) -> bool {
        matches!(self.dtype.as_str(), "F64" | "F32" | "F16" | "BF16") || self.dtype.starts_with("F8")
    }

    /// Whether this is a quantized weight stored as integers, rather than a buffer such as a causal mask.
    fn is_integer_weight(&self) -> bool {
        let name = self.name.rsplit('.').next();
        !self.is_float() && matches!(name, Some("weight" | "qweight" | "weight_packed"))
    }
}

#[derive(Deserialize)]
struct HeaderEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl Headers {
    /// The offset at which the header ends, from the first 8 bytes of a file.
    ///
    /// # Errors
    ///
    /// `usage` if this is not a safetensors file.
    pub fn end(start: &[u8]) -> Result<u64> {
        let prefix: Option<[u8; PREFIX]> = start.get(..PREFIX).and_then(|bytes| bytes.try_into().ok());
        let length = prefix.map(u64::from_le_bytes).filter(|length| *length <= LONGEST);
        length
            .map(|length| length + PREFIX as u64)
            .ok_or_else(|| unusable("its first 8 bytes are not the length of a header"))
    }

    /// Adds the tensors of a file that begins with `start`, which extends to [`Headers::end`] or further.
    ///
    /// # Errors
    ///
    /// `usage` if the header cannot be parsed.
    pub fn add(&mut self, start: &[u8]) -> Result<()> {
        let end = usize::try_from(Self::end(start)?).unwrap_or(usize::MAX);
        let text = start
            .get(PREFIX..end)
            .ok_or_else(|| unusable("it ends within its header"))?;
        let entries: BTreeMap<String, Value> =
            serde_json::from_slice(text).map_err(|error| unusable(&format!("its header is not JSON: {error}")))?;
        for (name, entry) in entries {
            if name == "__metadata__" {
                continue;
            }
            let wrong = |why: &str| unusable(&format!("its tensor `{name}`{why}"));
            let entry = HeaderEntry::deserialize(entry).map_err(|error| wrong(&format!(": {error}")))?;
            let (from, to) = entry.data_offsets;
            let bytes = to.checked_sub(from).ok_or_else(|| wrong(" ends before it begins"))?;
            self.tensors.push(StoredTensor {
                name,
                dtype: entry.dtype,
                dims: entry.shape,
                bytes,
            });
        }
        Ok(())
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors
            .iter()
            .fold(0, |sum: u64, tensor| sum.saturating_add(tensor.bytes))
    }

    /// Elements of all weights, without integer buffers; with `tied`, also without a copy of the embedding as output
    /// matrix. One element may hold several packed quantized weights.
    pub fn parameters(&self, tied: bool) -> u64 {
        let counts = |tensor: &&StoredTensor| {
            let is_copy = tied && tensor.name.ends_with("lm_head.weight");
            !is_copy && (tensor.is_float() || tensor.is_integer_weight())
        };
        let weights = self.tensors.iter().filter(counts);
        weights.map(StoredTensor::numbers).fold(0, u64::saturating_add)
    }

    /// Whether quantized weights are stored as integers. One element may hold several of them.
    pub fn has_integer_weights(&self) -> bool {
        self.tensors.iter().any(StoredTensor::is_integer_weight)
    }

    /// The most common type among unquantized tensors.
    pub fn float(&self) -> Option<Dtype> {
        let types = [
            ("BF16", Dtype::Bfloat16),
            ("F16", Dtype::Float16),
            ("F32", Dtype::Float32),
        ];
        let bytes = self.by_dtype();
        let there = types
            .into_iter()
            .filter_map(|(name, dtype)| Some((*bytes.get(name)?, dtype)));
        there.max_by_key(|(bytes, _)| *bytes).map(|(_, dtype)| dtype)
    }

    /// Bytes by type.
    pub fn by_dtype(&self) -> BTreeMap<&str, u64> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for tensor in &self.tensors {
            let sum = sums.entry(&tensor.dtype).or_default();
            *sum = sum.saturating_add(tensor.bytes);
        }
        sums
    }
}

fn unusable(why: &str) -> Fault {
    Fault::usage(format!("not a usable safetensors file: {why}")).hint("check that the download is complete")
}

/// Module names that precede the layer number.
const LAYER_MODULES: [&str; 3] = ["layers", "h", "blocks"];

pub(super) fn read(config: &Config, headers: &Headers) -> Result<ModelShape> {
    let family = config.family()?;
    let embedding = headers
        .tensors
        .iter()
        .find(|tensor| ends(tensor, &["embed_tokens", "wte", "embed_in", "word_embeddings"]))
        .and_then(|tensor| Some((*tensor.dims.first()?, *tensor.dims.get(1)?)));
    let (vocabulary, hidden) =
        embedding.ok_or_else(|| unclear(family, "no tensor has the name of a token embedding"))?;
    let mut kv_widths: BTreeMap<u64, u64> = BTreeMap::new();
    for tensor in &headers.tensors {
        let Some(layer) = layer(&tensor.name) else {
            continue;
        };
        let numbers = kv_widths.entry(layer).or_default();
        if ends(tensor, &["k_proj", "v_proj", "kv_a_proj_with_mqa"]) {
            *numbers = numbers.saturating_add(tensor.dims.first().copied().unwrap_or(0));
        }
    }
    if kv_widths.values().all(|numbers| *numbers == 0) {
        return Err(unclear(family, "no matrix has a name that makes keys or values"));
    }
    let silent = kv_widths.values().filter(|numbers| **numbers == 0).count();
    let mut left_out = format!(
        "the family `{family}` is not known: weights, keys and values are read from the headers; every token is assumed to be kept in \
         every layer; of activations only the logits are counted"
    );
    if silent > 0 {
        left_out.push_str(&format!(
            "; {silent} layers have no matrices of keys and values: what they keep is not counted"
        ));
    }
    let layers = kv_widths.into_values().map(|numbers| match numbers {
        0 => Layer::default(),
        numbers => Layer::default().keeping(1, numbers, None),
    });
    let tied = config.flag(&["tie_word_embeddings"], false)?;
    Ok(ModelShape {
        family: family.to_owned(),
        hidden,
        vocabulary,
        heads: 1,
        max_positions: config.optional(&["max_position_embeddings"])?,
        dtype: config.dtype()?,
        ends: vec![vector(headers.parameters(tied), Split::Replicated)],
        tied,
        layers: group_equal(layers),
        left_out: Some(left_out),
        by_headers: true,
    })
}

/// Whether this is the weight of a module with one of these names.
fn ends(tensor: &StoredTensor, modules: &[&str]) -> bool {
    let mut steps = tensor.name.rsplit('.');
    steps.next() == Some("weight") && steps.next().is_some_and(|module| modules.contains(&module))
}

/// The number of the layer that a tensor belongs to.
fn layer(name: &str) -> Option<u64> {
    let steps: Vec<&str> = name.split('.').collect();
    let pair = steps.windows(2).find(|pair| LAYER_MODULES.contains(&pair[0]))?;
    pair[1].parse().ok()
}

fn unclear(family: &str, why: &str) -> Fault {
    Fault::usage(format!(
        "the family `{family}` is not known, and the headers of its files do not give its KV cache per token: {why}"
    ))
    .hint("start an engine with it: `profiler run memory_breakdown` measures what it needs")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(header: &Value) -> Vec<u8> {
        let text = header.to_string();
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes
    }

    #[test]
    fn bytes_are_counted_by_type() {
        let mut headers = Headers::default();
        headers
            .add(&file(&json!({
                "__metadata__": {"format": "pt"},
                "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
                "b": {"dtype": "F32", "shape": [], "data_offsets": [12, 16]},
            })))
            .unwrap();
        assert_eq!((headers.bytes(), headers.tensors[0].dims.clone()), (16, vec![2, 3]));
        assert_eq!(headers.by_dtype(), BTreeMap::from([("BF16", 12), ("F32", 4)]));
        assert_eq!(headers.float(), Some(Dtype::Bfloat16));
    }

    #[test]
    fn buffers_and_a_copy_of_the_embedding_are_no_parameters() {
        let of = |name: &str, dtype: &str| StoredTensor {
            dtype: dtype.to_owned(),
            ..stored(name, &[10])
        };
        let mut headers = Headers {
            tensors: vec![
                of("wte.weight", "BF16"),
                of("h.0.weight", "F8_E4M3"),
                of("h.0.bias", "U8"),
                of("position_ids", "I64"),
                of("lm_head.weight", "BF16"),
            ],
        };
        assert_eq!((headers.parameters(false), headers.parameters(true)), (30, 20));
        assert!(!headers.has_integer_weights());
        headers.tensors.push(of("h.1.qweight", "I32"));
        assert!(headers.has_integer_weights());
    }

    #[test]
    fn what_is_no_safetensors_file_is_refused() {
        let refused = |bytes: &[u8]| Headers::default().add(bytes).unwrap_err().message;
        assert!(refused(b"abc").contains("first 8 bytes"));
        assert!(refused(&u64::MAX.to_le_bytes()).contains("first 8 bytes"));
        assert!(refused(&10_u64.to_le_bytes()).contains("ends within"));
        assert!(refused(&file(&json!([]))).contains("not JSON"));
        assert!(refused(&file(&json!({"a": {"dtype": "F32"}}))).contains("`a`"));
        let backwards = json!({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}});
        assert!(refused(&file(&backwards)).contains("ends before it begins"));
    }

    fn stored(name: &str, dims: &[u64]) -> StoredTensor {
        StoredTensor {
            name: name.to_owned(),
            dtype: "BF16".into(),
            dims: dims.to_vec(),
            bytes: dims.iter().product::<u64>() * 2,
        }
    }

    fn shape(tensors: Vec<StoredTensor>) -> Result<ModelShape> {
        let config = Config::new(&json!({"model_type": "brand_new"})).unwrap();
        read(&config, &Headers { tensors })
    }

    #[test]
    fn keys_and_values_follow_from_the_matrices_that_make_them() {
        let found = shape(vec![
            stored("model.embed_tokens.weight", &[100, 8]),
            stored("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
            stored("model.layers.0.self_attn.v_proj.weight", &[6, 8]),
            stored("model.layers.1.mixer.in_proj.weight", &[6, 8]),
        ])
        .unwrap();
        let kept: Vec<u64> = found
            .layers
            .iter()
            .filter_map(|layer| Some(layer.per_token.as_ref()?.width))
            .collect();
        assert_eq!(
            (kept, found.layers.len(), found.parameters()),
            (vec![10], 2, 800 + 80 + 48)
        );
        assert!(found.left_out.unwrap().contains("1 layers have no matrices"));
    }

    #[test]
    fn fused_matrices_are_refused() {
        let embedding = stored("transformer.wte.weight", &[100, 8]);
        let fused = stored("transformer.h.0.attn.c_attn.weight", &[24, 8]);
        assert!(
            shape(vec![embedding.clone(), fused])
                .unwrap_err()
                .message
                .contains("keys or values")
        );
        assert!(shape(Vec::new()).unwrap_err().message.contains("embedding"));
    }
}
