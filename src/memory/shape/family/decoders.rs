//! The table of decoders. Each row was checked against transformers' parameter count (`tests/data/shapes/`).

use super::decoder::{Decoder, Flag, PLAIN, RoutedExperts};
use super::windows::Windows;
use crate::memory::shape::parts::QkNorm;

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
