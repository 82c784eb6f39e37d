//! Colours by meaning; the theme knows the values.

use serde::{Deserialize, Serialize};

/// The role of a colour. Roles also differ by shape, dash, pattern or label, never by hue alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Proven to fit.
    Fits,
    /// Proven to fail.
    Fails,
    /// Unknown.
    Open,
    /// Predicted to fit, not proven.
    Predicted,
    /// Results contradict each other.
    Band,
    /// The recommended point.
    Recommended,
    /// A limit that must not be exceeded; deaths.
    Limit,
    /// Background information: phases, grids, estimates.
    #[default]
    Quiet,
    /// One of several series, from 0. Eight have a colour of their own, then colours repeat with another dash.
    Series(u8),
}
