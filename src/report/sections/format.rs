//! Numbers, lists and names as text.

use crate::fmt::grouped;
pub(super) use crate::fmt::list;
use crate::memory::compare::Gib;

/// Bytes of a GiB.
pub(super) const GIB: f64 = 1_073_741_824.0;

/// A rate or a count with three significant digits: `5,179`, `37.6`.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    grouped(&format!("{value:.digits$}"))
}

/// Milliseconds, or seconds from 1 s on: `85.3 ms`, `3.41 s`.
pub(super) fn ms(value: f64) -> String {
    if value >= 1000.0 {
        format!("{} s", number(value / 1e3))
    } else {
        format!("{} ms", number(value))
    }
}

/// One decimal: `5.6`, `99.8`, `100`.
pub(super) fn tenths(value: f64) -> String {
    let text = format!("{value:.1}");
    grouped(text.strip_suffix(".0").unwrap_or(&text))
}

pub(super) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// GiB rounded for tables.
pub(super) fn gib(bytes: u64) -> f64 {
    let gib = bytes as f64 / GIB;
    rounded(gib, if gib < 0.1 { 4 } else { 2 })
}

pub(super) fn gib_text(bytes: u64) -> String {
    Gib(i64::try_from(bytes).unwrap_or(i64::MAX)).to_string()
}

/// A name as an anchor: `a-z`, `0-9` and `-`.
pub(super) fn anchor(name: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        assert_eq!(number(5_178.54), "5,179");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(-1000.4), "-1,000");
        assert_eq!(number(37.634), "37.6");
        assert_eq!(number(4.842), "4.84");
        assert_eq!(number(0.96156), "0.962");
        assert_eq!(
            (ms(85.34), ms(12_400.0), ms(6217.05)),
            ("85.3 ms".into(), "12.4 s".into(), "6.22 s".into())
        );
        assert_eq!(
            (tenths(5.64), tenths(99.97), tenths(1234.5)),
            ("5.6".into(), "100".into(), "1,234.5".into())
        );
        assert_eq!(list(&["1".into(), "8".into(), "64".into()]), "1, 8 and 64");
    }
}
