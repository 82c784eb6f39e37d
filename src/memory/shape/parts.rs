//! Reads the shape of a model of a known family: the parts of each layer, from the keys of `config.json`.
//!
//! Sizes follow the model definitions in transformers, and the tests compare them with its own counts
//! (`tests/data/shapes/`). The memory of a pass is the sum of the outputs that live at the same time while a chunk of a
//! prompt passes through, with fused projections and without a matrix of attention scores, as in serving engines. It
//! includes residual and normed input. [`Config`] bounds each size, so that products of two do not overflow.

use super::model::{Dtype, Layer, ModelShape, Phase, Role, Split, group_equal, matrix, vector};
use super::{Bias, Config, Family, Layers, QkNorm};
use crate::fault::{Fault, Result};

/// Entries of `layer_types`.
const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";
const RECURRENT: &str = "linear_attention";

/// A model being read.
pub(super) struct Reader<'a> {
    config: &'a Config,
    family: &'a Family,
    hidden: u64,
    heads: u64,
    layers: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(config: &'a Config, family: &'a Family) -> Result<Self> {
        Ok(Self {
            config,
            family,
            hidden: config.number(&["hidden_size", "n_embd"])?,
            heads: config.number(&["num_attention_heads", "n_head"])?,
            layers: config.layers()?,
        })
    }

    pub(super) fn shape(&self, name: &str) -> Result<ModelShape> {
        let (config, hidden) = (self.config, self.hidden);
        let vocabulary = config.number(&["vocab_size"])?;
        let norm = if self.family.classic { 2 } else { 1 };
        let embedding = matrix(vocabulary, hidden, Split::Vocabulary).with_role(Role::Embedding);
        let mut ends = vec![embedding.clone(), vector(hidden, Split::Replicated).times(norm)];
        let tied = config.flag(&["tie_word_embeddings"], self.family.tied)?;
        if !tied {
            ends.push(embedding.with_role(Role::Head));
        }
        let max_positions = config.optional(&["max_position_embeddings", "n_positions"])?;
        // GPT-2 learns its positions.
        if let Some(positions) = max_positions.filter(|_| name == "gpt2") {
            ends.push(matrix(positions, hidden, Split::Replicated).with_role(Role::Embedding));
        }
        let norms = Layer {
            tensors: vec![vector(hidden, Split::Replicated).times(self.family.norms() * norm)],
            ..Layer::default()
        };
        let layers = (0..).zip(self.mixers()?).map(|(layer, mixer)| {
            let forward = self.forward(layer)?;
            Ok(mixer.with(forward).with(norms.clone()))
        });
        Ok(ModelShape {
            family: name.to_owned(),
            hidden,
            vocabulary,
            heads: self.heads,
            max_positions,
            dtype: config.dtype().ok().flatten(),
            ends,
            tied,
            layers: group_equal(layers.collect::<Result<Vec<_>>>()?),
            left_out: config.is_multimodal().then(|| {
                "only the language model is counted: vision and audio parts are not read from `config.json`".to_owned()
            }),
            by_headers: false,
        })
    }

    /// The attention or the recurrent part of each layer.
    fn mixers(&self) -> Result<Vec<Layer>> {
        let (config, rule) = (self.config, self.family.layers);
        if rule == Layers::Parallel {
            let layer = self.attention(None)?.with(self.recurrent()?);
            return (0..self.layers).map(|_| Ok(layer.clone())).collect();
        }
        let windows = rule != Layers::WindowFrom || config.flag(&["use_sliding_window"], false)?;
        let listed = config.names(&["layer_types", "layers_block_type"]).filter(|_| windows);
        let types = match listed {
            Some(types) if types.len() as u64 == self.layers => types,
            Some(types) => {
                return Err(Fault::usage(format!(
                    "`config.json`: `layer_types` has {} entries for {} layers",
                    types.len(),
                    self.layers
                )));
            }
            None if windows => (0..self.layers)
                .map(|layer| self.usual_type(layer))
                .collect::<Result<_>>()?,
            None => (0..self.layers).map(|_| FULL).collect(),
        };
        let mixer = |name: &str| match name {
            FULL | "attention" if self.family.latent => self.latent_attention(),
            FULL | "attention" => self.attention(None),
            SLIDING | "chunked_attention" => match self.window()? {
                None => Err(Fault::usage(format!(
                    "`config.json` has layers of `{name}` and no `sliding_window`"
                ))),
                window => self.attention(window),
            },
            RECURRENT | "mamba" if matches!(rule, Layers::Hybrid(_) | Layers::Periods) => self.recurrent(),
            other => Err(Fault::usage(format!(
                "`config.json`: the layer type `{other}` is not known here"
            ))),
        };
        types.into_iter().map(mixer).collect()
    }

    /// The type of a layer if `layer_types` is missing.
    fn usual_type(&self, layer: u64) -> Result<&'static str> {
        let (config, number) = (self.config, layer + 1);
        let slides = match self.family.layers {
            Layers::Full | Layers::Parallel => false,
            Layers::Window => true,
            Layers::WindowExceptEvery(every) => {
                let every = config.optional(&["sliding_window_pattern"])?.unwrap_or(every);
                !number.is_multiple_of(every)
            }
            Layers::WindowFrom => layer >= config.number_or_zero(&["max_window_layers"])?,
            Layers::Chunks => match config.numbers("no_rope_layers").filter(|layers| !layers.is_empty()) {
                // Despite its name, the list has a 1 where positions are rotated.
                Some(rotated) => usize::try_from(layer).ok().and_then(|layer| rotated.get(layer)) == Some(&1),
                None => !number.is_multiple_of(config.optional(&["no_rope_layer_interval"])?.unwrap_or(4)),
            },
            Layers::Hybrid(every) => {
                let attends = match config.numbers("attn_layer_indices") {
                    Some(layers) => layers.contains(&layer),
                    None => number.is_multiple_of(config.optional(&["full_attention_interval"])?.unwrap_or(every)),
                };
                return Ok(if attends { FULL } else { RECURRENT });
            }
            Layers::Periods => {
                let attends = self.in_period("attn_layer", layer)?;
                return Ok(if attends { FULL } else { RECURRENT });
            }
        };
        Ok(if slides && self.window()?.is_some() {
            SLIDING
        } else {
            FULL
        })
    }

    /// Whether a layer is one of every `{name}_period` layers, counted from `{name}_offset`.
    fn in_period(&self, name: &str, layer: u64) -> Result<bool> {
        let period = self.config.number(&[&format!("{name}_period")])?;
        let offset = self.config.number_or_zero(&[&format!("{name}_offset")])?;
        Ok(layer % period == offset)
    }

    fn window(&self) -> Result<Option<u64>> {
        self.config.optional(&["sliding_window", "attention_chunk_size"])
    }

    /// The number of KV heads. The default is the number of query heads, as in transformers.
    fn kv_heads(&self) -> Result<u64> {
        let kv_heads = self.config.optional(&["num_key_value_heads"])?.unwrap_or(self.heads);
        if kv_heads > self.heads {
            return Err(Fault::usage(format!(
                "`config.json`: {kv_heads} KV heads cannot serve {} query heads",
                self.heads
            )));
        }
        Ok(kv_heads)
    }

    /// The size of a head. The default is the family's, else the hidden size divided by the number of heads.
    fn head_dim(&self) -> Result<u64> {
        let head_dim = self.config.optional(&["head_dim"])?.or(self.family.head_dim);
        head_dim
            .or_else(|| self.hidden.is_multiple_of(self.heads).then(|| self.hidden / self.heads))
            .ok_or_else(|| {
                Fault::usage(format!(
                    "`config.json` has no `head_dim`, and {} heads do not divide a hidden state of {}",
                    self.heads, self.hidden
                ))
            })
    }

    /// Attention with as many KV heads as query heads, or fewer (MHA, GQA, MQA).
    fn attention(&self, window: Option<u64>) -> Result<Layer> {
        let (family, hidden, heads) = (self.family, self.hidden, self.heads);
        let (kv_heads, head_dim) = (self.kv_heads()?, self.head_dim()?);
        let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
        let projected = if family.gated_queries { queries * 2 } else { queries };
        let (by_head, by_kv_head) = (Split::Heads(heads), Split::Heads(kv_heads));
        let mut tensors = vec![
            matrix(projected, hidden, by_head),
            matrix(keys, hidden, by_kv_head).times(2),
            matrix(hidden, queries, Split::Columns),
        ];
        let names = ["qkv_bias", "attention_bias", "use_bias"];
        if self.config.flag(&names, family.bias != Bias::No)? {
            tensors.extend([vector(projected, by_head), vector(keys, by_kv_head).times(2)]);
            if family.bias != Bias::Queries {
                tensors.push(vector(hidden, Split::Replicated));
            }
        }
        match family.qk_norm {
            QkNorm::No => {}
            QkNorm::Head => tensors.push(vector(head_dim, Split::Replicated).times(2)),
            QkNorm::All => tensors.extend([vector(queries, by_head), vector(keys, by_kv_head)]),
        }
        if family.sinks {
            tensors.push(vector(heads, Split::Rows));
        }
        let phase = Phase {
            tensors: "attention: residual, normed input, queries, keys, values and output; log-sum-exp of each head in float32",
            replicated: hidden * 2,
            sharded: projected + keys * 2 + queries,
            sharded_f32: heads,
            ..Phase::default()
        };
        Ok(Layer::new(tensors, phase).keeping(kv_heads, head_dim * 2, window))
    }

    /// Multi-head latent attention (DeepSeek): keys and values of all heads are kept as one latent and one decoupled
    /// rotary key (DeepSeek-V2, arXiv 2405.04434, section 2.1). Every rank keeps all of it.
    fn latent_attention(&self) -> Result<Layer> {
        let (config, hidden, heads) = (self.config, self.hidden, self.heads);
        let rank = config.number(&["kv_lora_rank"])?;
        let rotary = config.number(&["qk_rope_head_dim"])?;
        let plain = config.number(&["qk_nope_head_dim"])?;
        let value = config.number(&["v_head_dim"])?;
        let query_rank = config.optional(&["q_lora_rank"])?;
        let bias = config.flag(&["attention_bias"], false)?;
        let (kept, queries, values) = (rank + rotary, heads * (plain + rotary), heads * value);
        let by_head = Split::Heads(heads);
        let mut tensors = vec![
            matrix(kept, hidden, Split::Replicated),
            vector(rank, Split::Replicated),
            matrix(heads * (plain + value), rank, by_head),
            matrix(hidden, values, Split::Columns),
            matrix(queries, query_rank.unwrap_or(hidden), by_head),
        ];
        if let Some(rank) = query_rank {
            let vectors = if bias { 2 } else { 1 };
            tensors.push(matrix(rank, hidden, Split::Replicated));
            tensors.push(vector(rank, Split::Replicated).times(vectors));
        }
        if bias {
            tensors.push(vector(kept + hidden, Split::Replicated));
        }
        let phase = Phase {
            tensors: "latent attention: residual, normed input, latents of queries and of keys; queries, expanded keys and values, output; \
                      log-sum-exp of each head in float32",
            replicated: hidden * 2 + kept + query_rank.unwrap_or(0),
            // Each head's keys include the rotary part once they are expanded for a prefill.
            sharded: (queries + values) * 2,
            sharded_f32: heads,
            ..Phase::default()
        };
        Ok(Layer::new(tensors, phase).keeping(1, kept, None))
    }

    /// The feed-forward part of a layer: dense, or routed experts.
    fn forward(&self, layer: u64) -> Result<Layer> {
        let config = self.config;
        let counts = ["num_experts", "num_local_experts", "n_routed_experts"];
        if self.family.experts && self.is_routed(layer)? {
            // A hybrid may state 0 experts; a missing number is an error.
            let experts = match config.get(&counts) {
                Some(_) => config.number_or_zero(&counts)?,
                None => config.number(&counts)?,
            };
            if experts > 1 {
                return self.experts(experts);
            }
        }
        let names = [
            "shared_intermediate_size",
            "intermediate_size_mlp",
            "intermediate_size",
            "n_inner",
        ];
        self.feed_forward(match config.optional(&names)? {
            None if self.family.classic => self.hidden * 4,
            None => config.number(&["intermediate_size"])?,
            Some(size) => size,
        })
    }

    /// Whether a layer has routed experts, if the model has any.
    fn is_routed(&self, layer: u64) -> Result<bool> {
        let config = self.config;
        if let Some(layers) = config.numbers("moe_layers") {
            return Ok(layers.contains(&layer));
        }
        let steps = ["decoder_sparse_step", "interleave_moe_layer_step"];
        let step = config.optional(&steps)?.unwrap_or(1);
        let dense = config.numbers("mlp_only_layers").unwrap_or_default();
        Ok(layer >= config.number_or_zero(&["first_k_dense_replace"])?
            && (layer + 1).is_multiple_of(step)
            && !dense.contains(&layer)
            && (self.family.layers != Layers::Periods || self.in_period("expert_layer", layer)?))
    }

    fn feed_forward(&self, intermediate: u64) -> Result<Layer> {
        let (classic, hidden) = (self.family.classic, self.hidden);
        // One of two input matrices gates the other.
        let inputs = if classic { 1 } else { 2 };
        let mut tensors = vec![
            matrix(intermediate, hidden, Split::Rows).times(inputs),
            matrix(hidden, intermediate, Split::Columns),
        ];
        if self.config.flag(&["mlp_bias", "use_bias"], classic)? {
            tensors.push(vector(intermediate, Split::Rows).times(inputs));
            tensors.push(vector(hidden, Split::Replicated));
        }
        let phase = Phase {
            tensors: "feed-forward: residual, normed input, outputs of the matrices in, their activation",
            replicated: hidden * 2,
            sharded: intermediate * (inputs + 1),
            ..Phase::default()
        };
        Ok(Layer::new(tensors, phase))
    }

    /// Routed experts of equal size, and the shared expert that processes every token.
    ///
    /// Every rank holds a share of each expert's intermediate size. Expert parallelism holds the same number of bytes,
    /// divided differently.
    fn experts(&self, experts: u64) -> Result<Layer> {
        let (config, hidden) = (self.config, self.hidden);
        let size = config.number(&["moe_intermediate_size", "intermediate_size"])?;
        let chosen = config.number(&["num_experts_per_tok", "experts_per_token"])?;
        let expert = |rows, columns, split| matrix(rows, columns, split).with_role(Role::Expert);
        let router = |rows| matrix(rows, hidden, Split::Replicated).with_role(Role::Router);
        let mut tensors = vec![
            router(experts),
            expert(size, hidden, Split::Rows).times(experts * 2),
            expert(hidden, size, Split::Columns).times(experts),
        ];
        if self.family.bias == Bias::All {
            tensors.push(vector(experts, Split::Replicated));
            tensors.push(vector(size, Split::Rows).times(experts * 2));
            tensors.push(vector(hidden, Split::Replicated).times(experts));
        }
        let gated = config.optional(&["shared_expert_intermediate_size"])?;
        if gated.is_some() {
            tensors.push(router(1));
        }
        let shared = match gated.or(config.optional(&["shared_intermediate_size"])?) {
            Some(shared) => shared,
            // Llama 4 names the size of its dense layers differently; its shared expert is as large as a routed one.
            None if config.get(&["intermediate_size_mlp"]).is_some() => size,
            None => size * config.number_or_zero(&["n_shared_experts"])?,
        };
        let phase = Phase {
            tensors: "experts: residual, normed input, output; for each chosen expert outputs of the matrices in, their activation and the \
                      output; router scores in float32",
            replicated: hidden * (chosen + 3),
            sharded: size * 3 * chosen,
            replicated_f32: experts,
            ..Phase::default()
        };
        let layer = Layer::new(tensors, phase);
        match shared {
            0 => Ok(layer),
            shared => Ok(layer.with(self.feed_forward(shared)?)),
        }
    }

    fn recurrent(&self) -> Result<Layer> {
        if self.config.get(&["linear_num_key_heads"]).is_some() {
            self.delta_net()
        } else if self.family.layers == Layers::Periods {
            self.mamba()
        } else {
            self.mamba2()
        }
    }

    /// The data type of recurrent states, if stated.
    fn state_dtype(&self) -> Result<Option<Dtype>> {
        let name = self.config.get(&["mamba_ssm_dtype", "mamba_ssm_cache_dtype"]);
        name.and_then(|name| name.as_str()).map(str::parse).transpose()
    }

    /// Mamba as in Jamba: a state per channel, and three inner norms.
    fn mamba(&self) -> Result<Layer> {
        let (config, hidden) = (self.config, self.hidden);
        let inner = config.optional(&["mamba_expand"])?.unwrap_or(2) * hidden;
        let (state, kernel) = (config.number(&["mamba_d_state"])?, config.number(&["mamba_d_conv"])?);
        // The rank of the compressed time step.
        let rank = match config.get(&["mamba_dt_rank"]) {
            Some(rank) if rank != "auto" => config.number(&["mamba_dt_rank"])?,
            _ => hidden.div_ceil(16),
        };
        let compressed = rank + state * 2;
        let mut tensors = vec![
            matrix(inner * 2, hidden, Split::Rows),
            matrix(hidden, inner, Split::Columns),
            matrix(compressed, inner, Split::Columns),
            matrix(inner, rank, Split::Rows),
            // A, the convolution, D and the bias of the time step.
            vector(inner, Split::Rows).times(state + kernel + 2),
            vector(compressed, Split::Replicated),
        ];
        if config.flag(&["mamba_conv_bias"], true)? {
            tensors.push(vector(inner, Split::Rows));
        }
        if config.flag(&["mamba_proj_bias"], false)? {
            tensors.push(vector(inner, Split::Rows).times(2));
            tensors.push(vector(hidden, Split::Replicated));
        }
        let phase = Phase {
            tensors: "mamba: residual, normed input; projected input, output of the convolution, time steps, output of the scan",
            replicated: hidden * 2 + compressed,
            sharded: inner * 5,
            ..Phase::default()
        };
        Ok(Layer::new(tensors, phase).with_state((inner, kernel), inner.saturating_mul(state), None))
    }

    /// Mamba-2 (Bamba, Falcon H1, Granite 4): a state per head, and the inputs that the convolution still needs.
    fn mamba2(&self) -> Result<Layer> {
        let (config, hidden) = (self.config, self.hidden);
        let heads = config.number(&["mamba_n_heads"])?;
        let (state, kernel) = (config.number(&["mamba_d_state"])?, config.number(&["mamba_d_conv"])?);
        let expanded = config.optional(&["mamba_expand"])?.unwrap_or(2) * hidden;
        let inner = config.optional(&["mamba_d_ssm"])?.unwrap_or(expanded);
        let mixed = inner + config.number(&["mamba_n_groups"])? * state * 2;
        let projected = inner + mixed + heads;
        let mut tensors = vec![
            matrix(projected, hidden, Split::Rows),
            matrix(hidden, inner, Split::Columns),
            vector(mixed, Split::Rows).times(kernel),
            // The bias of the time step, A and D.
            vector(heads, Split::Rows).times(3),
        ];
        if config.flag(&["mamba_conv_bias"], true)? {
            tensors.push(vector(mixed, Split::Rows));
        }
        if config.flag(&["mamba_proj_bias"], false)? {
            tensors.push(vector(projected, Split::Rows));
        }
        if config.flag(&["projectors_bias", "mamba_proj_bias"], false)? {
            tensors.push(vector(hidden, Split::Replicated));
        }
        // The gated norm before the output.
        if config.flag(&["mamba_rms_norm"], self.family.layers != Layers::Parallel)? {
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
            matrix(projected, hidden, Split::Rows),
            matrix(value_heads * 2, hidden, Split::Rows),
            matrix(hidden, values, Split::Columns),
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
}
