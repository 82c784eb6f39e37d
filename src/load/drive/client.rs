//! The client's thread: one loop over all sockets, without a hop between a socket and the reader of its answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use nix::sys::epoll::{EpollEvent, EpollTimeout};

use super::bell::{Alarm, Bell};
use super::crowd::Crowd;
use super::larder::Larder;
use super::orders::Orders;
use super::pool::Pool;
use super::target::Target;
use super::{Clock, Drive, Go, Source, Watch};
use crate::fault::{Fault, Result};
use crate::load::record::Record;

/// Numbers of what wakes the thread beside its connections.
pub(super) const BELL: u64 = u64::MAX;
pub(super) const ALARM: u64 = u64::MAX - 1;

/// The longest that a request waits for a connection.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// Bytes read at once, whatever connection they come from.
const BUFFER: usize = 64 << 10;

/// Connections looked after between two looks at all of them.
const BATCH: usize = 256;

/// All that the thread holds.
pub(super) struct Client {
    pub(super) pool: Pool,
    pub(super) target: Target,
    pub(super) plan: Drive,
    pub(super) source: Arc<dyn Source>,
    pub(super) larder: Arc<Larder>,
    pub(super) orders: Arc<Orders>,
    pub(super) bell: Arc<Bell>,
    pub(super) alarm: Alarm,
    pub(super) ended: Sender<Record>,
    pub(super) clock: Clock,
    pub(super) watch: Watch,
    /// Connections that are being opened and for which no request waits.
    pub(super) opening: usize,
    /// Why the last connection could not be opened.
    pub(super) refused: Option<std::io::Error>,
    /// Requests that have been issued and have not ended.
    pub(super) under_way: u64,
    /// Requests issued so far.
    pub(super) issued: u64,
    /// Slots that were used once and are free again, and since when.
    pub(super) freed: VecDeque<Instant>,
    /// Slots used at least once.
    pub(super) slots_used: u64,
    /// The larder was found empty, and since then nothing has been taken from it.
    pub(super) starved: bool,
    /// The source has no more.
    pub(super) exhausted: bool,
    /// When the next request is due, where it is known.
    pub(super) next_due: Option<Duration>,
    /// No deadline is before this moment.
    pub(super) deadline: Option<Instant>,
    /// Where bytes are read to, whatever connection they come from.
    pub(super) buffer: Vec<u8>,
}

impl Client {
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of the client, made where its threads are"
    )]
    pub(super) fn new(
        pool: Pool,
        target: Target,
        plan: Drive,
        source: Arc<dyn Source>,
        larder: Arc<Larder>,
        orders: Arc<Orders>,
        bell: Arc<Bell>,
        alarm: Alarm,
        ended: Sender<Record>,
    ) -> Self {
        Self {
            pool,
            target,
            plan,
            source,
            larder,
            orders,
            bell,
            alarm,
            ended,
            clock: Clock::now(),
            watch: Watch::default(),
            opening: 0,
            refused: None,
            under_way: 0,
            issued: 0,
            freed: VecDeque::new(),
            slots_used: 0,
            starved: false,
            exhausted: false,
            next_due: None,
            deadline: None,
            buffer: vec![0; BUFFER],
        }
    }

    /// Sends and reads until there is nothing more to send and all have ended.
    pub(super) fn run(&mut self) -> Result<()> {
        let mut events = vec![EpollEvent::empty(); BATCH];
        let mut crowd = Crowd::new();
        let mut looked = Instant::now();
        loop {
            self.issue()?;
            let now = Instant::now();
            if self.over(now) {
                crowd.read(now, &mut self.watch);
                return Ok(());
            }
            self.alarm.set(self.next_moment(now)).map_err(broken)?;
            crowd.look(now, &mut self.watch);
            self.watch.paused(looked.elapsed());
            let count = self.pool.wait(&mut events, EpollTimeout::NONE).map_err(broken)?;
            looked = Instant::now();
            self.watch.wakes += 1;
            self.look_after(&events[..count])?;
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.expire();
            }
        }
    }

    /// Looks after everything to which something has happened.
    pub(super) fn look_after(&mut self, events: &[EpollEvent]) -> Result<()> {
        for event in events {
            match event.data() {
                BELL => self.bell.hush(),
                ALARM => self.alarm.hush().map_err(broken)?,
                number => {
                    let number = usize::try_from(number).unwrap_or(usize::MAX);
                    self.look_at(number, event.events())?;
                }
            }
        }
        Ok(())
    }

    /// Whether no request is to be issued any more.
    pub(super) fn closed(&self, since: Duration) -> bool {
        self.orders.go() > Go::On || self.plan.limit.is_some_and(|limit| since >= limit)
    }

    /// Whether all is done; cuts off what has no more time.
    fn over(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.clock.began);
        let cut = self.plan.limit.is_some_and(|limit| since >= limit + self.plan.grace);
        if cut || self.orders.go() == Go::CutOff {
            self.cut_off(now);
            return true;
        }
        self.under_way == 0 && (self.exhausted || self.closed(since))
    }

    /// When something is to be done though nothing has happened.
    fn next_moment(&self, now: Instant) -> Option<Instant> {
        let since = now.saturating_duration_since(self.clock.began);
        let limit = self
            .plan
            .limit
            .map(|limit| if since < limit { limit } else { limit + self.plan.grace });
        let moments = [limit, self.next_due, self.plan.slots.next_change(since)];
        let first = moments
            .into_iter()
            .flatten()
            .min()
            .map(|moment| self.clock.began + moment);
        [first, self.deadline].into_iter().flatten().min()
    }
}

/// What no load can go on without.
pub(super) fn broken(error: std::io::Error) -> Fault {
    Fault::internal(format!("the load's client cannot wait for its connections: {error}"))
}
