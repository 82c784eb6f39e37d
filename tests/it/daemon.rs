//! A user without a working Docker sees what is wrong and the remedy: absent, down, forbidden, full, or without the
//! image. The daemon is a fake on a socket of the test; the program is the real one.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::runtime::daemon::{Daemon, message};
use crate::support::{Outcome, Profiler, eventually, needs_other_user, temp};

const CREATE: &str = "POST /containers/create";
const START: &str = r#"docker::start(#{ image: "engine:1", port: 80 })"#;

fn start(host: &str) -> Outcome {
    let program = Profiler::new().file("ask.rhai", START).args(["run", "ask.rhai"]);
    let program = program.args(["--allow", "image=engine:1"]);
    program.env("DOCKER_HOST", host).run()
}

#[test]
fn no_daemon() {
    start("unix:///no/such/docker.sock")
        .code(3)
        .stderr("there is no Docker daemon")
        .stderr("install Docker");
}

#[test]
fn a_daemon_that_is_down() {
    for (socket, remedy) in [
        ("docker.sock", "systemctl start docker"),
        ("podman.sock", "systemctl --user enable --now podman.socket"),
    ] {
        let folder = temp();
        let path = folder.path().join(socket);
        // The socket file remains, but nothing listens on it.
        drop(UnixListener::bind(&path).unwrap());
        start(&format!("unix://{}", path.display()))
            .code(3)
            .stderr("does not listen")
            .stderr(remedy);
    }
}

/// Podman's clients are often told of a machine elsewhere; the daemon of this one is used all the same.
#[test]
fn a_podman_elsewhere_does_not_hide_the_daemon_of_this_machine() {
    let daemon = Daemon::new(|_| message(404, "not found"));
    let folder = std::path::PathBuf::from(daemon.host().strip_prefix("unix://").unwrap());
    let doctor = |host: &str| {
        let program = Profiler::new().args(["doctor", "--json"]);
        let program = program.env("DOCKER_HOST", "").env("DOCKER_CONTEXT", "");
        let program = program.env("DOCKER_CONFIG", "").env("CONTAINER_HOST", host);
        let document = program
            .env("XDG_RUNTIME_DIR", folder.parent().unwrap())
            .run()
            .success()
            .json();
        document["checks"][0].clone()
    };
    let check = doctor("ssh://core@192.0.2.1/run/podman/podman.sock");
    assert_eq!(check["health"], "ok", "{check}");
    let check = doctor("unix:///no/such/podman.sock");
    assert!(check.to_string().contains("/no/such/podman.sock"), "{check}");
}

#[test]
fn a_remote_daemon() {
    start("tcp://192.0.2.1:2375")
        .code(3)
        .stderr("is not on this machine")
        .stderr("unset DOCKER_HOST");
}

