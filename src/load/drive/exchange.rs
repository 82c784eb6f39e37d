//! One request under way: what is still to be written of it, what has been read of its answer, and the moments. No sockets.

use std::time::{Duration, Instant};

use super::http1::Answer;
use super::larder::Prepared;
use super::{Clock, Job};
use crate::load::decode::{Counts, Framing, Piece};
use crate::load::ndjson::Ndjson;
use crate::load::record::{Failure, FailureForm, Outcome, Record};
use crate::load::sse::Sse;

/// How long the end of the body is waited for after the event that says that nothing follows.
const LINGER: Duration = Duration::from_millis(200);

/// The most that is kept of what is no stream of events, and that is told of it.
const BEGINNING: usize = 512;
const LONGEST_BEGINNING: usize = 120;

/// The most of a refusal's body that is kept.
const LONGEST_REFUSAL: usize = 64 << 10;

/// Room for gaps is reserved for so many tokens at most.
const MOST_GAPS: u64 = 1 << 16;

/// Ends that an engine gives to a request that it gave up: streams that carry one did not end as they should.
const GIVEN_UP: [&str; 3] = ["abort", "error", "cancelled"];

/// A request that has been issued.
pub(super) struct Exchange {
    wire: Vec<u8>,
    written: usize,
    answer: Answer,
    frames: Frames,
    job: Job,
    /// When it must be complete; sooner once only the end of the body is missing.
    pub(super) deadline: Instant,
    /// When it was issued to a connection that had been idle: the server may have closed that in the same moment.
    pub(super) on_idle: bool,
    // When it could have been sent: it was due, and had a slot.
    ready: Instant,
    seen: Seen,
}

enum Frames {
    Sse(Sse),
    Ndjson(Ndjson),
}

/// What the answer has told so far.
struct Seen {
    index: u64,
    scheduled: Instant,
    sent: Option<Instant>,
    first_byte: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    gaps_ms: Vec<f32>,
    events: u64,
    tokens_seen: Option<u64>,
    counts: Counts,
    text: Option<String>,
    finish: Option<String>,
    error: Option<String>,
    refusal: Vec<u8>,
    // Of a body in which no event has been found.
    beginning: Vec<u8>,
    heard: bool,
    malformed: Option<String>,
    last: bool,
}

impl Exchange {
    pub(super) fn new(index: u64, scheduled: Instant, ready: Instant, keep_text: bool, prepared: Prepared) -> Self {
        let Prepared { job, wire } = prepared;
        let gaps = usize::try_from(job.output.min(MOST_GAPS)).unwrap_or_default();
        Self {
            wire,
            written: 0,
            answer: Answer::new(),
            frames: match job.decoder.framing() {
                Framing::Sse => Frames::Sse(Sse::new()),
                Framing::Ndjson => Frames::Ndjson(Ndjson::new()),
            },
            deadline: ready + job.timeout,
            ready,
            on_idle: false,
            seen: Seen {
                index,
                scheduled,
                sent: None,
                first_byte: None,
                first_token: None,
                last_token: None,
                gaps_ms: Vec::with_capacity(gaps),
                events: 0,
                tokens_seen: Some(0),
                counts: Counts::default(),
                text: keep_text.then(String::new),
                finish: None,
                error: None,
                refusal: Vec::new(),
                beginning: Vec::new(),
                heard: false,
                malformed: None,
                last: false,
            },
            job,
        }
    }

    pub(super) fn index(&self) -> u64 {
        self.seen.index
    }

    /// When it could have been sent: it was due, and had a slot.
    pub(super) fn ready(&self) -> Instant {
        self.ready
    }

    pub(super) fn timeout(&self) -> Duration {
        self.job.timeout
    }

    /// What is still to be written.
    pub(super) fn unwritten(&self) -> &[u8] {
        &self.wire[self.written..]
    }

