//! The client's event loop: one thread reads and writes all sockets, so that no thread switch delays a timestamp.
//!
//! Connections are opened before the clock starts, in small batches, because a server's accept backlog is short. A
//! first token should not wait for a connection.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::close;

use super::connection::{Connection, ConnectionPool, STALE, TIMER_KEY, Target, WAKER_KEY};
use super::exchange::{AnswerEnd, Exchange};
use super::threads::{NextRequest, RequestQueue, SharedControl};
use super::{ClientHealth, Clock, Control, LoadConfig, RequestSource, RunQueueDelay, Slots};
use crate::fault::{Fault, Kind, Result};
use crate::load::framing::Kept;
use crate::load::record::{FailureForm, RequestRecord};

/// Connection timeout of a load. A probe connects until its own timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a probe waits for connections before its requests are issued. After that, each request waits for its own
/// connection.
const PROBE_CONNECT_WAIT: Duration = Duration::from_secs(1);

/// Size of the read buffer shared by all connections.
const READ_BUFFER: usize = 64 << 10;

/// Maximum events per `epoll_wait`.
const MAX_EVENTS: usize = 256;

/// Connections opened concurrently.
const CONNECT_BATCH: u64 = 32;

/// File descriptors reserved for the rest of the program.
const OTHER_FILES: u64 = 256;

/// An idle connection that closes sooner is not replaced. Otherwise a client would reconnect forever to a server that
/// closes connections immediately.
const SHORT_LIVED: Duration = Duration::from_secs(1);

/// The state of the client's thread.
pub(super) struct Client {
    pub(super) pool: ConnectionPool,
    pub(super) target: Target,
    config: LoadConfig,
    pub(super) source: Arc<dyn RequestSource>,
    pub(super) queue: Arc<RequestQueue>,
    pub(super) control: Arc<SharedControl>,
    pub(super) records: Sender<RequestRecord>,
    pub(super) clock: Clock,
    pub(super) health: ClientHealth,
    /// Connections being opened without a request waiting for them.
    opening: usize,
    /// The error of the last failed connection attempt.
    connect_error: Option<std::io::Error>,
    /// Requests issued but not ended.
    in_flight: u64,
    issued: u64,
    /// Slots that were used and are free again, with the time they became free.
    free_slots: VecDeque<Instant>,
    /// Slots used at least once.
    slots_used: u64,
    /// Rejected requests, each with the time to send it again. They keep their slots.
    waiting: Vec<(Instant, Box<Exchange>)>,
    /// The server does not end the bodies of answers that have come this far: they are over at once.
    holds_open: Option<AnswerEnd>,
    /// Whole answers in a row whose bodies did not end.
    unended: u64,
    /// The buffer was found empty and nothing has been taken from it since.
    starved: bool,
    /// The source has no more requests.
    exhausted: bool,
    /// When the next request is due, if known.
    next_due: Option<Duration>,
    /// Lower bound of all deadlines.
    deadline: Option<Instant>,
    read_buffer: Vec<u8>,
    /// Buffered data of all responses.
    kept: Kept,
}

impl Client {
    pub(super) fn new(
        target: Target,
        config: LoadConfig,
        source: Arc<dyn RequestSource>,
        control: Arc<SharedControl>,
        records: Sender<RequestRecord>,
    ) -> Result<Self> {
        let queue = RequestQueue::new(config.slots.connections(), Arc::clone(&control.waker));
        Ok(Self {
            pool: ConnectionPool::new(&control.waker).map_err(io_fault)?,
            target,
            config,
            source,
            queue: Arc::new(queue),
            control,
            records,
            clock: Clock::now(),
            health: ClientHealth::default(),
            opening: 0,
            connect_error: None,
            in_flight: 0,
            issued: 0,
            free_slots: VecDeque::new(),
            slots_used: 0,
            waiting: Vec::new(),
            holds_open: None,
            unended: 0,
            starved: false,
            exhausted: false,
            next_due: None,
            deadline: None,
            read_buffer: vec![0; READ_BUFFER],
            kept: Kept::default(),
        })
    }

