//! Formats of quantized weights, by name or as a model's files state them: bytes of a matrix including scales and zero
//! points, for the matrices that the files do not exclude.

use std::collections::BTreeMap;

use serde_json::Value;

use super::modules::Modules;
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
    /// Only modules that are named.
    Named,
}

/// How the weights of a matrix are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Format {
    bits: u64,
    scales: Scales,
}

/// How the weights of a model are stored.
#[derive(Clone, Debug)]
pub(super) struct Quantization {
    /// The name for people.
    pub(super) name: String,
    /// The type of the KV cache that the files were made for, if they say one.
    pub(super) kv_cache: Option<Dtype>,
    format: Format,
    targets: Targets,
    /// Modules with formats of their own.
    own: Vec<(Modules, Format)>,
    /// Modules that stay as they are.
    excluded: Modules,
}

/// Weights per scale in bitsandbytes.
const BLOCK: u64 = 64;
/// Scales per second-level scale in bitsandbytes' nested quantization.
const NESTED_BLOCK: u64 = 256;
/// bitsandbytes keeps two code tables per matrix (16 and 256 float32) and one offset.
const NESTED_TABLES: u64 = 16 * 4 + 256 * 4 + 4;

impl Format {
    /// Bytes of a tensor in this format.
    fn bytes(self, tensor: &Tensor) -> u64 {
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
}

impl Quantization {
    fn new(name: &str, (bits, scales): (u64, Scales), targets: Targets) -> Self {
        Self {
            name: name.to_owned(),
            kv_cache: None,
            format: Format { bits, scales },
            targets,
            own: Vec::new(),
            excluded: Modules::default(),
        }
    }

    /// Bytes of a tensor of a layer, or of one outside of the layers; in `dtype` if it is not quantized.
    pub(super) fn bytes(&self, layer: Option<u64>, tensor: &Tensor, dtype: Dtype) -> u64 {
        match self.format_of(layer, tensor) {
            Some(format) => format.bytes(tensor),
            None => dtype.bytes(tensor.parameters()),
        }
    }

