//! A folder that is gone after the test.

/// A fresh folder below the system's temporary one.
#[track_caller]
pub fn temp() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("profiler-test-").tempdir().unwrap()
}
