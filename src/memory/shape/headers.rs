//! Headers of safetensors files: the name, type and size of their tensors.
//!
//! Only the header is read, never a weight. Format: 8 bytes with the header's length (little endian), then JSON that
//! maps each tensor's name to its `dtype`, `shape` and `data_offsets` (safetensors documentation, "Format").

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::model::Dtype;
use crate::fault::{Fault, Result};

/// The longest header that the format allows.
const LONGEST: u64 = 100_000_000;
/// Most tensors of a model: twice as many as the largest one has whose experts are quantized one by one.
const MAX_TENSORS: usize = 1_000_000;
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
    /// The module that has it, and its name there: `model.layers.0.self_attn.k_proj` and `weight`.
    pub(super) fn module(&self) -> (&str, &str) {
        self.name.rsplit_once('.').unwrap_or(("", &self.name))
    }

    /// Elements, as many as its dimensions say.
    pub(super) fn numbers(&self) -> u64 {
        self.dims.iter().copied().fold(1, u64::saturating_mul)
    }

    /// The weights that it holds, of which an integer may pack several of `bits` bits; scales and zero points are none.
    fn weights(&self, bits: u64) -> u64 {
        let (_, name) = self.module();
        let packed = |size: u64| self.numbers().saturating_mul((size / bits.max(1)).max(1));
        match (name, self.dtype.as_str()) {
            ("qweight" | "weight_packed", "I32" | "U32") => packed(32),
            ("weight" | "weight_packed", "U8") => packed(8),
            ("scales" | "qzeros" | "g_idx", _) => 0,
            (name, _) if name.starts_with("weight_") || name.ends_with("_scale") || name.ends_with("_scale_2") => 0,
            _ if self.is_float() || self.is_integer_weight() => self.numbers(),
            _ => 0,
        }
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
    #[serde(deserialize_with = "dims")]
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Most dimensions of a tensor. PyTorch has at most 64.
const MAX_DIMS: usize = 64;

/// A shape, of which no more is kept than a tensor can have.
fn dims<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<u64>, D::Error> {
    struct Dims;

    impl<'de> Visitor<'de> for Dims {
        type Value = Vec<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of sizes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Vec<u64>, A::Error> {
            let mut dims = Vec::new();
            while let Some(size) = seq.next_element()? {
                if dims.len() == MAX_DIMS {
                    return Err(A::Error::custom(format!("it has more than {MAX_DIMS} dimensions")));
                }
                dims.push(size);
            }
            Ok(dims)
        }
    }

    deserializer.deserialize_seq(Dims)
}

/// Adds each entry of a header to the tensors.
struct Entries<'a>(&'a mut Headers);

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let wrong = |why: &str| A::Error::custom(format!("its tensor `{name}`{why}"));
            let entry: HeaderEntry = map.next_value().map_err(|error| wrong(&format!(": {error}")))?;
            let (from, to) = entry.data_offsets;
            let bytes = to.checked_sub(from).ok_or_else(|| wrong(" ends before it begins"))?;
            if self.0.tensors.len() == MAX_TENSORS {
                return Err(A::Error::custom(format!(
                    "the model has more than {MAX_TENSORS} tensors"
                )));
            }
            self.0.tensors.push(StoredTensor {
                name,
                dtype: entry.dtype,
                dims: entry.shape,
                bytes,
            });
        }
        Ok(())
    }
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
        let mut read = serde_json::Deserializer::from_slice(text);
        // One entry at a time: as values of JSON they would take twenty times the memory of the text.
        let added = read.deserialize_map(Entries(self)).and_then(|()| read.end());
        added.map_err(|error| unusable(&format!("its header is not JSON of tensors: {error}")))
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors
            .iter()
            .fold(0, |sum: u64, tensor| sum.saturating_add(tensor.bytes))
    }

    /// All weights, without scales, zero points and integer buffers. Where they are packed into integers, each has `bits`
    /// bits.
    pub fn parameters(&self, bits: u64) -> u64 {
        let weights = self.tensors.iter().map(|tensor| tensor.weights(bits));
        weights.fold(0, u64::saturating_add)
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
    fn buffers_and_scales_are_no_parameters() {
        let of = |name: &str, dtype: &str| StoredTensor {
            dtype: dtype.to_owned(),
            ..stored(name, &[10])
        };
        let mut headers = Headers {
            tensors: vec![
                of("wte.weight", "BF16"),
                of("h.0.weight", "F8_E4M3"),
                of("h.0.weight_scale", "F32"),
                of("h.0.bias", "U8"),
                of("position_ids", "I64"),
            ],
        };
        assert_eq!(headers.parameters(4), 20);
        assert!(!headers.has_integer_weights());
        headers.tensors.extend([
            of("h.1.qweight", "I32"),
            of("h.1.scales", "F16"),
            of("h.2.weight", "U8"),
        ]);
        assert_eq!(headers.parameters(4), 20 + 80 + 20);
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
}
