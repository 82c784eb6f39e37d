//! Formats metric values with their units.

use crate::compare::Unit;
use crate::memory::compare::Gib;

/// A value with its unit: `13.50 GiB`, `63.07 ms`, `1140.8 tokens/s`.
pub(super) fn figure(value: f64, unit: Unit) -> String {
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

/// Bytes as a bare number of GiB, for tables whose heading names the unit.
pub(super) fn gib(bytes: f64) -> String {
    Gib(bytes.round() as i64).to_string().replace(" GiB", "")
}

/// A relative difference: `+7.4 %`. Empty if `None`.
pub(super) fn relative(percent: Option<f64>) -> String {
    percent.map_or_else(String::new, |percent| {
        // A value that rounds to zero has no sign.
        if percent.abs() < 0.05 {
            "0.0 %".to_owned()
        } else {
            format!("{percent:+.1} %")
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_carry_their_units() {
        assert_eq!(figure(14_495_514_624.0, Unit::Bytes), "13.50 GiB");
        assert_eq!(figure(1140.83, Unit::TokensPerSecond), "1140.8 tokens/s");
        assert_eq!(figure(100.0, Unit::Count), "100");
        assert_eq!(figure(3.6147, Unit::RequestsPerSecond), "3.615 requests/s");
        assert_eq!(relative(Some(-0.01)), "0.0 %");
        assert_eq!(relative(Some(-12.34)), "-12.3 %");
        assert_eq!(relative(None), "");
    }
}
