//! Counts tokens: with a given `tokenizer.json`, or one token per word.
//!
//! The built-in count is one token per word (separated by white space), plus BOS if special tokens are requested.
//! Chat adds four tokens per message and three for the start of the answer, with either.

use std::path::Path;

use tokenizers::Tokenizer;

use crate::fault::{Fault, Kind, Result};

/// Token ids are below this when words are counted.
const VOCABULARY: u64 = 32_000;

const BOS: u32 = 1;

pub(super) enum TokenCounter {
    Words,
    File(Box<Tokenizer>),
}

pub(super) struct Token {
    pub(super) id: u32,
    pub(super) text: String,
    /// Byte range in the text.
    pub(super) start: usize,
    pub(super) stop: usize,
}

impl TokenCounter {
    pub(super) fn new(tokenizer: Option<&Path>) -> Result<Self> {
        let Some(path) = tokenizer else { return Ok(Self::Words) };
        Tokenizer::from_file(path)
            .map(|tokenizer| Self::File(Box::new(tokenizer)))
            .map_err(|error| {
                Fault::missing(
                    format!("tokenizer `{}`: {error}", path.display()),
                    "give the path of a tokenizer.json",
                )
            })
    }

    pub(super) fn count(&self, text: &str, special: bool) -> Result<u64> {
        match self {
            Self::Words => Ok(text.split_whitespace().count() as u64 + u64::from(special)),
            Self::File(_) => Ok(self.tokens(text, special)?.len() as u64),
        }
    }

    pub(super) fn chat<'a>(&self, messages: impl Iterator<Item = &'a str>) -> Result<u64> {
        messages
            .map(|text| Ok(self.count(text, false)? + 4))
            .sum::<Result<u64>>()
            .map(|sum| sum + 3)
    }

    pub(super) fn tokens(&self, text: &str, special: bool) -> Result<Vec<Token>> {
        match self {
            Self::Words => Ok(words(text, special)),
            Self::File(tokenizer) => {
                let encoded = tokenizer
                    .encode(text, special)
                    .map_err(|error| Fault::new(Kind::Engine, format!("cannot tokenize: {error}")))?;
                let pieces = encoded
                    .get_ids()
                    .iter()
                    .zip(encoded.get_tokens())
                    .zip(encoded.get_offsets());
                Ok(pieces
                    .map(|((id, piece), (start, stop))| Token {
                        id: *id,
                        text: text
                            .get(*start..*stop)
                            .filter(|text| !text.is_empty())
                            .unwrap_or(piece)
                            .to_owned(),
                        start: *start,
                        stop: *stop,
                    })
                    .collect())
            }
        }
    }
}

fn words(text: &str, special: bool) -> Vec<Token> {
    let begin = special.then(|| Token {
        id: BOS,
        text: "<s>".to_owned(),
        start: 0,
        stop: 0,
    });
    let rest = text.split_whitespace().map(|word| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        Token {
            id: output_token_id(
                word.bytes()
                    .fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte))),
                0,
            ),
            text: word.to_owned(),
            start,
            stop: start + word.len(),
        }
    });
    begin.into_iter().chain(rest).collect()
}

/// Id of the n-th token of an answer; never a special token.
pub(super) fn output_token_id(request: u64, n: u64) -> u32 {
    let mixed = (request ^ 0x9e37_79b9)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(n.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    ((mixed >> 33) % (VOCABULARY - 3) + 3) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_with_their_byte_ranges() {
        let counter = TokenCounter::new(None).unwrap();
        assert_eq!(counter.count("hello  world foo bar", true).unwrap(), 5);
        let tokens = counter.tokens(" añb c", false).unwrap();
        assert_eq!(
            tokens.iter().map(|token| (token.start, token.stop)).collect::<Vec<_>>(),
            [(1, 5), (6, 7)]
        );
        assert_eq!(counter.chat(["a b", "c"].into_iter()).unwrap(), 3 + 8 + 3);
    }

    #[test]
    fn a_missing_tokenizer_is_reported_with_a_remedy() {
        let fault = TokenCounter::new(Some(Path::new("/nowhere/tokenizer.json")))
            .err()
            .unwrap();
        assert_eq!(fault.kind, Kind::Missing);
        assert!(fault.message.contains("/nowhere/tokenizer.json") && fault.hint.is_some());
    }
}
