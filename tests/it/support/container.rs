//! Containers that a test makes itself.

use std::process::Command;

/// A container, by its name or id. Removed when dropped.
pub struct Container(pub String);

impl Drop for Container {
    fn drop(&mut self) {
        let words = ["rm", "--force", "--volumes", &self.0];
        // Fails only if the test has failed already.
        let _ignored = Command::new("docker").args(words).output();
    }
}

/// The output of a Docker command that has to succeed.
#[track_caller]
pub fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "docker {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
