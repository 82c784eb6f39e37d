//! Non-blocking connections (TCP, with TLS for https) and the pool that waits for their events with epoll; and the
//! target of a load: its resolved address and the request head that all requests share.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::socket::sockopt::{KeepAlive, TcpKeepIdle, TcpKeepInterval, TcpUserTimeout};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use url::Url;

use super::exchange::Exchange;
use crate::fault::{Fault, Kind, Result};
use crate::http::{ApiKey, USER_AGENT, addresses};
use crate::tls::{self, Problem};

/// Epoll keys of the waker and the timer.
pub(super) const WAKER_KEY: u64 = u64::MAX;
pub(super) const TIMER_KEY: u64 = u64::MAX - 1;

/// If an idle connection fails within this time after a request was sent on it, the server may have closed it before
/// the request arrived. Upper bound of a round trip.
pub(super) const STALE: Duration = Duration::from_secs(1);

/// Seconds before and between keepalive probes, so that a server that vanished is noticed.
const KEEPALIVE_SECONDS: u32 = 15;

/// How long sent data may remain unacknowledged, in ms.
const USER_TIMEOUT_MS: u32 = 30_000;

pub(super) struct Connection {
    pub(super) socket: Socket,
    /// The request it carries, or that waits for it to open.
    pub(super) exchange: Option<Box<Exchange>>,
    /// The connection is open.
    pub(super) ready: bool,
    /// When opening began.
    pub(super) opened: Instant,
    /// A request was sent on it before.
    pub(super) used: bool,
    // Whether epoll reports writability (EPOLLOUT).
    wants_writable: bool,
}

impl Connection {
    /// Whether the server may have closed it because it was idle. A new connection is closed only by a failure.
    pub(super) fn may_be_closed(&self, now: Instant) -> bool {
        self.used || now.duration_since(self.opened) > STALE
    }
}

/// All connections, identified by epoll key.
pub(super) struct ConnectionPool {
    epoll: Epoll,
    pub(super) timer: Timer,
    connections: Vec<Option<Connection>>,
    vacant: Vec<usize>,
    /// Connections without a request, the one that has been idle longest first.
    pub(super) idle: VecDeque<usize>,
    /// Index of the target's address in use.
    pub(super) address: usize,
}

