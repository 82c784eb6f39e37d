//! Folders that are removed after the test, and copies of real runs.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// A fresh folder below the system's temporary one.
#[track_caller]
pub fn temp() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("profiler-test-").tempdir().unwrap()
}

/// Copies a real run of `tests/data/runs` to `to`, replacing what is there.
#[track_caller]
pub fn copy_run(run: &str, to: &Path) -> PathBuf {
    let _nothing_there = fs::remove_dir_all(to);
    let from: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data/runs", run].iter().collect();
    copy_all(&from, to);
    to.to_owned()
}

/// A journal with valid checksums on its lines. Lines that are not objects get none.
pub fn sealed(journal: &str) -> String {
    let (mut chain, mut sealed) = (Vec::new(), String::new());
    for line in journal.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let line = line
            .rfind(r#","sum":"#)
            .map_or(line.to_owned(), |at| format!("{}}}", &line[..at]));
        chain = Sha256::new()
            .chain_update(&chain)
            .chain_update(&line)
            .finalize()
            .to_vec();
        match line.strip_suffix('}') {
            Some(line) => {
                let sum: String = chain[..8].iter().map(|byte| format!("{byte:02x}")).collect();
                sealed += &format!(r#"{line},"sum":"{sum}"}}"#);
            }
            None => sealed += &line,
        }
        sealed += end;
    }
    sealed
}

/// Copies a folder to `to`.
#[track_caller]
pub fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_all(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}
