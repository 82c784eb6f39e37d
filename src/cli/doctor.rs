//! `profiler doctor`: reports what works on this machine, with remedies: Docker, GPUs, model cache, disks, and
//! leftovers of runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::program::{Program, Status, json_text};
use crate::fault::{Fault, Result};
use crate::file::disk_free;
use crate::fmt::GIB;
use crate::prompt::Hub;
use crate::run::forget_allowed;
use crate::runtime::orphans::Orphan;
use crate::runtime::{DockerInfo, GpuAccess, orphans};
use crate::telemetry::GpuInfo;
use crate::{runtime, telemetry};

/// The version of the `--json` document.
const SCHEMA: u32 = 1;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// End and remove leftovers of dead runs; with `=models`, remove the models kept in Docker volumes instead
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "leftovers")]
    clean: Option<Clean>,
    /// Forget permissions that were always allowed: scripts ask again
    #[arg(long)]
    forget_allowed: bool,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Clean {
    Leftovers,
    Models,
}

type Gpus = Result<Vec<GpuInfo>>;

/// Prints one line per check. A missing part is not an error, because not every run needs everything.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let forgotten = if args.forget_allowed {
        Some(forget_allowed()?)
    } else {
        None
    };
    let (daemon, gpus, hub) = (
        program.tasks.wait(async { Ok(runtime::docker_info().await) })?,
        telemetry::gpus(),
        Hub::from_env(),
    );
    let (leftovers, volumes) = program.tasks.wait(async {
        Ok((
            check_leftovers(args.clean == Some(Clean::Leftovers)).await,
            check_volumes(args.clean == Some(Clean::Models)).await,
        ))
    })?;
    let found = daemon.as_ref().ok();
    let images = found.and_then(|daemon| daemon.root.as_ref());
    let checks = [
        ("docker", Some(docker(&daemon))),
        ("container limits", found.map(container_limits)),
        ("gpu", Some(gpu(&gpus))),
        ("gpu in docker", gpu_in_docker(&daemon, &gpus)),
        ("model cache", Some(model_cache(&hub))),
        ("hub token", Some(hub_token(&hub))),
        ("disk of runs", Some(disk(Path::new(".")))),
        ("disk of images", images.map(|root| disk(Path::new(root)))),
        ("leftovers", Some(leftovers)),
        ("model volumes", volumes),
        ("forgotten", forgotten.map(forgot)),
    ];
    let named = checks
        .into_iter()
        .filter_map(|(name, found)| Some(Finding { name, ..found? }));
    let findings: Vec<Finding> = named.collect();
    let text = if args.json {
        json_text(&json!({"schema": SCHEMA, "checks": findings}))?
    } else {
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        lines.join("\n")
    };
    program.terminal.print(&text)?;
    Ok(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Ok,
    /// Missing; runs that need it end with exit status 3.
    Absent,
    /// Present, but with a problem.
    Attention,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// One of [`CHECKS`].
    name: &'static str,
    health: Health,
    detail: String,
    remedy: Option<String>,
}

impl Finding {
    fn new(health: Health, detail: impl Into<String>, remedy: Option<String>) -> Self {
        Self {
            name: "",
            health,
            detail: detail.into(),
            remedy,
        }
    }

    fn ok(detail: impl Into<String>) -> Self {
        Self::new(Health::Ok, detail, None)
    }

    fn absent(detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Health::Absent, detail, Some(remedy.into()))
    }

    fn attention(detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Health::Attention, detail, Some(remedy.into()))
    }
}

impl From<&Fault> for Finding {
    fn from(fault: &Fault) -> Self {
        Self::new(Health::Absent, &fault.message, fault.hint.clone())
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let health = match self.health {
            Health::Ok => "ok",
            Health::Absent => "absent",
            Health::Attention => "look",
        };
        write!(f, "{health:<7} {:<16} {}", self.name, self.detail)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n{:24} → {remedy}", ""),
            None => Ok(()),
        }
    }
}

/// Minimum free disk space for one GPU engine's image (vLLM's takes about 30 GB unpacked).
const MIN_FREE: u64 = 40_000_000_000;

fn docker(daemon: &Result<DockerInfo>) -> Finding {
    match daemon {
        Ok(daemon) => {
            let podman = if daemon.podman { "podman " } else { "" };
            let rootless = if daemon.rootless { ", rootless" } else { "" };
            let (version, address, api) = (&daemon.version, &daemon.address, &daemon.api);
            Finding::ok(format!("{podman}{version} at {address}, API {api}{rootless}"))
        }
        Err(fault) => fault.into(),
    }
}

fn container_limits(daemon: &DockerInfo) -> Finding {
    if !daemon.memory_limit && daemon.rootless {
        return Finding::attention(
            "memory limits are not kept without root's rights on this machine",
            "boot with cgroups of version 2 only (`systemd.unified_cgroup_hierarchy=1`), and let systemd delegate the memory controller to users (`Delegate=memory`)",
        );
    }
    if !daemon.memory_limit {
        return Finding::attention(
            "memory limits are not kept",
            "enable the memory controller of cgroups (`cgroup_enable=memory`)",
        );
    }
    if !daemon.swap_limit {
        return Finding::attention(
            "memory limits are kept, swap limits are not: a container may swap beyond its memory limit",
            "turn swap off, or boot with `swapaccount=1`",
        );
    }
    Finding::ok("memory and swap limits are kept")
}

