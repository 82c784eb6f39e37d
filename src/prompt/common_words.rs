//! Makes text for an unknown tokenizer: common words, each a single token in the common vocabularies (GPT-2, Llama,
//! Mistral, Qwen, Gemma, Phi). Only the engine's own count proves it, see [`super::Calibration`].

use super::PromptSpec;
use super::rng::{PromptRng, first_two};

/// Frequent English nouns.
const WORDS: [&str; 64] = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
    "country",
    "problem",
    "hand",
    "part",
    "place",
    "case",
    "week",
    "company",
    "system",
    "program",
    "question",
    "work",
    "government",
    "number",
    "night",
    "point",
    "home",
    "water",
    "room",
    "mother",
    "area",
    "money",
    "story",
    "fact",
    "month",
    "lot",
    "right",
    "study",
    "book",
    "eye",
    "job",
    "word",
    "business",
    "issue",
    "side",
    "kind",
    "head",
    "house",
    "service",
    "friend",
    "father",
    "power",
    "hour",
    "game",
    "line",
    "end",
    "member",
    "law",
];

/// A text of one word less than the specified tokens, because most tokenizers add one in front: a prompt that is too
/// short is counted and corrected, but one that is too long may be rejected without a count. After the shared prefix,
/// it starts differently from all other prompts of this seed.
pub(super) fn text(seed: u64, serial: u64, spec: &PromptSpec) -> String {
    let count = spec.tokens.saturating_sub(1).max(1);
    let random_word = |rng: &mut PromptRng| WORDS[rng.below(WORDS.len())];
    let mut rng = PromptRng::for_prefix(seed);
    let mut words: Vec<&str> = (0..spec.shared_prefix).map(|_| random_word(&mut rng)).collect();
    words.extend(first_two(serial, WORDS.len()).map(|index| WORDS[index]));
    words.truncate(count);
    let mut rng = PromptRng::for_prompt(seed, serial);
    words.extend((words.len()..count).map(|_| random_word(&mut rng)));
    words.join(" ")
}

#[cfg(test)]
mod tests;
