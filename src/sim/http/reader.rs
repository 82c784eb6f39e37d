//! An answer as it comes out of the scheduler, with the misbehaviour that was asked for laid over it.

use std::future;

use crate::sim::failing::FailedRequest;
use crate::sim::handle::Exit;
use crate::sim::schedule::Event;
use crate::sim::service::Ticket;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// As long as asked for.
    Length,
    /// Earlier.
    Stop,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// So many tokens, and whether they are the last.
    Tokens(u64, Option<Finish>),
    /// It failed.
    Failed(String),
    /// Nothing more comes and nobody says why.
    Cut,
    /// The connection is closed.
    Broken,
}

/// Reads an answer.
pub(super) struct Reader {
    ticket: Ticket,
    // It is one of those that go wrong.
    wrong: bool,
    produced: u64,
    held: u64,
}

impl Reader {
    pub(super) fn new(ticket: Ticket) -> Self {
        Self {
            wrong: ticket.service.setup.misbehave.concerns(ticket.id),
            ticket,
            produced: 0,
            held: 0,
        }
    }

    /// Identifies the request.
    pub(super) fn id(&self) -> u64 {
        self.ticket.id
    }

    /// The next part; waits for it. After a part that ends the answer it must not be called again.
    pub(super) async fn next(&mut self) -> Part {
        if let Some(part) = self.misbehave().await {
            return part;
        }
        let event = self.ticket.events.recv().await;
        self.part(event)
    }

    /// The next part where it is there already.
    pub(super) fn ready(&mut self) -> Option<Part> {
        if self.is_due() {
            return None;
        }
        let event = self.ticket.events.try_recv().ok()?;
        Some(self.part(Some(event)))
    }

    fn part(&mut self, event: Option<Event>) -> Part {
        let misbehave = &self.ticket.service.setup.misbehave;
        let asked = |tokens: Option<u64>| tokens.filter(|_| self.wrong);
        let (end_early, clip) = (asked(misbehave.end_early), asked(misbehave.clip));
        let last = match event {
            None => return Part::Cut,
            Some(Event::Oom(oom)) => return Part::Failed(oom.to_string()),
            Some(Event::Token) => None,
            Some(Event::Last) => Some(Finish::Length),
        };
        self.produced += 1;
        let finish = last
            .or((end_early == Some(self.produced)).then_some(Finish::Stop))
            .or((clip == Some(self.produced)).then_some(Finish::Length));
        if misbehave.two_tokens && finish.is_none() && self.held == 0 {
            self.held = 1;
            return Part::Tokens(0, None);
        }
        let tokens = 1 + std::mem::take(&mut self.held);
        Part::Tokens(tokens, finish)
    }

    /// Whether the next part is a misdeed.
    fn is_due(&self) -> bool {
        let misbehave = &self.ticket.service.setup.misbehave;
        let misdeeds = [
            misbehave.die_mid_stream,
            misbehave.hang,
            misbehave.error_then_done,
            misbehave.break_off,
            misbehave.end_silently,
        ];
        self.failure().is_some() || (self.wrong && misdeeds.contains(&Some(self.produced)))
    }

    /// The failure that comes now.
    fn failure(&self) -> Option<&FailedRequest> {
        let failed = self.ticket.service.setup.misbehave.fail_request.as_ref();
        let failed = failed.filter(|_| self.wrong)?;
        let due = failed.status.is_none() && failed.after == self.produced && self.ticket.total > failed.longer_than;
        due.then_some(failed)
    }

    async fn misbehave(&self) -> Option<Part> {
        let service = &self.ticket.service;
        if let Some(failed) = self.failure() {
            service.fail(failed);
            return match &failed.message {
                Some(message) => Some(Part::Failed(message.clone())),
                None => future::pending().await,
            };
        }
        if !self.wrong {
            return None;
        }
        let now = Some(self.produced);
        if service.setup.misbehave.die_mid_stream == now {
            service.die(Exit {
                code: 1,
                oom_killed: false,
            });
            return future::pending().await;
        }
        if service.setup.misbehave.hang == now {
            return future::pending().await;
        }
        if service.setup.misbehave.break_off == now {
            return Some(Part::Broken);
        }
        if service.setup.misbehave.end_silently == now {
            return Some(Part::Cut);
        }
        (service.setup.misbehave.error_then_done == now)
            .then(|| Part::Failed("SIMULATED failure of the engine".to_owned()))
    }
}

/// A whole answer.
pub(super) struct Whole {
    /// Tokens of each row.
    pub(super) tokens: u64,
    pub(super) finish: Finish,
}

/// Reads an answer to its end.
pub(super) async fn whole(reader: &mut Reader) -> Result<Whole, String> {
    let mut tokens = 0;
    loop {
        match reader.next().await {
            Part::Tokens(more, None) => tokens += more,
            Part::Tokens(more, Some(finish)) => {
                return Ok(Whole {
                    tokens: tokens + more,
                    finish,
                });
            }
            Part::Failed(message) => return Err(message),
            Part::Cut | Part::Broken => return Err("the engine is gone".to_owned()),
        }
    }
}
