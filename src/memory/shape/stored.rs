//! Reads a model's layers from the names and shapes of its stored tensors: which tensors are loaded, and which cache or
//! state each layer keeps.
//!
//! Names follow conventions that families share: a layer's number after `layers`, matrices called `k_proj`, latents
//! called `kv_a_proj_with_mqa`. Keys and values have as many elements as the outputs of the matrices that make them,
//! however these are packed. What headers lack is taken from keys of `config.json` that say it for any family (windows,
//! shared layers, the sizes of states), and named where no key does.

use std::collections::BTreeMap;

use super::attention::index_key;
use super::config::Config;
use super::headers::{Headers, StoredTensor};
use super::model::{Layer, Layout, ModelShape, PerSequence, PerToken, Split, vector};
use super::parts::Reader;
use super::schedule::{Mixer, layers_named, lists_windows, schedule};
use crate::fault::{Fault, Result};

/// Module names that precede the layer number.
const LAYER_MODULES: [&str; 4] = ["layers", "h", "blocks", "layer"];

/// How a part of a model is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The language model.
    Text,
    /// A part that makes embeddings of images, audio or video, or sound of tokens; loaded beside the language model.
    Tower,
    /// Layers that draft further tokens (multi-token prediction), loaded only for speculative decoding.
    Draft,
}

/// Steps of a name, or how they begin, that mark a part other than the language model.
const TOWER_STEPS: [&str; 22] = [
    "vpm",
    "apm",
    "vit",
    "resampler",
    "multi_modal_projector",
    "mm_projector",
    "multimodal_projector",
    "modality_projection",
    "patch_merge_mlp",
    "patch_merger",
    "embed_vision",
    "embed_audio",
    "embed_tokens_extend",
    "connector",
    "aligner",
    "projector",
    "mlp1",
    "talker",
    "code2wav",
    "token2wav",
    "tts",
    "sam_model",
];
const TOWER_BEGINNINGS: [&str; 6] = ["vision", "visual", "audio", "image", "img_", "speech"];
const DRAFT_BEGINNINGS: [&str; 6] = ["mtp", "nextn", "draft", "eagle", "medusa", "model_mtp"];
/// Modules that only a layer that drafts tokens has.
const DRAFT_MODULES: [&str; 5] = ["eh_proj", "enorm", "hnorm", "shared_head", "final_layernorm_mtp"];

/// The steps of a name before its layer, the layer's number, and the steps after it.
fn split(name: &str) -> (Vec<&str>, Option<(u64, Vec<&str>)>) {
    let steps: Vec<&str> = name.split('.').collect();
    let at = steps
        .windows(2)
        .position(|pair| LAYER_MODULES.contains(&pair[0]) && pair[1].parse::<u64>().is_ok());
    match at {
        None => (steps, None),
        Some(at) => {
            let layer = steps[at + 1].parse().unwrap_or(0);
            (steps[..at].to_vec(), Some((layer, steps[at + 2..].to_vec())))
        }
    }
}

fn part(name: &str) -> Part {
    let (before, layer) = split(name);
    let mut outside = before.iter();
    if outside.any(|step| DRAFT_BEGINNINGS.iter().any(|begin| step.starts_with(begin))) {
        return Part::Draft;
    }
    let tower =
        |step: &&str| TOWER_STEPS.contains(step) || TOWER_BEGINNINGS.iter().any(|begin| step.starts_with(begin));
    if before.iter().any(tower) {
        return Part::Tower;
    }
    match layer {
        Some((_, after)) if after.iter().any(|step| DRAFT_MODULES.contains(step)) => Part::Draft,
        _ => Part::Text,
    }
}

/// The tensors of a model's files by what an engine does with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    /// The tensors that an engine loads: the language model and the parts for other inputs.
    pub(crate) loaded: Headers,
    /// The tensors of the language model.
    pub(super) text: Headers,
    /// Bytes of parts for other inputs, within `loaded`.
    pub(crate) towers: u64,
    /// Bytes of layers for multi-token prediction, not loaded.
    pub(crate) drafts: u64,
}

