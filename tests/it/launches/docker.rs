//! A user starts each engine in a container: the whole creation request of its adapter, sent to a fake daemon.

use serde_json::{Value, json};

use crate::runtime::daemon::{Daemon, message};
use crate::support::Profiler;

/// A daemon that accepts every request, and whose containers exit at once.
fn daemon() -> Daemon {
    Daemon::new(|asked| match asked {
        "GET /info" => (200, json!({ "DockerRootDir": "/", "Runtimes": { "nvidia": {} } })),
        "POST /containers/create" => (201, json!({ "Id": "c0ffee", "Warnings": [] })),
        "POST /containers/c0ffee/start" | "DELETE /containers/c0ffee" => (204, Value::Null),
        "PUT /containers/c0ffee/archive" => (200, Value::Null),
        "GET /containers/c0ffee/json" => (
            200,
            json!({ "State": { "Running": false, "ExitCode": 1, "OOMKilled": false } }),
        ),
        "GET /containers/c0ffee/logs" => (200, Value::Null),
        asked if asked.starts_with("GET /images/") => (200, json!({ "Id": "sha256:1" })),
        _ => message(404, "not found"),
    })
}

/// The creation request without the labels and the host port, which other tests cover.
fn created(engine: &str, options: &str) -> (Value, Daemon) {
    let daemon = daemon();
    let script = format!(
        "import \"std/engines\" as engines;
         engines::describe(\"{engine}\", #{{ model: \"org/model\", limits: #{{ input: 6000, output: 500, concurrency: 16 }}, {options} }}).start()"
    );
    // The container has exited at the first inspection.
    let _ = daemon.run(&script, &[]).code(3);
    let mut bodies = daemon.asked("POST /containers/create");
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    let mut body = bodies.remove(0);
    body.as_object_mut().unwrap().remove("Labels").unwrap();
    let bindings = body["HostConfig"]["PortBindings"].as_object_mut().unwrap();
    for bound in bindings.values_mut() {
        assert_eq!(bound[0]["HostIp"], "127.0.0.1");
        *bound = Value::Null;
    }
    (body, daemon)
}

/// The host configuration common to all engines: loopback, no privileges, the named GPUs.
fn host(port: &str, shm: u64) -> Value {
    json!({
        "DeviceRequests": [{ "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]] }],
        "Init": true, "Mounts": [], "NetworkMode": "bridge", "PortBindings": { port: null }, "Privileged": false,
        "SecurityOpt": ["no-new-privileges"], "CapDrop": ["ALL"], "PidsLimit": 32768, "ShmSize": shm,
    })
}

#[test]
fn vllm() {
    let options = "gpus: [0, 1], tensor_parallel: 2, memory_fraction: 0.85, kv_cache_dtype: \"fp8\", random_weights: true, cuda_graphs: false, \
                   prefix_cache: false, env: #{ MINE: \"1\" }";
    let (body, _) = created("vllm", options);
    let expected = json!({
        "Image": "vllm/vllm-openai:v0.24.0",
        "Entrypoint": ["vllm"],
        "Cmd": [
            "serve", "org/model", "--host=0.0.0.0", "--port=8000", "--max-model-len=6500", "--max-num-seqs=16",
            "--load-format=dummy", "--gpu-memory-utilization=0.85", "--kv-cache-dtype=fp8", "--tensor-parallel-size=2", "--enforce-eager",
            "--no-enable-prefix-caching",
        ],
        "Env": ["MINE=1", "VLLM_DO_NOT_TRACK=1", "VLLM_ENABLE_STARTUP_PLAN=0", "VLLM_LOGGING_COLOR=0", "VLLM_NO_USAGE_STATS=1"],
        "ExposedPorts": { "8000/tcp": {} },
        "HostConfig": host("8000/tcp", 8_589_934_592),
    });
    assert_eq!(body, expected, "{body:#}");
}

/// The volume for a model that is not in the hub cache; there is none if the script sets an environment variable of its
/// own.
fn kept() -> Value {
    json!([{ "Type": "volume", "Source": "profiler-models--org--model", "Target": "/root/.cache/huggingface/hub" }])
}

#[test]
fn sglang() {
    let options = "gpus: [0, 1], tensor_parallel: 2, memory_fraction: 0.85, kv_cache_dtype: \"fp8\", random_weights: true, cuda_graphs: false, \
                   prefix_cache: false";
    let (body, _) = created("sglang", options);
    let mut limited = host("30000/tcp", 34_359_738_368);
    limited["Mounts"] = kept();
    let expected = json!({
        "Image": "lmsysorg/sglang:v0.5.23",
        "Entrypoint": ["python3"],
        "Cmd": [
            "-m", "sglang.launch_server", "--host=0.0.0.0", "--port=30000", "--model-path=org/model", "--enable-metrics",
            "--context-length=6502", "--max-running-requests=16", "--load-format=dummy", "--mem-fraction-static=0.85", "--kv-cache-dtype=fp8_e4m3", "--tp-size=2",
            "--disable-cuda-graph", "--disable-radix-cache",
        ],
        "Env": ["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=0"],
        "ExposedPorts": { "30000/tcp": {} },
        "HostConfig": limited,
    });
    assert_eq!(body, expected, "{body:#}");
}

#[test]
fn tensorrt_llm() {
    let (body, daemon) = created("tensorrt_llm", "gpus: [0, 1], tensor_parallel: 2, random_weights: true");
    let mut limited = host("8000/tcp", 8_589_934_592);
    limited["Mounts"] = kept();
    limited["Ulimits"] = json!([
        { "Name": "memlock", "Soft": -1, "Hard": -1 },
        { "Name": "stack", "Soft": 67_108_864, "Hard": 67_108_864 },
    ]);
    let expected = json!({
        "Image": "nvcr.io/nvidia/tensorrt-llm/release:1.2.1",
        "Cmd": [
            "trtllm-serve", "org/model", "--host=0.0.0.0", "--port=8000", "--max_seq_len=6500", "--max_batch_size=16",
            "--enable_chunked_prefill", "--log_level=info", "--extra_llm_api_options=/profiler-files/options.yaml", "--tp_size=2",
        ],
        "Env": [],
        "ExposedPorts": { "8000/tcp": {} },
        "HostConfig": limited,
    });
    assert_eq!(body, expected, "{body:#}");
    // The file is copied into the container before it starts.
    let asked: Vec<_> = daemon
        .questions()
        .into_iter()
        .filter(|asked| asked.contains("c0ffee"))
        .collect();
    assert_eq!(
        asked[..2],
        ["PUT /containers/c0ffee/archive", "POST /containers/c0ffee/start"]
    );
}

/// The GPUs are named as the CDI specification on disk names them.
#[test]
fn a_daemon_with_cdi_is_asked_for_cdi_devices() {
    let folder = crate::support::temp();
    let specification = r#"{"kind": "nvidia.com/gpu", "devices": [{"name": "0"}, {"name": "1"}]}"#;
    std::fs::write(folder.path().join("nvidia.json"), specification).unwrap();
    let folders = json!([folder.path().to_str().unwrap()]);
    let info =
        json!({ "DockerRootDir": "/", "Runtimes": { "runc": {} }, "DefaultRuntime": "runc", "CDISpecDirs": folders });
    let daemon = Daemon::new(move |asked| match asked {
        "GET /version" => (200, json!({ "Version": "26.1.5", "ApiVersion": "1.41" })),
        "GET /info" => (200, info.clone()),
        asked if asked.starts_with("GET /images/") => (200, json!({ "Id": "sha256:1" })),
        "POST /containers/create" => message(500, "far enough"),
        _ => message(404, "not found"),
    });
    let start = |gpus: &str| {
        let script = format!(r#"docker::start(#{{ image: "engine:1", gpus: {gpus} }})"#);
        daemon.run(&script, &[])
    };
    let _ = start("[1, 0]").stderr("far enough");
    let body = daemon.asked("POST /containers/create").remove(0);
    let requests = json!([{
        "Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=1", "nvidia.com/gpu=0"], "Capabilities": [["gpu"]],
    }]);
    assert_eq!(body["HostConfig"]["DeviceRequests"], requests, "{body:#}");
    let _ = start("[2]").code(3).stderr("nvidia.com/gpu=1");
}

/// Only a folder with SELinux's label for containers can be read in one. Podman says only in its own part of the API that
/// the machine has SELinux.
#[test]
fn mounted_folders_get_the_label_of_containers_where_selinux_is() {
    let podman = json!({ "Version": "4.3.1", "ApiVersion": "1.41", "Components": [{ "Name": "Podman Engine", "Version": "4.3.1" }] });
    let docker = json!({ "Version": "26.1.5", "ApiVersion": "1.41" });
    for (version, options) in [(docker, json!(["name=selinux"])), (podman, json!([]))] {
        let daemon = Daemon::new(move |asked| match asked {
            "GET /version" => (200, version.clone()),
            "GET /info" => (
                200,
                json!({ "DockerRootDir": "/", "Runtimes": {}, "SecurityOptions": options }),
            ),
            "GET /v4.3.1/libpod/info" => (
                200,
                json!({ "host": { "security": { "rootless": false, "selinuxEnabled": true } } }),
            ),
            asked if asked.starts_with("GET /images/") => (200, json!({ "Id": "sha256:1" })),
            "POST /containers/create" => message(500, "far enough"),
            _ => message(404, "not found"),
        });
        let folder = crate::support::temp();
        let script = format!(
            r##"docker::start(#{{ image: "engine:1", mounts: [#{{ host: {:?}, container: "/data" }}] }})"##,
            folder.path()
        );
        let allowed = format!("mount={}", folder.path().display());
        let _ = daemon.run(&script, &["--allow", &allowed]).stderr("far enough");
        let host = &daemon.asked("POST /containers/create")[0]["HostConfig"];
        let bind = format!("{}:/data:ro,z", folder.path().canonicalize().unwrap().display());
        assert_eq!(host["Binds"], json!([bind]), "{host}");
    }
}

/// The user's words for `docker run`, on our command line.
#[test]
fn flags_of_docker_reach_the_container() {
    let daemon = daemon();
    let run = |words: &str| {
        let program = Profiler::new().file("data/x", "").file("token", "hf_Secret9\n");
        let program = program
            .env("DOCKER_HOST", daemon.host())
            .env("HF_ENDPOINT", "http://127.0.0.1:1");
        program
            .args("run adaptive --engine vllm --model org/model --input 64 --output 8 --out out".split(' '))
            .args(words.split(' '))
            .run()
    };
    let outcome =
        run("--runtime nvidia --gpus device=0,1 --host-port 18080 --mounts ./data:/data --hf-token-env ./token");
    let outcome = outcome.code(3).nowhere("hf_Secret9");
    let bodies = daemon.asked("POST /containers/create");
    assert_eq!(bodies.len(), 1, "{}", outcome.stderr);
    let host = &bodies[0]["HostConfig"];
    assert_eq!(
        (&host["Runtime"], &host["DeviceRequests"]),
        (&json!("nvidia"), &Value::Null)
    );
    assert_eq!(host["PortBindings"]["8000/tcp"][0]["HostPort"], "18080");
    let folder = outcome.folder().join("data").canonicalize().unwrap();
    let mount = json!({ "Type": "bind", "Source": folder, "Target": "/data", "ReadOnly": true });
    assert!(host["Mounts"].as_array().unwrap().contains(&mount), "{host}");
    let env = bodies[0]["Env"].to_string();
    for part in ["NVIDIA_VISIBLE_DEVICES=0,1", "HF_TOKEN=hf_Secret9"] {
        assert!(env.contains(part), "{env}");
    }

    let refused = |words: &str, code: i32, said: &str| run(words).code(code).stderr(said);
    let _ = refused("--runtime amd", 3, "no runtime called `amd`: it has nvidia");
    let _ = refused("--runtime nvidia --gpus []", 3, "none is named or found");
    let _ = refused("--mounts ./data:/data:rw", 3, "--allow mount=");
    let _ = refused("--mounts ./data", 2, "HOST:INSIDE");
    // vLLM keeps models below it.
    let _ = refused("--mounts ./data:/root/.cache", 2, "--hf-home");
    let _ = refused("--hf-token-env hf_Secret9", 3, "never the token itself").nowhere("hf_Secret9");
    assert_eq!(daemon.asked("POST /containers/create").len(), 1);
}

/// Neither the token nor a folder is chosen by a parameter of somebody else's script.
#[test]
fn a_script_of_ones_own_chooses_no_token_and_no_cache() {
    let daemon = daemon();
    for (option, remedy) in [("hf_token_env", "HF_TOKEN"), ("hf_home", "HF_HOME")] {
        let script = format!(
            "import \"std/engines\" as engines;
             engines::describe(\"vllm\", #{{ model: \"org/model\", {option}: params(#{{ {option}: param(\"\", \"x\") }}).{option} }}).start()"
        );
        let _ = daemon
            .run(&script, &["--set", &format!("{option}=HOME")])
            .code(3)
            .stderr(remedy);
    }
    assert_eq!(daemon.asked("POST").len(), 0);
}
