//! Falcon H1: attention and Mamba-2 side by side in every layer.

use super::bamba::{attention, mamba2};
use super::common::Common;
use crate::fault::Result;
use crate::memory::shape::parts::{FeedForward, Mamba2, norms};
use crate::memory::shape::{Config, Layer};

pub(super) fn layers(config: &Config, common: &Common) -> Result<Vec<Layer>> {
    let usual = mamba2(config, common)?;
    let mamba = Mamba2 {
        inner: config.optional(&["mamba_d_ssm"])?.unwrap_or(usual.inner),
        norm: config.flag("mamba_rms_norm", false)?,
        out_bias: config.flag("projectors_bias", false)?,
        ..usual
    };
    let forward = FeedForward {
        hidden: common.hidden,
        intermediate: config.number(&["intermediate_size"])?,
        gated: true,
        bias: config.flag("mlp_bias", false)?,
    };
    let layer = attention(config, common)?
        .with(mamba.layer())
        .with(forward.layer())
        .with(norms(2, common.hidden, false));
    Ok((0..common.layers).map(|_| layer.clone()).collect())
}
