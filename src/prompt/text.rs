//! Text of exactly N tokens.
//!
//! The first word, the last word and what the engine puts around them are encoded; the words between cost what the lexicon says.
//! Where the lexicon cannot promise that, the whole text is encoded, and words or letters are taken away or added until it
//! is exact.

use crate::fault::{Fault, Result};

use super::chat::Around;
use super::draw::{Draw, heads};
use super::lexicon::{Lexicon, Word};
use super::{Ask, Tokenizer};

/// How often a text is corrected before it is given up.
const MAX_REPAIRS: usize = 64;
/// What is glued to the last word when no whole word fits any more.
const LETTERS: &str = "aeioxzqkjvw";

/// Writes texts of one seed.
pub(super) struct Writer<'a> {
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) lexicon: &'a Lexicon,
    pub(super) around: &'a Around,
    pub(super) seed: u64,
}

impl Writer<'_> {
    /// The text of this number.
    pub(super) fn write(&self, ask: &Ask, serial: u64) -> Result<String> {
        let mut draw = Draw::of(self.seed, serial);
        let mut words = self.opening(ask, serial)?;
        let first = words.remove(0);
        let smallest = self.count(&first.text)?;
        if ask.tokens < smallest {
            return Err(Fault::usage(format!(
                "a text of {} tokens is impossible: what the engine adds and one word are {smallest}",
                ask.tokens
            ))
            .hint(format!("ask for at least {smallest}")));
        }
        let last = self.any(&mut draw);
        let ends = self.count(&format!("{} {}", first.text, last.text))?;
        if ask.tokens < ends {
            return self.repair(first.text, ask.tokens, &mut draw);
        }

        let mut text = String::with_capacity(ask.tokens * 8);
        text.push_str(&first.text);
        let mut rest = ask.tokens - ends;
        let mut planned = words.into_iter();
        while rest > 0 {
            let word = planned.next().unwrap_or_else(|| self.any(&mut draw).clone());
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
        self.repair(text, ask.tokens, &mut draw)
    }

    /// The words that every text begins with, and then those that this one alone begins with.
    fn opening(&self, ask: &Ask, serial: u64) -> Result<Vec<Word>> {
        let words = &self.lexicon.words;
        let [one, two] = heads(serial, words.len());
        let own_second = words[two].clone();
        let shared = match ask.shared_prefix {
            0 => 0,
            prefix => prefix.saturating_sub(self.leading()?),
        };
        if shared == 0 {
            let [one, _] = heads(serial, self.lexicon.heads.len());
            return Ok(vec![self.head(one), own_second]);
        }
        let mut draw = Draw::prefix(self.seed);
        let mut opening = vec![self.head(draw.below(self.lexicon.heads.len()))];
        let mut rest = shared - 1;
        while rest > 0 {
            let word = self.any(&mut draw).clone();
            rest = rest.saturating_sub(word.cost);
            opening.push(word);
        }
        opening.extend([words[one].clone(), own_second]);
        Ok(opening)
    }

    /// How many tokens stand before the first that the text decides: what two texts with different first words have in common.
    fn leading(&self) -> Result<usize> {
        let ids = |word: &str| self.tokenizer.ids(&self.around.of(word), self.around.special);
        let (one, two) = (ids(&self.lexicon.heads[0])?, ids(&self.lexicon.heads[1])?);
        Ok(one.iter().zip(&two).take_while(|(one, two)| one == two).count())
    }

    /// Tokens of a text with everything around it.
    fn count(&self, text: &str) -> Result<usize> {
        self.tokenizer.count(&self.around.of(text), self.around.special)
    }

    fn head(&self, index: usize) -> Word {
        Word {
            text: self.lexicon.heads[index].clone(),
            cost: 1,
        }
    }

    fn any(&self, draw: &mut Draw) -> &Word {
        &self.lexicon.words[draw.below(self.lexicon.words.len())]
    }

    /// Makes a text exact by encoding it as a whole.
    fn repair(&self, mut text: String, tokens: usize, draw: &mut Draw) -> Result<String> {
        for _ in 0..MAX_REPAIRS {
            let counted = self.count(&text)?;
            if counted == tokens {
                return Ok(text);
            }
            let changed = if counted > tokens {
                shorten(&mut text)
            } else {
                self.lengthen(&mut text, counted, tokens, draw)?
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

    /// Adds words that should fit; where none does, a letter. False when nothing helps.
    fn lengthen(&self, text: &mut String, counted: usize, tokens: usize, draw: &mut Draw) -> Result<bool> {
        let mut rest = tokens - counted;
        let before = text.len();
        while let Some(word) = self.fitting(rest, draw) {
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

    fn fitting(&self, rest: usize, draw: &mut Draw) -> Option<&Word> {
        let words = &self.lexicon.words;
        let start = draw.below(words.len());
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

/// Takes the last word away, or the last letter of the only word.
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
