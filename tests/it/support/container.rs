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
    said(Command::new("docker").args(args))
}

/// All containers of the daemon at this address.
#[track_caller]
pub fn containers_at(host: &str) -> String {
    said(
        Command::new("docker")
            .args(["ps", "--all", "--quiet"])
            .env("DOCKER_HOST", host),
    )
}

/// The output of a command that must succeed.
#[track_caller]
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
