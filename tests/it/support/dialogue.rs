//! The program on a pseudo-terminal, as a user at a keyboard has it.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use rexpect::session::PtySession;
use tempfile::TempDir;

/// Timeout for any answer, long enough for a busy machine. Only a failing test waits this long.
const PATIENCE_MS: u64 = 60_000;

/// An interactive program.
pub struct Dialogue {
    session: PtySession,
    folder: TempDir,
}

impl Dialogue {
    #[track_caller]
    pub(super) fn begin(command: Command, folder: TempDir) -> Self {
        let mut session = rexpect::session::spawn_command(command, Some(PATIENCE_MS)).unwrap();
        // A program that does not exit when a failed test drops it is killed.
        session.process_mut().set_kill_timeout(Some(PATIENCE_MS));
        Self { session, folder }
    }

    /// Reads up to and including `text`. Returns the text before it.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        match self.session.exp_string(text) {
            Ok(before) => before,
            Err(error) => panic!("not shown: {text:?}\n{error}"),
        }
    }

    /// Types `keys` unchanged.
    #[track_caller]
    pub fn keys(&mut self, keys: &str) {
        self.session.send(keys).unwrap();
        self.session.flush().unwrap();
    }

    /// Types `line` and Enter.
    #[track_caller]
    pub fn line(&mut self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// Holds Ctrl and types `key`.
    #[track_caller]
    pub fn control(&mut self, key: char) {
        self.session.send_control(key).unwrap();
    }

    /// Sends a signal to the program.
    #[track_caller]
    pub fn signal(&mut self, signal: Signal) {
        self.session.process_mut().signal(signal).unwrap();
    }

    /// Waits for the program to exit. Returns its exit status.
    #[track_caller]
    pub fn end(mut self) -> i32 {
        self.session.exp_eof().unwrap();
        match self.session.process().wait().unwrap() {
            WaitStatus::Exited(_, code) => code,
            other => panic!("ended by {other:?}"),
        }
    }

    /// The folder in which the program was started.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends the program and starts `next` in the same folder, as another session of the same user.
    #[track_caller]
    pub fn again(mut self) -> Self {
        self.control('d');
        self.session.exp_eof().unwrap();
        let mut command = super::profiler::command(self.folder.path());
        command.arg("repl").env("TERM", "xterm");
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        Self::begin(command, self.folder)
    }
}
