//! Small text files that a launch brings along, for engines that take options from a file only: into a folder of a container's own
//! file system before it starts, or into a temporary folder for a native process. Never a path that the launch chooses.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use tempfile::TempDir;

use super::Launch;
use crate::fault::{Fault, Kind, Result};

/// What stands for the folder in arguments and environment.
const PLACE: &str = "{files}";
/// The folder inside a container, as an archive names it.
pub(super) const INSIDE: &str = "profiler-files";
/// All texts together: options, not data.
const MOST_BYTES: usize = 1 << 20;

/// The folder inside a container.
pub(super) fn inside() -> String {
    format!("/{INSIDE}")
}

/// The launch with `{files}` replaced by `folder`. Without files nothing is replaced: the braces may mean something to the engine.
pub(super) fn placed(launch: &Launch, folder: &str) -> Launch {
    let mut placed = launch.clone();
    if launch.files.is_empty() {
        return placed;
    }
    let words = placed.entrypoint.iter_mut().chain(&mut placed.args);
    for text in words.chain(&mut placed.command).chain(placed.env.values_mut()) {
        *text = text.replace(PLACE, folder);
    }
    placed
}

/// Refuses names that could lead out of the folder, and more text than options have.
pub(super) fn check(files: &BTreeMap<String, String>) -> Result<()> {
    let plain = |name: &str| {
        !name.starts_with('.')
            && (1..=100).contains(&name.len())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    if let Some(name) = files.keys().find(|name| !plain(name)) {
        return Err(Fault::usage(format!("`files` names `{name}`, which is no plain file name"))
            .hint("letters, digits, `.`, `-` and `_`, such as `options.yaml`; arguments find it as `{files}/options.yaml`"));
    }
    if files.values().map(String::len).sum::<usize>() > MOST_BYTES {
        return Err(Fault::usage("`files` hold more than 1 MiB of text").hint("mount a folder instead"));
    }
    Ok(())
}

/// A folder of this machine with the files, removed when it is dropped; none where there are none.
pub(super) fn folder(files: &BTreeMap<String, String>) -> Result<Option<TempDir>> {
    if files.is_empty() {
        return Ok(None);
    }
    let folder = tempfile::Builder::new()
        .prefix("profiler-files-")
        .tempdir()
        .map_err(|error| {
            Fault::new(
                Kind::Io,
                format!("no temporary folder for the engine's options: {error}"),
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

/// The folder `name` with the files as a tar archive that belongs into `/` of a container, readable by whoever the engine runs as.
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
        .map_err(|error| Fault::internal(format!("the engine's options cannot be packed: {error}")))
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
        let large = [("a".to_owned(), "x".repeat(MOST_BYTES + 1))].into();
        assert!(check(&large).is_err());
    }

    #[test]
    fn the_folder_stands_where_it_is_named() {
        let launch = Launch {
            args: vec!["--config={files}/a".into()],
            command: vec!["x".into(), "{files}".into()],
            env: [("CONFIG".to_owned(), "{files}/a".to_owned())].into(),
            ..Launch::default()
        };
        assert_eq!(placed(&launch, "/f"), launch, "there are no files");
        let launch = Launch {
            files: files("a"),
            ..launch
        };
        let placed = placed(&launch, "/f");
        assert_eq!(
            (&placed.args[0], &placed.command[1], &placed.env["CONFIG"]),
            (&"--config=/f/a".to_owned(), &"/f".to_owned(), &"/f/a".to_owned())
        );
    }

    #[test]
    fn a_temporary_folder_goes_with_its_owner() {
        let folder = folder(&files("a.yaml")).unwrap().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(fs::read_to_string(path.join("a.yaml")).unwrap(), "dtype: auto\n");
        drop(folder);
        assert!(!path.exists());
    }
}
