//! Connection to the Docker daemon of `DOCKER_HOST`, of the Docker context, or on the default socket; and explanations
//! of its errors.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::errors::Error;
use sha2::{Digest as _, Sha256};

use crate::fault::{Fault, Kind, Result};

/// Used until the version is negotiated.
const VERSION: &bollard::ClientVersion = bollard::API_DEFAULT_VERSION;
/// Timeout for an answer's headers; removing a large container is slow.
const TIMEOUT_SECONDS: u64 = 120;
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";

/// Connects and negotiates the API version.
///
/// # Errors
///
/// `missing`, with a remedy: no daemon, no permission for its socket, or a remote daemon.
pub(in crate::runtime) async fn connect() -> Result<Docker> {
    let host = address()?;
    let client = open(&host)?;
    client
        .negotiate_version()
        .await
        .map_err(|error| unreachable(&host, &error))
}

/// The address that `docker` would use: `DOCKER_HOST`, else the context chosen by `DOCKER_CONTEXT` or
/// `docker context use`.
fn address() -> Result<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(host) = set("DOCKER_HOST") {
        return Ok(host);
    }
    let home = || std::env::home_dir().map(|home| home.join(".docker"));
    let folder = set("DOCKER_CONFIG").map(PathBuf::from).or_else(home);
    let context = set("DOCKER_CONTEXT").or_else(|| {
        let config = read(&folder.as_ref()?.join("config.json"))?;
        Some(config["currentContext"].as_str()?.to_owned())
    });
    match context.filter(|name| !name.is_empty() && name != "default") {
        None => Ok(DEFAULT_HOST.to_owned()),
        Some(name) => context_host(folder.as_deref(), &name).ok_or_else(|| {
            Fault::missing(
                format!("the Docker context `{name}` does not exist, or names no daemon"),
                "see `docker context ls`; `docker context use default` takes the daemon of this machine",
            )
        }),
    }
}

/// The daemon's address in a context. The folder of a context is named by the hash of the context's name.
fn context_host(folder: Option<&Path>, name: &str) -> Option<String> {
    let hash: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    let meta = read(&folder?.join("contexts/meta").join(hash).join("meta.json"))?;
    Some(meta.pointer("/Endpoints/docker/Host")?.as_str()?.to_owned())
}

fn read(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

fn open(host: &str) -> Result<Docker> {
    let opened = match host.split_once("://") {
        Some(("unix" | "npipe", _)) => Docker::connect_with_local(host, TIMEOUT_SECONDS, VERSION),
        Some(("tcp" | "http", _)) if is_loopback(host) => Docker::connect_with_http(host, TIMEOUT_SECONDS, VERSION),
        _ => return Err(remote(host)),
    };
    opened.map_err(|error| unreachable(host, &error))
}

fn is_loopback(host: &str) -> bool {
    url::Url::parse(host).is_ok_and(|url| crate::http::is_loopback(&url))
}

fn remote(host: &str) -> Fault {
    let shown = url::Url::parse(host).map_or_else(|_| host.to_owned(), |url| crate::run::hide_url(&url));
    Fault::missing(
        format!("the Docker daemon `{shown}` is not on this machine: published ports and mounts would not be here"),
        "run profiler on that machine; to use the daemon of this one, unset DOCKER_HOST and DOCKER_CONTEXT, and `docker context use default`",
    )
}

/// Facts about the daemon, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DockerInfo {
    /// Address it listens on.
    pub address: String,
    /// Docker version.
    pub version: String,
    /// Negotiated API version.
    pub api: String,
    /// Names of its runtimes; includes `nvidia` if the NVIDIA container toolkit is set up.
    pub runtimes: Vec<String>,
    /// Whether memory limits are supported.
    pub memory_limit: bool,
    /// Whether swap limits are supported. Without them a container may swap beyond its memory limit.
    pub swap_limit: bool,
    /// Folder where images are stored.
    pub root: Option<String>,
}

/// Asks the daemon for its facts.
pub async fn info() -> Result<DockerInfo> {
    let docker = connect().await?;
    let version = docker.version().await.map_err(explain)?;
    let info = docker.info().await.map_err(explain)?;
    let mut runtimes: Vec<String> = info.runtimes.unwrap_or_default().into_keys().collect();
    runtimes.sort();
    Ok(DockerInfo {
        address: address()?,
        version: version.version.unwrap_or_default(),
        api: docker.client_version().to_string(),
        runtimes,
        memory_limit: info.memory_limit.unwrap_or(false),
        swap_limit: info.swap_limit.unwrap_or(false),
        root: info.docker_root_dir,
    })
}

/// The fault if the daemon cannot be reached.
fn unreachable(host: &str, error: &Error) -> Fault {
    let socket = host.strip_prefix("unix://").unwrap_or(host);
    let kind = match error {
        Error::SocketNotFoundError(_) => Some(io::ErrorKind::NotFound),
        _ => io_kind(error),
    };
    let (message, remedy) = match kind {
        Some(io::ErrorKind::PermissionDenied) => (
            format!("no permission for the Docker socket `{socket}`"),
            "add yourself to the group `docker` (`sudo usermod -aG docker $USER`, then log in again), or use rootless Docker and set DOCKER_HOST",
        ),
        Some(io::ErrorKind::ConnectionRefused) => (
            format!("the Docker daemon does not listen on `{socket}`"),
            "start it (`sudo systemctl start docker`), or set DOCKER_HOST to where it listens",
        ),
        Some(io::ErrorKind::NotFound) => (
            format!("there is no Docker daemon: `{socket}` does not exist"),
            "install Docker and start it, or set DOCKER_HOST to where it listens; `--engine sim` needs none",
        ),
        _ => (
            format!(
                "what listens on `{socket}` does not answer like a Docker daemon: {}",
                chain(error)
            ),
            "see `docker version`, or set DOCKER_HOST to where the daemon listens",
        ),
    };
    Fault::missing(message, remedy)
}

