//! Opens a file of another tool and looks at its outermost keys, without holding values that no reader asks for.
//! Repairs JSON written by Python, which contains `NaN`, `Infinity` and `-Infinity`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::csv;
use crate::fault::{Fault, Result};

/// Maximum bytes of a file; no result of these tools is nearly as large.
const MAX_BYTES: u64 = 256 << 20;

/// Keys listed in a message.
const MAX_LISTED: usize = 8;

pub(super) struct Source {
    /// The path as the user gave it.
    pub(super) path: PathBuf,
    pub(super) shape: Shape,
    /// Whether Python's `NaN` and `Infinity` were replaced.
    pub(super) repaired: bool,
    text: String,
}

/// The outermost structure of a file.
#[derive(Debug, PartialEq)]
pub(super) enum Shape {
    /// A JSON object with these keys.
    Object(BTreeSet<String>),
    /// A JSON array whose first element is an object with these keys.
    Objects(BTreeSet<String>),
    /// A CSV table with these columns.
    Table(Vec<String>),
    /// Other JSON.
    Other(&'static str),
}

impl Source {
    /// Reads a file and its shape.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let named = || format!("`{}`", path.display());
        let file = std::fs::File::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Fault::usage(format!("there is no {}", named())),
            _ => Fault::io(path, &error),
        })?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| Fault::io(path, &error))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Fault::usage(format!("{} is larger than 256 MiB", named()))
                .hint("no result of a tool that can be read is so large; give the summary that it wrote"));
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            Fault::usage(format!("{} is not text", named())).hint("give a JSON or CSV file, or the folder of a run")
        })?;
        // Spreadsheets write a byte order mark.
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        if !text.trim_start().starts_with(['{', '[']) {
            let columns = csv::columns(&text).filter(|columns| columns.len() > 1);
            let columns = columns.ok_or_else(|| {
                Fault::usage(format!("{} is neither JSON nor a table with a heading", named()))
                    .hint("give a JSON or CSV file, or the folder of a run")
            })?;
            return Ok(Self {
                path: path.to_owned(),
                shape: Shape::Table(columns),
                repaired: false,
                text,
            });
        }
        let (text, repaired) = match repair(&text) {
            Cow::Owned(repaired) => (repaired, true),
            Cow::Borrowed(_) => (text, false),
        };
        let shape = serde_json::from_str(&text).map_err(|error| {
            Fault::usage(format!("{} is not whole JSON: {error}", named()))
                .hint("it was cut off or edited: write it again with the tool that it is from")
        })?;
        Ok(Self {
            path: path.to_owned(),
            shape,
            repaired,
            text,
        })
    }

    /// Deserializes the whole document.
    ///
    /// # Errors
    ///
    /// `usage` with the path of the first wrong value.
    pub(super) fn parse<T: DeserializeOwned>(&self, tool: &str) -> Result<T> {
        let mut deserializer = serde_json::Deserializer::from_str(&self.text);
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let place = error.path().to_string();
            let place = if place == "." {
                String::new()
            } else {
                format!("`{place}`: ")
            };
            self.broken(tool, format!("{place}{}", error.into_inner()))
        })
    }

    /// The rows of a CSV table.
    pub(super) fn rows(&self, tool: &str) -> Result<Vec<csv::Row>> {
        csv::rows(&self.text).map_err(|what| self.broken(tool, what))
    }

    /// An error for a file of a tool with content that the tool does not write.
    pub(super) fn broken(&self, tool: &str, what: impl fmt::Display) -> Fault {
        Fault::usage(format!(
            "`{}` looks like a file of {tool}, but {what}",
            self.path.display()
        ))
        .hint("it was edited or cut off: write it again with the tool that it is from, or take that entry out")
    }
}

impl Shape {
    pub(super) fn has(&self, key: &str) -> bool {
        match self {
            Shape::Object(keys) | Shape::Objects(keys) => keys.contains(key),
            Shape::Table(columns) => columns.iter().any(|column| column == key),
            Shape::Other(_) => false,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some = |names: &mut dyn Iterator<Item = &String>, count: usize| {
            let names: Vec<_> = names.take(MAX_LISTED).map(|name| format!("`{name}`")).collect();
            let more = if count > MAX_LISTED { ", …" } else { "" };
            format!("{}{more}", names.join(", "))
        };
        match self {
            Shape::Object(keys) if keys.is_empty() => f.write_str("it is an empty object"),
            Shape::Object(keys) => write!(f, "it is an object of {}", some(&mut keys.iter(), keys.len())),
            Shape::Objects(keys) => write!(f, "it is an array of objects of {}", some(&mut keys.iter(), keys.len())),
            Shape::Table(columns) => write!(f, "its columns are {}", some(&mut columns.iter(), columns.len())),
            Shape::Other(what) => write!(f, "it is {what}"),
        }
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor { outermost: true })
    }
}

/// Collects the keys of an object, or of the first object in an array, and skips all values.
struct ShapeVisitor {
    outermost: bool,
}

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<IgnoredAny>()?;
            keys.insert(key);
        }
        Ok(Shape::Object(keys))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
        let first = if self.outermost {
            seq.next_element_seed(ShapeVisitor { outermost: false })?
        } else {
            None
        };
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(match first {
            Some(Shape::Object(keys)) => Shape::Objects(keys),
            Some(_) => Shape::Other("an array of something other than objects"),
            None => Shape::Other("an empty array"),
        })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Other("a truth value"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Other("a number"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Other("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Other("a number"))
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Other("a text"))
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Other("null"))
    }
}

impl<'de> DeserializeSeed<'de> for ShapeVisitor {
    type Value = Shape;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        deserializer.deserialize_any(self)
    }
}

const PYTHON_NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// Replaces those words by `null`, except within strings.
fn repair(text: &str) -> Cow<'_, str> {
    if !text.contains("NaN") && !text.contains("Infinity") {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let (mut rest, mut changed) = (text, false);
    while let Some(at) = rest.find(['"', 'N', 'I', '-']) {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('"') {
            let end = quoted(rest);
            clean.push_str(&rest[..end]);
            rest = &rest[end..];
        } else if let Some(word) = PYTHON_NUMBERS.iter().find(|word| rest.starts_with(**word)) {
            clean.push_str("null");
            rest = &rest[word.len()..];
            changed = true;
        } else {
            clean.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    if !changed {
        return Cow::Borrowed(text);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// Length of the string literal at the start of the text; everything if it is unterminated.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_the_outermost_keys() {
        let shape = |text: &str| serde_json::from_str::<Shape>(text).unwrap();
        assert!(shape(r#"{"a": {"b": 1}, "c": [1]}"#).has("c"));
        assert!(!shape(r#"{"a": {"b": 1}}"#).has("b"));
        assert!(shape(r#"[{"a": 1}, 2]"#).has("a"));
        assert_eq!(
            shape("[[{}], 2]"),
            Shape::Other("an array of something other than objects")
        );
        assert_eq!(shape("[]"), Shape::Other("an empty array"));
        assert!(serde_json::from_str::<Shape>("[1, 2").is_err());
    }
}

#[cfg(test)]
mod python_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_between_texts_are_replaced() {
        let text = r#"{"NaN": NaN, "a": [-Infinity, -1, Infinity], "b": "\"NaN"}"#;
        assert_eq!(repair(text), r#"{"NaN": null, "a": [null, -1, null], "b": "\"NaN"}"#);
        assert!(matches!(repair(r#"{"a": "NaN"}"#), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn any_text_can_be_looked_at(text in "([-NI\"\\\\]|NaN|Infinity|é|[a-z]){0,40}") {
            let _ = repair(&text);
        }
    }
}
