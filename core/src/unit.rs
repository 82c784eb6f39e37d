//! The unit of a metric.

use serde::{Deserialize, Serialize};

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
