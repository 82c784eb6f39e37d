//! The labels by which containers of this program, and of which run of it, are known.

use std::collections::HashMap;

use crate::runtime::Identity;

/// The run's id.
pub(super) const RUN: &str = "profiler.run";
/// The host process as one word: see `Identity::mark`.
pub(in crate::runtime) const HOST: &str = "profiler.host";

/// What a container of this run carries. Pid, start time and boot id are there also one by one, for people and other tools.
pub(super) fn of(run: &str, host: &Identity) -> HashMap<String, String> {
    [
        (RUN, run.to_owned()),
        (HOST, host.mark()),
        ("profiler.pid", host.pid.to_string()),
        ("profiler.start-time", host.start_time.to_string()),
        ("profiler.boot-id", host.boot_id.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
