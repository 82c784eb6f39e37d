//! The program as a user starts it.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{Dialogue, Outcome, temp};

/// One start of the built binary, in a temporary folder that is also its home. It reads and writes nothing of the
/// user's.
#[must_use = "call `run`, `spawn` or `on_terminal`"]
pub struct Profiler {
    command: Command,
    stdin: Vec<u8>,
    folder: TempDir,
}

impl Profiler {
    /// A start without arguments, with empty standard input and without colours.
    #[track_caller]
    pub fn new() -> Self {
        let folder = temp();
        let command = command(folder.path());
        Self {
            command,
            stdin: Vec::new(),
            folder,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the text of standard input.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = text.into();
        self
    }

    /// Starts in another folder; the home stays the temporary folder.
    pub fn current_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Writes a file, and its parent folders, below the folder that the program starts in.
    #[track_caller]
    pub fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Limits the program's address space, for tests that could otherwise use all memory, and measures the peak memory
    /// of the program or one of its children: [`Outcome::peak`].
    pub fn measured(mut self) -> Self {
        const MEASURE: &str = "import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
code = subprocess.run(sys.argv[1:]).returncode
print('peak KiB:', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code if code >= 0 else 128 - code)";
        let mut command = Command::new("python3");
        command.args(["-c", MEASURE]).arg(self.command.get_program());
        command.args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(folder) = self.command.get_current_dir() {
            command.current_dir(folder);
        }
        self.command = command;
        self
    }

    /// The folder in which the program starts.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs to the end.
    #[must_use = "a run that nobody looks at tests nothing"]
    #[track_caller]
    pub fn run(self) -> Outcome {
        let (mut child, stdin, folder) = self.start();
        let mut pipe = child.stdin.take().unwrap();
        // A program that exits without reading its input does not fail the test.
        let writer = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Outcome::new(&output, folder)
    }

    /// Starts without waiting, for tests that kill or talk to the program. The folder is removed when the returned
    /// value is dropped.
    #[track_caller]
    pub fn spawn(self) -> (Child, TempDir) {
        let (child, _, folder) = self.start();
        (child, folder)
    }

    /// Starts on a terminal of its own. The folder is removed when the returned value is dropped.
    #[track_caller]
    pub fn on_terminal(mut self) -> Dialogue {
        let shared =
            |(name, value): (&OsStr, Option<&OsStr>)| name == "XDG_STATE_HOME" && value == Some(SHARED_STATE.as_ref());
        if self.command.get_envs().any(shared) {
            // The input history is not shared.
            self.command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        }
        self.command.env("TERM", "xterm");
        Dialogue::begin(self.command, self.folder)
    }

    #[track_caller]
    fn start(mut self) -> (Child, Vec<u8>, TempDir) {
        let streams = self.command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = streams.stderr(Stdio::piped()).spawn().unwrap();
        (child, self.stdin, self.folder)
    }
}

/// The state folder shared by all tests, so that a later start can resume an earlier run.
pub const SHARED_STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/state");

/// The program with `folder` as its home.
pub(super) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command
        .current_dir(folder)
        .env("HOME", folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env("XDG_STATE_HOME", SHARED_STATE)
        .env("XDG_DATA_HOME", folder.join("data"))
        .env("NO_COLOR", "1")
        .env_remove("HF_HOME")
        .env_remove("HF_TOKEN");
    command
}
