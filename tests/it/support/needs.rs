//! Requirements of some tests that a machine may lack. Such a test is listed as not run; with `CI=true`, it fails.
//!
//! ```ignore
//! if !needs_docker() {
//!     return;
//! }
//! ```

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// True if the Docker daemon at `DOCKER_HOST` (or at the usual socket) answers a ping.
#[track_caller]
pub fn needs_docker() -> bool {
    static ANSWERS: OnceLock<bool> = OnceLock::new();
    available("Docker", *ANSWERS.get_or_init(docker_answers))
}

/// Docker's daemon, to start another one; needs root.
#[track_caller]
pub fn needs_dockerd() -> bool {
    available("dockerd, as root", super::dockerd::installed())
}

/// Docker for users without root's rights, with rootlesskit, slirp4netns and uidmap.
#[track_caller]
pub fn needs_rootless_docker() -> bool {
    available("Docker without root's rights", super::dockerd::rootless_installed())
}

/// Podman, from Debian's package, with catatonit; needs root.
#[track_caller]
pub fn needs_podman() -> bool {
    available("podman and catatonit, as root", super::podman::installed())
}

/// Podman for users without root's rights, with fuse-overlayfs, slirp4netns and uidmap.
#[track_caller]
pub fn needs_rootless_podman() -> bool {
    available("podman without root's rights", super::podman::rootless_installed())
}

/// A registry of images, from Debian's `docker-registry`.
#[track_caller]
pub fn needs_registry() -> bool {
    let version = Command::new("docker-registry").arg("--version").output();
    available("docker-registry", version.is_ok_and(|output| output.status.success()))
}

/// The llama-server built by `.ci/llama-server`, from `PROFILER_TEST_LLAMA_SERVER`.
#[track_caller]
pub fn needs_llama_server() -> Option<PathBuf> {
    let path = std::env::var_os("PROFILER_TEST_LLAMA_SERVER")
        .map(PathBuf::from)
        .filter(|path| path.is_file());
    available("llama-server (PROFILER_TEST_LLAMA_SERVER)", path.is_some())
        .then_some(path)
        .flatten()
}

/// The Python with torch and transformers built by `.ci/probe-python`, from `PROFILER_TEST_PYTHON`.
#[track_caller]
pub fn needs_torch() -> Option<String> {
    let path = std::env::var("PROFILER_TEST_PYTHON")
        .ok()
        .filter(|path| PathBuf::from(path).is_file());
    available("torch (PROFILER_TEST_PYTHON)", path.is_some())
        .then_some(path)
        .flatten()
}

/// Chromium and chromedriver, from Debian's packages.
#[track_caller]
pub fn needs_browser() -> bool {
    available("chromium and chromium-driver", super::browser::installed())
}

/// Slurm's daemons and munge, from Debian's `slurm-wlm` and `munge`; needs root.
#[track_caller]
pub fn needs_slurm() -> bool {
    available("slurm-wlm and munge, as root", super::slurm::installed())
}

/// A program on the PATH, such as jq or python3.
#[track_caller]
pub fn needs_program(name: &str) -> bool {
    let version = Command::new(name).arg("--version").output();
    available(name, version.is_ok_and(|output| output.status.success()))
}

/// OpenSSH's server and client; needs root.
#[track_caller]
pub fn needs_ssh() -> bool {
    available("openssh-server and openssh-client, as root", super::ssh::installed())
}

/// Git with its HTTP backend, from Debian's package.
#[track_caller]
pub fn needs_git() -> bool {
    let path = Command::new("git").arg("--exec-path").output();
    let server = path.map(|path| PathBuf::from(String::from_utf8_lossy(&path.stdout).trim()).join("git-http-backend"));
    available("git", server.is_ok_and(|server| server.is_file()))
}

/// strace, from Debian's package, and the permission to trace.
#[track_caller]
pub fn needs_strace() -> bool {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    available("strace", traced.is_ok_and(|status| status.success()))
}

/// A file system of 8 MB, which is unmounted when it is dropped.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

/// A file system that is soon full; needs root.
#[track_caller]
pub fn needs_small_disk() -> Option<SmallDisk> {
    let folder = super::temp();
    let mount = ["-t", "tmpfs", "-o", "size=8m", "tmpfs"];
    let mounted = Command::new("mount").args(mount).arg(folder.path()).output();
    let mounted = mounted.is_ok_and(|output| output.status.success());
    available("root, who may mount a file system", mounted).then(|| SmallDisk(folder))
}

/// Whether the program could be run by another user, as it was tried.
#[track_caller]
pub fn needs_other_user(ran: bool) -> bool {
    available("setpriv, and a program and a folder that others may read", ran)
}

/// The name of this machine, if it resolves.
#[track_caller]
pub fn needs_host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .unwrap()
        .trim()
        .to_owned();
    let found = (name.as_str(), 1).to_socket_addrs().is_ok();
    available("a host name that can be looked up", found).then_some(name)
}

#[track_caller]
fn available(what: &str, there: bool) -> bool {
    if !there {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI must have {what}");
        // Not `eprintln!`: the test harness hides its output for passing tests, and skipped tests must be visible.
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let _ = writeln!(std::io::stderr(), "not run: {test} needs {what}");
    }
    there
}

fn docker_answers() -> bool {
    let host = std::env::var("DOCKER_HOST")
        .ok()
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
    if let Some(path) = host.strip_prefix("unix://") {
        return UnixStream::connect(path).is_ok_and(|stream| {
            let limited = stream.set_read_timeout(Some(PATIENCE)).is_ok();
            limited && ping(stream)
        });
    }
    let Some(mut addresses) = host
        .strip_prefix("tcp://")
        .and_then(|address| address.to_socket_addrs().ok())
    else {
        return false;
    };
    addresses.any(|address| {
        TcpStream::connect_timeout(&address, PATIENCE).is_ok_and(|stream| {
            let limited = stream.set_read_timeout(Some(PATIENCE)).is_ok();
            limited && ping(stream)
        })
    })
}

/// The daemon's ping request. Any status but 200 means that it cannot be used.
fn ping(mut stream: impl Read + Write) -> bool {
    let asked = stream.write_all(b"GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n");
    let mut status = [0; 12];
    asked.is_ok() && stream.read_exact(&mut status).is_ok() && status.ends_with(b" 200")
}
