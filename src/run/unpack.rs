//! Unpacks a tar archive from outside, such as a job's run on another host, into a folder.

use std::io::{self, Read};
use std::path::Path;

use tar::{Archive, EntryType};

use super::files::{Disk, NAME};
use super::jobs::JOBS;
use super::{Folder, Run};
use crate::fault::{Fault, Kind, Result};
use crate::warning::Warning;

/// How many of the entries that were left out are named.
const SHOWN: usize = 3;

impl Run {
    /// Unpacks a tar archive from outside, the files of a job's run, into the job's folder. Only folders and regular files are
    /// unpacked: a warning names what else there is.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads out of the folder; `limit` if the run would write more than it may; `io` for a broken
    /// archive, and if a file cannot be written.
    pub fn unpack_job(&self, name: &str, archive: impl Read) -> Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let inside = Path::new(JOBS).join(name);
        writer.folder.make_folder(&inside)?;
        let folder = Folder::open(&writer.folder.path().join(inside))?;
        let left_out = unpack(archive, &folder, Path::new(""), &writer.disk)?;
        if left_out.count > 0 {
            let (count, shown) = (left_out.count, left_out.first.join(", "));
            let more = if count > SHOWN { ", …" } else { "" };
            let message =
                format!("job `{name}`: {count} not copied, as only folders and regular files are: {shown}{more}");
            self.warn(Warning::new("not_copied", message))?;
        }
        Ok(())
    }
}

/// Entries that were left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) count: usize,
    first: Vec<String>,
}

/// Unpacks below `into`.
pub(super) fn unpack(archive: impl Read, folder: &Folder, into: &Path, disk: &Disk) -> Result<LeftOut> {
    let broken = |error: io::Error| Fault::new(Kind::Io, format!("the archive is broken: {error}"));
    let mut left_out = LeftOut::default();
    for entry in Archive::new(archive).entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let written = entry.path().map_err(broken)?.into_owned();
        let kind = entry.header().entry_type();
        if !matches!(kind, EntryType::Regular | EntryType::Directory) {
            left_out.count += 1;
            if left_out.count <= SHOWN {
                let what = format!("`{}` ({})", written.display(), name_of(kind));
                left_out.first.push(what);
            }
            continue;
        }
        // The size is known before anything is written.
        let size = entry.size();
        disk.claim(NAME.saturating_add(usize::try_from(size).unwrap_or(usize::MAX)), 0)?;
        let name = into.join(&written);
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

fn name_of(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Symlink => "a symbolic link",
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a pipe",
        _ => "a special file",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tar::Header;
    use tempfile::TempDir;

    use super::*;

    /// An archive with such entries, one byte in each file; also with names that `tar` would not write.
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

    /// Unpacks into `run/files/it`, where a run may hold 10 kB.
    fn unpacked(archive: &[u8], prepare: impl FnOnce(&Path)) -> (TempDir, Result<LeftOut>) {
        let temp = tempfile::tempdir().unwrap();
        let run = temp.path().join("run");
        fs::create_dir(&run).unwrap();
        prepare(&run);
        let folder = Folder::open(&run).unwrap();
        let result = unpack(archive, &folder, Path::new("files/it"), &Disk::new(&run, Some(10_000)));
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
        // Nor does what is there before.
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

        let whole = archive(&[("cut", EntryType::Regular)]);
        let (_temp, result) = unpacked(&whole[..512], |_| ());
        assert!(result.unwrap_err().message.contains("broken"));
    }
}