impl Stored {
    /// Sorts tensors. A second copy of a tied embedding is not loaded.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid value of `config.json`.
    pub(crate) fn new(headers: &Headers, config: &Config) -> Result<Self> {
        let tied = config.flag(&["tie_word_embeddings"], false)?;
        let drafts = ["num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers"];
        let layers = config.layers().ok();
        let drafting = layers.zip(config.optional(&drafts)?);
        let of_layer = |name: &str| split(name).1.map(|(layer, _)| layer);
        // All tensors of a layer that drafts are its own, though few of them show it.
        let named = headers
            .tensors
            .iter()
            .filter(|tensor| part(&tensor.name) == Part::Draft);
        let within: Vec<u64> = named
            .filter(|tensor| {
                !split(&tensor.name)
                    .0
                    .iter()
                    .any(|step| DRAFT_BEGINNINGS.iter().any(|begin| step.starts_with(begin)))
            })
            .filter_map(|tensor| of_layer(&tensor.name))
            .collect();
        let drafts = |tensor: &StoredTensor| {
            of_layer(&tensor.name).is_some_and(|layer| {
                within.contains(&layer)
                    || drafting.is_some_and(|(layers, more)| (layers..layers + more).contains(&layer))
            })
        };
        let mut stored = Self::default();
        for tensor in &headers.tensors {
            let part = match part(&tensor.name) {
                Part::Text if drafts(tensor) => Part::Draft,
                part => part,
            };
            let copy = tied && tensor.name.ends_with("lm_head.weight");
            match part {
                Part::Draft => stored.drafts = stored.drafts.saturating_add(tensor.bytes),
                _ if copy => {}
                Part::Tower => {
                    stored.towers = stored.towers.saturating_add(tensor.bytes);
                    stored.loaded.tensors.push(tensor.clone());
                }
                Part::Text => {
                    stored.text.tensors.push(tensor.clone());
                    stored.loaded.tensors.push(tensor.clone());
                }
            }
        }
        Ok(stored)
    }

    /// The layers of the language model in order; empty if no tensor's name has a layer number.
    pub(super) fn layers(&self, config: &Config) -> Vec<FoundLayer> {
        let mut layers: BTreeMap<u64, BTreeMap<String, Modules>> = BTreeMap::new();
        for tensor in &self.text.tensors {
            let (_, Some((layer, steps))) = split(&tensor.name) else {
                continue;
            };
            let (module, parent) = match steps.as_slice() {
                [.., parent, module, _] => (*module, *parent),
                [module, _] => (*module, ""),
                _ => ("", ""),
            };
            let cross = steps
                .iter()
                .any(|step| step.contains("cross_attn") || step.contains("encoder_attn"));
            let parent = if cross {
                "cross_attn".to_owned()
            } else {
                parent.to_owned()
            };
            let modules = layers.entry(layer).or_default().entry(parent).or_default();
            modules.entry(module.to_owned()).or_default().push(tensor.clone());
        }
        layers
            .into_iter()
            .map(|(number, parts)| FoundLayer::new(number, &parts, config))
            .collect()
    }
}

/// Modules below one parent, with their tensors.
type Modules = BTreeMap<String, Vec<StoredTensor>>;

/// The cache or state of a layer, as its tensors show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundLayer {
    number: u64,
    /// Elements of keys and values of a token together.
    keys_and_values: Option<u64>,
    /// Elements of the latent that replaces them.
    latent: Option<u64>,
    /// Elements of a key of an indexer.
    index: Option<u64>,
    /// Outputs of the matrices that feed a recurrent part.
    recurrent: Option<u64>,
    /// Whether entries stand for several tokens.
    compresses: bool,
    /// Whether only queries are made: keys and values are those of another layer, or of another input.
    queries_only: bool,
    /// Modules that are no known part of a layer.
    unknown: Vec<String>,
}

