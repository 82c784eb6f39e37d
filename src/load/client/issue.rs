//! Issues requests: writes every request that is due and has a slot to a connection.

use std::time::{Duration, Instant};

use super::Slots;
use super::event_loop::{CONNECT_TIMEOUT, Client, io_fault};
use super::exchange::Exchange;
use super::send_buffer::NextRequest;
use crate::fault::Result;
use crate::load::record::FailureForm;

impl Client {
    /// Issues every request that is due and has a slot.
    pub(super) fn issue(&mut self) -> Result<()> {
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
            match self.send_buffer.take(since)? {
                NextRequest::Due(prepared) => {
                    let free = self.slot_free_since(since);
                    let due = prepared.job.at.map(|at| self.clock.began + at);
                    let ready = due.map_or(free, |due| due.max(free));
                    if std::mem::take(&mut self.starved) && ready < now {
                        self.health.unprepared += 1;
                    }
                    let scheduled = due.unwrap_or(free);
                    let exchange = Exchange::new(self.issued, scheduled, ready, self.config.keep_text, *prepared);
                    let index = self.issued;
                    self.issued += 1;
                    self.in_flight += 1;
                    self.send(Box::new(exchange), now)?;
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

    /// Since when the slot taken now has been free.
    fn slot_free_since(&mut self, since: Duration) -> Instant {
        if let Some(since) = self.free_slots.pop_front() {
            return since;
        }
        self.slots_used += 1;
        self.clock.began + self.config.slots.opened(self.slots_used, since)
    }

    /// Sends a request on an idle connection, or opens one for it.
    fn send(&mut self, mut exchange: Box<Exchange>, now: Instant) -> Result<()> {
        if let Some(key) = self.pool.take_idle() {
            exchange.on_idle = true;
            self.begin(key, exchange)?;
        } else {
            self.health.opened_late += 1;
            self.send_on_new(exchange, now)?;
        }
        // In an open loop, keep one spare connection for the next arrival.
        if matches!(self.config.slots, Slots::Open { .. }) && !self.pool.has_idle() && self.opening == 0 {
            self.open_idle(now);
        }
        Ok(())
    }

    /// Opens a connection without a request.
    pub(super) fn open_idle(&mut self, now: Instant) {
        match self.pool.open(&self.target, now) {
            Ok(_) => self.opening += 1,
            Err(error) => self.connect_error = Some(error),
        }
    }

    pub(super) fn send_on_new(&mut self, mut exchange: Box<Exchange>, now: Instant) -> Result<()> {
        exchange.on_idle = false;
        exchange.deadline = now + CONNECT_TIMEOUT.min(exchange.timeout());
        let key = match self.pool.open(&self.target, now) {
            Ok(key) => key,
            Err(error) => {
                self.end_request(
                    exchange.broken(&self.clock, now, FailureForm::Unreachable, error.to_string()),
                    now,
                );
                return Ok(());
            }
        };
        self.arm_deadline(exchange.deadline);
        if let Some(connection) = self.pool.connection(key) {
            connection.exchange = Some(exchange);
        }
        Ok(())
    }

    /// Starts writing a request to an open connection.
    pub(super) fn begin(&mut self, key: usize, mut exchange: Box<Exchange>) -> Result<()> {
        let now = Instant::now();
        self.health
            .sent(exchange.index(), now.saturating_duration_since(exchange.ready()));
        exchange.start(now);
        self.arm_deadline(exchange.deadline);
        if let Some(connection) = self.pool.connection(key) {
            connection.exchange = Some(exchange);
        }
        self.write(key)
    }

    pub(super) fn write(&mut self, key: usize) -> Result<()> {
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
}
