//! Formats by the names that people and engines use.

use super::{Scales, Scheme, Targets};
use crate::fault::{Fault, Result};

/// The default group size, which nearly all AWQ and GPTQ models have.
pub(super) const GROUP: u64 = 128;

/// Uniform block types of GGUF: name, weights per block, bits per weight, further bytes per block (llama.cpp,
/// `ggml-common.h`).
const GGUF: [(&str, u64, u64, u64); 8] = [
    ("q2_k", 256, 2, 20),
    ("q3_k", 256, 3, 14),
    ("q4_0", 32, 4, 2),
    ("q4_k", 256, 4, 16),
    ("q5_0", 32, 5, 2),
    ("q5_k", 256, 5, 16),
    ("q6_k", 256, 6, 18),
    ("q8_0", 32, 8, 2),
];

/// For messages.
const NAMES: &str = "`none`, `awq`, `gptq`, `fp8` (one scale a matrix), `fp8_channel`, `fp8_block`, `int8`, `nf4`, `nf4_single`, `mxfp4`, `nvfp4`, \
                     and GGUF's `q2_k`, `q3_k`, `q4_0`, `q4_k`, `q5_0`, `q5_k`, `q6_k`, `q8_0`";

impl Scheme {
    /// The format with this name.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown name, and for a mixture of GGUF types (`q4_k_m`), whose size only the file tells.
    pub(in crate::memory) fn from_name(name: &str) -> Result<Self> {
        let name = name.to_ascii_lowercase();
        let made = |bits, scales, targets| {
            Ok(Scheme {
                name: name.clone(),
                bits,
                scales,
                targets,
            })
        };
        match name.as_str() {
            "awq" | "awq_marlin" => made(4, groups(GROUP, 2, 4, 0), Targets::Layers),
            "gptq" | "gptq_marlin" => made(4, groups(GROUP, 2, 4, 4), Targets::Layers),
            "fp8" => made(8, Scales::PerTensor(4), Targets::Layers),
            "fp8_channel" | "ptpc_fp8" => made(8, Scales::PerChannel(4), Targets::Layers),
            "fp8_block" => made(
                8,
                Scales::WeightBlock {
                    rows: 128,
                    columns: 128,
                },
                Targets::Layers,
            ),
            "int8" | "w8a8" => made(8, Scales::PerChannel(4), Targets::Layers),
            "nf4" | "bitsandbytes" => made(4, Scales::Bitsandbytes { size: 64, nested: true }, Targets::Layers),
            "nf4_single" => made(
                4,
                Scales::Bitsandbytes {
                    size: 64,
                    nested: false,
                },
                Targets::Layers,
            ),
            "mxfp4" => made(4, groups(32, 1, 0, 0), Targets::Experts),
            "nvfp4" => made(4, groups(16, 1, 0, 0), Targets::Layers),
            other => match GGUF.iter().find(|(known, ..)| *known == other) {
                Some(&(_, size, bits, scale)) => made(bits, groups(size, scale, 0, 0), Targets::All),
                None => Err(unknown(&name)),
            },
        }
    }
}

/// Groups along the inputs.
pub(super) fn groups(size: u64, scale: u64, zero_bits: u64, index: u64) -> Scales {
    Scales::Group {
        size,
        scale,
        zero_bits,
        index,
    }
}

fn unknown(name: &str) -> Fault {
    let mixture = name.starts_with('q') && (name.ends_with("_m") || name.ends_with("_s") || name.ends_with("_l"));
    if mixture {
        return Fault::usage(format!(
            "`{name}` is a mixture of block types that differs from model to model: only its GGUF file tells its size"
        ))
        .hint(
            "put the GGUF file into the model's folder, beside `config.json`, or name a uniform type such as `q4_k`",
        );
    }
    Fault::usage(format!("the quantization `{name}` is not known")).hint(format!("known are {NAMES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_and_mixtures_are_refused() {
        assert!(Scheme::from_name("q4_k_m").unwrap_err().message.contains("mixture"));
        assert!(Scheme::from_name("int3").unwrap_err().hint.unwrap().contains("`awq`"));
    }
}