    /// Runs until there is nothing more to send and all requests have ended.
    pub(super) fn run(&mut self) -> Result<()> {
        let mut events = vec![EpollEvent::empty(); MAX_EVENTS];
        let mut run_queue = RunQueueDelay::new();
        let mut last_poll = Instant::now();
        loop {
            self.issue()?;
            let now = Instant::now();
            if self.is_finished(now) {
                run_queue.read(now, &mut self.health.stats);
                return Ok(());
            }
            self.pool.timer.set(self.next_wakeup(now)).map_err(io_fault)?;
            run_queue.update(now, &mut self.health.stats);
            self.health.paused(last_poll.elapsed());
            let count = self.pool.wait(&mut events, EpollTimeout::NONE).map_err(io_fault)?;
            last_poll = Instant::now();
            self.health.wakes += 1;
            self.handle_events(&events[..count])?;
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.expire();
            }
        }
    }

    fn handle_events(&mut self, events: &[EpollEvent]) -> Result<()> {
        for event in events {
            match event.data() {
                WAKER_KEY => drop(self.control.waker.read()),
                TIMER_KEY => self.pool.timer.clear().map_err(io_fault)?,
                key => {
                    let key = usize::try_from(key).unwrap_or(usize::MAX);
                    self.handle_connection_event(key, event.events())?;
                }
            }
        }
        Ok(())
    }

    /// Whether no more requests may be issued.
    fn no_more_requests(&self, since: Duration) -> bool {
        self.control.get() > Control::Continue || self.config.limit.is_some_and(|limit| since >= limit)
    }

    /// Whether the load is over. Aborts requests that exceeded the grace period.
    fn is_finished(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.clock.began);
        let cut = self
            .config
            .limit
            .is_some_and(|limit| since >= limit + self.config.grace);
        if cut || self.control.get() == Control::Abort {
            self.cut_off(now);
            return true;
        }
        self.in_flight == 0 && (self.exhausted || self.no_more_requests(since))
    }

    /// The latest time at which the loop must wake up, even without an event.
    fn next_wakeup(&self, now: Instant) -> Option<Instant> {
        let since = now.saturating_duration_since(self.clock.began);
        let limit = self.config.limit.map(|limit| {
            if since < limit {
                limit
            } else {
                limit + self.config.grace
            }
        });
        let moments = [limit, self.next_due, self.config.slots.next_change(since)];
        let first = moments
            .into_iter()
            .flatten()
            .min()
            .map(|moment| self.clock.began + moment);
        let again = self.waiting.iter().map(|(at, _)| *at).min();
        [first, self.deadline, again].into_iter().flatten().min()
    }

    /// Opens up to `connections` connections. Fails only if none can be opened; requests open missing ones later.
    pub(super) fn connect(&mut self, connections: u64) -> Result<()> {
        for _ in 1..self.target.addresses.len() {
            if self.open_batch(1)? > 0 {
                break;
            }
            while let Some(key) = self.pool.first_opening() {
                self.pool.remove(key);
            }
            self.opening = 0;
            self.pool.address += 1;
        }
        while self.health.connected < connections {
            let batch = CONNECT_BATCH.min(connections - self.health.connected);
            if self.open_batch(batch)? < batch {
                break;
            }
        }
        if self.health.connected == 0 && connections > 0 {
            let why = self
                .connect_error
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

    /// Opens a batch of connections and returns how many succeeded.
    fn open_batch(&mut self, count: u64) -> Result<u64> {
        let begun = Instant::now();
        let wait = if self.config.must_connect {
            CONNECT_TIMEOUT
        } else {
            PROBE_CONNECT_WAIT
        };
        let before = self.pool.idle.len();
        for _ in 0..count {
            self.open_idle(begun);
        }
        let mut events = [EpollEvent::empty(); 64];
        while self.opening > 0 && !self.control.aborted() {
            let left = wait.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let timeout = EpollTimeout::try_from(left).unwrap_or(EpollTimeout::MAX);
            let ready = self.pool.wait(&mut events, timeout).map_err(io_fault)?;
            self.handle_events(&events[..ready])?;
        }
        let open = self.pool.idle.len().saturating_sub(before) as u64;
        self.health.connected += open;
        Ok(open)
    }

    /// Sends rejected requests again that have waited long enough. At the end of the load, they are cut off.
    fn send_again(&mut self) -> Result<()> {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.clock.began);
        let over = self.control.aborted() || self.config.limit.is_some_and(|limit| since >= limit);
        let due = |(at, _): &mut (Instant, Box<Exchange>)| over || *at <= now;
        let again: Vec<(Instant, Box<Exchange>)> = self.waiting.extract_if(.., due).collect();
        for (at, mut exchange) in again {
            if over {
                self.end_request(exchange.cut_off(now), now);
            } else {
                exchange.again(at);
                self.send(exchange, now)?;
            }
        }
        Ok(())
    }

    /// Issues every request that is due and has a slot.
    fn issue(&mut self) -> Result<()> {
        self.send_again()?;
        self.next_due = None;
        loop {
            let now = Instant::now();
            let since = now.saturating_duration_since(self.clock.began);
            if self.exhausted || self.no_more_requests(since) {
                return Ok(());
            }
            let level = self.config.slots.level(since);
            if level.is_some_and(|level| self.in_flight >= level) {
                // Concurrency was lowered: the removed slots are not waiting for requests.
                self.free_slots.clear();
                self.slots_used = self.in_flight;
                return Ok(());
            }
            match self.queue.take(since)? {
                NextRequest::Due(job) => {
                    let free = self.slot_free_since(since);
                    let due = job.at.map(|at| self.clock.began + at);
                    let ready = due.map_or(free, |due| due.max(free));
                    if std::mem::take(&mut self.starved) && ready < now {
                        self.health.stats.unprepared += 1;
                    }
                    let scheduled = due.unwrap_or(free);
                    let exchange = Exchange::new(
                        self.issued,
                        (self.clock.began, scheduled, ready),
                        self.config.keep_text,
                        &self.kept,
                        *job,
                    );
                    let mut exchange = Box::new(exchange);
                    exchange.retries = self.source.retries();
                    let index = self.issued;
                    self.issued += 1;
                    self.in_flight += 1;
                    self.send(exchange, now)?;
                    self.control.raise(self.source.issued(index, since));
                }
                NextRequest::Later(at) => {
                    self.starved = false;
                    self.next_due = Some(at);
                    return Ok(());
                }
                NextRequest::Empty => {
                    self.starved = true;
                    return Ok(());
                }
                NextRequest::Exhausted => {
                    self.exhausted = true;
                    return Ok(());
                }
            }
        }
    }

    /// The time since which the slot taken now has been free.
    fn slot_free_since(&mut self, since: Duration) -> Instant {
        if let Some(since) = self.free_slots.pop_front() {
            return since;
        }
        self.slots_used += 1;
        self.clock.began + self.config.slots.opened(self.slots_used, since)
    }

    /// Sends a request on an idle connection, or opens one for it.
    fn send(&mut self, mut exchange: Box<Exchange>, now: Instant) -> Result<()> {
        if let Some(key) = self.pool.idle.pop_front() {
            let may_be_closed = |connection: &mut Connection| connection.may_be_closed(now);
            exchange.on_idle = self.pool.connection(key).is_some_and(may_be_closed);
            self.begin(key, exchange)?;
        } else {
            self.health.stats.opened_late += 1;
            match self.take_opening() {
                Some(key) => self.wait_for_connection(key, exchange),
                None => self.send_on_new(exchange, now)?,
            }
        }
        // In an open loop, keep one spare connection for the next arrival; and where a connection serves one answer, one for
        // the next request of each slot.
        let spare = match self.config.slots {
            _ if self.holds_open.is_some() => self.in_flight,
            Slots::Open { .. } => 1,
            Slots::Closed(_) => 0,
        };
        if ((self.pool.idle.len() + self.opening) as u64) < spare {
            self.open_idle(now);
        }
        Ok(())
    }

    /// Opens a connection without a request.
    fn open_idle(&mut self, now: Instant) {
        match self.pool.open(&self.target, now) {
            Ok(_) => self.opening += 1,
            Err(error) => self.connect_error = Some(error),
        }
    }

    /// For a probe: a connection that was still opening when the clock started.
    fn take_opening(&mut self) -> Option<usize> {
        if self.config.must_connect || self.opening == 0 {
            return None;
        }
        let key = self.pool.first_opening()?;
        self.opening -= 1;
        Some(key)
    }

    /// Attaches the request to a connection that is still opening; it is sent once the connection is open.
    fn wait_for_connection(&mut self, key: usize, exchange: Box<Exchange>) {
        self.arm_deadline(exchange.deadline);
        if let Some(connection) = self.pool.connection(key) {
            connection.exchange = Some(exchange);
        }
    }

    fn send_on_new(&mut self, mut exchange: Box<Exchange>, now: Instant) -> Result<()> {
        exchange.on_idle = false;
        if self.config.must_connect {
            exchange.deadline = now + CONNECT_TIMEOUT.min(exchange.timeout);
        }
        let key = match self.pool.open(&self.target, now) {
            Ok(key) => key,
            Err(error) => {
                self.end_request(exchange.broken(now, FailureForm::Unreachable, error.to_string()), now);
                return Ok(());
            }
        };
        self.wait_for_connection(key, exchange);
        Ok(())
    }

    /// Starts writing a request to an open connection.
    fn begin(&mut self, key: usize, mut exchange: Box<Exchange>) -> Result<()> {
        let now = Instant::now();
        self.health
            .sent(exchange.index(), now.saturating_duration_since(exchange.ready));
        let deadline = exchange.deadline;
        exchange.start(now);
        if !self.config.must_connect {
            // A probe's timeout includes connecting.
            exchange.deadline = deadline;
        }
        self.arm_deadline(exchange.deadline);
        if let Some(connection) = self.pool.connection(key) {
            connection.used = true;
            connection.exchange = Some(exchange);
        }
        self.write(key)
    }

    fn write(&mut self, key: usize) -> Result<()> {
        let Some(connection) = self.pool.connection(key) else {
            return Ok(());
        };
        let Some(exchange) = &mut connection.exchange else {
            return Ok(());
        };
        match connection.socket.write(exchange.unwritten()) {
            Ok(written) => {
                exchange.advance(written);
                self.pool.update_interest(key).map_err(io_fault)
            }
            Err(error) => self.connection_closed(key, Some(&error)),
        }
    }

    fn handle_connection_event(&mut self, key: usize, happened: EpollFlags) -> Result<()> {
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
                self.pool.idle.push_back(key);
                self.pool.update_interest(key).map_err(io_fault)
            }
            Err(error) => {
                match self.pool.remove(key).and_then(|connection| connection.exchange) {
                    Some(exchange) => {
                        let now = Instant::now();
                        let why = error.to_string();
                        self.end_request(exchange.broken(now, FailureForm::Unreachable, why), now);
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
                Ok(None) => return Ok(()),
                Ok(Some(0)) => return self.connection_closed(key, None),
                Ok(Some(length)) => length,
                Err(error) => return self.connection_closed(key, Some(&error)),
            };
            self.health.reads += 1;
            let Some(exchange) = &mut connection.exchange else {
                // Data without a pending request.
                return self.connection_closed(key, None);
            };
            let (deadline, waiting) = (exchange.due(), !exchange.has_token());
            let finished = exchange.feed(&self.read_buffer[..length], at);
            if waiting && exchange.has_token() {
                self.source.first_token();
            }
            let (sooner, may_buffer) = (exchange.due(), connection.socket.may_buffer());
            if finished {
                return self.complete_response(key, at);
            }
            if exchange.end() >= self.holds_open && self.holds_open.is_some() {
                return self.release(key, at);
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
            self.pool.idle.push_back(key);
            self.pool.update_interest(key).map_err(io_fault)?;
        } else {
            self.pool.remove(key);
        }
        (self.holds_open, self.unended) = (None, 0);
        self.end_exchange(exchange, at);
        self.issue()?;
        // A server that serves one connection after another waits for the end of this one.
        let idle = |connection: &mut Connection| connection.ready && connection.exchange.is_none();
        if self.exhausted && self.pool.connection(key).is_some_and(idle) {
            self.pool.remove(key);
        }
        Ok(())
    }

    /// The answer is whole, and its server is known to hold the connection open.
    fn release(&mut self, key: usize, at: Instant) -> Result<()> {
        if let Some(exchange) = self.pool.remove(key).and_then(|connection| connection.exchange) {
            self.end_request(exchange.held_open(at), at);
        }
        self.issue()
    }

    /// Handles a connection that was closed or failed.
    fn connection_closed(&mut self, key: usize, error: Option<&std::io::Error>) -> Result<()> {
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
        let soon = exchange.sent.is_some_and(|sent| now.duration_since(sent) < STALE);
        if exchange.on_idle && exchange.unanswered() && soon {
            self.health.stats.resent += 1;
            return self.send_on_new(exchange, now);
        }
        if error.is_none() && exchange.close() {
            self.end_exchange(exchange, now);
            return Ok(());
        }
        let why = match error {
            Some(error) => error.to_string(),
            None if exchange.unanswered() => "the connection was closed before a response".to_owned(),
            None => "the connection was closed during the response".to_owned(),
        };
        self.end_request(exchange.broken(now, FailureForm::Broken, why), now);
        Ok(())
    }

    /// Fails every request whose deadline has passed.
    fn expire(&mut self) {
        let now = Instant::now();
        // Late data on such a connection would belong to the failed request, so it is closed.
        for exchange in self.pool.take_requests(|exchange| exchange.due() <= now) {
            if let Some(end) = exchange.end() {
                self.unended += 1;
                // A single one may only mean that this program did not run for a moment.
                if self.unended > 1 {
                    self.holds_open = self.holds_open.map_or(Some(end), |other| Some(other.min(end)));
                }
            }
            let record = match exchange.sent {
                None if self.config.must_connect => {
                    exchange.broken(now, FailureForm::Unreachable, "connection timed out".to_owned())
                }
                _ => exchange.given_up(),
            };
            self.end_request(record, now);
        }
        self.deadline = self.pool.earliest_deadline();
    }

    /// Aborts all requests.
    fn cut_off(&mut self, now: Instant) {
        for exchange in self.pool.take_requests(|_| true) {
            self.end_request(exchange.cut_off(now), now);
        }
        for (_, exchange) in std::mem::take(&mut self.waiting) {
            self.end_request(exchange.cut_off(now), now);
        }
    }

    /// Ends the request of a complete response, or lets it wait to be sent again.
    fn end_exchange(&mut self, exchange: Box<Exchange>, at: Instant) {
        let again = exchange
            .rejection()
            .and_then(|rejection| self.source.rejected(&rejection, exchange.rejections()));
        match again {
            Some(wait) => self.waiting.push((at + wait, exchange)),
            None => self.end_request(exchange.complete(at), at),
        }
    }

    fn end_request(&mut self, record: RequestRecord, at: Instant) {
        self.health.events += u64::from(record.events);
        self.in_flight -= 1;
        self.free_slots.push_back(at);
        // Fails only if nobody receives records anymore.
        let _ignored = self.records.send(record);
    }

    fn arm_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(self.deadline.map_or(deadline, |earliest| earliest.min(deadline)));
    }
}

