//! The current time, formatted for files.

use jiff::Timestamp;

/// Now, UTC, to the millisecond: `2026-11-21T03:30:00.123Z`.
pub(super) fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// Now, UTC, as a part of a file name: `2026-11-21T033000Z`.
pub(super) fn stamp() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ").to_string()
}

/// Now, UTC, as tgi-profiler names its files: `20261121_033000`.
pub(super) fn compact() -> String {
    Timestamp::now().strftime("%Y%m%d_%H%M%S").to_string()
}
