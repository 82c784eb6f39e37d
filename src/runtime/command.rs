//! Commands of this machine: those that a script runs to their end, such as those of a scheduler, and one that stays, to which lines go
//! and from which they come, such as this program on another host by `ssh`.

use std::fs::File;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Captured;
use super::launch::TOKEN_VARIABLES;
use crate::fault::{Fault, Kind, Result};
use crate::task::lock;

/// What a command reads.
#[derive(Debug)]
pub enum Input<'text> {
    /// A text.
    Text(&'text str),
    /// A file, from where it is.
    File(File),
}

/// Takes the output of a command as it comes, on a thread of its own.
pub type Take = Box<dyn FnOnce(File) -> Result<()> + Send>;

/// Runs a command with this input, at most for `time`; it ends with this program. Its output is captured, unless `take` takes
/// it. It has the Hugging Face token if `token`. The permission is not checked here; see `Permits::check_command`.
///
/// # Errors
///
/// `missing` if there is no such program; `timeout` if it takes longer; those of `take`.
pub async fn run_command(
    words: &[String],
    input: Input<'_>,
    take: Option<Take>,
    time: Duration,
    token: bool,
) -> Result<Captured> {
    let (text, stdin) = match input {
        Input::Text(text) => (text, Stdio::piped()),
        Input::File(file) => ("", file.into()),
    };
    let mut child = spawn(words, token, stdin)?;
    let program = words.first().map_or("", String::as_str);
    let io = |error| Fault::new(Kind::Io, format!("`{program}`: {error}"));
    let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Captured::default(), Captured::default());
    let ended = tokio::time::timeout(time, async {
        let write = async {
            if let Some(stdin) = &mut stdin {
                // It may end without reading all of it.
                let _ = stdin.write_all(text.as_bytes()).await;
            }
            drop(stdin.take());
        };
        let output = async {
            match (take, stdout) {
                (Some(take), Some(stdout)) => {
                    let pipe = File::from(stdout.into_owned_fd().map_err(io)?);
                    let taken = tokio::task::spawn_blocking(move || take(pipe)).await;
                    taken.map_err(|error| Fault::internal(format!("`{program}`: {error}")))?
                }
                (_, stdout) => {
                    read(stdout, |bytes| out.push_stdout(bytes)).await;
                    Ok(())
                }
            }
        };
        let ((), taken, ()) = tokio::join!(write, output, read(stderr, |bytes| err.push_stderr(bytes)));
        let status = child.wait().await.map_err(io)?;
        taken.map(|()| status)
    });
    let status = match ended.await {
        Ok(status) => status?,
        Err(_) => {
            let message = format!("`{program}` did not end within {} s", time.as_secs_f64());
            return Err(Fault::new(Kind::Timeout, message).hint("give it more time with the option `timeout`"));
        }
    };
    Ok(Captured {
        code: status.code().map(i64::from),
        stderr: err.stderr,
        ..out
    })
}

/// A command whose output is piped, and which ends with the value.
fn spawn(words: &[String], token: bool, stdin: Stdio) -> Result<Child> {
    let split = words.split_first();
    let (program, args) = split.ok_or_else(|| Fault::usage("the command is empty"))?;
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true).process_group(0);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in TOKEN_VARIABLES.iter().filter(|_| !token) {
        command.env_remove(name);
    }
    let failed = |error| {
        Fault::missing(
            format!("cannot run `{program}`: {error}"),
            "install it, or put it on the PATH",
        )
    };
    command.spawn().map_err(failed)
}

pub(super) async fn read(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        take(&buffer[..count]);
    }
}

/// How often an empty line says that this end is still there.
const BEAT: Duration = Duration::from_secs(10);

/// Longest line that is read, bytes.
const LONGEST: u64 = 16 << 20;

/// Lines of its standard error that are kept.
const LAST_WORDS: usize = 3;

/// How long its standard error is read after its end.
const LEFT: Duration = Duration::from_secs(1);

/// A command that was started. It ends with the value.
#[derive(Debug)]
pub struct Connection {
    child: Child,
    to: mpsc::UnboundedSender<String>,
    from: BufReader<ChildStdout>,
    errors: Arc<Mutex<Captured>>,
    reading: JoinHandle<()>,
}

impl Connection {
    /// Starts a command. It has the Hugging Face token if `token`. The permission is not checked here.
    ///
    /// # Errors
    ///
    /// `missing` if there is no such program.
    pub async fn open(words: &[String], token: bool) -> Result<Self> {
        let mut child = spawn(words, token, Stdio::piped())?;
        let piped = |what| Fault::internal(format!("a command without a {what}"));
        let stdin = child.stdin.take().ok_or_else(|| piped("standard input"))?;
        let from = BufReader::new(child.stdout.take().ok_or_else(|| piped("standard output"))?);
        let stderr = child.stderr.take();
        let errors: Arc<Mutex<Captured>> = Arc::default();
        let kept = Arc::clone(&errors);
        let reading = tokio::spawn(async move { read(stderr, |bytes| lock(&kept).push_stderr(bytes)).await });
        let (to, lines) = mpsc::unbounded_channel();
        tokio::spawn(write(stdin, lines));
        Ok(Self {
            child,
            to,
            from,
            errors,
            reading,
        })
    }

    /// Sends a line. Whether it arrives, the answer says.
    pub fn send(&self, line: String) {
        let _ = self.to.send(line);
    }

    /// The next line; `None` if there is none any more.
    pub async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = (&mut self.from).take(LONGEST).read_line(&mut line).await;
        (read.is_ok() && line.ends_with('\n')).then_some(line)
    }

    /// Ends its input, waits so long for its end, and kills it then. Returns what it said last on its standard error.
    pub async fn end(mut self, time: Duration) -> String {
        drop(self.to);
        let ended = async {
            // Until then it may have more to say than a pipe holds.
            let _ = tokio::io::copy(&mut self.from, &mut tokio::io::sink()).await;
            let _ = self.child.wait().await;
        };
        if tokio::time::timeout(time, ended).await.is_err() {
            let _ = self.child.kill().await;
        }
        // What it left running may hold it open.
        let _ = tokio::time::timeout(LEFT, self.reading).await;
        match lock(&self.errors).stderr_tail(LAST_WORDS) {
            said if said.is_empty() => "the connection ended".to_owned(),
            said => said,
        }
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    loop {
        let line = match tokio::time::timeout(BEAT, lines.recv()).await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(_) => String::new(),
        };
        if stdin.write_all(format!("{line}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}
