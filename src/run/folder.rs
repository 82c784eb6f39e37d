//! A run's folder: opens the files in it.
//!
//! A run folder may come from an untrusted source. Therefore every file is opened relative to the open folder, one path
//! component at a time, and no symbolic link is followed: it could point to one of the user's files. Only regular files
//! are opened, because a pipe would block and a device may never end. Reads are limited in size, because a sparse file
//! can claim any length. The path of the folder itself comes from the user and may be a link.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufWriter, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::disk::WrittenFile;
use super::secrets;
use crate::fault::{Fault, Kind, Result};
use crate::outside::{self, Bounded};
use crate::temporary::Temporary;
use crate::world::{self, Change, change};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::Serialize;

/// Flags to open a subfolder that must not be a link. `O_PATH` needs no read permission.
const FOLDER: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Flags to open a file that must not be a link. `O_NONBLOCK`: opening a pipe must not wait for its other end.
const FILE: OFlag = OFlag::O_NOFOLLOW
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_NOCTTY)
    .union(OFlag::O_CLOEXEC);

/// Most bytes read from one file or line. An hour of 8 GPUs at 100 Hz needs a tenth of this. A script's strings have up
/// to 64 MiB, and JSON escapes some characters as six.
const MAX_READ: u64 = 512 << 20;

/// Permissions of new folders, before the user's umask.
const NEW_FOLDER: Mode = Mode::from_bits_truncate(0o777);

/// An open run folder. File names are relative to it.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    dir: Arc<OwnedFd>,
    /// The temporary folder of a packed run, removed with the last clone.
    _unpacked: Option<Arc<Temporary>>,
}

impl Folder {
    /// Opens an existing folder.
    ///
    /// # Errors
    ///
    /// `usage` if there is no such folder; `io` if it cannot be opened.
    pub(super) fn open_dir(path: &Path) -> Result<Self> {
        let opened = open(path, FOLDER.difference(OFlag::O_NOFOLLOW), Mode::empty());
        let dir = opened.map_err(|error| match error {
            Errno::ENOENT | Errno::ENOTDIR => not_a_run(path),
            _ => Fault::io(path, &error.into()),
        })?;
        Ok(Self {
            path: path.to_owned(),
            dir: Arc::new(dir),
            _unpacked: None,
        })
    }

    /// Gives the folder of an unpacked run the path of its pack. The last clone removes the temporary folder.
    pub(super) fn unpacked_from(self, pack: &Path, unpacked: Temporary) -> Self {
        Self {
            path: pack.to_owned(),
            _unpacked: Some(Arc::new(unpacked)),
            ..self
        }
    }

    /// Opens a folder, and creates it and its parents if they do not exist.
    pub(super) fn make(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(|error| Fault::io(path, &error))?;
        Self::open_dir(path)
    }

    /// Syncs the folder's directory entries. Until then, a power failure may remove a created or renamed file even if
    /// its contents were synced.
    pub(super) fn sync(&self) -> Result<()> {
        sync(&self.path).map_err(|error| Fault::io(&self.path, &error))
    }

    /// The path as the user gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// `io` for a link, for anything but a regular file, and if it cannot be opened.
    pub fn file(&self, name: impl AsRef<Path>) -> Result<Option<File>> {
        self.open_file(name.as_ref(), OFlag::O_RDONLY)
    }

    /// Reads a whole file; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`Folder::file`], and `io` for more than 512 MiB.
    pub fn read(&self, name: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
        let name = name.as_ref();
        let Some(file) = self.file(name)? else {
            return Ok(None);
        };
        let io = |error: io::Error| Fault::io(&self.path.join(name), &error);
        if file.metadata().map_err(io)?.len() > MAX_READ {
            return Err(io(too_large("the file")));
        }
        Bounded::new(file, MAX_READ).all().map(Some).map_err(io)
    }

