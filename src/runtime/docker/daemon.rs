//! Connection to the daemon, Docker or podman; its facts; and explanations of its errors. `endpoint` finds it.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerSummary, SystemInfoCgroupVersionEnum, SystemVersion};
use serde::Deserialize;

use super::endpoint::{address, is_loopback};
use crate::fault::{Fault, Kind, Result};
use crate::run::Run;
use crate::runtime::state::Exit;
use crate::task::lock;
use crate::warning::Warning;
use crate::{http, outside};

/// Used until the version is negotiated.
const VERSION: &bollard::ClientVersion = bollard::API_DEFAULT_VERSION;
/// Timeout for an answer's headers; removing a large container is slow.
const TIMEOUT_SECONDS: u64 = 120;

/// Connects, with the newest version of the API that both sides know.
///
/// # Errors
///
/// `missing`, with a remedy: no daemon, no permission for its socket, or a remote daemon.
pub(in crate::runtime) async fn connect() -> Result<Docker> {
    connect_to(&address()?).await
}

/// Connects to the daemon at this address.
///
/// # Errors
///
/// As [`connect`].
pub(super) async fn connect_to(host: &str) -> Result<Docker> {
    // Podman took 0.6 s to say its version.
    let known = lock(&VERSIONS).get(host).map(negotiated);
    let client = open(host, &known.unwrap_or(*VERSION))?;
    if known.is_some() {
        answers(&client).await.map_err(|error| unreachable(host, &error))?;
        return Ok(client);
    }
    let version = client.version().await.map_err(|error| unreachable(host, &error))?;
    let client = open(host, &negotiated(&version))?;
    lock(&VERSIONS).insert(host.to_owned(), version);
    Ok(client)
}

/// Fails if there is no answer, whatever it is.
async fn answers(docker: &Docker) -> std::result::Result<(), Error> {
    match docker.ping().await {
        Err(error) if status(&error).is_none() => Err(error),
        _ => Ok(()),
    }
}

/// The versions of the daemons at these addresses.
static VERSIONS: Mutex<BTreeMap<String, SystemVersion>> = Mutex::new(BTreeMap::new());

/// The newest version of the API that both sides know.
fn negotiated(daemon: &SystemVersion) -> bollard::ClientVersion {
    let text = daemon.api_version.as_deref().unwrap_or_default();
    let numbers = text.split_once('.');
    let parsed = numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major_version, minor_version) = parsed.unwrap_or((VERSION.major_version, VERSION.minor_version));
    let daemon = bollard::ClientVersion {
        major_version,
        minor_version,
    };
    if daemon < *VERSION { daemon } else { *VERSION }
}

fn open(host: &str, version: &bollard::ClientVersion) -> Result<Docker> {
    let opened = match host.split_once("://") {
        Some(("unix" | "npipe", _)) => Docker::connect_with_local(host, TIMEOUT_SECONDS, version),
        Some(("tcp" | "http", _)) if is_loopback(host) => Docker::connect_with_http(host, TIMEOUT_SECONDS, version),
        _ => return Err(remote(host)),
    };
    opened.map_err(|error| unreachable(host, &error))
}

fn remote(host: &str) -> Fault {
    let shown = url::Url::parse(host).map_or_else(|_| host.to_owned(), |url| crate::run::hide_url(&url));
    Fault::missing(
        format!("the Docker daemon `{shown}` is not on this machine: published ports and mounts would not be here"),
        "run profiler on that machine; to use the daemon of this one, unset DOCKER_HOST, CONTAINER_HOST and DOCKER_CONTEXT, and `docker context use default`",
    )
}

/// Facts about the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerInfo {
    /// Address it listens on.
    pub address: String,
    /// Whether it is podman.
    pub podman: bool,
    /// Version of Docker or podman.
    pub version: String,
    /// Negotiated API version.
    pub api: String,
    /// Whether it runs without root's rights, and so in a network of its own.
    pub rootless: bool,
    /// Whether files need SELinux's label for containers.
    pub selinux: bool,
    /// Names of its runtimes; includes `nvidia` if the NVIDIA container toolkit is set up for Docker.
    pub runtimes: Vec<String>,
    /// The runtime of containers that name none.
    pub default_runtime: String,
    /// Folders in which it looks for CDI specifications; empty if it does not say, or uses none.
    pub cdi_folders: Vec<String>,
    /// CDI devices that it has found, such as `nvidia.com/gpu=0`; `None` if it does not say.
    pub cdi_devices: Option<Vec<String>>,
    /// Whether memory limits are supported.
    pub memory_limit: bool,
    /// Whether swap limits are supported. Without them a container may swap beyond its memory limit.
    pub swap_limit: bool,
    /// Bytes of memory of its machine.
    pub memory: Option<u64>,
    /// Folder where images are stored.
    pub root: Option<String>,
}

