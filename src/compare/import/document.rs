//! Opens a file of another tool as JSON; [`Node`] reads its loosely typed values. A table becomes a list of objects.
//! Repairs JSON written by Python, which contains `NaN`, `Infinity` and `-Infinity`.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use crate::csv;
use crate::fault::{Fault, Result};
use crate::outside::{self, Bounded, is_too_large};

/// Maximum bytes of a file. Results with the record of each request have been seen with 144 MB.
const MAX_BYTES: u64 = 256 << 20;
const SUMMARY: &str = "results with the record of each request can be so large; give the summary that the tool wrote, or the file \
    without these records";
/// Maximum number of entries in a list that an imported file holds.
const MAX_LENGTH: usize = 100_000;
/// Keys listed in a message.
const MAX_LISTED: usize = 8;
/// Maximum bytes of a text that counts as a setting; longer ones are logs and generated texts.
const MAX_TEXT: usize = 1024;

pub(super) struct Document {
    /// The path as the user gave it.
    pub(super) path: PathBuf,
    /// Whether Python's `NaN` and `Infinity` were replaced.
    pub(super) repaired: bool,
    /// The whole file, or the problem in a row of a table.
    pub(super) root: Result<Value, String>,
    /// The keys of the object, of the first object of the list, or the columns of the table.
    pub(super) keys: Vec<String>,
    /// Whether it has an object on each of several lines.
    pub(super) lines: bool,
    /// The kind of file, for people: `an object`.
    what: &'static str,
}

impl Document {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let named = || format!("`{}`", path.display());
        let file = std::fs::File::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Fault::usage(format!("there is no {}", named()))
                .hint("give the folder of a run, such as one in `runs`, or a file of another tool"),
            _ => Fault::io(path, &error),
        })?;
        let bytes = Bounded::new(file, MAX_BYTES)
            .all()
            .map_err(|error| match is_too_large(&error) {
                true => Fault::usage(format!("{} is larger than {} MiB", named(), MAX_BYTES >> 20)).hint(SUMMARY),
                false => Fault::io(path, &error),
            })?;
        let other = |what: &str| {
            let fault = Fault::usage(format!("{} is {what}", named()));
            fault.hint("give a JSON or CSV file, or the folder of a run")
        };
        let mut text = String::from_utf8(bytes).map_err(|_| other("not text"))?;
        // Spreadsheets write a byte order mark.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        if !text.trim_start().starts_with(['{', '[']) {
            let columns = csv::columns(&text).filter(|columns| columns.len() > 1);
            return Ok(Self {
                path: path.to_owned(),
                repaired: false,
                root: rows(&text).map(|rows| rows.into_iter().map(object).collect()),
                lines: false,
                keys: columns.ok_or_else(|| other("neither JSON nor a table with a heading"))?,
                what: "a table",
            });
        }
        outside::check_weight(text.as_bytes())
            .map_err(|error| Fault::usage(format!("{}: {error}", named())).hint(SUMMARY))?;
        let repaired = match repair(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(repaired) => Some(repaired),
        };
        let is_repaired = repaired.is_some();
        // A text may be long: keep only one of both forms.
        let text = repaired.unwrap_or(text);
        let (root, lines) = values(&text).map_err(|error| {
            Fault::usage(format!("{} is not whole JSON: {error}", named()))
                .hint("it was cut off or edited: write it again with the tool that it is from")
        })?;
        let (object, what) = match (&root, &root[0]) {
            (_, Value::Object(values)) if lines => (Some(values), "lines of objects"),
            (Value::Object(values), _) => (Some(values), "an object"),
            (Value::Array(list), _) if list.is_empty() => (None, "an empty array"),
            (_, Value::Object(values)) => (Some(values), "an array of objects"),
            _ => (None, "an array of something other than objects"),
        };
        Ok(Self {
            path: path.to_owned(),
            repaired: is_repaired,
            keys: object.map_or_else(Vec::new, |values| values.keys().cloned().collect()),
            what,
            lines,
            root: Ok(root),
        })
    }

    /// Whether it is one object, not a list of them.
    pub(super) fn is_object(&self) -> bool {
        self.root.as_ref().is_ok_and(Value::is_object)
    }
}

