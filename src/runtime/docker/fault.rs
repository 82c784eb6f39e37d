//! Translates errors of the Docker daemon into faults with a remedy.

use std::error::Error as _;
use std::io;

use bollard::errors::Error;

use crate::fault::{Fault, Kind};

/// The daemon could not be reached.
pub(super) fn unreachable(host: &str, error: &Error) -> Fault {
    let socket = host.strip_prefix("unix://").unwrap_or(host);
    match io_kind(error) {
        Some(io::ErrorKind::PermissionDenied) => Fault::missing(
            format!("no permission for the Docker socket `{socket}`"),
            "add yourself to the group `docker` (`sudo usermod -aG docker $USER`, then log in again), or use rootless Docker and set DOCKER_HOST",
        ),
        Some(io::ErrorKind::ConnectionRefused) => Fault::missing(
            format!("the Docker daemon does not listen on `{socket}`"),
            "start it (`sudo systemctl start docker`), or set DOCKER_HOST to where it listens",
        ),
        Some(io::ErrorKind::NotFound) => absent(socket),
        _ if matches!(error, Error::SocketNotFoundError(_)) => absent(socket),
        _ => Fault::missing(
            format!(
                "what listens on `{socket}` does not answer like a Docker daemon: {}",
                chain(error)
            ),
            "see `docker version`, or set DOCKER_HOST to where the daemon listens",
        ),
    }
}

fn absent(socket: &str) -> Fault {
    Fault::missing(
        format!("there is no Docker daemon: `{socket}` does not exist"),
        "install Docker and start it, or set DOCKER_HOST to where it listens; `--set engine=sim` needs none",
    )
}

/// The daemon answered with an error.
pub(in crate::runtime) fn explain(error: &Error) -> Fault {
    let text = match error {
        Error::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        Error::DockerStreamError { error } => error.trim().to_owned(),
        _ if io_kind(error).is_some() => {
            return Fault::missing(
                format!("the Docker daemon no longer answers: {}", chain(error)),
                "check whether it is running: `systemctl status docker`",
            );
        }
        other => return Fault::new(Kind::Io, format!("Docker: {}", chain(other))),
    };
    let contains_any = |words: &[&str]| words.iter().any(|word| text.to_ascii_lowercase().contains(word));
    let message = format!("Docker: {text}");
    if contains_any(&["no space left on device", "not enough space", "disk quota exceeded"]) {
        Fault::missing(
            message,
            "free disk space where Docker keeps its images (`docker system df`, `docker system prune`)",
        )
    } else if contains_any(&["port is already allocated", "address already in use"]) {
        Fault::missing(message, "end what listens on that port, or leave `port` to profiler")
    } else if contains_any(&[
        "could not select device driver",
        "nvidia-container",
        "unresolvable cdi",
        "unknown or invalid runtime name: nvidia",
    ]) {
        Fault::missing(
            message,
            "install the NVIDIA container toolkit and run `sudo nvidia-ctk runtime configure --runtime=docker`, then restart Docker",
        )
    } else if contains_any(&["executable file not found", "no such file or directory: unknown"]) {
        Fault::missing(
            message,
            "the image does not contain this program: check `entrypoint` and `args`",
        )
    } else if contains_any(&["permission denied while trying to connect"]) {
        Fault::missing(message, "add yourself to the group `docker`")
    } else if matches!(error, Error::DockerResponseServerError { status_code: 404, .. }) {
        Fault::missing(message, "see `docker ps --all` and `docker images`")
    } else if matches!(error, Error::DockerResponseServerError { status_code: 400, .. }) {
        Fault::usage(message)
    } else {
        Fault::new(Kind::Engine, message)
    }
}

/// Whether the published port was already in use.
pub(super) fn is_port_conflict(fault: &Fault) -> bool {
    fault.message.contains("port is already allocated") || fault.message.contains("address already in use")
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

    fn answered(status_code: u16, message: &str) -> Fault {
        let message = message.to_owned();
        explain(&Error::DockerResponseServerError { status_code, message })
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
        ] {
            let fault = answered(500, message);
            assert_eq!(fault.kind, Kind::Missing, "{message}");
            assert!(fault.hint.unwrap().contains(remedy), "{message}");
        }
        assert_eq!(answered(400, "invalid mount").kind, Kind::Usage);
        assert_eq!(answered(500, "something else").kind, Kind::Engine);
    }
}
