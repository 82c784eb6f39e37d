//! Splits a text into Rhai's tokens with their positions. The text may be incomplete, as in an editor, where Rhai's own
//! token iterator stops or gives no end of a token.

use std::ops::Range;

use rhai::{InputStream, Position, Token, TokenizeState, get_next_token};

/// The construct that the end of a text is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Code,
    /// A line comment.
    LineComment,
    /// An unclosed `/* … */`.
    BlockComment,
    /// An unclosed `"…`.
    Quotes,
    /// An unclosed string that may span lines.
    LongText,
}

/// A token or comment with its bytes in the text.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) token: Token,
    pub(super) range: Range<usize>,
}

impl Piece {
    /// 1 for an opening bracket, -1 for a closing one, otherwise 0.
    pub(super) fn nesting(&self) -> i32 {
        match self.token {
            Token::LeftParen | Token::LeftBracket | Token::QuestionBracket | Token::LeftBrace | Token::MapStart => 1,
            Token::RightParen | Token::RightBracket | Token::RightBrace => -1,
            _ => 0,
        }
    }
}

/// A text in pieces.
#[derive(Debug)]
pub(super) struct Lexed<'a> {
    pub(super) text: &'a str,
    /// Tokens and comments in order, with white space between them.
    pub(super) pieces: Vec<Piece>,
    /// The construct that the end of the text is inside of.
    pub(super) end: Inside,
    /// Positions of the open brackets, outermost first.
    pub(super) open: Vec<usize>,
}

impl<'a> Lexed<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexed = Self {
            text,
            pieces: Vec::new(),
            end: Inside::Code,
            open: Vec::new(),
        };
        lexed.read();
        lexed
    }

    /// The tokens without comments.
    pub(super) fn code(&self) -> impl DoubleEndedIterator<Item = &Piece> {
        self.pieces
            .iter()
            .filter(|piece| !matches!(piece.token, Token::Comment(_)))
    }

    fn read(&mut self) {
        let mut stream = Characters { text: self.text, at: 0 };
        let mut state = TokenizeState {
            max_string_len: None,
            next_token_cannot_be_unary: false,
            tokenizer_control: Default::default(),
            comment_level: 0,
            include_comments: false,
            is_within_text_terminated_by: None,
            last_token: None,
        };
        let mut position = Position::new(1, 0);
        // For each open `${`, the number of brackets that were open before it.
        let mut interpolations = Vec::new();
        while stream.at < self.text.len() {
            let is_text = state.is_within_text_terminated_by.is_some();
            if !is_text && stream.skip_blanks() {
                continue;
            }
            let start = stream.at;
            // The tokenizer skips some comments without a token.
            let comment = if is_text { None } else { comment(stream.rest()) };
            let token = match comment {
                Some((length, inside)) => {
                    stream.at += length;
                    self.end = inside;
                    Token::Comment(Default::default())
                }
                None => get_next_token(&mut stream, &mut state, &mut position).0,
            };
            match token {
                Token::EOF => break,
                Token::InterpolatedString(_) => interpolations.push(self.open.len()),
                Token::LexError(_)
                    if self.text[start..].starts_with('"') && !self.text[..stream.at].ends_with('\n') =>
                {
                    self.end = Inside::Quotes;
                }
                _ => {}
            }
            let piece = Piece {
                token,
                range: start..stream.at,
            };
            match piece.nesting() {
                1 => self.open.push(stream.at - 1),
                -1 => {
                    self.open.pop();
                    if interpolations.last() == Some(&self.open.len()) {
                        interpolations.pop();
                        state.is_within_text_terminated_by = Some("`".into());
                    }
                }
                _ => {}
            }
            self.pieces.push(piece);
            if stream.at < self.text.len() {
                self.end = Inside::Code;
            }
        }
        match state.is_within_text_terminated_by.as_deref() {
            Some("\"") => self.end = Inside::Quotes,
            Some(_) => self.end = Inside::LongText,
            None => {}
        }
    }
}

