//! Opens connections before the clock starts, in small batches: a server's accept backlog is short, and a first token
//! should not wait for a connection.

use std::time::Instant;

use nix::sys::epoll::{EpollEvent, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::event_loop::{CONNECT_TIMEOUT, Client, io_fault};
use crate::fault::{Fault, Kind, Result};

/// Connections opened concurrently.
const BATCH: u64 = 32;

/// File descriptors reserved for the rest of the program.
const OTHER_FILES: u64 = 256;

/// Raises the soft limit on open files to what `connections` need, up to the hard limit.
pub(super) fn raise_file_limit(connections: u64) -> Result<()> {
    let needed = connections.saturating_add(OTHER_FILES);
    let limit = |error: nix::Error| Fault::internal(format!("cannot read or raise the limit on open files: {error}"));
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(limit)?;
    if hard < needed {
        return Err(Fault::missing(
            format!("{connections} connections need {needed} open files; the limit is {hard}"),
            format!(
                "raise the limit (`ulimit -Hn {needed}` as root), or use at most {} concurrent requests",
                hard.saturating_sub(OTHER_FILES)
            ),
        ));
    }
    // A simulated engine in this process holds the other end of each connection.
    let wanted = needed.saturating_add(connections).min(hard);
    if soft >= wanted {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).map_err(limit)
}

impl Client {
    /// Opens up to `connections` connections. Fails only if none can be opened; requests open missing ones later.
    pub(super) fn connect(&mut self, connections: u64) -> Result<()> {
        for _ in 1..self.target.addresses.len() {
            if self.open_batch(1)? > 0 {
                break;
            }
            self.pool.next_address();
        }
        while self.health.connected < connections {
            let batch = BATCH.min(connections - self.health.connected);
            if self.open_batch(batch)? < batch {
                break;
            }
        }
        if self.health.connected == 0 && connections > 0 {
            let why = self
                .connect_error
                .take()
                .map_or_else(|| "no answer".to_owned(), |error| error.to_string());
            let hint = if why.contains("certificate") {
                "add the engine's certificate to the system's, or name its file in the environment variable SSL_CERT_FILE"
            } else {
                "check that the engine runs and listens there"
            };
            return Err(Fault::new(Kind::Http, format!("cannot connect to `{}`: {why}", self.target.name)).hint(hint));
        }
        Ok(())
    }

    /// Opens a batch of connections and returns how many succeeded.
    fn open_batch(&mut self, count: u64) -> Result<u64> {
        let begun = Instant::now();
        let before = self.pool.idle_count();
        for _ in 0..count {
            self.open_idle(begun);
        }
        let mut events = [EpollEvent::empty(); 64];
        while self.opening > 0 && !self.control.aborted() {
            let left = CONNECT_TIMEOUT.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let timeout = EpollTimeout::try_from(left).unwrap_or(EpollTimeout::MAX);
            let ready = self.pool.wait(&mut events, timeout).map_err(io_fault)?;
            self.handle_events(&events[..ready])?;
        }
        let open = self.pool.idle_count().saturating_sub(before) as u64;
        self.health.connected += open;
        Ok(open)
    }
}
