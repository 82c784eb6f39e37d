//! The connections of a load: which are idle, which carry a request, which are being opened.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::exchange::Exchange;
use super::socket::Socket;
use super::target::Target;

/// One connection.
pub(super) struct Line {
    pub(super) socket: Socket,
    /// The request that it carries, or that waits for it to be open.
    pub(super) exchange: Option<Box<Exchange>>,
    /// It is open.
    pub(super) ready: bool,
    /// When it began to be opened.
    pub(super) opened: Instant,
    // The kernel is asked to tell when it can be written.
    watches_writing: bool,
}

/// All connections, each by a number that the kernel gives back when something has happened to it.
pub(super) struct Pool {
    epoll: Epoll,
    lines: Vec<Option<Line>>,
    vacant: Vec<usize>,
    idle: VecDeque<usize>,
    // Which of the target's addresses answers.
    address: usize,
}

impl Pool {
    pub(super) fn new(epoll: Epoll) -> Self {
        Self {
            epoll,
            lines: Vec::new(),
            vacant: Vec::new(),
            idle: VecDeque::new(),
            address: 0,
        }
    }

    /// Waits for something to happen, for a number of milliseconds or for ever.
    pub(super) fn wait(&self, events: &mut [EpollEvent], timeout: nix::sys::epoll::EpollTimeout) -> io::Result<usize> {
        match self.epoll.wait(events, timeout) {
            Ok(count) => Ok(count),
            Err(nix::errno::Errno::EINTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins to open a connection.
    pub(super) fn open(&mut self, target: &Target, now: Instant) -> io::Result<usize> {
        let address = target.addresses[self.address % target.addresses.len()];
        let socket = Socket::open(address, target.tls.as_ref())?;
        let number = self.vacant.pop().unwrap_or(self.lines.len());
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT;
        self.epoll.add(&socket, EpollEvent::new(flags, number as u64))?;
        let line = Line {
            socket,
            exchange: None,
            ready: false,
            opened: now,
            watches_writing: true,
        };
        if number == self.lines.len() {
            self.lines.push(Some(line));
        } else {
            self.lines[number] = Some(line);
        }
        Ok(number)
    }

    /// The next of the target's addresses is tried from now on.
    pub(super) fn next_address(&mut self) {
        self.address += 1;
    }

    pub(super) fn line(&mut self, number: usize) -> Option<&mut Line> {
        self.lines.get_mut(number)?.as_mut()
    }

    /// Takes a connection out; dropping it closes it.
    pub(super) fn remove(&mut self, number: usize) -> Option<Line> {
        let line = self.lines.get_mut(number)?.take()?;
        self.vacant.push(number);
        if line.ready && line.exchange.is_none() {
            self.idle.retain(|idle| *idle != number);
        }
        Some(line)
    }

    /// The connection that has been idle for longest, no more idle.
    pub(super) fn take_idle(&mut self) -> Option<usize> {
        self.idle.pop_front()
    }

    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    pub(super) fn idle_count(&self) -> usize {
        self.idle.len()
    }

    pub(super) fn put_idle(&mut self, number: usize) {
        self.idle.push_back(number);
    }

    /// Asks the kernel to tell when a connection can be written, if that matters, and not otherwise.
    pub(super) fn watch(&mut self, number: usize) -> io::Result<()> {
        let Some(Some(line)) = self.lines.get_mut(number) else {
            return Ok(());
        };
        let unwritten = line
            .exchange
            .as_ref()
            .is_some_and(|exchange| !exchange.unwritten().is_empty());
        let writing = line.socket.wants_write() || (line.ready && unwritten);
        if writing != line.watches_writing {
            line.watches_writing = writing;
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, writing);
            self.epoll
                .modify(&line.socket, &mut EpollEvent::new(flags, number as u64))?;
        }
        Ok(())
    }

    /// Numbers of all connections that carry a request, or have one waiting.
    pub(super) fn busy(&self) -> Vec<usize> {
        let busy = |line: &Option<Line>| line.as_ref().is_some_and(|line| line.exchange.is_some());
        (0..self.lines.len())
            .filter(|number| busy(&self.lines[*number]))
            .collect()
    }

    /// The earliest deadline of a request.
    pub(super) fn earliest_deadline(&self) -> Option<Instant> {
        let lines = self.lines.iter().flatten();
        lines.filter_map(|line| Some(line.exchange.as_ref()?.deadline)).min()
    }
}