    fn format_of(&self, layer: Option<u64>, tensor: &Tensor) -> Option<Format> {
        if tensor.role == Role::Vector {
            return None;
        }
        let own = self.own.iter().find(|(modules, _)| modules.have(layer, tensor.modules));
        if let Some((_, format)) = own {
            return Some(*format);
        }
        let targeted = match (self.targets, tensor.role) {
            (Targets::All, _) | (Targets::Layers, Role::Linear | Role::Expert) | (Targets::Experts, Role::Expert) => {
                true
            }
            (Targets::Layers | Targets::Experts | Targets::Named, _) => false,
        };
        (targeted && !self.excluded.have(layer, tensor.modules)).then_some(self.format)
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

impl Quantization {
    /// The format with this name.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown name, and for a mixture of GGUF types (`q4_k_m`), whose size only the file determines.
    pub(super) fn from_name(name: &str) -> Result<Self> {
        let name = name.to_ascii_lowercase();
        let format = FORMATS.iter().find(|(names, ..)| names.contains(&name.as_str()));
        let &(_, bits, scales, targets) = format.ok_or_else(|| unknown_name(&name))?;
        Ok(Self::new(&name, (bits, scales), targets))
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

impl Quantization {
    /// The format that `config.json` states, or else `hf_quant_config.json`; `None` if neither does.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown format.
    pub(super) fn stated(config: &Config, separate: Option<&Value>) -> Result<Option<Self>> {
        let within = config.get(&["quantization_config", "compression_config"]);
        let separate = separate.map(|file| file.get("quantization").unwrap_or(file));
        let Some(stated) = within
            .or(separate)
            .filter(|stated| stated.as_object().is_some_and(|map| !map.is_empty()))
        else {
            return Ok(None);
        };
        let method = stated["quant_method"].as_str().unwrap_or_default().to_ascii_lowercase();
        let name = match method.as_str() {
            "" => stated["quant_algo"].as_str().unwrap_or_default().to_ascii_lowercase(),
            method => method.to_owned(),
        };
        let layers = |format| Ok((format, Targets::Layers));
        let base: Result<((u64, Scales), Targets)> = match method.as_str() {
            "awq" | "awq_marlin" => layers((width(stated, &["bits", "w_bit"])?, grouped(stated, 0)?)),
            "gptq" | "gptq_marlin" | "auto-round" | "auto_round" | "intel/auto-round" => {
                layers((width(stated, &["bits"])?, grouped(stated, 4)?))
            }
            "fp8" | "fbgemm_fp8" => layers((8, fp8(stated)?)),
            "mxfp8" => layers((8, groups(32, 1, 0, 0))),
            "bitsandbytes" if stated["load_in_8bit"] == true => layers((8, tiles(1, WHOLE, 4))),
            "bitsandbytes" => {
                let nested = stated["bnb_4bit_use_double_quant"] == true;
                layers((4, Scales::Bitsandbytes { nested }))
            }
            "mxfp4" | "gpt_oss_mxfp4" => Ok(((4, groups(32, 1, 0, 0)), Targets::Experts)),
            "compressed-tensors" => Ok((UNUSED, Targets::Named)),
            "" | "modelopt" | "modelopt_fp4" | "modelopt_mixed" | "modelopt_mxfp8" => optimizer(stated),
            _ => Err(unknown_method(&method)),
        };
        let (format, targets) = base?;
        let mut quantization = Self::new(&name, format, targets);
        quantization.kv_cache = kv_cache(stated)?;
        if method == "compressed-tensors" {
            quantization.add_groups(stated)?;
        }
        if let Some(layers) = stated["quantized_layers"].as_object() {
            quantization.add_layers(layers)?;
        }
        let expert = config.get(&["expert_dtype"]).or(stated.get("expert_dtype"));
        if expert.is_some_and(|dtype| dtype == "fp4") {
            quantization.own.push((
                Modules::new(["experts"])?,
                Format {
                    bits: 4,
                    scales: groups(32, 1, 0, 0),
                },
            ));
        }
        // A mixture that is laid over FP8 weights names what stays FP8.
        let mixed_over = method == "fp8" && stated["quantized_layers"].is_object();
        if !mixed_over {
            let lists = [
                "modules_to_not_convert",
                "ignored_layers",
                "ignore",
                "exclude_modules",
                "llm_int8_skip_modules",
            ];
            let names = lists.iter().filter_map(|list| stated[*list].as_array()).flatten();
            quantization.excluded = Modules::new(names.filter_map(Value::as_str))?;
        }
        Ok(Some(quantization))
    }

    /// compressed-tensors: each group has its own format and targets.
    fn add_groups(&mut self, stated: &Value) -> Result<()> {
        let groups = stated["config_groups"].as_object().filter(|groups| !groups.is_empty());
        for group in groups
            .ok_or_else(|| unknown_method("compressed-tensors without groups"))?
            .values()
        {
            let format = compressed(&group["weights"])?;
            let targets = group["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
            let targets: Vec<&str> = targets.iter().filter_map(Value::as_str).collect();
            if targets.contains(&"Linear") || targets.is_empty() {
                (self.format, self.targets) = (format, Targets::Layers);
            } else {
                self.own.push((Modules::new(targets)?, format));
            }
        }
        Ok(())
    }

    /// A mixture: each layer has the algorithm that is listed for it.
    fn add_layers(&mut self, layers: &serde_json::Map<String, Value>) -> Result<()> {
        let mut algorithms: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, layer) in layers {
            let algorithm = layer["quant_algo"].as_str().unwrap_or_default();
            algorithms.entry(algorithm).or_default().push(name);
        }
        for (algorithm, names) in algorithms {
            let (bits, scales) = algorithm_format(algorithm, None)?;
            self.own.push((Modules::new(names)?, Format { bits, scales }));
        }
        Ok(())
    }
}

/// A format that no tensor has.
const UNUSED: (u64, Scales) = (16, tiles(WHOLE, WHOLE, 0));

/// NVIDIA's Model Optimizer: an algorithm for all layers, or a mixture that lists them.
fn optimizer(stated: &Value) -> Result<((u64, Scales), Targets)> {
    let algorithm = stated["quant_algo"].as_str();
    match algorithm {
        Some("MIXED_PRECISION") if stated["quantized_layers"].is_object() => Ok((UNUSED, Targets::Named)),
        Some(algorithm) => Ok((
            algorithm_format(algorithm, stated["group_size"].as_u64())?,
            Targets::Layers,
        )),
        // Only the KV cache is quantized.
        None if !stated["kv_cache_quant_algo"].is_null() => Ok((UNUSED, Targets::Named)),
        None => Err(unknown_method("modelopt without an algorithm")),
    }
}

fn algorithm_format(algorithm: &str, group: Option<u64>) -> Result<(u64, Scales)> {
    let size = |usual: u64| group.filter(|&size| size > 0).unwrap_or(usual);
    Ok(match algorithm {
        "FP8" => (8, tiles(WHOLE, WHOLE, 4)),
        "FP8_PER_CHANNEL_PER_TOKEN" => (8, tiles(1, WHOLE, 4)),
        "FP8_PB_WO" | "FP8_BLOCK_SCALES" | "FP8_BLOCK" => (8, tiles(128, 128, 4)),
        "MXFP8" => (8, groups(32, 1, 0, 0)),
        "NVFP4" | "W4A16_NVFP4" | "NVFP4_AWQ" | "W4A8_NVFP4_FP8" => (4, groups(size(16), 1, 0, 0)),
        "MXFP4" | "W4A8_MXFP4_FP8" | "W4A16_MXFP4" => (4, groups(32, 1, 0, 0)),
        "W4A16_AWQ" | "INT4_AWQ" | "W4A8_AWQ" => (4, groups(size(GROUP), 2, 0, 0)),
        "W8A16" | "W8A8_SQ_PER_CHANNEL" | "INT8_SQ" => (8, tiles(1, WHOLE, 4)),
        other => return Err(unknown_method(other)),
    })
}

/// The type of the KV cache that a checkpoint was made for.
fn kv_cache(stated: &Value) -> Result<Option<Dtype>> {
    let scheme = &stated["kv_cache_scheme"];
    if let Some(bits) = scheme["num_bits"].as_u64() {
        return match (bits, scheme["type"].as_str()) {
            (8, Some("int")) => Ok(Some(Dtype::Int8)),
            (8, _) => Ok(Some(Dtype::Fp8)),
            (4, Some("float")) => Ok(Some(Dtype::Nvfp4)),
            (bits, _) => Err(unknown_method(&format!("kv_cache_scheme of {bits} bits"))),
        };
    }
    match stated["kv_cache_quant_algo"].as_str().or(scheme.as_str()) {
        None | Some("none" | "NONE" | "auto") => Ok(None),
        Some("FP8" | "fp8" | "FP8_AFFINE") => Ok(Some(Dtype::Fp8)),
        Some("NVFP4" | "nvfp4" | "NVFP4_AFFINE") => Ok(Some(Dtype::Nvfp4)),
        Some("INT8" | "int8") => Ok(Some(Dtype::Int8)),
        Some(other) => Err(unknown_method(&format!("{other} of the KV cache"))),
    }
}

fn width(stated: &Value, keys: &[&str]) -> Result<u64> {
    let bits = keys
        .iter()
        .find_map(|key| stated[*key].as_u64())
        .filter(|bits| (1..=16).contains(bits));
    bits.ok_or_else(|| {
        Fault::usage(format!(
            "`config.json`: `quantization_config` does not say how many bits a weight has (`{}`)",
            keys[0]
        ))
    })
}

/// Groups with a 2-byte scale and a zero point as wide as a weight; -1 is one group per row.
fn grouped(stated: &Value, index: u64) -> Result<Scales> {
    let bits = width(stated, &["bits", "w_bit"])?;
    let size = stated.get("group_size").or(stated.get("q_group_size"));
    match size.and_then(Value::as_i64) {
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

/// The weights of a group in the compressed-tensors format.
fn compressed(weights: &Value) -> Result<Format> {
    let bits = width(weights, &["num_bits"])?;
    let zero = if weights["symmetric"] == false { bits } else { 0 };
    let size = weights["group_size"].as_u64().filter(|&size| size > 0);
    let float = weights["type"] == "float";
    let scales = match weights["strategy"].as_str() {
        Some("tensor") => tiles(WHOLE, WHOLE, 4),
        Some("channel") => tiles(1, WHOLE, 2),
        // MXFP4 and NVFP4 have scales of one byte.
        Some("group" | "tensor_group") | None if float && bits == 4 => groups(size.unwrap_or(16), 1, 0, 0),
        Some("group") => groups(size.unwrap_or(GROUP), 2, zero, 0),
        Some("block") => match weights["block_structure"].as_array().map(Vec::as_slice) {
            Some([rows, columns]) if rows.as_u64() > Some(0) && columns.as_u64() > Some(0) => {
                tiles(rows.as_u64().unwrap_or(128), columns.as_u64().unwrap_or(128), 4)
            }
            _ => tiles(128, 128, 4),
        },
        _ => return Err(unknown_method("compressed-tensors with another strategy")),
    };
    Ok(Format { bits, scales })
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
        assert!(
            Quantization::from_name("q4_k_m")
                .unwrap_err()
                .message
                .contains("mixture")
        );
        assert!(
            Quantization::from_name("int3")
                .unwrap_err()
                .hint
                .unwrap()
                .contains("`awq`")
        );
    }

    fn matrix(role: Role) -> Tensor {
        Tensor {
            rows: 4096,
            columns: 1024,
            copies: 1,
            role,
            split: Split::Rows,
            modules: &["mlp.experts.up_proj", "mlp.up_proj"],
        }
    }

    #[test]
    fn scales_and_zero_points_are_counted() {
        let bytes = |name: &str| {
            let scheme = Quantization::from_name(name).unwrap();
            scheme.bytes(Some(0), &matrix(Role::Expert), Dtype::Bfloat16)
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
        let awq = Quantization::from_name("awq").unwrap();
        for role in [Role::Embedding, Role::Head, Role::Router, Role::Vector] {
            assert_eq!(awq.bytes(Some(0), &matrix(role), Dtype::Float16), 4096 * 1024 * 2);
        }
        let mxfp4 = Quantization::from_name("mxfp4").unwrap();
        assert_eq!(
            mxfp4.bytes(Some(0), &matrix(Role::Linear), Dtype::Bfloat16),
            4096 * 1024 * 2
        );
    }

    fn from_config(quantization: &Value) -> Result<Option<Quantization>> {
        Quantization::stated(
            &Config::new(&json!({"quantization_config": quantization})).unwrap(),
            None,
        )
    }

    #[test]
    fn what_config_json_states_is_read() {
        let scales = |quantization: &Value| from_config(quantization).unwrap().unwrap().format.scales;
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
            Quantization::stated(&Config::new(&json!({})).unwrap(), None)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn kv_types_and_mixtures_are_read() {
        let stated = |quantization: &Value| from_config(quantization).unwrap().unwrap();
        let scheme = json!({"num_bits": 8, "type": "float"});
        let fp8 = stated(&json!({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": scheme}));
        assert_eq!(fp8.kv_cache, Some(Dtype::Fp8));
        let mixed = stated(
            &json!({"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "NVFP4", "quantized_layers": {
                "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4"},
            }}),
        );
        assert_eq!(mixed.kv_cache, Some(Dtype::Nvfp4));
        let numbers = 4096 * 1024;
        assert_eq!(
            mixed.bytes(Some(0), &matrix(Role::Linear), Dtype::Bfloat16),
            numbers / 2 + numbers / 16
        );
        assert_eq!(
            mixed.bytes(Some(1), &matrix(Role::Linear), Dtype::Bfloat16),
            numbers * 2
        );
        let separate = json!({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}});
        let plain = Config::new(&json!({})).unwrap();
        assert!(Quantization::stated(&plain, Some(&separate)).unwrap().is_some());
    }
}
