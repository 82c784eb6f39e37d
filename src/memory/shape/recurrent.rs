//! Recurrent parts of layers: Mamba, linear attention and short convolutions. They keep a state of each sequence, whose
//! size does not depend on its length.

use super::model::{Dtype, Layer, Phase, Split, matrix, vector};
use super::parts::Reader;
use crate::fault::{Fault, Result};

/// Modules of a recurrent part, as families call them below a layer.
const RECURRENT_IN: &[&str] = &[
    "mixer.in_proj",
    "mamba.in_proj",
    "linear_attn.in_proj_qkv",
    "linear_attn.in_proj_qkvz",
    "linear_attn.in_proj_z",
    "self_attn.q_proj",
    "conv.in_proj",
];
const RECURRENT_OUT: &[&str] = &[
    "mixer.out_proj",
    "mamba.out_proj",
    "linear_attn.out_proj",
    "self_attn.o_proj",
    "conv.out_proj",
];

const STATE: [&str; 3] = ["mamba_d_state", "ssm_state_size", "state_size"];
const KERNEL: [&str; 2] = ["mamba_d_conv", "conv_kernel"];
const EXPAND: [&str; 2] = ["mamba_expand", "expand"];
const CONV_BIAS: [&str; 2] = ["mamba_conv_bias", "use_conv_bias"];

