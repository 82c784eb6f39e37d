//! Bytes as people read them here: always GiB, so that columns and differences compare.

use std::fmt;

/// Bytes in a GiB.
pub(super) const GIB: f64 = 1_073_741_824.0;

/// Bytes, signed: `13.50 GiB`, `-0.02 GiB`; with more digits where two would hide what is there: `0.0049 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gib(pub i64);

impl fmt::Display for Gib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let value = self.0 as f64 / GIB;
        let decimals = match value.abs() {
            small if small < 0.000_05 => return f.write_str(if self.0 == 0 { "0.00 GiB" } else { "0.0000 GiB" }),
            small if small < 0.095 => 4,
            _ => 2,
        };
        write!(f, "{value:.decimals$} GiB")
    }
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
