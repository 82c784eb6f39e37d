//! The owner of a container: the profiler process that started it, as a label names it.
//!
//! A pid may be reused, so the owner is compared together with start time, boot, machine and pid namespace.

use std::fs;
use std::path::Path;

use crate::telemetry::host::process_stat;

/// Names this process uniquely: `PID:START:BOOT:MACHINE:NAMESPACE`. START is in clock ticks since boot, MACHINE is the
/// machine id (empty if there is none), and NAMESPACE is the number of the pid namespace.
pub(super) fn own_label() -> String {
    let pid = std::process::id();
    let start = start_time(pid).unwrap_or_default();
    let (boot, machine) = (read("/proc/sys/kernel/random/boot_id"), read("/etc/machine-id"));
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace: String = namespace
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    format!("{pid}:{start}:{boot}:{machine}:{namespace}")
}

/// Whether the owner named by a label is dead, as seen from the process with the label `here`; false if that cannot be
/// determined. `None` if the owner is alive, or if the label cannot be parsed and is therefore not ours.
pub(super) fn owner_is_dead(label: &str, here: &str, start_time: impl Fn(u32) -> Option<u64>) -> Option<bool> {
    let parts = |label| -> Option<[&str; 5]> { str::split(label, ':').collect::<Vec<_>>().try_into().ok() };
    let [pid, start, boot, machine, namespace] = parts(label)?;
    let [_, _, own_boot, own_machine, own_namespace] = parts(here)?;
    let (pid, start): (u32, u64) = (pid.parse().ok()?, start.parse().ok()?);
    if machine != own_machine {
        // The daemon is shared between machines: the other machine cleans up after itself.
        return Some(false);
    }
    if boot != own_boot {
        return Some(true);
    }
    if namespace != own_namespace || namespace.is_empty() {
        // A pid of another namespace has no meaning here.
        return Some(false);
    }
    (start_time(pid) != Some(start)).then_some(true)
}

/// Start time in clock ticks since boot. `None` if there is no such process, or only a zombie.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    process_stat(Path::new("/proc"), pid).map(|stat| stat.start)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_a_foreign_label_is_nobodys() {
        let here = own_label();
        assert_eq!(owner_is_dead(&here, &here, start_time), None);
        assert_eq!(owner_is_dead(&here, &here, |_| None), Some(true));
        assert_eq!(owner_is_dead("7:x", &here, start_time), None);
    }

    #[test]
    fn only_the_same_start_on_the_same_boot_is_alive() {
        let dead = |label, start| owner_is_dead(label, "7:100:b:m:1", |_| start);
        assert_eq!(dead("7:100:b:m:1", Some(100)), None);
        assert_eq!(dead("7:100:b:m:1", Some(101)), Some(true), "reused number");
        assert_eq!(dead("7:100:b:m:1", None), Some(true));
        assert_eq!(dead("7:100:c:m:1", Some(100)), Some(true), "rebooted");
    }

    #[test]
    fn owners_on_other_machines_or_namespaces_are_unknown() {
        let dead = |label| owner_is_dead(label, "7:100:b:m:1", |_| None);
        assert_eq!(dead("7:100:b:m:2"), Some(false));
        assert_eq!(dead("7:100:c:n:1"), Some(false));
    }
}
