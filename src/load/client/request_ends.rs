//! Ends of requests: deadlines, aborts, and handing over records.

use std::time::Instant;

use super::event_loop::Client;
use super::pool::Connection;
use crate::load::record::{FailureForm, Record};

impl Client {
    /// Fails every request whose deadline has passed.
    pub(super) fn expire(&mut self) {
        let now = Instant::now();
        for key in self.pool.busy() {
            let due = |connection: &mut Connection| {
                connection
                    .exchange
                    .as_ref()
                    .is_some_and(|exchange| exchange.deadline <= now)
            };
            if !self.pool.connection(key).is_some_and(due) {
                continue;
            }
            // Late data on this connection would belong to the failed request, so close it.
            let Some(exchange) = self.pool.remove(key).and_then(|connection| connection.exchange) else {
                continue;
            };
            let (form, why) = match exchange.sent() {
                Some(_) => (FailureForm::Deadline, "not finished before its timeout"),
                None => (FailureForm::Unreachable, "connection timed out"),
            };
            self.end_request(exchange.broken(&self.clock, now, form, why.to_owned()), now);
        }
        self.deadline = self.pool.earliest_deadline();
    }

    /// Aborts all requests.
    pub(super) fn cut_off(&mut self, now: Instant) {
        for key in self.pool.busy() {
            if let Some(exchange) = self.pool.remove(key).and_then(|connection| connection.exchange) {
                self.end_request(exchange.cut_off(&self.clock, now), now);
            }
        }
    }

    pub(super) fn end_request(&mut self, record: Record, at: Instant) {
        self.health.events += record.events;
        self.in_flight -= 1;
        self.free_slots.push_back(at);
        // Fails only if nobody receives records any more.
        let _ignored = self.records.send(record);
    }

    pub(super) fn arm_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(self.deadline.map_or(deadline, |earliest| earliest.min(deadline)));
    }
}
