//! Selects the token ids that a prompt may contain: ordinary vocabulary, without special tokens.

use std::collections::HashSet;

use serde_json::Value;

use crate::fault::{Fault, Result};

use super::Tokenizer;

/// Minimum number of ids for prompts that differ.
const MIN_IDS: usize = 2;

/// The usable ids of a tokenizer, ascending. Excludes added, special and reserved tokens, single bytes, and ids without
/// an embedding, which would crash the engine.
pub(super) fn for_tokenizer(tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let vocab_size = size(tokenizer.config());
    let ends = ends(tokenizer.config());
    let inner = tokenizer.inner();
    let added = inner.get_added_tokens_decoder();
    let mut ids: Vec<u32> = inner
        .get_vocab(false)
        .into_iter()
        .filter(|(token, id)| {
            !added.contains_key(id)
                && !ends.contains(id)
                && vocab_size.is_none_or(|size| u64::from(*id) < size)
                && !is_reserved(token)
        })
        .map(|(_, id)| id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    enough(ids)
}

/// The usable ids of a vocabulary of known size: its middle half, because special tokens are at the ends of all common
/// vocabularies.
pub(super) fn for_vocabulary_size(size: u32) -> Result<Vec<u32>> {
    enough((size / 4..size - size / 4).collect())
}

fn enough(ids: Vec<u32>) -> Result<Vec<u32>> {
    if ids.len() < MIN_IDS {
        return Err(Fault::usage(format!(
            "a vocabulary with {} usable tokens cannot make different prompts",
            ids.len()
        ))
        .hint("name the tokenizer of the model"));
    }
    Ok(ids)
}

/// Whether a vocabulary token has a special meaning: `<unk>`, `[unused12]`, `<|reserved_3|>`, `<0x0A>`.
fn is_reserved(token: &str) -> bool {
    let inside = |open, close| token.len() > 2 && token.starts_with(open) && token.ends_with(close);
    token.is_empty() || inside('<', '>') || inside('[', ']')
}

/// The number of embeddings; multimodal models have it in their text part.
fn size(config: &Value) -> Option<u64> {
    [config, &config["text_config"]]
        .into_iter()
        .find_map(|part| part["vocab_size"].as_u64())
}

/// The ids that begin, end or pad a text, according to `config.json`.
fn ends(config: &Value) -> HashSet<u32> {
    let ids = |value: &Value| match value {
        Value::Array(list) => list.clone(),
        other => vec![other.clone()],
    };
    [config, &config["text_config"]]
        .into_iter()
        .flat_map(|part| ["bos_token_id", "eos_token_id", "pad_token_id"].map(|key| ids(&part[key])))
        .flatten()
        .filter_map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
        .collect()
}

#[cfg(test)]
mod tests;
