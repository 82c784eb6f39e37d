//! Issuing requests: each that is due and has a slot is written to a connection.

use std::time::{Duration, Instant};

use super::Slots;
use super::client::{CONNECT, Client, broken};
use super::exchange::Exchange;
use super::larder::Taken;
use crate::fault::Result;
use crate::load::record::FailureForm;

impl Client {
    /// Issues every request that is due and has a slot.
    pub(super) fn issue(&mut self) -> Result<()> {
        self.next_due = None;
        loop {
            let now = Instant::now();
            let since = now.saturating_duration_since(self.clock.began);
            if self.exhausted || self.closed(since) {
                return Ok(());
            }
            let level = self.plan.slots.level(since);
            if level.is_some_and(|level| self.under_way >= level) {
                // A slot that is no more is not waiting for a request.
                self.freed.clear();
                self.slots_used = self.under_way;
                return Ok(());
            }
            match self.larder.take(since)? {
                Taken::Due(prepared) => {
                    let free = self.slot_free_since(since);
                    let due = prepared.job.at.map(|at| self.clock.began + at);
                    let ready = due.map_or(free, |due| due.max(free));
                    if std::mem::take(&mut self.starved) && ready < now {
                        self.watch.unprepared += 1;
                    }
                    let scheduled = due.unwrap_or(free);
                    let exchange = Exchange::new(self.issued, scheduled, ready, self.plan.keep_text, *prepared);
                    let index = self.issued;
                    self.issued += 1;
                    self.under_way += 1;
                    self.send(Box::new(exchange), now)?;
                    self.orders.give(self.source.issued(index, since));
                }
                Taken::Later(at) => {
                    self.starved = false;
                    self.next_due = Some(at);
                    return Ok(());
                }
                Taken::Empty => {
                    self.starved = true;
                    return Ok(());
                }
                Taken::Over => {
                    self.exhausted = true;
                    return Ok(());
                }
            }
        }
    }

    /// Since when the slot that is taken now has been free.
    fn slot_free_since(&mut self, since: Duration) -> Instant {
        if let Some(freed) = self.freed.pop_front() {
            return freed;
        }
        self.slots_used += 1;
        self.clock.began + self.plan.slots.opened(self.slots_used, since)
    }

    /// Sends a request on an idle connection, or opens one for it.
    fn send(&mut self, mut exchange: Box<Exchange>, now: Instant) -> Result<()> {
        if let Some(number) = self.pool.take_idle() {
            exchange.on_idle = true;
            self.begin(number, exchange)?;
        } else {
            self.watch.opened_late += 1;
            self.send_on_new(exchange, now)?;
        }
        // A load whose arrivals nobody awaits: the next one should find a connection.
        if matches!(self.plan.slots, Slots::Open { .. }) && !self.pool.has_idle() && self.opening == 0 {
            self.open_idle(now);
        }
        Ok(())
    }

    /// Opens a connection that no request waits for.
    pub(super) fn open_idle(&mut self, now: Instant) {
        match self.pool.open(&self.target, now) {
            Ok(_) => self.opening += 1,
            Err(error) => self.refused = Some(error),
        }
    }

    pub(super) fn send_on_new(&mut self, mut exchange: Box<Exchange>, now: Instant) -> Result<()> {
        exchange.on_idle = false;
        exchange.deadline = now + CONNECT.min(exchange.timeout());
        let number = match self.pool.open(&self.target, now) {
            Ok(number) => number,
            Err(error) => {
                self.keep(
                    exchange.broken(&self.clock, now, FailureForm::Unreachable, error.to_string()),
                    now,
                );
                return Ok(());
            }
        };
        self.mind(exchange.deadline);
        if let Some(line) = self.pool.line(number) {
            line.exchange = Some(exchange);
        }
        Ok(())
    }

    /// Writes the beginning of a request to an open connection.
    pub(super) fn begin(&mut self, number: usize, mut exchange: Box<Exchange>) -> Result<()> {
        let now = Instant::now();
        self.watch
            .sent(exchange.index(), now.saturating_duration_since(exchange.ready()));
        exchange.begin(now);
        self.mind(exchange.deadline);
        if let Some(line) = self.pool.line(number) {
            line.exchange = Some(exchange);
        }
        self.write(number)
    }

    pub(super) fn write(&mut self, number: usize) -> Result<()> {
        let Some(line) = self.pool.line(number) else {
            return Ok(());
        };
        let Some(exchange) = &mut line.exchange else {
            return Ok(());
        };
        match line.socket.write(exchange.unwritten()) {
            Ok(written) => {
                exchange.wrote(written);
                self.pool.watch(number).map_err(broken)
            }
            Err(error) => self.lost(number, Some(&error)),
        }
    }
}
