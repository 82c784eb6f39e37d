//! Images: whether they are present, and pulls with their progress. A pull that is cut off goes on, because the daemon
//! keeps the layers that are complete.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;

use super::daemon::{self, DockerInfo};
use super::{check_image, connect, registry, with_tag};
use crate::fault::{Fault, Kind, Result};
use crate::file::disk_free;
use crate::fmt::{Clock, GIB};
use crate::run::{EnginePhase, Run};
use crate::runtime::phase;
use crate::warning::Warning;

pub(super) struct Image {
    /// The reference to start it by.
    pub(super) reference: String,
    /// Registry digest, else the image id; identifies it among images of the same name.
    pub(super) digest: String,
    /// Environment: `NAME=value`.
    pub(super) env: Vec<String>,
}

/// Returns the image, and pulls it if it is not present.
///
/// # Errors
///
/// `missing` if it can be neither found nor pulled, with the reason.
pub(super) async fn ensure(docker: &Docker, daemon: &DockerInfo, image: &str, run: &Run) -> Result<Image> {
    check_image(image)?;
    let reference = with_tag(image);
    if let Some(found) = inspect(docker, &reference).await? {
        return Ok(found);
    }
    pull(docker, daemon, &reference, run).await?;
    let message = || format!("the image `{reference}` is missing although it was pulled");
    let pulled = inspect(docker, &reference).await?;
    pulled.ok_or_else(|| Fault::new(Kind::Engine, message()))
}

/// Whether an image is present, so that a start does not pull.
///
/// # Errors
///
/// `missing` without a Docker daemon; `usage` for an invalid image reference.
pub async fn is_present(image: &str) -> Result<bool> {
    check_image(image)?;
    let docker = connect().await?;
    Ok(inspect(&docker, &with_tag(image)).await?.is_some())
}

async fn inspect(docker: &Docker, reference: &str) -> Result<Option<Image>> {
    match docker.inspect_image(reference).await {
        Ok(found) => {
            let digest = found.repo_digests.into_iter().flatten().next().or(found.id);
            Ok(Some(Image {
                reference: reference.to_owned(),
                env: found.config.and_then(|config| config.env).unwrap_or_default(),
                digest: digest.unwrap_or_default(),
            }))
        }
        Err(error) if daemon::status(&error) == Some(404) => Ok(None),
        Err(error) => Err(daemon::explain(error)),
    }
}

/// Less space than this cannot hold even the smallest engine image (llama.cpp's CPU server, unpacked).
const MIN_FREE_BYTES: u64 = 256 << 20;
/// Progress is reported at most this often.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// Attempts in a row that bring nothing, and the pause after the first; each further pause is twice as long.
const FRUITLESS_ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(500);
/// All attempts together: a layer that grows a little each time would be pulled for ever.
const ATTEMPTS: u32 = 50;