/// The value of a JSON text; several values after each other, as tools append results to a file, become a list. Also
/// whether there were several.
fn values(text: &str) -> serde_json::Result<(Value, bool)> {
    let mut all = serde_json::Deserializer::from_str(text)
        .into_iter()
        .collect::<serde_json::Result<Vec<Value>>>()?;
    match all.len() {
        // An empty text is no JSON; the error says so.
        0 => serde_json::from_str(text).map(|value| (value, false)),
        1 => Ok((all.remove(0), false)),
        _ => Ok((Value::Array(all), true)),
    }
}

/// The rows of a table, or of several with an empty line between them, each with its own heading.
fn rows(text: &str) -> Result<Vec<csv::Row>, String> {
    csv::rows(text).or_else(|problem| {
        let unix = text.replace("\r\n", "\n");
        let tables: Vec<&str> = unix
            .split("\n\n")
            .map(str::trim)
            .filter(|table| !table.is_empty())
            .collect();
        match tables.len() {
            1 => Err(problem),
            _ => tables
                .into_iter()
                .map(csv::rows)
                .collect::<Result<Vec<_>, _>>()
                .map(|all| all.concat()),
        }
    })
}

/// A row of a table, with numeric cells as numbers and the others as texts. Empty cells are left out.
fn object(row: csv::Row) -> Value {
    let cells = row
        .into_iter()
        .filter(|(_, cell)| !cell.trim().is_empty())
        .map(|(name, cell)| match number(&cell) {
            Ok(Some(value)) => (name, value.into()),
            _ => (name, cell.into()),
        });
    Value::Object(cells.collect())
}

/// Describes the file for a message.
impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .keys
            .iter()
            .take(MAX_LISTED)
            .map(|key| format!("`{key}`"))
            .collect();
        let more = if self.keys.len() > MAX_LISTED { ", …" } else { "" };
        let keys = format!("{}{more}", names.join(", "));
        match self.what {
            "a table" => write!(f, "its columns are {keys}"),
            "an object" if self.keys.is_empty() => f.write_str("it is an empty object"),
            what if self.keys.is_empty() => write!(f, "it is {what}"),
            what => write!(f, "it is {what} of {keys}"),
        }
    }
}

/// A value of a file, of any type. Nested values are addressed by a path of keys: `memory_breakdown.baseline_gb`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Node<'a>(pub(super) &'a Value);

impl<'a> Node<'a> {
    /// The value at a path; null if there is none.
    pub(super) fn at(self, path: &str) -> Self {
        let mut keys = path.split('.');
        let found = keys.try_fold(self.0, |value, key| value.as_object()?.get(key));
        Self(found.unwrap_or(&Value::Null))
    }

    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The number at a path, also if it is written as text. `None` if there is none, or if it is not finite.
    ///
    /// # Errors
    ///
    /// A description of the value, if it is not a number.
    pub(super) fn number(self, path: &str) -> Result<Option<f64>, String> {
        self.at(path).as_number().map_err(|what| format!("`{path}`: {what}"))
    }

    /// Like [`Node::number`], but returns `None` for any other value: for optional numbers.
    pub(super) fn number_if_any(self, path: &str) -> Option<f64> {
        self.number(path).ok().flatten()
    }

    pub(super) fn as_number(self) -> Result<Option<f64>, String> {
        match self.0 {
            Value::Null => Ok(None),
            Value::Number(value) => Ok(value.as_f64()),
            Value::String(text) => number(text),
            Value::Bool(flag) => Err(format!("`{flag}` is not a number")),
            Value::Object(_) | Value::Array(_) => Err("it is not a number".to_owned()),
        }
    }

    /// The non-negative integer at a path; `None` for any other number.
    pub(super) fn count(self, path: &str) -> Result<Option<u64>, String> {
        let whole = |value: &f64| (0.0..=9e15).contains(value) && value.fract() == 0.0;
        Ok(self.number(path)?.filter(whole).map(|value| value as u64))
    }

