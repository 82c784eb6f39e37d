//! A user starts native processes, reads their logs, and stops them with their whole process tree.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use profiler::fault::Kind;
use profiler::run::Event;
use profiler::runtime::{Launch, RuntimeKind, State};

use crate::runtime::{context, line, lives, native, start};
use crate::script::bench::Bench;
use crate::support::eventually;

const GRACE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn both_streams_are_one_log_in_order() {
    let context = context("process");
    let script = r"i=0; while [ $i -lt 50 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done; printf 'a\rb'";
    let service = start(RuntimeKind::Process, &native(script), &context).await;
    let exit = service.wait_exit().await.unwrap();
    assert_eq!((exit.code, exit.signal, exit.oom_killed), (Some(0), None, false));
    let mut expected: Vec<String> = (0..50).flat_map(|i| [format!("out{i}"), format!("err{i}")]).collect();
    expected.extend(["a".to_owned(), "b".to_owned()]);
    assert_eq!(service.logs().last(200), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_is_chosen_by_the_kernel_and_filled_in() {
    let context = context("process");
    let launch = Launch {
        env: [("PORT".to_owned(), "{port}".to_owned())].into(),
        ..native("echo port {port} $PORT")
    };
    let service = start(RuntimeKind::Process, &launch, &context).await;
    let port = service
        .base_url()
        .unwrap()
        .strip_prefix("http://127.0.0.1:")
        .unwrap()
        .to_owned();
    assert_eq!(line(&service, "port").await, format!("port {port} {port}"));

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let launch = Launch {
        port: taken.local_addr().unwrap().port(),
        ..native("echo never")
    };
    let fault = profiler::runtime::start(RuntimeKind::Process, &launch, &context)
        .await
        .unwrap_err();
    assert_eq!(fault.kind, Kind::Missing);
    assert!(
        fault.message.contains(&launch.port.to_string()) && fault.hint.is_some(),
        "{fault:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_lie_in_a_folder_of_the_process_and_go_with_it() {
    let context = context("process");
    let launch = Launch {
        files: [("options.yaml".to_owned(), "dtype: auto".to_owned())].into(),
        ..native("cat {files}/options.yaml; echo; echo in {files}")
    };
    let service = start(RuntimeKind::Process, &launch, &context).await;
    let place = line(&service, "in ").await.replace("in ", "");
    service.wait_exit().await.unwrap();
    assert_eq!(service.logs().last(5)[0], "dtype: auto");
    assert!(
        std::path::Path::new(&place).starts_with(std::env::temp_dir()),
        "{place}"
    );
    drop(service);
    context.services.stop_all(GRACE).await.unwrap();
    assert!(!std::path::Path::new(&place).exists());

    let launch = Launch {
        files: [("../beside".to_owned(), String::new())].into(),
        ..native("echo never")
    };
    let fault = profiler::runtime::start(RuntimeKind::Process, &launch, &context)
        .await
        .unwrap_err();
    assert!(fault.message.contains("`../beside`"), "{fault:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_tree_ends_also_what_left_the_group() {
    let context = context("process");
    // A worker in its own session, orphaned and with an empty environment, and one that ignores SIGTERM.
    let script = "setsid env -i sh -c 'echo away $$; exec sleep 1000' & sh -c 'trap \"\" TERM; echo deaf $$; while :; do sleep 1; done' & echo ready; exit 0";
    let service = start(RuntimeKind::Process, &native(script), &context).await;
    let number = |line: String| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap();
    let away = number(line(&service, "away").await);
    let deaf = number(line(&service, "deaf").await);
    assert!(matches!(service.wait_exit().await.unwrap().code, Some(0)));
    assert!(lives(away) && lives(deaf));
    assert!(service.pids().await.unwrap().contains(&away));
    service.stop(GRACE).await.unwrap();
    assert!(!lives(away) && !lives(deaf));
    assert_eq!(service.pids().await.unwrap(), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_is_told_and_never_taken_for_lack_of_memory() {
    let context = context("process");
    let service = start(RuntimeKind::Process, &native("kill -9 $$"), &context).await;
    let exit = service.wait_exit().await.unwrap();
    assert_eq!((exit.code, exit.signal, exit.oom_killed), (Some(137), Some(9), false));
    assert!(exit.finished_at.is_some());
    assert_eq!(service.state().await.unwrap(), State::Exited(exit));
}

#[tokio::test(flavor = "multi_thread")]
async fn grace_is_given_and_cut_by_a_hurried_user() {
    let context = context("process");
    let polite = start(
        RuntimeKind::Process,
        &native("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"),
        &context,
    )
    .await;
    line(&polite, "ready").await;
    polite.stop(Duration::from_secs(20)).await.unwrap();
    assert_eq!(polite.logs().last(1), ["bye"]);

    let stubborn = start(
        RuntimeKind::Process,
        &native("trap '' TERM; echo ready; while :; do sleep 1; done"),
        &context,
    )
    .await;
    line(&stubborn, "ready").await;
    let services = context.services.clone();
    let ending = tokio::spawn(async move { services.stop_all(Duration::from_secs(60)).await });
    let begun = Instant::now();
    context.services.kill_all();
    ending.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_left_running_ends_with_the_process() {
    let context = context("process");
    let service = start(RuntimeKind::Process, &native("echo ready; sleep 1000"), &context).await;
    line(&service, "ready").await;
    let command = ["sh", "-c", "setsid sleep 1000 >&- 2>&- & echo $!; exit 3"].map(str::to_owned);
    let done = service.exec(&command).await.unwrap();
    let left: u32 = done.output.trim().parse().unwrap();
    assert_eq!(done.code, Some(3));
    assert!(lives(left) && service.pids().await.unwrap().contains(&left));
    service.stop(GRACE).await.unwrap();
    assert!(!lives(left));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_takes_its_process_along() {
    let context = context("process");
    let service = start(RuntimeKind::Process, &native("echo ready; exec sleep 1000"), &context).await;
    line(&service, "ready").await;
    let pid = service.pids().await.unwrap()[0];
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The state and the parent.
    let parent = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap();
    kill(Pid::from_raw(parent.parse().unwrap()), Signal::SIGKILL).unwrap();
    assert_eq!(service.wait_exit().await.unwrap().code, None);
    eventually("it ended", || !lives(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_when_the_run_is_dropped() {
    let context = context("process");
    let service = start(RuntimeKind::Process, &native("echo ready; sleep 1000 & wait"), &context).await;
    line(&service, "ready").await;
    let pids = service.pids().await.unwrap();
    drop((service, context));
    eventually("everything ended", || pids.iter().all(|&pid| !lives(pid)));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_users_word_nothing_is_started() {
    let folder = crate::support::temp();
    let context = context("token,exec,code");
    let launch = native(&format!("touch {}/started", folder.path().display()));
    let fault = profiler::runtime::start(RuntimeKind::Process, &launch, &context)
        .await
        .unwrap_err();
    assert_eq!(fault.kind, Kind::NotAllowed);
    assert!(fault.hint.unwrap().contains("--allow process"));
    assert!(context.services.list().is_empty() && !folder.path().join("started").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_missing() {
    let context = context("process");
    let launch = Launch {
        command: vec!["no-such-program-anywhere".into()],
        ..Launch::default()
    };
    let fault = profiler::runtime::start(RuntimeKind::Process, &launch, &context)
        .await
        .unwrap_err();
    assert_eq!(fault.kind, Kind::Missing);
    assert!(fault.message.contains("no-such-program-anywhere"));
}

#[test]
fn a_panic_of_the_host_ends_what_the_script_started() {
    let script = r#"let s = process::start(#{ command: ["sh", "-c", "echo ready; sleep 1000"] });
        while s.logs() == [] { sleep(0.01); } print("go");"#;
    let bench = Bench::script(script);
    let host = bench.allowing("process");
    host.run.listen(Box::new(|event| {
        assert!(!matches!(event, Event::Print { .. }), "the host is broken");
    }));
    let diagnostic = bench.run_in(&host).unwrap_err();
    assert_eq!(
        (diagnostic.fault.kind, diagnostic.fault.kind.exit_code()),
        (Kind::Internal, 101)
    );
    assert!(
        diagnostic.fault.message.contains("the host is broken"),
        "{}",
        diagnostic.fault
    );
    let pids = host.tasks.wait(host.services.list()[0].pids()).unwrap();
    assert!(pids.iter().any(|&pid| lives(pid)));
    drop(host);
    eventually("everything ended", || pids.iter().all(|&pid| !lives(pid)));
}
