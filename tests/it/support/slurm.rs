//! A real Slurm with two fake nodes of two GPUs each, all in one temporary folder.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{eventually, temp};

/// Stopped on drop.
pub struct Slurm {
    folder: TempDir,
}

/// True if the daemons are installed, munge answers, and this is root, since the daemons start tasks.
pub fn installed() -> bool {
    let runs = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        output.is_ok_and(|output| output.status.success())
    };
    nix::unistd::geteuid().is_root() && runs("slurmctld", &["-V"]) && runs("slurmd", &["-V"]) && runs("munge", &["-n"])
}

impl Slurm {
    /// Starts Slurm and waits until both nodes are idle.
    #[track_caller]
    pub fn start() -> Self {
        let slurm = Self { folder: temp() };
        let dir = slurm.folder.path().display();
        // All ports are held until the last one is chosen, so that they differ.
        let held: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |at: usize| held[at].local_addr().unwrap().port();
        let conf = format!(
            "ClusterName=test\nSlurmctldHost=localhost\nSlurmctldPort={}\nSlurmUser=root\nAuthType=auth/munge\nAuthInfo=cred_expire=10\n\
             StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool-%n\nSlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmdPidFile={dir}/slurmd-%n.pid\nSlurmctldLogFile={dir}/slurmctld.log\nSlurmdLogFile={dir}/%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nGresTypes=gpu\nReturnToService=2\nSlurmdTimeout=5\nMailProg=/bin/true\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
             SlurmdParameters=config_overrides\n\
             NodeName=n1 NodeHostname=localhost Port={} CPUs=4 RealMemory=2000 Gres=gpu:2 State=UNKNOWN\n\
             NodeName=n2 NodeHostname=localhost Port={} CPUs=4 RealMemory=2000 Gres=gpu:2 State=UNKNOWN\n\
             PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP\n",
            port(0),
            port(1),
            port(2)
        );
        drop(held);
        fs::create_dir(slurm.path("state")).unwrap();
        fs::write(slurm.path("slurm.conf"), conf).unwrap();
        for gpu in ["gpu0", "gpu1"] {
            symlink("/dev/null", slurm.path(gpu)).unwrap();
        }
        let gres = format!("NodeName=n[1-2] Name=gpu Count=2 File={dir}/gpu[0-1]\n");
        fs::write(slurm.path("gres.conf"), gres).unwrap();
        let conf = slurm.conf();
        for (program, args) in [
            ("slurmctld", ["-c", "-v"]),
            ("slurmd", ["-N", "n1"]),
            ("slurmd", ["-N", "n2"]),
        ] {
            let started = Command::new(program).arg("-f").arg(&conf).args(args).status().unwrap();
            assert!(started.success(), "{program}");
        }
        eventually("two idle nodes", || {
            slurm.said("sinfo", &["-h", "-t", "idle", "-o", "%D"]) == "2"
        });
        slurm
    }

    /// The configuration file, for `SLURM_CONF`.
    pub fn conf(&self) -> PathBuf {
        self.path("slurm.conf")
    }

    /// The output of a Slurm command.
    pub fn said(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program).args(args).env("SLURM_CONF", self.conf()).output();
        String::from_utf8_lossy(&output.unwrap().stdout).trim().to_owned()
    }

    /// The array indices of the tasks that run on a node.
    pub fn tasks(&self, node: &str) -> Vec<u64> {
        let said = self.said("squeue", &["-h", "-r", "-t", "R", "-w", node, "-o", "%K"]);
        said.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills a node's daemon, but not the tasks that it started.
    pub fn kill_daemon(&self, node: &str) {
        kill("-9", &self.path(&format!("slurmd-{node}.pid")));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.said("scancel", &["--partition=gpu"]);
        for name in ["slurmd-n1.pid", "slurmd-n2.pid", "slurmctld.pid"] {
            kill("-TERM", &self.path(name));
        }
    }
}

fn kill(signal: &str, file: &Path) {
    if let Ok(pid) = fs::read_to_string(file) {
        let _ = Command::new("kill").args([signal, pid.trim()]).status();
    }
}
