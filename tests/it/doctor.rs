//! A user runs `profiler doctor`: it reports what works and what to do, and fails only if it cannot find out.

use serde_json::{Value, json};

use crate::runtime::daemon::{Daemon, message};
use crate::support::{Profiler, needs_docker};

#[test]
fn every_finding_that_is_not_well_has_a_remedy() {
    let outcome = Profiler::new()
        .args(["doctor", "--json"])
        .env("DOCKER_HOST", "unix:///no/daemon/here")
        .run()
        .success();
    let document = outcome.json();
    assert_eq!(document["schema"], 1);
    let checks = document["checks"].as_array().unwrap();
    for check in checks {
        assert!(check["health"] == "ok" || check["remedy"].is_string(), "{check}");
    }
    let names: Vec<_> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in ["docker", "gpu", "model cache", "hub token", "disk of runs", "leftovers"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert_eq!(checks[0]["health"], "absent");
}

#[test]
fn a_daemon_that_answers_is_told_with_its_version() {
    if needs_docker() {
        Profiler::new()
            .arg("doctor")
            .run()
            .success()
            .stdout("ok      docker")
            .stdout("API 1.")
            .stdout("container limits");
    }
}

#[test]
fn the_token_is_not_shown() {
    let outcome = Profiler::new()
        .arg("doctor")
        .env("HF_TOKEN", "hf_secret")
        .run()
        .success();
    outcome.stdout("there is one").nowhere("hf_secret");
}

#[test]
fn models_in_volumes_are_listed_and_removed_when_that_is_asked() {
    let daemon = Daemon::new(|asked| match asked {
        "GET /volumes" => {
            let volume = |name: &str| json!({"Name": name, "Driver": "local", "Mountpoint": "/", "Labels": {}, "Scope": "local", "Options": {}});
            let names = [
                "profiler-models--org--b",
                "profiler-models--org--a",
                "my-profiler-models--org--c",
            ];
            (200, json!({"Volumes": names.map(volume), "Warnings": []}))
        }
        "DELETE /volumes/profiler-models--org--a" | "DELETE /volumes/profiler-models--org--b" => (204, Value::Null),
        _ => message(404, "not found"),
    });
    let doctor = |args: &[&str]| {
        let program = Profiler::new().arg("doctor").args(args);
        program.env("DOCKER_HOST", daemon.host()).run().success()
    };
    let both = "profiler-models--org--a, profiler-models--org--b";
    let _ = doctor(&[]).stdout(both).stdout("--clean=models").nowhere("org--c");
    let _ = doctor(&["--clean"]).stdout(both);
    assert!(daemon.asked("DELETE").is_empty());
    let _ = doctor(&["--clean=models"]).stdout(&format!("removed: {both}"));
    assert_eq!(daemon.asked("DELETE /volumes/").len(), 2);
}

/// The check of a machine's GPUs in containers, and whether the machine has a GPU. The daemon says this of itself, with
/// `{cdi}` for a folder that holds a CDI specification.
fn gpu_in_docker(version: Value, info: &Value) -> (Option<Value>, bool) {
    let folder = crate::support::temp();
    let specification =
        r#"{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}, {"name": "all"}]}"#;
    std::fs::write(folder.path().join("nvidia.json"), specification).unwrap();
    let path = folder.path().to_str().unwrap();
    let info: Value = serde_json::from_str(&info.to_string().replace("{cdi}", path)).unwrap();
    let daemon = Daemon::new(move |asked| match asked {
        "GET /version" => (200, version.clone()),
        "GET /info" => (200, info.clone()),
        _ => message(404, "not found"),
    });
    let doctor = |args: &[&str]| {
        let program = Profiler::new().arg("doctor").args(args);
        program.env("DOCKER_HOST", daemon.host()).run().success()
    };
    let document = doctor(&["--json"]).json();
    let checks = document["checks"].as_array().unwrap();
    let find = |name: &str| checks.iter().find(|check| check["name"] == name).cloned();
    let has_gpu = find("gpu").unwrap()["health"] == "ok" || std::path::Path::new("/dev/nvidiactl").exists();
    (find("gpu in docker"), has_gpu)
}

fn machine(version: Value, info: Value, health: &str, word: &str) {
    let check = gpu_in_docker(version, &info).0.unwrap();
    assert_eq!(check["health"], health, "{check}");
    assert!(check.to_string().contains(word), "{check}");
}

/// A daemon that is not set up for GPUs. Only a machine with one hears of it.
fn not_set_up(version: Value, info: Value, word: &str) {
    match gpu_in_docker(version, &info) {
        (Some(check), true) => {
            assert_eq!(check["health"], "attention", "{check}");
            assert!(check.to_string().contains(word), "{check}");
        }
        (found, has_gpu) => assert!(found.is_none() && !has_gpu, "{found:?}"),
    }
}

#[test]
fn a_machine_says_how_its_containers_get_gpus() {
    let docker = |version: &str| json!({"Version": version, "ApiVersion": "1.41"});
    let runc = json!({"runc": {"path": "runc"}});
    let legacy = json!({"runc": {"path": "runc"}, "nvidia": {"path": "nvidia-container-runtime"}});
    not_set_up(
        docker("27.5.1"),
        json!({"DockerRootDir": "/", "Runtimes": runc, "DefaultRuntime": "runc"}),
        "runtime configure",
    );
    machine(
        docker("24.0.7"),
        json!({"DockerRootDir": "/", "Runtimes": legacy, "DefaultRuntime": "runc"}),
        "ok",
        "toolkit",
    );
    machine(
        docker("26.1.5"),
        json!({"DockerRootDir": "/", "Runtimes": runc, "DefaultRuntime": "runc", "CDISpecDirs": ["{cdi}"]}),
        "ok",
        "nvidia.com/gpu=all",
    );
    machine(
        docker("28.3.1"),
        json!({"DockerRootDir": "/", "Runtimes": runc, "DefaultRuntime": "runc", "CDISpecDirs": ["{cdi}"],
            "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}),
        "ok",
        "nvidia.com/gpu=0",
    );
    let gpu = json!({"runc": {"path": "runc"}, "gpu": {"path": "/usr/local/bin/gpu-runtime"}});
    machine(
        docker("26.1.5"),
        json!({"DockerRootDir": "/", "Runtimes": gpu, "DefaultRuntime": "gpu"}),
        "ok",
        "NVIDIA_VISIBLE_DEVICES",
    );
    let podman = |version: &str| json!({"Version": version, "ApiVersion": "1.41", "Components": [{"Name": "Podman Engine", "Version": version}]});
    let crun = json!({"crun": {"path": "/usr/bin/crun"}});
    machine(
        podman("5.4.0"),
        json!({"DockerRootDir": "/", "Runtimes": crun, "DefaultRuntime": "crun", "CDISpecDirs": ["{cdi}"]}),
        "ok",
        "nvidia.com/gpu=0",
    );
    not_set_up(
        podman("5.4.0"),
        json!({"DockerRootDir": "/", "Runtimes": crun, "DefaultRuntime": "crun", "CDISpecDirs": ["/no/such/folder"]}),
        "cdi generate",
    );
    machine(
        podman("4.3.1"),
        json!({"DockerRootDir": "/", "Runtimes": crun, "DefaultRuntime": "crun"}),
        "attention",
        "ignores requests for GPUs",
    );
}
