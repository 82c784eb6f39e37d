//! What the tests of the runtimes share: a run of their own, and questions to Docker that do not go through our program.

pub mod daemon;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use profiler::run::Run;
use profiler::runtime::{Launch, Permits, RuntimeKind, Service, Services, StartContext};

/// The start of a run that nobody else uses.
pub fn context(allow: &str) -> StartContext {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let id = format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    StartContext {
        run: Arc::new(Run::ephemeral(&id)),
        permits: Permits::parse([allow]).unwrap(),
        services: Arc::new(Services::default()),
        shipped_image: false,
        prefix: "engine".into(),
    }
}

/// A container of the shell image that runs this script.
pub fn shell(script: &str) -> Launch {
    Launch {
        image: Some(super::support::image::shell().into()),
        args: vec!["-c".into(), script.into()],
        ..Launch::default()
    }
}

/// A native shell that runs this script.
pub fn native(script: &str) -> Launch {
    Launch {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        ..Launch::default()
    }
}

pub async fn start(kind: RuntimeKind, launch: &Launch, context: &StartContext) -> Arc<Service> {
    profiler::runtime::start(kind, launch, context).await.unwrap()
}

/// What a Docker command prints, without the last line end; empty when it fails.
pub fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// The names of all containers of a run.
pub fn containers_of(run: &str) -> String {
    docker(&[
        "ps",
        "--all",
        "--quiet",
        "--filter",
        &format!("label=profiler.run={run}"),
    ])
}

/// Waits for a line in the log.
pub async fn line(service: &Service, part: &str) -> String {
    let found = async {
        let mut cursor = 0;
        loop {
            let (lines, next) = service.logs().since(cursor);
            if let Some(line) = lines.into_iter().find(|line| line.contains(part)) {
                return line;
            }
            assert!(
                service.logs().wait_for_line(next).await,
                "the log ended without `{part}`"
            );
            cursor = next;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), found).await;
    waited.unwrap_or_else(|_| panic!("no `{part}` in {:?}", service.logs().last(50)))
}

/// Whether a process lives (a zombie does not).
pub fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with(['Z', 'X']))
}

/// Waits until something is so that nothing tells of.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
