//! Runs local commands of a script, such as those of a scheduler, until they exit.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::Captured;
use super::launch::TOKEN_VARIABLES;
use crate::fault::{Fault, Kind, Result};

/// The standard input of a command.
#[derive(Debug)]
pub enum Input<'text> {
    /// A text.
    Text(&'text str),
    /// A file, from its current position.
    File(File),
}

/// Reads the output of a command while it runs, on a separate thread.
pub type Take = Box<dyn FnOnce(File) -> Result<()> + Send>;

/// Runs a command with this input for at most `time`. It is killed if this program ends. Its output is captured unless
/// `take` reads it. It gets the Hugging Face token if `token`. Does not check the permission; see
/// `Permits::check_command`.
///
/// # Errors
///
/// `missing` if there is no such program; `timeout` if it takes longer; errors of `take`.
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
                // The command may exit without reading all of it.
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

/// Starts a command with piped output. It is killed when the returned value is dropped.
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