    /// The sorted names in a subfolder; empty if it does not exist.
    ///
    /// # Errors
    ///
    /// `io` if it is a link or not a folder, or cannot be read.
    pub fn names(&self, folder: &str) -> Result<Vec<String>> {
        let Some(dir) = self.folder(&parts(folder.as_ref())?, false)? else {
            return Ok(Vec::new());
        };
        let io = |error: Errno| Fault::io(&self.path.join(folder), &error.into());
        let mut names = Vec::new();
        let mut listed = Dir::openat(&dir, ".", OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).map_err(io)?;
        for entry in listed.iter() {
            let entry = entry.map_err(io)?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether a regular file of that name exists.
    pub fn has_file(&self, name: impl AsRef<Path>) -> bool {
        self.kind(name.as_ref()).is_ok_and(|kind| kind == Some(SFlag::S_IFREG))
    }

    /// Whether anything with that name exists.
    pub(super) fn has(&self, name: &str) -> bool {
        !matches!(self.kind(name.as_ref()), Ok(None))
    }

    /// Opens a file for reading and appending. Creates it and the folders above it if they do not exist.
    ///
    /// # Errors
    ///
    /// `io` for a link, for anything but a regular file, and if it cannot be opened.
    pub(super) fn append(&self, name: &Path) -> Result<WrittenFile> {
        let flags = OFlag::O_RDWR | OFlag::O_APPEND | OFlag::O_CREAT;
        let path = self.path.join(name);
        change(Change::Open(&path)).map_err(|error| Fault::io(&path, &error))?;
        let file = self.open_file(name, flags)?.ok_or_else(|| not_found(&path))?;
        let names = file.metadata().map_err(|error| Fault::io(&path, &error))?.nlink();
        if names > 1 {
            // Writing would also change the other name's content, such as the source of a copy made with `cp -l`.
            let message = format!("`{}` is a hard link: the file has {names} names", path.display());
            return Err(Fault::new(Kind::Io, message).hint("put a copy of the file in its place"));
        }
        Ok(WrittenFile::new(file, path))
    }

    /// Replaces a file atomically: a reader sees either the old or the new content, even after a crash. Creates the
    /// folders above it.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be written.
    pub(crate) fn replace(
        &self,
        name: &Path,
        write: impl FnOnce(&mut BufWriter<WrittenFile>) -> io::Result<()>,
    ) -> Result<()> {
        let path = self.path.join(name);
        let (dir, last) = self.parent(name, true)?.ok_or_else(|| not_found(&path))?;
        let mut new = last.to_owned();
        new.push(".new");
        let new_path = path.with_file_name(&new);
        let remove = || {
            change(Change::Remove(&new_path))?;
            unlinkat(&dir, new.as_os_str(), UnlinkatFlags::NoRemoveDir).map_err(io::Error::from)
        };
        // A killed run may have left one. The file must be created anew: an existing one could be a link.
        let _ = remove();
        let temporary = Temporary::of(new_path.clone());
        let flags = FILE | OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let written = change(Change::Open(&new_path))
            .and_then(|()| Ok(openat(&dir, new.as_os_str(), flags, mode(name))?))
            .and_then(|new| {
                let mut file = BufWriter::new(WrittenFile::new(File::from(new), new_path.clone()));
                write(&mut file)?;
                file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
            })
            .and_then(|()| change(Change::Rename(&new_path, &path)))
            .and_then(|()| Ok(renameat(&dir, new.as_os_str(), &dir, last)?));
        // Removed here, if at all: the folder may have been moved.
        temporary.keep();
        written.map_err(|error| {
            // A partial file is useless.
            let _ = remove();
            Fault::io(&path, &error)
        })
    }

    pub(super) fn replace_text(&self, name: &Path, text: &str) -> Result<()> {
        self.replace(name, |file| file.write_all(text.as_bytes()))
    }

    /// Replaces a file by `value` as indented JSON, with secrets hidden.
    pub(super) fn replace_json(&self, name: &Path, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Fault::internal(format!("`{}` cannot be written: {error}", name.display())))?;
        let mut text = secrets::hide_json(text);
        text.push('\n');
        self.replace_text(name, &text)
    }

    /// Creates a subfolder and those above it, unless they exist.
    ///
    /// # Errors
    ///
    /// `io` for a link, and if it cannot be created.
    pub(super) fn make_folder(&self, name: &Path) -> Result<()> {
        let made = self.folder(&parts(name)?, true)?;
        made.map(drop).ok_or_else(|| not_found(&self.path.join(name)))
    }

    /// The first of `name.ext`, `name-2.ext`, `name-3.ext` … that does not exist.
    pub(super) fn free_name(&self, name: &Path) -> Result<PathBuf> {
        for number in 1.. {
            let free = numbered(name, number);
            if self.kind(&free)?.is_none() {
                return Ok(free);
            }
        }
        Err(Fault::internal("there is no free name"))
    }

    /// The file type behind a name, without following a link.
    fn kind(&self, name: &Path) -> Result<Option<SFlag>> {
        let Some((dir, last)) = self.parent(name, false)? else {
            return Ok(None);
        };
        match kind(&dir, last) {
            Ok(kind) => Ok(Some(kind)),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(Fault::io(&self.path.join(name), &error.into())),
        }
    }

    /// Opens a regular file; `None` if it does not exist and `flags` do not create it.
    fn open_file(&self, name: &Path, flags: OFlag) -> Result<Option<File>> {
        let Some((dir, last)) = self.parent(name, flags.contains(OFlag::O_CREAT))? else {
            return Ok(None);
        };
        let path = self.path.join(name);
        let file = match openat(&dir, last, FILE | flags, mode(name)) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(open_error(&dir, last, &path, error)),
        };
        match file.metadata() {
            Ok(data) if data.is_file() => Ok(Some(file)),
            Ok(_) => Err(not_regular(&path)),
            Err(error) => Err(Fault::io(&path, &error)),
        }
    }

