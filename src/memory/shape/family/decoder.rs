//! Decoders whose layers are one attention and one feed-forward part. The differences between families are data.

use super::common::Common;
use super::windows::Windows;
use crate::fault::Result;
use crate::memory::shape::parts::{Attention, Experts, FeedForward, QkNorm, SharedExpert, norms};
use crate::memory::shape::{Config, Layer};

/// Whether a family has a feature: always, never, or by a key of `config.json`.
#[derive(Clone, Copy)]
pub(super) enum Flag {
    No,
    Yes,
    /// The key and its default.
    Key(&'static str, bool),
}

impl Flag {
    fn read(self, config: &Config) -> Result<bool> {
        match self {
            Flag::No => Ok(false),
            Flag::Yes => Ok(true),
            Flag::Key(name, default) => config.flag(name, default),
        }
    }
}

/// The routed experts of a family, by their keys.
#[derive(Clone, Copy)]
pub(super) struct RoutedExperts {
    /// The number of experts.
    pub(super) count: &'static [&'static str],
    /// The size of one.
    pub(super) intermediate: &'static str,
    /// The size of the gated shared expert, if the family has one.
    pub(super) shared: Option<&'static str>,
    pub(super) bias: bool,
}

/// A family.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    /// Values of `model_type`.
    pub(super) names: &'static [&'static str],
    /// Whether the output matrix is the embedding by default.
    pub(super) tied: bool,
    pub(super) qkv_bias: Flag,
    pub(super) out_bias: Flag,
    pub(super) qk_norm: QkNorm,
    pub(super) sinks: bool,
    /// The default size of a head, if it is not its share of the hidden state.
    pub(super) head_dim: Option<u64>,
    pub(super) windows: Windows,
    /// Norms per layer.
    pub(super) norms: u64,
    /// LayerNorm with a bias.
    pub(super) norm_bias: bool,
    pub(super) gated: bool,
    pub(super) feed_forward_bias: Flag,
    /// The default intermediate size is four hidden states.
    pub(super) four_times_hidden: bool,
    pub(super) learned_positions: bool,
    pub(super) routed: Option<RoutedExperts>,
}

/// What most families have; rows of the table state the differences.
pub(super) const PLAIN: Decoder = Decoder {
    names: &[],
    tied: false,
    qkv_bias: Flag::No,
    out_bias: Flag::No,
    qk_norm: QkNorm::Absent,
    sinks: false,
    head_dim: None,
    windows: Windows::Never,
    norms: 2,
    norm_bias: false,
    gated: true,
    feed_forward_bias: Flag::No,
    four_times_hidden: false,
    learned_positions: false,
    routed: None,
};

impl Decoder {
    /// The layers, first to last.
    pub(super) fn layers(&self, config: &Config, common: &Common) -> Result<Vec<Layer>> {
        let windows = self.windows.of(config, common.layers)?;
        let attention = |window| {
            Ok(Attention {
                hidden: common.hidden,
                heads: common.heads,
                kv_heads: common.kv_heads(config)?,
                head_dim: common.head_dim(config, self.head_dim)?,
                qkv_bias: self.qkv_bias.read(config)?,
                out_bias: self.out_bias.read(config)?,
                qk_norm: self.qk_norm,
                sinks: self.sinks,
                gated: false,
                window,
            }
            .layer())
        };
        let dense_only = config.numbers("mlp_only_layers").unwrap_or_default();
        let step = config.optional(&["decoder_sparse_step"])?.unwrap_or(1);
        let routed = |layer: u64| {
            self.routed
                .filter(|_| (layer + 1).is_multiple_of(step) && !dense_only.contains(&layer))
        };
        let one = |(layer, window): (u64, Option<u64>)| {
            let mixer: Layer = attention(window)?;
            let forward = match routed(layer) {
                Some(routed) => experts(&routed, config, common.hidden)?,
                None => self.feed_forward(config, common.hidden)?,
            };
            Ok(mixer
                .with(forward)
                .with(norms(self.norms, common.hidden, self.norm_bias)))
        };
        (0..).zip(windows).map(one).collect()
    }

    fn feed_forward(&self, config: &Config, hidden: u64) -> Result<Layer> {
        let names = &["intermediate_size", "n_inner"];
        let intermediate = match config.optional(names)? {
            None if self.four_times_hidden => hidden * 4,
            None => config.number(names)?,
            Some(intermediate) => intermediate,
        };
        Ok(FeedForward {
            hidden,
            intermediate,
            gated: self.gated,
            bias: self.feed_forward_bias.read(config)?,
        }
        .layer())
    }
}

fn experts(routed: &RoutedExperts, config: &Config, hidden: u64) -> Result<Layer> {
    let shared = routed.shared.map(|name| {
        Ok(SharedExpert {
            intermediate: config.number(&[name])?,
            gated: true,
            bias: false,
        })
    });
    Ok(Experts {
        hidden,
        experts: config.number(routed.count)?,
        experts_per_token: config.number(&["num_experts_per_tok", "experts_per_token"])?,
        intermediate: config.number(&[routed.intermediate])?,
        bias: routed.bias,
        shared: shared.transpose()?,
    }
    .layer())
}
