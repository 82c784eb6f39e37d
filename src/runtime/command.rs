//! Runs local commands until they exit, such as those of a scheduler, `ssh` and `git`: below a supervisor, with a
//! deadline, and with bounded output.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::launch::TOKEN_VARIABLES;
use super::output::{Captured, read};
use super::process::{exit_of, pipe, supervised};
use super::supervisor::{Limits, Work};
use crate::fault::{Fault, Kind, Result};

/// The standard input of a command.
#[derive(Debug)]
pub enum Input<'text> {
    /// A text.
    Text(&'text str),
    /// A file, from its beginning.
    File(File),
}

/// Reads the output of a command while it runs, on a separate thread.
pub type Take = Box<dyn FnOnce(File) -> Result<()> + Send>;

/// A command to run.
pub struct CommandLine<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// Its standard input.
    pub input: Input<'a>,
    /// Reads its output; otherwise the output is captured.
    pub take: Option<Take>,
    /// How long it may take.
    pub time: Duration,
    /// Whether it gets the Hugging Face token.
    pub token: bool,
    /// Variables added to the environment, or taken out of it.
    pub env: BTreeMap<String, Option<String>>,
    /// The folder that it runs in; this program's own when absent.
    pub folder: Option<PathBuf>,
    /// Limits of the kernel on each of its processes.
    pub limits: Limits,
    /// Whether processes that it leaves when it exits go on, as those of a launcher of jobs.
    pub leaves: bool,
}

impl<'a> CommandLine<'a> {
    /// A command without input that may take this long.
    pub fn new(words: &'a [String], time: Duration) -> Self {
        Self {
            words,
            input: Input::Text(""),
            take: None,
            time,
            token: false,
            env: BTreeMap::new(),
            folder: None,
            limits: Limits::default(),
            leaves: false,
        }
    }
}

/// Runs a command. Everything that it started ends when its time is over or this program ends, and also when it exits,
/// unless it `leaves` processes. Does not check the permission; see `Permits::check_command`.
///
/// # Errors
///
/// `missing` if there is no such program; `timeout` if it takes longer; errors of `take`.
pub async fn run_command(line: CommandLine<'_>) -> Result<Captured> {
    let program = line.words.first().cloned();
    let program = program.ok_or_else(|| Fault::usage("the command is empty"))?;
    let io = |error: io::Error| Fault::new(Kind::Io, format!("`{program}`: {error}"));
    let stdin = line.input.file().map_err(io)?;
    let mut env = line.env;
    if line.token {
        let token = |name: &str| Some((name.to_owned(), Some(std::env::var(name).ok()?)));
        env.extend(TOKEN_VARIABLES.iter().filter_map(|name| token(name)));
    }
    let work = Work {
        command: line.words.to_vec(),
        env: env
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
            .collect(),
        without: env
            .into_iter()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name)
            .collect(),
        stdin: stdin.as_ref().map(own_descriptor),
        current: line.folder,
        limits: line.limits,
        ..Work::default()
    };
    let (err, stderr, _) = pipe()?;
    let (mut captured, mut errors) = (Captured::default(), Captured::default());
    let ended = tokio::time::timeout(line.time, async {
        let (output, stdout) = match line.take {
            Some(take) => {
                let (reader, writer) = io::pipe().map_err(io)?;
                (
                    Output::Taken(take, File::from(OwnedFd::from(reader))),
                    Stdio::from(writer),
                )
            }
            None => {
                let (reader, stdout, _) = pipe()?;
                (Output::Captured(reader), stdout)
            }
        };
        let command = supervised(work, stdout, stderr).await?;
        drop(stdin);
        let output = async {
            match output {
                Output::Taken(take, pipe) => {
                    let taken = tokio::task::spawn_blocking(move || take(pipe)).await;
                    taken.map_err(|error| Fault::internal(format!("`{program}`: {error}")))?
                }
                Output::Captured(reader) => {
                    read(Some(reader), |bytes| captured.push_stdout(bytes)).await;
                    Ok(())
                }
            }
        };
        let errors = read(Some(err), |bytes| errors.push_stderr(bytes));
        // If the output is refused, nothing waits for its end.
        let errors = async {
            errors.await;
            Ok::<_, Fault>(())
        };
        tokio::try_join!(output, errors)?;
        let exit = exit_of(&command).await;
        if line.leaves {
            command.dismiss();
        }
        Ok::<_, Fault>(exit)
    });
    match ended.await {
        Ok(ended) => {
            let exit = ended?;
            Ok(Captured {
                code: exit.code.filter(|_| exit.signal.is_none()),
                stderr: errors.stderr,
                ..captured
            })
        }
        Err(_) => {
            let message = format!("`{program}` did not end within {} s", line.time.as_secs_f64());
            Err(Fault::new(Kind::Timeout, message).hint("give it more time with the option `timeout`"))
        }
    }
}

enum Output {
    Taken(Take, File),
    Captured(tokio::net::unix::pipe::Receiver),
}

impl Input<'_> {
    /// As a file; `None` for an empty text.
    fn file(self) -> io::Result<Option<File>> {
        match self {
            Self::File(file) => Ok(Some(file)),
            Self::Text("") => Ok(None),
            Self::Text(text) => {
                let mut file = tempfile::tempfile()?;
                file.write_all(text.as_bytes())?;
                file.rewind()?;
                Ok(Some(file))
            }
        }
    }
}

/// The path by which another process of this user opens a file that this one has open.
fn own_descriptor(file: &File) -> PathBuf {
    Path::new("/proc").join(format!("{}/fd/{}", std::process::id(), file.as_raw_fd()))
}
