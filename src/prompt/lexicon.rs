//! Words whose tokens stay the same whatever words stand around them: what text of exactly N tokens is made of.
//!
//! Words of lower-case letters are looked for in the vocabulary, written into one long text in random order, and encoded
//! once. A word is kept when its tokens begin at its space and end with it. Where the pre-tokenizer, too, cuts that text at every
//! space, the model sees each word alone: then the tokens of any text of these words are the sum of the words' tokens, and need no
//! further encoding. Elsewhere (SentencePiece models without a pre-tokenizer) every text is encoded as a whole.

use std::collections::{BTreeSet, HashSet};

use tokenizers::tokenizer::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

use crate::fault::{Fault, Result};

use super::Tokenizer;
use super::draw::shuffle;
use super::tokenizer::not_encodable;

/// More words than this bring nothing but time to load.
const MOST: usize = 4096;
/// With fewer words of one token, words of several are used as well.
const FEW: usize = 16;
/// The longest word looked for, in letters.
const LONGEST: usize = 12;

/// A word and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Lower-case letters.
    pub(super) text: String,
    /// Tokens, the space before it included.
    pub(super) cost: usize,
}

/// The words of a tokenizer.
#[derive(Debug)]
pub(super) struct Lexicon {
    /// In random order.
    pub(super) words: Vec<Word>,
    /// Words that are one token at the start of a text too, so that texts beginning with different ones differ in their first
    /// token. Never empty.
    pub(super) heads: Vec<String>,
    /// Whether the tokens of a text are the sum of its words' tokens.
    pub(super) isolated: bool,
}

impl Lexicon {
    /// Looks for the words of a tokenizer; `ordinary` are the ids that a prompt may consist of.
    ///
    /// # Errors
    ///
    /// `usage` when there are none: a vocabulary without Latin letters.
    pub(super) fn of(tokenizer: &Tokenizer, ordinary: &[u32], seed: u64) -> Result<Self> {
        let mut candidates = candidates(tokenizer);
        shuffle(seed, &mut candidates);
        candidates.truncate(MOST);
        // The first word has no space before it, so that its cost says nothing of its cost elsewhere: it is there twice.
        candidates.insert(0, candidates[0].clone());
        let text = candidates.join(" ");
        let ends = ends(&candidates);

        let costs = costs(tokenizer, &text, &ends, &ordinary.iter().copied().collect())?;
        let kept = candidates.into_iter().zip(costs).skip(1);
        let (single, several): (Vec<_>, Vec<_>) = kept
            .filter_map(|(text, cost)| cost.map(|cost| Word { text, cost }))
            .partition(|word| word.cost == 1);
        let mut words = single;
        if words.len() < FEW {
            words.extend(several);
        }
        if words.len() < 2 {
            return Err(Fault::usage(
                "the tokenizer's vocabulary has no words that text of exactly N tokens could be made of",
            )
            .hint("ask for token ids: `form: \"tokens\"`"));
        }
        Ok(Self {
            heads: heads(tokenizer, &words)?,
            isolated: cuts_at_spaces(tokenizer, &text, &ends)?,
            words,
        })
    }
}

/// Words that the vocabulary may know as one token; pairs of letters where it knows next to none. In an order of their own, as
/// the vocabulary has none.
fn candidates(tokenizer: &Tokenizer) -> Vec<String> {
    let vocabulary = tokenizer.inner().get_vocab(false);
    let mut words: BTreeSet<String> = vocabulary
        .keys()
        .filter_map(|token| word(token))
        .map(str::to_owned)
        .collect();
    if words.len() < FEW {
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

/// The word within a token: byte-level vocabularies mark the space before it as `Ġ`, SentencePiece as `▁`, some mark the end.
fn word(token: &str) -> Option<&str> {
    let bare = token.strip_prefix(['Ġ', '▁']).unwrap_or(token);
    let bare = bare.strip_suffix("</w>").unwrap_or(bare);
    let good = !bare.is_empty() && bare.len() <= LONGEST && bare.bytes().all(|byte| byte.is_ascii_lowercase());
    good.then_some(bare)
}

/// Where each word ends in the text of all, in bytes.
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

/// The word in whose stretch (its space and its letters) all of `start..end` lies.
fn within(ends: &[usize], start: usize, end: usize) -> Option<usize> {
    let index = ends.partition_point(|&last| last < end);
    let floor = if index == 0 { 0 } else { ends[index - 1] };
    (index < ends.len() && start >= floor).then_some(index)
}

/// What each word costs; none for words whose tokens reach into a neighbour, or are not ordinary.
fn costs(tokenizer: &Tokenizer, text: &str, ends: &[usize], ordinary: &HashSet<u32>) -> Result<Vec<Option<usize>>> {
    let encoding = tokenizer
        .inner()
        .encode(text, false)
        .map_err(|error| not_encodable(&error))?;
    let mut costs = vec![Some(0); ends.len()];
    for (&id, &(start, end)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
        match within(ends, start, end) {
            Some(index) if ordinary.contains(&id) => costs[index] = costs[index].map(|cost| cost + 1),
            Some(index) => costs[index] = None,
            None => {
                // A token across words makes both useless.
                let last = ends.partition_point(|&word| word < end).min(ends.len() - 1);
                let first = ends.partition_point(|&word| word < start).min(last);
                costs[first..=last].fill(None);
            }
        }
    }
    Ok(costs.into_iter().map(|cost| cost.filter(|&cost| cost > 0)).collect())
}

fn heads(tokenizer: &Tokenizer, words: &[Word]) -> Result<Vec<String>> {
    let mut heads = Vec::new();
    for word in words {
        if tokenizer.count(&word.text, false)? == 1 {
            heads.push(word.text.clone());
        }
    }
    if heads.len() < 2 {
        heads = words.iter().map(|word| word.text.clone()).collect();
    }
    Ok(heads)
}

/// Whether normalizer and pre-tokenizer cut the text at every space.
fn cuts_at_spaces(tokenizer: &Tokenizer, text: &str, ends: &[usize]) -> Result<bool> {
    let inner = tokenizer.inner();
    let Some(pre_tokenizer) = inner.get_pre_tokenizer() else {
        return Ok(false);
    };
    let mut normalized = NormalizedString::from(text);
    if let Some(normalizer) = inner.get_normalizer() {
        normalizer
            .normalize(&mut normalized)
            .map_err(|error| not_encodable(&error))?;
    }
    let mut pieces = PreTokenizedString::from(normalized);
    pre_tokenizer
        .pre_tokenize(&mut pieces)
        .map_err(|error| not_encodable(&error))?;
    Ok(pieces
        .get_splits(OffsetReferential::Original, OffsetType::Byte)
        .into_iter()
        .all(|(_, (start, end), _)| within(ends, start, end).is_some()))
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
    fn a_stretch_belongs_to_the_word_that_it_ends_in() {
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
