//! The one error value of the program: what went wrong, where, and what to do about it.
//!
//! Every module returns it, scripts can catch it (`kind`, `message`, `hint`), and the command line turns it into an exit
//! status. A message is lower case, has no final period and names things in backticks; a hint is the remedy.

use profiler_search::error::{self, Error};
use profiler_search::names;
use rhai::{Dynamic, EvalAltResult, Position};
use serde::Serialize;

/// A result whose error is a [`Fault`].
pub type Result<T, E = Fault> = std::result::Result<T, E>;

/// The kind of a failure, in a form that a script can branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The script does not parse, or names something that does not exist.
    Compile,
    /// `--dry-run`: the script needs an answer that only a started engine could give.
    DryRun,
    /// The engine under test broke its protocol, or sent an answer that makes no sense.
    Engine,
    /// A request could not be sent, or its answer could not be read.
    Http,
    /// A fault of this program.
    Internal,
    /// The user, or the host on the user's behalf, asked to stop.
    Interrupted,
    /// A file could not be read or written.
    Io,
    /// A script used more operations, memory or depth than it may.
    Limit,
    /// Something required is missing: Docker, a GPU, an image, a tokenizer, a port, disk space.
    Missing,
    /// The user did not allow this; the hint says which `--allow` does.
    NotAllowed,
    /// The script threw a value of its own.
    Script,
    /// The engine cannot start, and another attempt would not help.
    StartFailed,
    /// A threshold that the user set was exceeded.
    Threshold,
    /// Something took longer than it may.
    Timeout,
    /// A wrong option, argument, parameter or file.
    Usage,
}

names!(Kind {
    Compile "compile",
    DryRun "dry_run",
    Engine "engine",
    Http "http",
    Internal "internal",
    Interrupted "interrupted",
    Io "io",
    Limit "limit",
    Missing "missing",
    NotAllowed "not_allowed",
    Script "script",
    StartFailed "start_failed",
    Threshold "threshold",
    Timeout "timeout",
    Usage "usage",
});

impl Kind {
    /// Whether something is wrong with a script or the program, rather than with what the user gave or the machine has.
    pub fn is_bug(self) -> bool {
        matches!(self, Kind::Compile | Kind::Internal | Kind::Limit | Kind::Script)
    }

    /// The exit status of the process when nobody catches the fault.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::DryRun => 0,
            Kind::Compile | Kind::Usage => 2,
            Kind::Missing | Kind::NotAllowed | Kind::StartFailed => 3,
            Kind::Threshold => 4,
            Kind::Internal => 101,
            Kind::Interrupted => 130,
            Kind::Engine | Kind::Http | Kind::Io | Kind::Limit | Kind::Script | Kind::Timeout => 1,
        }
    }
}

/// A failure and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The kind of failure.
    pub kind: Kind,
    /// One sentence, lower case, no period, things in backticks.
    pub message: String,
    /// The remedy, where one is known.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault without a remedy.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds the remedy.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prefixes the message with what was being done: `cannot start: ` + message.
    pub fn while_doing(mut self, what: impl std::fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// The fault of a thread that could not be started.
    pub fn no_thread(what: &str, error: &std::io::Error) -> Self {
        let hint = "allow more memory, processes and open files: `ulimit -v`, `ulimit -u`, `ulimit -n`";
        Self::missing(format!("cannot start the {what}: {error}"), hint)
    }

    /// The fault of a process of this program that could not be started: too low limits, or else a bug.
    pub fn no_process(what: &str, error: &std::io::Error) -> Self {
        if is_own_limit(error) {
            return Self::no_thread(what, error);
        }
        Self::internal(format!("cannot start the {what}: {error}"))
    }

    /// The fault of a file that could not be read or written. A full disk is [`Kind::Missing`], because space is
    /// missing.
    pub fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        let message = format!("`{}`: {error}", path.display());
        match error.kind() {
            _ if is_own_limit(error) => Self::missing(
                message,
                "allow more open files, processes and memory: `ulimit -n`, `ulimit -u`, `ulimit -v`",
            ),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Self::new(Kind::Missing, message).hint("free disk space, or choose another folder with --out")
            }
            std::io::ErrorKind::FileTooLarge => Self::new(Kind::Missing, message)
                .hint("raise the limit on the size of files (`ulimit -f`), or choose another folder with --out"),
            _ => Self::new(Kind::Io, message),
        }
    }

    /// Wrong usage: exit 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Something needed is missing: exit 3. The remedy is not optional.
    pub fn missing(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Kind::Missing, message).hint(hint)
    }

    /// Refused because the user did not allow it: exit 3.
    pub fn not_allowed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Kind::NotAllowed, message).hint(hint)
    }

    /// A fault of ours: exit 101.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(Kind::Internal, message.to_string())
    }

    /// `--dry-run`: something would be started here. Ends the script; scripts cannot catch it.
    pub fn dry_run(what: impl std::fmt::Display) -> Self {
        Self::new(Kind::DryRun, format!("`--dry-run` starts nothing, and here {what}"))
    }

    /// The user asked to stop.
    pub fn interrupted() -> Self {
        Self::new(Kind::Interrupted, "interrupted")
    }
}

/// Whether this process or the system has no more open files, processes or memory to give.
fn is_own_limit(error: &std::io::Error) -> bool {
    use nix::errno::Errno;
    let own = [Errno::EMFILE, Errno::ENFILE, Errno::EAGAIN, Errno::ENOMEM];
    error
        .raw_os_error()
        .is_some_and(|number| own.contains(&Errno::from_raw(number)))
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self {
            kind: match error.kind {
                error::Kind::Usage => Kind::Usage,
                error::Kind::Limit => Kind::Limit,
            },
            message: error.message,
            hint: error.hint,
        }
    }
}

impl From<Fault> for Box<EvalAltResult> {
    /// An interruption and the end of a dry run end the script and cannot be caught. Any other fault can.
    fn from(fault: Fault) -> Self {
        match fault.kind {
            Kind::DryRun | Kind::Interrupted => {
                EvalAltResult::ErrorTerminated(Dynamic::from(fault), Position::NONE).into()
            }
            _ => EvalAltResult::ErrorRuntime(Dynamic::from(fault), Position::NONE).into(),
        }
    }
}
