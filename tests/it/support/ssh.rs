//! Hosts reachable by ssh: a real sshd on each of several loopback addresses, with keys, configurations and caches in
//! one temporary folder.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::UNIX_EPOCH;

use tempfile::TempDir;

use super::{eventually, temp};

const SSHD: &str = "/usr/sbin/sshd";

/// The hosts and their jobs end when this is dropped.
pub struct Hosts {
    folder: TempDir,
    daemons: Vec<Child>,
}

/// True if OpenSSH is installed and this is root, since sshd starts sessions.
pub fn installed() -> bool {
    let found = ["ssh", "ssh-keygen", "setsid"]
        .iter()
        .all(|name| Command::new(name).arg("--help").output().is_ok());
    nix::unistd::geteuid().is_root() && Path::new(SSHD).exists() && found
}

impl Hosts {
    /// Starts `count` hosts, `h1`, `h2` and so on, each on its own address.
    #[track_caller]
    pub fn start(count: usize) -> Self {
        let folder = temp();
        let dir = folder.path().display().to_string();
        // sshd does not start without this folder.
        let _ = fs::DirBuilder::new().mode(0o755).create("/run/sshd");
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.path().join(key))
                .status();
            assert!(made.unwrap().success());
        }
        let public = fs::read_to_string(folder.path().join("host.pub")).unwrap();
        let (mut client, mut known, mut daemons) = (String::new(), String::new(), Vec::new());
        for number in 1..=count {
            let address = format!("127.0.0.{}", number + 1);
            // Free until used below, because nothing else uses these addresses.
            let port = TcpListener::bind((address.as_str(), 0))
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let conf = folder.path().join(format!("sshd{number}"));
            let text = format!(
                "ListenAddress {address}:{port}\nHostKey {dir}/host\nAuthorizedKeysFile {dir}/user.pub\nPidFile none\nStrictModes no\nUsePAM no\n\
                 PermitRootLogin yes\nMaxStartups 100\nSetEnv XDG_CACHE_HOME={dir}/h{number}\n"
            );
            fs::write(&conf, text).unwrap();
            daemons.push(Command::new(SSHD).args(["-D", "-f"]).arg(&conf).spawn().unwrap());
            client += &format!("Host h{number}\n HostName {address}\n Port {port}\n");
            known += &format!("[{address}]:{port} {public}");
        }
        client += &format!(
            "Host *\n User root\n IdentityFile {dir}/user\n IdentitiesOnly yes\n UserKnownHostsFile {dir}/known\n StrictHostKeyChecking yes\n"
        );
        fs::write(folder.path().join("known"), known).unwrap();
        fs::write(folder.path().join("config"), client).unwrap();
        let hosts = Self { folder, daemons };
        for number in 1..=count {
            // The host refuses connections until it listens.
            eventually("the host listens", || hosts.answers(number));
        }
        hosts
    }

    /// The arguments for `profiler fleet`.
    pub fn args(&self, more: &str) -> Vec<String> {
        let options = format!("options={}", self.options(more));
        ["--cluster", "ssh", "--set", &options].map(str::to_owned).to_vec()
    }

    /// The cluster's options, as JSON.
    pub fn options(&self, more: &str) -> String {
        let names: Vec<String> = (1..=self.daemons.len())
            .map(|number| format!("\"h{number}\""))
            .collect();
        let config = self.folder.path().join("config").display().to_string();
        format!(
            "{{\"hosts\":[{}],\"ssh\":[\"-F\",\"{config}\"]{more}}}",
            names.join(",")
        )
    }

    /// The cache folder of a host, which holds the files of fleets.
    pub fn cache(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("h{number}/profiler/fleet"))
    }

    /// The folder of a job's run on a host, which may not exist.
    pub fn job(&self, number: usize, name: &str) -> PathBuf {
        let fleets = fs::read_dir(self.cache(number))
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let mut found = fleets
            .map(|fleet| fleet.path().join("jobs").join(name))
            .filter(|job| job.exists());
        found.next().unwrap_or_default()
    }

    /// The `/proc` folders of the processes that run below a host's cache.
    pub fn running(&self, number: usize) -> BTreeSet<PathBuf> {
        let cache = self.cache(number);
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let folders = processes.map(|process| process.path());
        folders
            .filter(|process| fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(&cache)))
            .collect()
    }

    /// Makes the last contact with a host look older than any job tolerates.
    pub fn forget(&self, number: usize) {
        for fleet in fs::read_dir(self.cache(number)).unwrap().filter_map(Result::ok) {
            if let Ok(seen) = fs::File::options().write(true).open(fleet.path().join("seen")) {
                seen.set_modified(UNIX_EPOCH).unwrap();
            }
        }
    }

    /// Makes a host unresponsive: its sshd is stopped, its jobs run on.
    pub fn silence(&self, number: usize) {
        signal("-STOP", &self.daemons[number - 1].id().to_string());
    }

    /// Makes a silent host answer again.
    pub fn wake(&self, number: usize) {
        signal("-CONT", &self.daemons[number - 1].id().to_string());
    }

    fn answers(&self, number: usize) -> bool {
        let said = Command::new("ssh")
            .arg("-F")
            .arg(self.folder.path().join("config"))
            .arg(format!("h{number}"))
            .arg("true")
            .output();
        said.is_ok_and(|said| said.status.success())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // Empty unless the test fails: jobs of an abandoned fleet end only by themselves.
        let left = (1..=self.daemons.len()).flat_map(|number| self.running(number));
        for process in left.filter_map(|process| Some(process.file_name()?.to_str()?.to_owned())) {
            signal("-KILL", &process);
        }
    }
}

fn signal(name: &str, process: &str) {
    let _ = Command::new("kill").args([name, process]).status();
}
