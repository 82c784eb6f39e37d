//! Decoders whose layers are one attention and one feed-forward part. The differences between families are data: each
//! row of the table was checked against transformers' parameter count (`tests/data/shapes/`).

use super::common::Common;
use crate::fault::{Fault, Result};
use crate::memory::shape::config::Config;
use crate::memory::shape::model::Layer;
use crate::memory::shape::parts::{Attention, Experts, FeedForward, QkNorm, SharedExpert, norms};

/// Whether a family has a feature: always, never, or by a key of `config.json`.
#[derive(Clone, Copy)]
enum Flag {
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
struct RoutedExperts {
    /// The number of experts.
    count: &'static [&'static str],
    /// The size of one.
    intermediate: &'static str,
    /// The size of the gated shared expert, if the family has one.
    shared: Option<&'static str>,
    bias: bool,
}

/// A family.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    /// Values of `model_type`.
    pub(super) names: &'static [&'static str],
    /// Whether the output matrix is the embedding by default.
    pub(super) tied: bool,
    qkv_bias: Flag,
    out_bias: Flag,
    qk_norm: QkNorm,
    sinks: bool,
    /// The default size of a head, if it is not its share of the hidden state.
    head_dim: Option<u64>,
    windows: Windows,
    /// Norms per layer.
    norms: u64,
    /// LayerNorm with a bias.
    pub(super) norm_bias: bool,
    gated: bool,
    feed_forward_bias: Flag,
    /// The default intermediate size is four hidden states.
    four_times_hidden: bool,
    pub(super) learned_positions: bool,
    routed: Option<RoutedExperts>,
}

/// What most families have; rows of the table state the differences.
const PLAIN: Decoder = Decoder {
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
        let windows = self.windows.per_layer(config, common.layers)?;
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

/// A family's rule if `layer_types` is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Windows {
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
    fn per_layer(self, config: &Config, layers: u64) -> Result<Vec<Option<u64>>> {
        if self == Windows::Never && config.get(&["layer_types"]).is_none() {
            return Ok(vec![None; size(layers)]);
        }
        let window = config.optional(&["sliding_window", "attention_chunk_size"])?;
        if self == Windows::FromLayer && !config.flag("use_sliding_window", false)? {
            return Ok(vec![None; size(layers)]);
        }
        if let Some(types) = config.names("layer_types") {
            return windows_by_type(&types, window, layers);
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

fn windows_by_type(types: &[&str], window: Option<u64>, layers: u64) -> Result<Vec<Option<u64>>> {
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

const ATTENTION_BIAS: Flag = Flag::Key("attention_bias", false);
const MLP_BIAS: Flag = Flag::Key("mlp_bias", false);

pub(super) const ALL: &[Decoder] = &[
    Decoder {
        names: &["llama", "granite", "smollm3"],
        qkv_bias: ATTENTION_BIAS,
        out_bias: ATTENTION_BIAS,
        feed_forward_bias: MLP_BIAS,
        ..PLAIN
    },
    Decoder {
        names: &["mistral"],
        windows: Windows::Always,
        ..PLAIN
    },
    Decoder {
        names: &["ministral", "ministral3"],
        windows: Windows::Always,
        ..PLAIN
    },
    Decoder {
        names: &["mixtral"],
        windows: Windows::Always,
        routed: Some(RoutedExperts {
            count: &["num_local_experts"],
            intermediate: "intermediate_size",
            shared: None,
            bias: false,
        }),
        ..PLAIN
    },
    Decoder {
        names: &["qwen2"],
        qkv_bias: Flag::Yes,
        windows: Windows::FromLayer,
        ..PLAIN
    },
    Decoder {
        names: &["qwen3"],
        qkv_bias: ATTENTION_BIAS,
        out_bias: ATTENTION_BIAS,
        qk_norm: QkNorm::Head,
        head_dim: Some(128),
        windows: Windows::FromLayer,
        ..PLAIN
    },
    Decoder {
        names: &["qwen2_moe"],
        qkv_bias: Flag::Key("qkv_bias", true),
        windows: Windows::FromLayer,
        routed: Some(RoutedExperts {
            count: &["num_experts"],
            intermediate: "moe_intermediate_size",
            shared: Some("shared_expert_intermediate_size"),
            bias: false,
        }),
        ..PLAIN
    },
    Decoder {
        names: &["qwen3_moe"],
        qkv_bias: ATTENTION_BIAS,
        out_bias: ATTENTION_BIAS,
        qk_norm: QkNorm::Head,
        windows: Windows::FromLayer,
        routed: Some(RoutedExperts {
            count: &["num_experts", "num_local_experts"],
            intermediate: "moe_intermediate_size",
            shared: None,
            bias: false,
        }),
        ..PLAIN
    },
    Decoder {
        names: &["gemma"],
        tied: true,
        qkv_bias: ATTENTION_BIAS,
        out_bias: ATTENTION_BIAS,
        head_dim: Some(256),
        ..PLAIN
    },
    Decoder {
        names: &["gemma2"],
        tied: true,
        qkv_bias: ATTENTION_BIAS,
        out_bias: ATTENTION_BIAS,
        head_dim: Some(256),
        windows: Windows::AllButEvery(2),
        norms: 4,
        ..PLAIN
    },
    Decoder {
        names: &["gemma3_text"],
        tied: true,
        qkv_bias: ATTENTION_BIAS,
        out_bias: ATTENTION_BIAS,
        qk_norm: QkNorm::Head,
        head_dim: Some(256),
        windows: Windows::AllButEvery(6),
        norms: 4,
        ..PLAIN
    },
    Decoder {
        names: &["phi3"],
        windows: Windows::Always,
        ..PLAIN
    },
    Decoder {
        names: &["gpt_oss"],
        qkv_bias: Flag::Key("attention_bias", true),
        out_bias: Flag::Key("attention_bias", true),
        sinks: true,
        head_dim: Some(64),
        windows: Windows::AllButEvery(2),
        routed: Some(RoutedExperts {
            count: &["num_local_experts", "num_experts"],
            intermediate: "intermediate_size",
            shared: None,
            bias: true,
        }),
        ..PLAIN
    },
    Decoder {
        names: &["gpt_neox"],
        qkv_bias: Flag::Key("attention_bias", true),
        out_bias: Flag::Key("attention_bias", true),
        norm_bias: true,
        gated: false,
        feed_forward_bias: Flag::Yes,
        ..PLAIN
    },
    Decoder {
        names: &["gpt2"],
        tied: true,
        qkv_bias: Flag::Yes,
        out_bias: Flag::Yes,
        norm_bias: true,
        gated: false,
        feed_forward_bias: Flag::Yes,
        four_times_hidden: true,
        learned_positions: true,
        ..PLAIN
    },
    Decoder {
        names: &["olmo2"],
        qkv_bias: ATTENTION_BIAS,
        out_bias: ATTENTION_BIAS,
        qk_norm: QkNorm::All,
        ..PLAIN
    },
    Decoder {
        names: &["starcoder2"],
        tied: true,
        qkv_bias: Flag::Key("use_bias", true),
        out_bias: Flag::Key("use_bias", true),
        windows: Windows::Always,
        norm_bias: true,
        gated: false,
        feed_forward_bias: Flag::Key("use_bias", true),
        ..PLAIN
    },
];
