//! Reads files that may come from an untrusted source: regular files only, and limited in size.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

use crate::fault::{Fault, Kind, Result};
use crate::fmt::Bytes;
use crate::outside::{Bounded, is_too_large};

/// Free bytes on the file system of `path`. None if it cannot be determined.
pub fn disk_free(path: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(path).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}

/// Opens a regular file.
///
/// # Errors
///
/// `usage` for a folder, pipe or device; `io` if it cannot be opened.
pub fn open(path: &Path) -> Result<File> {
    let io = |error: std::io::Error| Fault::io(path, &error);
    // Opening a pipe must not wait for its other end.
    let flags = OFlag::O_NONBLOCK.bits();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_file() {
        Ok(file)
    } else {
        Err(Fault::usage(format!("`{}` is not a regular file", path.display())))
    }
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 state after a file's bytes, so that more can be added.
///
/// # Errors
///
/// Errors of reading it.
pub fn hashed(mut file: File) -> std::io::Result<Sha256> {
    file.seek(SeekFrom::Start(0))?;
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(digest),
            count => digest.update(&buffer[..count]),
        }
    }
}

/// Reads a regular file.
///
/// # Errors
///
/// Fails as [`open`] does; `limit` for more than `most` bytes, because a file can claim any length.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    read_opened(open(path)?, path, most)
}

/// Reads a file that [`open`] opened.
///
/// # Errors
///
/// Fails as [`read`] does.
pub fn read_opened(file: File, path: &Path, most: u64) -> Result<Vec<u8>> {
    Bounded::new(file, most)
        .all()
        .map_err(|error| match is_too_large(&error) {
            true => Fault::new(
                Kind::Limit,
                format!("`{}` has more than {}", path.display(), Bytes(most)),
            ),
            false => Fault::io(path, &error),
        })
}
