//! One connection, never waiting: TCP, and TLS over it where the address says so.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// A connection that is being made, or that is made.
pub(super) struct Socket {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    connected: bool,
}

/// What reading gave.
pub(super) enum Got {
    /// So many bytes.
    Bytes(usize),
    /// None yet.
    Nothing,
    /// The other side has ended the connection.
    End,
}

impl Socket {
    /// Begins to connect.
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
        // Otherwise the second half of a request may wait for the first half's acknowledgement.
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

    /// Goes on connecting, when the socket can be written or read: whether it is ready for a request.
    pub(super) fn proceed(&mut self) -> io::Result<bool> {
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
        // The last word of the handshake is ours: the server waits for it.
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

    /// Whether it waits to write.
    pub(super) fn wants_write(&self) -> bool {
        !self.connected || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Writes what can be written now; how much of `bytes` was taken.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return settle(self.stream.write(bytes)).map(Option::unwrap_or_default);
        };
        let taken = tls.writer().write(bytes)?;
        while tls.wants_write() && settle(tls.write_tls(&mut self.stream))?.is_some() {}
        Ok(taken)
    }

    /// Reads once what has come.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Got> {
        let Some(tls) = &mut self.tls else {
            return Ok(match settle(self.stream.read(buffer))? {
                Some(0) => Got::End,
                Some(length) => Got::Bytes(length),
                None => Got::Nothing,
            });
        };
        if settle(tls.read_tls(&mut self.stream))?.is_some() {
            tls.process_new_packets().map_err(io::Error::other)?;
        }
        Ok(match settle(tls.reader().read(buffer))? {
            Some(0) => Got::End,
            Some(length) => Got::Bytes(length),
            None => Got::Nothing,
        })
    }

    /// Whether more has been read than was given: readiness will not tell of it. Costs nothing without TLS.
    pub(super) fn buffers(&self) -> bool {
        self.tls.is_some()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// `None` where the call would have waited.
fn settle(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
