//! What a colour says; which one that is, the theme knows.

use serde::{Deserialize, Serialize};

/// The role of a colour. Roles are told apart by shape, dash, pattern or label too, never by hue alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Proven to fit.
    Fits,
    /// Proven to fail.
    Fails,
    /// Not known.
    Open,
    /// Predicted to fit, not proven.
    Predicted,
    /// Answers contradict each other.
    Band,
    /// What should be run.
    Recommended,
    /// A limit that must not be passed; deaths.
    Limit,
    /// What stands back: phases, grids, what is only estimated.
    #[default]
    Quiet,
    /// The n-th of several things of one kind, from 0: eight are told apart, then they repeat with another dash.
    Series(u8),
}
