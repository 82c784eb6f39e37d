//! Finds out what can be completed at the cursor, and which call is being written.

use super::items::is_word;
use super::mask::{Class, Inside, Mask};

/// What can be completed at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Completion<'a> {
    /// A `:command`, with its argument if there is one.
    Command(&'a str),
    /// The path in `import "…`.
    Import(&'a str),
    Path {
        module: &'a str,
        start: &'a str,
    },
    /// A name after `value.`; `value` is the word before the dot, empty for other expressions.
    Member {
        value: &'a str,
        start: &'a str,
    },
    /// A key of a map literal that is an argument of a call.
    Key {
        call: &'a str,
        start: &'a str,
    },
    Name(&'a str),
    /// Nothing: the cursor is inside a string or comment.
    None,
}

impl<'a> Completion<'a> {
    /// The completion context at the end of `before`.
    pub(super) fn at_end_of(before: &'a str) -> Self {
        if before.trim_start().starts_with(':') {
            return Completion::Command(before.trim_start());
        }
        let mask = Mask::new(before);
        match mask.end {
            Inside::Code => {}
            Inside::Quotes => return import(before, &mask),
            Inside::LineComment | Inside::BlockComment | Inside::LongText => return Completion::None,
        }
        let start = last_word(before);
        let rest = &before[..before.len() - start.len()];
        if let Some(path) = rest.strip_suffix("::") {
            let module = last_word(path);
            return Completion::Path { module, start };
        }
        // `0..n` is a range, `?.` is safe member access.
        if let Some(value) = rest.strip_suffix('.')
            && !value.ends_with('.')
        {
            let value = last_word(value.strip_suffix('?').unwrap_or(value));
            let is_number = value.starts_with(|c: char| c.is_ascii_digit());
            return match is_number {
                true => Completion::None,
                false => Completion::Member { value, start },
            };
        }
        if let Some(call) = map_argument(rest, &mask) {
            return Completion::Key { call, start };
        }
        match start.starts_with(|c: char| c.is_ascii_digit()) {
            true => Completion::None,
            false => Completion::Name(start),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub(super) path: &'a str,
    /// The value of a method call, empty for other expressions; `None` for a function call.
    pub(super) on: Option<&'a str>,
    /// Index of the argument at the cursor.
    pub(super) argument: usize,
    /// Whether that argument has at least one character.
    pub(super) started: bool,
}

/// The innermost open call at the end of `before`.
pub(super) fn call(before: &str) -> Option<Call<'_>> {
    let mask = Mask::new(before);
    if matches!(mask.end, Inside::LineComment | Inside::BlockComment) {
        return None;
    }
    let open = *mask.open.iter().rev().find(|at| before[**at..].starts_with('('))?;
    let (path, on) = callee(&before[..open])?;
    let mut depth = 0;
    let mut argument = 0;
    let mut started = false;
    for (at, c) in before[open + 1..].char_indices() {
        let is_code = mask.class(open + 1 + at) == Class::Code;
        match c {
            '(' | '[' | '{' if is_code => depth += 1,
            ')' | ']' | '}' if is_code => depth -= 1,
            ',' if is_code && depth == 0 => {
                argument += 1;
                started = false;
                continue;
            }
            _ => {}
        }
        started |= !c.is_whitespace();
    }
    Some(Call {
        path,
        on,
        argument,
        started,
    })
}

/// The function name at the end of `before`, and the value it is a method of. A definition is not a call.
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

/// The import path at the end of `before`, if the open quote follows `import`.
fn import<'a>(before: &'a str, mask: &Mask) -> Completion<'a> {
    let begin = (0..before.len())
        .rev()
        .take_while(|at| mask.class(*at) == Class::Text)
        .last()
        .unwrap_or(before.len());
    match last_word(before[..begin].trim_end()) {
        "import" => Completion::Import(&before[begin + 1..]),
        _ => Completion::None,
    }
}

/// The call that the open map literal is an argument of, if a key can follow.
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

/// The name at the end of `text`; may be empty.
fn last_word(text: &str) -> &str {
    let begin = text.char_indices().rev().take_while(|(_, c)| is_word(*c)).last();
    begin.map_or("", |(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_position_determines_the_completion() {
        for (before, place) in [
            (":he", Completion::Command(":he")),
            ("import \"std/se", Completion::Import("std/se")),
            ("let a = 1; import \"", Completion::Import("")),
            ("print(\"std/se", Completion::None),
            ("1 // doc", Completion::None),
            (
                "let c = docker::st",
                Completion::Path {
                    module: "docker",
                    start: "st",
                },
            ),
            (
                "engine.pro",
                Completion::Member {
                    value: "engine",
                    start: "pro",
                },
            ),
            (
                "f(x).pro",
                Completion::Member {
                    value: "",
                    start: "pro",
                },
            ),
            (
                "engine?.",
                Completion::Member {
                    value: "engine",
                    start: "",
                },
            ),
            ("0..n", Completion::Name("n")),
            ("1.", Completion::None),
            ("let x = sl", Completion::Name("sl")),
            ("", Completion::Name("")),
            (
                "docker::start(#{ im",
                Completion::Key {
                    call: "docker::start",
                    start: "im",
                },
            ),
            (
                "engine.load(#{ concurrency: 4, ",
                Completion::Key {
                    call: "load",
                    start: "",
                },
            ),
            ("engine.load(#{ concurrency: va", Completion::Name("va")),
            ("let m = #{ a", Completion::Name("a")),
            ("`text ${ na", Completion::Name("na")),
        ] {
            assert_eq!(Completion::at_end_of(before), place, "{before}");
        }
    }

    #[test]
    fn the_open_call_and_its_argument_are_found() {
        let open_call = |before| call(before).map(|c| (c.path, c.on, c.argument, c.started));
        assert_eq!(open_call("docker::start("), Some(("docker::start", None, 0, false)));
        assert_eq!(open_call("f(1, [2, 3], g(4)"), Some(("f", None, 2, true)));
        assert_eq!(open_call("f(1, g(4, "), Some(("g", None, 1, false)));
        assert_eq!(
            open_call("engine.probe(#{ input: 1, "),
            Some(("probe", Some("engine"), 0, true))
        );
        assert_eq!(open_call("f(\",\", "), Some(("f", None, 1, false)));
        assert_eq!(open_call("f(1) + "), None);
        assert_eq!(open_call("fn f(a, "), None);
        assert_eq!(open_call("(1 + "), None);
    }
}
