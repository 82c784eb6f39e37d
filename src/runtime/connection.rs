//! A command that stays: lines go to it and come from it, such as this program on another host by `ssh`.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Captured;
use super::command::{prepared, read};
use crate::fault::{Fault, Result};
use crate::task::lock;

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
        let said = lock(&self.errors).stderr_tail(LAST_WORDS);
        if said.is_empty() {
            "the connection ended".to_owned()
        } else {
            said
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
