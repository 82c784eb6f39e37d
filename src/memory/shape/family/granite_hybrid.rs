//! Granite 4: Mamba-2 or attention by `layer_types`, a shared feed-forward part, and optional experts.

use super::bamba::{attention, mamba2};
use super::common::Common;
use crate::fault::{Fault, Result};
use crate::memory::shape::parts::{Experts, FeedForward, SharedExpert, norms};
use crate::memory::shape::{Config, Layer};

pub(super) fn layers(config: &Config, common: &Common) -> Result<Vec<Layer>> {
    let (attention, mamba) = (attention(config, common)?, mamba2(config, common)?.layer());
    let forward = forward(config, common.hidden)?.with(norms(2, common.hidden, false));
    let types = config
        .names("layer_types")
        .or_else(|| config.names("layers_block_type"))
        .unwrap_or_else(|| (0..common.layers).map(|_| "mamba").collect());
    if types.len() as u64 != common.layers {
        return Err(Fault::usage(
            "`config.json`: `layer_types` does not have an entry for each layer",
        ));
    }
    let one = |name: &&str| match *name {
        "attention" | "full_attention" => Ok(attention.clone().with(forward.clone())),
        "mamba" | "linear_attention" => Ok(mamba.clone().with(forward.clone())),
        other => Err(Fault::usage(format!(
            "`config.json`: the layer type `{other}` is not known here"
        ))),
    };
    types.iter().map(one).collect()
}

fn forward(config: &Config, hidden: u64) -> Result<Layer> {
    let intermediate = config.number(&["shared_intermediate_size"])?;
    let experts = config.number_or_zero("num_local_experts")?;
    if experts == 0 {
        return Ok(FeedForward {
            hidden,
            intermediate,
            gated: true,
            bias: false,
        }
        .layer());
    }
    Ok(Experts {
        hidden,
        experts,
        experts_per_token: config.number(&["num_experts_per_tok"])?,
        intermediate: config.number(&["intermediate_size"])?,
        bias: false,
        shared: Some(SharedExpert {
            intermediate,
            gated: false,
            bias: false,
        }),
    }
    .layer())
}