    /// The open folder of a file, and the file's name in it; `None` if the folder does not exist and `make` is false.
    fn parent<'name>(&self, name: &'name Path, make: bool) -> Result<Option<(Arc<OwnedFd>, &'name OsStr)>> {
        let mut folders = parts(name)?;
        let last = folders.pop().ok_or_else(|| outside_folder(name))?;
        Ok(self.folder(&folders, make)?.map(|dir| (dir, last)))
    }

    /// Opens a subfolder; `None` if it does not exist and `make` is false.
    fn folder(&self, names: &[&OsStr], make: bool) -> Result<Option<Arc<OwnedFd>>> {
        let (mut dir, mut path) = (Arc::clone(&self.dir), self.path.clone());
        for name in names {
            path.push(name);
            if make {
                change(Change::MakeFolder(&path)).map_err(|error| Fault::io(&path, &error))?;
                match mkdirat(&dir, *name, NEW_FOLDER) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(Fault::io(&path, &error.into())),
                }
            }
            dir = match openat(&dir, *name, FOLDER, Mode::empty()) {
                Ok(inner) => Arc::new(inner),
                Err(Errno::ENOENT) => return Ok(None),
                Err(error) => return Err(open_error(&dir, name, &path, error)),
            };
        }
        Ok(Some(dir))
    }
}

/// Reads the next line including its end, like [`BufRead::read_until`], but fails at 512 MiB.
pub(super) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    outside::line(reader, line, MAX_READ).map_err(|error| match outside::is_too_large(&error) {
        true => too_large("a line"),
        false => error,
    })
}

fn too_large(what: &str) -> io::Error {
    io::Error::other(format!("{what} has more than {} MiB", MAX_READ >> 20))
}

fn not_regular(path: &Path) -> Fault {
    Fault::new(Kind::Io, format!("`{}` is not a regular file", path.display()))
}

