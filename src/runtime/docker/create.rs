//! Builds the request that creates a container from launch, permissions and the machine's facts. Pure.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType, PortBinding, ResourcesUlimits};

use super::gpu::{self, Gpus};
use crate::runtime::{Grant, Launch};

/// Inputs that are not part of the launch.
pub(super) struct CreateParams {
    pub(super) image: String,
    /// Loopback port to publish on.
    pub(super) host_port: u16,
    pub(super) labels: HashMap<String, String>,
    pub(super) gpus: Option<Gpus>,
    /// The host's model cache, if it is to be mounted.
    pub(super) cache: Option<String>,
    /// Environment variables with the token.
    pub(super) token: Vec<(&'static str, String)>,
}

pub(super) fn request(launch: &Launch, grant: &Grant, params: CreateParams) -> ContainerCreateBody {
    let mut env: Vec<String> = launch
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    env.extend(params.token.iter().map(|(name, value)| format!("{name}={value}")));
    let mut mounts: Vec<Mount> = grant
        .mounts
        .iter()
        .map(|mount| bind(&mount.host, &mount.container, mount.writable))
        .collect();
    if let (Some(host), Some(inside)) = (&params.cache, &launch.cache) {
        mounts.push(bind(host, inside, false));
    }
    let limit = launch.memory_limit.map(to_i64);
    let mut host = HostConfig {
        mounts: Some(mounts),
        shm_size: launch.shm_size.map(to_i64),
        memory: limit,
        // Equal to the memory limit, so no swap is allowed.
        memory_swap: limit,
        ulimits: (!launch.ulimits.is_empty()).then(|| launch.ulimits.iter().map(ulimit).collect()),
        // Init process: reaps zombies of the engine's workers and forwards signals.
        init: Some(true),
        network_mode: Some("bridge".to_owned()),
        privileged: Some(false),
        // No privilege escalation by setuid programs of the image.
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        ..HostConfig::default()
    };
    if let Some(gpus) = &params.gpus {
        gpu::add_to(gpus, &mut host, &mut env);
    }
    let port = format!("{}/tcp", launch.port);
    if launch.port != 0 {
        let binding = PortBinding {
            host_ip: Some("127.0.0.1".to_owned()),
            host_port: Some(params.host_port.to_string()),
        };
        host.port_bindings = Some([(port.clone(), Some(vec![binding]))].into());
    }
    ContainerCreateBody {
        image: Some(params.image),
        entrypoint: (!launch.entrypoint.is_empty()).then(|| launch.entrypoint.clone()),
        cmd: (!launch.args.is_empty()).then(|| launch.args.clone()),
        env: Some(env),
        exposed_ports: (launch.port != 0).then(|| vec![port]),
        labels: Some(params.labels),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

fn bind(host: &str, inside: &str, writable: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(host.to_owned()),
        target: Some(inside.to_owned()),
        read_only: Some(!writable),
        ..Mount::default()
    }
}

fn ulimit((name, limit): (&String, &i64)) -> ResourcesUlimits {
    ResourcesUlimits {
        name: Some(name.clone()),
        soft: Some(*limit),
        hard: Some(*limit),
    }
}

fn to_i64(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::runtime;
    use crate::telemetry::AmdCards;

    fn created(launch: &Launch, grant: &Grant) -> ContainerCreateBody {
        let params = CreateParams {
            image: "engine:1".into(),
            host_port: 4711,
            labels: HashMap::new(),
            gpus: None,
            cache: Some("/home/me/hub".into()),
            token: vec![("HF_TOKEN", "hf_secret".into())],
        };
        request(launch, grant, params)
    }

    #[test]
    fn defaults_grant_nothing() {
        let body = created(&Launch::default(), &Grant::default());
        let host = body.host_config.unwrap();
        assert_eq!(host.privileged, Some(false));
        assert_eq!(host.network_mode.as_deref(), Some("bridge"));
        assert_eq!(host.mounts, Some(vec![]));
        assert_eq!((host.port_bindings, body.exposed_ports), (None, None));
        assert_eq!(
            (host.cap_add, host.devices, host.pid_mode, host.ipc_mode),
            (None, None, None, None)
        );
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned()]));
    }

    #[test]
    fn the_port_is_on_loopback_and_swap_equals_memory() {
        let launch = Launch {
            port: 8000,
            memory_limit: Some(1 << 30),
            ..Launch::default()
        };
        let host = created(&launch, &Grant::default()).host_config.unwrap();
        let bindings = host.port_bindings.unwrap().remove("8000/tcp").unwrap().unwrap();
        assert_eq!(bindings[0].host_ip.as_deref(), Some("127.0.0.1"));
        assert_eq!(bindings[0].host_port.as_deref(), Some("4711"));
        assert_eq!((host.memory, host.memory_swap), (Some(1 << 30), Some(1 << 30)));
    }

    /// Simulates three GPUs in sysfs.
    #[test]
    fn amd_gpus_get_their_own_device_files_and_groups_and_no_privilege() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (card, render) in [(1, 128), (2, 129), (3, 130)] {
            let device = format!("sys/class/drm/card{card}/device");
            write(&format!("{device}/mem_info_vram_used"), "1");
            write(&format!("{device}/mem_info_vram_total"), "100");
            write(&format!("{device}/unique_id"), &format!("{card:016x}"));
            write(&format!("{device}/drm/card{card}/dev"), "226:1");
            write(&format!("{device}/drm/renderD{render}/dev"), "226:128");
        }
        let cards = AmdCards {
            sys: folder.path().join("sys"),
            proc: folder.path().join("proc"),
        };
        // First and third GPU.
        let chosen: Vec<_> = cards.list().unwrap().into_iter().step_by(2).collect();
        let params = CreateParams {
            image: "vllm/vllm-openai-rocm:v1".into(),
            host_port: 1,
            labels: HashMap::new(),
            gpus: Some(Gpus::Amd(gpu::Amd::new(&chosen, Path::new("/dev")))),
            cache: None,
            token: Vec::new(),
        };
        let body = request(&Launch::default(), &Grant::default(), params);
        let host = body.host_config.unwrap();
        let devices: Vec<_> = host
            .devices
            .unwrap()
            .into_iter()
            .flat_map(|device| device.path_on_host)
            .collect();
        let files = [
            "/dev/kfd",
            "/dev/dri/card1",
            "/dev/dri/renderD128",
            "/dev/dri/card3",
            "/dev/dri/renderD130",
        ];
        assert_eq!(devices, files);
        assert!(host.group_add.unwrap().contains(&"video".to_owned()));
        assert!(body.env.unwrap().contains(&"HIP_VISIBLE_DEVICES=0,1".to_owned()));
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned()]));
        assert_eq!(
            (host.device_requests, host.privileged, host.ipc_mode),
            (None, Some(false), None)
        );
    }

    #[test]
    fn the_cache_is_read_only_and_mounts_are_as_granted() {
        let launch = Launch {
            cache: Some("/cache".into()),
            ..Launch::default()
        };
        let grant = Grant {
            mounts: vec![runtime::Mount {
                host: "/models".into(),
                container: "/m".into(),
                writable: true,
            }],
            ..Grant::default()
        };
        let mounts = created(&launch, &grant).host_config.unwrap().mounts.unwrap();
        let bound: Vec<_> = mounts
            .iter()
            .map(|mount| (mount.source.as_deref().unwrap(), mount.read_only))
            .collect();
        assert_eq!(bound, [("/models", Some(false)), ("/home/me/hub", Some(true))]);
    }
}
