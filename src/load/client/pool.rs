//! The connections of a load: idle, busy, or being opened.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::exchange::Exchange;
use super::socket::Socket;
use super::target::Target;

pub(super) struct Connection {
    pub(super) socket: Socket,
    /// The request it carries, or that waits for it to open.
    pub(super) exchange: Option<Box<Exchange>>,
    /// The connection is open.
    pub(super) ready: bool,
    /// When opening began.
    pub(super) opened: Instant,
    // Whether epoll reports writability (EPOLLOUT).
    wants_writable: bool,
}

/// All connections, identified by their epoll key.
pub(super) struct Pool {
    epoll: Epoll,
    connections: Vec<Option<Connection>>,
    vacant: Vec<usize>,
    idle: VecDeque<usize>,
    // Index of the target's address in use.
    address: usize,
}

impl Pool {
    pub(super) fn new(epoll: Epoll) -> Self {
        Self {
            epoll,
            connections: Vec::new(),
            vacant: Vec::new(),
            idle: VecDeque::new(),
            address: 0,
        }
    }

    /// Waits for events; an interrupted wait returns none.
    pub(super) fn wait(&self, events: &mut [EpollEvent], timeout: nix::sys::epoll::EpollTimeout) -> io::Result<usize> {
        match self.epoll.wait(events, timeout) {
            Ok(count) => Ok(count),
            Err(nix::errno::Errno::EINTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts opening a connection.
    pub(super) fn open(&mut self, target: &Target, now: Instant) -> io::Result<usize> {
        let address = target.addresses[self.address % target.addresses.len()];
        let socket = Socket::open(address, target.tls.as_ref())?;
        let key = self.vacant.pop().unwrap_or(self.connections.len());
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT;
        self.epoll.add(&socket, EpollEvent::new(flags, key as u64))?;
        let connection = Connection {
            socket,
            exchange: None,
            ready: false,
            opened: now,
            wants_writable: true,
        };
        if key == self.connections.len() {
            self.connections.push(Some(connection));
        } else {
            self.connections[key] = Some(connection);
        }
        Ok(key)
    }

    /// Switches to the target's next address.
    pub(super) fn next_address(&mut self) {
        self.address += 1;
    }

    pub(super) fn connection(&mut self, key: usize) -> Option<&mut Connection> {
        self.connections.get_mut(key)?.as_mut()
    }

    /// Removes a connection; dropping it closes it.
    pub(super) fn remove(&mut self, key: usize) -> Option<Connection> {
        let connection = self.connections.get_mut(key)?.take()?;
        self.vacant.push(key);
        if connection.ready && connection.exchange.is_none() {
            self.idle.retain(|idle| *idle != key);
        }
        Some(connection)
    }

    /// Takes the connection that has been idle longest.
    pub(super) fn take_idle(&mut self) -> Option<usize> {
        self.idle.pop_front()
    }

    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    pub(super) fn idle_count(&self) -> usize {
        self.idle.len()
    }

    pub(super) fn put_idle(&mut self, key: usize) {
        self.idle.push_back(key);
    }

    /// Requests EPOLLOUT only while there is something to write.
    pub(super) fn update_interest(&mut self, key: usize) -> io::Result<()> {
        let Some(Some(connection)) = self.connections.get_mut(key) else {
            return Ok(());
        };
        let unwritten = connection
            .exchange
            .as_ref()
            .is_some_and(|exchange| !exchange.unwritten().is_empty());
        let writing = connection.socket.wants_write() || (connection.ready && unwritten);
        if writing != connection.wants_writable {
            connection.wants_writable = writing;
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, writing);
            self.epoll
                .modify(&connection.socket, &mut EpollEvent::new(flags, key as u64))?;
        }
        Ok(())
    }

    /// Keys of all connections with a request, sent or waiting.
    pub(super) fn busy(&self) -> Vec<usize> {
        let busy = |connection: &Option<Connection>| {
            connection
                .as_ref()
                .is_some_and(|connection| connection.exchange.is_some())
        };
        (0..self.connections.len())
            .filter(|key| busy(&self.connections[*key]))
            .collect()
    }

    pub(super) fn earliest_deadline(&self) -> Option<Instant> {
        let connections = self.connections.iter().flatten();
        connections
            .filter_map(|connection| Some(connection.exchange.as_ref()?.deadline))
            .min()
    }
}