async fn pull(docker: &Docker, daemon: &DockerInfo, reference: &str, run: &Run) -> Result<()> {
    let root = daemon.root.as_deref().unwrap_or_default();
    let check = |needed: u64| match disk_free(Path::new(root)) {
        Some(free) if free < needed => Err(Fault::missing(
            format!(
                "the disk of `{root}` has {} MiB left; the image `{reference}` needs at least {} MiB",
                free >> 20,
                needed >> 20
            ),
            "free disk space (`docker system df`, `docker system prune`)",
        )),
        _ => Ok(()),
    };
    check(MIN_FREE_BYTES)?;
    phase(run, EnginePhase::Pulling, reference)?;
    let mut layers = Layers::new(registry::layer_sizes(reference).await);
    let mut attempts = Attempts::default();
    loop {
        let failure = match follow(docker, reference, run, &mut layers, &check).await? {
            None => return Ok(()),
            Some(failure) => failure,
        };
        let pause = match attempts.next_after(layers.done()) {
            Some(pause) if may_pass(&failure) => pause,
            _ => return Err(cannot_pull(reference, failure)),
        };
        let message = format!(
            "the pull of `{reference}` was cut off after {}, and goes on with what is still missing: {}",
            layers.progress(),
            failure.message
        );
        run.warn(Warning::new("pull_cut_off", message))?;
        if daemon::is_away(&failure) {
            daemon::await_return(docker, failure, Some(run)).await?;
        } else {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Attempts at a pull that were cut off.
#[derive(Default)]
struct Attempts {
    made: u32,
    /// Most bytes that were there after one. A layer that is cut off may begin anew.
    best: u64,
    /// Attempts in a row that did not reach more than `best`.
    fruitless: u32,
}

impl Attempts {
    /// Counts an attempt after which `done` bytes were there. Returns the pause before the next one; `None` if none is
    /// worth it.
    fn next_after(&mut self, done: u64) -> Option<Duration> {
        self.made += 1;
        if done > self.best {
            self.best = done;
            self.fruitless = 0;
        } else {
            self.fruitless += 1;
        }
        let goes_on = self.made < ATTEMPTS && self.fruitless < FRUITLESS_ATTEMPTS;
        goes_on.then(|| PAUSE * 2_u32.pow(self.fruitless.saturating_sub(1)))
    }
}

/// Follows one attempt. Returns the daemon's failure; `None` if the image is complete.
async fn follow(
    docker: &Docker,
    reference: &str,
    run: &Run,
    layers: &mut Layers,
    check: &impl Fn(u64) -> Result<()>,
) -> Result<Option<Fault>> {
    let options = CreateImageOptionsBuilder::default().from_image(reference).build();
    let mut answers = std::pin::pin!(docker.create_image(Some(options), None, None));
    let begun = Instant::now();
    let had = layers.done();
    let mut last_report = Instant::now();
    while let Some(answer) = answers.next().await {
        let info = match answer {
            Ok(info) => info,
            Err(error) => return Ok(Some(daemon::explain(error))),
        };
        layers.update(&info);
        check(layers.announced())?;
        if last_report.elapsed() >= PROGRESS_INTERVAL {
            last_report = Instant::now();
            let speed = layers.speed(had, begun.elapsed());
            phase(
                run,
                EnginePhase::Pulling,
                &format!("{reference}: {}{speed}", layers.progress()),
            )?;
        }
    }
    Ok(None)
}

/// Compressed bytes (downloaded, total) by layer.
#[derive(Default)]
struct Layers {
    sizes: HashMap<String, (u64, u64)>,
    /// Whether the registry told all sizes in advance.
    complete: bool,
    /// Layers that the daemon said it will download. Those that it has already are not among them.
    announced: HashSet<String>,
}

/// Digits of a layer's digest by which daemons name it.
const SHORT: usize = 12;

impl Layers {
    /// `known`: digests and sizes of all layers, if the registry tells them.
    fn new(known: Option<Vec<(String, u64)>>) -> Self {
        let complete = known.is_some();
        let short = |digest: String| {
            digest
                .rsplit(':')
                .next()
                .unwrap_or_default()
                .chars()
                .take(SHORT)
                .collect()
        };
        let sizes = known.into_iter().flatten();
        let sizes = sizes.map(|(digest, size)| (short(digest), (0, size))).collect();
        Self {
            sizes,
            complete,
            announced: HashSet::new(),
        }
    }

    fn update(&mut self, info: &CreateImageInfo) {
        let (Some(id), Some(status)) = (&info.id, info.status.as_deref()) else {
            return;
        };
        let id: String = id.chars().take(SHORT).collect();
        let is_announced = matches!(status, "Pulling fs layer" | "Waiting" | "Downloading");
        if !is_announced && !matches!(status, "Download complete" | "Already exists" | "Pull complete") {
            return;
        }
        if self.complete && !self.sizes.contains_key(&id) {
            return;
        }
        if is_announced {
            self.announced.insert(id.clone());
        }
        let layer = self.sizes.entry(id).or_default();
        let bytes = |value: Option<i64>| u64::try_from(value.unwrap_or_default()).unwrap_or_default();
        match &info.progress_detail {
            Some(detail) if status == "Downloading" && detail.total.is_some() => {
                *layer = (bytes(detail.current), bytes(detail.total));
            }
            _ if is_announced => {}
            _ => layer.0 = layer.1,
        }
    }

    fn done(&self) -> u64 {
        self.sizes.values().map(|(done, _)| done).sum()
    }

    /// Bytes left, with those of layers that may turn out to be there already.
    fn remaining(&self) -> u64 {
        self.sizes.values().map(left).sum()
    }

    /// Bytes left of what the daemon said it will download. Layers are larger when unpacked, so with less free space
    /// the disk will certainly fill up.
    fn announced(&self) -> u64 {
        let sizes = self.announced.iter().filter_map(|id| self.sizes.get(id));
        sizes.map(left).sum()
    }

    fn progress(&self) -> String {
        let gib = |bytes: u64| bytes as f64 / GIB;
        let (done, remaining) = (self.done(), self.remaining());
        let at_least = if self.complete { "" } else { "at least " };
        format!("{:.2} of {at_least}{:.2} GiB", gib(done), gib(done + remaining))
    }

    /// Speed and time left since `had` bytes were there, if that can be said: `, 85 MiB/s, 1:12 left`.
    fn speed(&self, had: u64, elapsed: Duration) -> String {
        let speed = self.done().saturating_sub(had) as f64 / elapsed.as_secs_f64().max(1e-9);
        if speed < 1.0 {
            return String::new();
        }
        let left = Duration::from_secs_f64(self.remaining() as f64 / speed);
        let at_least = if self.complete { "" } else { "at least " };
        format!(
            ", {:.1} MiB/s, {at_least}{} left",
            speed / f64::from(1 << 20),
            Clock(left)
        )
    }
}

/// Bytes left of a layer.
fn left((done, total): &(u64, u64)) -> u64 {
    total.saturating_sub(*done)
}

/// Texts of failures that may pass by themselves, in lower case.
const PASSING: [&str; 10] = [
    "unexpected eof",
    ": eof",
    "connection reset",
    "broken pipe",
    "i/o timeout",
    "tls handshake timeout",
    "unexpected http status: 5",
    "status 5",
    "connection closed",
    "error reading",
];

/// Whether another attempt at a pull may succeed.
fn may_pass(failure: &Fault) -> bool {
    let text = failure.message.to_ascii_lowercase();
    daemon::is_away(failure) || (PASSING.iter().any(|sign| text.contains(sign)) && registry_remedy("", &text).is_none())
}

/// The fault of a failed pull: a full disk is reported as such, any other failure as an unavailable image.
fn cannot_pull(reference: &str, cause: Fault) -> Fault {
    let is_disk = cause.hint.as_deref().is_some_and(|hint| hint.contains("disk space"));
    if cause.kind == Kind::Missing && (is_disk || daemon::is_away(&cause)) {
        return cause.while_doing(format!("cannot pull `{reference}`"));
    }
    let why = cause.message;
    let remedy = registry_remedy(reference, &why.to_ascii_lowercase()).unwrap_or_else(|| {
        format!("try `docker pull {reference}` (it uses your registry login), load it with `docker load`, or name another with `--image …`")
    });
    Fault::missing(
        format!("the image `{reference}` is not present and cannot be pulled: {why}"),
        remedy,
    )
}

/// The remedy of a registry's refusal. `why` is in lower case.
fn registry_remedy(reference: &str, why: &str) -> Option<String> {
    let says = |signs: &[&str]| signs.iter().any(|sign| why.contains(sign));
    let host = registry::host(reference);
    Some(if says(&["toomanyrequests", "too many requests", "rate limit"]) {
        format!(
            "`{host}` limits how often images are pulled: wait, or pull it with a login (`docker login {host}`, then `docker pull {reference}`)"
        )
    } else if says(&[
        "manifest unknown",
        "name unknown",
        "not found: manifest",
        "manifest_unknown",
        "name_unknown",
    ]) {
        format!(
            "`{host}` has no such image: check the name and the tag of `{reference}`, or name another with `--image …`"
        )
    } else if says(&[
        "unauthorized",
        "authentication required",
        "access denied",
        "access to the resource is denied",
        "denied:",
        "no basic auth",
        "invalid username/password",
    ]) {
        format!(
            "check the name; if it is private or gated, `docker login {host}` and `docker pull {reference}` (profiler sends no login)"
        )
    } else if says(&["http response to https client"]) {
        format!(
            "`{host}` speaks no TLS: add it to `insecure-registries` in /etc/docker/daemon.json (for podman to registries.conf), and restart the daemon"
        )
    } else if says(&[
        "no matching manifest",
        "no image found in image index",
        "no image found in manifest list",
    ]) {
        format!("`{reference}` has no image for this machine's processor: name another with `--image …`")
    } else if says(&["x509:", "certificate"]) {
        format!(
            "the daemon does not trust the certificate of `{host}`: put the issuer's into /etc/docker/certs.d/{host}/ca.crt"
        )
    } else if says(&[
        "no such host",
        "connection refused",
        "network is unreachable",
        "no route to host",
        "server misbehaving",
        "temporary failure in name resolution",
    ]) {
        format!(
            "the daemon does not reach `{host}`: check its network and its proxy (that of its service, not of your shell) with `docker pull {reference}`, or load the image with `docker load`"
        )
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    fn info(id: &str, status: &str, current: i64, total: i64) -> CreateImageInfo {
        CreateImageInfo {
            id: Some(id.into()),
            status: Some(status.into()),
            progress_detail: Some(ProgressDetail {
                current: Some(current),
                total: Some(total),
            }),
            ..CreateImageInfo::default()
        }
    }

    fn plain(id: &str, status: &str) -> CreateImageInfo {
        CreateImageInfo {
            id: Some(id.into()),
            status: Some(status.into()),
            ..CreateImageInfo::default()
        }
    }

    #[test]
    fn remaining_bytes_count_downloads_only() {
        let mut layers = Layers::default();
        layers.update(&info("a", "Downloading", 10, 100));
        layers.update(&info("b", "Downloading", 0, 50));
        layers.update(&info("b", "Extracting", 10, 900));
        assert_eq!(layers.remaining(), 140);
        layers.update(&plain("a", "Download complete"));
        assert_eq!(layers.remaining(), 50);
        assert!(layers.progress().contains("at least"));
    }

    #[test]
    fn layers_that_the_registry_lists_count_from_the_start() {
        let digest = |digit: char| format!("sha256:{}", String::from(digit).repeat(64));
        let mut layers = Layers::new(Some(vec![(digest('a'), 1 << 30), (digest('b'), 3 << 30)]));
        assert_eq!(layers.remaining(), 4 << 30);
        layers.update(&plain(&"a".repeat(SHORT), "Already exists"));
        layers.update(&plain("latest", "Pull complete"));
        assert_eq!((layers.done(), layers.remaining()), (1 << 30, 3 << 30));
        layers.update(&info(&"b".repeat(SHORT), "Downloading", 1 << 30, 3 << 30));
        assert_eq!(layers.progress(), "2.00 of 4.00 GiB");
        let speed = layers.speed(1 << 30, Duration::from_secs(16));
        assert!(speed.starts_with(", 64.0 MiB/s") && speed.ends_with("left"), "{speed}");
        assert_eq!(layers.speed(2 << 30, Duration::from_secs(16)), "");
    }

    #[test]
    fn only_layers_that_are_not_there_need_room() {
        let digest = |digit: char| format!("sha256:{}", String::from(digit).repeat(64));
        let large = 4_000_000_000_000_000;
        let mut layers = Layers::new(Some(vec![(digest('a'), large), (digest('b'), 50)]));
        layers.update(&plain(&"a".repeat(SHORT), "Already exists"));
        assert_eq!(layers.announced(), 0);
        layers.update(&plain(&"b".repeat(SHORT), "Pulling fs layer"));
        assert_eq!(layers.announced(), 50);
        layers.update(&info(&"b".repeat(SHORT), "Downloading", 20, 50));
        assert_eq!(layers.announced(), 30);
        layers.update(&plain(&"b".repeat(SHORT), "Download complete"));
        assert_eq!(layers.announced(), 0);
    }

    #[test]
    fn attempts_end_if_they_bring_nothing_new() {
        // A layer begins anew in each attempt and is cut off at the same place.
        let mut attempts = Attempts::default();
        let pauses: Vec<_> = std::iter::from_fn(|| attempts.next_after(10)).collect();
        assert_eq!(pauses.len(), FRUITLESS_ATTEMPTS as usize);
        assert_eq!(pauses[..4], [PAUSE, PAUSE, PAUSE * 2, PAUSE * 4]);
        let (mut attempts, mut done) = (Attempts::default(), 0);
        let grow = || {
            done += 1;
            attempts.next_after(done)
        };
        assert_eq!(std::iter::from_fn(grow).count(), ATTEMPTS as usize - 1);
    }

    /// Answers of Docker 20.10, 28 and podman 4.3.
    #[test]
    fn a_refusal_of_a_registry_has_its_remedy_and_is_not_tried_again() {
        for (why, remedy) in [
            ("toomanyrequests: You have reached your pull rate limit", "wait"),
            ("received unexpected HTTP status: 429 Too Many Requests", "wait"),
            (
                "manifest for r/x:1 not found: manifest unknown: manifest unknown",
                "check the name",
            ),
            ("reading manifest 1 in r/x: manifest unknown", "check the name"),
            (
                "pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
                "docker login",
            ),
            (
                "Head \"https://r/v2/x/manifests/1\": unauthorized: authentication required",
                "docker login r.example",
            ),
            ("dial tcp: lookup r.example: no such host", "does not reach `r.example`"),
            ("http: server gave HTTP response to HTTPS client", "insecure-registries"),
            (
                "no matching manifest for linux/arm64/v8 in the manifest list entries",
                "processor",
            ),
            ("something new", "docker load"),
        ] {
            let fault = Fault::new(Kind::Engine, why);
            assert!(!may_pass(&fault), "{why}");
            let hint = cannot_pull("r.example/x:1", fault).hint.unwrap();
            assert!(hint.contains(remedy), "{why}: {hint}");
        }
        for why in [
            "unexpected EOF",
            "read tcp: connection reset by peer",
            "net/http: TLS handshake timeout",
        ] {
            assert!(may_pass(&Fault::new(Kind::Engine, why)), "{why}");
        }
    }
}