    /// Its first byte is handed to the connection now. What was sent before on another connection does not count.
    pub(super) fn begin(&mut self, now: Instant) {
        self.written = 0;
        self.seen.sent = Some(now);
        self.deadline = now + self.job.timeout;
    }

    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if !self.on_idle {
            self.forget();
        }
    }

    /// Nobody will write it again: a long prompt is not kept for as long as its answer takes.
    fn forget(&mut self) {
        if self.written == self.wire.len() {
            self.wire = Vec::new();
            self.written = 0;
        }
    }

    /// Since when it is under way.
    pub(super) fn sent(&self) -> Option<Instant> {
        self.seen.sent
    }

    /// Whether nothing of an answer has come.
    pub(super) fn unanswered(&self) -> bool {
        self.answer.is_empty()
    }

    /// Takes bytes of the answer that were read at `at`; whether it is over.
    pub(super) fn take(&mut self, bytes: &[u8], at: Instant) -> bool {
        self.forget();
        let Self {
            answer,
            frames,
            job,
            seen,
            ..
        } = self;
        let pushed = answer.push(bytes, |status, body| {
            seen.first_byte.get_or_insert(at);
            if !(200..300).contains(&status) {
                let room = LONGEST_REFUSAL - seen.refusal.len();
                seen.refusal.extend_from_slice(&body[..room.min(body.len())]);
                return;
            }
            if !seen.heard {
                let room = BEGINNING - seen.beginning.len();
                seen.beginning.extend_from_slice(&body[..room.min(body.len())]);
            }
            let framed = match frames {
                Frames::Sse(sse) => sse.push(body, |event| seen.event(job, event.name, event.data, at)),
                Frames::Ndjson(ndjson) => ndjson.push(body, |line| seen.event(job, "", line, at)),
            };
            if let Err(fault) = framed {
                seen.malformed.get_or_insert(fault.message);
            }
        });
        if let Err(wrong) = pushed {
            seen.malformed.get_or_insert(wrong.0);
        }
        if seen.last && !answer.done() {
            self.deadline = self.deadline.min(at + LINGER);
        }
        self.seen.malformed.is_some() || self.answer.done()
    }

    /// The connection ended: whether that completes the answer.
    pub(super) fn close(&mut self) -> bool {
        self.answer.close()
    }

    /// Whether the connection can carry another request after this one.
    pub(super) fn leaves_reusable(&self) -> bool {
        self.answer.reusable() && self.unwritten().is_empty() && self.seen.malformed.is_none()
    }

    /// What is kept of it, where its answer is complete.
    pub(super) fn complete(mut self, clock: &Clock, now: Instant) -> Record {
        let Self { frames, job, seen, .. } = &mut self;
        let framed = match frames {
            Frames::Sse(sse) => sse.finish(|event| seen.event(job, event.name, event.data, now)),
            Frames::Ndjson(ndjson) => {
                ndjson.finish(|line| seen.event(job, "", line, now));
                Ok(())
            }
        };
        if let Err(fault) = framed {
            seen.malformed.get_or_insert(fault.message);
        }
        let outcome = self.seen.outcome(&self.answer);
        self.into_record(clock, now, outcome)
    }

    /// What is kept of it, where it broke: what the events said of the end counts for more than how the connection ended.
    pub(super) fn broken(self, clock: &Clock, now: Instant, form: FailureForm, message: String) -> Record {
        if self.seen.last || self.seen.error.is_some() || self.seen.malformed.is_some() {
            return self.complete(clock, now);
        }
        let outcome = match self.answer.status().filter(|status| !(200..300).contains(status)) {
            Some(_) => self.seen.outcome(&self.answer),
            None => Outcome::Failed(Failure { form, message }),
        };
        self.into_record(clock, now, outcome)
    }

    /// What is kept of it, where the load was over before.
    pub(super) fn cut_off(self, clock: &Clock, now: Instant) -> Record {
        self.into_record(clock, now, Outcome::CutOff)
    }

    fn into_record(self, clock: &Clock, now: Instant, outcome: Outcome) -> Record {
        let Self { job, seen, .. } = self;
        let since = |at: Instant| at.saturating_duration_since(clock.began);
        Record {
            index: seen.index,
            warmup: job.warmup,
            input: job.input,
            output: job.output,
            scheduled: since(seen.scheduled),
            // One that never got a connection was not sent; it was tried until it failed.
            sent: since(seen.sent.unwrap_or(now)),
            first_byte: seen.first_byte.map(since),
            first_token: seen.first_token.map(since),
            last_token: seen.last_token.map(since),
            ended: since(now),
            gaps_ms: seen.gaps_ms,
            events: seen.events,
            tokens_seen: seen.tokens_seen,
            counts: seen.counts,
            text: seen.text,
            finish: seen.finish,
            outcome,
        }
    }
}

