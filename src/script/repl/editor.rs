//! Connects the line editor to completion and hints; highlights the input, decides whether Enter submits it, and indents.

use std::borrow::Cow;
use std::path::PathBuf;

use rhai::{ParseErrorType, Position, Token};
use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::history::History;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, ConditionalEventHandler, Context, Editor, Event, EventContext, EventHandler, Helper, KeyCode, KeyEvent,
    Modifiers, RepeatCount,
};

use super::Session;
use super::complete::{self, Vocabulary};
use crate::script::diagnose::{byte_at, grammar};
use crate::script::lexer::{Inside, Lexed, Piece};

/// The line editor's helper.
pub struct LineHelper {
    vocabulary: Vocabulary,
    folder: PathBuf,
}

impl LineHelper {
    /// A helper with the names that `session` knows at this time.
    pub fn new(session: &Session) -> Self {
        Self {
            vocabulary: session.vocabulary(),
            folder: session.root.clone(),
        }
    }

    /// Updates the known names after an input.
    pub fn refresh(&mut self, session: &Session) {
        self.vocabulary = session.vocabulary();
    }
}

impl Helper for LineHelper {}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete::complete(&self.vocabulary, &self.folder, &line[..pos]))
    }
}

/// The rest of a signature: displayed, never inserted.
#[derive(Debug)]
pub struct SignatureHint(String);

impl Hint for SignatureHint {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for LineHelper {
    type Hint = SignatureHint;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<SignatureHint> {
        (pos == line.len())
            .then(|| complete::hint(&self.vocabulary, line))
            .flatten()
            .map(SignatureHint)
    }
}

/// The first blank of an indented line is shown as a dot, so that the line visibly continues the one above.
const CONTINUED: &str = "\n\x1b[2m.\x1b[0m";

impl Highlighter for LineHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned(highlight(line).replace("\n ", CONTINUED))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[2m{hint}\x1b[0m"))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

/// Binds Enter, which starts an indented line if the input is incomplete.
pub fn bind_keys<H: Helper, I: History>(editor: &mut Editor<H, I>) {
    let enter = EventHandler::Conditional(Box::new(Enter));
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::NONE), enter);
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
}

struct Enter;

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let line = context.line();
        let is_open = context.pos() == line.len() && !is_complete(line);
        is_open.then(|| Cmd::Insert(1, format!("\n{}", indent(line))))
    }
}

