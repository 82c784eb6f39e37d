//! `profiler doctor` tells what works and what to do, and fails only when it cannot tell.

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
