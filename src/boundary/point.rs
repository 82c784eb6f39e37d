//! A point: named coordinates.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One coordinate. Lengths and counts are integers; a memory fraction is not.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A length in tokens, or a count.
    Int(i64),
    /// A share, or another continuous quantity.
    Float(f64),
}

impl Scalar {
    /// The value as a float.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Int(value) => value as f64,
            Scalar::Float(value) => value,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Int(value) => write!(f, "{value}"),
            Scalar::Float(value) => write!(f, "{value}"),
        }
    }
}

/// Coordinates by axis name: `input=512 output=128 concurrency=1`.
#[derive(Clone, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Point(pub BTreeMap<String, Scalar>);

impl Point {
    /// The integer coordinate on `axis`, if there is one.
    #[must_use]
    pub fn int(&self, axis: &str) -> Option<i64> {
        match self.0.get(axis)? {
            Scalar::Int(value) => Some(*value),
            Scalar::Float(_) => None,
        }
    }

    /// Sets one coordinate.
    #[must_use]
    pub fn with(mut self, axis: &str, value: i64) -> Self {
        self.0.insert(axis.to_owned(), Scalar::Int(value));
        self
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (axis, value)) in self.0.iter().enumerate() {
            write!(f, "{}{axis}={value}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
