//! What a figure counts.

use serde::{Deserialize, Serialize};

/// What a figure counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Tokens.
    #[serde(rename = "tokens")]
    Tokens,
    /// Tokens a second.
    #[serde(rename = "tokens/s")]
    TokensPerSecond,
    /// Requests a second.
    #[serde(rename = "requests/s")]
    RequestsPerSecond,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Hundredths.
    #[serde(rename = "%")]
    Percent,
    /// Watts.
    #[serde(rename = "W")]
    Watts,
    /// Degrees Celsius.
    #[serde(rename = "C")]
    Celsius,
    /// Things counted.
    #[default]
    #[serde(rename = "count")]
    Count,
}
