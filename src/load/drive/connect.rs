//! Connections opened before the clock begins, in small batches: a server's queue of new ones is short, and a first token should not wait for it.

use std::time::Instant;

use nix::sys::epoll::{EpollEvent, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::client::{CONNECT, Client, broken};
use crate::fault::{Fault, Kind, Result};

/// Connections opened at once.
const AT_ONCE: u64 = 32;

/// Files that the rest of the program has open.
const OTHER_FILES: u64 = 256;

/// Lets this process have so many connections, as far as the system allows it.
pub(super) fn allow_files(connections: u64) -> Result<()> {
    let needed = connections.saturating_add(OTHER_FILES);
    let limit = |error: nix::Error| Fault::internal(format!("the limit on open files cannot be read: {error}"));
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(limit)?;
    if hard < needed {
        return Err(Fault::missing(
            format!("{connections} connections need {needed} open files, and {hard} are allowed"),
            format!(
                "raise the limit (`ulimit -Hn {needed}` as root), or ask for at most {} at once",
                hard.saturating_sub(OTHER_FILES)
            ),
        ));
    }
    // A simulated engine in this process holds the other end of each.
    let wanted = needed.saturating_add(connections).min(hard);
    if soft >= wanted {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).map_err(limit)
}

impl Client {
    /// Opens so many connections. Some may fail, as long as one does not: requests open their own then.
    pub(super) fn connect(&mut self, connections: u64) -> Result<()> {
        for _ in 1..self.target.addresses.len() {
            if self.open_batch(1)? > 0 {
                break;
            }
            self.pool.next_address();
        }
        while self.watch.connected < connections {
            let batch = AT_ONCE.min(connections - self.watch.connected);
            if self.open_batch(batch)? < batch {
                break;
            }
        }
        if self.watch.connected == 0 && connections > 0 {
            let why = self
                .refused
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

    /// Opens a few at once and waits for all; how many are open.
    fn open_batch(&mut self, count: u64) -> Result<u64> {
        let begun = Instant::now();
        let before = self.pool.idle_count();
        for _ in 0..count {
            self.open_idle(begun);
        }
        let mut events = [EpollEvent::empty(); 64];
        while self.opening > 0 && !self.orders.cut() {
            let left = CONNECT.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let timeout = EpollTimeout::try_from(left).unwrap_or(EpollTimeout::MAX);
            let ready = self.pool.wait(&mut events, timeout).map_err(broken)?;
            self.look_after(&events[..ready])?;
        }
        let open = self.pool.idle_count().saturating_sub(before) as u64;
        self.watch.connected += open;
        Ok(open)
    }
}