impl DockerInfo {
    /// `Docker` or `podman`.
    pub fn name(&self) -> &'static str {
        if self.podman { "podman" } else { "Docker" }
    }

    /// Whether its version is at least this one. An unknown version is as good as any.
    pub(super) fn is_at_least(&self, major: u32, minor: u32) -> bool {
        let mut numbers = self.version.split('.').map_while(|part| part.parse::<u32>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(is), then) => (is, then.unwrap_or(0)) >= (major, minor),
            _ => true,
        }
    }
}

/// Asks the daemon for its facts.
///
/// # Errors
///
/// `missing`, with a remedy, if it cannot be reached.
pub async fn info() -> Result<DockerInfo> {
    facts(&connect().await?).await
}

/// Whether a daemon with this version is podman.
pub(super) fn is_podman(version: &SystemVersion) -> bool {
    let mut components = version.components.iter().flatten();
    components.any(|part| part.name.contains("Podman"))
}

/// Asks this daemon for its facts.
pub(super) async fn facts(docker: &Docker) -> Result<DockerInfo> {
    let address = address()?;
    let known = lock(&VERSIONS).get(&address).cloned();
    let version = match known {
        Some(version) => version,
        None => docker.version().await.map_err(explain)?,
    };
    let info = docker.info().await.map_err(explain)?;
    let mut runtimes: Vec<String> = info.runtimes.unwrap_or_default().into_keys().collect();
    runtimes.sort();
    let security = info.security_options.unwrap_or_default();
    let is_secured = |name: &str| security.iter().any(|option| option.split(',').any(|part| part == name));
    let devices = info.discovered_devices.map(|devices| {
        let is_cdi = |source: &Option<String>| source.as_deref() == Some("cdi");
        let devices = devices.into_iter().filter(|device| is_cdi(&device.source));
        devices.filter_map(|device| device.id).collect()
    });
    let podman = is_podman(&version);
    // Podman tells Docker's clients neither, before its fifth version.
    let own = if podman {
        own_security(&address, &version).await?
    } else {
        PodmanSecurity::default()
    };
    let rootless = is_secured("name=rootless") || own.rootless;
    // Without root's rights, nobody limits a group of version 1. Podman says that it does.
    let limits = !(rootless && info.cgroup_version == Some(SystemInfoCgroupVersionEnum::_1));
    Ok(DockerInfo {
        address,
        podman,
        version: version.version.unwrap_or_default(),
        api: docker.client_version().to_string(),
        rootless,
        selinux: is_secured("name=selinux") || own.selinux_enabled,
        runtimes,
        default_runtime: info.default_runtime.unwrap_or_default(),
        cdi_folders: info.cdi_spec_dirs.unwrap_or_default(),
        cdi_devices: devices,
        memory_limit: info.memory_limit.unwrap_or(false) && limits,
        swap_limit: info.swap_limit.unwrap_or(false) && limits,
        memory: info.mem_total.and_then(|bytes| u64::try_from(bytes).ok()),
        root: info.docker_root_dir,
    })
}

/// Podman's security, in its own part of the API.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PodmanSecurity {
    rootless: bool,
    #[serde(rename = "selinuxEnabled")]
    selinux_enabled: bool,
}

/// The default if this daemon lacks podman's own part of the API.
async fn own_security(address: &str, version: &SystemVersion) -> Result<PodmanSecurity> {
    #[derive(Deserialize)]
    struct Answer {
        host: Host,
    }
    #[derive(Deserialize)]
    struct Host {
        #[serde(default)]
        security: PodmanSecurity,
    }
    let version = version.version.as_deref().unwrap_or_default();
    let answer: Option<Answer> = ask(address, &format!("/v{version}/libpod/info"), &[]).await?;
    Ok(answer.map(|answer| answer.host.security).unwrap_or_default())
}