impl Reader<'_> {
    /// The recurrent part of a layer; the keys say which.
    pub(super) fn recurrent(&self) -> Result<Layer> {
        let there = |names: &[&str]| self.config.get(names).is_some();
        match () {
            () if there(&["linear_attn_config"]) => self.delta_attention(),
            () if there(&["linear_num_key_heads"]) => self.delta_net(),
            () if there(&["mamba_n_heads", "mamba_num_heads"]) || (there(&["n_groups"]) && there(&STATE)) => {
                self.mamba2()
            }
            () if there(&STATE) => self.mamba(),
            () if there(&["conv_L_cache"]) => self.short_convolution(),
            () if there(&["attn_type_list"]) => self.lightning_attention(),
            () => Err(Fault::usage(
                "`config.json` has recurrent layers, and no key for the size of their state",
            )),
        }
    }

    /// The data type of recurrent states, if stated.
    fn state_dtype(&self) -> Result<Option<Dtype>> {
        let name = self.config.get(&["mamba_ssm_dtype", "mamba_ssm_cache_dtype"]);
        name.and_then(|name| name.as_str()).map(str::parse).transpose()
    }

    /// Mamba (Jamba, Falcon Mamba): a state per channel.
    fn mamba(&self) -> Result<Layer> {
        let (config, hidden) = (self.config, self.hidden);
        let inner = config.optional(&EXPAND)?.unwrap_or(2) * hidden;
        let (state, kernel) = (config.number(&STATE)?, config.number(&KERNEL)?);
        // The rank of the compressed time step.
        let names = ["mamba_dt_rank", "time_step_rank"];
        let rank = match config.get(&names) {
            Some(rank) if rank != "auto" => config.number(&names)?,
            _ => hidden.div_ceil(16),
        };
        let compressed = rank + state * 2;
        let mut tensors = vec![
            matrix(inner * 2, hidden, Split::Rows).named(RECURRENT_IN),
            matrix(hidden, inner, Split::Columns).named(RECURRENT_OUT),
            matrix(compressed, inner, Split::Columns),
            matrix(inner, rank, Split::Rows),
            // A, the convolution, D and the bias of the time step.
            vector(inner, Split::Rows).times(state + kernel + 2),
        ];
        if config.flag(&["inner_norms"], true)? {
            tensors.push(vector(compressed, Split::Replicated));
        }
        if config.flag(&CONV_BIAS, true)? {
            tensors.push(vector(inner, Split::Rows));
        }
        if config.flag(&["mamba_proj_bias", "use_bias"], false)? {
            tensors.push(vector(inner, Split::Rows).times(2));
            tensors.push(vector(hidden, Split::Replicated));
        }
        let phase = Phase {
            tensors: "mamba: residual, normed input; projected input, output of the convolution, time steps, output of the scan",
            replicated: hidden * 2 + compressed,
            sharded: inner * 5,
            ..Phase::default()
        };
        let state = inner.saturating_mul(state);
        Ok(Layer::new(tensors, phase).with_state((inner, kernel), state, self.state_dtype()?))
    }

    /// Mamba-2 (Bamba, Falcon H1, Granite 4, Nemotron H): a state per head, and the inputs that the convolution still needs.
    fn mamba2(&self) -> Result<Layer> {
        let (config, hidden) = (self.config, self.hidden);
        let heads = config.optional(&["mamba_n_heads", "mamba_num_heads", "num_heads"])?;
        let (state, kernel) = (config.number(&STATE)?, config.number(&KERNEL)?);
        let width = ["mamba_d_head", "mamba_head_dim"];
        let width = match config.get(&width) {
            Some(number) if number != "auto" => config.optional(&width)?,
            Some(_) => None,
            None if heads.is_none() => config.optional(&["head_dim"])?,
            None => None,
        };
        let expanded = config.optional(&EXPAND)?.unwrap_or(2) * hidden;
        let by_heads = heads.zip(width).map(|(heads, width)| heads * width);
        let inner = config.optional(&["mamba_d_ssm"])?.or(by_heads).unwrap_or(expanded);
        let heads = match (heads, width) {
            (Some(heads), _) => heads,
            (None, Some(width)) => inner / width,
            (None, None) => config.number(&["mamba_n_heads"])?,
        };
        let mixed = inner + config.number(&["mamba_n_groups", "n_groups"])? * state * 2;
        let projected = inner + mixed + heads;
        let mut tensors = vec![
            matrix(projected, hidden, Split::Rows).named(RECURRENT_IN),
            matrix(hidden, inner, Split::Columns).named(RECURRENT_OUT),
            vector(mixed, Split::Rows).times(kernel),
            // The bias of the time step, A and D.
            vector(heads, Split::Rows).times(3),
        ];
        if config.flag(&CONV_BIAS, true)? {
            tensors.push(vector(mixed, Split::Rows));
        }
        if config.flag(&["mamba_proj_bias"], false)? {
            tensors.push(vector(projected, Split::Rows));
        }
        if config.flag(&["projectors_bias", "mamba_proj_bias"], false)? {
            tensors.push(vector(hidden, Split::Replicated));
        }
        // The gated norm before the output.
        if config.flag(&["mamba_rms_norm"], true)? {
            tensors.push(vector(inner, Split::Rows));
        }
        let phase = Phase {
            tensors: "mamba: residual, normed input; projected input, output of the convolution, output of the scan",
            replicated: hidden * 2,
            sharded: projected + mixed + inner,
            ..Phase::default()
        };
        let state = inner.saturating_mul(state);
        Ok(Layer::new(tensors, phase).with_state((mixed, kernel), state, self.state_dtype()?))
    }

    /// The gated delta rule (Qwen3-Next): linear attention whose state is a matrix per head.
    fn delta_net(&self) -> Result<Layer> {
        let (config, hidden) = (self.config, self.hidden);
        let (key, value) = (
            config.number(&["linear_key_head_dim"])?,
            config.number(&["linear_value_head_dim"])?,
        );
        let value_heads = config.number(&["linear_num_value_heads"])?;
        let (keys, values) = (config.number(&["linear_num_key_heads"])? * key, value_heads * value);
        let kernel = config.number(&["linear_conv_kernel_dim"])?;
        let mixed = keys * 2 + values;
        let projected = mixed + values;
        let tensors = vec![
            // Queries, keys, values and gate; beta and decay.
            matrix(projected, hidden, Split::Rows).named(RECURRENT_IN),
            matrix(value_heads * 2, hidden, Split::Rows).named(&["linear_attn.in_proj_ba", "linear_attn.in_proj_a"]),
            matrix(hidden, values, Split::Columns).named(RECURRENT_OUT),
            vector(mixed, Split::Rows).times(kernel),
            // The bias of the time step, and A.
            vector(value_heads, Split::Rows).times(2),
            vector(value, Split::Replicated),
        ];
        let phase = Phase {
            tensors: "delta net: residual, normed input; projected input, output of the convolution, output of the rule",
            replicated: hidden * 2,
            sharded: projected + mixed + values,
            ..Phase::default()
        };
        let state = values.saturating_mul(key);
        Ok(Layer::new(tensors, phase).with_state((mixed, kernel), state, self.state_dtype()?))
    }

    /// Kimi's delta attention: as the gated delta rule, with a decay for each channel and the state in float32.
    fn delta_attention(&self) -> Result<Layer> {
        let hidden = self.hidden;
        let linear = self
            .config
            .get(&["linear_attn_config"])
            .unwrap_or(&serde_json::Value::Null);
        let number = |name: &str| {
            let number = linear[name].as_u64().filter(|number| (1..1 << 26).contains(number));
            number.ok_or_else(|| Fault::usage(format!("`config.json`: `linear_attn_config` has no `{name}`")))
        };
        let (heads, width, kernel) = (
            number("num_heads")?,
            number("head_dim")?,
            number("short_conv_kernel_size")?,
        );
        let inner = heads * width;
        // Decay and gate go through a narrow state, unless the gate has its full rank.
        let narrow = if linear["use_full_rank_gate"] == true { 1 } else { 2 };
        let mut tensors = vec![
            matrix(inner * 3, hidden, Split::Rows).named(RECURRENT_IN),
            matrix(hidden, inner, Split::Columns).named(RECURRENT_OUT),
            matrix(width, hidden, Split::Replicated)
                .times(narrow)
                .named(RECURRENT_IN),
            matrix(inner, width, Split::Rows).times(narrow).named(RECURRENT_IN),
            matrix(heads, hidden, Split::Rows).named(RECURRENT_IN),
            vector(inner * 3, Split::Rows).times(kernel),
            vector(inner + heads, Split::Rows),
            vector(width, Split::Replicated),
        ];
        if narrow == 1 {
            tensors.push(matrix(inner, hidden, Split::Rows).named(RECURRENT_IN));
        }
        let phase = Phase {
            tensors: "delta attention: residual, normed input; queries, keys, values and gate, output of the convolution, output of the rule",
            replicated: hidden * 2,
            sharded: inner * 8,
            ..Phase::default()
        };
        let state = inner.saturating_mul(width);
        Ok(Layer::new(tensors, phase).with_state((inner * 3, kernel), state, Some(Dtype::Float32)))
    }

    /// Lightning attention (MiniMax 01): a matrix per head, in the model's type.
    fn lightning_attention(&self) -> Result<Layer> {
        let (config, hidden) = (self.config, self.hidden);
        let (heads, width) = (config.number(&["num_attention_heads"])?, config.number(&["head_dim"])?);
        let inner = heads * width;
        let tensors = vec![
            matrix(inner * 3, hidden, Split::Heads(heads)).named(RECURRENT_IN),
            matrix(inner, hidden, Split::Heads(heads)),
            matrix(hidden, inner, Split::Columns).named(RECURRENT_OUT),
            vector(inner, Split::Rows),
        ];
        let phase = Phase {
            tensors: "linear attention: residual, normed input; queries, keys, values, gate and output",
            replicated: hidden * 2,
            sharded: inner * 5,
            ..Phase::default()
        };
        Ok(Layer::new(tensors, phase).with_state((0, 1), inner.saturating_mul(width), None))
    }

    /// A gated short convolution (LFM2): the inputs that it still needs.
    fn short_convolution(&self) -> Result<Layer> {
        let hidden = self.hidden;
        let kernel = self.config.number(&["conv_L_cache"])?;
        let tensors = vec![
            matrix(hidden * 3, hidden, Split::Rows).named(RECURRENT_IN),
            matrix(hidden, hidden, Split::Columns).named(RECURRENT_OUT),
            vector(hidden, Split::Rows).times(kernel),
        ];
        let phase = Phase {
            tensors: "short convolution: residual, normed input; projected input, output of the convolution",
            replicated: hidden * 2,
            sharded: hidden * 4,
            ..Phase::default()
        };
        Ok(Layer::new(tensors, phase).with_state((hidden, kernel), 0, None))
    }
}
