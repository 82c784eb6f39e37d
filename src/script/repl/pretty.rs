//! Formats values for the REPL: on one line, with the important keys first, or whole and indented.

use rhai::{Array, Dynamic, Engine, Map, Scope};

/// Most characters on one line.
const WIDTH: usize = 100;

/// Most items of an array or map that are shown.
const ITEMS: usize = 200;

/// Deepest nesting that is shown.
const DEPTH: usize = 12;

/// A value on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The line.
    pub text: String,
    /// Whether it is the whole value.
    pub is_whole: bool,
}

/// Keys that come first in a line.
const FIRST: [&str; 7] = [
    "verdict",
    "cause",
    "stopped",
    "message",
    "input",
    "output",
    "concurrency",
];

/// Longest value of a key in a line that does not show the whole.
const PART: usize = 24;

/// Formats `value` on one line of at most `width` characters.
pub(super) fn line(engine: &Engine, value: &Dynamic, width: usize) -> Line {
    if let Some(text) = one_line(engine, value, width, 0) {
        return Line { text, is_whole: true };
    }
    let part = |value: &Dynamic| match value.as_float() {
        // Enough digits to read; the whole value has all.
        Ok(number) if number.abs() >= 100.0 => Some(format!("{number:.1}")),
        Ok(number) if number.abs() >= 0.1 => Some(format!("{number:.3}")),
        _ => one_line(engine, value, PART, 0),
    };
    let text = if let Some(map) = value.read_lock::<Map>() {
        let mut entries: Vec<_> = map.iter().filter(|(_, value)| !value.is_unit()).collect();
        let rank = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
        entries.sort_by_key(|(key, value)| (rank(key), part(value).is_none()));
        let parts = entries.into_iter().map(|(key, value)| {
            let value = part(value).unwrap_or_else(|| brief(engine, value, PART));
            format!("{}: {value}", key_text(key))
        });
        cut("#{ ", parts, map.len(), " }", width)
    } else if let Some(array) = value.read_lock::<Array>() {
        let parts = array
            .iter()
            .map(|value| part(value).unwrap_or_else(|| brief(engine, value, PART)));
        cut("[", parts, array.len(), "]", width)
    } else {
        brief(engine, value, width)
    };
    Line { text, is_whole: false }
}

/// As many of the parts as `width` allows, and the number of the others.
fn cut(open: &str, parts: impl Iterator<Item = String>, count: usize, close: &str, width: usize) -> String {
    const MORE: usize = ", … 1000 more".len();
    let mut line = open.to_owned();
    let mut shown = 0;
    for part in parts {
        if line.chars().count() + part.chars().count() + MORE + close.len() > width {
            break;
        }
        if shown > 0 {
            line.push_str(", ");
        }
        line.push_str(&part);
        shown += 1;
    }
    match count - shown {
        0 => format!("{line}{close}"),
        more if shown == 0 => format!("{line}… {more} in all{close}"),
        more => format!("{line}, … {more} more{close}"),
    }
}

/// Formats the whole `value`.
pub(super) fn pretty(engine: &Engine, value: &Dynamic) -> String {
    format_value(engine, value, 0)
}

/// Formats `value` on one line of at most `width` characters.
pub(super) fn brief(engine: &Engine, value: &Dynamic, width: usize) -> String {
    let line = one_line(engine, value, width * 2, 0).unwrap_or_else(|| hidden(value, || leaf(engine, value)));
    let line = line.replace('\n', " ");
    match line.chars().count() > width {
        true => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => line,
    }
}

fn format_value(engine: &Engine, value: &Dynamic, depth: usize) -> String {
    if depth > DEPTH {
        return hidden(value, || leaf(engine, value));
    }
    if let Some(line) = one_line(engine, value, WIDTH.saturating_sub(2 * depth), depth)
        && (depth > 0 || !value.is_map() || line == "#{}")
    {
        return line;
    }
    let indent = "  ".repeat(depth + 1);
    let close = "  ".repeat(depth);
    if let Some(map) = value.read_lock::<Map>() {
        let items: Vec<String> = map
            .iter()
            .take(ITEMS)
            .map(|(key, value)| {
                format!(
                    "{indent}{}: {},\n",
                    key_text(key),
                    format_value(engine, value, depth + 1)
                )
            })
            .collect();
        return format!("#{{\n{}{}{close}}}", items.concat(), more(map.len(), &indent));
    }
    if let Some(array) = value.read_lock::<Array>() {
        let items: Vec<String> = array
            .iter()
            .take(ITEMS)
            .map(|value| format!("{indent}{},\n", format_value(engine, value, depth + 1)))
            .collect();
        return format!("[\n{}{}{close}]", items.concat(), more(array.len(), &indent));
    }
    leaf(engine, value)
}

fn more(length: usize, indent: &str) -> String {
    match length.checked_sub(ITEMS) {
        None | Some(0) => String::new(),
        Some(hidden) => format!("{indent}… {hidden} more\n"),
    }
}

/// Placeholder for a container that is not expanded.
fn hidden(value: &Dynamic, leaf: impl FnOnce() -> String) -> String {
    match () {
        () if value.is_array() => "[…]".to_owned(),
        () if value.is_map() => "#{…}".to_owned(),
        () => leaf(),
    }
}

