//! Formats values for the REPL: short ones on one line, maps and long arrays indented.

use rhai::{Array, Dynamic, Engine, Map, Scope};

/// Most characters on one line.
const WIDTH: usize = 100;

/// Most items of an array or map that are shown.
const ITEMS: usize = 200;

/// Deepest nesting that is shown.
const DEPTH: usize = 12;

/// Formats `value`; `None` for `()`.
pub(super) fn pretty(engine: &Engine, value: &Dynamic) -> Option<String> {
    (!value.is_unit()).then(|| format_value(engine, value, 0))
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
    let is_name = key.chars().all(super::lexer::is_word) && !key.starts_with(|c: char| c.is_ascii_digit());
    match is_name && !key.is_empty() {
        true => key.to_owned(),
        false => format!("{key:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(script: &str) -> Option<String> {
        let engine = Engine::new();
        let value: Dynamic = engine.eval(script).unwrap();
        pretty(&engine, &value)
    }

    #[test]
    fn short_values_are_on_one_line() {
        assert_eq!(eval("()"), None);
        assert_eq!(eval("1 + 1").as_deref(), Some("2"));
        assert_eq!(eval("\"a\\\"b\"").as_deref(), Some("\"a\\\"b\""));
        assert_eq!(eval("[1, 2.5, 'c', ()]").as_deref(), Some("[1, 2.5, 'c', ()]"));
        assert_eq!(eval("#{}").as_deref(), Some("#{}"));
        assert_eq!(eval("|x| x").as_deref(), Some("closure"));
    }

    #[test]
    fn maps_are_indented() {
        assert_eq!(
            eval("#{ verdict: \"ok\", \"a b\": [#{ x: 1 }] }").as_deref(),
            Some("#{\n  \"a b\": [#{ x: 1 }],\n  verdict: \"ok\",\n}")
        );
    }

    #[test]
    fn long_arrays_are_cut() {
        let shown = eval("let a = []; a.pad(1000, \"0123456789\"); a").unwrap();
        assert!(shown.starts_with("[\n  \"0123456789\",\n"), "{shown}");
        assert!(shown.ends_with("  … 800 more\n]"), "{shown}");
    }

    #[test]
    fn deep_values_are_cut() {
        let shown = eval("let a = [1]; for i in 0..3000 { a = [a]; } a").unwrap();
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
