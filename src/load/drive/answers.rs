//! What happens to connections: they open, answers arrive on them, they end.

use std::time::{Duration, Instant};

use nix::sys::epoll::EpollFlags;

use super::client::{Client, broken};
use super::pool::Line;
use super::socket::Got;
use crate::fault::Result;
use crate::load::record::FailureForm;

/// How long after a request was sent its connection's end can mean that the server had closed it before: the longest way there and back.
const STALE: Duration = Duration::from_secs(1);

/// An idle connection that did not live so long is not replaced: a server that closes at once would be asked for ever.
const SHORT_LIVED: Duration = Duration::from_secs(1);

impl Client {
    pub(super) fn look_at(&mut self, number: usize, happened: EpollFlags) -> Result<()> {
        let Some(line) = self.pool.line(number) else {
            return Ok(());
        };
        if !line.ready {
            return self.go_on_opening(number);
        }
        if happened.contains(EpollFlags::EPOLLOUT) && line.exchange.is_some() {
            self.write(number)?;
        }
        if happened.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
            self.read(number)?;
        }
        Ok(())
    }

    fn go_on_opening(&mut self, number: usize) -> Result<()> {
        let Some(line) = self.pool.line(number) else {
            return Ok(());
        };
        match line.socket.proceed() {
            Ok(false) => self.pool.watch(number).map_err(broken),
            Ok(true) => {
                line.ready = true;
                if let Some(exchange) = line.exchange.take() {
                    return self.begin(number, exchange);
                }
                self.opening -= 1;
                self.pool.put_idle(number);
                self.pool.watch(number).map_err(broken)
            }
            Err(error) => {
                match self.pool.remove(number).and_then(|line| line.exchange) {
                    Some(exchange) => {
                        let now = Instant::now();
                        let why = error.to_string();
                        self.keep(exchange.broken(&self.clock, now, FailureForm::Unreachable, why), now);
                    }
                    None => self.opening -= 1,
                }
                self.refused = Some(error);
                Ok(())
            }
        }
    }

    fn read(&mut self, number: usize) -> Result<()> {
        loop {
            let Some(line) = self.pool.line(number) else {
                return Ok(());
            };
            let got = line.socket.read(&mut self.buffer);
            let at = Instant::now();
            let length = match got {
                Ok(Got::Bytes(length)) => length,
                Ok(Got::Nothing) => return Ok(()),
                Ok(Got::End) => return self.lost(number, None),
                Err(error) => return self.lost(number, Some(&error)),
            };
            self.watch.reads += 1;
            let Some(exchange) = &mut line.exchange else {
                // An answer to nothing.
                return self.lost(number, None);
            };
            let (deadline, over) = (exchange.deadline, exchange.take(&self.buffer[..length], at));
            let (sooner, buffers) = (exchange.deadline, line.socket.buffers());
            if over {
                return self.finish(number, at);
            }
            if sooner < deadline {
                self.mind(sooner);
            }
            if !buffers {
                return Ok(());
            }
        }
    }

    /// An answer is complete: the slot goes to the next request at once, on the same connection where the server lets it.
    fn finish(&mut self, number: usize, at: Instant) -> Result<()> {
        let Some(line) = self.pool.line(number) else {
            return Ok(());
        };
        let Some(exchange) = line.exchange.take() else {
            return Ok(());
        };
        if exchange.leaves_reusable() {
            self.pool.put_idle(number);
            self.pool.watch(number).map_err(broken)?;
        } else {
            self.pool.remove(number);
        }
        self.keep(exchange.complete(&self.clock, at), at);
        self.issue()
    }

    /// A connection has ended, or failed.
    pub(super) fn lost(&mut self, number: usize, error: Option<&std::io::Error>) -> Result<()> {
        let now = Instant::now();
        let Some(Line { exchange, opened, .. }) = self.pool.remove(number) else {
            return Ok(());
        };
        let Some(mut exchange) = exchange else {
            self.watch.replaced += 1;
            if now.duration_since(opened) > SHORT_LIVED {
                self.open_idle(now);
            }
            return Ok(());
        };
        let soon = exchange.sent().is_some_and(|sent| now.duration_since(sent) < STALE);
        if exchange.on_idle && exchange.unanswered() && soon {
            self.watch.resent += 1;
            return self.send_on_new(exchange, now);
        }
        let record = if error.is_none() && exchange.close() {
            exchange.complete(&self.clock, now)
        } else {
            let why = match error {
                Some(error) => error.to_string(),
                None if exchange.unanswered() => "the connection was closed before an answer".to_owned(),
                None => "the connection was closed within the answer".to_owned(),
            };
            exchange.broken(&self.clock, now, FailureForm::Broken, why)
        };
        self.keep(record, now);
        Ok(())
    }
}
