//! Formats of quantized weights, by name or by `config.json`: bytes of a matrix including scales and zero points.

use serde_json::Value;

use crate::fault::{Fault, Result};
use crate::memory::shape::{Config, Dtype, Role, Tensor};

/// The scales of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scales {
    /// Per tile of outputs (`rows`) and inputs (`columns`): bytes of the scale and bits of the zero point. In addition,
    /// `index` bytes per input.
    Tiles {
        rows: u64,
        columns: u64,
        scale: u64,
        zero_bits: u64,
        index: u64,
    },
    /// An absolute maximum per [`BLOCK`] weights, itself quantized if `nested`.
    Bitsandbytes { nested: bool },
}

/// A tile as high or as wide as the matrix.
const WHOLE: u64 = u64::MAX;

/// Tiles of `rows` outputs and `columns` inputs with a scale of `scale` bytes.
const fn tiles(rows: u64, columns: u64, scale: u64) -> Scales {
    Scales::Tiles {
        rows,
        columns,
        scale,
        zero_bits: 0,
        index: 0,
    }
}

/// Groups along the inputs of one output.
const fn groups(size: u64, scale: u64, zero_bits: u64, index: u64) -> Scales {
    Scales::Tiles {
        rows: 1,
        columns: size,
        scale,
        zero_bits,
        index,
    }
}

/// The tensors that a format quantizes. Vectors never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Targets {
    /// The matrices of the layers including experts, but not embedding, output matrix and routers.
    Layers,
    /// Only the routed experts.
    Experts,
    /// Every matrix.
    All,
}

/// A format of weights.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scheme {
    /// The name for people.
    pub(super) name: String,
    bits: u64,
    scales: Scales,
    targets: Targets,
}

/// Weights per scale in bitsandbytes.
const BLOCK: u64 = 64;
/// Scales per second-level scale in bitsandbytes' nested quantization.
const NESTED_BLOCK: u64 = 256;
/// bitsandbytes keeps two code tables per matrix (16 and 256 float32) and one offset.
const NESTED_TABLES: u64 = 16 * 4 + 256 * 4 + 4;

impl Scheme {
    /// Bytes of a tensor in this format; in `dtype` if it is not quantized.
    pub(super) fn bytes(&self, tensor: &Tensor, dtype: Dtype) -> u64 {
        if !self.quantizes(tensor.role) {
            return dtype.bytes(tensor.parameters());
        }
        let numbers = tensor.rows.saturating_mul(tensor.columns);
        let blocks = numbers.div_ceil(BLOCK);
        let scales = match self.scales {
            Scales::Tiles {
                rows,
                columns,
                scale,
                zero_bits,
                index,
            } => {
                let across = tensor.columns.div_ceil(columns);
                let tiles = tensor.rows.div_ceil(rows).saturating_mul(across);
                let indices = tensor.columns.saturating_mul(index);
                let scales = tiles.saturating_mul(scale).saturating_add(bits(tiles, zero_bits));
                scales.saturating_add(indices)
            }
            Scales::Bitsandbytes { nested: true } => blocks + blocks.div_ceil(NESTED_BLOCK) * 4 + NESTED_TABLES,
            Scales::Bitsandbytes { nested: false } => blocks.saturating_mul(4).saturating_add(16 * 4),
        };
        let weights = bits(numbers, self.bits);
        weights.saturating_add(scales).saturating_mul(tensor.copies)
    }

    fn quantizes(&self, role: Role) -> bool {
        match (self.targets, role) {
            (_, Role::Vector) => false,
            (Targets::All, _) | (Targets::Layers, Role::Linear | Role::Expert) | (Targets::Experts, Role::Expert) => {
                true
            }
            (Targets::Layers | Targets::Experts, _) => false,
        }
    }
}

