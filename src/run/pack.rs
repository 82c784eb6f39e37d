//! A run in one file, to send: [`pack`] writes it, and [`Folder::open`] reads it as it reads a stranger's folder.
//!
//! It is a tar archive compressed by gzip. To read it, it is unpacked into a temporary folder, within bounds: regular files and
//! folders only.

use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use regex::bytes::Regex;
use tar::{Builder, Header};
use tempfile::TempDir;

use super::files::Disk;
use super::unpack::unpack;
use super::{Folder, hide};
use crate::fault::{Fault, Kind, Result};
use crate::file;

/// How the file begins, as every file of gzip does.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Most bytes of an unpacked run: an hour of 8 GPUs at 100 Hz needs a tenth of it.
const MAX_UNPACKED: u64 = 1 << 30;

/// What keys of well-known services look like, and private ones.
const KEYS: &str = r"\b(hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,}|AKIA[0-9A-Z]{16})\b|-----BEGIN [A-Z ]*PRIVATE KEY-----";

/// Whether the file at this path may be a packed run.
#[must_use]
pub fn is_pack(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    file::open(path).is_ok_and(|mut file| file.read_exact(&mut begin).is_ok()) && begin == MAGIC
}

/// Writes the files of a run below `name/` of an archive, but those that begin with one of `without`. Returns how many.
///
/// # Errors
///
/// `not_allowed` for a file that holds a secret of this environment, or what looks like a key; `io` for a link, and if a file
/// cannot be read or written.
pub fn pack(folder: &Folder, name: &str, without: &[String], to: impl Write) -> Result<usize> {
    let failed = |error: std::io::Error| Fault::new(Kind::Io, format!("the archive cannot be written: {error}"));
    let keys = Regex::new(KEYS).map_err(|error| Fault::internal(error.to_string()))?;
    let mut archive = Builder::new(GzEncoder::new(to, Compression::default()));
    let mut open = vec![String::new()];
    let mut count = 0;
    while let Some(inside) = open.pop() {
        for entry in folder.names(&inside)? {
            let path = if inside.is_empty() {
                entry
            } else {
                format!("{inside}/{entry}")
            };
            let left_out = without.iter().any(|one| Path::new(&path).starts_with(one));
            // What a killed run left half written.
            if left_out || path.ends_with(".new") {
                continue;
            }
            if !folder.has_file(&path) {
                open.push(path);
                continue;
            }
            let bytes = folder.read(&path)?.unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            if keys.is_match(&bytes) || hide(&text) != text {
                return Err(Fault::not_allowed(
                    format!("`{path}` holds a secret, or what looks like the key of a service"),
                    format!("take it out, or leave the file out: --without {path}"),
                ));
            }
            let mut header = Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            archive
                .append_data(&mut header, format!("{name}/{path}"), &*bytes)
                .map_err(failed)?;
            count += 1;
        }
    }
    archive
        .into_inner()
        .and_then(GzEncoder::finish)
        .and_then(|mut to| to.flush())
        .map_err(failed)?;
    Ok(count)
}

/// Unpacks a run into a temporary folder.
///
/// # Errors
///
/// `limit` for more than 1 GiB; `io` for a broken archive; `usage` for one that is no packed run.
pub(super) fn unpacked(path: &Path) -> Result<(TempDir, PathBuf)> {
    let io = |error: std::io::Error| Fault::io(path, &error);
    let temp = tempfile::Builder::new().prefix("profiler-").tempdir().map_err(io)?;
    let folder = Folder::open(temp.path())?;
    let archive = GzDecoder::new(file::open(path)?).take(2 * MAX_UNPACKED);
    let disk = Disk::new(temp.path(), Some(MAX_UNPACKED));
    let left_out = unpack(archive, &folder, Path::new(""), &disk)
        .map_err(|fault| fault.while_doing(format!("`{}`", path.display())))?;
    match (left_out.count, folder.names("")?.as_slice()) {
        (0, [only]) if !folder.has_file(only) => {
            let inside = temp.path().join(only);
            Ok((temp, inside))
        }
        _ => Err(Fault::usage(format!("`{}` is not a packed run", path.display()))
            .hint("give a folder of a run, or a file that `profiler pack` wrote")),
    }
}
