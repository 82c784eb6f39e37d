//! Mounts that are never allowed: container daemon sockets and kernel folders.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Result};

/// Sockets that give full control of the machine.
const SOCKETS: [&str; 8] = [
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/docker/containerd/containerd.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/run/snap.docker/docker.sock",
    "/var/snap/docker/common/run/docker.sock",
];

/// Kernel folders that give control of the machine.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Refuses a mount of the canonical path `real` that would give control of the machine.
pub(super) fn check_mount(real: &Path) -> Result<()> {
    if let Some(socket) = sockets().into_iter().find(|socket| reaches(real, socket)) {
        return Err(forbidden(
            real,
            &format!("it holds the Docker socket `{}`", socket.display()),
        ));
    }
    if fs::metadata(real).is_ok_and(|data| data.file_type().is_socket()) {
        return Err(forbidden(real, "it is a socket"));
    }
    if let Some(folder) = KERNEL.iter().find(|folder| real.starts_with(folder)) {
        return Err(forbidden(real, &format!("it is below `{folder}`")));
    }
    Ok(())
}

fn forbidden(real: &Path, why: &str) -> Fault {
    Fault::not_allowed(
        format!("mounting `{}` is never allowed: {why}", real.display()),
        "mount a folder that holds only what the engine needs",
    )
}

/// All candidate sockets, including those of `DOCKER_HOST` and the user's own folders.
fn sockets() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = SOCKETS.iter().map(PathBuf::from).collect();
    if let Some(host) = std::env::var("DOCKER_HOST")
        .ok()
        .as_deref()
        .and_then(|host| host.strip_prefix("unix://"))
    {
        all.push(host.into());
    }
    if let Some(folder) = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        all.extend([folder.join("docker.sock"), folder.join("podman/podman.sock")]);
    }
    if let Some(home) = dirs::home_dir() {
        all.extend([
            home.join(".docker/run/docker.sock"),
            home.join(".docker/desktop/docker.sock"),
        ]);
    }
    // Resolved as well: `/var/run` may be a link to `/run`.
    let real: Vec<_> = all.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    all.extend(real);
    all
}

/// Whether `folder` is the socket or contains it, also through another name of the same folder (bind mount).
fn reaches(folder: &Path, socket: &Path) -> bool {
    let same = |other: &Path| match (fs::metadata(folder), fs::metadata(other)) {
        (Ok(one), Ok(two)) => one.dev() == two.dev() && one.ino() == two.ino(),
        _ => false,
    };
    socket.starts_with(folder) || (socket.exists() && socket.ancestors().any(same))
}
