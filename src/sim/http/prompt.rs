//! A prompt in a request: text, token ids, or a list of either. Ids are only counted and hashed (for the prefix
//! cache), not stored.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use super::api_error::ApiError;
use crate::sim::engine_core::EngineCore;
use crate::sim::prefixes::PrefixHashes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    Text(String),
    Ids(PrefixHashes),
    Several(Vec<Prompt>),
}

impl Prompt {
    /// Number of prompts and tokens of each, as this engine counts.
    pub(super) fn measure(&self, core: &EngineCore) -> Result<(u64, u64), ApiError> {
        let engine = core.setup.profile.engine;
        match self {
            Self::Ids(ids) if ids.tokens() == 0 => Err(ApiError::bad_request(engine, "prompt is empty")),
            Self::Ids(ids) => Ok((1, ids.tokens())),
            Self::Text(text) => {
                let count = core.counter.count(text, true);
                count
                    .map(|count| (1, count))
                    .map_err(|fault| ApiError::bad_request(engine, fault.message))
            }
            Self::Several(prompts) => {
                let sizes = prompts
                    .iter()
                    .map(|prompt| prompt.measure(core))
                    .collect::<Result<Vec<_>, _>>()?;
                let Some((_, first)) = sizes.first() else {
                    return Err(ApiError::bad_request(engine, "prompt is empty"));
                };
                if sizes.iter().any(|(_, tokens)| tokens != first) {
                    return Err(ApiError::bad_request(
                        engine,
                        "SIMULATED: several prompts must have the same length",
                    ));
                }
                Ok((sizes.len() as u64, *first))
            }
        }
    }
}

impl Prompt {
    /// Prefix hashes for the prefix cache; none for several prompts.
    pub(super) fn hashes(&self, core: &EngineCore) -> Option<PrefixHashes> {
        match self {
            Self::Ids(ids) => Some(ids.clone()),
            Self::Text(text) => {
                let mut hashes = PrefixHashes::default();
                let tokens = core.counter.tokens(text, true).ok()?;
                tokens.iter().for_each(|token| hashes.push(u64::from(token.id)));
                Some(hashes)
            }
            Self::Several(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptVisitor)
    }
}

struct PromptVisitor;

impl<'de> Visitor<'de> for PromptVisitor {
    type Value = Prompt;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, token ids, or a list of either")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Prompt, E> {
        Ok(Prompt::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Prompt, A::Error> {
        let (mut ids, mut several) = (PrefixHashes::default(), Vec::new());
        while let Some(item) = items.next_element::<Item>()? {
            match item {
                Item::Id(id) => ids.push(id),
                Item::Prompt(prompt) => several.push(prompt),
            }
        }
        match (ids.tokens(), several.is_empty()) {
            (_, true) => Ok(Prompt::Ids(ids)),
            (0, false) => Ok(Prompt::Several(several)),
            _ => Err(A::Error::custom("token ids and prompts are mixed")),
        }
    }
}

enum Item {
    Id(u64),
    Prompt(Prompt),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token id or a prompt")
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Item, E> {
        Ok(Item::Id(id))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Item, E> {
        PromptVisitor.visit_str(text).map(Item::Prompt)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Item, A::Error> {
        PromptVisitor.visit_seq(items).map(Item::Prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_prompt_is_read_and_mixtures_are_refused() {
        let read = |text: &str| serde_json::from_str::<Prompt>(text);
        let ids = |ids: &[u64]| {
            let mut hashes = PrefixHashes::default();
            ids.iter().for_each(|id| hashes.push(*id));
            Prompt::Ids(hashes)
        };
        assert_eq!(read("\"a b\"").unwrap(), Prompt::Text("a b".to_owned()));
        assert_eq!(read("[1, 2, 3]").unwrap(), ids(&[1, 2, 3]));
        assert_eq!(read("[[1], [2]]").unwrap(), Prompt::Several(vec![ids(&[1]), ids(&[2])]));
        assert!(read("[1, \"a\"]").is_err());
        assert!(read("[-1]").is_err());
        assert!(read("{}").is_err());
    }
}
