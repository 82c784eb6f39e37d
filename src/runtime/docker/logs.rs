//! A container's log as it comes: both streams, in the daemon's order, as lines.

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::StreamExt;

use crate::runtime::LogBook;
use crate::runtime::lines::Lines;

/// Follows the log of a container into `logs` until the container ends: `tail` old lines first (`all`, or a number).
pub(in crate::runtime) fn follow(docker: &Docker, id: &str, tail: &str, logs: LogBook) {
    let (docker, id, tail) = (docker.clone(), id.to_owned(), tail.to_owned());
    tokio::spawn(async move {
        let options = LogsOptionsBuilder::default()
            .follow(true)
            .stdout(true)
            .stderr(true)
            .tail(&tail)
            .build();
        let mut pieces = std::pin::pin!(docker.logs(&id, Some(options)));
        // Pieces of the two streams may end in the middle of a line.
        let (mut out, mut err) = (Lines::default(), Lines::default());
        while let Some(piece) = pieces.next().await {
            let lines = match piece {
                Ok(LogOutput::StdErr { message }) => err.push(&message),
                Ok(LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message }) => {
                    out.push(&message)
                }
                Err(error) => vec![format!("[profiler: the container's log broke off: {error}]")],
            };
            lines.into_iter().for_each(|line| logs.push(line));
        }
        out.rest()
            .into_iter()
            .chain(err.rest())
            .for_each(|line| logs.push(line));
        logs.end();
    });
}
