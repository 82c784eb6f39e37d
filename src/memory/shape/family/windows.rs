//! Which layers use sliding-window attention.

use crate::fault::{Fault, Result};
use crate::memory::shape::Config;

/// A family's rule if `layer_types` is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// Every layer keeps every token.
    Never,
    /// Every layer has the window, if there is one.
    Always,
    /// All layers but every n-th; `sliding_window_pattern` may override n.
    AllButEvery(u64),
    /// Qwen: only with `use_sliding_window`, and from `max_window_layers` on.
    FromLayer,
}

impl Windows {
    /// The window of each layer.
    pub(super) fn of(self, config: &Config, layers: u64) -> Result<Vec<Option<u64>>> {
        if self == Windows::Never && config.get(&["layer_types"]).is_none() {
            return Ok(vec![None; size(layers)]);
        }
        let window = config.optional(&["sliding_window", "attention_chunk_size"])?;
        if self == Windows::FromLayer && !config.flag("use_sliding_window", false)? {
            return Ok(vec![None; size(layers)]);
        }
        if let Some(types) = config.names("layer_types") {
            return named(&types, window, layers);
        }
        let first = match self {
            Windows::FromLayer => config.number_or_zero("max_window_layers")?,
            _ => 0,
        };
        let every = match self {
            Windows::AllButEvery(every) => Some(config.optional(&["sliding_window_pattern"])?.unwrap_or(every)),
            _ => None,
        };
        let slides = |layer: u64| match self {
            Windows::Never => false,
            Windows::Always => true,
            Windows::AllButEvery(_) => every.is_some_and(|every| !(layer + 1).is_multiple_of(every)),
            Windows::FromLayer => layer >= first,
        };
        Ok((0..layers).map(|layer| window.filter(|_| slides(layer))).collect())
    }
}

fn named(types: &[&str], window: Option<u64>, layers: u64) -> Result<Vec<Option<u64>>> {
    if types.len() != size(layers) {
        return Err(Fault::usage(format!(
            "`config.json`: `layer_types` has {} entries for {layers} layers",
            types.len()
        )));
    }
    let one = |name: &&str| match *name {
        "full_attention" => Ok(None),
        "sliding_attention" | "chunked_attention" => window
            .map(Some)
            .ok_or_else(|| Fault::usage(format!("`config.json` has layers of `{name}` and no `sliding_window`"))),
        other => Err(Fault::usage(format!(
            "`config.json`: the layer type `{other}` is not known here"
        ))),
    };
    types.iter().map(one).collect()
}

/// [`Config::layers`] keeps this small.
fn size(layers: u64) -> usize {
    usize::try_from(layers).unwrap_or(usize::MAX)
}
