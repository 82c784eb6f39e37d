//! Syntax highlighting of the input line.

use rhai::{Engine, Token};

use super::items::word_at;
use super::mask::{Class, Mask};

const COMMENT: &str = "\x1b[2m";
const KEYWORD: &str = "\x1b[35m";
const NUMBER: &str = "\x1b[36m";
const TEXT: &str = "\x1b[32m";
const CALL: &str = "\x1b[34m";
const WRONG: &str = "\x1b[31m";
const END: &str = "\x1b[0m";

/// Adds ANSI colours to `text` and changes nothing else.
pub(super) fn highlight(engine: &Engine, text: &str) -> String {
    if text.trim_start().starts_with(':') {
        return format!("{KEYWORD}{text}{END}");
    }
    let mask = Mask::new(text);
    let mut colours = token_colours(engine, text);
    for (at, colour) in colours.iter_mut().enumerate() {
        match mask.class(at) {
            Class::Comment => *colour = COMMENT,
            Class::Text => *colour = TEXT,
            Class::Code => {}
        }
    }
    let mut coloured = String::with_capacity(text.len() * 2);
    let mut current = "";
    for (at, c) in text.char_indices() {
        // A colour must not cross a line break, where the editor starts to redraw.
        let colour = if c == '\n' { "" } else { colours[at] };
        if colour != current {
            if !current.is_empty() {
                coloured.push_str(END);
            }
            coloured.push_str(colour);
            current = colour;
        }
        coloured.push(c);
    }
    if !current.is_empty() {
        coloured.push_str(END);
    }
    coloured
}

/// The colour of each byte's token. Strings and comments are coloured by the mask.
fn token_colours(engine: &Engine, text: &str) -> Vec<&'static str> {
    let mut colours = vec![""; text.len()];
    let lines: Vec<usize> = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .collect();
    let inputs = [text];
    let (tokens, control) = engine.lex(&inputs);
    // For each open interpolation in a multi-line string, the number of open braces in it.
    let mut braces: Vec<usize> = Vec::new();
    for (token, position) in tokens {
        match &token {
            // The lexer repeats the end token forever.
            Token::EOF => break,
            Token::InterpolatedString(_) => braces.push(0),
            Token::LeftBrace | Token::MapStart => {
                if let Some(open) = braces.last_mut() {
                    *open += 1;
                }
            }
            Token::RightBrace => {
                if let Some(open) = braces.last_mut() {
                    *open = open.saturating_sub(1);
                    if *open == 0 {
                        braces.pop();
                        control.borrow_mut().is_within_text = true;
                    }
                }
            }
            _ => {}
        }
        let (Some(line), Some(column)) = (position.line(), position.position()) else {
            continue;
        };
        let Some(&begin) = lines.get(line - 1) else { continue };
        let Some((offset, _)) = text[begin..].char_indices().nth(column - 1) else {
            continue;
        };
        let start = begin + offset;
        let (colour, length) = shape(&token, &text[start..]);
        colours[start..start + length].fill(colour);
    }
    colours
}

/// The colour of a token and its length in bytes.
fn shape(token: &Token, rest: &str) -> (&'static str, usize) {
    let word = word_at(rest, 0).len();
    let colour = match token {
        Token::IntegerConstant(_) | Token::FloatConstant(_) | Token::True | Token::False => NUMBER,
        Token::Identifier(_) if rest[word..].starts_with('(') => CALL,
        Token::Reserved(_) | Token::LexError(_) => WRONG,
        token if token.is_standard_keyword() => KEYWORD,
        _ => return ("", word),
    };
    // A float consists of two words with a dot in between.
    let length = match token {
        Token::FloatConstant(_) => rest
            .find(|c: char| !c.is_alphanumeric() && !['.', '_'].contains(&c))
            .unwrap_or(rest.len()),
        _ => word.max(rest.chars().next().map_or(0, char::len_utf8)),
    };
    (colour, length)
}

#[cfg(test)]
mod tests;
