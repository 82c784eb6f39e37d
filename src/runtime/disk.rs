//! Free disk space.

use std::path::Path;

/// Free bytes on the file system of `path`. None if it cannot be determined.
#[must_use]
pub fn free(path: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(path).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}
