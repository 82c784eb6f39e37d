//! A port that is reserved without listening, and connections that can be reset: how a loading or dying process
//! appears from outside.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::fault::{Fault, Result};

/// A bound port. Connections are refused until [`ReservedPort::listen`].
pub(super) struct ReservedPort {
    socket: TcpSocket,
    pub(super) address: SocketAddr,
}

impl ReservedPort {
    /// Binds the port; 0 lets the kernel choose.
    pub(super) fn reserve(address: SocketAddr) -> Result<Self> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => Fault::missing(
                format!("port {} is in use", address.port()),
                "choose another with --port, or 0 for any free one",
            ),
            _ => Fault::new(crate::fault::Kind::Io, format!("cannot bind `{address}`: {error}")),
        };
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }
        .map_err(failed)?;
        // Allows binding despite connections of a dead process in TIME_WAIT. Not for port 0: the kernel might then
        // give the same port to two sockets that do not listen yet.
        if address.port() != 0 {
            socket.set_reuseaddr(true).map_err(failed)?;
        }
        socket.bind(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Starts listening. All connections are reset when `reset` is cancelled.
    pub(super) fn listen(self, reset: CancellationToken) -> io::Result<Listener> {
        Ok(Listener {
            inner: self.socket.listen(1024)?,
            reset,
        })
    }
}

pub(super) struct Listener {
    inner: TcpListener,
    reset: CancellationToken,
}

impl axum::serve::Listener for Listener {
    type Io = ResettableStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (ResettableStream, SocketAddr) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.inner).await;
        // Tokens are sent one by one; with Nagle's algorithm they would arrive 40 ms late. Failing is harmless.
        let _ = stream.set_nodelay(true);
        let connection = ResettableStream {
            stream,
            reset: Box::pin(self.reset.clone().cancelled_owned()),
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// A connection that is reset like that of a dead process.
pub(super) struct ResettableStream {
    stream: TcpStream,
    reset: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl ResettableStream {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.reset.as_mut().poll(context) {
            Poll::Ready(()) => {
                // RST instead of FIN, if the system allows it.
                let _ = self.stream.set_zero_linger();
                Err(io::ErrorKind::ConnectionReset.into())
            }
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for ResettableStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for ResettableStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
