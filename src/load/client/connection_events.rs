//! Connection events: connecting, reading responses, handling closed connections.

use std::time::{Duration, Instant};

use nix::sys::epoll::EpollFlags;

use super::event_loop::{Client, io_fault};
use super::pool::Connection;
use super::socket::Received;
use crate::fault::Result;
use crate::load::record::FailureForm;

/// If an idle connection fails within this time after a request was sent on it, the server may have closed it before
/// the request arrived. Upper bound of a round trip.
const STALE: Duration = Duration::from_secs(1);

/// An idle connection that closes sooner is not replaced. Otherwise a server that closes at once would be reconnected
/// forever.
const SHORT_LIVED: Duration = Duration::from_secs(1);

impl Client {
    pub(super) fn handle_connection_event(&mut self, key: usize, happened: EpollFlags) -> Result<()> {
        let Some(connection) = self.pool.connection(key) else {
            return Ok(());
        };
        if !connection.ready {
            return self.continue_connecting(key);
        }
        if happened.contains(EpollFlags::EPOLLOUT) && connection.exchange.is_some() {
            self.write(key)?;
        }
        if happened.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
            self.read(key)?;
        }
        Ok(())
    }

    fn continue_connecting(&mut self, key: usize) -> Result<()> {
        let Some(connection) = self.pool.connection(key) else {
            return Ok(());
        };
        match connection.socket.continue_connecting() {
            Ok(false) => self.pool.update_interest(key).map_err(io_fault),
            Ok(true) => {
                connection.ready = true;
                if let Some(exchange) = connection.exchange.take() {
                    return self.begin(key, exchange);
                }
                self.opening -= 1;
                self.pool.put_idle(key);
                self.pool.update_interest(key).map_err(io_fault)
            }
            Err(error) => {
                match self.pool.remove(key).and_then(|connection| connection.exchange) {
                    Some(exchange) => {
                        let now = Instant::now();
                        let why = error.to_string();
                        self.end_request(exchange.broken(&self.clock, now, FailureForm::Unreachable, why), now);
                    }
                    None => self.opening -= 1,
                }
                self.connect_error = Some(error);
                Ok(())
            }
        }
    }

    fn read(&mut self, key: usize) -> Result<()> {
        loop {
            let Some(connection) = self.pool.connection(key) else {
                return Ok(());
            };
            let received = connection.socket.read(&mut self.read_buffer);
            let at = Instant::now();
            let length = match received {
                Ok(Received::Bytes(length)) => length,
                Ok(Received::WouldBlock) => return Ok(()),
                Ok(Received::Closed) => return self.connection_closed(key, None),
                Err(error) => return self.connection_closed(key, Some(&error)),
            };
            self.health.reads += 1;
            let Some(exchange) = &mut connection.exchange else {
                // Data without a pending request.
                return self.connection_closed(key, None);
            };
            let (deadline, finished) = (exchange.deadline, exchange.feed(&self.read_buffer[..length], at));
            let (sooner, may_buffer) = (exchange.deadline, connection.socket.may_buffer());
            if finished {
                return self.complete_response(key, at);
            }
            if sooner < deadline {
                self.arm_deadline(sooner);
            }
            if !may_buffer {
                return Ok(());
            }
        }
    }

    /// A response is complete. The slot goes to the next request immediately, on the same connection if it is reusable.
    fn complete_response(&mut self, key: usize, at: Instant) -> Result<()> {
        let Some(connection) = self.pool.connection(key) else {
            return Ok(());
        };
        let Some(exchange) = connection.exchange.take() else {
            return Ok(());
        };
        if exchange.connection_reusable() {
            self.pool.put_idle(key);
            self.pool.update_interest(key).map_err(io_fault)?;
        } else {
            self.pool.remove(key);
        }
        self.end_request(exchange.complete(&self.clock, at), at);
        self.issue()
    }

    /// Handles a connection that was closed or failed.
    pub(super) fn connection_closed(&mut self, key: usize, error: Option<&std::io::Error>) -> Result<()> {
        let now = Instant::now();
        let Some(Connection { exchange, opened, .. }) = self.pool.remove(key) else {
            return Ok(());
        };
        let Some(mut exchange) = exchange else {
            self.health.replaced += 1;
            if now.duration_since(opened) > SHORT_LIVED {
                self.open_idle(now);
            }
            return Ok(());
        };
        let soon = exchange.sent().is_some_and(|sent| now.duration_since(sent) < STALE);
        if exchange.on_idle && exchange.unanswered() && soon {
            self.health.resent += 1;
            return self.send_on_new(exchange, now);
        }
        let record = if error.is_none() && exchange.close() {
            exchange.complete(&self.clock, now)
        } else {
            let why = match error {
                Some(error) => error.to_string(),
                None if exchange.unanswered() => "the connection was closed before a response".to_owned(),
                None => "the connection was closed during the response".to_owned(),
            };
            exchange.broken(&self.clock, now, FailureForm::Broken, why)
        };
        self.end_request(record, now);
        Ok(())
    }
}
