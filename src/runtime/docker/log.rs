//! The log of a container, followed across restarts of its daemon.

use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::{LogsOptions, LogsOptionsBuilder};
use futures_util::StreamExt;
use jiff::Timestamp;

use super::{Container, daemon};
use crate::fault::Result;
use crate::runtime::ServerLog;
use crate::runtime::output::LineSplitter;

/// When to look again at a container whose log has ended and which still runs: it is about to exit.
const SOON: Duration = Duration::from_millis(50);
/// Time without a message after which the log is requested again: Docker's `local` driver may send nothing more of a log
/// that was rotated.
const SILENCE: Duration = Duration::from_secs(30);
/// Lines at the end of a log that are requested when it is read again: to find the lines after a time, the daemon would
/// decode a long log for minutes. While Docker is away, at most 64 KiB wait for it.
const RECENT: &str = "50000";

impl Container {
    /// Follows its log into `logs` until it exits, starting with the last `tail` lines, or with the first. If the daemon
    /// restarts and the container outlives it, continues with the first missing line.
    pub(in crate::runtime) fn follow(self: &Arc<Self>, tail: Option<u32>, logs: ServerLog) {
        let container = Arc::clone(self);
        tokio::spawn(async move {
            let may_repeat = !container.is_podman().await;
            let mut streams = [Stream::new(may_repeat), Stream::new(may_repeat)];
            let read = container.read_log(tail, &mut streams, &logs).await;
            let rests = streams.iter_mut().filter_map(|stream| stream.splitter.finish());
            rests.for_each(|line| logs.push(line));
            if let Err(fault) = read {
                let message = fault.message;
                logs.push(format!("[profiler: reading the container's log failed: {message}]"));
            }
            logs.end();
        });
    }

    async fn read_log(&self, tail: Option<u32>, streams: &mut [Stream; 2], logs: &ServerLog) -> Result<()> {
        // Older lines are wanted only as far as the tail reaches.
        let mut since = tail.map(|_| Timestamp::now());
        let mut asked = options(&tail.map_or_else(|| "all".to_owned(), |lines| lines.to_string()));
        let mut reads = 0;
        let mut absences = 0;
        loop {
            // Asked before the log, which is complete only if it was read after the exit: a daemon that shuts down may end
            // its answer as if the container had exited.
            let is_running = self.is_running().await?;
            if is_running && reads > 0 {
                tokio::time::sleep(SOON).await;
            }
            reads += 1;
            match read(&self.docker, &self.id, asked.follow(is_running).build(), streams, logs).await {
                Ok(()) if is_running => {}
                Ok(()) => return Ok(()),
                // It is removed, or is being removed.
                Err(error) if daemon::is_gone(&error) || daemon::status(&error) == Some(409) => return Ok(()),
                Err(error) => {
                    let fault = daemon::explain(error);
                    absences += 1;
                    if absences > daemon::MAX_ABSENCES {
                        return Err(fault);
                    }
                    self.await_return(fault).await?;
                }
            }
            streams.iter_mut().for_each(Stream::go_on);
            since = since.max(streams.iter().map(|stream| stream.read.time).max());
            asked = options(RECENT).since(since.map_or(0, second_before));
        }
    }
}

fn options(tail: &str) -> LogsOptionsBuilder {
    let options = LogsOptionsBuilder::default().timestamps(true);
    options.stdout(true).stderr(true).tail(tail)
}

/// Messages of two streams may be out of their order.
fn second_before(time: Timestamp) -> i32 {
    i32::try_from(time.as_second() - 1).unwrap_or_default().max(0)
}

/// Reads a log into `logs` until it ends, or nothing comes.
async fn read(
    docker: &Docker,
    id: &str,
    options: LogsOptions,
    [out, err]: &mut [Stream; 2],
    logs: &ServerLog,
) -> std::result::Result<(), bollard::errors::Error> {
    let mut messages = std::pin::pin!(docker.logs(id, Some(options)));
    let mut failed = None;
    while let Ok(Some(message)) = tokio::time::timeout(SILENCE, messages.next()).await {
        let lines = match message {
            Ok(LogOutput::StdErr { message }) => err.push(&message),
            Ok(LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message }) => {
                out.push(&message)
            }
            Err(error) => {
                failed = Some(error);
                continue;
            }
        };
        lines.into_iter().for_each(|line| logs.push(line));
    }
    failed.map_or(Ok(()), Err)
}

/// A position in a log's stream: a time, and the number of messages seen with it. A number alone would not do, because
/// rotation drops the oldest messages.
#[derive(Clone, Copy)]
struct Place {
    time: Timestamp,
    messages: usize,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            time: Timestamp::MIN,
            messages: 0,
        }
    }
}

