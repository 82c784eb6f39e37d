//! `profiler doctor`: reports what works on this machine, with remedies: Docker, GPUs, model cache, disks, ports,
//! and what dead runs left behind.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::program::{Program, Status, json_text};
use crate::fault::{Fault, Result};
use crate::fmt::GIB;
use crate::prompt::Hub;
use crate::runtime::orphans::Orphan;
use crate::runtime::{DockerInfo, orphans};
use crate::telemetry::{GpuInfo, Vendor};
use crate::{runtime, telemetry};

/// The version of the `--json` document.
const SCHEMA: u32 = 1;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// End and remove what dead runs left behind
    #[arg(long)]
    clean: bool,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Prints one line per check. A missing part is no error: not every run needs everything.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let findings = program.tasks.wait(async {
        let mut findings = check_machine().await;
        findings.push(check_leftovers(args.clean).await);
        Ok(findings)
    })?;
    let text = if args.json {
        let document = json!({"schema": SCHEMA, "checks": findings});
        json_text(&document)?
    } else {
        lines(&findings)
    };
    program.terminal.print(&text)?;
    Ok(0)
}

fn lines(findings: &[Finding]) -> String {
    let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
    shown.join("\n")
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
    name: &'static str,
    health: Health,
    detail: String,
    remedy: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            health: Health::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn absent(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            health: Health::Absent,
            remedy: Some(remedy.into()),
            ..Self::ok(name, detail)
        }
    }

    fn attention(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            health: Health::Attention,
            ..Self::absent(name, detail, remedy)
        }
    }

    fn from_fault(name: &'static str, fault: Fault) -> Self {
        Self {
            remedy: fault.hint,
            health: Health::Absent,
            ..Self::ok(name, fault.message)
        }
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

/// All checks except for leftovers of dead runs.
async fn check_machine() -> Vec<Finding> {
    let daemon = runtime::docker_info().await;
    let root = daemon.as_ref().ok().and_then(|daemon| daemon.root.clone());
    let gpus = telemetry::gpus();
    let mut findings = match &daemon {
        Ok(daemon) => vec![docker(daemon), limits(daemon)],
        Err(fault) => vec![Finding::from_fault("docker", fault.clone())],
    };
    match &gpus {
        Ok(gpus) => {
            findings.push(Finding::ok("gpu", gpus.iter().map(gpu).collect::<Vec<_>>().join("; ")));
            findings.extend(daemon.iter().filter_map(|daemon| in_containers(gpus, daemon)));
        }
        Err(absent) => findings.push(Finding::absent("gpu", &absent.why, &absent.remedy)),
    }
    findings.extend([model_cache(), token()]);
    findings.push(disk("disk of runs", Path::new(".")));
    findings.extend(root.map(|root| disk("disk of images", Path::new(&root))));
    findings.push(port());
    findings
}

fn docker(daemon: &DockerInfo) -> Finding {
    Finding::ok(
        "docker",
        format!("{} at {}, API {}", daemon.version, daemon.address, daemon.api),
    )
}

fn limits(daemon: &DockerInfo) -> Finding {
    match (daemon.memory_limit, daemon.swap_limit) {
        (true, true) => Finding::ok("container limits", "memory and swap limits are kept"),
        (true, false) => Finding::attention(
            "container limits",
            "memory limits are kept, swap limits are not: a container may swap beyond its memory limit",
            "turn swap off, or boot with `swapaccount=1`",
        ),
        (false, _) => Finding::attention(
            "container limits",
            "memory limits are not kept",
            "enable the memory controller of cgroups (`cgroup_enable=memory`)",
        ),
    }
}

fn gpu(gpu: &GpuInfo) -> String {
    let gib = |bytes: u64| bytes as f64 / GIB;
    let driver = gpu
        .driver
        .as_ref()
        .map_or_else(String::new, |driver| format!(", driver {driver}"));
    format!(
        "{} {} {:.1} of {:.1} GiB used{driver}",
        gpu.index,
        gpu.name,
        gib(gpu.used),
        gib(gpu.total)
    )
}

/// Whether Docker can pass the GPUs to containers; `None` if that needs no setup.
fn in_containers(gpus: &[GpuInfo], daemon: &DockerInfo) -> Option<Finding> {
    const NAME: &str = "gpu in docker";
    let has = |vendor| gpus.iter().any(|gpu| gpu.vendor == vendor);
    if has(Vendor::Nvidia) {
        return Some(if daemon.runtimes.iter().any(|name| name == "nvidia") {
            Finding::ok(NAME, "the NVIDIA runtime is set up")
        } else {
            Finding::attention(
                NAME,
                "Docker has no runtime called `nvidia`",
                "install the NVIDIA container toolkit and run `sudo nvidia-ctk runtime configure --runtime=docker`, then restart Docker",
            )
        });
    }
    has(Vendor::Amd).then(|| {
        if ["/dev/kfd", "/dev/dri"].iter().all(|path| Path::new(path).exists()) {
            Finding::ok(NAME, "/dev/kfd and /dev/dri are there")
        } else {
            Finding::attention(
                NAME,
                "/dev/kfd or /dev/dri is not there",
                "load the amdgpu driver with ROCm support",
            )
        }
    })
}

fn model_cache() -> Finding {
    const NAME: &str = "model cache";
    let hub = match Hub::from_env() {
        Ok(hub) => hub,
        Err(fault) => return Finding::from_fault(NAME, fault),
    };
    let shown = hub.cache.display();
    let offline = if hub.offline { ", offline (HF_HUB_OFFLINE)" } else { "" };
    match fs::read_dir(&hub.cache) {
        Ok(entries) => {
            let is_model = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("models--");
            let models = entries.flatten().filter(|entry| is_model(&entry.file_name())).count();
            Finding::ok(NAME, format!("{models} models in {shown}{offline}"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Finding::absent(
            NAME,
            format!("{shown} is not there yet{offline}"),
            "it is made when the first model or tokenizer is fetched; HF_HOME puts it elsewhere",
        ),
        Err(error) => Finding::attention(
            NAME,
            format!("{shown}: {error}"),
            "make it readable, or set HF_HOME to another folder",
        ),
    }
}

/// Only whether a token exists: the token itself is never printed.
fn token() -> Finding {
    const NAME: &str = "hub token";
    match Hub::from_env() {
        Ok(hub) if hub.token.is_some() => Finding::ok(NAME, "there is one"),
        _ => Finding::absent(
            NAME,
            "there is none: gated models cannot be fetched",
            "set HF_TOKEN, or run `hf auth login`",
        ),
    }
}

fn disk(name: &'static str, path: &Path) -> Finding {
    let shown = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let Some(free) = runtime::disk_free(path) else {
        return Finding::absent(
            name,
            format!("{} cannot be seen from here", shown.display()),
            "look at it where Docker runs",
        );
    };
    let detail = format!("{:.1} GB free at {}", free as f64 / 1e9, shown.display());
    if free < MIN_FREE {
        return Finding::attention(
            name,
            detail,
            "an engine's image may need 40 GB: free some with `docker system prune`",
        );
    }
    Finding::ok(name, detail)
}

fn port() -> Finding {
    match TcpListener::bind("127.0.0.1:0") {
        Ok(_) => Finding::ok("ports", "127.0.0.1 has free ones"),
        Err(error) => Finding::attention(
            "ports",
            format!("no port of 127.0.0.1 can be taken: {error}"),
            "see what holds them: `ss --listening --tcp`",
        ),
    }
}

const LEFTOVERS: &str = "leftovers";

/// Looks for containers and processes with our mark whose host process is dead. Without Docker, for processes
/// only.
async fn check_leftovers(clean: bool) -> Finding {
    let mut found = orphans::processes();
    found.extend(orphans::containers().await.unwrap_or_default());
    let (dead, elsewhere): (Vec<Orphan>, Vec<Orphan>) = found.into_iter().partition(|orphan| orphan.dead);
    if dead.is_empty() {
        return match elsewhere.as_slice() {
            [] => Finding::ok(LEFTOVERS, "none"),
            some => Finding::attention(
                LEFTOVERS,
                format!("of runs that cannot be seen from here: {}", names(some)),
                "run `profiler doctor --clean` where those runs were started",
            ),
        };
    }
    if !clean {
        return Finding::attention(
            LEFTOVERS,
            format!("of dead runs: {}", names(&dead)),
            "end them with `profiler doctor --clean`",
        );
    }
    match end(&dead).await {
        Ok(()) => Finding::ok(LEFTOVERS, format!("ended: {}", names(&dead))),
        Err(fault) => Finding::from_fault(LEFTOVERS, fault),
    }
}

async fn end(dead: &[Orphan]) -> Result<()> {
    orphans::end(dead).await.map(|_| ())
}

fn names(orphans: &[Orphan]) -> String {
    let names = orphans
        .iter()
        .map(|orphan| format!("{} {} of {}", orphan.kind, orphan.name, orphan.run));
    names.collect::<Vec<_>>().join(", ")
}
