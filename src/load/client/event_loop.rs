//! The client's event loop: one thread reads and writes all sockets, so that no thread switch delays a timestamp.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use nix::sys::epoll::{EpollEvent, EpollTimeout};

use super::control::SharedControl;
use super::pool::Pool;
use super::run_queue::RunQueueDelay;
use super::send_buffer::SendBuffer;
use super::target::Target;
use super::waker::{Timer, Waker};
use super::{ClientHealth, Clock, Control, LoadConfig, RequestSource};
use crate::fault::{Fault, Result};
use crate::load::record::Record;

/// Epoll keys of the waker and the timer.
pub(super) const WAKER_KEY: u64 = u64::MAX;
pub(super) const TIMER_KEY: u64 = u64::MAX - 1;

/// Connection timeout.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Size of the read buffer shared by all connections.
const READ_BUFFER: usize = 64 << 10;

/// Maximum events per `epoll_wait`.
const BATCH: usize = 256;

/// The state of the client's thread.
pub(super) struct Client {
    pub(super) pool: Pool,
    pub(super) target: Target,
    pub(super) config: LoadConfig,
    pub(super) source: Arc<dyn RequestSource>,
    pub(super) send_buffer: Arc<SendBuffer>,
    pub(super) control: Arc<SharedControl>,
    pub(super) waker: Arc<Waker>,
    pub(super) timer: Timer,
    pub(super) records: Sender<Record>,
    pub(super) clock: Clock,
    pub(super) health: ClientHealth,
    /// Connections being opened without a request waiting for them.
    pub(super) opening: usize,
    /// Why the last connection attempt failed.
    pub(super) connect_error: Option<std::io::Error>,
    /// Requests issued but not ended.
    pub(super) in_flight: u64,
    pub(super) issued: u64,
    /// Slots that were used and are free again, with the time they became free.
    pub(super) free_slots: VecDeque<Instant>,
    /// Slots used at least once.
    pub(super) slots_used: u64,
    /// The buffer was found empty and nothing has been taken from it since.
    pub(super) starved: bool,
    /// The source has no more requests.
    pub(super) exhausted: bool,
    /// When the next request is due, if known.
    pub(super) next_due: Option<Duration>,
    /// Lower bound of all deadlines.
    pub(super) deadline: Option<Instant>,
    pub(super) read_buffer: Vec<u8>,
}

impl Client {
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of the client, made where its threads are"
    )]
    pub(super) fn new(
        pool: Pool,
        target: Target,
        config: LoadConfig,
        source: Arc<dyn RequestSource>,
        send_buffer: Arc<SendBuffer>,
        control: Arc<SharedControl>,
        waker: Arc<Waker>,
        timer: Timer,
        records: Sender<Record>,
    ) -> Self {
        Self {
            pool,
            target,
            config,
            source,
            send_buffer,
            control,
            waker,
            timer,
            records,
            clock: Clock::now(),
            health: ClientHealth::default(),
            opening: 0,
            connect_error: None,
            in_flight: 0,
            issued: 0,
            free_slots: VecDeque::new(),
            slots_used: 0,
            starved: false,
            exhausted: false,
            next_due: None,
            deadline: None,
            read_buffer: vec![0; READ_BUFFER],
        }
    }

    /// Runs until there is nothing more to send and all requests have ended.
    pub(super) fn run(&mut self) -> Result<()> {
        let mut events = vec![EpollEvent::empty(); BATCH];
        let mut run_queue = RunQueueDelay::new();
        let mut last_poll = Instant::now();
        loop {
            self.issue()?;
            let now = Instant::now();
            if self.is_finished(now) {
                run_queue.read(now, &mut self.health);
                return Ok(());
            }
            self.timer.set(self.next_wakeup(now)).map_err(io_fault)?;
            run_queue.update(now, &mut self.health);
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

    pub(super) fn handle_events(&mut self, events: &[EpollEvent]) -> Result<()> {
        for event in events {
            match event.data() {
                WAKER_KEY => self.waker.clear(),
                TIMER_KEY => self.timer.clear().map_err(io_fault)?,
                key => {
                    let key = usize::try_from(key).unwrap_or(usize::MAX);
                    self.handle_connection_event(key, event.events())?;
                }
            }
        }
        Ok(())
    }

    /// Whether no more requests may be issued.
    pub(super) fn no_more_requests(&self, since: Duration) -> bool {
        self.control.get() > Control::Continue || self.config.limit.is_some_and(|limit| since >= limit)
    }

    /// Whether the load is over. Aborts what exceeded the grace period.
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

    /// When the loop must wake up even without an event.
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
        [first, self.deadline].into_iter().flatten().min()
    }
}

/// The error for a failed epoll, eventfd or timerfd call.
pub(super) fn io_fault(error: std::io::Error) -> Fault {
    Fault::internal(format!("the load client's event loop failed: {error}"))
}