/// Formats on one line, unless it needs more than `width` characters or is too deep.
fn one_line(engine: &Engine, value: &Dynamic, width: usize, depth: usize) -> Option<String> {
    if depth > DEPTH {
        return None;
    }
    let line = if let Some(map) = value.read_lock::<Map>() {
        if map.is_empty() {
            return Some("#{}".to_owned());
        }
        let mut left = width.checked_sub(4)?;
        let mut items = Vec::new();
        for (key, value) in map.iter() {
            let item = format!("{}: {}", key_text(key), one_line(engine, value, left, depth + 1)?);
            left = left.checked_sub(item.len() + 2)?;
            items.push(item);
        }
        format!("#{{ {} }}", items.join(", "))
    } else if let Some(array) = value.read_lock::<Array>() {
        let mut left = width.checked_sub(2)?;
        let mut items = Vec::new();
        for value in array.iter() {
            let item = one_line(engine, value, left, depth + 1)?;
            left = left.checked_sub(item.len() + 2)?;
            items.push(item);
        }
        format!("[{}]", items.join(", "))
    } else {
        leaf(engine, value)
    };
    (line.chars().count() <= width && !line.contains('\n')).then_some(line)
}

/// Formats a value that is not a container. Our types implement `to_debug`.
fn leaf(engine: &Engine, value: &Dynamic) -> String {
    if let Some(text) = value.read_lock::<rhai::ImmutableString>() {
        return format!("{:?}", text.as_str());
    }
    if value.is_fnptr() {
        return "closure".to_owned();
    }
    if value.is_int() || value.is_float() || value.is_bool() || value.is_unit() || value.is_char() || value.is_blob() {
        return format!("{value:?}");
    }
    let mut scope = Scope::new();
    scope.push_dynamic("value", value.clone());
    engine
        .eval_expression_with_scope::<String>(&mut scope, "value.to_debug()")
        .unwrap_or_else(|_| engine.map_type_name(value.type_name()).to_owned())
}

/// A key as in a map literal.
fn key_text(key: &str) -> String {
    let is_name = key.chars().all(crate::script::lexer::is_word) && !key.starts_with(|c: char| c.is_ascii_digit());
    match is_name && !key.is_empty() {
        true => key.to_owned(),
        false => format!("{key:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(script: &str) -> String {
        let engine = Engine::new();
        let value: Dynamic = engine.eval(script).unwrap();
        pretty(&engine, &value)
    }

    #[test]
    fn short_values_are_on_one_line() {
        assert_eq!(eval("1 + 1"), "2");
        assert_eq!(eval("\"a\\\"b\""), "\"a\\\"b\"");
        assert_eq!(eval("[1, 2.5, 'c', ()]"), "[1, 2.5, 'c', ()]");
        assert_eq!(eval("#{}"), "#{}");
        assert_eq!(eval("|x| x"), "closure");
    }

    #[test]
    fn a_line_has_the_important_keys_first_and_says_what_it_leaves_out() {
        let engine = Engine::new();
        let shown = |script: &str| line(&engine, &engine.eval::<Dynamic>(script).unwrap(), 60);
        assert_eq!(
            shown("#{ verdict: \"ok\" }"),
            Line {
                text: "#{ verdict: \"ok\" }".to_owned(),
                is_whole: true
            }
        );
        let answer = "let log = []; log.pad(100, \"a line of the log\");
                      #{ cause: (), evidence: #{ log: log }, input: 512, peak: 1.5, verdict: \"ok\", z: log }";
        let text = "#{ verdict: \"ok\", input: 512, peak: 1.500, … 3 more }";
        assert_eq!(
            shown(answer),
            Line {
                text: text.to_owned(),
                is_whole: false
            }
        );
        let list = shown("let a = []; a.pad(1000, 1234567); a");
        assert!(
            list.text.ends_with(" more]") && list.text.chars().count() <= 60,
            "{list:?}"
        );
    }

    #[test]
    fn maps_are_indented() {
        assert_eq!(
            eval("#{ verdict: \"ok\", \"a b\": [#{ x: 1 }] }"),
            "#{\n  \"a b\": [#{ x: 1 }],\n  verdict: \"ok\",\n}"
        );
    }

    #[test]
    fn long_arrays_are_cut() {
        let shown = eval("let a = []; a.pad(1000, \"0123456789\"); a");
        assert!(shown.starts_with("[\n  \"0123456789\",\n"), "{shown}");
        assert!(shown.ends_with("  … 800 more\n]"), "{shown}");
    }

    #[test]
    fn deep_values_are_cut() {
        let shown = eval("let a = [1]; for i in 0..3000 { a = [a]; } a");
        assert!(shown.contains("[…]") && shown.len() < 2000, "{shown}");
    }

    #[test]
    fn brief_values_keep_their_width() {
        let engine = Engine::new();
        let value: Dynamic = engine.eval("let a = []; a.pad(1000, 7); a").unwrap();
        assert_eq!(brief(&engine, &value, 20), "[…]");
        assert_eq!(
            brief(&engine, &Dynamic::from("a long text without end"), 10),
            "\"a long t…"
        );
    }
}