/// The components of a relative path, which must stay within the folder.
fn parts(name: &Path) -> Result<Vec<&OsStr>> {
    let mut parts = Vec::new();
    for part in name.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            _ => return Err(outside_folder(name)),
        }
    }
    Ok(parts)
}

/// The permissions of a new file, before the user's umask. The journal, engine output and script files may contain secrets that were
/// not recognised, and the user's permissions are private, so only the owner may read these files.
fn mode(name: &Path) -> Mode {
    let private = ["logs", "files", "journal.jsonl", "remembered"];
    if private.iter().any(|private| name.starts_with(private)) {
        Mode::from_bits_truncate(0o600)
    } else {
        Mode::from_bits_truncate(0o666)
    }
}

fn kind(dir: &OwnedFd, name: &OsStr) -> nix::Result<SFlag> {
    let found = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok(SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT)
}

/// The error of a failed open. For a link, the system only says "Not a directory" or "Too many levels of symbolic
/// links".
fn open_error(dir: &OwnedFd, name: &OsStr, path: &Path, error: Errno) -> Fault {
    match kind(dir, name) {
        Ok(SFlag::S_IFLNK) => {
            let path = path.display();
            let message = format!("`{path}` is a symbolic link; links in a run folder are not followed");
            Fault::new(Kind::Io, message)
                .hint("if the folder is yours, replace the link by its target; `profiler` creates no links")
        }
        Ok(kind) if kind != SFlag::S_IFREG && kind != SFlag::S_IFDIR => not_regular(path),
        _ => Fault::io(path, &error.into()),
    }
}

/// The error for a folder without a manifest. Names a run inside of it, if there is one.
pub(super) fn not_a_run(folder: &Path) -> Fault {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let last = entries
        .map(|entry| entry.path())
        .filter(|path| path.join("manifest.json").is_file())
        .max();
    Fault::usage(format!("`{}` is not the folder of a run", folder.display())).hint(match last {
        Some(run) => format!("give a run in it, such as {}", run.display()),
        None => "give a folder that `profiler run` made; it has a manifest.json".to_owned(),
    })
}

/// The error if the file does not exist, or if the run's folder was removed.
pub(super) fn not_found(path: &Path) -> Fault {
    Fault::io(path, &Errno::ENOENT.into())
}

fn outside_folder(name: &Path) -> Fault {
    Fault::usage(format!("`{}` is not a path within a run folder", name.display()))
}

/// `name.ext`, then `name-2.ext`.
pub(super) fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    // The dot of a folder such as `--out run.d` is treated as an extension too.
    match path.extension() {
        Some(extension) => path.with_file_name(format!("{stem}-{number}.{}", extension.to_string_lossy())),
        None => path.with_file_name(format!("{stem}-{number}")),
    }
}

/// Syncs a folder, if its file system and permissions allow it.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    change(Change::SyncFolder(folder))?;
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::PermissionDenied) => Ok(()),
        synced => synced,
    }
}

/// Now, UTC, to the millisecond: `2026-11-21T03:30:00.123Z`.
pub(super) fn now() -> String {
    format!("{:.3}", world::now())
}

/// Now, UTC, as a part of a file name: `2026-11-21T033000Z`.
pub(super) fn stamp() -> String {
    world::now().strftime("%Y-%m-%dT%H%M%SZ").to_string()
}