const KEY: [&str; 5] = ["k_proj", "key", "wk", "key_proj", "to_k"];
const VALUE: [&str; 5] = ["v_proj", "value", "wv", "value_proj", "to_v"];
const FUSED: [&str; 8] = [
    "qkv_proj",
    "query_key_value",
    "Wqkv",
    "c_attn",
    "qkv",
    "W_pack",
    "att_proj",
    "qkv_linear",
];
const LATENT: [&str; 3] = ["kv_a_proj_with_mqa", "kv_a_proj", "wkv_a"];
const QUERY: [&str; 6] = ["q_proj", "wq", "query", "q_b_proj", "wq_b", "to_q"];
/// Modules that only recurrent parts have.
const RECURRENT: [&str; 9] = [
    "conv1d",
    "x_proj",
    "dt_proj",
    "in_proj",
    "in_proj_qkvz",
    "in_proj_qkv",
    "in_proj_ba",
    "conv",
    "q_conv1d",
];
/// Parameters that only recurrent parts have.
const RECURRENT_PARAMETERS: [&str; 3] = ["A_log", "dt_bias", "D"];
/// Parts of names that mark a module as a feed-forward part or a norm.
const OTHERS: [&str; 19] = [
    "mlp",
    "ffn",
    "feed_forward",
    "expert",
    "moe",
    "norm",
    "gate",
    "router",
    "up_proj",
    "down_proj",
    "fc",
    "w1",
    "w2",
    "w3",
    "dense",
    "scalar",
    "per_layer",
    "ln_",
    "laurel",
];

impl FoundLayer {
    fn new(number: u64, parts: &BTreeMap<String, Modules>, config: &Config) -> Self {
        let mut found = Self {
            number,
            ..Self::default()
        };
        for (parent, modules) in parts {
            let rows = |names: &[&str]| {
                modules
                    .iter()
                    .find(|(name, _)| names.contains(&name.as_str()))
                    .and_then(|(_, all)| outputs(all, config))
            };
            let has = |names: &[&str]| modules.keys().any(|name| names.contains(&name.as_str()));
            if parent == "indexer" {
                found.index = rows(&KEY);
                continue;
            }
            if parent == "compressor" || modules.contains_key("compressor") {
                found.compresses = true;
                continue;
            }
            if parent == "cross_attn" {
                found.queries_only = true;
                continue;
            }
            let parameter = |tensor: &StoredTensor| RECURRENT_PARAMETERS.contains(&tensor.module().1);
            if has(&RECURRENT)
                || modules.values().flatten().any(parameter)
                || modules.keys().any(|name| RECURRENT_PARAMETERS.contains(&name.as_str()))
            {
                let inward = [
                    "in_proj",
                    "in_proj_qkvz",
                    "in_proj_qkv",
                    "in_proj_z",
                    "q_proj",
                    "k_proj",
                    "v_proj",
                ];
                let inward = modules.iter().filter(|(name, _)| inward.contains(&name.as_str()));
                let sum = inward
                    .filter_map(|(_, all)| outputs(all, config))
                    .fold(0, u64::saturating_add);
                found.recurrent = Some(found.recurrent.unwrap_or(0).max(sum));
                continue;
            }
            if let Some(latent) = rows(&LATENT) {
                found.latent = Some(latent);
            } else if let Some(keys) = rows(&KEY) {
                // Without a matrix of their own, values are the keys, and kept all the same.
                found.keys_and_values = Some(keys.saturating_add(rows(&VALUE).unwrap_or(keys)));
            } else if let Some(fused) = rows(&FUSED).and_then(|rows| fused_width(rows, config)) {
                found.keys_and_values = Some(fused);
            } else if has(&KEY) || has(&FUSED) {
                found.unknown.push(parent.clone());
            } else if has(&QUERY) {
                found.queries_only = true;
            } else {
                let known = |name: &str| OTHERS.iter().any(|other| name.contains(other)) || name.parse::<u64>().is_ok();
                let vectors = |all: &[StoredTensor]| all.iter().all(|tensor| tensor.dims.len() < 2);
                let strange =
                    |(name, all): &(&String, &Vec<StoredTensor>)| !known(name) && !known(parent) && !vectors(all);
                found
                    .unknown
                    .extend(modules.iter().filter(strange).map(|(name, _)| name.clone()));
            }
        }
        // Other projections of an attention that was recognised are part of it.
        if found.keys_and_values.is_some() || found.latent.is_some() || found.recurrent.is_some() {
            found.unknown.clear();
        }
        found
    }

