//! Opens a file of another tool as one tree of loosely typed values. Long lists of numbers and texts are read through
//! without being held. Repairs JSON written by Python, which contains `NaN`, `Infinity` and `-Infinity`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::csv;
use crate::fault::{Fault, Result};

/// Maximum bytes of a file; no result of these tools is nearly as large.
const MAX_BYTES: u64 = 256 << 20;
/// Maximum objects of a list that are held, so that a hostile file cannot exhaust memory.
const MAX_LENGTH: usize = 100_000;
/// Keys listed in a message.
const MAX_LISTED: usize = 8;

pub(super) struct Document {
    /// The path as the user gave it.
    pub(super) path: PathBuf,
    /// Whether Python's `NaN` and `Infinity` were replaced.
    pub(super) repaired: bool,
    /// The whole file; a table is a list of objects. An error says what is wrong with a row.
    pub(super) root: Result<Node, String>,
    /// The keys of the object, of the first object of the list, or the columns of the table.
    pub(super) keys: Vec<String>,
    /// What it is, for people: `an object`.
    what: &'static str,
}

impl Document {
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
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if !text.trim_start().starts_with(['{', '[']) {
            let columns = csv::columns(text).filter(|columns| columns.len() > 1);
            return Ok(Self {
                path: path.to_owned(),
                repaired: false,
                root: csv::rows(text).map(|rows| Node::List(rows.into_iter().map(Node::from_row).collect())),
                keys: columns.ok_or_else(|| {
                    Fault::usage(format!("{} is neither JSON nor a table with a heading", named()))
                        .hint("give a JSON or CSV file, or the folder of a run")
                })?,
                what: "a table",
            });
        }
        let text = repair(text);
        let root: Node = serde_json::from_str(&text).map_err(|error| {
            Fault::usage(format!("{} is not whole JSON: {error}", named()))
                .hint("it was cut off or edited: write it again with the tool that it is from")
        })?;
        let (object, what) = match &root {
            Node::Object(values) => (Some(values), "an object"),
            Node::List(list) if list.length == 0 => (None, "an empty array"),
            Node::List(list) => match list.objects.first() {
                Some(Node::Object(values)) => (Some(values), "an array of objects"),
                _ => (None, "an array of something other than objects"),
            },
            _ => (None, "a single value"),
        };
        Ok(Self {
            path: path.to_owned(),
            repaired: matches!(text, Cow::Owned(_)),
            keys: object.map_or_else(Vec::new, |values| values.keys().cloned().collect()),
            what,
            root: Ok(root),
        })
    }

    /// Whether it is one object, not a list of them.
    pub(super) fn is_object(&self) -> bool {
        matches!(self.root, Ok(Node::Object(_)))
    }
}

/// What the file is, for a message.
impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .keys
            .iter()
            .take(MAX_LISTED)
            .map(|key| format!("`{key}`"))
            .collect();
        let more = if self.keys.len() > MAX_LISTED { ", …" } else { "" };
        let names = format!("{}{more}", names.join(", "));
        match self.what {
            "a table" => write!(f, "its columns are {names}"),
            "an object" if self.keys.is_empty() => f.write_str("it is an empty object"),
            what if self.keys.is_empty() => write!(f, "it is {what}"),
            what => write!(f, "it is {what} of {names}"),
        }
    }
}

/// A value of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Missing, null, or a number that is not finite.
    Nothing,
    Flag(bool),
    Number(f64),
    Text(String),
    Object(BTreeMap<String, Node>),
    List(List),
}

/// A list: its objects, and the statistics of its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct List {
    /// Elements of any kind.
    pub(super) length: usize,
    objects: Vec<Node>,
    /// Objects beyond [`MAX_LENGTH`] are not held.
    cut: bool,
    count: f64,
    sum: f64,
    last: Option<f64>,
}

impl Extend<Node> for List {
    fn extend<T: IntoIterator<Item = Node>>(&mut self, nodes: T) {
        for node in nodes {
            self.length += 1;
            match node {
                Node::Object(_) if self.objects.len() == MAX_LENGTH => self.cut = true,
                Node::Object(_) => self.objects.push(node),
                Node::Number(value) => {
                    self.count += 1.0;
                    self.sum += value;
                    self.last = Some(value);
                }
                _ => {}
            }
        }
    }
}

impl FromIterator<Node> for List {
    fn from_iter<T: IntoIterator<Item = Node>>(nodes: T) -> Self {
        let mut list = Self::default();
        list.extend(nodes);
        list
    }
}

/// Maximum bytes of a text that counts as a setting: longer ones are logs and generated texts.
const MAX_TEXT: usize = 1024;

impl Node {
    fn from_row(row: csv::Row) -> Self {
        let cells = row.into_iter().filter(|(_, cell)| !cell.trim().is_empty());
        let node = |cell: String| match number(&cell) {
            Ok(Some(value)) => Node::Number(value),
            _ => Node::Text(cell),
        };
        Node::Object(cells.map(|(name, cell)| (name, node(cell))).collect())
    }

    /// The value at a path of keys: `memory_breakdown.baseline_gb`.
    pub(super) fn at(&self, path: &str) -> &Node {
        path.split('.').fold(self, |node, key| match node {
            Node::Object(values) => values.get(key).unwrap_or(&Node::Nothing),
            _ => &Node::Nothing,
        })
    }

    /// Puts a value at a path of keys.
    pub(super) fn set(&mut self, path: &str, value: Node) {
        if !matches!(self, Node::Object(_)) {
            *self = Node::Object(BTreeMap::new());
        }
        let Node::Object(values) = self else { return };
        match path.split_once('.') {
            None => drop(values.insert(path.to_owned(), value)),
            Some((key, rest)) => values.entry(key.to_owned()).or_insert(Node::Nothing).set(rest, value),
        }
    }

