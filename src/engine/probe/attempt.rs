//! One attempt at a point: sends its requests once and judges the answers.

use std::time::Duration;

use tokio::time::Instant;

use super::answer::ProbeOptions;
use super::counts::count_unreported;
use crate::boundary::{Cause, Verdict};
use crate::engine::adapter::RequestForm;
use crate::engine::facts::log;
use crate::engine::facts::queue::QueueMetrics;
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::health::state_after;
use crate::engine::lifecycle::prompts::prepare_prompts;
use crate::engine::lifecycle::requests::batch;
use crate::engine::lifecycle::server::TAIL;
use crate::engine::lifecycle::speed::MIN_TIMEOUT;
use crate::engine::lifecycle::state::{Health, Live, Running};
use crate::engine::verdict::failure::allocations;
use crate::engine::verdict::judge::{error_message, judge, succeeded};
use crate::engine::verdict::observation::{Judgement, Observation};
use crate::engine::wire::batch::STALL;
use crate::engine::wire::refusal::{Credentials, needs_key, refusal, remedy};
use crate::fault::{Fault, Result};
use crate::load::{FailureForm, PROBE_TOKEN, RequestRecord, check_in_flight};
use crate::run::{Allocation, Event, Limits};
use crate::runtime::{Exit, RuntimeKind};

/// The result of sending a point's requests once.
pub(crate) struct Attempt {
    pub(crate) answers: Vec<RequestRecord>,
    pub(crate) queue: QueueMetrics,
    pub(crate) exit: Option<Exit>,
    /// Whether the engine still serves; `None` if that was not checked.
    pub(crate) survived: Option<bool>,
    /// Failed GPU allocations.
    pub(crate) allocations: Vec<Allocation>,
    /// The end of the whole log; the last lines before a death may be older than the probe.
    pub(crate) ending: Vec<String>,
    /// Output length of a second attempt that kept requests in flight longer, if there was one.
    pub(crate) longer_output: Option<u64>,
    /// Whether the engine was paused during the attempt.
    pub(crate) paused: bool,
    pub(crate) judgement: Judgement,
    /// The judgement for the input length that the engine counted, if it is near the requested one.
    pub(crate) near: Option<Judgement>,
    /// Whether `judgement` is for that counted length.
    pub(crate) at_counted: bool,
    /// Path of the requests.
    pub(crate) path: String,
    /// Requests rejected in the whole probe, and the time spent waiting for the server.
    pub(crate) waited: Option<(u64, Duration)>,
}

impl Attempt {
    /// Requests that the server temporarily rejected.
    pub(crate) fn rejected(&self) -> impl Iterator<Item = &RequestRecord> {
        let rejects = |answer: &&RequestRecord| {
            let status = answer.failure().and_then(|failure| failure.form.status());
            matches!(status, Some(429 | 503))
        };
        self.answers.iter().filter(rejects)
    }

    /// The engine's health after the attempt. Uses the result of an earlier check, if there was one.
    pub(crate) fn health(&self) -> Health {
        match self.survived {
            Some(true) => Health::Good,
            Some(false) => Health::Lost,
            None => Health::after(self.answers.iter().all(succeeded)),
        }
    }

    /// Accepts the input length that the engine counted, if it is near the requested one.
    pub(crate) fn take_near(&mut self) {
        if let Some(near) = self.near.take() {
            self.judgement = near;
            self.at_counted = true;
            if let Some(input) = self.counted() {
                self.judgement
                    .add(&format!("measured at {input} input tokens by the engine's own count"));
            }
        }
    }

    /// The input for which the judgement holds, if it is not the requested one: with several requests the shortest
    /// that fits, or the longest that fails.
    pub(crate) fn counted(&self) -> Option<u64> {
        let inputs = || self.answers.iter().filter_map(|answer| answer.counts.input);
        let seen = match self.judgement.verdict {
            Verdict::Ok | Verdict::ShortOutput => inputs().min(),
            _ => inputs().max(),
        };
        self.judgement.counted.or(seen).filter(|_| self.at_counted)
    }

    /// True if the attempt says nothing about memory, because its requests were never all in flight at the same time.
    pub(crate) fn is_untested(&self) -> bool {
        self.judgement.verdict == Verdict::Error && self.judgement.cause == Some(Cause::NotResident)
    }
}