    fn keeps_tokens(&self) -> bool {
        self.keys_and_values.is_some() || self.latent.is_some()
    }
}

/// Outputs of a matrix, however it is packed; `None` if its tensors do not show them.
fn outputs(tensors: &[StoredTensor], config: &Config) -> Option<u64> {
    let find = |names: &[&str]| tensors.iter().find(|tensor| names.contains(&tensor.module().1));
    // AWQ and GPTQ pack inputs or outputs into integers; their scales have a column for each output.
    if find(&["qweight"]).is_some() {
        return find(&["scales"])?.dims.last().copied();
    }
    let matrix = find(&["weight", "weight_packed"])?;
    let (first, second) = (*matrix.dims.first()?, *matrix.dims.get(1)?);
    let hidden = config.optional(&["hidden_size", "n_embd", "d_model"]).ok().flatten();
    match hidden {
        // bitsandbytes stores pairs of weights as one long column.
        Some(hidden) if second == 1 && matrix.dtype == "U8" => Some(first.saturating_mul(2) / hidden),
        // GPT-2 stores inputs before outputs.
        Some(hidden) if first == hidden && second != hidden && matrix.module().0.ends_with("c_attn") => Some(second),
        _ => Some(first),
    }
}

/// Elements of keys and values that one matrix makes beside the queries.
fn fused_width(rows: u64, config: &Config) -> Option<u64> {
    let number = |names: &[&str]| config.optional(names).ok().flatten();
    let heads = number(&["num_attention_heads", "n_head"])?;
    if let Some(kv) = number(&["num_key_value_heads", "num_kv_heads", "multi_query_group_num"]) {
        let all = kv.saturating_mul(2).saturating_add(heads);
        return rows.is_multiple_of(all).then(|| rows / all * kv * 2);
    }
    let hidden = number(&["hidden_size", "n_embd"])?;
    let head_dim = number(&["head_dim"]).or_else(|| hidden.is_multiple_of(heads).then(|| hidden / heads))?;
    rows.checked_sub(heads.saturating_mul(head_dim))
}

