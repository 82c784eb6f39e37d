//! What a reader of the results must know, as a value with a kind.

use serde::{Deserialize, Serialize};

/// The kind of the warning that times and rates of a simulated engine are not those of the card that it models.
pub const CLOCK_TOO_FAST: &str = "clock_too_fast";

/// A warning. Those of one kind are shown as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Warning {
    /// Its kind, such as `token_counts`; empty for a sentence of a script, and in runs of older versions.
    pub code: String,
    /// The sentence.
    pub message: String,
    /// How large the effect is, if it has a size: it compares warnings of one kind.
    pub value: Option<f64>,
}

impl Warning {
    /// A warning of a kind, without a size.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            value: None,
        }
    }

    /// The same with its size.
    #[must_use]
    pub fn sized(mut self, value: f64) -> Self {
        self.value = Some(value);
        self
    }

    /// What warnings of one kind have in common: the code; without one, the sentence without its digits.
    #[must_use]
    pub fn kind(&self) -> String {
        match self.code.as_str() {
            "" => self
                .message
                .chars()
                .filter(|letter| !letter.is_ascii_digit() && *letter != '.')
                .collect(),
            code => code.to_owned(),
        }
    }

    /// Whether the effect is larger than that of `other`.
    #[must_use]
    pub fn exceeds(&self, other: &Self) -> bool {
        self.value > other.value
    }
}

impl From<&str> for Warning {
    fn from(message: &str) -> Self {
        Self::new("", message)
    }
}

impl From<String> for Warning {
    fn from(message: String) -> Self {
        Self::new("", message)
    }
}

/// A warning as journals contain it: older versions wrote only the sentence.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Sentence(String),
    Full {
        #[serde(default)]
        code: String,
        #[serde(alias = "text")]
        message: String,
        #[serde(default)]
        value: Option<f64>,
    },
}

impl From<Written> for Warning {
    fn from(written: Written) -> Self {
        match written {
            Written::Sentence(message) => message.into(),
            Written::Full { code, message, value } => Self { code, message, value },
        }
    }
}
