//! The form of a parameter's value: its type (from the default, or from the declaration), its bounds, and its notation
//! on a command line.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use crate::fault::{Fault, Result};

/// The type of value that a parameter takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Takes {
    /// Any value: the default is `()`.
    #[default]
    Any,
    /// Yes or no; the flag needs no value.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A text, taken literally.
    String,
    /// Several values: `8`, `8,16` or `[8,16]`; `1..4` is each whole number from 1 to 4.
    List,
    /// One whole number, or the smallest and the largest: `1..8` or `[1,8]`.
    Range,
    /// One whole number, a range for uniformly distributed lengths, or another distribution as a map.
    Lengths,
    /// Values by name.
    Map,
}

/// The type of a value: `an int`, `()`.
pub(super) fn type_with_article(value: &Value) -> &'static str {
    match value {
        Value::Null => "`()`",
        Value::Bool(_) => "a bool",
        Value::Number(number) if number.is_f64() => "a float",
        Value::Number(_) => "an int",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "a map",
    }
}

/// The longest list that may be written as a range. A longer one is a mistake, such as a range for a script that wants
/// a list.
const MOST_NUMBERS: i64 = 64;

/// The third argument of `param`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FormOptions {
    takes: Option<Takes>,
    example: Option<String>,
    least: Option<f64>,
    most: Option<f64>,
    values: Vec<String>,
    path: bool,
    lists: bool,
}

/// The largest whole number: what scripts compute from a few of them stays within 64 bits. A petabyte has as many bytes.
const MOST_WHOLE: f64 = 1e15;

/// The form of a parameter's value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Form {
    /// Its type.
    pub takes: Takes,
    /// A sensible value, in command line notation.
    pub example: Option<String>,
    /// The smallest number.
    pub least: Option<f64>,
    /// The largest number.
    pub most: Option<f64>,
    /// Values that a shell offers; others may be possible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Whether a shell offers files and folders.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub path: bool,
    /// Whether each entry of a map is a list.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lists: bool,
}

impl Form {
    /// The form of a parameter with this default.
    pub(super) fn new(default: &Value, options: FormOptions) -> Self {
        let by_default = match default {
            Value::Null => Takes::Any,
            Value::Bool(_) => Takes::Bool,
            Value::Number(number) if number.is_f64() => Takes::Float,
            Value::Number(_) => Takes::Int,
            Value::String(_) => Takes::String,
            Value::Array(_) => Takes::List,
            Value::Object(_) => Takes::Map,
        };
        Self {
            takes: options.takes.unwrap_or(by_default),
            example: options.example,
            least: options.least,
            most: options.most,
            values: options.values,
            path: options.path,
            lists: options.lists,
        }
    }

    /// Parses the value of a flag. For a text parameter it is taken literally, unless it is quoted as in JSON; for any
    /// other parameter it is JSON or `()`, or else a string.
    pub fn parse(&self, text: &str) -> Value {
        let quoted = || serde_json::from_str(text).ok().filter(Value::is_string);
        match self.takes {
            Takes::String => quoted().unwrap_or_else(|| text.into()),
            _ => json_or_string(text),
        }
    }

    /// The value for scripts. `path` is the parameter's name, with the names of the maps around it.
    pub fn read(&self, path: &str, default: &Value, value: &Value) -> Result<Value> {
        if value.is_null() && default.is_null() {
            return Ok(Value::Null);
        }
        let read = match (self.takes, value) {
            (Takes::List, Value::String(text)) => self.list(path, default, text)?,
            (Takes::List, Value::Number(_) | Value::Bool(_) | Value::Object(_)) => json!([value]),
            (Takes::Map, Value::Object(entries)) if self.lists => {
                let list = Self {
                    takes: Takes::List,
                    ..Self::default()
                };
                let read = |(name, value): (&String, &Value)| {
                    let entry = list.read(&format!("{path}.{name}"), &Value::Null, value)?;
                    Ok((name.clone(), entry))
                };
                Value::Object(entries.iter().map(read).collect::<Result<_>>()?)
            }
            (Takes::Range | Takes::Any, Value::String(text)) => match range(text) {
                Some((from, to)) => json!([from, to]),
                None => value.clone(),
            },
            (Takes::Lengths, Value::String(text)) => match range(text) {
                Some((from, to)) => json!({ "uniform": [from, to] }),
                None => value.clone(),
            },
            (Takes::Lengths, Value::Array(ends)) if is_range(ends) => json!({ "uniform": ends }),
            (Takes::Float, Value::Number(number)) if !number.is_f64() => {
                let number = number.as_f64().and_then(Number::from_f64);
                number.map_or_else(|| value.clone(), Value::Number)
            }
            _ => value.clone(),
        };
        self.check_type(path, default, value, &read)?;
        self.check_numbers(path, default, value, &read)?;
        self.check_bounds(path, &read)?;
        Ok(read)
    }

