//! Formats stated by the `quantization_config` of a model's `config.json`.

use serde_json::Value;

use super::named::{GROUP, groups};
use super::{Scales, Scheme, Targets};
use crate::fault::{Fault, Result};
use crate::memory::shape::Config;

impl Scheme {
    /// The format that `config.json` states, if any.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown format.
    pub(in crate::memory) fn from_config(config: &Config) -> Result<Option<Self>> {
        let Some(stated) = config.get(&["quantization_config"]) else {
            return Ok(None);
        };
        let method = stated["quant_method"].as_str().unwrap_or_default();
        let (bits, scales, targets) = match method {
            "awq" => (width(stated, "bits")?, grouped(stated, 0)?, Targets::Layers),
            "gptq" => (width(stated, "bits")?, grouped(stated, 4)?, Targets::Layers),
            "fp8" | "fbgemm_fp8" => (8, fp8(stated)?, Targets::Layers),
            "bitsandbytes" if stated["load_in_8bit"] == true => (8, Scales::PerChannel(4), Targets::Layers),
            "bitsandbytes" => {
                let nested = stated["bnb_4bit_use_double_quant"] == true;
                (4, Scales::Bitsandbytes { size: 64, nested }, Targets::Layers)
            }
            "mxfp4" => (4, groups(32, 1, 0, 0), Targets::Experts),
            "compressed-tensors" => compressed(stated)?,
            _ => return Err(unknown(method)),
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
            Some("fbgemm_fp8") => Scales::PerChannel(4),
            _ => Scales::PerTensor(4),
        });
    };
    match tile.iter().map(Value::as_u64).collect::<Vec<_>>()[..] {
        [Some(rows), Some(columns)] if rows > 0 && columns > 0 => Ok(Scales::WeightBlock { rows, columns }),
        _ => Err(Fault::usage(
            "`config.json`: `weight_block_size` of `quantization_config` is not two numbers above zero",
        )),
    }
}

/// compressed-tensors with a single group of modules. Several groups need the headers.
fn compressed(stated: &Value) -> Result<(u64, Scales, Targets)> {
    let configured = stated["config_groups"].as_object();
    let weights = configured
        .filter(|groups| groups.len() == 1)
        .and_then(|groups| groups.values().next())
        .map(|group| &group["weights"])
        .ok_or_else(|| unknown("compressed-tensors with several groups of modules"))?;
    let bits = width(weights, "num_bits")?;
    let zero = if weights["symmetric"] == false { bits } else { 0 };
    let scales = match weights["strategy"].as_str() {
        Some("tensor") => Scales::PerTensor(4),
        Some("channel") => Scales::PerChannel(2),
        Some("group") => {
            let size = weights["group_size"].as_u64().filter(|&size| size > 0).unwrap_or(GROUP);
            groups(size, 2, zero, 0)
        }
        Some("block") => Scales::WeightBlock {
            rows: 128,
            columns: 128,
        },
        _ => return Err(unknown("compressed-tensors with another strategy")),
    };
    Ok((bits, scales, Targets::Layers))
}

fn unknown(method: &str) -> Fault {
    Fault::usage(format!("`config.json` states the quantization `{method}`, which is not known here"))
        .hint("the headers of its safetensors files would decide it: give a folder that has them; or name a known one as `quantization`")
}

#[cfg(test)]
mod tests;
