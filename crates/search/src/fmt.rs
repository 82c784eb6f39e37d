//! Formats numbers, sizes, durations and names for people and for pages. Pure.

use std::fmt;
use std::time::Duration;

use console::measure_text_width;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Bytes of a GiB.
pub const GIB: f64 = 1_073_741_824.0;

/// Signed bytes as `13.50 GiB` or `-0.02 GiB`, always in GiB so that columns are comparable. More digits if two would
/// hide the value: `0.0049 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gib(pub i64);

impl From<u64> for Gib {
    fn from(bytes: u64) -> Self {
        Self(i64::try_from(bytes).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Gib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64 / GIB;
        let decimals = match value.abs() {
            small if small < 0.000_05 => return f.write_str(if self.0 == 0 { "0.00 GiB" } else { "0.0000 GiB" }),
            small if small < 0.095 => 4,
            _ => 2,
        };
        write!(f, "{value:.decimals$} GiB")
    }
}

/// Bytes in a suitable unit: `512 B`, `61.2 GiB`.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

/// A duration: `0:07`, `12:40`, `3:05:00`.
pub struct Clock(pub Duration);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        match hours {
            0 => write!(f, "{minutes}:{seconds:02}"),
            _ => write!(f, "{hours}:{minutes:02}:{seconds:02}"),
        }
    }
}

/// A count with its noun: `1 point`, `3 points`.
pub struct Count<'a>(pub usize, pub &'a str);

impl fmt::Display for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

/// A value with its unit: `13.50 GiB`, `63.07 ms`, `1140.8 tokens/s`.
pub fn with_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => Gib(value.round() as i64).to_string(),
        Unit::Tokens => format!("{} tokens", short(value)),
        Unit::TokensPerSecond => format!("{} tokens/s", short(value)),
        Unit::RequestsPerSecond => format!("{} requests/s", short(value)),
        Unit::Seconds => format!("{} s", short(value)),
        Unit::Milliseconds => format!("{value:.2} ms"),
        Unit::Percent => format!("{value:.1} %"),
        Unit::Watts => format!("{value:.0} W"),
        Unit::Celsius => format!("{value:.0} C"),
        Unit::Count => short(value),
    }
}

/// A count with commas: `8,352`.
pub fn thousands(count: u64) -> String {
    grouped(&count.to_string())
}

/// Bytes as a bare number of GiB, for tables whose heading names the unit.
pub fn gib_number(bytes: f64) -> String {
    Gib(bytes.round() as i64).to_string().replace(" GiB", "")
}

/// A rate or a count with three significant digits: `5,179`, `37.6`.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    grouped(&format!("{value:.digits$}"))
}

/// One decimal: `5.6`, `99.8`, `100`.
pub fn tenths(value: f64) -> String {
    let text = format!("{value:.1}");
    grouped(text.strip_suffix(".0").unwrap_or(&text))
}

/// A number rounded to this many decimals.
pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// Milliseconds, or seconds from 1 s on: `85.3 ms`, `3.41 s`.
pub fn ms(value: f64) -> String {
    if value >= 1000.0 {
        format!("{} s", number(value / 1e3))
    } else {
        format!("{} ms", number(value))
    }
}

/// A list: `1, 8 and 64`.
pub fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Adds commas between thousands.
pub fn grouped(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let mut text = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

/// A relative difference: `+7.4 %`. Empty if `None`.
pub fn relative(percent: Option<f64>) -> String {
    percent.map_or_else(String::new, |percent| signed(format!("{percent:.1} %")))
}

/// Integers in full; one decimal from 100 on, else three.
fn short(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else if value.abs() >= 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

/// The text of a number without the sign of a value that rounds to zero: `-0.00` as `0.00`.
pub fn without_negative_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if is_zero(rest) => rest.to_owned(),
        _ => text,
    }
}

/// The text of a number with its sign: `+1.50`. A value that rounds to zero has none.
pub fn signed(text: String) -> String {
    let text = without_negative_zero(text);
    if text.starts_with('-') || is_zero(&text) {
        text
    } else {
        format!("+{text}")
    }
}

fn is_zero(text: &str) -> bool {
    !text.contains(|digit: char| ('1'..='9').contains(&digit))
}

/// A JSON number, integers without a decimal point; null for NaN and infinities.
pub fn json_number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        json!(value as i64)
    } else {
        json!(value)
    }
}

