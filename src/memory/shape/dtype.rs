//! Data types.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// The data type of stored elements, by size. Some pack elements in blocks with a scale (llama.cpp).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 4 bytes.
    Float32,
    /// 2 bytes.
    Float16,
    /// 2 bytes.
    Bfloat16,
    /// 1 byte, any variant.
    Fp8,
    /// 1 byte.
    Int8,
    /// llama.cpp: blocks of 32 elements with a 2-byte scale, 34 bytes.
    #[serde(rename = "q8_0")]
    Q8_0,
    /// llama.cpp: blocks of 32 elements in 4 bits with a 2-byte scale, 18 bytes.
    #[serde(rename = "q4_0")]
    Q4_0,
}

impl Dtype {
    const ALL: [(Dtype, &'static [&'static str]); 7] = [
        (Dtype::Float32, &["float32", "f32", "fp32", "float"]),
        (Dtype::Float16, &["float16", "f16", "fp16", "half"]),
        (Dtype::Bfloat16, &["bfloat16", "bf16"]),
        (
            Dtype::Fp8,
            &[
                "fp8",
                "fp8_e4m3",
                "fp8_e5m2",
                "float8_e4m3fn",
                "float8_e5m2",
                "fp8_e4m3fn",
            ],
        ),
        (Dtype::Int8, &["int8"]),
        (Dtype::Q8_0, &["q8_0"]),
        (Dtype::Q4_0, &["q4_0"]),
    ];

    /// Bytes of this many elements, rounded up to full blocks.
    pub fn bytes(self, numbers: u64) -> u64 {
        match self {
            Dtype::Float32 => numbers.saturating_mul(4),
            Dtype::Float16 | Dtype::Bfloat16 => numbers.saturating_mul(2),
            Dtype::Fp8 | Dtype::Int8 => numbers,
            Dtype::Q8_0 => numbers.div_ceil(32).saturating_mul(34),
            Dtype::Q4_0 => numbers.div_ceil(32).saturating_mul(18),
        }
    }
}

impl FromStr for Dtype {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self> {
        let wanted = text.trim_start_matches("torch.").to_ascii_lowercase();
        let known = Self::ALL.iter().find(|(_, names)| names.contains(&wanted.as_str()));
        known.map(|(dtype, _)| *dtype).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(_, names)| format!("`{}`", names[0])).collect();
            Fault::usage(format!("`{text}` is not a known data type")).hint(format!("one of {}", names.join(", ")))
        })
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::ALL.iter().find(|(dtype, _)| dtype == self);
        f.write_str(known.map_or("", |(_, names)| names[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_engines_write_them() {
        assert_eq!("torch.bfloat16".parse::<Dtype>().unwrap(), Dtype::Bfloat16);
        assert_eq!("fp8_e5m2".parse::<Dtype>().unwrap(), Dtype::Fp8);
        assert!("nf3".parse::<Dtype>().unwrap_err().hint.unwrap().contains("`float16`"));
        assert_eq!(Dtype::Q8_0.to_string(), "q8_0");
        assert_eq!((Dtype::Q8_0.bytes(64), Dtype::Q4_0.bytes(33)), (68, 36));
    }
}
