//! Bytes as people read them here: always GiB, so that columns and differences compare; and as they write them: with any unit.

use std::fmt;

/// Bytes in a GiB.
pub(super) const GIB: f64 = 1_073_741_824.0;

/// Bytes, signed: `13.50 GiB`, `-0.02 GiB`; with more digits where two would hide what is there: `0.0049 GiB`.
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

/// A size as people write it (`13.5GB`, `600 MiB`, `80`): the number, and bytes of its unit where one follows; none for what is no number.
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