fn gpu(gpus: &Gpus) -> Finding {
    let shown = |gpu: &GpuInfo| {
        let (used, total) = (gpu.used as f64 / GIB, gpu.total as f64 / GIB);
        let text = format!("{} {} {used:.1} of {total:.1} GiB used", gpu.index, gpu.name);
        match &gpu.driver {
            Some(driver) => format!("{text}, driver {driver}"),
            None => text,
        }
    };
    match gpus {
        Ok(gpus) => Finding::ok(gpus.iter().map(shown).collect::<Vec<_>>().join("; ")),
        Err(fault) => fault.into(),
    }
}

/// Whether containers can have the GPUs, and how. Without a GPU, the remedy for a daemon that is not set up for one
/// would only mislead; a podman that ignores requests for GPUs is reported in any case.
fn gpu_in_docker(daemon: &Result<DockerInfo>, gpus: &Gpus) -> Option<Finding> {
    let daemon = daemon.as_ref().ok()?;
    let has_gpu = gpus.is_ok() || Path::new("/dev/nvidiactl").exists();
    let ignores_gpus = daemon.podman && !daemon.injects_cdi();
    let gpus = gpus.as_deref().unwrap_or_default();
    let vendor = gpus.first().map_or("nvidia", |gpu| gpu.vendor.name());
    let way = match runtime::gpu_access(vendor, daemon) {
        Ok(way) => way,
        Err(_) if !has_gpu && !ignores_gpus => return None,
        Err(fault) => return Some(Finding::attention(fault.message, fault.hint.unwrap_or_default())),
    };
    if way != GpuAccess::Files {
        return Some(Finding::ok(way.to_string()));
    }
    let files = gpus.first()?.vendor.files(gpus)?;
    let missing = files.devices.iter().find(|file| !Path::new(file).exists());
    Some(match missing {
        None => Finding::ok(format!("{} are there", files.devices.join(", "))),
        Some(file) => Finding::attention(format!("{file} is not there"), "load the GPU's driver"),
    })
}

fn model_cache(hub: &Result<Hub>) -> Finding {
    let hub = match hub {
        Ok(hub) => hub,
        Err(fault) => return fault.into(),
    };
    let shown = hub.cache.display();
    let offline = if hub.offline { ", offline (HF_HUB_OFFLINE)" } else { "" };
    match fs::read_dir(&hub.cache) {
        Ok(entries) => {
            let is_model = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("models--");
            let models = entries.flatten().filter(|entry| is_model(&entry.file_name())).count();
            Finding::ok(format!("{models} models in {shown}{offline}"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Finding::absent(
            format!("{shown} is not there yet{offline}"),
            "it is made when the first model or tokenizer is fetched; HF_HOME puts it elsewhere",
        ),
        Err(error) => Finding::attention(
            format!("{shown}: {error}"),
            "make it readable, or set HF_HOME to another folder",
        ),
    }
}

/// Reports only whether a token exists. The token itself is never printed.
fn hub_token(hub: &Result<Hub>) -> Finding {
    match hub {
        Ok(hub) if hub.token.is_some() => Finding::ok("there is one"),
        _ => Finding::absent(
            "there is none: gated models cannot be fetched",
            "set HF_TOKEN, or run `hf auth login`",
        ),
    }
}

fn disk(path: &Path) -> Finding {
    let shown = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let Some(free) = disk_free(path) else {
        return Finding::absent(
            format!("{} cannot be seen from here", shown.display()),
            "look at it where Docker runs",
        );
    };
    let detail = format!("{:.1} GB free at {}", free as f64 / 1e9, shown.display());
    if free < MIN_FREE {
        Finding::attention(
            detail,
            "an engine's image may need 40 GB: free some with `docker system prune`",
        )
    } else {
        Finding::ok(detail)
    }
}

/// Finds containers with our labels whose host process is dead.
async fn check_leftovers(clean: bool) -> Finding {
    let found = orphans::containers().await.unwrap_or_default();
    let (dead, elsewhere): (Vec<Orphan>, Vec<Orphan>) = found.into_iter().partition(|orphan| orphan.dead);
    match (dead.as_slice(), elsewhere.as_slice()) {
        ([], []) => Finding::ok("none"),
        ([], some) => Finding::attention(
            format!("of runs that cannot be seen from here: {}", names(some)),
            "run `profiler doctor --clean` where those runs were started",
        ),
        (dead, _) if !clean => Finding::attention(
            format!("of dead runs: {}", names(dead)),
            "end them with `profiler doctor --clean`",
        ),
        (dead, _) => match orphans::end(dead).await {
            Ok(()) => Finding::ok(format!("ended: {}", names(dead))),
            Err(fault) => Finding::from(&fault),
        },
    }
}

/// Finds volumes with models that containers downloaded; `None` if there are none.
async fn check_volumes(clean: bool) -> Option<Finding> {
    // Another check reports a missing daemon.
    let found = runtime::model_volumes().await.ok().filter(|found| !found.is_empty())?;
    let names = found.join(", ");
    if !clean {
        let remedy = "`profiler doctor --clean=models` removes them: they are downloaded again when they are needed";
        return Some(Finding::new(Health::Ok, names, Some(remedy.to_owned())));
    }
    Some(match runtime::remove_model_volumes(&found).await {
        Ok(()) => Finding::ok(format!("removed: {names}")),
        Err(fault) => Finding::attention(fault.message, "end the containers that use it, and try again"),
    })
}

fn forgot(forgotten: Vec<String>) -> Finding {
    Finding::ok(match forgotten.as_slice() {
        [] => "nothing: no script was always allowed anything".to_owned(),
        some => format!("always allowed before: {}", some.join(", ")),
    })
}

fn names(orphans: &[Orphan]) -> String {
    let names = orphans
        .iter()
        .map(|orphan| format!("container {} of {}", orphan.name, orphan.run));
    names.collect::<Vec<_>>().join(", ")
}