impl Seen {
    fn event(&mut self, job: &mut Job, name: &str, data: &str, at: Instant) {
        let Piece {
            content,
            tokens,
            finish,
            counts,
            error,
            last,
        } = job.decoder.event(name, data, self.text.as_mut());
        self.last |= last;
        self.heard = true;
        if content {
            if let Some(before) = self.last_token {
                self.gaps_ms
                    .push((at.duration_since(before).as_secs_f64() * 1e3) as f32);
            }
            self.first_token.get_or_insert(at);
            self.last_token = Some(at);
            self.events += 1;
            self.tokens_seen = self.tokens_seen.zip(tokens).map(|(seen, more)| seen + more);
        }
        self.counts.input = counts.input.or(self.counts.input);
        self.counts.output = counts.output.or(self.counts.output);
        if finish.is_some() {
            self.finish = finish;
        }
        if error.is_some() && self.error.is_none() {
            self.error = error;
        }
    }

    /// How an answer ended that came whole, or as whole as it needs to be.
    fn outcome(&self, answer: &Answer) -> Outcome {
        let failed = |form, message: String| Outcome::Failed(Failure { form, message });
        match answer.status() {
            Some(status) if !(200..300).contains(&status) => {
                let said = String::from_utf8_lossy(&self.refusal);
                let message = match answer.location() {
                    Some(location) => format!("the server points to `{location}`, and nobody follows in a load"),
                    None if said.trim().is_empty() => unsaid(status),
                    None => said.into_owned(),
                };
                return failed(FailureForm::Status(status), message);
            }
            _ => {}
        }
        if let Some(error) = &self.error {
            return failed(FailureForm::InStream, error.clone());
        }
        if let Some(why) = &self.malformed {
            return failed(FailureForm::Malformed, why.clone());
        }
        if let Some(beginning) = self.no_events() {
            let message = format!("the answer is no stream of events, it begins with `{beginning}`");
            return failed(FailureForm::Malformed, message);
        }
        match self.finish.as_deref() {
            Some(finish) if GIVEN_UP.contains(&finish) => failed(
                FailureForm::InStream,
                format!("the engine ended the request: `{finish}`"),
            ),
            _ if self.events == 0 => failed(
                FailureForm::EndedEarly,
                "the stream ended without text or tokens".to_owned(),
            ),
            None if !self.last => failed(
                FailureForm::EndedEarly,
                "the stream ended without saying why the generation did".to_owned(),
            ),
            _ => Outcome::Completed,
        }
    }
    /// How a body begins that is something else than a stream of events: a page, or an object.
    fn no_events(&self) -> Option<String> {
        if self.heard {
            return None;
        }
        let text = String::from_utf8_lossy(&self.beginning);
        let begins = |word: &str| text.trim_start().starts_with(word);
        if text.trim().is_empty() || [":", "data:", "event:", "id:", "retry:"].into_iter().any(begins) {
            return None;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        Some(words.join(" ").chars().take(LONGEST_BEGINNING).collect())
    }
}

/// What is told of a status that came without a body.
fn unsaid(status: u16) -> String {
    let reason = reqwest::StatusCode::from_u16(status).ok();
    match reason.and_then(|status| status.canonical_reason()) {
        Some(reason) => format!("{status} {reason}, without a word"),
        None => format!("{status}, without a word"),
    }
}
