//! A Docker daemon of the test's own, with storage and a socket of its own, which can be ended and started again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::podman::User;
use super::{eventually, image, temp};
use crate::runtime::lives;

/// Whether Docker's daemon is installed and may be started.
pub fn installed() -> bool {
    let answers = |program: &str, option: &str| {
        let output = Command::new(program).arg(option).output();
        output.is_ok_and(|output| output.status.success())
    };
    answers("dockerd", "--version")
        && answers("ip", "-V")
        && answers("unshare", "--version")
        && nix::unistd::getuid().is_root()
}

/// Runs until dropped, with all of its containers. It has no bridge: a container has a network of its own or none.
pub struct Dockerd {
    folder: TempDir,
    further: Vec<String>,
    process: Child,
}

const INSIDE: &str = "PROFILER_TEST_WITHOUT_NETWORK";

/// The shell stays the first process, which reaps the processes that a killed daemon leaves.
/// A containerd of this machine is hidden, because dockerd would use it.
const REAPING: &str =
    r#"ip link set lo up; [ ! -d /run/containerd ] || mount -t tmpfs none /run/containerd; "$@"; exit $?"#;

/// Whether this test runs where a daemon of its own can be started. If not, runs it there: without the network and the
/// mounts of this machine, from which such a daemon would take away the bridge of the one that runs already. Whatever is
/// left there ends with it.
#[track_caller]
pub fn is_inside() -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let inside = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", REAPING, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--include-ignored", &name])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&inside.stdout);
    assert!(
        inside.status.success() && shown.contains("1 passed"),
        "{shown}{}",
        String::from_utf8_lossy(&inside.stderr)
    );
    false
}

impl Dockerd {
    /// Starts it with these further options.
    pub fn start(further: &[&str]) -> Self {
        let folder = temp();
        let further: Vec<String> = further.iter().map(|&word| word.to_owned()).collect();
        let process = command(&folder, &further).spawn().unwrap();
        let mut daemon = Self {
            folder,
            further,
            process,
        };
        daemon.await_start();
        daemon
    }

    /// The value of `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The tag of the simulated engine's image, which is made there.
    pub fn sim(&self) -> String {
        image::sim_at(Some(&self.host()))
    }

    /// Ends it, and starts it again once it is gone.
    pub fn restart(&mut self, signal: Signal) {
        self.end(signal);
        self.process = command(&self.folder, &self.further).spawn().unwrap();
        self.await_start();
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    fn end(&mut self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        kill(pid, signal).unwrap();
        self.process.wait().unwrap();
        // The next daemon would use this one's containerd while it ends.
        let containerd = std::fs::read_to_string(self.folder.path().join("exec/containerd/containerd.pid"));
        if let Some(containerd) = containerd.ok().and_then(|pid| pid.trim().parse().ok()) {
            eventually("containerd is gone", || !lives(containerd));
        }
    }

    fn await_start(&mut self) {
        eventually("dockerd answers", || {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "dockerd ended: {ended:?}");
            self.docker(&["version"]).status().is_ok_and(|status| status.success())
        });
    }

    pub fn docker(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.env("DOCKER_HOST", self.host()).args(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Debian's, from `docker.io`.
const ROOTLESS: &str = "/usr/share/docker.io/contrib/dockerd-rootless.sh";

/// Whether users without root's rights can have a daemon, and root can make such a user.
pub fn rootless_installed() -> bool {
    let kit = Command::new("rootlesskit").arg("--version").output();
    super::podman::rootless_installed() && Path::new(ROOTLESS).exists() && kit.is_ok()
}

/// A daemon of a user without root's rights, which runs until dropped.
pub struct Rootless {
    folder: TempDir,
    user: User,
    process: Child,
}

impl Rootless {
    pub fn start() -> Self {
        let folder = temp();
        let user = User::create(folder.path());
        let made = user.command(folder.path(), "mkdir".as_ref()).arg("run").status();
        assert!(made.unwrap().success());
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let process = user
            .command(folder.path(), "sh".as_ref())
            .arg(ROOTLESS)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let daemon = Self { folder, user, process };
        eventually("rootless dockerd answers", || {
            let asked = Command::new("docker")
                .arg("version")
                .env("DOCKER_HOST", daemon.host())
                .output();
            asked.is_ok_and(|output| output.status.success())
        });
        daemon
    }

    /// The value of `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("home/run/docker.sock").display())
    }

    /// This program, started by the daemon's user.
    pub fn profiler(&self) -> Command {
        let copy = self.folder.path().join("program");
        if !copy.exists() {
            std::fs::copy(image::stripped(), &copy).unwrap();
        }
        self.user.command(self.folder.path(), copy.as_os_str())
    }
}

impl Drop for Rootless {
    fn drop(&mut self) {
        let _ = kill(
            Pid::from_raw(i32::try_from(self.process.id()).unwrap()),
            Signal::SIGTERM,
        );
        let _ = self.process.wait();
    }
}

fn command(folder: &TempDir, further: &[String]) -> Command {
    let path = |name: &str| folder.path().join(name);
    let log = std::fs::File::options()
        .append(true)
        .create(true)
        .open(path("log"))
        .unwrap();
    std::fs::write(path("daemon.json"), "{}").unwrap();
    let mut command = Command::new("dockerd");
    command
        .arg("--data-root")
        .arg(path("data"))
        .arg("--exec-root")
        .arg(path("exec"))
        .arg("--pidfile")
        .arg(path("pid"))
        .arg(format!("--host=unix://{}", path("docker.sock").display()))
        // Not the settings of this machine's own daemon.
        .arg("--config-file")
        .arg(path("daemon.json"))
        .args(["--bridge=none", "--iptables=false", "--ip-forward=false"])
        .args(further)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    command
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        let listed = self.docker(&["ps", "--all", "--quiet"]).stdout(Stdio::piped()).output();
        let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        for id in listed.unwrap_or_default().split_whitespace() {
            let _ = self.docker(&["rm", "--force", "--volumes", id]).status();
        }
        self.end(Signal::SIGKILL);
        for mounted in ["data", "exec/netns/default"] {
            let _ = Command::new("umount")
                .arg("--quiet")
                .arg(self.folder.path().join(mounted))
                .status();
        }
    }
}