#[test]
fn the_context_names_the_daemon_where_docker_host_does_not() {
    let ask = |config: &str, context: &str| {
        let program = Profiler::new().file("ask.rhai", START).args(["run", "ask.rhai"]);
        let program = program.args(["--allow", "image=engine:1"]);
        let folder = program.folder().to_path_buf();
        let hash: String = Sha256::digest("mine")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let program = program
            .file("docker/config.json", config)
            .file(
                &format!("docker/contexts/meta/{hash}/meta.json"),
                r#"{"Name": "mine", "Endpoints": {"docker": {"Host": "unix:///no/such/mine.sock"}}}"#,
            )
            .env("DOCKER_HOST", "")
            .env("DOCKER_CONTEXT", context)
            .env("DOCKER_CONFIG", folder.join("docker"));
        program.run().code(3)
    };
    ask("{}", "mine").stderr("`/no/such/mine.sock` does not exist");
    ask(r#"{"currentContext": "mine"}"#, "").stderr("`/no/such/mine.sock` does not exist");
    ask("{}", "other")
        .stderr("the Docker context `other` does not exist")
        .stderr("docker context ls");
}

#[test]
fn no_permission_for_the_socket() {
    let folder = temp();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("docker.sock");
    let _daemon = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let host = format!("unix://{}", path.display());
    let output = as_nobody()
        .arg("doctor")
        .env("DOCKER_HOST", host)
        .current_dir("/")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !needs_other_user(!(nix_root() && said.contains("setpriv"))) {
        return;
    }
    assert!(shown.contains("no permission for the Docker socket"), "{shown}{said}");
    assert!(shown.contains("group `docker`"), "{shown}");
}

fn nix_root() -> bool {
    std::fs::metadata("/proc/self")
        .map(|data| std::os::unix::fs::MetadataExt::uid(&data))
        .unwrap()
        == 0
}

/// The program as a user without rights to the socket: root could open any socket.
fn as_nobody() -> std::process::Command {
    let program = env!("CARGO_BIN_EXE_profiler");
    if !nix_root() {
        // We own a socket of mode 0600, so only its folder can be closed to us. Mode 0 refuses its owner as well.
        return std::process::Command::new(program);
    }
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
    command
}

#[test]
fn an_image_that_is_missing_and_cannot_be_pulled() {
    let daemon = Daemon::new(|asked| match asked {
        "POST /images/create" => message(404, "pull access denied for engine, repository does not exist"),
        _ => message(404, "No such image: engine:1"),
    });
    daemon
        .run(START, &[])
        .code(3)
        .stderr("the image `engine:1` is not present and cannot be pulled")
        .stderr("docker pull engine:1");
    assert_eq!(daemon.asked(CREATE).len(), 0);
}

#[test]
fn a_disk_that_fills_during_the_pull() {
    let daemon = Daemon::new(|asked| match asked {
        "POST /images/create" => (
            200,
            json!({"errorDetail": {"message": "write /var/lib/docker/tmp/x: no space left on device"}, "error": "full"}),
        ),
        _ => message(404, "No such image: engine:1"),
    });
    daemon
        .run(START, &[])
        .code(3)
        .stderr("no space left on device")
        .stderr("docker system prune");
}

#[test]
fn a_disk_that_cannot_hold_the_image_is_known_before_it_is_full() {
    let daemon = Daemon::new(|asked| match asked {
        "POST /images/create" => (
            200,
            json!({"status": "Downloading", "id": "layer", "progressDetail": {"current": 1, "total": 4_000_000_000_000_000_i64}}),
        ),
        _ => message(404, "No such image: engine:1"),
    });
    daemon
        .run(START, &[])
        .code(3)
        .stderr("the image `engine:1` needs at least")
        .stderr("free disk space");
}

#[test]
fn a_disk_without_room_is_known_before_the_pull() {
    // A file system that never has free space.
    let daemon = Daemon::new(|asked| match asked {
        "GET /info" => (200, json!({"DockerRootDir": "/proc", "Runtimes": {}})),
        _ => message(404, "No such image: engine:1"),
    });
    daemon
        .run(START, &[])
        .code(3)
        .stderr("the disk of `/proc` has 0 MiB left")
        .stderr("free disk space");
    assert_eq!(daemon.asked("POST /images/create").len(), 0);
}

#[test]
fn a_port_that_somebody_else_took_is_tried_again_and_then_named() {
    let daemon = Daemon::new(|asked| match asked {
        "GET /images/engine:1/json" => (200, json!({"Id": "sha256:1"})),
        "POST /containers/create" => (201, json!({"Id": "c0ffee", "Warnings": []})),
        "POST /containers/c0ffee/start" => message(
            500,
            "driver failed: Bind for 127.0.0.1:80 failed: port is already allocated",
        ),
        "DELETE /containers/c0ffee" => (204, Value::Null),
        _ => message(404, "not found"),
    });
    daemon
        .run(START, &[])
        .code(3)
        .stderr("port is already allocated")
        .stderr("end what listens on that port");
    // Every container that was created for the start is removed.
    assert_eq!(
        [CREATE, "DELETE /containers/"].map(|asked| daemon.asked(asked).len()),
        [3, 3]
    );
}

#[test]
fn a_full_disk_at_creation() {
    let daemon = Daemon::new(|asked| match asked {
        "GET /images/engine:1/json" => (200, json!({"Id": "sha256:1"})),
        "POST /containers/create" => message(500, "failed to mount: no space left on device"),
        _ => message(404, "not found"),
    });
    daemon
        .run(START, &[])
        .code(3)
        .stderr("no space left on device")
        .stderr("free disk space");
}

#[test]
fn a_name_cannot_lead_to_another_question() {
    let daemon = Daemon::new(|_| message(404, "asked something else"));
    let outcome = daemon
        .run(
            r#"docker::start(#{ image: "../containers/prune?x=" })"#,
            &["--allow", "image=../containers/prune?x="],
        )
        .code(2);
    outcome
        .stderr("is not a valid image reference")
        .nowhere("asked something else");
    assert_eq!(daemon.asked(CREATE).len(), 0);
}

#[test]
fn only_containers_of_dead_runs_are_removed() {
    let own = std::process::id();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let stat = read(&format!("/proc/{own}/stat"));
    let start = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(19)
        .unwrap()
        .to_owned();
    let (boot, machine) = (read("/proc/sys/kernel/random/boot_id"), read("/etc/machine-id"));
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
    let space = space.replace(|c: char| !c.is_ascii_digit(), "");
    let labels = |host: &str| json!({"profiler.run": "r", "profiler.host": host});
    let dead = format!("profiler-r-{own}-engine-1");
    let removal = format!("DELETE /containers/{dead}");
    // The fake daemon ignores the filter, so the list contains foreign containers too.
    let listed = json!([
        {"Id": "foreign", "Names": ["/db"], "Labels": {}},
        {"Id": "bare", "Names": ["/bare"]},
        {"Id": "half", "Names": ["/half"], "Labels": {"profiler.run": "r"}},
        {"Id": "like ours", "Names": ["/db-2"], "Labels": labels(&format!("{own}:1:{boot}:{machine}:{space}"))},
        {"Id": "odd", "Names": ["/profiler-r-what is this-engine-1"], "Labels": labels("what is this")},
        {"Id": "live", "Names": [format!("/profiler-r-{own}-engine-2")], "Labels": labels(&format!("{own}:{start}:{boot}:{machine}:{space}"))},
        {"Id": "elsewhere", "Names": [format!("/profiler-r-{own}-engine-3")], "Labels": labels(&format!("{own}:1:{boot}:other-machine:{space}"))},
        {"Id": "dead", "Names": [format!("/{dead}")], "Labels": labels(&format!("{own}:1:{boot}:{machine}:{space}"))},
    ]);
    // Podman can leave a container in a state that Docker does not have.
    for (doctor, state) in [(true, "exited"), (true, "unknown"), (false, "unknown")] {
        let mut listed = listed.clone();
        listed[7]["State"] = json!(state);
        let removed = removal.clone();
        let daemon = Daemon::new(move |asked| match asked {
            "GET /containers/json" => (200, listed.clone()),
            _ if asked == removed => (204, Value::Null),
            _ => message(404, "not found"),
        });
        if doctor {
            let program = Profiler::new().args(["doctor", "--clean"]);
            let _ = program
                .env("DOCKER_HOST", daemon.host())
                .run()
                .stdout(&format!("container {dead} of r"));
        } else {
            let _ = daemon
                .run(START, &[])
                .stderr(&format!("cleaned up the container `{dead}`"));
        }
        assert_eq!(daemon.asked("DELETE /containers/").len(), 1);
        assert_eq!(daemon.asked(&removal).len(), 1);
    }
}

/// The supervisor must request the removal: the program itself is dead, and nothing else calls this daemon.
#[test]
fn a_container_is_removed_when_its_host_is_killed() {
    let listed: Arc<Mutex<Value>> = Arc::new(Mutex::new(json!([])));
    let answered = Arc::clone(&listed);
    let daemon = Daemon::new(move |asked| match asked {
        "GET /images/engine:1/json" => (200, json!({"Id": "sha256:1"})),
        "POST /containers/create" => (201, json!({"Id": "c0ffee", "Warnings": []})),
        "POST /containers/c0ffee/start" => (204, Value::Null),
        "GET /containers/c0ffee/logs" => (200, Value::Null),
        "GET /containers/json" => (200, answered.lock().unwrap().clone()),
        _ => message(404, "not found"),
    });
    let program = Profiler::new().file("ask.rhai", format!("{START}; print(\"started\"); sleep(1000)"));
    let program = program.args(["run", "ask.rhai", "--allow", "image=engine:1"]);
    let program = program.env("DOCKER_HOST", daemon.host());
    let (mut child, _folder) = program.spawn();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("started")));
    let labels = daemon.asked(CREATE)[0]["Labels"].clone();
    let text = |name: &str| labels[name].as_str().unwrap();
    let name = |run: &str| format!("profiler-{run}-{}-engine-1", text("profiler.pid"));
    let (mine, others) = (name(text("profiler.run")), name("other"));
    let other = json!({"profiler.run": "other", "profiler.host": labels["profiler.host"]});
    *listed.lock().unwrap() =
        json!([{"Names": [format!("/{mine}")], "Labels": labels}, {"Names": [format!("/{others}")], "Labels": other}]);
    child.kill().unwrap();
    child.wait().unwrap();
    let removed = |name: &str| daemon.asked(&format!("DELETE /containers/{name}")).len();
    eventually("it is removed", || removed(&mine) > 0);
    assert_eq!(removed(&others), 0);
}
