//! Formatting of bytes as GiB, always the same unit so that columns compare; and parsing of sizes with any unit.

use std::fmt;

pub(super) const GIB: f64 = 1_073_741_824.0;

/// Signed bytes as `13.50 GiB` or `-0.02 GiB`; with more digits if two would hide the value: `0.0049 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gib(pub i64);

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

/// Units that may follow a number, longest first, and their bytes.
const UNITS: [(&str, f64); 8] = [
    ("GiB", GIB),
    ("MiB", GIB / 1024.0),
    ("KiB", GIB / 1024.0 / 1024.0),
    ("TiB", GIB * 1024.0),
    ("GB", 1e9),
    ("MB", 1e6),
    ("TB", 1e12),
    ("B", 1.0),
];

/// Parses a size (`13.5GB`, `600 MiB`, `80`): the number, and the bytes of its unit if there is one. `None` for
/// anything else.
#[must_use]
pub fn size(text: &str) -> Option<(f64, Option<f64>)> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let number = unit.map_or(text, |(unit, _)| &text[..text.len() - unit.len()]);
    let value: f64 = number.trim().parse().ok()?;
    value.is_finite().then_some((value, unit.map(|(_, bytes)| *bytes)))
}

#[cfg(test)]
mod tests {
    use super::Gib;

    #[test]
    fn sizes_have_one_unit() {
        assert_eq!(Gib(14_495_514_624).to_string(), "13.50 GiB");
        assert_eq!(Gib(-1 << 30).to_string(), "-1.00 GiB");
        assert_eq!(Gib(0).to_string(), "0.00 GiB");
        assert_eq!(Gib(1 << 20).to_string(), "0.0010 GiB");
        assert_eq!(Gib(-5 << 20).to_string(), "-0.0049 GiB");
        assert_eq!(Gib(-1).to_string(), "0.0000 GiB", "what rounds to nothing has no sign");
    }
}
