//! Memory of the host: of a tree of processes, or of a cgroup. For engines without a GPU.

mod cgroup;
mod tree;

use std::path::PathBuf;

pub use cgroup::Cgroup;
pub use tree::{Measure, Tree};

/// Where the kernel shows processes and cgroups; other folders in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            cgroup: "/sys/fs/cgroup".into(),
        }
    }
}

/// Bytes of memory in the machine, by `/proc/meminfo`.
fn machine_total(roots: &Roots) -> Option<u64> {
    let text = std::fs::read_to_string(roots.proc.join("meminfo")).ok()?;
    kibibytes(&text, "MemTotal")
}

/// The field of a `/proc` file with lines as `MemTotal:  16384 kB`, in bytes.
fn kibibytes(text: &str, field: &str) -> Option<u64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let number: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_apart() {
        let text = "MemTotalX:  1 kB\nMemTotal:       3 kB\nPss:  9 kB\n";
        assert_eq!(kibibytes(text, "MemTotal"), Some(3072));
        assert_eq!(kibibytes(text, "MemFree"), None);
        assert_eq!(kibibytes("Pss: many kB", "Pss"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(machine_total(&Roots::default()).unwrap() > 1 << 26);
    }
}
