//! A user stops waiting for a probe, and it ends with everything that it started.

use std::time::Duration;

use profiler::runtime::{Launch, Mount, Program, RuntimeKind, StartContext, placeholder_launch};

use crate::runtime::{context, start};
use crate::support::{engines::runs, eventually, image, needs_docker};

async fn give_up(kind: RuntimeKind, launch: Launch, context: StartContext, argument: &str) {
    let service = start(kind, &placeholder_launch(launch, Some("/usr/bin/python3")), &context).await;
    let program = Program {
        file: "sleeper.py".into(),
        files: [(
            "sleeper.py".into(),
            "import subprocess, sys\nsubprocess.run(['/bin/sleep', sys.argv[1]])".into(),
        )]
        .into(),
        args: vec![argument.into()],
        python: Some("/usr/bin/python3".into()),
        timeout: 60.0,
        ..Program::default()
    };
    let running = {
        let service = service.clone();
        tokio::spawn(async move { service.run_program(&program).await })
    };
    tokio::task::spawn_blocking({
        let argument = argument.to_owned();
        move || eventually("it began", || runs(&argument))
    })
    .await
    .unwrap();
    running.abort();
    tokio::task::spawn_blocking({
        let argument = argument.to_owned();
        move || eventually("it ended", || !runs(&argument))
    })
    .await
    .unwrap();
    context.services.stop_all(Duration::from_millis(100)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_process() {
    give_up(RuntimeKind::Process, Launch::default(), context("process"), "4321.25").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_container() {
    if !needs_docker() {
        return;
    }
    let launch = Launch {
        image: Some(image::shell().into()),
        mounts: vec![Mount {
            host: "/usr".into(),
            container: "/usr".into(),
            writable: false,
            of_model: false,
        }],
        ..Launch::default()
    };
    give_up(RuntimeKind::Docker, launch, context("mount=/usr"), "4321.75").await;
}
