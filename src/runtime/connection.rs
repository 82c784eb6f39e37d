//! A command that stays: lines go to it and come from it, such as this program on another host by `ssh`.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Captured;
use super::command::{prepared, read};
use crate::fault::{Fault, Result};

/// How often an empty line says that this end is still there.
const BEAT: Duration = Duration::from_secs(10);

/// Longest line that is read, bytes.
const LONGEST: u64 = 16 << 20;

/// Lines of its standard error that are kept.
const LAST_WORDS: usize = 3;

/// A command that was started. It ends with the value.
#[derive(Debug)]
pub struct Connection {
    child: Child,
    to: Option<mpsc::UnboundedSender<String>>,
    from: BufReader<ChildStdout>,
    errors: JoinHandle<Captured>,
}

impl Connection {
    /// Starts a command. It has the Hugging Face token if `token`. The permission is not checked here.
    ///
    /// # Errors
    ///
    /// `missing` if there is no such program.
    pub async fn open(words: &[String], token: bool) -> Result<Self> {
        let mut child = prepared(words, token)?.stdin(Stdio::piped()).spawn().map_err(|error| {
            let program = words.first().map_or("", String::as_str);
            Fault::missing(
                format!("cannot run `{program}`: {error}"),
                "install it, or put it on the PATH",
            )
        })?;
        let piped = |what| Fault::internal(format!("a command without a {what}"));
        let stdin = child.stdin.take().ok_or_else(|| piped("standard input"))?;
        let from = BufReader::new(child.stdout.take().ok_or_else(|| piped("standard output"))?);
        let stderr = child.stderr.take();
        let errors = tokio::spawn(async move {
            let mut errors = Captured::default();
            read(stderr, |bytes| errors.push_stderr(bytes)).await;
            errors
        });
        let (to, lines) = mpsc::unbounded_channel();
        tokio::spawn(write(stdin, lines));
        Ok(Self {
            child,
            to: Some(to),
            from,
            errors,
        })
    }

    /// Sends a line. Whether it arrives, the answer says.
    pub fn send(&self, line: String) {
        if let Some(to) = &self.to {
            let _ = to.send(line);
        }
    }

    /// The next line; `None` if there is none any more.
    pub async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = (&mut self.from).take(LONGEST).read_line(&mut line).await;
        (read.is_ok() && line.ends_with('\n')).then_some(line)
    }

    /// Ends its input, upon which it ends by itself.
    pub fn hang_up(&mut self) {
        self.to = None;
    }

    /// Hangs up, waits so long for its end, and kills it then. Returns what it said last on its standard error.
    pub async fn end(mut self, time: Duration) -> String {
        self.hang_up();
        if tokio::time::timeout(time, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
        // What it started may have the same standard error.
        let errors = tokio::time::timeout(time, self.errors).await;
        errors.map_or_else(
            |_| String::new(),
            |errors| errors.unwrap_or_default().stderr_tail(LAST_WORDS),
        )
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
