//! Numbers, lists and names as text.

pub(super) use crate::fmt::{GIB, list, ms, number, slug as anchor};
use crate::fmt::{Gib, grouped};

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
    Gib::from(bytes).to_string()
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
}
