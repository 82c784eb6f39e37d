//! Folders that are gone after the test, and copies of real runs in them.

use std::fs;
use std::path::{Path, PathBuf};

/// A fresh folder below the system's temporary one.
#[track_caller]
pub fn temp() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("profiler-test-").tempdir().unwrap()
}

/// A copy of a real run of `tests/data/runs`, in the place of what is at `to`.
#[track_caller]
pub fn copy_run(run: &str, to: &Path) -> PathBuf {
    let _nothing_there = fs::remove_dir_all(to);
    let from: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data/runs", run].iter().collect();
    copy_all(&from, to);
    to.to_owned()
}

fn copy_all(from: &Path, to: &Path) {
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
