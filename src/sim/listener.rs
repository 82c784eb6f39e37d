//! A port that can be taken without answering, and connections that can be cut: what a process that loads, or dies, looks
//! like from outside.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::fault::{Fault, Result};

/// A port that is taken; connecting to it is refused until [`Bound::listen`].
pub(super) struct Bound {
    socket: TcpSocket,
    pub(super) address: SocketAddr,
}

impl Bound {
    /// Takes the port; port 0 lets the kernel choose.
    pub(super) fn take(address: SocketAddr) -> Result<Self> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => Fault::missing(
                format!("port {} is taken", address.port()),
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
        // Against connections of a dead process in TIME_WAIT; a living listener still refuses. Not where the kernel chooses, who might then
        // give the same port to two that do not listen yet.
        if address.port() != 0 {
            socket.set_reuseaddr(true).map_err(failed)?;
        }
        socket.bind(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Answers from now on; connections are reset once `cut` is cancelled.
    pub(super) fn listen(self, cut: CancellationToken) -> io::Result<Listener> {
        Ok(Listener {
            inner: self.socket.listen(1024)?,
            cut,
        })
    }
}

/// A listening port whose connections can be cut.
pub(super) struct Listener {
    inner: TcpListener,
    cut: CancellationToken,
}

impl axum::serve::Listener for Listener {
    type Io = Cuttable;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Cuttable, SocketAddr) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.inner).await;
        // Tokens leave one by one; held back to fill a packet, they would arrive 40 ms late. A socket that refuses only does so.
        let _ = stream.set_nodelay(true);
        let connection = Cuttable {
            stream,
            cut: Box::pin(self.cut.clone().cancelled_owned()),
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// A connection that ends as a dead process's does: at once, without a goodbye.
pub(super) struct Cuttable {
    stream: TcpStream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Cuttable {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(context) {
            Poll::Ready(()) => {
                // A reset instead of an orderly end, where the system lets us choose.
                let _ = self.stream.set_zero_linger();
                Err(io::ErrorKind::ConnectionReset.into())
            }
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Cuttable {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Cuttable {
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
