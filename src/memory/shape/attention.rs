//! The attention of a layer: keys and values of heads, a latent that replaces them, entries that stand for several tokens, or
//! those of another input; and the indexers by which layers choose tokens.

use super::family::{Bias, Gate, QkNorm};
use super::model::{Dtype, Layer, Layout, PerToken, Phase, Role, Split, matrix, vector};
use super::parts::Reader;
use crate::fault::{Fault, Result};

/// Modules of an attention, as families call them below a layer; a quantization excludes modules by name.
const QUERIES: &[&str] = &[
    "self_attn.q_proj",
    "self_attn.qkv_proj",
    "mixer.q_proj",
    "self_attn.q_b_proj",
    "attn.wq_b",
    "attention.wq",
];
const KEYS: &[&str] = &[
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.qkv_proj",
    "mixer.k_proj",
    "mixer.v_proj",
    "attn.wkv",
];
const OUTPUT: &[&str] = &["self_attn.o_proj", "mixer.o_proj", "attn.wo_b", "attention.wo"];
const QUERY_LATENT: &[&str] = &["self_attn.q_a_proj", "attn.wq_a"];
const KV_LATENT: &[&str] = &["self_attn.kv_a_proj_with_mqa", "attn.wkv"];
const KV_EXPANDED: &[&str] = &["self_attn.kv_b_proj"];
const INDEXER: &[&str] = &["self_attn.indexer.wq_b", "self_attn.indexer.wk", "attn.indexer.wq_b"];
const COMPRESSOR: &[&str] = &["attn.compressor.wkv"];

/// The heads of one layer.
struct Heads {
    queries: u64,
    kv: u64,
    /// Elements of a key.
    key: u64,
    /// Elements of a value.
    value: u64,
}

