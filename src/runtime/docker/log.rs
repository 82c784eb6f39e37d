//! The log of a container, followed across restarts of its daemon.

use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::{InspectContainerOptions, LogsOptions, LogsOptionsBuilder};
use futures_util::StreamExt;
use jiff::Timestamp;

use super::{Container, daemon};
use crate::runtime::ServerLog;
use crate::runtime::output::LineSplitter;

/// When to look again at a container whose log has ended and which still runs: it is about to exit.
const SOON: Duration = Duration::from_millis(50);
/// After so long without a message the log is asked for again: Docker's `local` driver may send nothing more of a log that
/// was rotated.
const SILENCE: Duration = Duration::from_secs(30);

impl Container {
    /// Follows its log into `logs` until it exits, starting with the last `tail` lines, or with the first. If the daemon
    /// restarts and the container outlives it, goes on with the first line that is missing.
    pub(in crate::runtime) fn follow(&self, tail: Option<u32>, logs: ServerLog) {
        let (docker, id, absence) = (self.docker.clone(), self.id.clone(), self.absence.clone());
        // Of what is older, only the tail is wanted.
        let mut since = tail.map(|_| Timestamp::now());
        let mut asked = options().tail(&tail.map_or_else(|| "all".to_owned(), |lines| lines.to_string()));
        tokio::spawn(async move {
            let mut streams = [Stream::default(), Stream::default()];
            let mut absences = 0;
            loop {
                // A daemon that shuts down may end the answer as if the container had exited.
                let fault = match read(&docker, &id, asked.build(), &mut streams, &logs).await {
                    Ok(()) => match is_running(&docker, &id).await {
                        Ok(false) => break,
                        Ok(true) => None,
                        Err(error) if daemon::is_gone(&error) => break,
                        Err(error) => Some(daemon::explain(error)),
                    },
                    Err(error) => Some(daemon::explain(error)),
                };
                if let Some(fault) = fault {
                    absences += 1;
                    let returned = if absences > daemon::MAX_ABSENCES {
                        Err(fault)
                    } else {
                        absence.await_return(&docker, fault, None).await
                    };
                    if let Err(fault) = returned {
                        logs.push(format!(
                            "[profiler: reading the container's log failed: {}]",
                            fault.message
                        ));
                        break;
                    }
                } else {
                    tokio::time::sleep(SOON).await;
                }
                streams.iter_mut().for_each(Stream::go_on);
                since = since.max(streams.iter().map(|stream| stream.whole.time).max());
                asked = options().since(since.map_or(0, second_before));
            }
            let rests = streams.iter_mut().filter_map(|stream| stream.splitter.finish());
            rests.for_each(|line| logs.push(line));
            logs.end();
        });
    }
}

fn options() -> LogsOptionsBuilder {
    let options = LogsOptionsBuilder::default().follow(true).timestamps(true);
    options.stdout(true).stderr(true).tail("all")
}

/// Messages of two streams may be out of their order.
fn second_before(time: Timestamp) -> i32 {
    i32::try_from(time.as_second() - 1).unwrap_or_default().max(0)
}

pub(super) async fn is_running(docker: &Docker, id: &str) -> std::result::Result<bool, bollard::errors::Error> {
    let found = docker.inspect_container(id, None::<InspectContainerOptions>).await?;
    Ok(found.state.and_then(|state| state.running) == Some(true))
}

/// Follows a log until the container exits, or nothing comes.
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

/// A place in a stream of a log: so many messages with this time. Their number alone would not do, because the oldest go
/// when the log is rotated.
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
#[derive(Default)]
struct Stream {
    /// Messages may end in the middle of a line.
    splitter: LineSplitter,
    read: Place,
    /// After the last whole line.
    whole: Place,
    /// What is to be left out until a message comes that was not read before.
    known: Option<Place>,
}

impl Stream {
    /// Begins again, after the last whole line or before it.
    fn go_on(&mut self) {
        self.splitter = LineSplitter::default();
        self.read = self.whole;
        self.known = Some(self.whole);
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
        // Docker may repeat the last line of a log that it rotates. Podman's times are whole seconds.
        if is_whole && time == self.whole.time && time.subsec_nanosecond() != 0 {
            return Vec::new();
        }
        let earlier = if time == self.read.time { self.read.messages } else { 0 };
        self.read = Place {
            time,
            messages: earlier + 1,
        };
        if is_whole {
            self.whole = self.read;
        }
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
    fn after_a_break_it_goes_on_with_the_first_line_that_is_missing() {
        // By Docker, and by podman.
        for [one, two, three] in [[".1", ".2", ".3"], ["", "", ""]] {
            let log = [
                format!("2026-11-29T10:00:00{one}Z one\n"),
                format!("2026-11-29T10:00:00{two}Z two\n"),
                format!("2026-11-29T10:00:01{three}Z thr"),
                format!("2026-11-29T10:00:01{three}Z ee\n"),
            ];
            let mut stream = Stream::default();
            assert_eq!(lines(&mut stream, &log[..2]), ["one", "two"]);
            stream.go_on();
            assert_eq!(lines(&mut stream, &log[..3]), [""; 0]);
            stream.go_on();
            assert_eq!(lines(&mut stream, &log), ["three"]);
            stream.go_on();
            assert_eq!(lines(&mut stream, &log), [""; 0]);
        }
    }

    #[test]
    fn the_line_that_docker_repeats_when_it_rotates_a_log_is_read_once() {
        let [one, two] = ["2026-11-29T10:00:00.1Z one\n", "2026-11-29T10:00:00.2Z one\n"].map(str::to_owned);
        let mut stream = Stream::default();
        assert_eq!(lines(&mut stream, &[one.clone(), one, two]), ["one", "one"]);
    }

    #[test]
    fn lines_that_were_rotated_away_are_not_counted() {
        let line = |second: u32| format!("2026-11-29T10:00:{second:02}.5Z {second}\n");
        let mut stream = Stream::default();
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
