//! Follows a container's log: both streams in the daemon's order, split into lines.

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::StreamExt;

use crate::runtime::ServerLog;
use crate::runtime::lines::LineSplitter;

/// Follows a container's log into `logs` until the container exits, starting with the last `tail` lines (`all` or a
/// number).
pub(in crate::runtime) fn follow(docker: &Docker, id: &str, tail: &str, logs: ServerLog) {
    let (docker, id, tail) = (docker.clone(), id.to_owned(), tail.to_owned());
    tokio::spawn(async move {
        let options = LogsOptionsBuilder::default()
            .follow(true)
            .stdout(true)
            .stderr(true)
            .tail(&tail)
            .build();
        let mut chunks = std::pin::pin!(docker.logs(&id, Some(options)));
        // Chunks of either stream may end in the middle of a line.
        let (mut out, mut err) = (LineSplitter::default(), LineSplitter::default());
        while let Some(chunk) = chunks.next().await {
            let lines = match chunk {
                Ok(LogOutput::StdErr { message }) => err.push(&message),
                Ok(LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message }) => {
                    out.push(&message)
                }
                Err(error) => vec![format!("[profiler: reading the container's log failed: {error}]")],
            };
            lines.into_iter().for_each(|line| logs.push(line));
        }
        out.finish()
            .into_iter()
            .chain(err.finish())
            .for_each(|line| logs.push(line));
        logs.end();
    });
}
