//! A user runs engines in containers on the real daemon: what the containers get, how they are observed, and that
//! nothing of them stays.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use profiler::fault::Kind;
use profiler::runtime::{Launch, Mount, Origin, RuntimeKind, StartContext, State, Target};

use crate::runtime::{containers_of, context, docker, line, lives, shell, start};
use crate::support::{Profiler, image, needs_docker, temp};

const GRACE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn a_container_finds_its_files_from_its_first_moment_on() {
    if !needs_docker() {
        return;
    }
    let context = context("");
    let launch = Launch {
        files: [("options.yaml".to_owned(), "dtype: auto\n".to_owned())].into(),
        env: [("CONFIG".to_owned(), "{files}/options.yaml".to_owned())].into(),
        ..shell("cat $CONFIG; cat {files}/options.yaml; echo end")
    };
    let service = start(RuntimeKind::Docker, &launch, &context).await;
    line(&service, "end").await;
    let log = service.logs().last(10);
    assert_eq!(log.iter().filter(|line| *line == "dtype: auto").count(), 2, "{log:?}");
    assert_eq!(service.info()["files"]["options.yaml"], "dtype: auto\n");
    context.services.stop_all(GRACE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_started_seen_and_removed() {
    if !needs_docker() {
        return;
    }
    let context = context("net=localhost");
    let launch = Launch {
        env: [("GREETING".to_owned(), "hello".to_owned())].into(),
        port: 8000,
        memory_limit: Some(64 << 20),
        shm_size: Some(1 << 20),
        ..shell("echo $GREETING; echo error >&2; trap 'echo bye; exit 3' TERM; while :; do sleep 0.1; done")
    };
    let service = start(RuntimeKind::Docker, &launch, &context).await;
    line(&service, "hello").await;
    line(&service, "error").await;
    assert_eq!(service.state().await.unwrap(), State::Running);

    let id = service.info()["id"].as_str().unwrap().to_owned();
    let inspect = |format: &str| docker(&["inspect", "--format", format, &id]);
    let port = service
        .base_url()
        .unwrap()
        .strip_prefix("http://127.0.0.1:")
        .unwrap()
        .to_owned();
    assert_eq!(docker(&["port", &id, "8000"]), format!("127.0.0.1:{port}"));
    assert_eq!(
        inspect("{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.ShmSize}}"),
        "67108864 67108864 1048576"
    );
    assert_eq!(
        inspect("{{.HostConfig.Privileged}} {{.HostConfig.NetworkMode}} {{len .Mounts}}"),
        "false bridge 0"
    );
    assert_eq!(
        inspect("{{.HostConfig.PidsLimit}} {{.HostConfig.SecurityOpt}}"),
        "32768 [no-new-privileges]"
    );
    assert_eq!(
        inspect(r#"{{index .Config.Labels "profiler.pid"}}"#),
        std::process::id().to_string()
    );
    assert_eq!(inspect(r#"{{index .Config.Labels "profiler.run"}}"#), context.run.id());

    let pids = service.pids().await.unwrap();
    // The shell's `sleep` processes come and go; only the first process is stable.
    let first = inspect("{{.State.Pid}}").parse().unwrap();
    assert!(pids.contains(&first) && lives(first), "{first} in {pids:?}");
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
    }
    let cgroup = service.cgroup().await.unwrap().unwrap();
    assert!(cgroup.join("memory.current").exists() || cgroup.join("memory.usage_in_bytes").exists());

    service.stop(Duration::from_secs(10)).await.unwrap();
    let State::Exited(exit) = service.state().await.unwrap() else {
        panic!("stopped and running");
    };
    assert_eq!((exit.code, exit.oom_killed), (Some(3), false));
    assert!(exit.finished_at.unwrap().starts_with("20"));
    assert_eq!(service.logs().last(1), ["bye"]);
    assert_eq!(containers_of(context.run.id()), "");
    context.services.stop_all(GRACE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_a_script_has_a_network_of_its_own_and_writes_only_where_it_must() {
    if !needs_docker() {
        return;
    }
    let context = StartContext {
        origin: Origin::Script,
        ..context("image=profiler-test")
    };
    let launch = Launch {
        port: 8000,
        ..shell("echo x > /tmp/x && echo x > /root/.cache/x && echo tmp; echo x > /x || echo closed; sleep 1000")
    };
    let service = start(RuntimeKind::Docker, &launch, &context).await;
    line(&service, "tmp").await;
    line(&service, "closed").await;
    let id = service.info()["id"].as_str().unwrap();
    let address = docker(&[
        "inspect",
        "--format",
        "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
        id,
    ]);
    assert_eq!(service.base_url().unwrap(), format!("http://{address}:8000"));
    let network = service.info()["container"].as_str().unwrap();
    assert_eq!(
        docker(&[
            "network",
            "inspect",
            "--format",
            "{{.Internal}} {{len .Containers}}",
            network
        ]),
        "true 1"
    );
    // A script may connect to what its run started.
    let target = Target::Url(service.base_url().unwrap().to_owned());
    profiler::runtime::attach(&target, &context).await.unwrap();
    let target = Target::Url(format!("http://{address}:8001"));
    let refused = profiler::runtime::attach(&target, &context).await.unwrap_err();
    assert_eq!(refused.kind, Kind::NotAllowed);
    context.services.stop_all(GRACE).await.unwrap();
    assert_eq!(containers_of(context.run.id()), "");
}

/// `tests/data/attacks`, defect 5.
#[test]
fn a_container_has_no_way_to_the_services_of_this_machine() {
    if !needs_docker() {
        return;
    }
    let bridge = docker(&[
        "network",
        "inspect",
        "bridge",
        "--format",
        "{{with index .IPAM.Config 0}}{{or .Gateway .Subnet}}{{end}}",
    ]);
    // A freshly created bridge has no gateway in the daemon's answer: its gateway is the first address of the subnet.
    let bridge = match bridge.split_once('/') {
        Some((subnet, _)) => Ipv4Addr::from_bits(subnet.parse::<Ipv4Addr>().unwrap().to_bits() + 1).to_string(),
        None => bridge,
    };
    let service = TcpListener::bind((bridge.as_str(), 0)).unwrap();
    service.set_nonblocking(true).unwrap();
    // A service that listens on every address cannot be shielded: the user is only warned.
    let open = TcpListener::bind("0.0.0.0:0").unwrap();
    let warned = open.local_addr().unwrap().port().to_string();
    let port = service.local_addr().unwrap().port();
    for (permits, reached) in [
        ("image=profiler-test,entrypoint", false),
        ("image=profiler-test,entrypoint,net=localhost", true),
    ] {
        let outcome = Profiler::new()
            .args(["run", "--allow", permits])
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/data/attacks/docker_nc_host.rhai"
            ))
            .args([
                "--set",
                &format!("image={}", image::shell()),
                "--set",
                &format!("host={bridge}"),
            ])
            .args(["--set", &format!("port={port}")])
            .run()
            .success();
        assert_eq!(service.accept().is_ok(), reached, "{}", outcome.stdout);
        assert_eq!(outcome.stdout.contains("reached"), reached, "{}", outcome.stdout);
        assert_eq!(outcome.stderr.contains(&warned), !reached, "{}", outcome.stderr);
    }
    drop(open);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernels_kill_is_told_from_any_other() {
    if !needs_docker() {
        return;
    }
    let context = context("");
    let hungry = Launch {
        memory_limit: Some(16 << 20),
        ..shell("x=0123456789abcdef; while :; do x=$x$x; done")
    };
    let hungry = start(RuntimeKind::Docker, &hungry, &context).await;
    let exit = hungry.wait_exit().await.unwrap();
    assert_eq!((exit.code, exit.oom_killed), (Some(137), true));

    let suicidal = start(RuntimeKind::Docker, &shell("sh -c 'kill -9 $PPID; sleep 9'"), &context).await;
    let exit = suicidal.wait_exit().await.unwrap();
    assert_eq!((exit.code, exit.oom_killed), (Some(137), false));
    context.services.stop_all(GRACE).await.unwrap();
    assert_eq!(containers_of(context.run.id()), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_inside_and_files_go_in() {
    if !needs_docker() {
        return;
    }
    let context = context("");
    let service = start(RuntimeKind::Docker, &shell("sleep 1000"), &context).await;
    let command = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();

    let done = service
        .exec(&command(&["/bin/sh", "-c", "echo out; echo err >&2; exit 4"]))
        .await
        .unwrap();
    // The daemon reads two pipes, in no defined order.
    let mut lines: Vec<&str> = done.output.lines().collect();
    lines.sort_unstable();
    assert_eq!((done.code, lines), (Some(4), vec!["err", "out"]));
    context.services.stop_all(GRACE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_are_read_only_unless_asked_and_allowed() {
    if !needs_docker() {
        return;
    }
    let folder = temp();
    let context = context(&format!("mount={}", folder.path().display()));
    let mount = |writable| Mount {
        host: folder.path().to_str().unwrap().into(),
        container: "/m".into(),
        writable,
        of_model: false,
    };
    for (writable, code) in [(false, 2), (true, 0)] {
        let launch = Launch {
            mounts: vec![mount(writable)],
            ..shell("echo x > /m/written || exit 2")
        };
        let service = start(RuntimeKind::Docker, &launch, &context).await;
        assert_eq!(
            service.wait_exit().await.unwrap().code,
            Some(code),
            "{:?}",
            service.logs().last(5)
        );
        assert_eq!(folder.path().join("written").exists(), writable);
    }
    context.services.stop_all(GRACE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_when_the_run_is_dropped_or_cut_short() {
    if !needs_docker() {
        return;
    }
    let dropped = context("");
    start(RuntimeKind::Docker, &shell("sleep 1000"), &dropped).await;
    let run = dropped.run.id().to_owned();
    assert_ne!(containers_of(&run), "");
    drop(dropped);
    assert_eq!(containers_of(&run), "");

    // Interrupts a start at many moments: everything that had begun must be removed.
    for patience in [0, 2, 5, 10, 20, 40, 80, 160] {
        let cut = context("");
        let launch = shell("sleep 1000");
        let started = profiler::runtime::start(RuntimeKind::Docker, &launch, &cut);
        let _ = tokio::time::timeout(Duration::from_millis(patience), started).await;
        cut.services.stop_all(GRACE).await.unwrap();
        assert_eq!(containers_of(cut.run.id()), "", "after {patience} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hurried_user_does_not_wait_for_the_grace() {
    if !needs_docker() {
        return;
    }
    let context = context("");
    let stubborn = start(
        RuntimeKind::Docker,
        &shell("trap '' TERM; echo ready; while :; do sleep 1; done"),
        &context,
    )
    .await;
    line(&stubborn, "ready").await;
    let services = context.services.clone();
    let ending = tokio::spawn(async move { services.stop_all(Duration::from_secs(60)).await });
    let begun = Instant::now();
    let services = context.services.clone();
    tokio::task::spawn_blocking(move || services.kill_all()).await.unwrap();
    ending.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(containers_of(context.run.id()), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why_and_leaves_nothing() {
    if !needs_docker() {
        return;
    }
    let folder = temp();
    let context = context(&format!("mount={}", folder.path().display()));
    let launch = Launch {
        mounts: vec![Mount {
            host: folder.path().to_str().unwrap().into(),
            container: "not/absolute".into(),
            writable: false,
            of_model: false,
        }],
        ..shell("")
    };
    let fault = profiler::runtime::start(RuntimeKind::Docker, &launch, &context)
        .await
        .unwrap_err();
    assert_eq!(fault.kind, Kind::Usage, "{fault:?}");
    assert!(fault.message.contains("not/absolute"), "{fault:?}");
    assert_eq!(containers_of(context.run.id()), "");

    let absent = Launch {
        image: Some("localhost:1/profiler-test/absent:1".into()),
        ..Launch::default()
    };
    let fault = profiler::runtime::start(RuntimeKind::Docker, &absent, &context)
        .await
        .unwrap_err();
    assert_eq!(fault.kind, Kind::Missing);
    assert!(fault.message.contains("cannot be pulled"), "{fault:?}");
    assert!(fault.hint.unwrap().contains("docker pull"));
}
