//! Small text files of a launch, for engines that read options from a file. They go into a fixed folder in the
//! container's file system before it starts, or into a temporary folder for a native process; the launch cannot
//! choose the path.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use tempfile::TempDir;

use super::Launch;
use crate::fault::{Fault, Kind, Result};

/// Replaced by the folder's path in arguments and environment.
const PLACEHOLDER: &str = "{files}";
/// Folder inside a container, relative to `/` as in a tar archive.
pub(super) const CONTAINER_FOLDER: &str = "profiler-files";
/// Limit for all texts together: these are options, not data.
const MAX_TOTAL_BYTES: usize = 1 << 20;

pub(super) fn container_path() -> String {
    format!("/{CONTAINER_FOLDER}")
}

/// Replaces `{files}` by `folder`. Without files nothing is replaced, because the braces may be meant for the engine.
pub(super) fn with_folder(launch: &Launch, folder: &str) -> Launch {
    let mut launch = launch.clone();
    if launch.files.is_empty() {
        return launch;
    }
    let words = launch.entrypoint.iter_mut().chain(&mut launch.args);
    for text in words.chain(&mut launch.command).chain(launch.env.values_mut()) {
        *text = text.replace(PLACEHOLDER, folder);
    }
    launch
}

/// Refuses names that could leave the folder, and too much text.
pub(super) fn check(files: &BTreeMap<String, String>) -> Result<()> {
    let is_plain = |name: &str| {
        !name.starts_with('.')
            && (1..=100).contains(&name.len())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    if let Some(name) = files.keys().find(|name| !is_plain(name)) {
        return Err(Fault::usage(format!("`files` names `{name}`, which is not a plain file name"))
            .hint("use letters, digits, `.`, `-` and `_`, such as `options.yaml`, and refer to it as `{files}/options.yaml`"));
    }
    if files.values().map(String::len).sum::<usize>() > MAX_TOTAL_BYTES {
        return Err(Fault::usage("`files` have more than 1 MiB of text").hint("mount a folder instead"));
    }
    Ok(())
}

/// Temporary folder with the files, removed when dropped. None if there are no files.
pub(super) fn temp_folder(files: &BTreeMap<String, String>) -> Result<Option<TempDir>> {
    if files.is_empty() {
        return Ok(None);
    }
    let folder = tempfile::Builder::new()
        .prefix("profiler-files-")
        .tempdir()
        .map_err(|error| {
            Fault::new(
                Kind::Io,
                format!("cannot create a temporary folder for the engine's files: {error}"),
            )
        })?;
    for (name, text) in files {
        write(&folder.path().join(name), text)?;
    }
    Ok(Some(folder))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Fault::io(path, &error))
}

/// Tar archive of the folder `name` with the files, to be unpacked in `/` of a container. Readable by any user.
pub(super) fn archive(name: &str, files: &BTreeMap<String, String>) -> Result<Bytes> {
    let packed = || {
        let mut archive = tar::Builder::new(Vec::new());
        let mut folder = tar::Header::new_gnu();
        folder.set_entry_type(tar::EntryType::Directory);
        folder.set_mode(0o755);
        folder.set_size(0);
        archive.append_data(&mut folder, format!("{name}/"), std::io::empty())?;
        for (file, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, format!("{name}/{file}"), text.as_bytes())?;
        }
        archive.into_inner()
    };
    let packed: std::io::Result<Vec<u8>> = packed();
    packed
        .map(Bytes::from)
        .map_err(|error| Fault::internal(format!("cannot pack the engine's files: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(name: &str) -> BTreeMap<String, String> {
        [(name.to_owned(), "dtype: auto\n".to_owned())].into()
    }

    #[test]
    fn only_plain_names_are_files() {
        assert!(check(&files("options.yaml")).is_ok());
        for name in [
            "../x",
            "/etc/passwd",
            "a/b",
            "",
            ".",
            "..",
            ".hidden",
            "a\\b",
            "a b",
            "ü",
        ] {
            assert!(
                check(&files(name)).unwrap_err().message.contains("plain file name"),
                "{name}"
            );
        }
        let large = [("a".to_owned(), "x".repeat(MAX_TOTAL_BYTES + 1))].into();
        assert!(check(&large).is_err());
    }

    #[test]
    fn the_placeholder_is_replaced() {
        let launch = Launch {
            args: vec!["--config={files}/a".into()],
            command: vec!["x".into(), "{files}".into()],
            env: [("CONFIG".to_owned(), "{files}/a".to_owned())].into(),
            ..Launch::default()
        };
        assert_eq!(with_folder(&launch, "/f"), launch, "there are no files");
        let launch = Launch {
            files: files("a"),
            ..launch
        };
        let launch = with_folder(&launch, "/f");
        assert_eq!(
            (&launch.args[0], &launch.command[1], &launch.env["CONFIG"]),
            (&"--config=/f/a".to_owned(), &"/f".to_owned(), &"/f/a".to_owned())
        );
    }

    #[test]
    fn a_temporary_folder_is_removed_on_drop() {
        let folder = temp_folder(&files("a.yaml")).unwrap().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(fs::read_to_string(path.join("a.yaml")).unwrap(), "dtype: auto\n");
        drop(folder);
        assert!(!path.exists());
    }
}
