//! Makes text of exactly N tokens with a tokenizer, or text of common words for an unknown tokenizer.
//!
//! With a tokenizer, the first word, the last word and the text around them are encoded; the lexicon gives the token
//! counts of the words between. If the lexicon cannot guarantee them, the whole text is encoded, and words or letters are
//! removed or added until the count is exact.
//!
//! The common words are single tokens in the common vocabularies (GPT-2, Llama, Mistral, Qwen, Gemma, Phi). Only the
//! engine's own count proves the length of such a text, see [`super::Calibration`].

use super::template::Wrapper;
use super::vocabulary::{Lexicon, PromptRng, Word, first_two};
use super::{PromptSpec, Tokenizer};
use crate::fault::{Fault, Result};

/// Maximum corrections of a text.
const MAX_REPAIRS: usize = 64;
/// Letters that are appended to the last word if no whole word fits.
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

    /// Appends words that should fit, or else a letter. Returns whether that helped.
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

/// A text of one word less than the specified tokens, because most tokenizers add one in front: a prompt that is too
/// short is counted and corrected, but one that is too long may be rejected without a count. After the shared prefix,
/// it starts differently from all other prompts of this seed.
pub(super) fn common_words(seed: u64, serial: u64, spec: &PromptSpec) -> String {
    let count = spec.tokens.saturating_sub(1).max(1);
    let all: Vec<&str> = WORDS.split(' ').collect();
    let random_word = |rng: &mut PromptRng| all[rng.below(all.len())];
    let mut rng = PromptRng::for_prefix(seed);
    let mut words: Vec<&str> = (0..spec.shared_prefix).map(|_| random_word(&mut rng)).collect();
    words.extend(first_two(serial, all.len()).map(|index| all[index]));
    words.truncate(count);
    let mut rng = PromptRng::for_prompt(seed, serial);
    words.extend((words.len()..count).map(|_| random_word(&mut rng)));
    words.join(" ")
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
