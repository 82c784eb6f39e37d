//! Makes text of exactly N tokens with a tokenizer, or text of common words for an unknown tokenizer.
//!
//! With a tokenizer, the first word, the last word and the text around them are encoded; the lexicon supplies the token
//! counts of the words between. If the lexicon cannot guarantee them, the whole text is encoded, and words or letters
//! are removed or added until the count is exact.
//!
//! The common words are single tokens in the common vocabularies (GPT-2, Llama, Mistral, Qwen, Gemma, Phi). Only the
//! engine's own count proves the length of such a text, see [`super::Calibration`].
//!
//! Usable token ids are ordinary vocabulary, without special tokens. The random generator is `ChaCha8`, which is identical
//! on every machine; each prompt has its own stream.
//!
//! The tokens of a usable word do not depend on its neighbours. Candidates are lower-case words of the vocabulary. They
//! are joined in random order and encoded once; a word is kept if its tokens begin at its space and end with the word.
//! If the pre-tokenizer also cuts this text at every space, the token count of any text of these words is the sum of
//! the words' counts. Otherwise (SentencePiece models without a pre-tokenizer) every text is encoded as a whole.

use std::collections::{BTreeSet, HashSet};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use tokenizers::tokenizer::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

use super::template::Wrapper;
use super::{PromptSpec, Tokenizer};
use crate::fault::{Fault, Result};

/// Maximum corrections of a text.
const MAX_REPAIRS: usize = 64;
/// Letters to append to the last word if no whole word fits.
const LETTERS: &str = "aeioxzqkjvw";

pub(super) struct TextWriter<'a> {
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) lexicon: &'a Lexicon,
    pub(super) wrapper: &'a Wrapper,
    pub(super) seed: u64,
}

impl TextWriter<'_> {
    /// The text with this number.
    pub(super) fn write(&self, spec: &PromptSpec, serial: u64) -> Result<String> {
        let mut rng = PromptRng::for_prompt(self.seed, serial);
        let mut words = self.opening(spec, serial)?;
        let first = words.remove(0);
        let smallest = self.count(&first.text)?;
        if spec.tokens < smallest {
            return Err(Fault::usage(format!(
                "a text of {} tokens is impossible: what the engine adds and one word are {smallest}",
                spec.tokens
            ))
            .hint(format!("ask for at least {smallest}")));
        }
        let last = self.random_word(&mut rng);
        let ends = self.count(&format!("{} {}", first.text, last.text))?;
        if spec.tokens < ends {
            return self.repair(first.text, spec.tokens, &mut rng);
        }

        let mut text = String::with_capacity(spec.tokens * 8);
        text.push_str(&first.text);
        let mut rest = spec.tokens - ends;
        let mut planned = words.into_iter();
        while rest > 0 {
            let word = planned.next().unwrap_or_else(|| self.random_word(&mut rng).clone());
            if word.cost > rest {
                break;
            }
            push(&mut text, &word.text);
            rest -= word.cost;
        }
        push(&mut text, &last.text);
        if rest == 0 && self.lexicon.isolated {
            return Ok(text);
        }
        self.repair(text, spec.tokens, &mut rng)
    }

    /// The shared first words, followed by this text's own.
    fn opening(&self, spec: &PromptSpec, serial: u64) -> Result<Vec<Word>> {
        let words = &self.lexicon.words;
        let [one, two] = first_two(serial, words.len());
        let own_second = words[two].clone();
        let shared = match spec.shared_prefix {
            0 => 0,
            prefix => prefix.saturating_sub(self.shared_tokens()?),
        };
        if shared == 0 {
            let [one, _] = first_two(serial, self.lexicon.first_words.len());
            return Ok(vec![self.first_word(one), own_second]);
        }
        let mut rng = PromptRng::for_prefix(self.seed);
        let mut opening = vec![self.first_word(rng.below(self.lexicon.first_words.len()))];
        let mut rest = shared - 1;
        while rest > 0 {
            let word = self.random_word(&mut rng).clone();
            rest = rest.saturating_sub(word.cost);
            opening.push(word);
        }
        opening.extend([words[one].clone(), own_second]);
        Ok(opening)
    }

    /// Number of tokens before the first one that depends on the text: the common start of two texts with different
    /// first words.
    fn shared_tokens(&self) -> Result<usize> {
        let ids = |word: &str| self.tokenizer.ids(&self.wrapper.wrap(word), self.wrapper.special);
        let (one, two) = (ids(&self.lexicon.first_words[0])?, ids(&self.lexicon.first_words[1])?);
        Ok(one.iter().zip(&two).take_while(|(one, two)| one == two).count())
    }

    fn count(&self, text: &str) -> Result<usize> {
        self.tokenizer.count(&self.wrapper.wrap(text), self.wrapper.special)
    }

    fn first_word(&self, index: usize) -> Word {
        Word {
            text: self.lexicon.first_words[index].clone(),
            cost: 1,
        }
    }

    fn random_word(&self, rng: &mut PromptRng) -> &Word {
        &self.lexicon.words[rng.below(self.lexicon.words.len())]
    }

    /// Corrects a text to the exact count by encoding it as a whole.
    fn repair(&self, mut text: String, tokens: usize, rng: &mut PromptRng) -> Result<String> {
        for _ in 0..MAX_REPAIRS {
            let counted = self.count(&text)?;
            if counted == tokens {
                return Ok(text);
            }
            let changed = if counted > tokens {
                shorten(&mut text)
            } else {
                self.lengthen(&mut text, counted, tokens, rng)?
            };
            if !changed {
                break;
            }
        }
        Err(Fault::usage(format!(
            "no text of exactly {tokens} tokens can be made with this tokenizer"
        ))
        .hint("ask for token ids, or for another length"))
    }

    /// Appends words that should fit, or else a letter. Returns false if nothing fits.
    fn lengthen(&self, text: &mut String, counted: usize, tokens: usize, rng: &mut PromptRng) -> Result<bool> {
        let mut rest = tokens - counted;
        let before = text.len();
        while let Some(word) = self.fitting(rest, rng) {
            push(text, &word.text);
            rest -= word.cost;
        }
        if text.len() > before {
            return Ok(true);
        }
        for letter in LETTERS.chars() {
            text.push(letter);
            let now = self.count(text)?;
            if now > counted && now <= tokens {
                return Ok(true);
            }
            text.pop();
        }
        Ok(false)
    }

    fn fitting(&self, rest: usize, rng: &mut PromptRng) -> Option<&Word> {
        let words = &self.lexicon.words;
        let start = rng.below(words.len());
        words[start..]
            .iter()
            .chain(&words[..start])
            .find(|word| word.cost <= rest)
    }
}