/// The fault if the daemon cannot be reached.
fn unreachable(host: &str, error: &Error) -> Fault {
    const START_PODMAN: &str = "let your own podman listen (`systemctl --user enable --now podman.socket`), or set DOCKER_HOST to where a daemon listens";
    let socket = host.strip_prefix("unix://").unwrap_or(host);
    let kind = match error {
        Error::SocketNotFoundError(_) => Some(io::ErrorKind::NotFound),
        _ => io_kind(error),
    };
    let is_podmans = socket.contains("podman");
    let (message, remedy) = match kind {
        Some(io::ErrorKind::PermissionDenied) if is_podmans => {
            (format!("no permission for podman's socket `{socket}`"), START_PODMAN)
        }
        Some(io::ErrorKind::ConnectionRefused) if is_podmans => {
            (format!("podman does not listen on `{socket}`"), START_PODMAN)
        }
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
            "install Docker and start it, or let podman listen (`systemctl --user enable --now podman.socket`), or set DOCKER_HOST to where a daemon listens; `--engine sim` needs none",
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
        _ if io_kind(error).is_some()
            || matches!(error, Error::HyperLegacyError { .. } | Error::HyperResponseError { .. }) =>
        {
            return Fault::missing(
                format!("{AWAY}: {}", chain(error)),
                "check whether it is running: `systemctl status docker`, or `podman.socket`",
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
        // Podman's status for an option that it cannot take is 500.
        (None, _) if lower.contains("fill out specgen") => Fault::usage(message),
        _ => Fault::new(Kind::Engine, message),
    }
}

/// Texts of the daemon's errors, in lower case, with the hint for each.
const REMEDIES: [(&[&str], &str); 7] = [
    (
        &["no space left on device", "not enough space", "disk quota exceeded"],
        "free disk space where Docker keeps its images (`docker system df`, `docker system prune`)",
    ),
    (
        &PORT_IN_USE,
        "end what listens on that port, or leave `host_port` out for a free one",
    ),
    (
        &[
            "could not select device driver",
            "nvidia-container",
            "unresolvable cdi",
            "cdi device injection failed",
            "unknown or invalid runtime name: nvidia",
        ],
        "`profiler doctor` says how containers of this machine can have its GPUs",
    ),
    (
        &["docker-init", "container-init", "containerd-shim", "exec: \"runc\""],
        "the installation of the daemon lacks this program: install it (`docker-init` is in Debian's package `docker.io`), then restart the daemon",
    ),
    (
        &["error setting rlimit"],
        "podman raises the limits of open files and processes beyond what this machine allows: set `default_ulimits = [\"nofile=16384:16384\", \"nproc=16384:16384\"]` in containers.conf to what `ulimit -Hn` and `ulimit -Hu` allow, and restart podman's service",
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

/// Texts of errors about the init process that the daemon puts into containers.
const NO_INIT: [&str; 2] = ["docker-init", "container-init"];

/// Whether the daemon's machine lacks the init process for containers.
pub(super) fn lacks_init(fault: &Fault) -> bool {
    NO_INIT.iter().any(|sign| fault.message.contains(sign))
}

const PORT_IN_USE: [&str; 2] = ["port is already allocated", "address already in use"];

const AWAY: &str = "the Docker daemon no longer answers";

/// How often to look at a container that is between two states.
pub(super) const BETWEEN_STATES: Duration = Duration::from_millis(20);

/// Whether a container's state is one of podman's that Docker does not have. It changes by itself.
pub(super) fn is_between_states(error: &Error) -> bool {
    let Error::JsonDataError { message, .. } = error else {
        return false;
    };
    ["stopped", "configured", "initialized", "unknown"]
        .iter()
        .any(|state| message.contains(&format!("unknown variant `{state}`")))
}

/// A container in a list, without its state.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listed {
    pub(super) names: Option<Vec<String>>,
    pub(super) labels: Option<HashMap<String, String>>,
}

impl From<ContainerSummary> for Listed {
    fn from(container: ContainerSummary) -> Self {
        Self {
            names: container.names,
            labels: container.labels,
        }
    }
}

/// All containers that pass these filters at the daemon with this address. The client refuses a list in which one
/// container has a state that Docker does not have, and podman can leave one in such a state for ever.
pub(super) async fn list_in_any_state(address: &str, filters: &HashMap<&str, Vec<&str>>) -> Result<Vec<Listed>> {
    let filters = serde_json::to_string(filters).map_err(|error| Fault::internal(error.to_string()))?;
    let listed = ask(address, "/containers/json", &[("all", "true"), ("filters", &filters)]).await?;
    listed.ok_or_else(|| {
        Fault::missing(
            format!("`{address}` has no list of containers"),
            "set DOCKER_HOST to where Docker or podman listens",
        )
    })
}

/// Larger than any list of containers of ours.
const MAX_ANSWER: usize = 16 << 20;
/// Characters of an error's text that are shown.
const MAX_SAID: usize = 500;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the daemon at this address something that the client cannot ask. `None` if it has no such path.
async fn ask<T: serde::de::DeserializeOwned>(address: &str, path: &str, query: &[(&str, &str)]) -> Result<Option<T>> {
    let failed = |what: &str| {
        Fault::new(
            Kind::Io,
            format!("the daemon at `{address}`, asked for `{path}`, {what}"),
        )
    };
    let client = http::external().no_proxy().timeout(ANSWER_TIMEOUT);
    let (client, base) = match address.strip_prefix("unix://") {
        Some(socket) => (client.unix_socket(socket), "http://localhost".to_owned()),
        None => (client, address.replacen("tcp://", "http://", 1)),
    };
    let mut url = url::Url::parse(&base).map_err(|error| {
        Fault::usage(format!("`{address}` is no address of a daemon: {error}")).hint("correct DOCKER_HOST")
    })?;
    url.set_path(path);
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    let silent = |error: reqwest::Error| {
        failed(&format!("does not answer: {error}"))
            .hint("check whether it is running: `systemctl status docker`, or `podman.socket`")
    };
    let answer = http::build(client)?.get(url).send().await.map_err(silent)?;
    let status = answer.status();
    if status == reqwest::StatusCode::NOT_FOUND {
        return Ok(None);
    }
    let (text, _) = http::text(answer, MAX_ANSWER).await.map_err(silent)?;
    if !status.is_success() {
        let said: String = text.trim().chars().take(MAX_SAID).collect();
        return Err(failed(&format!("answers with status {status}: {said}"))
            .hint("see its log: `journalctl --unit docker`, or `--unit podman`"));
    }
    let read = outside::page(text.as_bytes());
    read.map(Some).map_err(|error| {
        failed(&format!("gives an answer that cannot be read: {error}"))
            .hint("see whether it is Docker or podman: `docker version`")
    })
}

/// How long to wait for a daemon that went away, and how often to look for it.
const AWAY_TIME: Duration = Duration::from_secs(120);
pub(super) const AWAY_PAUSE: Duration = Duration::from_millis(500);

/// How often a request is asked again of a daemon that came back.
pub(super) const MAX_ABSENCES: u32 = 10;

/// Waits for a daemon that no longer answers, as `fault` says, because it may be restarting, for example after an
/// update. The run gets a warning.
///
/// # Errors
///
/// Any other fault is returned at once; that of the daemon if it stays away.
pub(super) async fn await_return(docker: &Docker, fault: Fault, run: Option<&Run>) -> Result<()> {
    if !is_away(&fault) {
        return Err(fault);
    }
    if let Some(run) = run {
        let message = format!("{}; waiting up to {} s for it", fault.message, AWAY_TIME.as_secs());
        run.warn(Warning::new("docker_away", message))?;
    }
    let deadline = tokio::time::Instant::now() + AWAY_TIME;
    loop {
        // Before it is asked at all: one that answers this, and nothing else, is not asked without a pause.
        tokio::time::sleep(AWAY_PAUSE).await;
        match answers(docker).await {
            Ok(()) => return Ok(()),
            Err(error) if tokio::time::Instant::now() >= deadline => return Err(explain(error)),
            Err(_) => {}
        }
    }
}

/// When the daemon of a container was last away, as far as that was noticed.
#[derive(Clone, Default)]
pub(in crate::runtime) struct Absence(Arc<Mutex<Option<(jiff::Timestamp, jiff::Timestamp)>>>);

/// A daemon stops its containers before it goes, and those that it finds when it comes back.
const AROUND_ABSENCE: Duration = Duration::from_secs(20);

impl Absence {
    /// As [`await_return`], and notes the absence.
    pub(super) async fn await_return(&self, docker: &Docker, fault: Fault, run: Option<&Run>) -> Result<()> {
        let gone = jiff::Timestamp::now();
        // Noted before the daemon is back: by then its container's end may have been asked for.
        let was_noted = is_away(&fault) && {
            let noted = lock(&self.0).replace((gone, jiff::Timestamp::MAX));
            noted.is_some_and(|(_, back)| back == jiff::Timestamp::MAX)
        };
        // One warning is enough for all that wait.
        await_return(docker, fault, run.filter(|_| !was_noted)).await?;
        *lock(&self.0) = Some((gone, jiff::Timestamp::now()));
        Ok(())
    }

    /// Whether a container that exited like this was ended by it: at about that time, and as a stop or a kill ends it.
    pub(super) fn ended(&self, exit: &Exit) -> bool {
        const STOPPED: [i64; 5] = [0, 130, 137, 143, 255];
        let Some((gone, back)) = *lock(&self.0) else {
            return false;
        };
        if exit.code.is_some_and(|code| !STOPPED.contains(&code)) {
            return false;
        }
        let finished: Option<jiff::Timestamp> = exit.finished_at.as_ref().and_then(|time| time.parse().ok());
        finished.is_none_or(|time| {
            gone - AROUND_ABSENCE <= time && time <= back.saturating_add(AROUND_ABSENCE).unwrap_or(back)
        })
    }
}

/// Connects to a daemon that answered before in this run, and waits for it if it went away.
///
/// # Errors
///
/// As [`connect`] and [`await_return`].
pub(super) async fn connect_again(run: &Run) -> Result<Docker> {
    let host = address()?;
    let client = open(&host, VERSION)?;
    if let Err(error) = answers(&client).await {
        await_return(&client, explain(error), Some(run)).await?;
        // It may be another version of the daemon.
        lock(&VERSIONS).remove(&host);
    }
    connect_to(&host).await
}

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

/// Whether what was asked for does not exist. Podman's status is 500 while it removes a container.
pub(super) fn is_gone(error: &Error) -> bool {
    status(error) == Some(404) || error.to_string().contains("does not exist in database")
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

    #[test]
    fn a_crash_after_the_daemon_is_back_is_not_blamed_on_it() {
        let [gone, back] = ["2026-11-29T10:00:00Z", "2026-11-29T10:00:05Z"].map(|time| time.parse().unwrap());
        let absence = Absence(Arc::new(Mutex::new(Some((gone, back)))));
        let ended = |code: i64, at: &str| {
            absence.ended(&Exit {
                code: Some(code),
                finished_at: Some(at.to_owned()),
                ..Exit::default()
            })
        };
        assert!(ended(137, "2026-11-29T09:59:55Z") && ended(0, "2026-11-29T10:00:10Z"));
        assert!(!ended(1, "2026-11-29T10:00:10Z") && !ended(137, "2026-11-29T10:01:00Z"));
    }
    use crate::fault::Kind;

    #[test]
    fn a_remote_daemon_is_refused_with_its_remedy() {
        for host in [
            "tcp://10.0.0.1:2375",
            "ssh://me@host",
            "tcp://me:secret@example.org:2376",
        ] {
            let fault = open(host, VERSION).unwrap_err();
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
    fn versions_are_compared_as_numbers() {
        let of = |version: &str| DockerInfo {
            version: version.to_owned(),
            ..DockerInfo::default()
        };
        assert!(of("28.3.1").is_at_least(28, 2) && of("5.4.0-rc1").is_at_least(5, 4) && of("fake").is_at_least(99, 0));
        assert!(!of("20.10.24+dfsg1").is_at_least(25, 0) && !of("5.3.9").is_at_least(5, 4));
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
                "profiler doctor",
            ),
            (
                "exec: \"serve\": executable file not found in $PATH: unknown",
                "entrypoint",
            ),
            (
                "exec: \"docker-init\": executable file not found in $PATH",
                "installation of the daemon",
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
