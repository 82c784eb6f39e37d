//! One non-blocking connection: TCP, with TLS for https.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

pub(super) struct Socket {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    connected: bool,
}

pub(super) enum Received {
    Bytes(usize),
    /// No data yet.
    WouldBlock,
    /// The peer closed the connection.
    Closed,
}

impl Socket {
    pub(super) fn open(
        address: SocketAddr,
        tls: Option<&(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> io::Result<Self> {
        let family = if address.is_ipv4() {
            AddressFamily::Inet
        } else {
            AddressFamily::Inet6
        };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let stream = TcpStream::from(socket(family, SockType::Stream, flags, None)?);
        // Disable Nagle's algorithm: the rest of a request must not wait for an ACK.
        stream.set_nodelay(true)?;
        match connect(stream.as_raw_fd(), &SockaddrStorage::from(address)) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let tls = match tls {
            Some((config, name)) => {
                let mut session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
                session.set_buffer_limit(None);
                Some(Box::new(session))
            }
            None => None,
        };
        Ok(Self {
            stream,
            tls,
            connected: false,
        })
    }

    /// Continues connecting when the socket is ready. Returns whether it can be used.
    pub(super) fn continue_connecting(&mut self) -> io::Result<bool> {
        if !self.connected {
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            if let Err(error) = self.stream.peer_addr() {
                return if error.kind() == ErrorKind::NotConnected {
                    Ok(false)
                } else {
                    Err(error)
                };
            }
            self.connected = true;
        }
        let Some(tls) = &mut self.tls else { return Ok(true) };
        // The server waits for our last handshake message.
        while tls.is_handshaking() || tls.wants_write() {
            if tls.wants_write() {
                match tls.write_tls(&mut self.stream) {
                    Ok(_) => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            match tls.read_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => tls.process_new_packets().map_err(io::Error::other)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
        }
        Ok(true)
    }

    pub(super) fn wants_write(&self) -> bool {
        !self.connected || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Writes as much as possible and returns how many of `bytes` were taken.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return non_blocking(self.stream.write(bytes)).map(Option::unwrap_or_default);
        };
        let taken = tls.writer().write(bytes)?;
        while tls.wants_write() && non_blocking(tls.write_tls(&mut self.stream))?.is_some() {}
        Ok(taken)
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        let Some(tls) = &mut self.tls else {
            return Ok(match non_blocking(self.stream.read(buffer))? {
                Some(0) => Received::Closed,
                Some(length) => Received::Bytes(length),
                None => Received::WouldBlock,
            });
        };
        if non_blocking(tls.read_tls(&mut self.stream))?.is_some() {
            tls.process_new_packets().map_err(io::Error::other)?;
        }
        Ok(match non_blocking(tls.reader().read(buffer))? {
            Some(0) => Received::Closed,
            Some(length) => Received::Bytes(length),
            None => Received::WouldBlock,
        })
    }

    /// Whether decrypted data may be buffered that epoll does not report.
    pub(super) fn may_buffer(&self) -> bool {
        self.tls.is_some()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// `None` if the call would block.
fn non_blocking(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
