//! A user runs engines in processes and in containers. Shared here: a run of the test's own, and Docker calls that
//! bypass our program.

pub mod daemon;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use profiler::run::Run;
use profiler::runtime::{Launch, Origin, Permits, RuntimeKind, Service, Services, StartContext};

/// The start context of a run with a unique id.
pub fn context(allow: &str) -> StartContext {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    profiler::own_program::set(env!("CARGO_BIN_EXE_profiler"));
    let id = format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    StartContext {
        run: Arc::new(Run::ephemeral(&id)),
        permits: Permits::parse([allow]).unwrap(),
        services: Arc::new(Services::default()),
        // Permission checks are tested elsewhere.
        origin: Origin::ShippedAdapter {
            replaced: false,
            unlisted: Vec::new(),
        },
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

/// The output of a Docker command without its final newline; empty if the command fails.
pub fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// The ids of all containers and networks of a run.
pub fn containers_of(run: &str) -> String {
    labelled(&format!("label=profiler.run={run}"))
}

/// The ids of all containers and networks with this label.
pub fn labelled(label: &str) -> String {
    let containers = docker(&["ps", "--all", "--quiet", "--filter", label]);
    containers + docker(&["network", "ls", "--quiet", "--filter", label]).as_str()
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

/// True if the process is alive; a zombie is not.
pub fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with(['Z', 'X']))
}

/// All descendants of a process.
pub fn below(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let children: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|child| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
            parent.is_some_and(|parent| parent == pid.to_string())
        })
        .collect();
    let further: Vec<u32> = children.iter().flat_map(|&child| below(child)).collect();
    [children, further].concat()
}