/// Bytes that a request in flight takes, besides those of its prompt, and most bytes of all requests in flight.
const REQUEST: u64 = 4 << 10;
const MOST: u64 = 768 << 20;

/// Bytes of each token of a prompt in a load, until it is sent: those of the request, as text or as a number.
pub const LOAD_TOKEN: u64 = 8;

/// In a probe, whose prompts are all made before the first is sent: also those of the prompt. Measured on 2026-11-29, 64
/// prompts of 120,000 tokens took 11 bytes for each, as ids of five digits and as common words; longer ones take half
/// more.
pub const PROBE_TOKEN: u64 = 16;

/// Refuses more requests in flight at a time than this machine can hold, before any is made. `tokens` is the length of
/// each one's prompt, and `bytes_per_token` what this program holds for each of its tokens.
///
/// # Errors
///
/// `missing`, with the number that it can hold.
pub fn check_in_flight(requests: u64, tokens: u64, bytes_per_token: u64) -> Result<()> {
    let each = tokens.saturating_mul(bytes_per_token).saturating_add(REQUEST);
    if requests.saturating_mul(each) > MOST {
        let hint = match MOST / each {
            0 => format!("ask for at most {} tokens", (MOST - REQUEST) / bytes_per_token),
            most => format!("use at most {most} concurrent requests of that length, or shorter ones"),
        };
        return Err(Fault::missing(
            format!("{requests} concurrent requests of {tokens} tokens take more memory than this program may have"),
            hint,
        ));
    }
    raise_file_limit(requests)
}

