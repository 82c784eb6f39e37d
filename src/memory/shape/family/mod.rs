//! Model families: the parts of their layers.
//!
//! Most are rows of a table ([`decoders`]); families whose layers differ in other ways have a file of their own.

mod bamba;
mod common;
mod decoder;
mod decoders;
mod deepseek;
mod falcon_h1;
mod granite_hybrid;
mod jamba;
mod llama4;
mod qwen3_next;
mod windows;

use super::{Config, Layer, Shape};
use crate::fault::{Fault, Result};
use common::Common;

/// The layers of a family by its `config.json`.
type Layers = fn(&Config, &Common) -> Result<Vec<Layer>>;

/// Families outside the table: names, whether the output matrix is the embedding by default, layers.
const OTHERS: &[(&[&str], bool, Layers)] = &[
    (&["bamba"], false, bamba::layers),
    (&["deepseek_v2", "deepseek_v3", "kimi_k2"], false, deepseek::layers),
    (&["falcon_h1"], false, falcon_h1::layers),
    (&["granitemoehybrid"], false, granite_hybrid::layers),
    (&["jamba"], false, jamba::layers),
    (&["llama4_text"], false, llama4::layers),
    (&["qwen3_next"], false, qwen3_next::layers),
];

pub(super) fn is_known(config: &Config) -> bool {
    config.family().is_ok_and(|name| {
        decoders::ALL.iter().any(|decoder| decoder.names.contains(&name))
            || OTHERS.iter().any(|(names, ..)| names.contains(&name))
    })
}

/// The shape that a `config.json` describes.
pub(super) fn read(config: &Config) -> Result<Shape> {
    let name = config.family()?;
    if let Some(decoder) = decoders::ALL.iter().find(|decoder| decoder.names.contains(&name)) {
        let common = Common::read(config, decoder.tied)?;
        return Ok(common.shape(name, config, decoder.layers(config, &common)?, decoder));
    }
    let (_, tied, layers) = OTHERS
        .iter()
        .find(|(names, ..)| names.contains(&name))
        .ok_or_else(|| unknown(name))?;
    let common = Common::read(config, *tied)?;
    Ok(common.shape(name, config, layers(config, &common)?, &decoder::PLAIN))
}

fn unknown(name: &str) -> Fault {
    let known = decoders::ALL.iter().flat_map(|decoder| decoder.names);
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
