//! Words whose tokens do not depend on their neighbours, as building blocks of text with exactly N tokens.
//!
//! Candidates are lower-case words of the vocabulary. They are joined in random order and encoded once; a word is kept
//! if its tokens begin at its space and end with the word. If the pre-tokenizer also cuts this text at every space, the
//! token count of any text of these words is the sum of the words' counts. Otherwise (SentencePiece models without a
//! pre-tokenizer) every text is encoded as a whole.

use std::collections::{BTreeSet, HashSet};

use tokenizers::tokenizer::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

use crate::fault::{Fault, Result};

use super::Tokenizer;
use super::ids::shuffle;

/// More words only take more time to load.
const MAX_WORDS: usize = 4096;
/// With fewer single-token words, words of several tokens are used as well.
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
    /// `usage` if there are none: a vocabulary without Latin letters.
    pub(super) fn new(tokenizer: &Tokenizer, usable_ids: &[u32], seed: u64) -> Result<Self> {
        let mut candidates = candidates(tokenizer);
        shuffle(seed, &mut candidates);
        candidates.truncate(MAX_WORDS);
        // The first word has no preceding space, so its count is not valid elsewhere. It is therefore added twice.
        candidates.insert(0, candidates[0].clone());
        let text = candidates.join(" ");
        let ends = ends(&candidates);

        let costs = costs(tokenizer, &text, &ends, &usable_ids.iter().copied().collect())?;
        let kept = candidates.into_iter().zip(costs).skip(1);
        let (single, several): (Vec<_>, Vec<_>) = kept
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
    let vocabulary = tokenizer.inner().get_vocab(false);
    let mut words: BTreeSet<String> = vocabulary
        .keys()
        .filter_map(|token| word(token))
        .map(str::to_owned)
        .collect();
    if words.len() < MIN_WORDS {
        let letters = 'a'..='z';
        words.extend(letters.clone().map(String::from));
        words.extend(
            letters
                .clone()
                .flat_map(|one| letters.clone().map(move |two| format!("{one}{two}"))),
        );
    }
    words.into_iter().collect()
}

/// The word in a token. Byte-level vocabularies mark a preceding space as `Ġ`, SentencePiece as `▁`; some mark the end.
fn word(token: &str) -> Option<&str> {
    let bare = token.strip_prefix(['Ġ', '▁']).unwrap_or(token);
    let bare = bare.strip_suffix("</w>").unwrap_or(bare);
    let good = !bare.is_empty() && bare.len() <= LONGEST && bare.bytes().all(|byte| byte.is_ascii_lowercase());
    good.then_some(bare)
}

/// The byte offset at which each word ends in the joined text.
fn ends(words: &[String]) -> Vec<usize> {
    words
        .iter()
        .scan(0, |at, word| {
            let end = *at + word.len();
            *at = end + 1;
            Some(end)
        })
        .collect()
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
        let ends = ends(&["ab".into(), "cde".into(), "f".into()]);
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