/// The shape of a model that the headers of its files describe, with what keys of `config.json` add for any family.
///
/// # Errors
///
/// `usage` if no tensor is a token embedding, or for layers whose tensors do not show what they keep.
pub(super) fn read(config: &Config, stored: &Stored, why: &str) -> Result<ModelShape> {
    let family = config.family()?;
    let embedding = stored.text.tensors.iter().filter(|tensor| ends(tensor));
    let embedding = embedding.max_by_key(|tensor| tensor.numbers());
    let (vocabulary, hidden) = embedding
        .and_then(|tensor| Some((*tensor.dims.first()?, *tensor.dims.get(1)?)))
        .ok_or_else(|| unclear(family, "no tensor has the name of a token embedding"))?;
    let found = stored.layers(config);
    if found.is_empty() {
        return Err(unclear(family, "no tensor has the number of a layer"));
    }
    let count = found.len() as u64;
    let steps = schedule(config, count).ok();
    let step = |layer: u64| steps.as_ref().and_then(|steps| steps.get(usize::try_from(layer).ok()?));
    let windows = lists_windows(config);
    let reader = Reader::new(config).ok();
    let (mut unknown, mut stateless) = (Vec::new(), Vec::new());
    let mut layers = Vec::new();
    for layer in &found {
        let step = step(layer.number);
        let mut kept = Layer::default();
        let window = match step.map(|step| &step.mixer) {
            Some(Mixer::Window(tokens)) if windows => Some(*tokens),
            _ => None,
        };
        if layer.compresses {
            match (step.map(|step| &step.mixer), &reader) {
                (Some(Mixer::Compressed(ratio)), Some(reader)) => match reader.compressed_attention(*ratio) {
                    Ok(known) => kept = known,
                    Err(_) => unknown.push(layer.number),
                },
                _ => unknown.push(layer.number),
            }
            kept.tensors.clear();
        }
        match (layer.latent, layer.keys_and_values) {
            _ if step.is_some_and(|step| step.shares) => {}
            (Some(latent), _) => kept = kept.keeping(PerToken::new(1, latent, window)),
            (None, Some(width)) => kept = kept.keeping(PerToken::new(1, width, window)),
            (None, None) if !layer.unknown.is_empty() => unknown.push(layer.number),
            (None, None) => {}
        }
        if let Some(index) = layer.index {
            kept = kept.keeping(PerToken::of_bytes(index_key(index), 1, None));
        }
        if let Some(rows) = layer.recurrent {
            match reader.as_ref().and_then(|reader| state(reader, rows)) {
                Some(state) => kept.per_sequence = Some(state),
                None => stateless.push(layer.number),
            }
        }
        kept.phases.clear();
        layers.push(kept);
    }
    if !unknown.is_empty() {
        let known: u64 = layers
            .iter()
            .flat_map(|layer| &layer.per_token)
            .filter(|cache| cache.layout == Layout::Elements)
            .map(|cache| cache.width)
            .sum();
        return Err(Fault::usage(format!(
            "unknown attention in {}: what a token keeps there cannot be derived from its matrices; the other {} keep {known} elements of each token, and \
             the weights to load have {} bytes",
            layers_named(unknown.iter().copied()),
            layers.len() - unknown.len(),
            stored.loaded.bytes(),
        ))
        .hint("`profiler run memory_breakdown` measures what an engine needs for it"));
    }
    let mut notes = vec![format!(
        "{why}: weights, keys and values are read from the headers; of activations only the logits are counted"
    )];
    if !windows {
        notes.push(match config.get(&["sliding_window"]) {
            Some(tokens) if tokens.is_u64() => {
                format!("which layers have the window of {tokens} tokens is not known: every layer is assumed to keep every token")
            }
            _ => "every layer is assumed to keep every token".to_owned(),
        });
    }
    if !stateless.is_empty() {
        notes.push(format!(
            "unknown state in {}: what they keep of a sequence is not counted",
            layers_named(stateless)
        ));
    }
    let crossing = found.iter().filter(|layer| layer.queries_only && !layer.keeps_tokens());
    let crossing: Vec<u64> = crossing.map(|layer| layer.number).collect();
    if !crossing.is_empty() {
        notes.push(format!(
            "{} make no keys and values of tokens: they read those of another layer or of another input",
            layers_named(crossing)
        ));
    }
    if let Some(stated) = config.layers().ok().filter(|stated| *stated != count) {
        notes.push(format!("`config.json` says {stated} layers, the files have {count}"));
    }
    let bits = config
        .get(&["quantization_config"])
        .and_then(|stated| stated["bits"].as_u64())
        .unwrap_or(4);
    Ok(ModelShape {
        family: family.to_owned(),
        hidden,
        vocabulary,
        heads: 1,
        max_positions: config.optional(&["max_position_embeddings"])?,
        dtype: config.dtype()?,
        ends: vec![vector(stored.loaded.parameters(bits), Split::Replicated)],
        tied: config.flag(&["tie_word_embeddings"], false)?,
        layers,
        notes,
        by_headers: true,
    })
}

/// The state that the keys of `config.json` describe, if they agree with the outputs of the matrices that feed it.
fn state(reader: &Reader<'_>, rows: u64) -> Option<PerSequence> {
    let layer = reader.recurrent().ok()?;
    layer
        .per_sequence
        .filter(|_| layer.tensors.first().is_some_and(|tensor| tensor.rows == rows))
}