fn push(text: &mut String, word: &str) {
    text.push(' ');
    text.push_str(word);
}

/// Removes the last word, or the last letter of the only word.
fn shorten(text: &mut String) -> bool {
    match text.rfind(' ') {
        Some(space) => text.truncate(space),
        None if text.len() > 1 => {
            text.pop();
        }
        None => return false,
    }
    true
}

/// Frequent English nouns.
const WORDS: &str = "time year people way day man thing woman life child world school state family student group country \
    problem hand part place case week company system program question work government number night point \
    home water room mother area money story fact month lot right study book eye job word business issue \
    side kind head house service friend father power hour game line end member law";

/// A text with one word fewer than the specified tokens, because most tokenizers add one in front. A prompt that is too
/// short is counted and corrected, but one that is too long may be rejected without a count. After the shared prefix,
/// the text starts differently from all other prompts of this seed.
pub(super) fn common_words(seed: u64, serial: u64, spec: &PromptSpec) -> String {
    let count = spec.tokens.saturating_sub(1).max(1);
    let all: Vec<&str> = WORDS.split(' ').collect();
    let random_word = |rng: &mut PromptRng| all[rng.below(all.len())];
    let mut prefix_rng = PromptRng::for_prefix(seed);
    let mut words: Vec<&str> = (0..spec.shared_prefix).map(|_| random_word(&mut prefix_rng)).collect();
    words.extend(first_two(serial, all.len()).map(|index| all[index]));
    words.truncate(count);
    let mut rng = PromptRng::for_prompt(seed, serial);
    words.extend((words.len()..count).map(|_| random_word(&mut rng)));
    words.join(" ")
}

/// Minimum number of ids needed for different prompts.
const MIN_IDS: usize = 2;

