//! Podman's Docker-compatible service on a socket of the test, with storage and networks of its own; as root, or as a
//! user without root's rights.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::{eventually, temp};

fn found(program: &str) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// Whether podman and what its containers need are installed.
pub fn installed() -> bool {
    found("podman") && found("catatonit") && nix::unistd::getuid().is_root()
}

/// Whether users without root's rights can have containers, and root can make such a user.
pub fn rootless_installed() -> bool {
    let helpers = ["newuidmap", "slirp4netns", "useradd"]
        .map(|name| Path::new("/usr/bin").join(name).exists() || Path::new("/usr/sbin").join(name).exists());
    installed() && found("fuse-overlayfs") && helpers == [true; 3]
}

/// Runs until dropped, with all of its containers.
pub struct Podman {
    folder: TempDir,
    user: Option<User>,
    service: Child,
}

/// A user of this machine, made for the test and removed when dropped.
pub(super) struct User(String);

impl User {
    /// Its home is in this folder, which everybody may enter from now on.
    pub(super) fn create(folder: &Path) -> Self {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        // Two tests of this process may have one each.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let user = Self(format!("profiler-{}-{number}", std::process::id()));
        let home = folder.join("home");
        let made = Command::new("useradd")
            .arg("--create-home")
            .arg("--home-dir")
            .arg(home)
            .arg(&user.0)
            .output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        user
    }

    /// A command that this user starts.
    pub(super) fn command(&self, folder: &Path, program: &OsStr) -> Command {
        let home = folder.join("home");
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &self.0, "--regid", &self.0, "--init-groups"])
            .arg(program)
            .current_dir(&home)
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", home.join("run"))
            .env_remove("DOCKER_HOST")
            .env_remove("CONTAINER_HOST");
        for name in ["CONFIG", "DATA", "CACHE", "STATE"] {
            command.env_remove(format!("XDG_{name}_HOME"));
        }
        command
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = Command::new("userdel").arg("--force").arg(&self.0).output();
    }
}

impl Podman {
    /// Starts the service as root.
    pub fn start() -> Self {
        Self::start_as(temp(), None)
    }

    /// Starts it as a user without root's rights, where such a user's programs look for it.
    pub fn start_rootless() -> Self {
        let folder = temp();
        let user = User::create(folder.path());
        let made = user
            .command(folder.path(), "mkdir".as_ref())
            .args(["--parents", "run/podman", ".config/containers"])
            .status();
        assert!(made.unwrap().success());
        let storage =
            "[storage]\ndriver = \"overlay\"\n[storage.options.overlay]\nmount_program = \"/usr/bin/fuse-overlayfs\"\n";
        std::fs::write(folder.path().join("home/.config/containers/storage.conf"), storage).unwrap();
        Self::start_as(folder, Some(user))
    }

    fn start_as(folder: TempDir, user: Option<User>) -> Self {
        // Podman raises the limits of open files and processes to numbers that a machine may not allow.
        let limit = |resource| nix::sys::resource::getrlimit(resource).unwrap().1.min(1 << 14);
        let files = limit(nix::sys::resource::Resource::RLIMIT_NOFILE);
        let processes = limit(nix::sys::resource::Resource::RLIMIT_NPROC);
        let mut text = format!(
            "[containers]\ndefault_ulimits = [\"nofile={files}:{files}\", \"nproc={processes}:{processes}\"]\n"
        );
        if user.is_none() {
            text += &format!(
                "[network]\nnetwork_config_dir = \"{}/networks\"\n",
                folder.path().display()
            );
        }
        std::fs::write(folder.path().join("containers.conf"), text).unwrap();
        let socket = socket(&folder, user.as_ref());
        let service = command(&folder, user.as_ref())
            .args(["system", "service", "--time=0"])
            .arg(format!("unix://{}", socket.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("service.log")).unwrap())
            .spawn()
            .unwrap();
        let podman = Self { folder, user, service };
        eventually("podman listens", || {
            std::os::unix::net::UnixStream::connect(podman.socket()).is_ok()
        });
        podman
    }

    pub fn socket(&self) -> PathBuf {
        socket(&self.folder, self.user.as_ref())
    }

    /// A command of podman's own user: this program, which everybody can read.
    pub fn command(&self, program: &Path) -> Command {
        let copy = self.folder.path().join("program");
        if !copy.exists() {
            std::fs::copy(program, &copy).unwrap();
        }
        match &self.user {
            Some(user) => user.command(self.folder.path(), copy.as_os_str()),
            None => Command::new(copy),
        }
    }

    /// The output of podman's own command line.
    pub fn podman(&self, args: &[&str]) -> String {
        let output = command(&self.folder, self.user.as_ref()).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "podman {args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The value of `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }
}

fn socket(folder: &TempDir, user: Option<&User>) -> PathBuf {
    let place = if user.is_some() {
        "home/run/podman/podman.sock"
    } else {
        "podman.sock"
    };
    folder.path().join(place)
}

fn command(folder: &TempDir, user: Option<&User>) -> Command {
    let mut command = match user {
        Some(user) => user.command(folder.path(), "podman".as_ref()),
        None => {
            let mut command = Command::new("podman");
            command.arg("--root").arg(folder.path().join("root"));
            command.arg("--runroot").arg(folder.path().join("run"));
            command
        }
    };
    command
        .env("CONTAINERS_CONF", folder.path().join("containers.conf"))
        .env_remove("CONTAINER_HOST");
    command
}

impl Drop for Podman {
    fn drop(&mut self) {
        let quiet = |args: &[&str]| {
            let _ = command(&self.folder, self.user.as_ref())
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        };
        quiet(&["rm", "--all", "--force", "--volumes", "--time=0"]);
        quiet(&["network", "prune", "--force"]);
        let _ = self.service.kill();
        let _ = self.service.wait();
        if self.user.is_some() {
            // The process that holds the user's namespaces, and the files of other users in them.
            quiet(&["system", "migrate"]);
            quiet(&["unshare", "rm", "--recursive", "--force", ".local/share/containers"]);
        }
        // The storage stays mounted on itself.
        let _ = Command::new("umount")
            .arg("--quiet")
            .arg(self.folder.path().join("root/overlay"))
            .stderr(Stdio::null())
            .status();
    }
}
