//! What the cursor is in: what could be completed there, and which call is being written.

use super::mask::{Class, Inside, Mask};
use super::pieces::is_word;

/// What could stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// A `:command`, and where its argument begins once it has one.
    Command(&'a str),
    /// The path in `import "…`.
    Import(&'a str),
    /// A name after `module::`.
    Path { module: &'a str, start: &'a str },
    /// A name after `value.`; `value` is the word before the point, empty when it is no plain name.
    Member { value: &'a str, start: &'a str },
    /// A key of the object map that is an argument of a call.
    Key { call: &'a str, start: &'a str },
    /// Any name.
    Name(&'a str),
    /// Nothing: inside a string or comment.
    Nothing,
}

impl<'a> Place<'a> {
    /// The place at the end of `before`.
    pub(super) fn of(before: &'a str) -> Self {
        if before.trim_start().starts_with(':') {
            return Place::Command(before.trim_start());
        }
        let mask = Mask::of(before);
        match mask.end {
            Inside::Code => {}
            Inside::Quotes => return import(before, &mask),
            Inside::LineComment | Inside::BlockComment | Inside::LongText => return Place::Nothing,
        }
        let start = last_word(before);
        let rest = &before[..before.len() - start.len()];
        if let Some(path) = rest.strip_suffix("::") {
            let module = last_word(path);
            return Place::Path { module, start };
        }
        // `0..n` is a range, `?.` is a member that may be absent.
        if let Some(value) = rest.strip_suffix('.')
            && !value.ends_with('.')
        {
            let value = last_word(value.strip_suffix('?').unwrap_or(value));
            let is_number = value.starts_with(|c: char| c.is_ascii_digit());
            return match is_number {
                true => Place::Nothing,
                false => Place::Member { value, start },
            };
        }
        if let Some(call) = map_argument(rest, &mask) {
            return Place::Key { call, start };
        }
        match start.starts_with(|c: char| c.is_ascii_digit()) {
            true => Place::Nothing,
            false => Place::Name(start),
        }
    }
}

/// A call that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    /// What is called: `docker::start`, `probe`.
    pub(super) path: &'a str,
    /// The value that a method is called on; empty when it is no plain name; none for a function.
    pub(super) on: Option<&'a str>,
    /// Which argument the cursor is in, from 0.
    pub(super) argument: usize,
    /// Whether that argument has begun.
    pub(super) begun: bool,
}

/// The innermost call whose parentheses the end of `before` is in.
pub(super) fn call(before: &str) -> Option<Call<'_>> {
    let mask = Mask::of(before);
    if matches!(mask.end, Inside::LineComment | Inside::BlockComment) {
        return None;
    }
    let open = *mask.open.iter().rev().find(|at| before[**at..].starts_with('('))?;
    let (path, on) = callee(&before[..open])?;
    let mut depth = 0;
    let mut argument = 0;
    let mut begun = false;
    for (at, c) in before[open + 1..].char_indices() {
        let is_code = mask.class(open + 1 + at) == Class::Code;
        match c {
            '(' | '[' | '{' if is_code => depth += 1,
            ')' | ']' | '}' if is_code => depth -= 1,
            ',' if is_code && depth == 0 => {
                argument += 1;
                begun = false;
                continue;
            }
            _ => {}
        }
        begun |= !c.is_whitespace();
    }
    Some(Call {
        path,
        on,
        argument,
        begun,
    })
}

/// The function that `before` ends with, and what it is a method of. A definition is no call.
fn callee(before: &str) -> Option<(&str, Option<&str>)> {
    let name = last_word(before);
    let rest = &before[..before.len() - name.len()];
    if name.is_empty() || last_word(rest.trim_end()) == "fn" {
        return None;
    }
    if let Some(path) = rest.strip_suffix("::") {
        let module = last_word(path);
        return Some((&before[path.len() - module.len()..], None));
    }
    match rest.strip_suffix('.') {
        Some(value) => Some((name, Some(last_word(value.strip_suffix('?').unwrap_or(value))))),
        None => Some((name, None)),
    }
}

/// The import path that the end is in, if the open quote follows `import`.
fn import<'a>(before: &'a str, mask: &Mask) -> Place<'a> {
    let begin = (0..before.len())
        .rev()
        .take_while(|at| mask.class(*at) == Class::Text)
        .last()
        .unwrap_or(before.len());
    match last_word(before[..begin].trim_end()) {
        "import" => Place::Import(&before[begin + 1..]),
        _ => Place::Nothing,
    }
}

/// The call that a map is an argument of, where the end of `rest` is at one of the map's keys.
fn map_argument<'a>(rest: &'a str, mask: &Mask) -> Option<&'a str> {
    let mut open = mask.open.iter().rev();
    let brace = *open.next()?;
    let is_map = rest[brace..].starts_with('{') && rest[..brace].ends_with('#');
    let after = rest.trim_end().chars().last()?;
    let paren = *open.next()?;
    if !is_map || !matches!(after, '{' | ',') || !rest[paren..].starts_with('(') {
        return None;
    }
    Some(callee(&rest[..paren])?.0)
}

/// The name that `text` ends with; may be empty.
fn last_word(text: &str) -> &str {
    let begin = text.char_indices().rev().take_while(|(_, c)| is_word(*c)).last();
    begin.map_or("", |(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_cursor_is_told() {
        for (before, place) in [
            (":he", Place::Command(":he")),
            ("import \"std/se", Place::Import("std/se")),
            ("let a = 1; import \"", Place::Import("")),
            ("print(\"std/se", Place::Nothing),
            ("1 // doc", Place::Nothing),
            (
                "let c = docker::st",
                Place::Path {
                    module: "docker",
                    start: "st",
                },
            ),
            (
                "engine.pro",
                Place::Member {
                    value: "engine",
                    start: "pro",
                },
            ),
            (
                "f(x).pro",
                Place::Member {
                    value: "",
                    start: "pro",
                },
            ),
            (
                "engine?.",
                Place::Member {
                    value: "engine",
                    start: "",
                },
            ),
            ("0..n", Place::Name("n")),
            ("1.", Place::Nothing),
            ("let x = sl", Place::Name("sl")),
            ("", Place::Name("")),
            (
                "docker::start(#{ im",
                Place::Key {
                    call: "docker::start",
                    start: "im",
                },
            ),
            (
                "engine.load(#{ concurrency: 4, ",
                Place::Key {
                    call: "load",
                    start: "",
                },
            ),
            ("engine.load(#{ concurrency: va", Place::Name("va")),
            ("let m = #{ a", Place::Name("a")),
            ("`text ${ na", Place::Name("na")),
        ] {
            assert_eq!(Place::of(before), place, "{before}");
        }
    }

    #[test]
    fn the_call_and_its_argument_are_told() {
        let told = |before| call(before).map(|c| (c.path, c.on, c.argument, c.begun));
        assert_eq!(told("docker::start("), Some(("docker::start", None, 0, false)));
        assert_eq!(told("f(1, [2, 3], g(4)"), Some(("f", None, 2, true)));
        assert_eq!(told("f(1, g(4, "), Some(("g", None, 1, false)));
        assert_eq!(
            told("engine.probe(#{ input: 1, "),
            Some(("probe", Some("engine"), 0, true))
        );
        assert_eq!(told("f(\",\", "), Some(("f", None, 1, false)));
        assert_eq!(told("f(1) + "), None);
        assert_eq!(told("fn f(a, "), None);
        assert_eq!(told("(1 + "), None);
    }
}
