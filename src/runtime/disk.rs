//! Room on a disk.

use std::path::Path;

/// Bytes that may still be written where `path` lies; none where that cannot be seen from here.
#[must_use]
pub fn free(path: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(path).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}
