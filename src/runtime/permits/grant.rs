//! Checks a launch: the permissions that it needs, options that are never allowed (mounts of container daemon sockets
//! and kernel folders), and what the launch gets after the check.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::want::Want;
use super::{Access, Allowed, Permits};
use crate::fault::{Fault, Result};
use crate::runtime::docker::usual_sockets;
use crate::runtime::state::RuntimeKind;
use crate::runtime::{Launch, Mount};

/// Permissions of one launch, after the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Whether the Hugging Face token is put into its environment.
    pub token: bool,
    /// Whether a container can reach more than the host that connects to it.
    pub network: bool,
    /// Whether a downloaded model is kept for later containers. Then its source must be chosen by us or the user.
    pub keeps_model: bool,
    /// Mounts with canonical host paths.
    pub mounts: Vec<Mount>,
    /// Requests that were denied without failing the launch, and how to allow them.
    pub withheld: Vec<String>,
}

/// Who decided what a launch starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A script, or an adapter that is not shipped.
    #[default]
    Script,
    /// A shipped adapter, with the options of a script.
    ShippedAdapter {
        /// Whether an option replaced its image or program.
        replaced: bool,
        /// Variables and arguments of the script that are not known to be harmless.
        unlisted: Vec<String>,
    },
}

impl Permits {
    /// Checks a launch against the permissions.
    ///
    /// # Errors
    ///
    /// `not_allowed`, with all missing permissions and the `--allow` for them.
    pub fn check_launch(&self, kind: RuntimeKind, launch: &Launch, origin: &Origin) -> Result<Grant> {
        check_forbidden(launch)?;
        let mut wants = Vec::new();
        if enables_remote_code_anywhere(launch) {
            let want = Want::new("code", "run code that comes with the model (`trust_remote_code`)");
            wants.push(want.allowed(self.allows(|allowed| allowed.code)));
        }
        let mut grant = Grant::default();
        match kind {
            RuntimeKind::Docker => {
                wants.extend(self.image_wants(launch, origin));
                for mount in &launch.mounts {
                    let real = std::fs::canonicalize(&mount.host)
                        .map_err(|error| Fault::usage(format!("the mount `{}`: {error}", mount.host)))?;
                    check_mount(&real)?;
                    wants.extend(self.path_want(&real, if mount.writable { Access::Write } else { Access::Read }));
                    grant.mounts.push(Mount {
                        host: text(real)?,
                        ..mount.clone()
                    });
                }
                self.settle(wants)?;
                // Images of shipped adapters, and images that the user names, are engines and may download their
                // models. Docker cannot restrict a container to single hosts.
                let image = launch.image.as_deref().unwrap_or_default();
                let engine = match origin {
                    Origin::ShippedAdapter { replaced, .. } => !replaced || self.names_start(image),
                    Origin::Script => false,
                };
                grant.network = engine || self.allows(|allowed| !allowed.hosts.is_empty());
            }
            RuntimeKind::Process => {
                wants.push(match &launch.container {
                    Some(container) => self.exec_want(container),
                    None => self.process_want(),
                });
                self.settle(wants)?;
            }
            RuntimeKind::Attach | RuntimeKind::Sim => return self.settle(wants).map(|()| grant),
        }
        let why_not = self.doubt(kind, launch, origin);
        grant.keeps_model = grant.network && why_not.is_none();
        grant.token = launch.token && (why_not.is_none() || self.allows(|allowed| allowed.token));
        if let Some(why) = why_not
            && launch.token
            && !grant.token
            && !launch.has_local_model()
        {
            grant.withheld.push(format!(
                "the Hugging Face token is not given: {why} (allow it with `--allow token`)"
            ));
        }
        Ok(grant)
    }

    /// The permissions for image and entry point. A shipped adapter needs none for its own image.
    fn image_wants(&self, launch: &Launch, origin: &Origin) -> Vec<Want> {
        let image = launch.image.as_deref().unwrap_or_default();
        let by_script = *origin == Origin::Script;
        let typed = self.is_typed();
        let mut wants = Vec::new();
        let replaced = matches!(origin, Origin::ShippedAdapter { replaced: true, .. });
        if (by_script && !typed) || (replaced && !typed && !self.names_start(image)) {
            let listed = |allowed: &Allowed| allowed.images.iter().any(|prefix| matches(image, prefix));
            let want = Want::new(
                format!("image={image}"),
                format!("start the image `{image}`, which the script chose"),
            );
            wants.push(want.allowed(self.allows(listed)));
        }
        if by_script && !typed && !launch.entrypoint.is_empty() {
            let program = launch.entrypoint.join(" ");
            let want = Want::new("entrypoint", format!("run `{program}` in it, not its own program"));
            wants.push(want.allowed(self.allows(|allowed| allowed.entrypoint)));
        }
        wants
    }

    /// Whether the command line names this image or program.
    fn names_start(&self, name: &str) -> bool {
        self.names(|named| named.starts.iter().any(|start| start == name))
    }