/// Now, UTC, as tgi-profiler names its files: `20261121_033000`.
pub(super) fn compact() -> String {
    world::now().strftime("%Y%m%d_%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::unistd::mkfifo;
    use tempfile::{TempDir, tempdir};

    use super::*;

    fn folder() -> (TempDir, Folder) {
        let temp = tempdir().unwrap();
        fs::create_dir(temp.path().join("run")).unwrap();
        let folder = Folder::open(&temp.path().join("run")).unwrap();
        (temp, folder)
    }

    /// Every operation on a file with that name. Each must fail, or leave everything outside untouched.
    fn try_all(folder: &Folder, name: &str) -> Vec<Result<()>> {
        let name = Path::new(name);
        vec![
            folder.read(name).map(drop),
            folder.append(name).map(drop),
            folder.make_folder(name),
            folder.names(name.to_str().unwrap()).map(drop),
            folder.replace_text(name, "stranger"),
        ]
    }

    #[test]
    fn no_component_of_a_path_may_be_a_link() {
        let (temp, folder) = folder();
        let (home, run) = (temp.path().join("home"), temp.path().join("run"));
        fs::create_dir_all(home.join("inner")).unwrap();
        fs::create_dir_all(run.join("logs/inner")).unwrap();
        symlink(&home, run.join("files")).unwrap();
        symlink("../../home", run.join("logs/up")).unwrap();
        // A dangling link: opening it for writing would create its target.
        symlink(home.join("made"), run.join("dangling")).unwrap();
        for name in ["files/key", "files/inner/key", "logs/up/key", "logs/up/inner/key"] {
            for result in try_all(&folder, name) {
                let fault = result.unwrap_err();
                assert!(fault.message.contains("is a symbolic link"), "{name}: {fault}");
                assert!(!folder.has_file(name));
            }
        }
        for name in ["files", "logs/up", "dangling"] {
            let results = try_all(&folder, name);
            assert!(results[..4].iter().all(Result::is_err), "{name}: {results:?}");
            // Replacing a link replaces the link itself.
            assert!(results[4].is_ok() && fs::symlink_metadata(run.join(name)).unwrap().is_file());
        }
        let left: Vec<_> = fs::read_dir(&home)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["inner"]);
        assert_eq!(fs::read_dir(home.join("inner")).unwrap().count(), 0);
    }

    #[test]
    fn a_link_named_like_the_temporary_file_is_not_followed() {
        let (temp, folder) = folder();
        let victim = temp.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, temp.path().join("run/report.html.new")).unwrap();
        folder.replace_text(Path::new("report.html"), "page").unwrap();
        assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
        assert_eq!(folder.read("report.html").unwrap().unwrap(), b"page");
        assert_eq!(folder.names("").unwrap(), ["report.html"]);
    }

    #[test]
    fn pipes_and_hard_links_are_refused_without_blocking() {
        let (temp, folder) = folder();
        let run = temp.path().join("run");
        mkfifo(&run.join("pipe"), Mode::S_IRWXU).unwrap();
        for fault in [
            folder.read("pipe").unwrap_err(),
            folder.append(Path::new("pipe")).unwrap_err(),
        ] {
            assert!(fault.message.contains("not a regular file"), "{fault}");
        }
        fs::write(temp.path().join("mine"), "").unwrap();
        fs::hard_link(temp.path().join("mine"), run.join("journal.jsonl")).unwrap();
        assert!(folder.append(Path::new("journal.jsonl")).is_err());
    }

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        let (_temp, folder) = folder();
        for name in ["", "..", "../x", "a/../../x", "/etc/passwd", "a/./../../x"] {
            assert!(
                folder.read(name).is_err() && folder.append(Path::new(name)).is_err(),
                "{name}"
            );
        }
    }

    #[test]
    fn what_may_contain_secrets_is_for_its_owner_only() {
        let (temp, folder) = folder();
        for (name, private) in [
            ("logs/engine-1.log", true),
            ("journal.jsonl", true),
            ("memory/engine-1.csv", false),
        ] {
            folder.append(Path::new(name)).unwrap();
            let mode = fs::metadata(temp.path().join("run").join(name)).unwrap().mode();
            assert_eq!(mode & 0o077 == 0, private, "{name}: {mode:o}");
        }
    }

    #[test]
    fn a_removed_folder_is_not_recreated() {
        let (temp, folder) = folder();
        fs::remove_dir(temp.path().join("run")).unwrap();
        assert!(folder.append(Path::new("logs/a.log")).is_err());
        assert!(folder.replace_text(Path::new("result.json"), "").is_err());
        assert!(!temp.path().join("run").exists());
    }
}