    /// Parses a text as a list.
    fn list(&self, path: &str, default: &Value, text: &str) -> Result<Value> {
        let Some((from, to)) = range(text) else {
            return Ok(values(text).into());
        };
        if from <= to && to.saturating_sub(from) < MOST_NUMBERS {
            return Ok((from..=to).collect());
        }
        let wanted = format!("a list, or a range of at most {MOST_NUMBERS} whole numbers");
        Err(self.refused(path, &wanted, default, &text.into()))
    }

    fn check_type(&self, path: &str, default: &Value, given: &Value, read: &Value) -> Result<()> {
        let fits = match (self.takes, read) {
            (Takes::Any, value) if self.path => !value.is_number(),
            (Takes::Any, _)
            | (Takes::Bool, Value::Bool(_))
            | (Takes::Float, Value::Number(_))
            | (Takes::String, Value::String(_))
            | (Takes::List, Value::Array(_))
            | (Takes::Lengths | Takes::Map, Value::Object(_)) => true,
            (Takes::Int | Takes::Range | Takes::Lengths, Value::Number(number)) => !number.is_f64(),
            (Takes::Range, Value::Array(ends)) => is_range(ends),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let wanted = match self.takes {
            Takes::Any if self.path => "a path",
            Takes::Any => "a value",
            Takes::Bool => "a bool",
            Takes::Int => "an int",
            Takes::Float => "a float",
            Takes::String => "a string",
            Takes::List => "an array",
            Takes::Range => "one whole number, or the smallest and the largest",
            Takes::Lengths => "one whole number, a range or a distribution",
            Takes::Map => "a map",
        };
        let fault = self.refused(path, wanted, default, given);
        Err(match (self.takes, given) {
            (Takes::String, given) if !given.is_object() => fault.hint(format!(
                "to give these characters as a string: --set '{path}=\"{given}\"'"
            )),
            (Takes::Range | Takes::Lengths, Value::String(text)) if is_list_of_numbers(given) => {
                let first = text.split(',').next().unwrap_or_default().trim();
                let last = text.rsplit(',').next().unwrap_or_default().trim();
                fault.hint(format!(
                    "a range is written {}",
                    self.usage(path, &format!("{first}..{last}"))
                ))
            }
            _ => fault,
        })
    }

    fn refused(&self, path: &str, wanted: &str, default: &Value, given: &Value) -> Fault {
        let (kind, text) = (type_with_article(given), given.as_str());
        let given = text.map_or_else(|| given.to_string(), str::to_owned);
        let fault = Fault::usage(format!("parameter `{path}` must be {wanted}, but is {kind} `{given}`"));
        fault.hint(match (&self.example, default) {
            (Some(example), _) => format!("such as {}", self.usage(path, example)),
            (None, Value::Null) => format!("give {wanted}, or leave it out"),
            (None, Value::Object(_)) => format!("give its keys: {}", self.usage(&format!("{path}.KEY"), "VALUE")),
            (None, _) => format!("its default is `{default}`"),
        })
    }

    /// The flag with a value, as typed.
    fn usage(&self, path: &str, value: &str) -> String {
        format!("`--{} {value}`", flag_name(path))
    }

    /// Refuses a value without a type of its own, and items of a list, that are no numbers although they have bounds.
    fn check_numbers(&self, path: &str, default: &Value, given: &Value, read: &Value) -> Result<()> {
        let named = |value: &Value| {
            value
                .as_str()
                .is_some_and(|text| self.values.iter().any(|one| one == text))
        };
        let is_number = |value: &Value| value.is_number() || named(value);
        let (fits, wanted) = match (self.takes, read) {
            (Takes::Any, value) => (is_number(value), "a number"),
            (Takes::List, Value::Array(items)) => (items.iter().all(is_number), "numbers"),
            _ => return Ok(()),
        };
        if fits || (self.least.is_none() && self.most.is_none()) {
            return Ok(());
        }
        Err(self.refused(path, wanted, default, given))
    }

    fn check_bounds(&self, path: &str, value: &Value) -> Result<()> {
        if let Value::Array(items) = value {
            return items.iter().try_for_each(|item| self.check_bounds(path, item));
        }
        let Some(number) = value.as_f64() else { return Ok(()) };
        let bound = match (self.least, self.most) {
            (Some(least), _) if number < least => format!("it is at least {least}"),
            (_, Some(most)) if number > most => format!("it is at most {most}"),
            (_, None) if !value.is_f64() && number.abs() > MOST_WHOLE => format!("whole numbers go up to {MOST_WHOLE}"),
            _ => return Ok(()),
        };
        Err(Fault::usage(format!("parameter `{path}` is {value}")).hint(bound))
    }
}

/// A parameter's name as a flag, without the leading hyphens: `search.max-probes`.
pub fn flag_name(path: &str) -> String {
    respelled(path, '_', "-")
}

/// The path of a parameter from its name as a flag.
pub fn parameter_path(flag: &str) -> String {
    respelled(flag, '-', "_")
}

/// An entry that begins with hyphens is a flag of the engine, and stays.
fn respelled(path: &str, from: char, to: &str) -> String {
    let entries = path.split('.').map(|entry| {
        if entry.starts_with("--") {
            entry.to_owned()
        } else {
            entry.replace(from, to)
        }
    });
    entries.collect::<Vec<_>>().join(".")
}

/// JSON or `()`, or else a string.
pub fn json_or_string(text: &str) -> Value {
    match text {
        "()" => Value::Null,
        _ => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

/// Longest value of `--max-time` and `--wait`: a longer one is a mistake.
pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The time of `--max-time`, such as `90s` or `2h30m`.
///
/// # Errors
///
/// A hint on the form to give.
pub fn time(text: &str) -> std::result::Result<Duration, String> {
    let time = text
        .parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|time| Duration::try_from(time).ok());
    match time.filter(|time| !time.is_zero()) {
        Some(time) if time > LONGEST => Err("that is more than a year: leave it out for no bound".to_owned()),
        Some(time) => Ok(time),
        None => Err("give a time with units, such as 90s, 30m or 2h30m".to_owned()),
    }
}

/// The ends of `1..8`.
fn range(text: &str) -> Option<(i64, i64)> {
    let (from, to) = text.split_once("..")?;
    Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
}

/// Whether these are two whole numbers, the smaller one first.
fn is_range(ends: &[Value]) -> bool {
    let whole = |end: &Value| end.as_i64();
    matches!(ends, [from, to] if whole(from).zip(whole(to)).is_some_and(|(from, to)| from <= to))
}

/// Whether this is a text such as `4,8`.
fn is_list_of_numbers(value: &Value) -> bool {
    let numbers = |text: &str| text.contains(',') && text.split(',').all(|item| item.trim().parse::<f64>().is_ok());
    value.as_str().is_some_and(numbers)
}

/// The values of `8,16`.
pub fn values(text: &str) -> Vec<Value> {
    split(text).map(json_or_string).collect()
}

/// The parts of a text between commas, except commas within brackets, braces and quotes.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut is_quoted) = (0, false);
    let parts = text.split(move |one| {
        match one {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth -= 1,
            _ => {}
        }
        one == ',' && depth == 0 && !is_quoted
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}