/// A key for people: `kv_cache` as `kv cache`.
pub fn with_blanks(name: &str) -> String {
    name.replace('_', " ")
}

/// The first line of a text, shortened to 300 characters.
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 300;
    let line = text.trim().lines().next().unwrap_or_default();
    if line.chars().count() <= LONGEST {
        return line.to_owned();
    }
    line.chars().take(LONGEST).chain(['…']).collect()
}

/// Breaks a text between words into lines of at most `width` columns. All but the first are indented by `hanging`.
pub fn wrap(text: &str, width: usize, hanging: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in unbroken(text) {
        match lines.last_mut() {
            Some(last) if measure_text_width(last) + 1 + measure_text_width(&word) <= width => {
                *last += &format!(" {word}");
            }
            None => lines.push(word),
            Some(_) => lines.push(format!("{}{word}", " ".repeat(hanging))),
        }
    }
    lines.join("\n")
}

/// Joins parts with a separator into as few lines as possible. A part that fits no line gets a line of its own.
pub fn flow(parts: impl IntoIterator<Item = String>, separator: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let longer = lines.last().map(|line| format!("{line}{separator}{part}"));
        match (lines.last_mut(), longer.filter(|longer| fits(longer))) {
            (Some(line), Some(longer)) => *line = longer,
            _ => lines.push(part),
        }
    }
    lines
}

