//! Podman's Docker-compatible service on a socket of the test, with storage and networks of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{eventually, temp};

/// Whether podman and what its containers need are installed.
pub fn installed() -> bool {
    let found = |program: &str| {
        let status = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    found("podman") && found("catatonit") && nix::unistd::getuid().is_root()
}

/// Runs until dropped, with all of its containers.
pub struct Podman {
    folder: TempDir,
    service: Child,
}

impl Podman {
    /// Starts the service.
    pub fn start() -> Self {
        let folder = temp();
        // Podman raises the limits of open files and processes to numbers that a machine may not allow.
        let limit = |resource| nix::sys::resource::getrlimit(resource).unwrap().1.min(1 << 14);
        let files = limit(nix::sys::resource::Resource::RLIMIT_NOFILE);
        let processes = limit(nix::sys::resource::Resource::RLIMIT_NPROC);
        let text = format!(
            "[containers]\ndefault_ulimits = [\"nofile={files}:{files}\", \"nproc={processes}:{processes}\"]\n\
             [network]\nnetwork_config_dir = \"{0}/networks\"\n",
            folder.path().display()
        );
        std::fs::write(folder.path().join("containers.conf"), text).unwrap();
        let socket = folder.path().join("podman.sock");
        let service = command(&folder)
            .args(["system", "service", "--time=0"])
            .arg(format!("unix://{}", socket.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("service.log")).unwrap())
            .spawn()
            .unwrap();
        let podman = Self { folder, service };
        eventually("podman listens", || {
            std::os::unix::net::UnixStream::connect(podman.socket()).is_ok()
        });
        podman
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("podman.sock")
    }

    /// The value of `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }
}

fn command(folder: &TempDir) -> Command {
    let mut command = Command::new("podman");
    command
        .env("CONTAINERS_CONF", folder.path().join("containers.conf"))
        .env_remove("CONTAINER_HOST")
        .arg("--root")
        .arg(folder.path().join("root"))
        .arg("--runroot")
        .arg(folder.path().join("run"));
    command
}

impl Drop for Podman {
    fn drop(&mut self) {
        let quiet = |args: &[&str]| {
            let _ = command(&self.folder)
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        };
        quiet(&["rm", "--all", "--force", "--volumes", "--time=0"]);
        quiet(&["network", "prune", "--force"]);
        let _ = self.service.kill();
        let _ = self.service.wait();
        // The storage stays mounted on itself.
        let _ = Command::new("umount")
            .arg("--quiet")
            .arg(self.folder.path().join("root/overlay"))
            .stderr(Stdio::null())
            .status();
    }
}
