//! A user attaches to a running server or container by URL or name: it is never stopped, and commands run inside it
//! only with permission.

use std::time::Duration;

use profiler::fault::Kind;
use profiler::runtime::{Launch, Program, RuntimeKind, State, Target, attach};

use crate::runtime::{containers_of, context, docker, line, shell, start};
use crate::support::needs_docker;

fn url(text: &str) -> Target {
    Target::Url(text.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_addresses_that_are_allowed() {
    // Columns: URL, permission, the address or the kind of error and the remedy.
    for (written, allowed, expected) in [
        ("http://localhost:8000/", "port=8000", Ok("http://localhost:8000")),
        ("localhost:8000", "port=8000", Ok("http://localhost:8000")),
        ("localhost:8000/v1", "port=8000", Ok("http://localhost:8000")),
        ("http://localhost:8000/v1/", "port=8000", Ok("http://localhost:8000")),
        (
            "localhost:8000/v1/chat/completions",
            "port=8000",
            Ok("http://localhost:8000"),
        ),
        ("http://example.org/v1", "net=example.org", Ok("http://example.org")),
        (
            "http://localhost:8000/",
            "",
            Err((Kind::NotAllowed, "--allow port=8000")),
        ),
        (
            "http://example.org/v1",
            "port=8000",
            Err((Kind::NotAllowed, "--allow net=example.org")),
        ),
        ("", "port=8000", Err((Kind::Usage, ""))),
        ("ftp://localhost", "port=8000", Err((Kind::Usage, ""))),
        ("file:///etc/passwd", "port=8000", Err((Kind::Usage, ""))),
    ] {
        match (attach(&url(written), &context(allowed)).await, expected) {
            (Ok(service), Ok(address)) => {
                assert_eq!(service.base_url(), Some(address), "{written}");
                assert_eq!(service.state().await.unwrap(), State::Running);
            }
            (Err(fault), Err((kind, remedy))) => {
                assert_eq!(fault.kind, kind, "{written}: {fault:?}");
                assert!(fault.hint.unwrap_or_default().contains(remedy), "{written}");
            }
            (got, _) => panic!("{written}: {:?}", got.err()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_in_a_url_is_shown_nowhere() {
    let context = context("port=1");
    let service = attach(&url("http://me:hunter2@127.0.0.1:1/v1?key=hunter2"), &context)
        .await
        .unwrap();
    assert!(!service.info().to_string().contains("hunter2"));
    for wrong in [
        "http://me:hunter2@example.org",
        "ftp://me:hunter2@localhost",
        "http://me:hunter2@[bad",
    ] {
        let fault = attach(&url(wrong), &context).await.unwrap_err();
        assert!(!format!("{fault:?}").contains("hunter2"), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_container_is_read_not_touched() {
    if !needs_docker() {
        return;
    }
    // A container of another run.
    let theirs = context("");
    let launch = Launch {
        port: 8000,
        env: [
            ("HF_TOKEN".to_owned(), "hf_secret".to_owned()),
            ("MODEL_ID".to_owned(), "org/model".to_owned()),
        ]
        .into(),
        ..shell("echo serving; while :; do sleep 1; done")
    };
    let other = start(RuntimeKind::Docker, &launch, &theirs).await;
    let name = other.info()["container"].as_str().unwrap().to_owned();
    let target = Target::Container(name.clone(), None);

    let stranger = context("");
    let fault = attach(&target, &stranger).await.unwrap_err();
    assert_eq!(fault.kind, Kind::NotAllowed, "{fault:?}");
    assert!(fault.message.contains(&name));

    let mut named = context("");
    named.permits.name([("container", name.as_str())], false, |_| false);
    let service = attach(&target, &named).await.unwrap();
    assert_eq!(service.base_url(), other.base_url());
    line(&service, "serving").await;
    assert_eq!(service.info()["model"]["name"], "org/model");
    assert!(!service.info().to_string().contains("hf_secret"));
    assert!(!service.pids().await.unwrap().is_empty());

    // A command in there would outlive a killed run, so `exec` is refused.
    let command = ["/bin/sh", "-c", "echo inside"].map(str::to_owned);
    let own = context("exec");
    let fault = attach(&target, &own).await.unwrap().exec(&command).await.unwrap_err();
    assert!(fault.message.contains("`exec`"), "{fault:?}");

    let probe = Program {
        file: "look.py".into(),
        files: [("look.py".into(), "print('{}')".into())].into(),
        timeout: 60.0,
        ..Program::default()
    };
    let fault = service.run_program(&probe).await.unwrap_err();
    assert_eq!(fault.kind, Kind::NotAllowed, "nothing was copied in either");
    assert!(fault.hint.unwrap().contains("--allow exec"));

    let allowed = context("exec");
    let entered = attach(&target, &allowed).await.unwrap();
    let fault = entered.run_program(&probe).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Missing, "the image has no Python: {fault:?}");
    assert!(fault.hint.unwrap().contains("`python`"));

    // Neither stopping the service nor ending the run stops the container.
    service.stop(Duration::ZERO).await.unwrap();
    named.services.stop_all(Duration::ZERO).await.unwrap();
    drop((named, allowed));
    assert_eq!(docker(&["inspect", "--format", "{{.State.Running}}", &name]), "true");

    theirs.services.stop_all(Duration::ZERO).await.unwrap();
    assert_eq!(containers_of(theirs.run.id()), "");
    let fault = attach(&target, &context("exec")).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Missing, "{fault:?}");
}
