//! Which token ids a prompt may consist of: ordinary vocabulary, never a token that means something to an engine.

use std::collections::HashSet;

use serde_json::Value;

use crate::fault::{Fault, Result};

use super::Tokenizer;

/// Fewer ids than this cannot make prompts that differ.
const FEWEST: usize = 2;

/// The ordinary ids of a tokenizer, ascending: neither added nor special, nor reserved, nor a lone byte, nor beyond what the
/// model has embeddings for, which would end the engine.
pub(super) fn of_tokenizer(tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let known = size(tokenizer.config());
    let ends = ends(tokenizer.config());
    let inner = tokenizer.inner();
    let added = inner.get_added_tokens_decoder();
    let mut ids: Vec<u32> = inner
        .get_vocab(false)
        .into_iter()
        .filter(|(token, id)| {
            !added.contains_key(id)
                && !ends.contains(id)
                && known.is_none_or(|size| u64::from(*id) < size)
                && !is_reserved(token)
        })
        .map(|(_, id)| id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    enough(ids)
}

/// The ids of a vocabulary of which only the size is known: its middle half. Special tokens are kept at the two ends of every
/// vocabulary in use.
pub(super) fn of_size(size: u32) -> Result<Vec<u32>> {
    enough((size / 4..size - size / 4).collect())
}

fn enough(ids: Vec<u32>) -> Result<Vec<u32>> {
    if ids.len() < FEWEST {
        return Err(Fault::usage(format!(
            "a vocabulary with {} ordinary tokens cannot make prompts that differ",
            ids.len()
        ))
        .hint("name the tokenizer of the model"));
    }
    Ok(ids)
}

/// Tokens that are in the vocabulary itself, and yet mean something: `<unk>`, `[unused12]`, `<|reserved_3|>`, `<0x0A>`.
fn is_reserved(token: &str) -> bool {
    let inside = |open, close| token.len() > 2 && token.starts_with(open) && token.ends_with(close);
    token.is_empty() || inside('<', '>') || inside('[', ']')
}

/// How many embeddings the model has; multimodal models keep it with their text part.
fn size(config: &Value) -> Option<u64> {
    [config, &config["text_config"]]
        .into_iter()
        .find_map(|part| part["vocab_size"].as_u64())
}

/// The ids that end, begin or fill a text by the word of `config.json`.
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