/// Raises the soft limit on open files to what `connections` need, up to the hard limit.
pub(super) fn raise_file_limit(connections: u64) -> Result<()> {
    let needed = connections.saturating_add(OTHER_FILES);
    let limit = |error: nix::Error| Fault::internal(format!("cannot read or raise the limit on open files: {error}"));
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(limit)?;
    if hard < needed {
        return Err(Fault::missing(
            format!("{connections} connections need {needed} open files; the limit is {hard}"),
            format!(
                "raise the limit (`ulimit -Hn {needed}` as root), or use at most {} concurrent requests",
                hard.saturating_sub(OTHER_FILES)
            ),
        ));
    }
    // A simulated engine in this process holds the other end of each connection.
    let wanted = needed.saturating_add(connections).min(hard);
    if soft >= wanted {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).map_err(limit)
}

/// Makes the kernel's table of open files large enough for `connections`. Otherwise the table grows when a file is
/// opened during the load, and in a process with several threads that call then takes 10 to 40 ms.
pub(super) fn grow_file_table(file: &impl AsFd, connections: u64) {
    let last = i32::try_from(connections.saturating_add(OTHER_FILES)).unwrap_or(i32::MAX) - 1;
    // Fails only if no number from `last` on is free; the table is then large enough.
    if let Ok(copy) = fcntl(file, FcntlArg::F_DUPFD_CLOEXEC(last)) {
        let _ignored = close(copy);
    }
}

/// The error for a failed epoll, eventfd or timerfd call.
pub(super) fn io_fault(error: std::io::Error) -> Fault {
    Fault::internal(format!("the load client's event loop failed: {error}"))
}
