//! Model families: the parts of their layers.
//!
//! Most are rows of a table ([`decoder`]); families whose layers differ from one another are functions ([`mixed`]).

mod common;
mod decoder;
mod mixed;

use self::common::Common;
use super::config::Config;
use super::model::{Layer, Shape};
use crate::fault::{Fault, Result};

/// The layers of a family by its `config.json`.
type Layers = fn(&Config, &Common) -> Result<Vec<Layer>>;

/// Families outside the table: names, whether the output matrix is the embedding by default, layers.
const OTHERS: &[(&[&str], bool, Layers)] = &[
    (&["bamba"], false, mixed::bamba),
    (&["deepseek_v2", "deepseek_v3", "kimi_k2"], false, mixed::deepseek),
    (&["falcon_h1"], false, mixed::falcon_h1),
    (&["granitemoehybrid"], false, mixed::granite_hybrid),
    (&["jamba"], false, mixed::jamba),
    (&["llama4_text"], false, mixed::llama4),
    (&["qwen3_next"], false, mixed::qwen3_next),
];

pub(super) fn is_known(config: &Config) -> bool {
    config.family().is_ok_and(|name| {
        decoder::ALL.iter().any(|decoder| decoder.names.contains(&name))
            || OTHERS.iter().any(|(names, ..)| names.contains(&name))
    })
}

/// The shape that a `config.json` describes.
pub(super) fn read(config: &Config) -> Result<Shape> {
    let name = config.family()?;
    if let Some(decoder) = decoder::ALL.iter().find(|decoder| decoder.names.contains(&name)) {
        let common = Common::read(config, decoder.tied)?;
        return Ok(common.shape(
            name,
            config,
            decoder.layers(config, &common)?,
            decoder.learned_positions,
            decoder.norm_bias,
        ));
    }
    let (_, tied, layers) = OTHERS
        .iter()
        .find(|(names, ..)| names.contains(&name))
        .ok_or_else(|| unknown(name))?;
    let common = Common::read(config, *tied)?;
    Ok(common.shape(name, config, layers(config, &common)?, false, false))
}

fn unknown(name: &str) -> Fault {
    let known = decoder::ALL.iter().flat_map(|decoder| decoder.names);
    let mut known: Vec<&str> = known
        .chain(OTHERS.iter().flat_map(|(names, ..)| *names))
        .copied()
        .collect();
    known.sort_unstable();
    Fault::usage(format!(
        "the family `{name}` is not known: its tensors and its KV cache per token cannot be derived from `config.json`"
    ))
    .hint(format!(
        "the headers of its safetensors files would decide it: give a folder that has them; known are {}",
        known.join(", ")
    ))
}
