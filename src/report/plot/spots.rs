//! What is told of a place in a picture: under the mouse, under a finger, or chosen by keys.

use serde::{Deserialize, Serialize};

use super::Entry;

/// Places of which something is told. There may be 10,000 of them: texts that repeat are stored once on the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spots {
    /// What is told of each, with units: `input`, `verdict`, `evidence`, `peak, GiB`.
    pub columns: Vec<String>,
    /// The places, in an order that keys can follow.
    pub spots: Vec<Spot>,
}

/// A place, and what is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spot {
    /// Where it is on the panel's x and (left) y axis.
    pub at: (f64, f64),
    /// What is told, as long as `columns`; nothing is shown of [`Entry::None`].
    pub entries: Vec<Entry>,
}

/// What is known between the points of a monotone limit. In the `band` answers contradict each other, and nothing is proven. Elsewhere a place is
/// proven to fit if some point of `fits` is at least as hard, proven to fail if some point of `fails` is at most as hard, beyond a length limit if
/// some point of `clips` is, and open otherwise; what is open is `predicted` to fit, or nothing at all is said of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ground {
    /// Whether more is harder, along x and along y.
    pub rising: (bool, bool),
    /// The hardest points that fit.
    pub fits: Vec<Corner>,
    /// The easiest points that fail.
    pub fails: Vec<Corner>,
    /// The easiest points that a length limit refuses.
    #[serde(default)]
    pub clips: Vec<Corner>,
    /// Where answers contradict each other: closed lines, a place lies within where it lies within an odd number of them.
    #[serde(default)]
    pub band: Vec<Vec<(f64, f64)>>,
    /// What is open and predicted to fit: closed lines.
    #[serde(default)]
    pub predicted: Vec<Vec<(f64, f64)>>,
}

/// A point that proves something of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corner {
    /// How far it proves that: where it is, or the edge of the stretch that its value stands for.
    pub at: (f64, f64),
    /// The point and its answer: `input=4096, output=512 fits`.
    pub words: String,
}
