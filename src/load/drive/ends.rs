//! Ends of requests that no answer brings: a deadline, a cut. And what is kept of every one that has ended.

use std::time::Instant;

use super::client::Client;
use super::pool::Line;
use crate::load::record::{FailureForm, Record};

impl Client {
    /// Ends every request whose deadline has come.
    pub(super) fn expire(&mut self) {
        let now = Instant::now();
        for number in self.pool.busy() {
            let due = |line: &mut Line| line.exchange.as_ref().is_some_and(|exchange| exchange.deadline <= now);
            if !self.pool.line(number).is_some_and(due) {
                continue;
            }
            // What would still come on this connection belongs to a request that is over.
            let Some(exchange) = self.pool.remove(number).and_then(|line| line.exchange) else {
                continue;
            };
            let (form, why) = match exchange.sent() {
                Some(_) => (FailureForm::Deadline, "unfinished when its time was up"),
                None => (FailureForm::Unreachable, "no connection could be made in time"),
            };
            self.keep(exchange.broken(&self.clock, now, form, why.to_owned()), now);
        }
        self.deadline = self.pool.earliest_deadline();
    }

    /// Ends everything.
    pub(super) fn cut_off(&mut self, now: Instant) {
        for number in self.pool.busy() {
            if let Some(exchange) = self.pool.remove(number).and_then(|line| line.exchange) {
                self.keep(exchange.cut_off(&self.clock, now), now);
            }
        }
    }

    pub(super) fn keep(&mut self, record: Record, at: Instant) {
        self.watch.events += record.events;
        self.under_way -= 1;
        self.freed.push_back(at);
        // It fails only where nobody wants records any more.
        let _nobody_listens = self.ended.send(record);
    }

    /// A request has this deadline.
    pub(super) fn mind(&mut self, deadline: Instant) {
        self.deadline = Some(self.deadline.map_or(deadline, |earliest| earliest.min(deadline)));
    }
}