    /// Why the launch could send the token to a wrong place; `None` if it could not.
    fn doubt(&self, kind: RuntimeKind, launch: &Launch, origin: &Origin) -> Option<String> {
        let Origin::ShippedAdapter { replaced, unlisted } = origin else {
            return Some("no shipped adapter describes the launch".to_owned());
        };
        if !unlisted.is_empty() {
            return Some(format!(
                "the script sets `{}`, which could send it elsewhere",
                unlisted.join("`, `")
            ));
        }
        // A mount may hide the image's programs.
        let by_script = |mount: &&Mount| {
            let real = fs::canonicalize(&mount.host).unwrap_or_default();
            !mount.of_model && !self.names(|named| named.folders.iter().any(|folder| real.starts_with(folder)))
        };
        if let Some(mount) = launch.mounts.iter().find(by_script) {
            return Some(format!(
                "the script mounts `{}` at `{}`, whose files could send it elsewhere",
                mount.host, mount.container
            ));
        }
        if let (RuntimeKind::Process, Some(container)) = (kind, &launch.container) {
            return Some(format!(
                "this run did not start the container `{container}`, whose programs could read it"
            ));
        }
        let (what, started) = match kind {
            RuntimeKind::Docker => ("image", launch.image.as_deref()),
            _ => ("program", launch.command.first().map(String::as_str)),
        };
        let started = started.unwrap_or_default();
        (*replaced && !self.names_start(started)).then(|| format!("no shipped adapter uses the {what} `{started}`"))
    }
}

/// Refuses options that are never allowed.
fn check_forbidden(launch: &Launch) -> Result<()> {
    let other = |name: &str, value: &str, harmless: &str| {
        let is_harmless = value.is_empty() || value == harmless;
        (!is_harmless).then(|| format!("`{name}: \"{value}\"`"))
    };
    let any = |name: &str, list: &[String]| list.first().map(|first| format!("`{name}: [\"{first}\"]`"));
    // Locked memory and stacks count as memory anyway. Other limits are not needed.
    let mut limits = launch.ulimits.keys();
    let limit = limits.find(|name| !matches!(name.as_str(), "memlock" | "stack"));
    let refused = [
        launch.privileged.then(|| "`privileged`".to_owned()),
        other("network", &launch.network, "bridge"),
        other("pid", &launch.pid, ""),
        other("ipc", &launch.ipc, "private"),
        any("devices", &launch.devices),
        any("capabilities", &launch.capabilities),
        limit.map(|name| format!("`ulimits: #{{ {name}: … }}`")),
        any("security", &launch.security),
    ];
    match refused.into_iter().flatten().next() {
        None => Ok(()),
        Some(what) => Err(Fault::not_allowed(
            format!("{what}: no container gets this"),
            "remove the option, or start the container yourself and attach to it",
        )),
    }
}

/// Whether the image equals the prefix or lies below it: `ghcr.io/me` covers `ghcr.io/me/engine:1`, not
/// `ghcr.io/mean/engine`.
fn matches(image: &str, prefix: &str) -> bool {
    image
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || prefix.ends_with(['/', ':', '@']) || rest.starts_with(['/', ':', '@']))
}

/// Whether an argument, file or variable enables code from the model's repository; also if abbreviated as Python's
/// argparse allows, inside a shell command, or in JSON.
fn enables_remote_code_anywhere(launch: &Launch) -> bool {
    let words = launch.entrypoint.iter().chain(&launch.args).chain(&launch.command);
    let variables = launch.env.iter().map(|(name, value)| format!("{name}={value}"));
    words
        .chain(launch.files.values())
        .cloned()
        .chain(variables)
        .any(|text| enables_remote_code(&text))
}

fn enables_remote_code(text: &str) -> bool {
    const REFUSED: [&str; 6] = ["=false", "=0", "=no", ": false", "\": false", "\":false"];
    let plain = text.to_ascii_lowercase().replace('_', "-");
    let abbreviated = |word: &str| word.len() >= 4 && "--trust-remote-code".starts_with(word);
    // Each part follows a mention of the option, and begins with its value.
    let mut parts = plain.split("trust-remote-code");
    let first = parts.next().unwrap_or_default();
    let asked = parts.clone().any(|rest| !REFUSED.iter().any(|no| rest.starts_with(no)));
    let mut words = std::iter::once(first).chain(parts).flat_map(str::split_whitespace);
    asked || words.any(|word| abbreviated(word.split('=').next().unwrap_or(word)))
}

fn text(path: PathBuf) -> Result<String> {
    path.into_os_string()
        .into_string()
        .map_err(|path| Fault::usage(format!("the path `{}` is not UTF-8", path.display())))
}

/// Sockets that give full control of the machine.
const SOCKETS: [&str; 7] = [
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
fn check_mount(real: &Path) -> Result<()> {
    let why = if let Some(socket) = sockets().into_iter().find(|socket| reaches(real, socket)) {
        format!("it holds the Docker socket `{}`", socket.display())
    } else if fs::metadata(real).is_ok_and(|data| data.file_type().is_socket()) {
        "it is a socket".to_owned()
    } else if let Some(folder) = KERNEL.iter().find(|folder| real.starts_with(folder)) {
        format!("it is below `{folder}`")
    } else {
        return Ok(());
    };
    Err(Fault::not_allowed(
        format!("mounting `{}` is never allowed: {why}", real.display()),
        "mount a folder that holds only what the engine needs",
    ))
}

/// All candidate sockets, including those that the environment names and those in the user's own folders.
fn sockets() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = SOCKETS.iter().map(PathBuf::from).collect();
    let named = ["DOCKER_HOST", "CONTAINER_HOST"].map(|name| std::env::var(name).ok());
    let paths = named.iter().flatten().filter_map(|host| host.strip_prefix("unix://"));
    all.extend(paths.map(PathBuf::from));
    all.extend(usual_sockets());
    // Resolved as well: `/var/run` may be a link to `/run`.
    let real: Vec<_> = all.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    all.extend(real);
    all
}

/// Whether `folder` is the socket or contains it, also through a bind mount.
fn reaches(folder: &Path, socket: &Path) -> bool {
    let same = |other: &Path| match (fs::metadata(folder), fs::metadata(other)) {
        (Ok(one), Ok(two)) => one.dev() == two.dev() && one.ino() == two.ino(),
        _ => false,
    };
    socket.starts_with(folder) || (socket.exists() && socket.ancestors().any(same))
}