/// The words of a text. A percentage counts as one word, and so does text between backticks.
fn unbroken(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if word.starts_with('%') || last.matches('`').count() % 2 == 1 => {
                *last += &format!(" {word}");
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Names and their meanings in two columns with a total of `width`. A long name has its meaning on the next line.
pub fn columns(rows: &[(String, String)], width: usize) -> String {
    const LONG: usize = 26;
    let lengths = rows.iter().map(|(name, _)| measure_text_width(name));
    let names = lengths.filter(|length| *length <= LONG).max().unwrap_or(0);
    let indent = " ".repeat(names + 4);
    let line = |(name, meaning): &(String, String)| {
        let meaning = wrap(meaning, width.saturating_sub(names + 4).max(20), 0).replace('\n', &format!("\n{indent}"));
        let line = if measure_text_width(name) <= names {
            format!("  {name:names$}  {meaning}")
        } else {
            format!("  {name}\n{indent}{meaning}")
        };
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Labels of metrics that differ from the words of their name.
const LABELS: [(&str, &str); 11] = [
    ("memory_beside_kv", "non-KV memory"),
    ("memory_per_gpu", "memory per GPU"),
    ("graphs_memory", "CUDA graphs"),
    ("cuda_graphs", "CUDA graphs"),
    ("kv_pool", "KV cache"),
    ("kv_used", "KV cache in use"),
    ("runtime_context", "CUDA context"),
    ("other_tenants", "other processes"),
    ("physical", "total used"),
    ("unexplained", "unaccounted"),
    ("volume", "share of the range that fits"),
];

/// The usual term for one of our metric names: `physical` as `total used`. Other names stay as they are.
pub fn metric_term(name: &str) -> &str {
    let known = LABELS.iter().find(|(known, _)| *known == name);
    known.map_or(name, |(_, term)| term)
}

/// A metric's name for people: `mean_ttft_ms at 8` as `mean TTFT at 8`.
pub fn metric_label(name: &str) -> String {
    let term = metric_term(name);
    if term != name {
        return term.to_owned();
    }
    let word = |word: &str| match word {
        "ttft" | "tpot" | "itl" | "e2el" | "kv" | "gpu" | "cuda" => word.to_uppercase(),
        _ => word.to_owned(),
    };
    let name = name.replace("p99_9_", "p99.9_");
    for (prefix, unit) in [("cost_", "$"), ("wh_", "Wh")] {
        if let Some(tokens) = name.strip_prefix(prefix) {
            return format!("{unit} per 1M {tokens} tokens");
        }
    }
    let parts = name.split(' ').map(|part| {
        let part = part.strip_suffix("_ms").unwrap_or(part);
        part.split('_').map(word).collect::<Vec<_>>().join(" ")
    });
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A name as an anchor or file name: `a-z`, `0-9`, `_` and `-`.
pub fn slug(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let parts: Vec<&str> = name
        .split(|letter| !is_plain(letter))
        .filter(|part| !part.is_empty())
        .collect();
    match parts[..] {
        [] => "x".to_owned(),
        _ => parts.join("-").to_ascii_lowercase(),
    }
}

/// Text for HTML.
pub fn escape_html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#x27;")
}

/// Quotes a word for a POSIX shell.
pub fn shell_quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Tokens.
    #[serde(rename = "tokens")]
    Tokens,
    /// Tokens per second.
    #[serde(rename = "tokens/s")]
    TokensPerSecond,
    /// Requests per second.
    #[serde(rename = "requests/s")]
    RequestsPerSecond,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Per cent.
    #[serde(rename = "%")]
    Percent,
    /// Watts.
    #[serde(rename = "W")]
    Watts,
    /// Degrees Celsius.
    #[serde(rename = "C")]
    Celsius,
    /// A plain number.
    #[default]
    #[serde(rename = "count")]
    Count,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_have_one_decimal() {
        assert_eq!(
            (tenths(5.64), tenths(99.97), tenths(1234.5)),
            ("5.6".into(), "100".into(), "1,234.5".into())
        );
    }

    #[test]
    fn sizes_have_one_unit() {
        assert_eq!(Gib(14_495_514_624).to_string(), "13.50 GiB");
        assert_eq!(Gib(-1 << 30).to_string(), "-1.00 GiB");
        assert_eq!(Gib(0).to_string(), "0.00 GiB");
        assert_eq!(Gib(1 << 20).to_string(), "0.0010 GiB");
        assert_eq!(Gib(-5 << 20).to_string(), "-0.0049 GiB");
        assert_eq!(Gib(-1).to_string(), "0.0000 GiB", "what rounds to nothing has no sign");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(1024).to_string(), "1.0 KiB");
        assert_eq!(Bytes(65_712_000_000).to_string(), "61.2 GiB");
        assert_eq!(Bytes(u64::MAX).to_string(), "16384.0 PiB");
        assert_eq!(Clock(Duration::from_secs(67)).to_string(), "1:07");
        assert_eq!(Clock(Duration::from_secs(3600)).to_string(), "1:00:00");
        assert_eq!(Count(1, "point").to_string(), "1 point");
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        assert_eq!(number(5_178.54), "5,179");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(-1000.4), "-1,000");
        assert_eq!(number(37.634), "37.6");
        assert_eq!(number(4.842), "4.84");
        assert_eq!(number(0.96156), "0.962");
        assert_eq!(number(0.042_76), "0.0428");
        assert_eq!(
            (ms(85.34), ms(12_400.0), ms(6217.05)),
            ("85.3 ms".into(), "12.4 s".into(), "6.22 s".into())
        );
        assert_eq!(list(&["1".into(), "8".into(), "64".into()]), "1, 8 and 64");
    }

    #[test]
    fn values_have_their_units() {
        assert_eq!(with_unit(14_495_514_624.0, Unit::Bytes), "13.50 GiB");
        assert_eq!(with_unit(1140.83, Unit::TokensPerSecond), "1140.8 tokens/s");
        assert_eq!(with_unit(100.0, Unit::Count), "100");
        assert_eq!(with_unit(3.6147, Unit::RequestsPerSecond), "3.615 requests/s");
        assert_eq!(relative(Some(-0.01)), "0.0 %");
        assert_eq!(relative(Some(-12.34)), "-12.3 %");
        assert_eq!(relative(None), "");
    }

    #[test]
    fn a_value_that_rounds_to_zero_has_no_sign() {
        assert_eq!(signed("-0.00".to_owned()), "0.00");
        assert_eq!(signed("-12".to_owned()), "-12");
        assert_eq!(signed("0.0125".to_owned()), "+0.0125");
        assert_eq!(without_negative_zero("-0.10".to_owned()), "-0.10");
    }

    #[test]
    fn a_name_becomes_an_anchor() {
        assert_eq!(slug("run-1 figure Längste <x>"), "run-1-figure-l-ngste-x");
        assert_eq!(slug("…"), "x");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, typed) in [
            ("model=meta-llama/Llama-3.1-8B", "model=meta-llama/Llama-3.1-8B"),
            ("input=[1,2]", "'input=[1,2]'"),
            ("a'b $c", r"'a'\''b $c'"),
            ("", "''"),
            ("~/x", "'~/x'"),
        ] {
            assert_eq!(shell_quoted(word), typed);
        }
    }
}
