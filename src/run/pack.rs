//! Packed runs: [`pack`] writes a run into one file to send. [`Folder::open`] reads it with the same precautions as a
//! folder from an untrusted source.
//!
//! The file is a gzipped tar archive. For reading, it is unpacked into a temporary folder of limited size; only regular
//! files and folders are unpacked.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::disk::{Disk, NAME};
use super::folder::Folder;
use super::hide_keys;
use crate::fault::{Fault, Kind, Result};
use crate::file;
use crate::outside::Bounded;
use crate::temporary::{Temporary, is_ending};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tar::{Archive, Builder, EntryType, Header, PaxExtensions};

/// The first bytes of every gzip file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Most bytes of an unpacked run. An hour of 8 GPUs at 100 Hz needs a tenth of this.
const MAX_UNPACKED: u64 = 1 << 30;

/// Whether the file at this path may be a packed run.
pub fn is_pack(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    file::open(path).is_ok_and(|mut file| file.read_exact(&mut begin).is_ok()) && begin == MAGIC
}

/// Writes the files of a run below `name/` of an archive, except those whose path begins with one of `without`. Returns
/// their number.
///
/// # Errors
///
/// `not_allowed` for a file with a secret of this environment, or with a text that looks like a key; `io` for a link,
/// and if a file cannot be read or written.
pub fn pack(folder: &Folder, name: &str, without: &[String], to: impl Write) -> Result<usize> {
    let failed = |error: io::Error| Fault::new(Kind::Io, format!("the archive cannot be written: {error}"));
    let mut archive = Builder::new(GzEncoder::new(to, Compression::default()));
    let mut open = vec![String::new()];
    let mut count = 0;
    while let Some(inside) = open.pop() {
        for entry in folder.names(&inside)? {
            let path = match inside.as_str() {
                "" => entry,
                inside => format!("{inside}/{entry}"),
            };
            let left_out = without.iter().any(|one| Path::new(&path).starts_with(one));
            // A `.new` file is one that a killed run did not finish.
            if left_out || path.ends_with(".new") {
                continue;
            }
            if !folder.has_file(&path) {
                open.push(path);
                continue;
            }
            let bytes = folder.read(&path)?.unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            if hide_keys(&text) != text {
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
    let written = archive
        .into_inner()
        .and_then(GzEncoder::finish)
        .and_then(|mut to| to.flush());
    written.map_err(failed).map(|()| count)
}

impl Folder {
    /// Opens an existing folder, or unpacks a packed run into a temporary one.
    ///
    /// # Errors
    ///
    /// `usage` if there is no such folder; `io` if it cannot be opened; errors of `unpacked`.
    pub fn open(path: &Path) -> Result<Self> {
        if !is_pack(path) {
            return Self::open_dir(path);
        }
        let (unpacked, inside) = unpacked(path)?;
        Ok(Self::open_dir(&inside)?.unpacked_from(path, unpacked))
    }
}

/// Unpacks a run into a temporary folder.
///
/// # Errors
///
/// `limit` for more than 1 GiB; `io` for a broken archive; `usage` if it is not a packed run.
fn unpacked(path: &Path) -> Result<(Temporary, PathBuf)> {
    let temp = Temporary::folder()?;
    let folder = Folder::open_dir(temp.path())?;
    let archive = Bounded::new(GzDecoder::new(file::open(path)?), 2 * MAX_UNPACKED);
    let disk = Disk::new(temp.path(), Some(MAX_UNPACKED));
    let left_out =
        unpack(archive, &folder, &disk).map_err(|fault| fault.while_doing(format!("`{}`", path.display())))?;
    match (left_out.count, folder.names("")?.as_slice()) {
        (0, [only]) if !folder.has_file(only) => {
            let inside = temp.path().join(only);
            Ok((temp, inside))
        }
        _ => Err(Fault::usage(format!("`{}` is not a packed run", path.display()))
            .hint("give a folder of a run, or a file that `profiler pack` wrote")),
    }
}

/// Most skipped entries that are named.
pub(super) const SHOWN: usize = 3;

/// Entries that were skipped.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) count: usize,
    pub(super) first: Vec<String>,
}

/// Most entries of an archive, with each folder of their paths, and most folders in a path. A run has a few files more
/// than its tables, loads and engines.
const MAX_PARTS: usize = 200_000;
const MAX_DEPTH: usize = 32;

/// Longest path of an entry, and longest extended header.
const MAX_PATH: u64 = 4096;
const MAX_EXTENSION: u64 = 64 << 10;

/// Unpacks an untrusted tar archive. Each entry is charged before anything of it is read or made: also those that are
/// skipped, and every folder of a path. The tar library would read names and extended headers of any length.
pub(super) fn unpack(archive: impl Read, folder: &Folder, disk: &Disk) -> Result<LeftOut> {
    let broken = |error: io::Error| Fault::new(Kind::Io, format!("the archive is broken: {error}"));
    let (mut left_out, mut parts, mut long) = (LeftOut::default(), 0, None);
    #[expect(clippy::disallowed_methods, reason = "names are read here, as `raw` leaves them")]
    for entry in Archive::new(archive).entries().map_err(broken)?.raw(true) {
        if is_ending() {
            return Err(Fault::new(Kind::Interrupted, "interrupted"));
        }
        let mut entry = entry.map_err(broken)?;
        let (kind, size) = (entry.header().entry_type(), entry.size());
        parts += 1;
        match kind {
            EntryType::GNULongName => {
                let name = Bounded::new(&mut entry, MAX_PATH).all().map_err(broken)?;
                long = Some(OsString::from_vec(
                    name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
                ));
                continue;
            }
            EntryType::XHeader => {
                let text = Bounded::new(&mut entry, MAX_EXTENSION).all().map_err(broken)?;
                let path = PaxExtensions::new(&text)
                    .flatten()
                    .find(|one| one.key_bytes() == b"path");
                long = path
                    .map(|path| OsString::from_vec(path.value_bytes().to_vec()))
                    .or(long);
                continue;
            }
            EntryType::GNULongLink | EntryType::XGlobalHeader if size <= MAX_EXTENSION => continue,
            _ => {}
        }
        let name = match long.take() {
            Some(long) => PathBuf::from(long),
            None => entry.path().map_err(broken)?.into_owned(),
        };
        let depth = name.components().count();
        parts += depth;
        if parts > MAX_PARTS || depth > MAX_DEPTH {
            return Err(Fault::new(
                Kind::Limit,
                format!(
                    "the archive has more than {MAX_PARTS} files and folders, or more than {MAX_DEPTH} in each other"
                ),
            ));
        }
        // The size is known before anything is written, or read to be skipped.
        let size_held = usize::try_from(size).unwrap_or(usize::MAX);
        disk.claim((NAME * depth).saturating_add(size_held), 0)?;
        if !matches!(kind, EntryType::Regular | EntryType::Directory) {
            left_out.count += 1;
            if left_out.count <= SHOWN {
                let kind = match kind {
                    EntryType::Symlink => "a symbolic link",
                    EntryType::Link => "a hard link",
                    EntryType::Char | EntryType::Block => "a device",
                    EntryType::Fifo => "a pipe",
                    _ => "a special file",
                };
                left_out.first.push(format!("`{}` ({kind})", name.display()));
            }
            continue;
        }
        if kind == EntryType::Directory {
            folder.make_folder(&name)?;
            continue;
        }
        let path = folder.path().join(&name);
        let mut file = folder.append(&name)?;
        let copied = file.set_len(0).and_then(|()| io::copy(&mut entry, &mut file));
        if copied.map_err(|error| Fault::io(&path, &error))? < size {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(left_out)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tar::Header;
    use tempfile::TempDir;

    use super::*;

    /// An archive with these entries, one byte in each file. Also allows names that `tar` would not write.
    fn archive(entries: &[(&str, EntryType)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, kind) in entries {
            let mut header = Header::new_gnu();
            let contents: &[u8] = if *kind == EntryType::Regular { b"x" } else { b"" };
            header.set_size(contents.len() as u64);
            header.set_mode(0o644);
            header.set_entry_type(*kind);
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.as_old_mut().linkname[..4].copy_from_slice(b"/etc");
            header.set_cksum();
            archive.append(&header, contents).unwrap();
        }
        archive.into_inner().unwrap()
    }

    /// Unpacks into `run/files/it`, where the run's limit is 10 kB.
    fn unpacked(archive: &[u8], prepare: impl FnOnce(&Path)) -> (TempDir, Result<LeftOut>) {
        let temp = tempfile::tempdir().unwrap();
        let run = temp.path().join("run");
        fs::create_dir(&run).unwrap();
        prepare(&run);
        let folder = Folder::make(&run.join("files/it")).unwrap();
        let result = unpack(archive, &folder, &Disk::new(folder.path(), Some(10_000)));
        (temp, result)
    }

    #[test]
    fn only_files_and_folders_are_unpacked_and_the_rest_is_named() {
        let archive = archive(&[
            ("top/file", EntryType::Regular),
            ("top/sub/", EntryType::Directory),
            ("top/link", EntryType::Symlink),
            ("top/link/behind", EntryType::Regular),
            ("top/hard", EntryType::Link),
            ("top/pipe", EntryType::Fifo),
            ("top/zero", EntryType::Char),
            ("top/disk", EntryType::Block),
        ]);
        let (temp, left_out) = unpacked(&archive, |_| ());
        let left_out = left_out.unwrap();
        assert_eq!((left_out.count, left_out.first.len()), (5, 3), "{left_out:?}");
        assert_eq!(left_out.first[0], "`top/link` (a symbolic link)");
        let top = temp.path().join("run/files/it/top");
        assert_eq!(fs::read_to_string(top.join("file")).unwrap(), "x");
        assert!(top.join("sub").is_dir());
        assert!(top.join("link/behind").is_file() && !top.join("link").is_symlink());
        for name in ["hard", "pipe", "zero", "disk"] {
            assert!(fs::symlink_metadata(top.join(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in ["../escape", "a/../../../../escape", "/escape"] {
            let (temp, result) = unpacked(&archive(&[(name, EntryType::Regular)]), |_| ());
            assert!(result.unwrap_err().message.contains("escape"), "{name}");
            assert!(!temp.path().join("escape").exists() && !Path::new("/escape").exists());
        }
        // Nor does a link that is there already.
        let (temp, result) = unpacked(&archive(&[("up/escape", EntryType::Regular)]), |run| {
            fs::create_dir_all(run.join("files/it")).unwrap();
            symlink("../../..", run.join("files/it/up")).unwrap();
        });
        assert!(result.unwrap_err().message.contains("is a symbolic link"));
        assert!(!temp.path().join("escape").exists());
    }

    #[test]
    fn neither_sizes_nor_names_are_without_end() {
        let mut huge = archive(&[("huge", EntryType::Regular)]);
        let mut header = Header::from_byte_slice(&huge[..512]).clone();
        header.set_size(1 << 40);
        header.set_cksum();
        huge[..512].copy_from_slice(header.as_bytes());
        let (temp, result) = unpacked(&huge, |_| ());
        assert_eq!(result.unwrap_err().kind, Kind::Limit);
        assert!(!temp.path().join("run/files/it/huge").exists());

        let names: Vec<String> = (0..30).map(|number| format!("{number}/")).collect();
        let names: Vec<_> = names.iter().map(|name| (&**name, EntryType::Directory)).collect();
        let (temp, result) = unpacked(&archive(&names), |_| ());
        assert_eq!(result.unwrap_err().kind, Kind::Limit);
        assert_eq!(fs::read_dir(temp.path().join("run/files/it")).unwrap().count(), 19);

        // Neither are the headers before an entry, nor the folders of one path.
        let long = |kind: EntryType, name: &[u8]| {
            let mut archive = tar::Builder::new(Vec::new());
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(name.len() as u64);
            header.set_cksum();
            archive.append(&header, name).unwrap();
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            header.as_old_mut().name[..1].copy_from_slice(b"x");
            header.set_cksum();
            archive.append(&header, &b""[..]).unwrap();
            archive.into_inner().unwrap()
        };
        for (kind, name) in [
            (EntryType::GNULongName, "a".repeat(1 << 20)),
            (EntryType::GNULongLink, "a".repeat(1 << 20)),
            (EntryType::XHeader, "\n".repeat(1 << 20)),
            (EntryType::XGlobalHeader, "\n".repeat(1 << 20)),
            (EntryType::GNULongName, "a/".repeat(200)),
            (EntryType::XHeader, format!("409 path={}\n", "a/".repeat(200 - 1) + "a")),
        ] {
            let (temp, result) = unpacked(&long(kind, name.as_bytes()), |_| ());
            assert!(result.is_err(), "{kind:?}");
            assert_eq!(
                fs::read_dir(temp.path().join("run/files/it")).unwrap().count(),
                0,
                "{kind:?}"
            );
        }
        let (temp, result) = unpacked(&long(EntryType::GNULongName, b"a/b/c\0"), |_| ());
        assert_eq!(result.unwrap().count, 0);
        assert!(temp.path().join("run/files/it/a/b/c").is_dir());

        let whole = archive(&[("cut", EntryType::Regular)]);
        let (_temp, result) = unpacked(&whole[..512], |_| ());
        assert!(result.unwrap_err().message.contains("broken"));
    }
}
