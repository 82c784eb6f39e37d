//! The checks: Docker, GPUs, model cache, disks, ports.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::prompt::Hub;
use crate::runtime::{self, DockerInfo};
use crate::telemetry::{self, GpuInfo, Vendor};

/// Minimum free disk space for one GPU engine's image (vLLM's takes about 30 GB unpacked).
const MIN_FREE: u64 = 40_000_000_000;

/// All checks except for leftovers of dead runs.
pub(super) async fn all() -> Vec<Finding> {
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
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
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