impl Reader<'_> {
    /// The heads of a layer, with a window or without: some models have others there.
    fn layer_heads(&self, layer: u64, window: bool) -> Result<Heads> {
        let config = self.config;
        let find = |names: &[&str], there: bool| if there { config.of_layer(names, layer) } else { Ok(None) };
        let queries = find(&["swa_num_attention_heads", "num_sliding_attention_heads"], window)?.unwrap_or(self.heads);
        let shared_values = config.flag(&["attention_k_eq_v"], false)?;
        let global = ["num_global_key_value_heads"];
        let kv = match find(&["swa_num_key_value_heads"], window)?.or(find(&global, !window && shared_values)?) {
            Some(kv) => kv,
            None => self.kv_heads(layer, queries)?,
        };
        if kv > queries {
            return Err(Fault::usage(format!(
                "`config.json`: {kv} KV heads cannot serve {queries} query heads"
            )));
        }
        let key = match find(&["swa_head_dim"], window)?.or(find(&["global_head_dim"], !window)?) {
            Some(key) => key,
            None => self.head_dim(layer)?,
        };
        let value = find(&["swa_v_head_dim"], window)?.or(config.optional(&["v_head_dim"])?);
        Ok(Heads {
            queries,
            kv,
            key,
            value: value.unwrap_or(key),
        })
    }

    /// The number of KV heads. The default is the number of query heads, as in transformers.
    pub(super) fn kv_heads(&self, layer: u64, queries: u64) -> Result<u64> {
        let config = self.config;
        let at = usize::try_from(layer).unwrap_or(usize::MAX);
        let block = config
            .get(&["block_configs"])
            .map(|blocks| &blocks[at]["attention"]["n_heads_in_group"]);
        if let Some(group) = block.and_then(serde_json::Value::as_u64).filter(|group| *group > 0) {
            return Ok(queries / group);
        }
        if config.flag(&["multi_query"], false)? && !config.flag(&["new_decoder_architecture"], false)? {
            return Ok(1);
        }
        let names = [
            "num_key_value_heads",
            "num_kv_heads",
            "multi_query_group_num",
            "num_attention_groups",
            "num_query_groups",
            "num_key_value_heads_per_layer",
        ];
        Ok(config.of_layer(&names, layer)?.unwrap_or(queries))
    }

    /// The size of a head. The default is the hidden size divided by the number of heads.
    fn head_dim(&self, layer: u64) -> Result<u64> {
        let head_dim = self
            .config
            .of_layer(&["head_dim", "kv_channels", "attention_head_dim"], layer)?;
        head_dim
            .or_else(|| self.hidden.is_multiple_of(self.heads).then(|| self.hidden / self.heads))
            .ok_or_else(|| {
                Fault::usage(format!(
                    "`config.json` has no `head_dim`, and {} heads do not divide a hidden state of {}",
                    self.heads, self.hidden
                ))
            })
    }

    /// A layer that reads the keys and values of another: it has neither the matrices that make them nor their cache.
    pub(super) fn without_keys(&self, mut layer: Layer) -> Layer {
        layer.per_token.clear();
        layer.tensors.retain(|tensor| tensor.modules != KEYS);
        layer
    }

    /// Attention to tokens: with a latent if there is the size of one, else with keys and values.
    pub(super) fn attention(&self, layer: u64, window: Option<u64>) -> Result<Layer> {
        if self.config.optional(&["kv_lora_rank"])?.is_some() {
            return self.latent_attention(layer, window);
        }
        let attention = self.plain_attention(layer, window)?;
        self.with_index(layer, attention)
    }

    /// Attention with as many KV heads as query heads, or fewer (MHA, GQA, MQA).
    fn plain_attention(&self, layer: u64, window: Option<u64>) -> Result<Layer> {
        let (config, family, hidden) = (self.config, self.family, self.hidden);
        let heads = self.layer_heads(layer, window.is_some())?;
        let (queries, values) = (heads.queries * heads.key, heads.kv * heads.value);
        let (keys, outputs) = (heads.kv * heads.key, heads.queries * heads.value);
        let gate = match family.gate {
            Gate::Full if config.flag(&["attn_output_gate"], true)? => queries,
            Gate::Head => heads.queries,
            _ => 0,
        };
        let projected = queries + gate;
        let (by_head, by_kv_head) = (Split::Heads(heads.queries), Split::Heads(heads.kv));
        // Where values are the keys, no matrix makes them; the cache has both all the same.
        let same = config.flag(&["attention_k_eq_v"], false)? && window.is_none();
        let mut tensors = vec![
            matrix(projected, hidden, by_head).named(QUERIES),
            matrix(keys, hidden, by_kv_head).named(KEYS),
            matrix(hidden, outputs, Split::Columns).named(OUTPUT),
        ];
        if !same {
            tensors.push(matrix(values, hidden, by_kv_head).named(KEYS));
        }
        let names = [
            "qkv_bias",
            "attention_bias",
            "use_bias",
            "add_qkv_bias",
            "add_bias_linear",
        ];
        if config.flag(&names, false)? {
            tensors.extend([vector(projected, by_head), vector(keys + values, by_kv_head)]);
            if family.bias != Bias::Queries {
                tensors.push(vector(hidden, Split::Replicated));
            }
        }
        let norms = config.flag(&["use_qk_norm"], true)? || config.get(&["qk_norm_type"]).is_some();
        match family.qk_norm {
            QkNorm::Head if norms => tensors.extend([
                vector(heads.key, Split::Replicated),
                vector(heads.key, Split::Replicated).named(KEYS),
            ]),
            QkNorm::All if norms => {
                tensors.extend([vector(queries, by_head), vector(keys, by_kv_head)]);
            }
            _ => {}
        }
        let sinks = if window.is_some() {
            "add_swa_attention_sink_bias"
        } else {
            "add_full_attention_sink_bias"
        };
        if config.flag(&[sinks], family.sinks)? {
            tensors.push(vector(heads.queries, Split::Rows));
        }
        let phase = Phase {
            tensors: "attention: residual, normed input, queries, keys, values and output; log-sum-exp of each head in float32",
            replicated: hidden * 2,
            sharded: projected + keys + values + outputs,
            sharded_f32: heads.queries,
            ..Phase::default()
        };
        let cache = PerToken::new(heads.kv, heads.key + heads.value, window);
        Ok(Layer::new(tensors, phase).keeping(cache))
    }

    /// Adds the index by which a layer chooses blocks of tokens, if it has one (MiniMax M3): one key for each token.
    fn with_index(&self, layer: u64, mut attention: Layer) -> Result<Layer> {
        let Some(sparse) = self.config.get(&["sparse_attention_config"]) else {
            return Ok(attention);
        };
        let number = |name: &str| sparse[name].as_u64().filter(|number| *number < 1 << 26);
        let at = usize::try_from(layer).unwrap_or(usize::MAX);
        let sparse_here = sparse["sparse_attention_freq"]
            .as_array()
            .is_none_or(|list| list.get(at).is_some_and(|one| one == 1));
        let (Some(width), true) = (number("sparse_index_dim"), sparse_here) else {
            return Ok(attention);
        };
        let heads = number("sparse_num_index_heads").unwrap_or(1);
        attention
            .tensors
            .push(matrix((heads + 1) * width, self.hidden, Split::Replicated).named(INDEXER));
        attention.tensors.push(vector(width, Split::Replicated).times(2));
        Ok(attention.keeping(PerToken::new(1, width, None)))
    }

    /// Attention to another part of the model: its keys and values are not those of tokens.
    pub(super) fn cross_attention(&self, layer: u64) -> Result<Layer> {
        let mut attention = self.plain_attention(layer, None)?;
        attention.per_token.clear();
        let heads = self.layer_heads(layer, false)?;
        attention.tensors.push(vector(heads.key * 2 + 2, Split::Replicated));
        Ok(attention)
    }

    /// Multi-head latent attention (DeepSeek): keys and values of all heads are kept as one latent and one decoupled
    /// rotary key (DeepSeek-V2, arXiv 2405.04434, section 2.1). Every rank keeps all of it.
    fn latent_attention(&self, layer: u64, window: Option<u64>) -> Result<Layer> {
        let (config, hidden, heads) = (self.config, self.hidden, self.heads);
        let rank = config.number(&["kv_lora_rank"])?;
        let rotary = config.number(&["qk_rope_head_dim"])?;
        let plain = config.number(&["qk_nope_head_dim"])?;
        let value = match config.optional(&["v_head_dim"])? {
            Some(value) => value,
            None => self.head_dim(layer)?,
        };
        let query_rank = config.optional(&["q_lora_rank"])?;
        let bias = config.flag(&["attention_bias"], false)?;
        let (kept, queries, values) = (rank + rotary, heads * (plain + rotary), heads * value);
        let by_head = Split::Heads(heads);
        let mut tensors = vec![
            matrix(kept, hidden, Split::Replicated).named(KV_LATENT),
            vector(rank, Split::Replicated),
            matrix(heads * (plain + value), rank, by_head).named(KV_EXPANDED),
            matrix(hidden, values, Split::Columns).named(OUTPUT),
            matrix(queries, query_rank.unwrap_or(hidden), by_head).named(QUERIES),
        ];
        if let Some(rank) = query_rank {
            let vectors = if bias { 2 } else { 1 };
            tensors.push(matrix(rank, hidden, Split::Replicated).named(QUERY_LATENT));
            tensors.push(vector(rank, Split::Replicated).times(vectors));
        }
        if bias {
            tensors.push(vector(kept + hidden, Split::Replicated));
        }
        if config.flag(&["mla_use_output_gate"], false)? {
            tensors.push(matrix(values, hidden, by_head).named(OUTPUT));
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
        let mut cache = PerToken::new(1, kept, window);
        if config.flag(&["expanded_latent"], false)? {
            // The engine keeps expanded keys, and values padded to their size.
            cache = PerToken::new(heads, (plain + rotary) * 2, window);
        }
        let indexer = config.optional(&["index_head_dim"])?;
        let Some(index) = indexer else {
            return Ok(Layer::new(tensors, phase).keeping(cache));
        };
        // Sparse attention keeps FP8 latents with their scales and an unquantized rotary key.
        cache.layout = Layout::Packed {
            fp8: rank + rank.div_ceil(128) * 4 + rotary * 2,
        };
        let at = usize::try_from(layer).unwrap_or(usize::MAX);
        let shared = config
            .names(&["indexer_types"])
            .is_some_and(|types| types.get(at) == Some(&"shared"));
        let layer = Layer::new(tensors, phase).keeping(cache);
        if shared {
            return Ok(layer);
        }
        Ok(layer.with(self.indexer(index, query_rank.unwrap_or(hidden))?))
    }

    /// The indexer of sparse attention: one FP8 key for each token, with a scale for every 128 elements.
    fn indexer(&self, width: u64, rank: u64) -> Result<Layer> {
        let heads = self.config.number(&["index_n_heads"])?;
        let tensors = vec![
            matrix(heads * width, rank, Split::Replicated).named(INDEXER),
            matrix(width, self.hidden, Split::Replicated).named(INDEXER),
            matrix(heads, self.hidden, Split::Replicated).with_role(Role::Router),
            vector(width, Split::Replicated).times(2),
        ];
        Ok(Layer {
            tensors,
            per_token: vec![PerToken::of_bytes(index_key(width), 1, None)],
            ..Layer::default()
        })
    }

    /// Attention to compressed entries and to a window (DeepSeek V4): one vector is key and value of all heads. The cache
    /// is FP8 with a rotary key in 16 bits, as vLLM has it.
    pub(super) fn compressed_attention(&self, ratio: u64) -> Result<Layer> {
        let (config, hidden, heads) = (self.config, self.hidden, self.heads);
        let width = config.number(&["head_dim"])?;
        let rotary = config.number(&["qk_rope_head_dim"])?;
        let rank = config.number(&["q_lora_rank"])?;
        let (groups, output_rank) = (config.number(&["o_groups"])?, config.number(&["o_lora_rank"])?);
        let queries = heads * width;
        let by_head = Split::Heads(heads);
        let mut tensors = vec![
            matrix(rank, hidden, Split::Replicated).named(QUERY_LATENT),
            matrix(queries, rank, by_head).named(QUERIES),
            matrix(width, hidden, Split::Replicated).named(KV_LATENT),
            matrix(groups * output_rank, queries / groups.max(1), Split::Rows).named(OUTPUT),
            matrix(hidden, groups * output_rank, Split::Columns).named(OUTPUT),
            vector(rank + width, Split::Replicated),
            vector(heads, Split::Rows),
        ];
        let phase = Phase {
            tensors: "compressed attention: residual, normed input, latent, entry; queries and output",
            replicated: hidden * 2 + rank + width,
            sharded: queries * 2,
            sharded_f32: heads,
            ..Phase::default()
        };
        // 8-bit elements with a scale byte for every 64, and the rotary part in 16 bits.
        let entry = (width - rotary.min(width)) + rotary * 2 + width / 64;
        let window = config.number(&["sliding_window", "sliding_window_size"])?;
        let windowed = PerToken::of_bytes(entry, 1, Some(window));
        if ratio <= 1 {
            return Ok(Layer::new(tensors, phase).keeping(windowed));
        }
        // Overlapping entries need twice the width.
        let overlap = if ratio < 128 { 2 } else { 1 };
        let compressor = |width: u64| {
            [
                matrix(overlap * width, hidden, Split::Replicated)
                    .times(2)
                    .named(COMPRESSOR),
                vector(ratio * overlap * width + width, Split::Replicated),
            ]
        };
        tensors.extend(compressor(width));
        // Tokens that are not compressed yet, in float32.
        let mut pending = overlap * ratio * 2 * overlap * width;
        let mut caches = vec![PerToken::of_bytes(entry, ratio, None), windowed];
        if let Some(index) = config.optional(&["index_head_dim"])?.filter(|_| overlap > 1) {
            let heads = config.number(&["index_n_heads"])?;
            tensors.extend(compressor(index));
            tensors.push(matrix(heads * index, rank, Split::Replicated).named(INDEXER));
            tensors.push(matrix(heads, hidden, Split::Replicated).with_role(Role::Router));
            caches.push(PerToken::of_bytes(index_key(index), ratio, None));
            pending += overlap * ratio * 2 * overlap * index;
        }
        let mut layer = Layer::new(tensors, phase).with_state((0, 1), pending, Some(Dtype::Float32));
        layer.per_token = caches;
        Ok(layer)
    }
}

/// Bytes of an indexer's FP8 key, with a float32 scale for every 128 elements.
pub(super) fn index_key(width: u64) -> u64 {
    width + width.div_ceil(128) * 4
}