    /// The number at a path, also where it is written as text. Below a list, `mean`, `count` and `last` are of its
    /// numbers. `None` if there is none, or it is not finite.
    ///
    /// # Errors
    ///
    /// What is there instead of a number.
    pub(super) fn number(&self, path: &str) -> Result<Option<f64>, String> {
        if let Some((list, statistic)) = path.rsplit_once('.')
            && let Node::List(list) = self.at(list)
        {
            return Ok(match statistic {
                "count" => Some(list.count),
                "last" => list.last,
                _ => (list.count > 0.0).then(|| list.sum / list.count),
            });
        }
        self.at(path).as_number().map_err(|what| format!("`{path}`: {what}"))
    }

    /// The same, and `None` where anything else is there: a value that may be left out.
    pub(super) fn number_if_any(&self, path: &str) -> Option<f64> {
        self.number(path).ok().flatten()
    }

    pub(super) fn as_number(&self) -> Result<Option<f64>, String> {
        match self {
            Node::Nothing => Ok(None),
            Node::Number(value) => Ok(Some(*value)),
            Node::Text(text) => number(text),
            Node::Flag(flag) => Err(format!("`{flag}` is not a number")),
            Node::Object(_) | Node::List(_) => Err("it is not a number".to_owned()),
        }
    }

    /// The non-negative integer at a path; `None` for any other number.
    pub(super) fn count(&self, path: &str) -> Result<Option<u64>, String> {
        let whole = |value: &f64| (0.0..=9e15).contains(value) && value.fract() == 0.0;
        Ok(self.number(path)?.filter(whole).map(|value| value as u64))
    }

    /// The scalar at a path as text, unless it is empty or longer than any setting.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        self.at(path).as_text()
    }

    pub(super) fn as_text(&self) -> Option<String> {
        let text = match self {
            Node::Text(text) => text.clone(),
            Node::Number(value) => value.to_string(),
            Node::Flag(flag) => flag.to_string(),
            Node::Nothing | Node::Object(_) | Node::List(_) => return None,
        };
        (!text.is_empty() && text.len() <= MAX_TEXT).then_some(text)
    }

    /// The same, if it is not the word for what the engine chooses by itself.
    pub(super) fn chosen(&self, path: &str) -> Option<String> {
        self.text(path)
            .filter(|text| !["auto", "unknown"].contains(&text.as_str()))
    }

    /// The keys of an object with their values.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&String, &Node)> {
        let values = match self {
            Node::Object(values) => Some(values),
            _ => None,
        };
        values.into_iter().flatten()
    }

    /// The objects of a list.
    ///
    /// # Errors
    ///
    /// If there are more than are held.
    pub(super) fn objects(&self) -> Result<&[Node], String> {
        match self {
            Node::List(list) if list.cut => Err(format!("there are more than {MAX_LENGTH} entries")),
            Node::List(list) => Ok(&list.objects),
            _ => Ok(&[]),
        }
    }
}

/// A number written as text: `None` if it is empty, a word for nothing, or not finite.
fn number(text: &str) -> Result<Option<f64>, String> {
    let text = text.trim();
    if matches!(text.to_ascii_lowercase().as_str(), "" | "none" | "null" | "n/a") {
        return Ok(None);
    }
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    Ok(value.is_finite().then_some(value))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
                Ok(Node::Flag(flag))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(if value.is_finite() {
                    Node::Number(value)
                } else {
                    Node::Nothing
                })
            }

            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Number(value as f64))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Number(value as f64))
            }

            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Text(text.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Nothing)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut list = List::default();
                while let Some(node) = seq.next_element::<Node>()? {
                    list.extend([node]);
                }
                Ok(Node::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut values = BTreeMap::new();
                while let Some((key, value)) = map.next_entry()? {
                    values.insert(key, value);
                }
                Ok(Node::Object(values))
            }
        }
        deserializer.deserialize_any(Any)
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
    use proptest::prelude::*;

    use super::*;

    fn node(text: &str) -> Node {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_in_any_form() {
        let numbers = node(r#"{"a": 3, "b": "6.7e9", "many": "many", "yes": true, "c": [1], "n": null, "inf": "inf"}"#);
        assert_eq!(
            (numbers.number("a"), numbers.number("b")),
            (Ok(Some(3.0)), Ok(Some(6.7e9)))
        );
        for nothing in ["n", "inf", "missing", "missing.further"] {
            assert_eq!(numbers.number(nothing), Ok(None), "{nothing}");
        }
        assert_eq!(numbers.number("many").unwrap_err(), "`many`: `many` is not a number");
        assert!(numbers.number("yes").is_err() && numbers.number("c").is_err());
        assert_eq!(node(r#"{"a": -1}"#).count("a"), Ok(None));
    }

    #[test]
    fn of_lists_objects_and_statistics_are_kept() {
        let list = node(r#"{"l": [3, 1.5, null, 4.5], "o": [{"a": {"b": 1}}, 2], "none": []}"#);
        assert_eq!(
            (list.number("l.mean"), list.number("l.count")),
            (Ok(Some(3.0)), Ok(Some(3.0)))
        );
        assert_eq!(
            (list.number("l.last"), list.number("none.mean")),
            (Ok(Some(4.5)), Ok(None))
        );
        assert_eq!(list.at("o").objects().unwrap()[0].number("a.b"), Ok(Some(1.0)));
    }

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
