//! Formats values for the REPL: on one line, with the important keys first, or whole and indented.

use rhai::{Array, Dynamic, Engine, Map, Scope};

use crate::script::lexer::is_word;

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

/// Keys that come first in a line: those of a probe's answer, of a load's and of an error.
const FIRST: [&str; 14] = [
    "verdict",
    "cause",
    "message",
    "output_throughput",
    "ttft_ms",
    "tpot_ms",
    "e2el_ms",
    "peak",
    "stopped",
    "completed",
    "failed",
    "input",
    "output",
    "concurrency",
];

/// Longest value of a key in a line that does not show the whole value.
const PART: usize = 24;

/// Space reserved for the number of entries that are not shown.
const MORE: usize = ", … 1000 more".len();

/// The entries of a map or an array: the key with its colon, and the value.
type Entries<'a> = Box<dyn Iterator<Item = (String, &'a Dynamic)> + 'a>;

/// Calls `draw` with the brackets, the number and the entries of a map or an array; `None` for other values.
fn opened<T>(value: &Dynamic, draw: impl FnOnce([&str; 2], usize, Entries) -> T) -> Option<T> {
    if let Some(map) = value.read_lock::<Map>() {
        let entries = map.iter().map(|(key, value)| (format!("{}: ", key_text(key)), value));
        return Some(draw(["#{ ", " }"], map.len(), Box::new(entries)));
    }
    let array = value.read_lock::<Array>()?;
    let entries = array.iter().map(|value| (String::new(), value));
    Some(draw(["[", "]"], array.len(), Box::new(entries)))
}

/// The value on one line of at most `width` characters, the important keys first.
pub(super) fn line(engine: &Engine, value: &Dynamic, width: usize) -> Line {
    if let Some(text) = one_line(engine, value, width, 0) {
        return Line { text, is_whole: true };
    }
    let part = |value: &Dynamic| match value.as_float() {
        // Few digits are enough here; the whole value has all of them.
        Ok(number) if number.abs() >= 100.0 => Some(format!("{number:.1}")),
        Ok(number) if number.abs() >= 0.1 => Some(format!("{number:.3}")),
        _ if value.is_map() => percentiles(value).or_else(|| one_line(engine, value, PART, 0)),
        _ => one_line(engine, value, PART, 0),
    };
    let text = opened(value, |[open, close], count, entries| {
        let mut entries: Vec<_> = if value.is_map() {
            entries.filter(|(_, value)| !value.is_unit()).collect()
        } else {
            entries.take(width).collect()
        };
        if value.is_map() {
            let rank = |key: &str| FIRST.iter().position(|first| key.strip_suffix(": ") == Some(first));
            entries.sort_by_key(|(key, value)| (rank(key).unwrap_or(FIRST.len()), part(value).is_none()));
        }
        let (mut line, mut shown) = (open.to_owned(), 0);
        for (key, value) in entries {
            let comma = if shown > 0 { ", " } else { "" };
            let value = part(value).unwrap_or_else(|| brief(engine, value, PART));
            let entry = format!("{comma}{key}{value}");
            if line.chars().count() + entry.chars().count() + MORE + close.len() > width {
                break;
            }
            line.push_str(&entry);
            shown += 1;
        }
        match count - shown {
            0 => format!("{line}{close}"),
            more if shown == 0 => format!("{line}… {more} in all{close}"),
            more => format!("{line}, … {more} more{close}"),
        }
    });
    Line {
        text: text.unwrap_or_else(|| brief(engine, value, width)),
        is_whole: false,
    }
}

/// Median and 95th percentile of a latency's statistics, as `12.3 (p95 20.0)`; `None` for other values.
fn percentiles(value: &Dynamic) -> Option<String> {
    let map = value.read_lock::<Map>()?;
    let number = |key: &str| map.get(key)?.as_float().ok();
    let short = |number: f64| match number {
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    };
    let p95 = number("p95").map(|p95| format!(" (p95 {})", short(p95)));
    Some(format!("{}{}", short(number("median")?), p95.unwrap_or_default()))
}

/// The whole value, on several lines if it is long.
pub(super) fn pretty(engine: &Engine, value: &Dynamic) -> String {
    format_value(engine, value, 0)
}

/// The beginning of the value on one line of at most `width` characters.
pub(super) fn brief(engine: &Engine, value: &Dynamic, width: usize) -> String {
    let line = one_line(engine, value, width * 2, 0)
        .unwrap_or_else(|| hidden(engine, value))
        .replace('\n', " ");
    if line.chars().count() > width {
        line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
    } else {
        line
    }
}

fn format_value(engine: &Engine, value: &Dynamic, depth: usize) -> String {
    if depth > DEPTH {
        return hidden(engine, value);
    }
    if let Some(line) = one_line(engine, value, WIDTH.saturating_sub(2 * depth), depth)
        && (depth > 0 || !value.is_map() || line == "#{}")
    {
        return line;
    }
    let (indent, end) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    let lines = opened(value, |[open, close], count, entries| {
        let line = |(key, value)| format!("{indent}{key}{},\n", format_value(engine, value, depth + 1));
        let lines: String = entries.take(ITEMS).map(line).collect();
        let more = match count.saturating_sub(ITEMS) {
            0 => String::new(),
            hidden => format!("{indent}… {hidden} more\n"),
        };
        format!("{}\n{lines}{more}{end}{}", open.trim_end(), close.trim_start())
    });
    lines.unwrap_or_else(|| leaf(engine, value))
}

/// A container without its entries.
fn hidden(engine: &Engine, value: &Dynamic) -> String {
    let brackets = opened(value, |[open, close], _, _| {
        format!("{}…{}", open.trim_end(), close.trim_start())
    });
    brackets.unwrap_or_else(|| leaf(engine, value))
}

/// The whole value, if that is possible on one line of at most `width` characters.
fn one_line(engine: &Engine, value: &Dynamic, width: usize, depth: usize) -> Option<String> {
    if depth > DEPTH {
        return None;
    }
    let entries = opened(value, |[open, close], count, entries| {
        if count == 0 {
            return Some(format!("{}{}", open.trim_end(), close.trim_start()));
        }
        let mut left = width.checked_sub(open.len() + close.len())?;
        let mut shown = Vec::new();
        for (key, value) in entries {
            let entry = format!("{key}{}", one_line(engine, value, left, depth + 1)?);
            left = left.checked_sub(entry.len() + 2)?;
            shown.push(entry);
        }
        Some(format!("{open}{}{close}", shown.join(", ")))
    });
    let line = match entries {
        Some(entries) => entries?,
        None => leaf(engine, value),
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
    let is_name = key.chars().all(is_word) && !key.starts_with(|c: char| c.is_ascii_digit());
    if is_name && !key.is_empty() {
        key.to_owned()
    } else {
        format!("{key:?}")
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
        let text = "#{ verdict: \"ok\", peak: 1.500, input: 512, … 3 more }";
        assert_eq!(
            shown(answer),
            Line {
                text: text.to_owned(),
                is_whole: false
            }
        );
        let load = "#{ ttft_ms: #{ n: 60, median: 12.34567, p95: 20.0, std: 1.0 }, itls: [1, 2, 3], output_throughput: 900.0 }";
        let text = "#{ output_throughput: 900.0, ttft_ms: 12.3 (p95 20.0), … 1 more }";
        assert_eq!(line(&engine, &engine.eval::<Dynamic>(load).unwrap(), 72).text, text);
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
