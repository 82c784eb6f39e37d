//! Families of models: which parts their layers consist of.
//!
//! Most are rows of a table ([`decoders`]); those whose layers differ from one another in other ways have a file of their own.

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

/// The layers of a family, as its `config.json` describes them.
type Layers = fn(&Config, &Common) -> Result<Vec<Layer>>;

/// Families that are no row of the table: names, whether the output matrix is the embedding unless said otherwise, layers.
const OTHERS: &[(&[&str], bool, Layers)] = &[
    (&["bamba"], false, bamba::layers),
    (&["deepseek_v2", "deepseek_v3", "kimi_k2"], false, deepseek::layers),
    (&["falcon_h1"], false, falcon_h1::layers),
    (&["granitemoehybrid"], false, granite_hybrid::layers),
    (&["jamba"], false, jamba::layers),
    (&["llama4_text"], false, llama4::layers),
    (&["qwen3_next"], false, qwen3_next::layers),
];

/// Whether the family that a `config.json` names is one of these.
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
        "the family `{name}` is not known: which tensors its layers have, and what they keep of each token, cannot be told from `config.json`"
    ))
    .hint(format!(
        "the headers of its safetensors files would decide it: give a folder that has them; known are {}",
        known.join(", ")
    ))
}