pub(crate) fn attempt(
    engine: &Engine,
    live: &mut Live,
    form: &RequestForm,
    requested: Limits,
    options: ProbeOptions,
) -> Result<Attempt> {
    prepare_prompts(engine, live, form)?;
    let timeout = request_timeout(engine, live, requested, options);
    let (Some(running), Some(prompting)) = (&live.running, &live.prompting) else {
        return Err(Fault::internal("a probe of an engine that does not run"));
    };
    check_in_flight(requested.concurrency, requested.input, PROBE_TOKEN)?;
    let prompts = prompting.make(form, requested.input, requested.concurrency)?;
    let batch = batch(running, form, &prompts, requested, timeout)?;
    let cursor = running.server.service.logs().cursor();
    let page = engine.page(running);
    let stall = options.stall.map_or(STALL, Duration::from_secs_f64);
    engine.context.run.note(Event::Sent {
        timeout: timeout.as_secs_f64(),
    })?;
    let sent = Instant::now();
    let (mut answers, queue) = engine.wait(batch.send(page.as_ref(), stall))?;
    let credentials = Credentials::new(running.key.as_ref(), running.server.base_url());
    if !running.server.ours() {
        require_reached(&answers, form, credentials)?;
    }
    count_unreported(engine, running, form, &prompts, &mut answers)?;
    let paused = engine.wait(running.server.service.was_paused(sent.elapsed()))?;
    let (exit, survived) = state_after(engine, running, &answers, false)?;
    let log = running.server.since(cursor);
    let ending = running.server.last(TAIL);
    let judged = |near| {
        let seen = Observation {
            requested,
            tolerance: options.output_tolerance.or(engine.options.output_tolerance),
            answers: &answers,
            exit: exit.as_ref(),
            survived,
            log: &log,
            queue: &queue,
            reported: &running.info.reported,
            prefill_budget: prefill_budget(engine, running),
            max_num_seqs: newest(running, "max_num_seqs"),
            simulated: running.info.simulated,
            path: &form.path,
            credentials,
            near,
        };
        judge(&engine.rules.failures, &seen)
    };
    let mut judgement = judged(false);
    let near = miscounted(&judgement)
        .then(|| judged(true))
        .filter(|near| !miscounted(near));
    if judgement.cause == Some(Cause::EndOfText)
        && let Some(why) = running.accepted.early_end(form)
    {
        judgement.add(&why);
        engine.warn("early_end", why)?;
    }
    if judgement.verdict == Verdict::Timeout {
        judgement.message = Some(format!("unfinished after {} s", timeout.as_secs_f64()));
    }
    if paused {
        judgement.add(PAUSED);
    }
    let allocations = if judgement.verdict == Verdict::Oom {
        allocations(answers.iter().filter_map(error_message).chain(&log))
    } else {
        Vec::new()
    };
    Ok(Attempt {
        answers,
        queue,
        exit,
        survived,
        allocations,
        ending,
        longer_output: None,
        paused,
        judgement,
        near,
        at_counted: false,
        path: form.path.clone(),
        waited: None,
    })
}

/// How long a request may take.
fn request_timeout(engine: &Engine, live: &Live, requested: Limits, options: ProbeOptions) -> Duration {
    match options.timeout.or(engine.options.request_timeout) {
        Some(seconds) => Duration::from_secs_f64(seconds),
        // A server that this program did not start may hang.
        None if engine.runtime == RuntimeKind::Attach && !live.speed.is_known() => Duration::from_secs_f64(MIN_TIMEOUT),
        None => live.speed.timeout(&requested),
    }
}

/// Fails if an attached server got no request of this point, or wants a key: neither says anything about the point.
fn require_reached(answers: &[RequestRecord], form: &RequestForm, credentials: Credentials) -> Result<()> {
    let mut failures = answers.iter().map(RequestRecord::failure);
    let first = failures.clone().next().flatten();
    if failures.all(|failure| failure.is_some_and(|failure| failure.form == FailureForm::Unreachable)) {
        let why = first.map_or("", |failure| &failure.message);
        return Err(Fault::missing(
            format!("the attached engine no longer accepts connections: {why}"),
            "start it again, and resume the run",
        ));
    }
    let Some(refused) = first.filter(|failure| needs_key(failure)) else {
        return Ok(());
    };
    let status = refused.form.status().unwrap_or_default();
    let refusal = refusal(refused, &form.path, credentials);
    Err(Fault::missing(
        format!("the server refused the request: {refusal}"),
        remedy(status, credentials).unwrap_or_default(),
    ))
}

/// Message for requests whose latencies are meaningless.
pub(crate) const PAUSED: &str = "the container was paused during the probe: its latencies are discarded";

/// Adapts the calibration to the engine's input count. Returns how many counts in a row were wrong.
pub(crate) fn adapt_calibration(live: &mut Live, form: &RequestForm, requested: Limits, attempt: &Attempt) -> u32 {
    let inputs = || attempt.answers.iter().filter_map(|answer| answer.counts.input);
    let other = || inputs().find(|input| *input != requested.input);
    let seen = if miscounted(&attempt.judgement) {
        attempt.judgement.counted.or_else(other)
    } else {
        inputs().next().filter(|_| other().is_none())
    };
    match (live.prompting.as_mut(), seen) {
        (Some(prompting), Some(seen)) => prompting.observe(form, requested.input, seen),
        _ => 0,
    }
}

fn miscounted(judgement: &Judgement) -> bool {
    judgement.cause == Some(Cause::InputCount)
}

/// The newest value of a fact that counts something.
pub(crate) fn newest(running: &Running, name: &str) -> Option<u64> {
    running.facts.iter().rfind(|fact| fact.name == name)?.value.as_u64()
}

/// The engine's prefill budget, in tokens per step: from its log, or its command line.
fn prefill_budget(engine: &Engine, running: &Running) -> Option<u64> {
    const FACT: &str = "max_num_batched_tokens";
    let logged = newest(running, FACT);
    let info = running.server.service.info();
    let command_line: Vec<String> = ["command", "args"]
        .into_iter()
        .filter_map(|key| info[key].as_array())
        .flatten()
        .filter_map(|word| Some(word.as_str()?.to_owned()))
        .collect();
    logged.or_else(|| log::find(&engine.rules.facts.log, &command_line).remove(FACT)?.as_u64())
}