/// Turns an error of the daemon into a fault.
pub(in crate::runtime) fn explain(error: Error) -> Fault {
    let error = &error;
    let text = match error {
        Error::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        Error::DockerStreamError { error } => error.trim().to_owned(),
        _ if io_kind(error).is_some() || matches!(error, Error::HyperLegacyError { .. }) => {
            return Fault::missing(
                format!("{AWAY}: {}", chain(error)),
                "check whether it is running: `systemctl status docker`",
            );
        }
        other => return Fault::new(Kind::Io, format!("Docker: {}", chain(other))),
    };
    let lower = text.to_ascii_lowercase();
    let mut remedies = REMEDIES.iter();
    let remedy = remedies.find(|(signs, _)| signs.iter().any(|sign| lower.contains(sign)));
    let message = format!("Docker: {text}");
    match (remedy, status(error)) {
        (Some((_, remedy)), _) => Fault::missing(message, *remedy),
        (None, Some(404)) => Fault::missing(message, "see `docker ps --all` and `docker images`"),
        (None, Some(400)) => Fault::usage(message),
        _ => Fault::new(Kind::Engine, message),
    }
}

/// Texts of the daemon's errors, in lower case, with the hint for each.
const REMEDIES: [(&[&str], &str); 6] = [
    (
        &["no space left on device", "not enough space", "disk quota exceeded"],
        "free disk space where Docker keeps its images (`docker system df`, `docker system prune`)",
    ),
    (
        &PORT_IN_USE,
        "end what listens on that port, or leave `port` to profiler",
    ),
    (
        &[
            "could not select device driver",
            "nvidia-container",
            "unresolvable cdi",
            "unknown or invalid runtime name: nvidia",
        ],
        "install the NVIDIA container toolkit and run `sudo nvidia-ctk runtime configure --runtime=docker`, then restart Docker",
    ),
    (
        &["docker-init", "containerd-shim", "exec: \"runc\""],
        "the Docker installation lacks this program: install it (`docker-init` is in Debian's package `docker.io`), then restart Docker",
    ),
    (
        &["executable file not found", "no such file or directory: unknown"],
        "the image does not contain this program: check `entrypoint` and `args`",
    ),
    (
        &["permission denied while trying to connect"],
        "add yourself to the group `docker`",
    ),
];

const PORT_IN_USE: [&str; 2] = ["port is already allocated", "address already in use"];

const AWAY: &str = "the Docker daemon no longer answers";

/// Whether the daemon answered before but no longer does.
pub(super) fn is_away(fault: &Fault) -> bool {
    fault.message.starts_with(AWAY)
}

/// Whether the published port was already in use.
pub(super) fn is_port_conflict(fault: &Fault) -> bool {
    PORT_IN_USE.iter().any(|sign| fault.message.contains(sign))
}

pub(super) fn status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// The underlying I/O error, at any depth.
fn io_kind(error: &Error) -> Option<io::ErrorKind> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        // A transparent wrapper exposes its inner error's source instead of the inner error.
        if let Some(Error::IOError { err }) = error.downcast_ref::<Error>() {
            return Some(err.kind());
        }
        if let Some(Error::HyperLegacyError { err }) = error.downcast_ref::<Error>() {
            cause = Some(err);
            continue;
        }
        cause = error.source();
    }
    None
}

/// The error and its causes on one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;

    #[test]
    fn a_remote_daemon_is_refused_with_its_remedy() {
        for host in [
            "tcp://10.0.0.1:2375",
            "ssh://me@host",
            "tcp://me:secret@example.org:2376",
        ] {
            let fault = open(host).unwrap_err();
            assert_eq!(fault.kind, Kind::Missing, "{host}");
            assert!(fault.hint.unwrap().contains("DOCKER_HOST"), "{host}");
            assert!(!fault.message.contains("secret"));
        }
        assert!(
            is_loopback("tcp://127.0.0.1:2375") && is_loopback("tcp://[::1]:2375") && is_loopback("tcp://localhost:1")
        );
    }

    fn answered(status_code: u16, message: &str) -> Fault {
        let message = message.to_owned();
        explain(Error::DockerResponseServerError { status_code, message })
    }

    #[test]
    fn missing_things_are_reported_with_a_remedy() {
        for (message, remedy) in [
            ("write /x: no space left on device", "free disk space"),
            (
                "driver failed: Bind for 127.0.0.1:80 failed: port is already allocated",
                "port",
            ),
            ("listen tcp4 127.0.0.1:80: bind: address already in use", "port"),
            (
                "could not select device driver \"\" with capabilities: [[gpu]]",
                "nvidia-ctk",
            ),
            (
                "exec: \"serve\": executable file not found in $PATH: unknown",
                "entrypoint",
            ),
            (
                "exec: \"docker-init\": executable file not found in $PATH",
                "Docker installation",
            ),
        ] {
            let fault = answered(500, message);
            assert_eq!(fault.kind, Kind::Missing, "{message}");
            assert!(fault.hint.unwrap().contains(remedy), "{message}");
        }
        assert_eq!(answered(400, "invalid mount").kind, Kind::Usage);
        assert_eq!(answered(500, "something else").kind, Kind::Engine);
    }
}