/// The indentation of a line after `text`, by its open brackets. Lines of a string or comment have none.
fn indent(text: &str) -> String {
    let lexed = Lexed::new(text);
    match lexed.end {
        Inside::Code | Inside::LineComment if !is_only_documentation(&lexed) => "  ".repeat(lexed.open.len().max(1)),
        _ => String::new(),
    }
}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        Ok(if is_complete(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

const COMMENT: &str = "\x1b[2m";
const KEYWORD: &str = "\x1b[35m";
const NUMBER: &str = "\x1b[36m";
const TEXT: &str = "\x1b[32m";
const CALL: &str = "\x1b[34m";
const WRONG: &str = "\x1b[31m";
const END: &str = "\x1b[0m";

/// Adds ANSI colours to `text` and changes nothing else.
fn highlight(text: &str) -> String {
    if text.trim_start().starts_with(':') {
        return format!("{KEYWORD}{text}{END}");
    }
    let mut coloured = String::with_capacity(text.len() * 2);
    let mut done = 0;
    for piece in Lexed::new(text).pieces {
        coloured.push_str(&text[done..piece.range.start]);
        let colour = colour(text, &piece);
        done = piece.range.end;
        // A colour must not cross a line break, where the editor starts to redraw.
        for line in text[piece.range].split_inclusive('\n') {
            let shown = line.trim_end_matches('\n');
            if colour.is_empty() || shown.is_empty() {
                coloured.push_str(line);
            } else {
                coloured.extend([colour, shown, END, &line[shown.len()..]]);
            }
        }
    }
    coloured.push_str(&text[done..]);
    coloured
}

fn colour(text: &str, piece: &Piece) -> &'static str {
    match &piece.token {
        Token::Comment(_) => COMMENT,
        Token::StringConstant(_) | Token::InterpolatedString(_) | Token::CharConstant(_) => TEXT,
        // A string that is not closed yet.
        Token::LexError(_) if text[piece.range.start..].starts_with(['"', '\'']) => TEXT,
        Token::IntegerConstant(_) | Token::FloatConstant(_) | Token::True | Token::False => NUMBER,
        Token::Identifier(_) if text[piece.range.end..].starts_with('(') => CALL,
        Token::Reserved(_) | Token::LexError(_) => WRONG,
        token if token.is_standard_keyword() => KEYWORD,
        _ => "",
    }
}

/// Whether `text` can be submitted. Erroneous input counts as complete, so that the error is shown. Unknown names are reported by
/// the session.
fn is_complete(text: &str) -> bool {
    if text.trim_start().starts_with(':') {
        return true;
    }
    let lexed = Lexed::new(text);
    if matches!(lexed.end, Inside::BlockComment | Inside::LongText) || is_only_documentation(&lexed) {
        return false;
    }
    let Err(error) = grammar().compile(text) else {
        return true;
    };
    match error.err_type() {
        ParseErrorType::UnexpectedEOF => false,
        ParseErrorType::MissingToken(..) => !is_past_the_end(text, error.position()),
        _ => true,
    }
}

/// Whether the text is a doc comment without its function.
fn is_only_documentation(lexed: &Lexed) -> bool {
    let last = lexed.text.trim_end().lines().next_back().unwrap_or_default();
    last.trim_start().starts_with("///") && lexed.code().next().is_none()
}

/// Whether only white space and comments follow `position`.
fn is_past_the_end(text: &str, position: Position) -> bool {
    let (Some(line), column) = (position.line(), position.position().unwrap_or(1)) else {
        return true;
    };
    let at = byte_at(text, line, column);
    Lexed::new(text).code().all(|piece| piece.range.start < at)
}

#[cfg(test)]
mod highlight_tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(coloured: &str) -> String {
        console::strip_ansi_codes(coloured).into_owned()
    }

    #[test]
    fn keywords_numbers_strings_calls_and_comments_have_colours() {
        let shown = highlight("let x = f(1.5, \"a\"); // é");
        assert_eq!(
            shown,
            format!("{KEYWORD}let{END} x = {CALL}f{END}({NUMBER}1.5{END}, {TEXT}\"a\"{END}); {COMMENT}// é{END}")
        );
    }

    #[test]
    fn code_inside_a_long_string_has_colours() {
        let shown = highlight("`é ${ if a { 1 } } let` + 2");
        assert!(shown.contains(&format!("{KEYWORD}if{END}")), "{shown:?}");
        assert!(shown.contains(&format!("let`{END}")), "{shown:?}");
        assert!(shown.ends_with(&format!("{NUMBER}2{END}")), "{shown:?}");
    }

    proptest! {
        #[test]
        fn colours_change_no_character(text in "[a-z0-9 \n`\"'#{}()$/*\\\\é.+]{0,40}") {
            prop_assert_eq!(plain(&highlight(&text)), text);
        }
    }
}

#[cfg(test)]
mod validate_tests {
    use super::*;

    #[test]
    fn an_open_construct_is_incomplete() {
        for text in [
            "fn f(x) {",
            "fn f(x) {\n  x + 1 // more",
            "f(1,",
            "[1, 2",
            "#{ a: 1,",
            "if a",
            "let t = `one",
            "let t = `one ${ f(`two",
            "/* open",
            "let x = #\"raw",
            "a +",
            "for p in [1, 2] {",
            "while true {\n",
            "switch x { 1 =>",
            "|p| {",
            "try { 1 }",
            "/// Doubles.",
            "/// Doubles.\nfn twice(n) {",
        ] {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn valid_and_erroneous_inputs_are_complete() {
        for text in [
            "",
            "1 + 1",
            "let x = 5;",
            "let x = 5",
            "fn f(x) {\n x\n}",
            "// note",
            "let t = `a { b`",
            "let s = \"{[(\";",
            "x.unknown(undefined::y)",
            "f(1))",
            "let s = \"open",
            "fn f(x { }",
            ":help f(",
            "let = 4;",
            "if x { 1 }",
            "/// Doubles.\nfn twice(n) { 2 * n }",
        ] {
            assert!(is_complete(text), "{text}");
        }
    }
}
