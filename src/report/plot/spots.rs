//! Tooltips: texts shown for a point under the mouse, under a finger, or selected by keys.

use serde::{Deserialize, Serialize};

use super::Entry;

/// Points with a tooltip. There may be 10,000 of them; repeated texts are stored once on the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tooltips {
    /// Heading of each entry, with its unit: `input`, `verdict`, `evidence`, `peak, GiB`.
    pub columns: Vec<String>,
    /// The points, in the order in which keys walk through them.
    pub spots: Vec<TooltipPoint>,
}

/// A point and the values shown in its tooltip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TooltipPoint {
    /// Position on the panel's x and (left) y axis.
    pub at: (f64, f64),
    /// One value for each of `columns`; [`Entry::None`] is not shown.
    pub entries: Vec<Entry>,
}

/// Which regions are proven, for tooltips between the probed points of a monotone limit.
///
/// Inside `band` results contradict each other and nothing is proven. Elsewhere a position is proven to fit if some
/// point of `fits` is at least as hard, proven to fail if some point of `fails` is at most as hard, and beyond a
/// length limit if some point of `clips` is. Otherwise it is open; inside `predicted` it is predicted to fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvenRegions {
    /// Whether a larger value is harder, along x and along y.
    pub rising: (bool, bool),
    /// The hardest points that fit.
    pub fits: Vec<ProvenPoint>,
    /// The easiest points that fail.
    pub fails: Vec<ProvenPoint>,
    /// The easiest points that a length limit refuses.
    #[serde(default)]
    pub clips: Vec<ProvenPoint>,
    /// Closed outlines of where results contradict each other (even-odd rule).
    #[serde(default)]
    pub band: Vec<Vec<(f64, f64)>>,
    /// Closed outlines of the open region that is predicted to fit.
    #[serde(default)]
    pub predicted: Vec<Vec<(f64, f64)>>,
}

/// A point that proves something about others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvenPoint {
    /// From where it proves that: its position, or the edge of the interval that its value stands for.
    pub at: (f64, f64),
    /// The point and its verdict: `input=4096, output=512 fits`.
    pub words: String,
}