/// Length of the comment at the start of `text`, and the construct that its end is inside of if nothing follows.
fn comment(text: &str) -> Option<(usize, Inside)> {
    if text.starts_with("//") {
        return Some((text.find('\n').unwrap_or(text.len()), Inside::LineComment));
    }
    let mut depth = 0;
    let mut at = 0;
    if text.starts_with("/*") {
        while let Some(c) = text[at..].chars().next() {
            match &text[at..] {
                rest if rest.starts_with("/*") => (depth, at) = (depth + 1, at + 2),
                rest if rest.starts_with("*/") => (depth, at) = (depth - 1, at + 2),
                _ => at += c.len_utf8(),
            }
            if depth == 0 {
                return Some((at, Inside::Code));
            }
        }
        return Some((at, Inside::BlockComment));
    }
    None
}

/// The characters of a text, for Rhai's tokenizer.
struct Characters<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Characters<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Returns whether there were any.
    fn skip_blanks(&mut self) -> bool {
        let blanks = self.rest().len() - self.rest().trim_start().len();
        self.at += blanks;
        blanks > 0
    }
}

impl InputStream for Characters<'_> {
    fn unget(&mut self, ch: char) {
        self.at -= ch.len_utf8();
    }

    fn get_next(&mut self) -> Option<char> {
        let next = self.peek_next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn peek_next(&mut self) -> Option<char> {
        self.rest().chars().next()
    }
}

/// The word that starts at `at`.
pub(super) fn word_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
}

/// The name at the end of `text`; may be empty.
pub(super) fn last_word(text: &str) -> &str {
    text.rsplit(|c| !is_word(c)).next().unwrap_or_default()
}

/// Whether a name can contain this character.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        let lexed = Lexed::new(text);
        lexed.pieces.iter().map(|piece| &text[piece.range.clone()]).collect()
    }

    #[test]
    fn pieces_are_whole_tokens_and_comments() {
        assert_eq!(
            pieces("let a = \"x // \\\" y\"; // no\nb"),
            ["let", "a", "=", "\"x // \\\" y\"", ";", "// no", "b"]
        );
        assert_eq!(pieces("a /* b /* c */ d */ 1.5"), ["a", "/* b /* c */ d */", "1.5"]);
        assert_eq!(
            pieces("'\\'' + `a ${ b + `c` } d` + #\"raw \" \"#"),
            [
                "'\\''",
                "+",
                "`a $",
                "{",
                "b",
                "+",
                "`c`",
                "}",
                " d`",
                "+",
                "#\"raw \" \"#"
            ]
        );
        assert_eq!(
            pieces("//! one\n/*** two */ #{ a: () }"),
            ["//! one", "/*** two */", "#{", "a", ":", "()", "}"]
        );
    }

    #[test]
    fn the_end_state_is_found() {
        for (text, end, open) in [
            ("f(1, [2", Inside::Code, 2),
            ("f(1) // x", Inside::LineComment, 0),
            ("f(1) // x\n", Inside::Code, 0),
            ("f(/* x", Inside::BlockComment, 1),
            ("import \"std/se", Inside::Quotes, 0),
            ("f(\"a\\", Inside::Quotes, 1),
            ("let t = `a\nb", Inside::LongText, 0),
            ("let t = `a ${ f(", Inside::Code, 2),
            ("let t = `a ${ f(1) }", Inside::LongText, 0),
            ("let t = `a ${ f(1) } b", Inside::LongText, 0),
            ("let t = #\"a", Inside::LongText, 0),
            ("\"a\n b", Inside::Code, 0),
        ] {
            let lexed = Lexed::new(text);
            assert_eq!((lexed.end, lexed.open.len()), (end, open), "{text}");
        }
    }

    proptest! {
        #[test]
        fn only_white_space_lies_between_pieces(text in "[\\PC\n`\"'#{}()$/*\\\\]{0,40}") {
            let lexed = Lexed::new(&text);
            let mut end = 0;
            for piece in &lexed.pieces {
                prop_assert_eq!(text[end..piece.range.start].trim(), "");
                end = piece.range.end;
            }
            prop_assert_eq!(text[end..].trim(), "");
            let are_brackets = lexed.open.iter().all(|at| text[*at..].starts_with(['(', '[', '{']));
            prop_assert!(are_brackets);
        }
    }
}