/// How the headers of a model's files agree with its `config.json`.
pub(super) enum Agreement {
    Full,
    /// Keys and values of these layers are of another size; the shape now has those of the files.
    Sizes(Vec<u64>),
    /// Layers have other parts.
    None,
}

/// Compares what layers keep, and takes sizes from the headers where they differ.
pub(super) fn agree(shape: &mut ModelShape, stored: &Stored, config: &Config) -> Agreement {
    let found = stored.layers(config);
    if found.is_empty() {
        return Agreement::Full;
    }
    let numbered = found.iter().zip(0..).all(|(layer, number)| layer.number == number);
    if !numbered || found.len() != shape.layers.len() {
        return Agreement::None;
    }
    let mut others = Vec::new();
    for (layer, found) in shape.layers.iter_mut().zip(&found) {
        let recurrent = layer.per_sequence.is_some();
        let Some(cache) = layer.per_token.first_mut() else {
            // It reads the cache of another layer, or of another input, whatever the files have.
            if recurrent != found.recurrent.is_some() && recurrent {
                return Agreement::None;
            }
            continue;
        };
        let compressed = cache.layout == Layout::Bytes;
        let Some(width) = found.latent.or(found.keys_and_values).filter(|_| !compressed) else {
            // A model without these names may still be as its family is.
            if found.recurrent.is_some() && !recurrent {
                return Agreement::None;
            }
            continue;
        };
        // A latent that the engine expands, or keys and values where a latent is kept.
        if found.latent.is_some() != (cache.heads == 1) && (found.latent.is_some() || cache.layout != Layout::Elements)
        {
            continue;
        }
        if cache.heads.saturating_mul(cache.width) != width {
            let heads = if width.is_multiple_of(cache.heads) {
                cache.heads
            } else {
                1
            };
            (cache.heads, cache.width) = (heads, width / heads);
            others.push(found.number);
        }
    }
    if others.is_empty() {
        Agreement::Full
    } else {
        Agreement::Sizes(others)
    }
}

/// Whether this is a token embedding.
fn ends(tensor: &StoredTensor) -> bool {
    let names = [
        "embed_tokens",
        "wte",
        "embed_in",
        "word_embeddings",
        "embeddings",
        "tok_embeddings",
        "embedding",
        "embed",
    ];
    let (module, leaf) = tensor.module();
    let name = module.rsplit('.').next().unwrap_or_default();
    leaf == "weight" && tensor.dims.len() == 2 && names.contains(&name) && split(&tensor.name).1.is_none()
}

