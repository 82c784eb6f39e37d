//! Text for an engine whose tokenizer nobody named: common words, each of which is one token in the vocabularies of the model families
//! in use (GPT-2, Llama, Mistral, Qwen, Gemma, Phi). Only the engine's own count proves it, through [`super::Calibration`].

use super::Ask;
use super::draw::{Draw, heads};

/// Nouns among the most frequent words of English text.
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

/// The words of so many tokens, less the one that most tokenizers put first: too short a prompt is counted and corrected, one too long for
/// its engine is refused without a count. They begin as no other prompt of this seed does, but for the prefix that all share.
pub(super) fn text(seed: u64, serial: u64, ask: &Ask) -> String {
    let count = ask.tokens.saturating_sub(1).max(1);
    let any = |draw: &mut Draw| WORDS[draw.below(WORDS.len())];
    let mut draw = Draw::prefix(seed);
    let mut words: Vec<&str> = (0..ask.shared_prefix).map(|_| any(&mut draw)).collect();
    words.extend(heads(serial, WORDS.len()).map(|index| WORDS[index]));
    words.truncate(count);
    let mut draw = Draw::of(seed, serial);
    words.extend((words.len()..count).map(|_| any(&mut draw)));
    words.join(" ")
}

#[cfg(test)]
mod tests;
