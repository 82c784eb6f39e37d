//! Finds the mistake behind a parse error in the text itself: a bracket that is not closed, `{` instead of `#{`, a word
//! of another language. The parser reports such a mistake late, or as an unknown variable.

use rhai::{ParseErrorType, Token};

use super::lexer::{Inside, Lexed, is_word, last_word, word_at};
use crate::fault::{Fault, Kind};

/// A better explanation of the parse error at byte `at`, and the byte where the mistake is.
pub(super) fn explain(text: &str, error: &ParseErrorType, at: usize) -> Option<(Fault, usize)> {
    map_without_hash(text, at)
        .or_else(|| unclosed(text, error, at))
        .or_else(|| foreign_word(text, at))
}

fn fault(message: String, hint: impl Into<String>) -> Fault {
    Fault::new(Kind::Compile, message).hint(hint)
}

/// `{ key: value }`, which Rhai reads as a block of statements.
fn map_without_hash(text: &str, at: usize) -> Option<(Fault, usize)> {
    let brace = *Lexed::new(&text[..at]).open.last()?;
    let (before, inside) = (&text[..brace], text[brace..].strip_prefix('{')?);
    if before.ends_with(['#', '$']) || !starts_with_key(inside) {
        return None;
    }
    let message = "`{` begins a block of statements, not a map".to_owned();
    Some((fault(message, "a map is written `#{ ... }`"), brace))
}

/// Whether the text begins with `name:` or `"name":`, after comments.
fn starts_with_key(text: &str) -> bool {
    let lexed = Lexed::new(text);
    let mut code = lexed.code();
    match (code.next(), code.next()) {
        (Some(key), Some(colon)) => {
            colon.token == Token::Colon && text[key.range.start..].starts_with(|c| c == '"' || is_word(c))
        }
        _ => false,
    }
}

/// A bracket without its closing one. A missing `}` makes the parser read on to the end of the file, or report what
/// follows as unknown variables of a function.
fn unclosed(text: &str, error: &ParseErrorType, at: usize) -> Option<(Fault, usize)> {
    use ParseErrorType as P;
    let by_bracket = matches!(
        error,
        P::UnexpectedEOF | P::MissingToken(..) | P::VariableUndefined(_) | P::WrongFnDefinition
    );
    let lexed = Lexed::new(text);
    if !by_bracket || !matches!(lexed.end, Inside::Code | Inside::LineComment) {
        return None;
    }
    let open = open_bracket(&lexed)?;
    let bracket = &text[open..=open];
    let is_end = lexed.code().all(|piece| piece.range.start < at);
    // The parser finds a missing `)` or `]` where it is missing, unless the text ends there.
    if open >= at || (bracket != "{" && !is_end) {
        return None;
    }
    let message = format!("this `{bracket}` is not closed");
    let close = closing(bracket);
    Some((fault(message, format!("add the `{close}` that ends it")), open))
}

fn closing(open: &str) -> &'static str {
    match open {
        "(" => ")",
        "[" => "]",
        _ => "}",
    }
}

/// The innermost bracket without its end, or the first that a bracket of another kind ends.
fn open_bracket(lexed: &Lexed) -> Option<usize> {
    let mut open: Vec<usize> = Vec::new();
    for piece in lexed.code() {
        let at = piece.range.end - 1;
        match piece.nesting() {
            1 => open.push(at),
            -1 => {
                let start = open.pop()?;
                if closing(&lexed.text[start..=start]) != &lexed.text[at..=at] {
                    return Some(start);
                }
            }
            _ => {}
        }
    }
    open.pop()
}

/// Words of Python, JavaScript and others, and what Rhai has for them.
const FOREIGN: [(&str, &str); 10] = [
    ("def function func", "a function is written `fn name(a, b) { ... }`"),
    ("lambda", "a closure is written `|a, b| a + b`"),
    ("None null nil undefined NULL", "no value is written `()`"),
    ("True", "write `true`"),
    ("False", "write `false`"),
    ("and", "write `&&`"),
    ("or", "write `||`"),
    ("not", "write `!`"),
    ("elif elsif", "write `else if`"),
    ("var", "a variable is defined with `let`"),
];

fn foreign_word(text: &str, at: usize) -> Option<(Fault, usize)> {
    let rest = text.get(at..)?;
    if rest.starts_with('#') && !rest.starts_with("#{") {
        return Some((
            fault("`#` does not begin a comment".to_owned(), "a comment begins with `//`"),
            at,
        ));
    }
    // The parser may report the word after the foreign one.
    let before = text[..at].trim_end();
    let previous = before.len() - last_word(before).len();
    [at, previous].into_iter().find_map(|at| {
        let word = word_at(text, at);
        let (_, hint) = FOREIGN
            .iter()
            .find(|(words, _)| words.split(' ').any(|one| one == word))?;
        Some((fault(format!("`{word}` is not a word of Rhai"), *hint), at))
    })
}

#[cfg(test)]
mod tests {
    use rhai::{Engine, Position};

    use super::explain;

    /// The place of a mistake, as the text from there, and its hint.
    #[track_caller]
    fn found(text: &str) -> Option<(&str, String)> {
        let mut engine = Engine::new();
        engine.set_strict_variables(true);
        let error = engine.compile(text).unwrap_err();
        let (fault, at) = explain(text, error.err_type(), offset(text, error.position()))?;
        Some((&text[at..], fault.hint.unwrap()))
    }

    fn offset(text: &str, at: Position) -> usize {
        let lines = text.split_inclusive('\n').take(at.line().unwrap_or(1) - 1);
        let before: usize = lines.map(str::len).sum();
        (before + at.position().unwrap_or(1) - 1).min(text.len())
    }

    #[test]
    fn a_map_needs_its_hash() {
        for text in [
            "f({ input: [1, 2] }, #{})",
            "f(#{ a: { \"b c\": 1 } })",
            "let m = {\n  // one\n  model: 1,\n};",
        ] {
            let (at, hint) = found(text).unwrap_or_else(|| panic!("{text}"));
            assert!(
                at.starts_with('{') && hint.contains("`#{ ... }`"),
                "{text}: {at}: {hint}"
            );
        }
    }

    #[test]
    fn the_open_bracket_is_found() {
        for (text, place) in [
            ("fn f(x) {\n    x\n\nlet map = 1;\nprint(map);\n", "{\n    x"),
            ("let x = 1;\nwhile x < 3 {\n    if x == 2 { x += 1; }\n", "{\n    if"),
            ("let list = [1, 2", "[1"),
            ("print(1 + (2", "(2"),
            ("let a = []; let b = a?[0", "[0"),
        ] {
            let (at, _) = found(text).unwrap_or_else(|| panic!("{text}"));
            assert!(at.starts_with(place), "{text}: {at}");
        }
        assert_eq!(
            found("let x = [1, 2;\nlet y = 3;"),
            None,
            "the parser points there by itself"
        );
    }

    #[test]
    fn words_of_other_languages_are_explained() {
        for (text, word, hint) in [
            ("def f(x):\n    x", "def", "fn name"),
            ("let x = None;", "None", "`()`"),
            ("let x = null;", "null", "`()`"),
            ("let x = 1; if x == 1 and x == 2 { 1 }", "and", "`&&`"),
            ("let x = 1; if x == 1 { 1 } elif x == 2 { 1 }", "elif", "`else if`"),
            ("# comment\nlet x = 1;", "# comment", "`//`"),
        ] {
            let (at, said) = found(text).unwrap_or_else(|| panic!("{text}"));
            assert!(at.starts_with(word) && said.contains(hint), "{text}: {at}: {said}");
        }
    }
}