impl ConnectionPool {
    /// Creates an empty pool whose `wait` also returns when `waker` or the timer fires.
    pub(super) fn new(waker: &EventFd) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = Timer::new()?;
        epoll.add(waker, EpollEvent::new(EpollFlags::EPOLLIN, WAKER_KEY))?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER_KEY))?;
        Ok(Self {
            epoll,
            timer,
            connections: Vec::new(),
            vacant: Vec::new(),
            idle: VecDeque::new(),
            address: 0,
        })
    }

    /// Waits for events; an interrupted wait returns none.
    pub(super) fn wait(&self, events: &mut [EpollEvent], timeout: EpollTimeout) -> io::Result<usize> {
        match self.epoll.wait(events, timeout) {
            Ok(count) => Ok(count),
            Err(Errno::EINTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts opening a connection.
    pub(super) fn open(&mut self, target: &Target, now: Instant) -> io::Result<usize> {
        if let Some(why) = &target.unusable {
            return Err(io::Error::other(why.clone()));
        }
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
            used: false,
            wants_writable: true,
        };
        if key == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[key] = Some(connection);
        Ok(key)
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

    /// A connection that is being opened without a request.
    pub(super) fn first_opening(&self) -> Option<usize> {
        let opening = |connection: &Connection| !connection.ready && connection.exchange.is_none();
        self.connections
            .iter()
            .position(|connection| connection.as_ref().is_some_and(opening))
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

    /// Closes the connections whose request, sent or waiting, matches, and returns these requests.
    pub(super) fn take_requests(&mut self, which: impl Fn(&Exchange) -> bool) -> Vec<Exchange> {
        let wanted = |connection: &Option<Connection>| {
            let exchange = connection
                .as_ref()
                .and_then(|connection| connection.exchange.as_deref());
            exchange.is_some_and(&which)
        };
        let keys: Vec<usize> = (0..self.connections.len())
            .filter(|key| wanted(&self.connections[*key]))
            .collect();
        let taken = keys.into_iter().filter_map(|key| self.remove(key)?.exchange);
        taken.map(|exchange| *exchange).collect()
    }

    pub(super) fn earliest_deadline(&self) -> Option<Instant> {
        let connections = self.connections.iter().flatten();
        connections
            .filter_map(|connection| Some(connection.exchange.as_ref()?.due()))
            .min()
    }
}

pub(super) struct Socket {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    connected: bool,
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
        setsockopt(&stream, KeepAlive, &true)?;
        setsockopt(&stream, TcpKeepIdle, &KEEPALIVE_SECONDS)?;
        setsockopt(&stream, TcpKeepInterval, &KEEPALIVE_SECONDS)?;
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
            match self.stream.peer_addr() {
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
                connected => connected?,
            };
            // Not before: it would also limit the time for connecting.
            setsockopt(&self.stream, TcpUserTimeout, &USER_TIMEOUT_MS)?;
            self.connected = true;
        }
        let Some(tls) = &mut self.tls else { return Ok(true) };
        // The server waits for our last handshake message.
        while tls.is_handshaking() || tls.wants_write() {
            if tls.wants_write() {
                if non_blocking(tls.write_tls(&mut self.stream))?.is_none() {
                    return Ok(false);
                }
                continue;
            }
            match non_blocking(tls.read_tls(&mut self.stream))? {
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(_) => tls.process_new_packets().map_err(|error| tls_error(&error))?,
                None => return Ok(false),
            };
        }
        Ok(true)
    }

    fn wants_write(&self) -> bool {
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

    /// Reads what has arrived: `None` if there is no data yet, 0 bytes if the peer closed the connection.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(tls) = &mut self.tls else {
            return non_blocking(self.stream.read(buffer));
        };
        if non_blocking(tls.read_tls(&mut self.stream))?.is_some() {
            tls.process_new_packets().map_err(|error| tls_error(&error))?;
        }
        non_blocking(tls.reader().read(buffer))
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

/// Converts a TLS error to an I/O error.
fn tls_error(error: &rustls::Error) -> io::Error {
    io::Error::other(Problem::from(error).message)
}

/// `None` if the call would block.
fn non_blocking(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fires at a given time. Uses a timerfd because `epoll_wait` only has millisecond resolution.
pub(super) struct Timer {
    timer: TimerFd,
    set: Option<Instant>,
}

impl Timer {
    fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self {
            timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?,
            set: None,
        })
    }

    /// Sets the timer; does nothing if it is already set to that time.
    pub(super) fn set(&mut self, at: Option<Instant>) -> io::Result<()> {
        if at == self.set {
            return Ok(());
        }
        self.set = at;
        match at {
            Some(at) => {
                // Zero would disarm the timer.
                let wait = at
                    .saturating_duration_since(Instant::now())
                    .max(Duration::from_nanos(1));
                let once = Expiration::OneShot(TimeSpec::from(wait));
                self.timer.set(once, TimerSetTimeFlags::empty())?;
            }
            None => self.timer.unset()?,
        }
        Ok(())
    }

    /// Call after the timer fired.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.set = None;
        match self.timer.wait() {
            Ok(()) | Err(Errno::EAGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[derive(Clone)]
pub(super) struct Target {
    /// In the order to try them.
    pub(super) addresses: Vec<SocketAddr>,
    /// For `https`.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    host: String,
    port: u16,
    /// Host and port for messages; never contains a password.
    pub(super) name: String,
    /// The reason why no connection can be opened.
    pub(super) unusable: Option<String>,
    // The request head except for the content length.
    head: String,
}

impl Target {
    /// Parses a URL. It has no addresses before [`resolve`](Self::resolve).
    pub(super) fn parse(url: &str, key: Option<&ApiKey>) -> Result<Self> {
        let url = Url::parse(url)
            .map_err(|error| Fault::usage(format!("invalid engine URL: {error}")).hint("give `http://HOST:PORT`"))?;
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(Fault::usage("the engine URL has no host").hint("give `http://HOST:PORT`"));
        };
        let tls = match url.scheme() {
            "http" => None,
            "https" => Some((tls::to_engines()?, server_name(host)?)),
            other => {
                return Err(Fault::usage(format!("the engine URL begins with `{other}:`"))
                    .hint("give `http://HOST:PORT`, or https"));
            }
        };
        Ok(Self {
            addresses: Vec::new(),
            tls,
            head: head(&url, host, key),
            host: host.to_owned(),
            port,
            name: format!("{host}:{port}"),
            unusable: None,
        })
    }

    /// Looks the host's addresses up. Blocks.
    pub(super) fn resolve(&mut self) -> Result<()> {
        let unresolved = |why: String| {
            Fault::new(Kind::Http, format!("`{}` has no address: {why}", self.name)).hint("check the engine's URL")
        };
        self.addresses = addresses(&self.host, self.port).map_err(|error| unresolved(error.to_string()))?;
        Ok(())
    }

    pub(super) fn request(&self, body: &Bytes) -> Vec<u8> {
        let length = format!("content-length: {}\r\n\r\n", body.len());
        [self.head.as_bytes(), length.as_bytes(), body].concat()
    }
}

fn head(url: &Url, host: &str, key: Option<&ApiKey>) -> String {
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
    let basic = || authorization(url);
    let authorization = key
        .map(|key| key.header().to_owned())
        .or_else(basic)
        .map_or_else(String::new, |value| format!("authorization: {value}\r\n"));
    format!(
        "POST {}{query} HTTP/1.1\r\nhost: {host}{port}\r\nuser-agent: {USER_AGENT}\r\n{authorization}\
         content-type: application/json\r\naccept: text/event-stream, application/x-ndjson, application/json\r\n",
        url.path()
    )
}

/// Basic authentication (RFC 7617) if the URL contains a user name or a password.
fn authorization(url: &Url) -> Option<String> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    Some(format!("Basic {}", BASE64_STANDARD.encode(pair)))
}

fn server_name(host: &str) -> Result<ServerName<'static>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned()).map_err(|_| Fault::usage(format!("invalid host name `{host}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(url: &str) -> String {
        let target = Target::parse(url, None).unwrap();
        String::from_utf8(target.request(&Bytes::from_static(b"{}"))).unwrap()
    }

    #[test]
    fn request_has_head_and_body() {
        let text = sent("http://127.0.0.1:8000/v1/completions?a=b");
        assert!(
            text.starts_with("POST /v1/completions?a=b HTTP/1.1\r\nhost: 127.0.0.1:8000\r\n"),
            "{text}"
        );
        assert!(text.ends_with("content-length: 2\r\n\r\n{}"), "{text}");
        assert!(!text.contains("authorization"), "{text}");
        assert!(sent("http://[::1]:80/x").contains("\r\nhost: [::1]\r\n"));
    }

    #[test]
    fn credentials_are_sent_only_in_the_head() {
        let url = "http://Aladdin:open%20sesame@127.0.0.1:1/";
        assert!(sent(url).contains("\r\nauthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"));
        assert_eq!(Target::parse(url, None).unwrap().name, "127.0.0.1:1");
        assert!(sent("http://u@127.0.0.1:1/").contains("Basic dTo=\r\n"));
    }

    #[test]
    fn invalid_url_error_contains_no_secrets() {
        let fault = |url: &str| Target::parse(url, None).err().unwrap();
        assert!(fault("ftp://u:secret@host/").message.contains("`ftp:`"));
        assert!(!fault("http://u:secret@").message.contains("secret"));
        assert!(fault("https://a b/").hint.is_some());
    }
}