fn bits(numbers: u64, bits: u64) -> u64 {
    let bytes = (u128::from(numbers) * u128::from(bits)).div_ceil(8);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The default group size, which nearly all AWQ and GPTQ models have.
const GROUP: u64 = 128;

/// Formats by name: bits per weight, scales, quantized tensors.
const FORMATS: &[(&[&str], u64, Scales, Targets)] = &[
    (&["awq", "awq_marlin"], 4, groups(GROUP, 2, 4, 0), Targets::Layers),
    (&["gptq", "gptq_marlin"], 4, groups(GROUP, 2, 4, 4), Targets::Layers),
    (&["fp8"], 8, tiles(WHOLE, WHOLE, 4), Targets::Layers),
    (&["fp8_channel", "ptpc_fp8"], 8, tiles(1, WHOLE, 4), Targets::Layers),
    (&["fp8_block"], 8, tiles(128, 128, 4), Targets::Layers),
    (&["int8", "w8a8"], 8, tiles(1, WHOLE, 4), Targets::Layers),
    (
        &["nf4", "bitsandbytes"],
        4,
        Scales::Bitsandbytes { nested: true },
        Targets::Layers,
    ),
    (
        &["nf4_single"],
        4,
        Scales::Bitsandbytes { nested: false },
        Targets::Layers,
    ),
    (&["mxfp4"], 4, groups(32, 1, 0, 0), Targets::Experts),
    (&["nvfp4"], 4, groups(16, 1, 0, 0), Targets::Layers),
    // Uniform block types of GGUF: weights and additional bytes per block (llama.cpp, `ggml-common.h`).
    (&["q2_k"], 2, groups(256, 20, 0, 0), Targets::All),
    (&["q3_k"], 3, groups(256, 14, 0, 0), Targets::All),
    (&["q4_0"], 4, groups(32, 2, 0, 0), Targets::All),
    (&["q4_k"], 4, groups(256, 16, 0, 0), Targets::All),
    (&["q5_0"], 5, groups(32, 2, 0, 0), Targets::All),
    (&["q5_k"], 5, groups(256, 16, 0, 0), Targets::All),
    (&["q6_k"], 6, groups(256, 18, 0, 0), Targets::All),
    (&["q8_0"], 8, groups(32, 2, 0, 0), Targets::All),
];

/// The names for messages.
const NAMES: &str = "`none`, `awq`, `gptq`, `fp8` (one scale a matrix), `fp8_channel`, `fp8_block`, `int8`, `nf4`, `nf4_single`, `mxfp4`, `nvfp4`, \
                     and GGUF's `q2_k`, `q3_k`, `q4_0`, `q4_k`, `q5_0`, `q5_k`, `q6_k`, `q8_0`";

impl Scheme {
    /// The format with this name.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown name, and for a mixture of GGUF types (`q4_k_m`), whose size only the file determines.
    pub(super) fn from_name(name: &str) -> Result<Self> {
        let name = name.to_ascii_lowercase();
        let format = FORMATS.iter().find(|(names, ..)| names.contains(&name.as_str()));
        let &(_, bits, scales, targets) = format.ok_or_else(|| unknown_name(&name))?;
        Ok(Scheme {
            name,
            bits,
            scales,
            targets,
        })
    }
}

fn unknown_name(name: &str) -> Fault {
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

impl Scheme {
    /// The format that `config.json` states, if any.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown format.
    pub(super) fn from_config(config: &Config) -> Result<Option<Self>> {
        let Some(stated) = config.get(&["quantization_config"]) else {
            return Ok(None);
        };
        let method = stated["quant_method"].as_str().unwrap_or_default();
        let (bits, scales, targets) = match method {
            "awq" => (width(stated, "bits")?, grouped(stated, 0)?, Targets::Layers),
            "gptq" => (width(stated, "bits")?, grouped(stated, 4)?, Targets::Layers),
            "fp8" | "fbgemm_fp8" => (8, fp8(stated)?, Targets::Layers),
            "bitsandbytes" if stated["load_in_8bit"] == true => (8, tiles(1, WHOLE, 4), Targets::Layers),
            "bitsandbytes" => {
                let nested = stated["bnb_4bit_use_double_quant"] == true;
                (4, Scales::Bitsandbytes { nested }, Targets::Layers)
            }
            "mxfp4" => (4, groups(32, 1, 0, 0), Targets::Experts),
            "compressed-tensors" => compressed(stated)?,
            _ => return Err(unknown_method(method)),
        };
        Ok(Some(Self {
            name: method.to_owned(),
            bits,
            scales,
            targets,
        }))
    }
}

fn width(stated: &Value, key: &str) -> Result<u64> {
    let bits = stated[key].as_u64().filter(|bits| (1..=16).contains(bits));
    bits.ok_or_else(|| {
        Fault::usage(format!(
            "`config.json`: `quantization_config` does not say how many bits a weight has (`{key}`)"
        ))
    })
}

/// Groups with a 2-byte scale and a zero point as wide as a weight; -1 is one group per row.
fn grouped(stated: &Value, index: u64) -> Result<Scales> {
    let bits = width(stated, "bits")?;
    match stated["group_size"].as_i64() {
        None => Ok(groups(GROUP, 2, bits, index)),
        Some(-1) => Ok(groups(u64::MAX, 2, bits, index)),
        Some(size) => u64::try_from(size)
            .ok()
            .filter(|&size| size > 0)
            .map(|size| groups(size, 2, bits, index))
            .ok_or_else(|| Fault::usage(format!("`config.json`: `quantization_config` has groups of {size}"))),
    }
}

fn fp8(stated: &Value) -> Result<Scales> {
    let Some(tile) = stated["weight_block_size"].as_array() else {
        return Ok(match stated["quant_method"].as_str() {
            Some("fbgemm_fp8") => tiles(1, WHOLE, 4),
            _ => tiles(WHOLE, WHOLE, 4),
        });
    };
    match tile.iter().map(Value::as_u64).collect::<Vec<_>>()[..] {
        [Some(rows), Some(columns)] if rows > 0 && columns > 0 => Ok(tiles(rows, columns, 4)),
        _ => Err(Fault::usage(
            "`config.json`: `weight_block_size` of `quantization_config` is not two numbers above zero",
        )),
    }
}

/// The compressed-tensors format with a single group of modules. Several groups need the headers.
fn compressed(stated: &Value) -> Result<(u64, Scales, Targets)> {
    let configured = stated["config_groups"].as_object();
    let weights = configured
        .filter(|groups| groups.len() == 1)
        .and_then(|groups| groups.values().next())
        .map(|group| &group["weights"])
        .ok_or_else(|| unknown_method("compressed-tensors with several groups of modules"))?;
    let bits = width(weights, "num_bits")?;
    let zero = if weights["symmetric"] == false { bits } else { 0 };
    let scales = match weights["strategy"].as_str() {
        Some("tensor") => tiles(WHOLE, WHOLE, 4),
        Some("channel") => tiles(1, WHOLE, 2),
        Some("group") => {
            let size = weights["group_size"].as_u64().filter(|&size| size > 0).unwrap_or(GROUP);
            groups(size, 2, zero, 0)
        }
        Some("block") => tiles(128, 128, 4),
        _ => return Err(unknown_method("compressed-tensors with another strategy")),
    };
    Ok((bits, scales, Targets::Layers))
}

fn unknown_method(method: &str) -> Fault {
    Fault::usage(format!("`config.json` states the quantization `{method}`, which is not known here"))
        .hint("the headers of its safetensors files would decide it: give a folder that has them; or name a known one as `quantization`")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::memory::shape::Split;

    #[test]
    fn unknown_names_and_mixtures_are_refused() {
        assert!(Scheme::from_name("q4_k_m").unwrap_err().message.contains("mixture"));
        assert!(Scheme::from_name("int3").unwrap_err().hint.unwrap().contains("`awq`"));
    }

    fn matrix(role: Role) -> Tensor {
        Tensor {
            rows: 4096,
            columns: 1024,
            copies: 1,
            role,
            split: Split::Rows,
        }
    }

    #[test]
    fn scales_and_zero_points_are_counted() {
        let bytes = |name: &str| {
            let scheme = Scheme::from_name(name).unwrap();
            scheme.bytes(&matrix(Role::Expert), Dtype::Bfloat16)
        };
        let numbers = 4096 * 1024;
        let groups = 4096 * 1024 / 128;
        assert_eq!(bytes("awq"), numbers / 2 + groups * 2 + groups / 2);
        assert_eq!(bytes("gptq"), numbers / 2 + groups * 2 + groups / 2 + 1024 * 4);
        assert_eq!(bytes("fp8"), numbers + 4);
        assert_eq!(bytes("fp8_block"), numbers + 32 * 8 * 4);
        assert_eq!(bytes("mxfp4"), numbers / 2 + numbers / 32);
        assert_eq!(bytes("nvfp4"), numbers / 2 + numbers / 16);
        assert_eq!(bytes("int8"), numbers + 4096 * 4);
        let blocks = numbers / 64;
        assert_eq!(bytes("nf4"), numbers / 2 + blocks + blocks / 256 * 4 + 1092);
        // 144 bytes for 256 weights.
        assert_eq!(bytes("q4_k"), numbers / 256 * 144);
        assert_eq!(bytes("q6_k"), numbers / 256 * 210);
    }

    #[test]
    fn embeddings_and_routers_stay_as_they_are() {
        let awq = Scheme::from_name("awq").unwrap();
        for role in [Role::Embedding, Role::Head, Role::Router, Role::Vector] {
            assert_eq!(awq.bytes(&matrix(role), Dtype::Float16), 4096 * 1024 * 2);
        }
        let mxfp4 = Scheme::from_name("mxfp4").unwrap();
        assert_eq!(mxfp4.bytes(&matrix(Role::Linear), Dtype::Bfloat16), 4096 * 1024 * 2);
    }

    fn from_config(quantization: &Value) -> Result<Option<Scheme>> {
        Scheme::from_config(&Config::new(&json!({"quantization_config": quantization})).unwrap())
    }

    #[test]
    fn what_config_json_states_is_read() {
        let scales = |quantization: &Value| from_config(quantization).unwrap().unwrap().scales;
        assert_eq!(
            scales(&json!({"quant_method": "awq", "bits": 4, "group_size": 64})),
            groups(64, 2, 4, 0)
        );
        assert_eq!(
            scales(&json!({"quant_method": "fp8", "weight_block_size": [128, 64]})),
            tiles(128, 64, 4)
        );
        assert_eq!(scales(&json!({"quant_method": "fp8"})), tiles(WHOLE, WHOLE, 4));
        let group = json!({"weights": {"num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": true}});
        assert_eq!(
            scales(&json!({"quant_method": "compressed-tensors", "config_groups": {"group_0": group}})),
            groups(32, 2, 0, 0)
        );
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(
            from_config(&json!({"quant_method": "aqlm"}))
                .unwrap_err()
                .message
                .contains("`aqlm`")
        );
        assert!(
            from_config(&json!({"quant_method": "gptq"}))
                .unwrap_err()
                .message
                .contains("`bits`")
        );
        assert!(from_config(&json!({"quant_method": "gptq", "bits": 4, "group_size": 0})).is_err());
        assert!(
            Scheme::from_config(&Config::new(&json!({})).unwrap())
                .unwrap()
                .is_none()
        );
    }
}