fn unclear(family: &str, why: &str) -> Fault {
    Fault::usage(format!(
        "the family `{family}` is not known, and the headers of its files do not give its KV cache per token: {why}"
    ))
    .hint("start an engine with it: `profiler run memory_breakdown` measures what it needs")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn headers(tensors: &[(&str, &str, &[u64])]) -> Headers {
        let tensor = |(name, dtype, dims): &(&str, &str, &[u64])| StoredTensor {
            name: (*name).to_owned(),
            dtype: (*dtype).to_owned(),
            dims: dims.to_vec(),
            bytes: dims.iter().product::<u64>() * 2,
        };
        Headers {
            tensors: tensors.iter().map(tensor).collect(),
        }
    }

    /// Reads a model of an unknown family: these tensors, and an embedding of 100 tokens in 64 elements.
    fn read_model(config: Value, tensors: &[(&str, &str, &[u64])]) -> Result<ModelShape> {
        let mut json = json!({"model_type": "brand_new", "hidden_size": 64, "num_attention_heads": 4});
        json.as_object_mut()
            .unwrap()
            .extend(config.as_object().unwrap().clone());
        let config = Config::new(&json).unwrap();
        let mut headers = headers(tensors);
        headers
            .tensors
            .extend(self::headers(&[("model.embed_tokens.weight", "BF16", &[100, 64])]).tensors);
        read(&config, &Stored::new(&headers, &config).unwrap(), "it is not known")
    }

    fn widths(shape: &ModelShape) -> Vec<u64> {
        let layers = shape.layers.iter();
        layers
            .map(|layer| layer.per_token.iter().map(|cache| cache.width).sum())
            .collect()
    }

    /// Name, type and shape of a tensor.
    type Tensor = (&'static str, &'static str, &'static [u64]);

    #[test]
    fn outputs_are_read_however_they_are_packed() {
        let packed: &[(&str, &[Tensor])] = &[
            ("plain", &[("weight", "BF16", &[16, 64])]),
            (
                "AWQ",
                &[
                    ("qweight", "I32", &[64, 2]),
                    ("qzeros", "I32", &[2, 2]),
                    ("scales", "F16", &[2, 16]),
                ],
            ),
            (
                "GPTQ",
                &[
                    ("qweight", "I32", &[8, 16]),
                    ("scales", "F16", &[1, 16]),
                    ("g_idx", "I32", &[64]),
                ],
            ),
            (
                "compressed-tensors",
                &[
                    ("weight_packed", "I32", &[16, 8]),
                    ("weight_scale", "BF16", &[16, 2]),
                    ("weight_shape", "I64", &[2]),
                ],
            ),
            (
                "NVFP4",
                &[
                    ("weight", "U8", &[16, 32]),
                    ("weight_scale", "F8_E4M3", &[16, 4]),
                    ("weight_scale_2", "F32", &[]),
                ],
            ),
            (
                "bitsandbytes",
                &[("weight", "U8", &[512, 1]), ("weight.absmax", "U8", &[16])],
            ),
            (
                "FP8",
                &[("weight", "F8_E4M3", &[16, 64]), ("weight_scale_inv", "F32", &[1, 1])],
            ),
        ];
        for (name, tensors) in packed {
            let named: Vec<(String, &str, &[u64])> = ["k_proj", "v_proj"]
                .iter()
                .flat_map(|module| {
                    tensors.iter().map(move |(leaf, dtype, dims)| {
                        (format!("model.layers.0.self_attn.{module}.{leaf}"), *dtype, *dims)
                    })
                })
                .collect();
            let named: Vec<(&str, &str, &[u64])> = named
                .iter()
                .map(|(name, dtype, dims)| (name.as_str(), *dtype, *dims))
                .collect();
            assert_eq!(widths(&read_model(json!({}), &named).unwrap()), [32], "{name}");
        }
    }

    #[test]
    fn fused_matrices_need_the_number_of_heads() {
        let fused: &[(&str, &str, &[u64])] = &[("model.layers.0.self_attn.qkv_proj.weight", "BF16", &[96, 64])];
        // Four heads of queries, one of keys and one of values.
        assert_eq!(
            widths(&read_model(json!({"num_key_value_heads": 1}), fused).unwrap()),
            [32]
        );
        assert_eq!(widths(&read_model(json!({}), fused).unwrap()), [32]);
        let unknown = read_model(json!({"num_attention_heads": null}), fused).unwrap_err();
        assert!(
            unknown.message.contains("unknown attention in layer 0"),
            "{}",
            unknown.message
        );
    }

    #[test]
    fn towers_and_drafts_are_no_layers() {
        let keys = |prefix: &str| {
            (
                format!("{prefix}.self_attn.k_proj.weight"),
                format!("{prefix}.self_attn.v_proj.weight"),
            )
        };
        for other in [
            "vision_tower.encoder.layers.0",
            "model.visual.blocks.0",
            "vision_model.encoder.layers.0",
            "vpm.encoder.layers.0",
            "audio_tower.layers.0",
            "model.vision_tower.vision_model.encoder.layers.0",
            "thinker.audio_tower.layers.0",
            "mtp.layers.0",
            "model.mtp.layers.0",
            "draft_model.layers.0",
            "model.layers.1",
        ] {
            let (text, more) = (keys("model.language_model.layers.0"), keys(other));
            let mut tensors: Vec<(&str, &str, &[u64])> =
                vec![(&text.0, "BF16", &[16, 64]), (&text.1, "BF16", &[16, 64])];
            tensors.extend([
                (more.0.as_str(), "BF16", &[32, 64][..]),
                (more.1.as_str(), "BF16", &[32, 64][..]),
            ]);
            // The last one is told by its matrix that joins the hidden state and the next token.
            tensors.extend((other == "model.layers.1").then_some((
                "model.layers.1.eh_proj.weight",
                "BF16",
                &[64, 128][..],
            )));
            let shape = read_model(json!({"num_hidden_layers": 1}), &tensors).unwrap();
            assert_eq!(widths(&shape), [32], "{other}");
            let draft = other.contains("mtp") || other.contains("draft") || other == "model.layers.1";
            let (both, text) = (32 * 64 + 64 * 64 + 6400, 32 * 64 + 6400);
            assert_eq!(shape.parameters(), if draft { text } else { both }, "{other}");
        }
        let (text, next) = (keys("model.layers.0"), keys("model.layers.1"));
        let tensors: Vec<(&str, &str, &[u64])> = [&text.0, &text.1, &next.0, &next.1]
            .into_iter()
            .map(|name| (name.as_str(), "BF16", &[16, 64][..]))
            .collect();
        let stated = json!({"num_hidden_layers": 1, "num_nextn_predict_layers": 1});
        assert_eq!(widths(&read_model(stated, &tensors).unwrap()), [32]);
    }

    #[test]
    fn a_tied_copy_is_not_loaded() {
        let tensors: &[(&str, &str, &[u64])] = &[
            ("model.layers.0.self_attn.k_proj.weight", "BF16", &[16, 64]),
            ("lm_head.weight", "BF16", &[100, 64]),
        ];
        let parameters = |tied: bool| {
            read_model(json!({"tie_word_embeddings": tied}), tensors)
                .unwrap()
                .parameters()
        };
        assert_eq!(parameters(false) - parameters(true), 6400);
    }

    #[test]
    fn latents_indexes_and_shared_keys_are_seen() {
        let tensors: &[(&str, &str, &[u64])] = &[
            ("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", "BF16", &[576, 64]),
            ("model.layers.0.self_attn.indexer.wk.weight", "BF16", &[128, 64]),
            // Values that are the keys.
            ("model.layers.1.self_attn.k_proj.weight", "BF16", &[16, 64]),
            ("model.layers.1.self_attn.o_proj.weight", "BF16", &[64, 64]),
            // Only queries: keys and values are those of another layer.
            ("model.layers.2.self_attn.q_proj.weight", "BF16", &[64, 64]),
            ("model.layers.2.self_attn.o_proj.weight", "BF16", &[64, 64]),
            // No attention.
            ("model.layers.3.mlp.up_proj.weight", "BF16", &[64, 64]),
        ];
        let shape = read_model(json!({}), tensors).unwrap();
        assert_eq!(widths(&shape), [576 + 132, 32, 0, 0]);
        assert!(
            shape.notes.iter().any(|note| note.starts_with("layer 2 make no keys")),
            "{:?}",
            shape.notes
        );
    }

    #[test]
    fn what_layers_keep_is_named_where_it_is_unknown() {
        let tensors: &[(&str, &str, &[u64])] = &[
            ("model.layers.0.self_attn.k_proj.weight", "BF16", &[16, 64]),
            ("model.layers.1.wormhole.throat.weight", "BF16", &[16, 64]),
            ("model.layers.2.mixer.in_proj.weight", "BF16", &[16, 64]),
        ];
        let unknown = read_model(json!({}), tensors).unwrap_err();
        assert!(
            unknown.message.contains("unknown attention in layer 1:"),
            "{}",
            unknown.message
        );
        let recurrent = read_model(json!({}), &[tensors[0], tensors[2]]).unwrap();
        assert!(
            recurrent
                .notes
                .iter()
                .any(|note| note.contains("unknown state in layer 2")),
            "{:?}",
            recurrent.notes
        );
    }
}
