//! The token ids that a prompt may contain, and reproducible random choices among them.
//!
//! Usable ids are ordinary vocabulary, without special tokens. The random generator is `ChaCha8`, which is identical on
//! every machine; each prompt has its own stream.

use std::collections::HashSet;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::Tokenizer;
use crate::fault::{Fault, Result};

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

/// Stream of the shuffle; prompts are numbered from 0.
const SHUFFLE: u64 = u64::MAX;
/// Stream of the shared prefix.
const PREFIX: u64 = u64::MAX - 1;

pub(super) struct PromptRng(ChaCha8Rng);

impl PromptRng {
    /// The generator for this prompt number.
    pub(super) fn for_prompt(seed: u64, serial: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(serial);
        Self(generator)
    }

    /// The generator for the shared prefix.
    pub(super) fn for_prefix(seed: u64) -> Self {
        Self::for_prompt(seed, PREFIX)
    }

    /// A number below `bound`, which must not be 0. The bias of the multiplication is below `bound` / 2^32.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let product = u64::from(self.0.next_u32()) * bound as u64;
        (product >> 32) as usize
    }
}

/// Shuffles `items` by seed.
pub(super) fn shuffle<T>(seed: u64, items: &mut [T]) {
    let mut rng = PromptRng::for_prompt(seed, SHUFFLE);
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last + 1));
    }
}

/// The indices of the first two of `len` items in a prompt. The first index differs from those of the previous `len -
/// 1` prompts, and the pair from those of the previous `len²`.
pub(super) fn first_two(serial: u64, len: usize) -> [usize; 2] {
    let len = len as u64;
    [(serial % len) as usize, ((serial / len) % len) as usize]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_ends_of_an_unknown_vocabulary_are_left_out() {
        let ids = for_vocabulary_size(32_000).unwrap();
        assert_eq!((ids[0], *ids.last().unwrap()), (8_000, 23_999));
        assert!(for_vocabulary_size(1).is_err());
        assert!(for_vocabulary_size(0).is_err());
        assert_eq!(
            for_vocabulary_size(u32::MAX / 1000).unwrap().len() as u32,
            u32::MAX / 1000 - 2 * (u32::MAX / 4000)
        );
    }

    #[test]
    fn reserved_tokens_are_distinguished_from_words() {
        for token in [
            "<unk>",
            "[PAD]",
            "[unused3]",
            "<0x0A>",
            "<|reserved_special_token_1|>",
            "",
        ] {
            assert!(is_reserved(token), "{token}");
        }
        for token in ["<", ">", "[]", "a", "Ġthe", "▁the", "##ing", "<a"] {
            assert!(!is_reserved(token), "{token}");
        }
    }

    #[test]
    fn vocabulary_size_and_special_ids_are_read_from_either_part() {
        let config = json!({ "text_config": { "vocab_size": 9, "eos_token_id": [1, 106] }, "bos_token_id": 2, "pad_token_id": null });
        assert_eq!(size(&config), Some(9));
        assert_eq!(ends(&config), HashSet::from([1, 2, 106]));
        assert_eq!(size(&Value::Null), None);
        assert!(ends(&Value::Null).is_empty());
    }
}

#[cfg(test)]
mod rng_tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_prompts_start_the_same() {
        let seen: HashSet<_> = (0..49).map(|serial| first_two(serial, 7)).collect();
        assert_eq!(seen.len(), 49);
        for serial in 0..43 {
            let firsts: HashSet<_> = (serial..serial + 7).map(|n| first_two(n, 7)[0]).collect();
            assert_eq!(firsts.len(), 7);
        }
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_follows_the_seed() {
        let mut one: Vec<u32> = (0..100).collect();
        let mut two = one.clone();
        let mut other = one.clone();
        shuffle(1, &mut one);
        shuffle(1, &mut two);
        shuffle(2, &mut other);
        assert_eq!(one, two);
        assert_ne!(one, other);
        one.sort_unstable();
        assert_eq!(one, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn every_number_below_the_bound_is_drawn() {
        let mut rng = PromptRng::for_prompt(3, 0);
        let seen: HashSet<_> = (0..1000).map(|_| rng.below(5)).collect();
        assert_eq!(seen, (0..5).collect());
    }
}
