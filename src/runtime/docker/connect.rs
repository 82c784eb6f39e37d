//! Connects to the Docker daemon given by `DOCKER_HOST`, or to the default one.

use std::net::IpAddr;

use bollard::Docker;

use super::fault;
use crate::fault::{Fault, Result};

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
    let host = address();
    let client = open(&host)?;
    client
        .negotiate_version()
        .await
        .map_err(|error| fault::unreachable(&host, &error))
}

fn address() -> String {
    std::env::var("DOCKER_HOST")
        .ok()
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| DEFAULT_HOST.to_owned())
}

fn open(host: &str) -> Result<Docker> {
    let opened = match host.split_once("://") {
        Some(("unix" | "npipe", _)) => Docker::connect_with_local(host, TIMEOUT_SECONDS, VERSION),
        Some(("tcp" | "http", _)) if is_loopback(host) => Docker::connect_with_http(host, TIMEOUT_SECONDS, VERSION),
        _ => return Err(remote(host)),
    };
    opened.map_err(|error| fault::unreachable(host, &error))
}

fn is_loopback(host: &str) -> bool {
    url::Url::parse(host).is_ok_and(|url| match url.host_str() {
        Some("localhost") => true,
        Some(name) => name
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|ip: IpAddr| ip.is_loopback()),
        None => false,
    })
}

fn remote(host: &str) -> Fault {
    let shown = url::Url::parse(host).map_or_else(|_| host.to_owned(), |url| crate::runtime::redact::url(&url));
    Fault::missing(
        format!("the Docker daemon `{shown}` is not on this machine: published ports and mounts would not be here"),
        "run profiler on that machine, or unset DOCKER_HOST to use the daemon of this one",
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
    let version = docker.version().await.map_err(|error| fault::explain(&error))?;
    let info = docker.info().await.map_err(|error| fault::explain(&error))?;
    let mut runtimes: Vec<String> = info.runtimes.unwrap_or_default().into_keys().collect();
    runtimes.sort();
    Ok(DockerInfo {
        address: address(),
        version: version.version.unwrap_or_default(),
        api: docker.client_version().to_string(),
        runtimes,
        memory_limit: info.memory_limit.unwrap_or(false),
        swap_limit: info.swap_limit.unwrap_or(false),
        root: info.docker_root_dir,
    })
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
}
