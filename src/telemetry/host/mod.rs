//! Host memory of a process tree or a cgroup, for engines without a GPU.

mod cgroup;
mod tree;

use std::path::PathBuf;

pub use cgroup::Cgroup;
pub use tree::{Measure, Tree};

/// Roots of the kernel's file systems; different folders in tests.
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

/// Total memory of the machine in bytes, from `/proc/meminfo`.
fn machine_total(roots: &Roots) -> Option<u64> {
    let text = std::fs::read_to_string(roots.proc.join("meminfo")).ok()?;
    kibibytes(&text, "MemTotal")
}

/// A field of a `/proc` file with lines like `MemTotal:  16384 kB`, in bytes.
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
    fn field_names_match_exactly() {
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
