//! Commands of this machine that a script runs to their end, such as those of a scheduler.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::Captured;
use super::launch::TOKEN_VARIABLES;
use crate::fault::{Fault, Kind, Result};

/// Runs a command with this input, at most for `time`; it ends with this program. The permission is not checked here; see
/// `Permits::check_command`.
///
/// # Errors
///
/// `missing` if there is no such program; `timeout` if it takes longer.
pub async fn run_command(words: &[String], input: &str, time: Duration) -> Result<Captured> {
    let (program, args) = words
        .split_first()
        .ok_or_else(|| Fault::usage("the command is empty"))?;
    let mut command = tokio::process::Command::new(program);
    command.args(args).kill_on_drop(true).process_group(0);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for name in TOKEN_VARIABLES {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(|error| {
        Fault::missing(
            format!("cannot run `{program}`: {error}"),
            "install it, or put it on the PATH",
        )
    })?;
    let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Captured::default(), Captured::default());
    let ended = tokio::time::timeout(time, async {
        let write = async {
            if let Some(stdin) = &mut stdin {
                // It may end without reading all of it.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
            drop(stdin.take());
        };
        tokio::join!(
            write,
            read(stdout, |bytes| out.push_stdout(bytes)),
            read(stderr, |bytes| err.push_stderr(bytes))
        );
        child.wait().await
    });
    let io = |error| Fault::new(Kind::Io, format!("`{program}`: {error}"));
    let status = match ended.await {
        Ok(status) => status.map_err(io)?,
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

async fn read(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        take(&buffer[..count]);
    }
}
