//! A user has podman instead of Docker: the program finds its Docker-compatible socket, and engines in its containers
//! behave as in Docker's.

use std::process::Command;

use serde_json::Value;

use crate::support::podman::Podman;
use crate::support::{Profiler, image, needs_podman, needs_rootless_podman};

/// Tests of other files that need Docker and no GPU. Left out is
/// `docker::a_container_has_no_way_to_the_services_of_this_machine`, whose service listens on Docker's bridge: that of
/// podman is there only while a container runs.
const SAME: [&str; 21] = [
    "attach_container::a_network",
    "attach_container::a_published_port",
    "attach_container::the_models_configuration_is_read_from_the_container",
    "disturbed::a_kernel_kill_is_memory_even_if_the_stream_seemed_to_end",
    "disturbed::an_engine_that_somebody_else_stopped_is_told_as_that",
    "disturbed::the_times_of_a_paused_container_are_not_used",
    "docker::a_container_finds_its_files_from_its_first_moment_on",
    "docker::a_container_is_started_seen_and_removed",
    "docker::a_container_of_a_script_has_a_network_of_its_own_and_writes_only_where_it_must",
    "docker::a_hurried_user_does_not_wait_for_the_grace",
    "docker::commands_run_inside_and_files_go_in",
    "docker::mounts_are_read_only_unless_asked_and_allowed",
    "docker::nothing_stays_when_the_run_is_dropped_or_cut_short",
    "docker::the_kernels_kill_is_told_from_any_other",
    "docker::what_cannot_start_says_why_and_leaves_nothing",
    "killed::a_search_on_a_container",
    "orphans::containers_are_removed_with_their_killed_run",
    "probes::container::a_serving_container_is_asked_from_within",
    "signals::control_c_before_a_container_is_there",
    "sim::container::it_runs_in_a_container_of_its_own",
    "usage::the_memory_of_a_container_is_its_own",
];

#[test]
fn containers_behave_as_those_of_docker() {
    if !needs_podman() {
        return;
    }
    run_tests(&Podman::start(), &SAME);
}

/// Runs tests of other files with this podman in Docker's place.
#[track_caller]
fn run_tests(podman: &Podman, names: &[&str]) {
    let tests = Command::new(std::env::current_exe().unwrap())
        .env("DOCKER_HOST", podman.host())
        .args(["--exact", "--test-threads=4"])
        .args(names)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&tests.stdout);
    assert!(
        tests.status.success() && shown.contains(&format!("{} passed", names.len())),
        "{shown}{}",
        String::from_utf8_lossy(&tests.stderr)
    );
}

#[test]
fn it_is_found_by_its_own_variable_and_what_it_cannot_do_is_told() {
    if !needs_podman() {
        return;
    }
    let podman = Podman::start();
    let ask = |args: &[&str]| {
        let program = Profiler::new().args(args).env("CONTAINER_HOST", podman.host());
        program.env("DOCKER_HOST", "")
    };
    let doctor = ask(&["doctor", "--json"]).run().success().json();
    let checks = doctor["checks"].as_array().unwrap();
    let check = |name: &str| checks.iter().find(|check| check["name"] == name);
    // `podman 4.3.1 at …`
    let detail = check("docker").unwrap()["detail"].as_str().unwrap();
    let version = detail.strip_prefix("podman ").unwrap();
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let is_old = (numbers.next().unwrap(), numbers.next().unwrap()) < (5, 4);
    let ignores = check("gpu in docker").is_some_and(|check| check.to_string().contains("ignores requests for GPUs"));
    assert_eq!(ignores, is_old, "{doctor}");

    // The image is made by the `docker` command, which knows another variable.
    let made = Command::new(std::env::current_exe().unwrap())
        .env("DOCKER_HOST", podman.host())
        .args(["--exact", "docker::commands_run_inside_and_files_go_in"])
        .status()
        .unwrap();
    assert!(made.success());
    let script = r#"docker::start(#{ image: "profiler-test/shell:latest" }); ()"#;
    let program = ask(&["run", "s.rhai", "--allow", "image=profiler-test"]);
    let _ = program.file("s.rhai", script).run().success();
}

/// It is found on the socket of a user without root's rights, without being named; a search leaves no container.
#[test]
fn that_of_a_user_without_roots_rights_is_found_and_searched() {
    if !needs_rootless_podman() {
        return;
    }
    let podman = Podman::start_rootless();
    let image = image::sim_at(Some(&podman.host()));
    let run = |words: &str| {
        let output = podman
            .command(image::stripped())
            .args(words.split(' '))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (document, said)
    };
    let (doctor, _) = run("doctor --json");
    let detail = doctor["checks"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("podman") && detail.ends_with("rootless"), "{detail}");
    let version_1 = std::path::Path::new("/sys/fs/cgroup/memory").exists();
    let limits = &doctor["checks"][1];
    assert!(!version_1 || limits["health"] != "ok", "{limits}");

    let search = format!(
        "run adaptive --engine openai --runtime docker --image {image} --model  --gpus [] --memory-limit 1g --json \
         --engine-args=--profile=llama-8b-24gb-vllm,--time-scale=0,--max-model-len=4096 \
         --input 64..1000 --output 8 --concurrency 1 --search.max-probes 2"
    );
    let (found, said) = run(&search);
    assert_eq!(found["result"]["points"][0]["verdict"], "ok", "{said}");
    assert_eq!(said.contains("keeps no memory limits"), version_1, "{said}");
    assert_eq!(podman.podman(&["ps", "--all", "--quiet"]), "");

    // There is no group of the container's own.
    run_tests(
        &podman,
        &["attach_container::its_processes_are_told_from_those_of_others"],
    );
}
