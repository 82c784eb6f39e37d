//! How many tokens of an answer may be missing.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// Output tokens that may be missing from an answer: a number (`26`), or a share of the requested tokens (`"5%"`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    tokens: u64,
    percent: f64,
}

impl Tolerance {
    /// Any part of the answer may be missing.
    pub const ANY: Self = Self::tokens(u64::MAX);

    /// A number of tokens, whatever the requested number.
    pub const fn tokens(tokens: u64) -> Self {
        Self { tokens, percent: 0.0 }
    }

    /// The larger of two, at each length.
    pub fn or(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.max(other.tokens),
            percent: self.percent.max(other.percent),
        }
    }

    /// Whether an answer of `output` tokens is long enough where `asked` were requested.
    pub fn admits(self, output: u64, asked: u64) -> bool {
        output.saturating_add(self.of(asked)) >= asked
    }

    /// The tokens that may be missing where `asked` were requested.
    pub fn of(self, asked: u64) -> u64 {
        // A float's last digit makes no token.
        self.tokens.max((self.percent * asked as f64 / 100.0 + 1e-9) as u64)
    }

    /// The share of an answer that may be missing where at least `asked` tokens are requested.
    pub fn share_of(self, asked: u64) -> f64 {
        (self.percent / 100.0).max(self.tokens as f64 / asked.max(1) as f64)
    }
}

impl Serialize for Tolerance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.percent {
            0.0 => serializer.serialize_u64(self.tokens),
            percent => serializer.collect_str(&format_args!("{percent}%")),
        }
    }
}

impl<'de> Deserialize<'de> for Tolerance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let percent = value
            .as_str()
            .and_then(|text| text.strip_suffix('%')?.trim().parse().ok());
        match (value.as_u64(), percent) {
            (Some(tokens), _) => Ok(Self::tokens(tokens)),
            (_, Some(percent)) if (0.0..=100.0).contains(&percent) => Ok(Self { tokens: 0, percent }),
            _ => Err(de::Error::custom(format!(
                "a tolerance is a number of tokens, or a share of the output such as \"5%\", not `{value}`"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_share_is_of_the_tokens_that_were_asked_for() {
        let read = |value: Value| serde_json::from_value::<Tolerance>(value);
        let share = read(json!("5%")).unwrap();
        assert!(share.admits(95, 100) && !share.admits(94, 100) && !share.admits(18, 19));
        assert_eq!(
            read(json!("2.9%")).unwrap().of(1000),
            29,
            "0.029 × 1000 is less than 29 as a float"
        );
        let both = share.or(Tolerance::tokens(3));
        assert_eq!((both.of(20), both.of(200), Tolerance::ANY.of(8)), (3, 10, u64::MAX));
        assert_eq!(
            (share.share_of(512), Tolerance::tokens(128).share_of(512)),
            (0.05, 0.25)
        );
        assert_eq!(json!([share, Tolerance::tokens(8)]), json!(["5%", 8]));
        assert_eq!(
            json!(read(json!("7%")).unwrap()),
            "7%",
            "100 × 0.07 is more than 7 as a float"
        );
        for wrong in [
            json!("5"),
            json!(0.05),
            json!(-1),
            json!("101%"),
            json!("x%"),
            json!("nan%"),
            json!(null),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