    /// The scalar at a path as text, unless it is empty or longer than a setting may be.
    pub(super) fn text(self, path: &str) -> Option<String> {
        self.at(path).as_text()
    }

    pub(super) fn as_text(self) -> Option<String> {
        let text = match self.0 {
            Value::String(text) => text.clone(),
            Value::Number(value) => value.as_f64()?.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Null | Value::Object(_) | Value::Array(_) => return None,
        };
        (!text.is_empty() && text.len() <= MAX_TEXT).then_some(text)
    }

    /// Like [`Node::text`], but returns `None` for a word that means the engine's own choice.
    pub(super) fn chosen(self, path: &str) -> Option<String> {
        let text = self.text(path);
        text.filter(|text| !["auto", "unknown"].contains(&text.as_str()))
    }

    /// The keys of an object with their values.
    pub(super) fn entries(self) -> impl Iterator<Item = (&'a String, Self)> {
        let entries = self.0.as_object().into_iter().flatten();
        entries.map(|(key, value)| (key, Self(value)))
    }

    /// The elements of a list.
    ///
    /// # Errors
    ///
    /// If the list is longer than results of these tools are.
    pub(super) fn objects(self) -> Result<Vec<Self>, String> {
        match self.0 {
            Value::Array(list) if list.len() > MAX_LENGTH => Err(format!("there are more than {MAX_LENGTH} entries")),
            Value::Array(list) => Ok(list.iter().map(Self).collect()),
            _ => Ok(Vec::new()),
        }
    }
}

/// Puts a value at a path of keys.
pub(super) fn set(values: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(values.insert(path.to_owned(), value)),
        Some((key, rest)) => {
            let inner = values.entry(key).or_insert_with(|| Map::new().into());
            if let Value::Object(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

/// A number written as text: `None` if it is empty, a word for "none", or not finite.
fn number(text: &str) -> Result<Option<f64>, String> {
    let text = text.trim();
    if matches!(text.to_ascii_lowercase().as_str(), "" | "none" | "null" | "n/a") {
        return Ok(None);
    }
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    Ok(value.is_finite().then_some(value))
}

/// Replaces Python's words that are not valid JSON by `null`, except within strings.
fn repair(text: &str) -> Cow<'_, str> {
    if !text.contains("NaN") && !text.contains("Infinity") {
        return Cow::Borrowed(text);
    }
    // A string, even an unterminated one, or one of those words.
    let Ok(form) = Regex::new(r#"(?s)"(?:[^"\\]|\\.)*"?|-?Infinity|NaN"#) else {
        return Cow::Borrowed(text);
    };
    let null = |found: &Captures| {
        if found[0].starts_with('"') {
            found[0].to_owned()
        } else {
            "null".to_owned()
        }
    };
    match form.replace_all(text, null) {
        repaired if repaired == text => Cow::Borrowed(text),
        repaired => repaired,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_in_any_form() {
        let parsed = value(r#"{"a": 3, "b": "6.7e9", "many": "many", "yes": true, "c": [1], "n": null, "inf": "inf"}"#);
        let numbers = Node(&parsed);
        assert_eq!(
            (numbers.number("a"), numbers.number("b")),
            (Ok(Some(3.0)), Ok(Some(6.7e9)))
        );
        for nothing in ["n", "inf", "missing", "missing.further"] {
            assert_eq!(numbers.number(nothing), Ok(None), "{nothing}");
        }
        assert_eq!(numbers.number("many").unwrap_err(), "`many`: `many` is not a number");
        assert!(numbers.number("yes").is_err() && numbers.number("c").is_err());
        assert_eq!(Node(&value(r#"{"a": -1}"#)).count("a"), Ok(None));
    }

    #[test]
    fn objects_of_a_list_are_read_by_paths() {
        let list = value(r#"{"o": [{"a": {"b": 1}}, 2]}"#);
        assert_eq!(Node(&list).at("o").objects().unwrap()[0].number("a.b"), Ok(Some(1.0)));
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
