//! Labels that identify this program's containers and their run.

use std::collections::HashMap;

use crate::runtime::ProcessIdentity;

/// Run id.
pub(super) const RUN: &str = "profiler.run";
/// Host process; see `ProcessIdentity::encode`.
pub(in crate::runtime) const HOST: &str = "profiler.host";

/// Labels of a container of this run. Pid, start time and boot id are also separate labels, for people and other
/// tools.
pub(super) fn labels(run: &str, host: &ProcessIdentity) -> HashMap<String, String> {
    [
        (RUN, run.to_owned()),
        (HOST, host.encode()),
        ("profiler.pid", host.pid.to_string()),
        ("profiler.start-time", host.start_time.to_string()),
        ("profiler.boot-id", host.boot_id.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
