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