/// The usable ids of a tokenizer, ascending. Excludes added, special and reserved tokens, single bytes, and ids without
/// an embedding, which would crash the engine.
pub(super) fn ids_of_tokenizer(tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let vocab_size = size(&tokenizer.config);
    let ends = ends(&tokenizer.config);
    let inner = &tokenizer.inner;
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
pub(super) fn ids_of_vocabulary_size(size: u32) -> Result<Vec<u32>> {
    enough((size / 4..size - size / 4).collect())
}

fn enough(ids: Vec<u32>) -> Result<Vec<u32>> {
    if ids.len() < MIN_IDS {
        let message = format!(
            "a vocabulary with {} usable tokens cannot make different prompts",
            ids.len()
        );
        return Err(Fault::usage(message).hint("name the tokenizer of the model"));
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

/// The ids that start, end or pad a text, according to `config.json`.
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

/// The indices of the first two of `len` items in a prompt. The first index differs from those of the previous
/// `len - 1` prompts, and the pair from those of the previous `len² - 1`.
pub(super) fn first_two(serial: u64, len: usize) -> [usize; 2] {
    let len = len as u64;
    [(serial % len) as usize, ((serial / len) % len) as usize]
}

/// Maximum number of words. More words only take longer to load.
const MAX_WORDS: usize = 4096;
/// If there are fewer single-token words, words of several tokens are used as well.
const MIN_WORDS: usize = 16;
/// Maximum word length in letters.
const LONGEST: usize = 12;

/// A word and its token count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Lower-case letters.
    pub(super) text: String,
    /// Tokens, including the preceding space.
    pub(super) cost: usize,
}

#[derive(Debug)]
pub(super) struct Lexicon {
    /// In random order.
    pub(super) words: Vec<Word>,
    /// Words that are also a single token at the start of a text, so that texts with different first words differ in
    /// their first token. Never empty.
    pub(super) first_words: Vec<String>,
    /// Whether the tokens of a text are the sum of its words' tokens.
    pub(super) isolated: bool,
}

impl Lexicon {
    /// Finds the words of a tokenizer; `usable_ids` are the ids that a prompt may contain.
    ///
    /// # Errors
    ///
    /// `usage` if there are none, as in a vocabulary without Latin letters.
    pub(super) fn new(tokenizer: &Tokenizer, usable_ids: &[u32], seed: u64) -> Result<Self> {
        let mut candidates = candidates(tokenizer);
        shuffle(seed, &mut candidates);
        candidates.truncate(MAX_WORDS);
        // The first word has no preceding space, so its count is not valid elsewhere. It is therefore added twice.
        candidates.insert(0, candidates[0].clone());
        let text = candidates.join(" ");
        let ends = word_ends(&candidates);

        let costs = costs(tokenizer, &text, &ends, &usable_ids.iter().copied().collect())?;
        let costed = candidates.into_iter().zip(costs).skip(1);
        let (single, several): (Vec<_>, Vec<_>) = costed
            .filter_map(|(text, cost)| cost.map(|cost| Word { text, cost }))
            .partition(|word| word.cost == 1);
        let mut words = single;
        if words.len() < MIN_WORDS {
            words.extend(several);
        }
        if words.len() < 2 {
            return Err(Fault::usage(
                "the tokenizer's vocabulary has no words that text of exactly N tokens could be made of",
            )
            .hint("ask for token ids: `form: \"tokens\"`"));
        }
        Ok(Self {
            first_words: first_words(tokenizer, &words)?,
            isolated: cuts_at_spaces(tokenizer, &text, &ends)?,
            words,
        })
    }
}

/// Words that may be single tokens; pairs of letters if there are hardly any. Sorted, because the vocabulary has no
/// order.
fn candidates(tokenizer: &Tokenizer) -> Vec<String> {
    let vocabulary = tokenizer.inner.get_vocab(false);
    let found = vocabulary.keys().filter_map(|token| word(token));
    let mut words: BTreeSet<String> = found.map(str::to_owned).collect();
    if words.len() < MIN_WORDS {
        for one in 'a'..='z' {
            words.insert(one.to_string());
            words.extend(('a'..='z').map(|two| format!("{one}{two}")));
        }
    }
    words.into_iter().collect()
}

/// The word in a token. Byte-level vocabularies mark a preceding space as `Ġ`, SentencePiece as `▁`; some mark the end.
fn word(token: &str) -> Option<&str> {
    let unprefixed = token.strip_prefix(['Ġ', '▁']).unwrap_or(token);
    let bare = unprefixed.strip_suffix("</w>").unwrap_or(unprefixed);
    let good = !bare.is_empty() && bare.len() <= LONGEST && bare.bytes().all(|byte| byte.is_ascii_lowercase());
    good.then_some(bare)
}

/// The byte offset at which each word ends in the joined text.
fn word_ends(words: &[String]) -> Vec<usize> {
    let mut next = 0;
    let mut end_of = |word: &String| {
        let end = next + word.len();
        next = end + 1;
        end
    };
    words.iter().map(&mut end_of).collect()
}

/// The word that contains all of `start..end`, including its preceding space.
fn within(ends: &[usize], start: usize, end: usize) -> Option<usize> {
    let index = ends.partition_point(|&last| last < end);
    let floor = if index == 0 { 0 } else { ends[index - 1] };
    (index < ends.len() && start >= floor).then_some(index)
}

/// The token count of each word; `None` if its tokens overlap a neighbour or are not usable.
fn costs(tokenizer: &Tokenizer, text: &str, ends: &[usize], usable_ids: &HashSet<u32>) -> Result<Vec<Option<usize>>> {
    let encoding = tokenizer.call(|inner| inner.encode(text, false))?;
    let mut costs = vec![Some(0); ends.len()];
    for (&id, &(start, end)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
        match within(ends, start, end) {
            Some(index) if usable_ids.contains(&id) => costs[index] = costs[index].map(|cost| cost + 1),
            Some(index) => costs[index] = None,
            None => {
                // A token across words makes all of them unusable.
                let last = ends.partition_point(|&word| word < end).min(ends.len() - 1);
                let first = ends.partition_point(|&word| word < start).min(last);
                costs[first..=last].fill(None);
            }
        }
    }
    Ok(costs.into_iter().map(|cost| cost.filter(|&cost| cost > 0)).collect())
}

fn first_words(tokenizer: &Tokenizer, words: &[Word]) -> Result<Vec<String>> {
    let mut first_words = Vec::new();
    for word in words {
        if tokenizer.count(&word.text, false)? == 1 {
            first_words.push(word.text.clone());
        }
    }
    if first_words.len() < 2 {
        first_words = words.iter().map(|word| word.text.clone()).collect();
    }
    Ok(first_words)
}

/// Whether normalizer and pre-tokenizer cut the text at every space.
fn cuts_at_spaces(tokenizer: &Tokenizer, text: &str, ends: &[usize]) -> Result<bool> {
    tokenizer.call(|inner| {
        let Some(pre_tokenizer) = inner.get_pre_tokenizer() else {
            return Ok(false);
        };
        let mut normalized = NormalizedString::from(text);
        if let Some(normalizer) = inner.get_normalizer() {
            normalizer.normalize(&mut normalized)?;
        }
        let mut pieces = PreTokenizedString::from(normalized);
        pre_tokenizer.pre_tokenize(&mut pieces)?;
        Ok(pieces
            .get_splits(OffsetReferential::Original, OffsetType::Byte)
            .into_iter()
            .all(|(_, (start, end), _)| within(ends, start, end).is_some()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn texts_have_one_word_less_than_tokens_and_start_differently() {
        for (tokens, words) in [(1, 1), (2, 1), (3, 2), (500, 499)] {
            assert_eq!(common_words(7, 9, &PromptSpec::text(tokens)).split(' ').count(), words);
        }
        let begins: HashSet<String> = (0..4096)
            .map(|serial| common_words(7, serial, &PromptSpec::text(3)))
            .collect();
        assert_eq!(begins.len(), 4096);
        let sharing = PromptSpec {
            shared_prefix: 10,
            ..PromptSpec::text(20)
        };
        let prefix = |serial| {
            common_words(7, serial, &sharing)
                .split(' ')
                .take(10)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(prefix(1), prefix(2));
    }

    #[test]
    fn no_word_comes_twice() {
        assert_eq!(WORDS.split(' ').collect::<HashSet<_>>().len(), 64);
    }
}

#[cfg(test)]
mod vocabulary_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_ends_of_an_unknown_vocabulary_are_left_out() {
        let ids = ids_of_vocabulary_size(32_000).unwrap();
        assert_eq!((ids[0], *ids.last().unwrap()), (8_000, 23_999));
        assert!(ids_of_vocabulary_size(1).is_err());
        assert!(ids_of_vocabulary_size(0).is_err());
        assert_eq!(
            ids_of_vocabulary_size(u32::MAX / 1000).unwrap().len() as u32,
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

#[cfg(test)]
mod lexicon_tests {
    use super::*;

    #[test]
    fn words_are_found_in_every_family_of_vocabulary() {
        for (token, expected) in [
            ("Ġthe", Some("the")),
            ("▁the", Some("the")),
            ("the</w>", Some("the")),
            ("the", Some("the")),
            ("##ing", None),
            ("Ġ", None),
            ("ĠThe", None),
            ("ĠĠa", None),
            ("a1", None),
        ] {
            assert_eq!(word(token), expected, "{token}");
        }
    }

    #[test]
    fn a_span_belongs_to_the_word_that_it_ends_in() {
        let ends = word_ends(&["ab".into(), "cde".into(), "f".into()]);
        assert_eq!(ends, [2, 6, 8]);
        assert_eq!(within(&ends, 0, 2), Some(0));
        assert_eq!(
            within(&ends, 2, 3),
            Some(1),
            "a lone space belongs to the word after it"
        );
        assert_eq!(within(&ends, 2, 6), Some(1));
        assert_eq!(within(&ends, 1, 3), None, "a token across words");
        assert_eq!(within(&ends, 6, 8), Some(2));
        assert_eq!(within(&ends, 8, 9), None);
    }
}
