//! The verdicts of a probe, and their effect on the boundary.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The verdict of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Verified: counts, end of stream and residency are as requested.
    Ok,
    /// Memory ran out: `cuda`, `host` or `allocator`.
    Oom,
    /// The engine refused the request: `memory`, `kv_cache` or `length_limit`.
    Refused,
    /// The engine survived by preempting sequences.
    Preempted,
    /// The engine ran fewer concurrent requests than asked.
    Queued,
    /// The engine did not become ready; `memory` is one of the causes.
    StartFailed,
    /// No answer in time, for an unknown reason.
    Timeout,
    /// The text ended before the requested length.
    ShortOutput,
    /// Anything unclear. Never memory.
    Error,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Verdict; 9] = [
        Verdict::Ok,
        Verdict::Oom,
        Verdict::Refused,
        Verdict::Preempted,
        Verdict::Queued,
        Verdict::StartFailed,
        Verdict::Timeout,
        Verdict::ShortOutput,
        Verdict::Error,
    ];

    /// The name in scripts, journals and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Oom => "oom",
            Verdict::Refused => "refused",
            Verdict::Preempted => "preempted",
            Verdict::Queued => "queued",
            Verdict::StartFailed => "start_failed",
            Verdict::Timeout => "timeout",
            Verdict::ShortOutput => "short_output",
            Verdict::Error => "error",
        }
    }

    /// The verdict with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.name() == name)
    }

    /// The effect of this verdict at its point.
    ///
    /// `refused` without a cause counts as memory, because that is what a script means that answers with the bare
    /// word. A `length_limit` has no effect here; it excludes the harder points instead. `short_output` proves only
    /// what was produced.
    #[must_use]
    pub fn moves(self, cause: Option<&str>, overload: Overload) -> Moves {
        match self {
            Verdict::Ok => Moves::Fits,
            Verdict::Oom => Moves::Fails,
            Verdict::Refused => match cause {
                None | Some("memory" | "kv_cache") => Moves::Fails,
                Some(_) => Moves::None,
            },
            Verdict::Preempted | Verdict::Queued => match overload {
                Overload::Fails => Moves::Fails,
                Overload::Fits => Moves::Fits,
            },
            Verdict::StartFailed => match cause {
                Some("memory") => Moves::Fails,
                _ => Moves::None,
            },
            Verdict::Timeout | Verdict::ShortOutput | Verdict::Error => Moves::None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a preempted or queued point counts as fitting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overload {
    /// A point that was served only by preempting or queueing does not fit.
    #[default]
    Fails,
    /// It fits: surviving is enough.
    Fits,
}

/// The effect of an answer on the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moves {
    /// The point and every easier one fits.
    Fits,
    /// The point and every harder one fails.
    Fails,
    /// No effect.
    None,
}

impl Moves {
    /// The name in scripts, journals and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Moves::Fits => "fits",
            Moves::Fails => "fails",
            Moves::None => "none",
        }
    }
}
