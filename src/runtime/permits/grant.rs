//! What one launch gets after the permission check.

use std::path::{Path, PathBuf};

use super::{Access, Permits, danger};
use crate::fault::{Fault, Result};
use crate::runtime::{Launch, Mount, RuntimeKind};

/// What one launch gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Whether the Hugging Face token is put into its environment.
    pub token: bool,
    /// Whether the model cache is mounted, read-only.
    pub cache: bool,
    /// Whether a container reaches more than the host that asks it.
    pub network: bool,
    /// Mounts with canonical host paths.
    pub mounts: Vec<Mount>,
    /// Requests that were denied without failing the launch, and how to allow them.
    pub withheld: Vec<String>,
}

impl Permits {
    /// Checks a launch against the permissions. `shipped`: a shipped adapter chose the image itself, without an
    /// option of a script or user.
    ///
    /// # Errors
    ///
    /// `not_allowed`, with the requested thing and the exact `--allow` if there is one.
    pub fn check_launch(&self, kind: RuntimeKind, launch: &Launch, shipped: bool) -> Result<Grant> {
        check_forbidden(launch)?;
        if !self.code && enables_remote_code_anywhere(launch) {
            return Err(Fault::not_allowed(
                "`trust_remote_code` would run code that comes with the model",
                "allow it with `--allow code`",
            ));
        }
        match kind {
            RuntimeKind::Docker => self.check_container(launch, shipped),
            RuntimeKind::Process => {
                self.check_process()?;
                let mut grant = Grant::default();
                self.give_token(kind, launch, shipped, &mut grant);
                Ok(grant)
            }
            RuntimeKind::Attach | RuntimeKind::Sim => Ok(Grant::default()),
        }
    }

    fn check_container(&self, launch: &Launch, shipped: bool) -> Result<Grant> {
        let image = launch.image.as_deref().unwrap_or_default();
        let trusted = shipped || self.images.iter().any(|prefix| matches(image, prefix));
        let mut grant = Grant {
            network: shipped || self.network,
            ..Grant::default()
        };
        for mount in &launch.mounts {
            grant.mounts.push(self.check_mount(mount)?);
        }
        grant.cache = launch.cache.is_some() && trusted;
        if launch.cache.is_some() && !trusted {
            grant.withheld.push(format!(
                "the model cache is not mounted for the image `{image}`, which no shipped adapter uses (allow it with `--allow image={image}`)"
            ));
        }
        self.give_token(RuntimeKind::Docker, launch, trusted, &mut grant);
        Ok(grant)
    }

    fn check_mount(&self, mount: &Mount) -> Result<Mount> {
        let real = std::fs::canonicalize(&mount.host)
            .map_err(|error| Fault::usage(format!("the mount `{}`: {error}", mount.host)))?;
        danger::check_mount(&real)?;
        let access = if mount.writable { Access::Write } else { Access::Read };
        let real = self
            .check_path(Path::new(&mount.host), access)
            .map_err(|fault| fault.while_doing("mount"))?;
        Ok(Mount {
            host: text(real)?,
            ..mount.clone()
        })
    }

    /// Without `--allow token`, only for a trusted image, and only if the environment does not redirect its requests
    /// or code.
    fn give_token(&self, kind: RuntimeKind, launch: &Launch, trusted: bool, grant: &mut Grant) {
        let redirecting = launch.env.keys().find(|name| redirects_traffic(name));
        grant.token = launch.token && (self.token || (trusted && redirecting.is_none()));
        if launch.token && !grant.token && !launch.has_local_model() {
            let why = match (redirecting, launch.image.as_deref()) {
                (Some(name), _) => format!("the environment sets `{name}`, which could send it elsewhere"),
                (None, Some(image)) if kind == RuntimeKind::Docker => {
                    format!("no shipped adapter uses the image `{image}`")
                }
                (None, _) => "no shipped adapter uses the program".to_owned(),
            };
            grant.withheld.push(format!(
                "the Hugging Face token is not given: {why} (allow it with `--allow token`)"
            ));
        }
    }
}

/// Refuses what is never granted.
fn check_forbidden(launch: &Launch) -> Result<()> {
    let refuse = |what: String| {
        Err(Fault::not_allowed(
            format!("{what}: no container gets this"),
            "remove the option, or start the container yourself and attach to it",
        ))
    };
    if launch.privileged {
        return refuse("`privileged`".into());
    }
    if !matches!(launch.network.as_str(), "" | "bridge") {
        return refuse(format!("`network: \"{}\"`", launch.network));
    }
    if !launch.pid.is_empty() {
        return refuse(format!("`pid: \"{}\"`", launch.pid));
    }
    if !matches!(launch.ipc.as_str(), "" | "private") {
        return refuse(format!("`ipc: \"{}\"`", launch.ipc));
    }
    if let Some(device) = launch.devices.first() {
        return refuse(format!("`devices: [\"{device}\"]`"));
    }
    if let Some(capability) = launch.capabilities.first() {
        return refuse(format!("`capabilities: [\"{capability}\"]`"));
    }
    // Locked memory and stacks count as memory anyway; other limits are not needed.
    if let Some(name) = launch
        .ulimits
        .keys()
        .find(|name| !matches!(name.as_str(), "memlock" | "stack"))
    {
        return refuse(format!("`ulimits: #{{ {name}: … }}`"));
    }
    if let Some(option) = launch.security.first() {
        return refuse(format!("`security: [\"{option}\"]`"));
    }
    Ok(())
}

/// Whether the image equals the prefix or lies below it: `ghcr.io/me` covers `ghcr.io/me/engine:1`, not
/// `ghcr.io/mean/engine`.
fn matches(image: &str, prefix: &str) -> bool {
    image
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || prefix.ends_with(['/', ':', '@']) || rest.starts_with(['/', ':', '@']))
}

/// Environment variables that redirect requests, or replace the code that sends them.
fn redirects_traffic(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.contains("PROXY")
        // `…_HEALTH_ENDPOINT_…` concerns the engine's own routes.
        || name.replace("HEALTH_ENDPOINT", "").contains("ENDPOINT")
        || name.contains("CA_BUNDLE")
        || ["LD_", "PYTHON", "SSL_", "PATH", "BASH_ENV", "ENV"]
            .iter()
            .any(|start| name.starts_with(start))
}

/// Whether an argument, file or variable enables code from the model's repository; also abbreviated as Python's
/// argparse allows, inside a shell command, or as JSON.
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
    let plain = text.to_ascii_lowercase().replace('_', "-");
    let abbreviated = plain
        .split_whitespace()
        .map(|word| word.split('=').next().unwrap_or(word))
        .any(|word| word.len() >= 4 && "--trust-remote-code".starts_with(word));
    let refused = ["=false", "=0", "=no", ": false", "\": false", "\":false"];
    let asked = plain
        .match_indices("trust-remote-code")
        .any(|(at, found)| !refused.iter().any(|no| plain[at + found.len()..].starts_with(no)));
    asked || (abbreviated && !plain.contains("trust-remote-code"))
}

fn text(path: PathBuf) -> Result<String> {
    path.into_os_string()
        .into_string()
        .map_err(|path| Fault::usage(format!("the path `{}` is not UTF-8", path.display())))
}
