//! Runs local commands until they exit, such as those of a scheduler, `ssh` and `git`: below a supervisor, with a
//! deadline, and with bounded output.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
pub type Take = Box<dyn FnOnce(Box<dyn Read + Send>) -> Result<()> + Send>;

/// How often is looked whether an output grows.
const WINDOW: Duration = Duration::from_secs(60);

/// A command to run.
pub struct CommandLine<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// Its standard input.
    pub input: Input<'a>,
    /// Reads its output; otherwise the output is captured.
    pub take: Option<Take>,
    /// Bytes by which an output that is taken must grow in each minute: another host may send one now and then.
    pub least: u64,
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
            least: 0,
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
/// `missing` if there is no such program; `timeout` if it takes longer, or its output grows too slowly; errors of `take`.
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
                    let (pipe, count) = Counted::new(pipe);
                    let taken = tokio::task::spawn_blocking(move || take(Box::new(pipe)));
                    tokio::select! {
                        taken = taken => taken.map_err(|error| Fault::internal(format!("`{program}`: {error}")))?,
                        () = stalled(&count, line.least) => Err(Fault::new(
                            Kind::Timeout,
                            format!("`{program}` sent less than {} bytes in {} s", line.least, WINDOW.as_secs()),
                        )),
                    }
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

/// Counts the bytes that are read.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R> Counted<R> {
    fn new(inner: R) -> (Self, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&count);
        (Self { inner, count }, shared)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Returns once a count grows by less than `least` in a window.
async fn stalled(count: &AtomicU64, least: u64) {
    let mut before = 0;
    loop {
        tokio::time::sleep(WINDOW).await;
        let now = count.load(Ordering::Relaxed);
        if now - before < least {
            return;
        }
        before = now;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_output_stalls_if_it_hardly_grows_in_a_minute() {
        let began = tokio::time::Instant::now();
        let (mut reader, count) = Counted::new(io::repeat(0));
        let slower = async {
            for length in [200, 100, 99] {
                reader.read_exact(&mut vec![0; length]).unwrap();
                tokio::time::sleep(WINDOW).await;
            }
        };
        tokio::join!(stalled(&count, 100), slower);
        assert_eq!(began.elapsed(), 3 * WINDOW);
    }
}