/// A stream of a log.
struct Stream {
    /// Messages may end in the middle of a line.
    splitter: LineSplitter,
    /// Docker may repeat the last line of a log that it rotates. Podman does not, and gives the lines of one write, or of
    /// one second, the same time.
    may_repeat: bool,
    read: Place,
    /// Whether the last message ended a line. The parts of a long line have the same time.
    is_whole: bool,
    /// To be left out until a message comes that was not read before.
    known: Option<Place>,
}

impl Stream {
    fn new(may_repeat: bool) -> Self {
        Self {
            splitter: LineSplitter::default(),
            may_repeat,
            read: Place::default(),
            is_whole: false,
            known: None,
        }
    }

    /// Expects the log once more, with messages that were read already.
    fn go_on(&mut self) {
        self.known = Some(self.read);
    }

    /// Takes a message with its time, and returns the lines that it completes.
    fn push(&mut self, message: &[u8]) -> Vec<String> {
        let (time, text) = timed(message);
        let Some(time) = time else {
            return self.splitter.push(text);
        };
        if self.is_known(time) {
            return Vec::new();
        }
        self.known = None;
        let is_whole = text.ends_with(b"\n");
        if self.may_repeat && is_whole && self.is_whole && time == self.read.time {
            return Vec::new();
        }
        let earlier = if time == self.read.time { self.read.messages } else { 0 };
        self.read = Place {
            time,
            messages: earlier + 1,
        };
        self.is_whole = is_whole;
        self.splitter.push(text)
    }

    fn is_known(&mut self, time: Timestamp) -> bool {
        match &mut self.known {
            Some(known) if time == known.time && known.messages > 0 => {
                known.messages -= 1;
                true
            }
            Some(known) => time < known.time,
            None => false,
        }
    }
}

/// The time before a message, and its text.
fn timed(message: &[u8]) -> (Option<Timestamp>, &[u8]) {
    /// Longer than any time.
    const LONGEST: usize = 40;
    let end = message.iter().take(LONGEST).position(|byte| *byte == b' ');
    let time = end.and_then(|end| std::str::from_utf8(&message[..end]).ok()?.parse().ok());
    match (time, end) {
        (Some(time), Some(end)) => (Some(time), &message[end + 1..]),
        _ => (None, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(stream: &mut Stream, messages: &[String]) -> Vec<String> {
        messages
            .iter()
            .flat_map(|message| stream.push(message.as_bytes()))
            .collect()
    }

    #[test]
    fn after_a_break_it_goes_on_with_the_first_message_that_is_missing() {
        // By Docker, by podman, and by podman since its sixth version.
        for (may_repeat, [one, two, three]) in [
            (true, [".1", ".2", ".3"]),
            (false, ["", "", ""]),
            (false, [".1", ".1", ".3"]),
        ] {
            let log = [
                format!("2026-11-29T10:00:00{one}Z one\n"),
                format!("2026-11-29T10:00:00{two}Z two\n"),
                format!("2026-11-29T10:00:01{three}Z 1 %\r2 %\rthr"),
                format!("2026-11-29T10:00:01{three}Z ee\n"),
            ];
            let mut stream = Stream::new(may_repeat);
            assert_eq!(lines(&mut stream, &log[..2]), ["one", "two"]);
            stream.go_on();
            assert_eq!(lines(&mut stream, &log[..3]), ["1 %", "2 %"]);
            stream.go_on();
            assert_eq!(lines(&mut stream, &log), ["three"]);
            stream.go_on();
            assert_eq!(lines(&mut stream, &log), [""; 0]);
        }
    }

    #[test]
    fn the_line_that_docker_repeats_when_it_rotates_a_log_is_read_once() {
        let [one, two] = ["2026-11-29T10:00:00.1Z one\n", "2026-11-29T10:00:00.2Z one\n"].map(str::to_owned);
        let log = [one.clone(), one, two];
        assert_eq!(lines(&mut Stream::new(true), &log), ["one", "one"]);
        assert_eq!(lines(&mut Stream::new(false), &log), ["one", "one", "one"]);
    }

    #[test]
    fn lines_that_were_rotated_away_are_not_counted() {
        let line = |second: u32| format!("2026-11-29T10:00:{second:02}.5Z {second}\n");
        let mut stream = Stream::new(true);
        let _ = lines(&mut stream, &(0..20).map(line).collect::<Vec<_>>());
        stream.go_on();
        let left: Vec<_> = (18..25).map(line).collect();
        assert_eq!(lines(&mut stream, &left), ["20", "21", "22", "23", "24"]);
    }

    #[test]
    fn what_looks_like_no_time_is_text() {
        assert_eq!(timed(b"INFO started"), (None, &b"INFO started"[..]));
        assert_eq!(timed(b"2026-11-29T19:08:05Z hi\n").1, b"hi\n");
        assert_eq!(timed("2026-11-29T19:08:05Zé x".as_bytes()).0, None);
    }
}
