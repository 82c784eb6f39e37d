//! A user's Docker has another form than usual: user namespaces, control groups of version 2, no rights of root, another
//! network around it. `.ci/long` runs those that take long.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::container::containers_at;
use crate::support::dockerd::{Dockerd, Rootless, is_inside};
use crate::support::{Profiler, engines, image, needs_dockerd, needs_rootless_docker};

const SEARCH: &str = "run grid --engine ./mine.rhai --runtime docker --model  --gpus [] --json --out out --input 64..512 --output 8 \
    --search.grid-size 2 --allow image=profiler-test";

/// A search on an engine in a container of this daemon.
fn searching(daemon: &Dockerd) -> Profiler {
    Profiler::new()
        .file("mine.rhai", engines::container(0.0, "[]"))
        .args(SEARCH.split(' '))
        .env("DOCKER_HOST", daemon.host())
}

/// Such a search, which leaves no container there.
#[track_caller]
fn search(daemon: &Dockerd) {
    daemon.sim();
    let outcome = searching(daemon).run().success();
    assert_eq!(outcome.json()["result"]["points"][0]["verdict"], "ok");
    assert_eq!(containers_at(&daemon.host()), "");
}

#[test]
#[ignore = "long"]
fn one_with_user_namespaces() {
    if needs_dockerd() && is_inside() {
        search(&Dockerd::start(&["--userns-remap=default"]));
    }
}

/// Changes the network of this machine, by one command of `ip` in each line.
fn ip(lines: impl IntoIterator<Item = String>) {
    let lines: Vec<String> = lines.into_iter().collect();
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    ip.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    assert!(ip.wait().unwrap().success());
}

/// A VPN, or what another program left, has routes to where a container's own network would be.
#[test]
fn one_on_a_machine_with_routes_of_its_own() {
    if !needs_dockerd() || !is_inside() {
        return;
    }
    let daemon = Dockerd::start(&[]);
    let route = |number: usize| format!("route add 198.19.{}.{}/29 dev other", number / 32, number % 32 * 8);
    ip([
        "link add other type bridge",
        "link set other up",
        "address add 10.9.0.1/24 dev other",
    ]
    .map(String::from));
    // All but one.
    ip((1..4096).map(route));
    search(&daemon);
    // The kernel asks a VPN's own table first.
    ip([
        "route add 198.19.0.0/17 dev other table 7",
        "rule add to 198.19.0.0/17 lookup 7",
    ]
    .map(String::from));
    let refused = || searching(&daemon).run().code(3);
    let elsewhere = refused().stderr;
    assert!(
        elsewhere.contains("198.19.0.2") && elsewhere.contains("net=HOST"),
        "{elsewhere}"
    );
    ip([route(0)]);
    let full = refused().stderr;
    assert!(full.contains("198.19.0.0/17") && full.contains("`other`"), "{full}");
    assert_eq!(containers_at(&daemon.host()), "");
}

/// Where the machine has them of version 1, those of version 2 lack the controllers in use, such as that of memory.
#[test]
#[ignore = "long"]
fn one_with_control_groups_of_version_2() {
    if !needs_dockerd() || !is_inside() {
        return;
    }
    let is_version_1 = std::path::Path::new("/sys/fs/cgroup/memory").exists();
    if is_version_1 {
        let mounted = "umount --recursive /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup";
        assert!(Command::new("sh").args(["-c", mounted]).status().unwrap().success());
    }
    let daemon = Dockerd::start(&[]);
    let doctor = Profiler::new()
        .args(["doctor", "--json"])
        .env("DOCKER_HOST", daemon.host());
    let checks = doctor.run().success().json();
    let limits = &checks["checks"][1];
    assert_eq!(limits["health"] == "ok", !is_version_1, "{limits}");
    search(&daemon);
}

/// It is found without being named.
#[test]
#[ignore = "long"]
fn one_without_roots_rights() {
    if !needs_rootless_docker() {
        return;
    }
    let daemon = Rootless::start();
    let image = image::sim_at(Some(&daemon.host()));
    let run = |words: &str| {
        let output = daemon.profiler().args(words.split(' ')).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (document, said)
    };
    let doctor = run("doctor --json").0;
    let detail = doctor["checks"][0]["detail"].as_str().unwrap();
    assert!(
        detail.ends_with("rootless") && !detail.starts_with("podman"),
        "{detail}"
    );
    let search = format!(
        "run grid --engine openai --runtime docker --image {image} --model  --gpus [] --json \
         --engine-args=--profile=llama-8b-24gb-vllm,--time-scale=0,--max-model-len=4096 \
         --input 64..512 --output 8 --concurrency 1 --search.grid-size 2"
    );
    let (found, said) = run(&search);
    assert_eq!(found["result"]["points"][0]["verdict"], "ok", "{said}");
    assert_eq!(containers_at(&daemon.host()), "");
}
