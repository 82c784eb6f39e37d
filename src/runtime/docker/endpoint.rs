//! Where the daemon listens: the address that the user names, or the first of the usual sockets that answers.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::fault::{Fault, Result};
use crate::{file, home, outside};

const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";

/// The address of the daemon: the one that the user names (`DOCKER_HOST`, `CONTAINER_HOST`, the Docker context), else
/// the first of the usual sockets that answers. `CONTAINER_HOST` often names podman's machine elsewhere, whose
/// containers are of no use here: it then comes last. The choice is kept, so that a restart of the daemon or another
/// context in the middle of a run does not lead to another one.
pub(in crate::runtime) fn address() -> Result<String> {
    static FOUND: OnceLock<String> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let found = named_address()?
        .or_else(answering_socket)
        .or_else(|| variable("CONTAINER_HOST"));
    match found {
        Some(found) => Ok(FOUND.get_or_init(|| found).clone()),
        None => Ok(DEFAULT_HOST.to_owned()),
    }
}

/// The address of the first of the usual sockets that answers.
fn answering_socket() -> Option<String> {
    let answers = |socket: &PathBuf| UnixStream::connect(socket).is_ok();
    let socket = usual_sockets().into_iter().find(answers)?;
    Some(format!("unix://{}", socket.display()))
}

/// Where daemons listen if nobody says otherwise, in the order of preference: Docker, rootless Docker, rootless podman,
/// podman.
pub(in crate::runtime) fn usual_sockets() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.unwrap_or_else(|| PathBuf::from(format!("/run/user/{}", nix::unistd::getuid())));
    let mut sockets = vec![
        PathBuf::from("/var/run/docker.sock"),
        own.join("docker.sock"),
        own.join("podman/podman.sock"),
        PathBuf::from("/run/podman/podman.sock"),
    ];
    if let Some(home) = home::home() {
        sockets.push(home.join(".docker/run/docker.sock"));
        sockets.push(home.join(".docker/desktop/docker.sock"));
    }
    sockets
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The address that the user names: `DOCKER_HOST`, podman's `CONTAINER_HOST` if it is on this machine, else the context
/// chosen by `DOCKER_CONTEXT` or `docker context use`.
fn named_address() -> Result<Option<String>> {
    let of_podman = || variable("CONTAINER_HOST").filter(|host| is_local(host));
    if let Some(host) = variable("DOCKER_HOST").or_else(of_podman) {
        return Ok(Some(host));
    }
    let home = || home::home().map(|home| home.join(".docker"));
    let folder = variable("DOCKER_CONFIG").map(PathBuf::from).or_else(home);
    let context = variable("DOCKER_CONTEXT").or_else(|| {
        let config = read(&folder.as_ref()?.join("config.json"))?;
        Some(config["currentContext"].as_str()?.to_owned())
    });
    match context.filter(|name| !name.is_empty() && name != "default") {
        None => Ok(None),
        Some(name) => context_host(folder.as_deref(), &name).map(Some).ok_or_else(|| {
            Fault::missing(
                format!("the Docker context `{name}` does not exist, or names no daemon"),
                "see `docker context ls`; `docker context use default` takes the daemon of this machine",
            )
        }),
    }
}

/// The daemon's address in a context. The folder of a context is named by the hash of the context's name.
fn context_host(folder: Option<&Path>, name: &str) -> Option<String> {
    let meta = read(&folder?.join("contexts/meta").join(file::sha256(name)).join("meta.json"))?;
    Some(meta.pointer("/Endpoints/docker/Host")?.as_str()?.to_owned())
}

fn read(path: &Path) -> Option<serde_json::Value> {
    const LONGEST: u64 = 1 << 20;
    outside::page(&file::read(path, LONGEST).ok()?).ok()
}

/// Whether it is a socket or a port of this machine.
fn is_local(host: &str) -> bool {
    match host.split_once("://") {
        Some(("unix", _)) => true,
        Some(("tcp" | "http", _)) => is_loopback(host),
        _ => false,
    }
}

pub(super) fn is_loopback(host: &str) -> bool {
    url::Url::parse(host).is_ok_and(|url| crate::http::is_loopback(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_and_ports_of_this_machine_are_local() {
        for host in [
            "unix:///run/podman/podman.sock",
            "tcp://127.0.0.1:8080",
            "http://localhost:1",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "ssh://me@host/run/podman/podman.sock",
            "ssh://localhost/x",
            "tcp://10.0.0.1:2375",
            "podman",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
