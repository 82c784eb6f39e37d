//! Tests one point on the engine: the options and the answer of a probe, as scripts, journal and reports see them. The answer
//! is journaled before anything else happens.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::facts::{self, REQUEST};
use super::failure::allocations;
use super::handle::{Ensured, Health, Live, Running};
use super::judge::{Judgement, Observation, error_message, judge, succeeded};
use super::limits::{MIN_TIMEOUT, StartFailure, StartHistory, bounds_report};
use super::memory::describe_memory;
use super::metrics::QueueMetrics;
use super::options::{some_seconds, wrong};
use super::patience::Patience;
use super::refusal::{Credentials, needs_key, refusal, remedy, wait_longer};
use super::residency::longer_output;
use super::send::{Batch, Prompting, STALL, origin};
use super::start::TAIL;
use super::{Engine, RequestForm, forms};
use crate::boundary::{BoundsReport, Cause, Overload, Point, Verdict};
use crate::fault::{Fault, Result};
use crate::fmt::Count;
use crate::load::{FailureForm, Record, Summary};
use crate::prompt::{Origin, PromptForm};
use crate::run::{Allocation, Event, Evidence, Limits, Operation, ProbeAnswer};
use crate::runtime::{Exit, RuntimeKind};
use crate::task::lock;
use crate::warning::Warning;

/// The coordinates of a point that an engine understands.
pub const COORDINATES: [&str; 3] = ["input", "output", "concurrency"];

/// Options of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeOptions {
    /// Timeout per request in seconds. Default: ten times the expected duration, at least a minute.
    pub timeout: Option<f64>,
    /// Seconds without running requests, while all unfinished requests are queued, after which they are cancelled.
    /// Default: 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<f64>,
    /// Retries after an early end of text or an overloaded engine.
    pub retries: u32,
    /// Missing output tokens that still count as `ok`.
    pub output_tolerance: u64,
    /// Whether `preempted` and `queued` count as fitting.
    pub overload: Overload,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            timeout: None,
            stall: None,
            retries: 3,
            output_tolerance: 0,
            overload: Overload::Fails,
        }
    }
}

impl ProbeOptions {
    pub(super) fn check(&self) -> Result<()> {
        some_seconds("timeout", self.timeout)?;
        some_seconds("stall", self.stall)
    }
}

/// The result of sending a point's requests once.
struct Attempt {
    answers: Vec<Record>,
    queue: QueueMetrics,
    exit: Option<Exit>,
    /// Whether the engine still serves; `None` if that was not checked.
    survived: Option<bool>,
    /// Failed GPU allocations.
    allocations: Vec<Allocation>,
    /// The end of the whole log; the last lines before a death may be older than the probe.
    ending: Vec<String>,
    /// Output tokens of a further attempt that kept requests in flight longer.
    longer_output: Option<u64>,
    /// Whether the engine stood still in the meantime.
    paused: bool,
    judgement: Judgement,
    /// The judgement of the length that the engine counted, if it is near the requested one.
    near: Option<Judgement>,
    /// Whether that is the judgement.
    at_counted: bool,
    /// Where the requests were sent.
    path: String,
    /// Of the whole probe: how many requests were rejected, and how long the server was waited for.
    waited: Option<(u64, Duration)>,
}

impl Attempt {
    /// Requests that the server rejected for now.
    fn rejected(&self) -> impl Iterator<Item = &Record> {
        let rejects = |answer: &&Record| {
            let status = answer.failure().and_then(|failure| failure.form.status());
            matches!(status, Some(429 | 503))
        };
        self.answers.iter().filter(rejects)
    }

    /// The engine's health; if its state was checked already, it need not be checked again.
    fn health(&self) -> Health {
        match self.survived {
            Some(true) => Health::Good,
            Some(false) => Health::Lost,
            None => Health::after(self.answers.iter().all(succeeded)),
        }
    }

    /// Takes the length that the engine counted for the requested one, if it is near.
    fn take_near(&mut self) {
        if let Some(near) = self.near.take() {
            self.judgement = near;
            self.at_counted = true;
            if let Some(input) = self.counted() {
                self.judgement.add(&format!(
                    "this holds for {input} tokens of input, as the engine counts them"
                ));
            }
        }
    }

    /// The input for which the judgement holds, if it is not the requested one: with several requests the shortest
    /// that fits, or the longest that fails.
    fn counted(&self) -> Option<u64> {
        let inputs = || self.answers.iter().filter_map(|answer| answer.counts.input);
        let seen = match self.judgement.verdict {
            Verdict::Ok | Verdict::ShortOutput => inputs().min(),
            _ => inputs().max(),
        };
        self.judgement.counted.or(seen).filter(|_| self.at_counted)
    }

    /// Whether it says nothing of memory, as not all requests were ever in flight at the same time.
    fn is_untested(&self) -> bool {
        self.judgement.verdict == Verdict::Error && self.judgement.cause == Some(Cause::NotResident)
    }
}

impl Engine {
    /// Tests one point: `#{ input, output, concurrency }`.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong point or option; `missing` for something that the engine needs. The engine's failures are
    /// verdicts, never errors.
    pub fn probe(&self, point: &Point, options: ProbeOptions) -> Result<Value> {
        options.check()?;
        let requested = Limits::of_point(point)?;
        if let Some(name) = point.0.keys().find(|name| !COORDINATES.contains(&name.as_str())) {
            return wrong(
                format!("a point of an engine has no `{name}`"),
                "a point is `#{ input: 512, output: 128, concurrency: 1 }`; what else varies belongs to the launch",
            );
        }
        if self.context.dry_run {
            return self.dry_run_probe(point, requested, options.overload);
        }
        let args = json!({ "engine": self.name(), "launch": self.shown, "point": point, "options": options });
        self.with_idle(|engine| {
            self.context.run.measure("probe", args, || {
                let answer = engine.probe_once(point, requested, options)?;
                Ok(Operation::Probe(Box::new(answer)))
            })
        })
    }

    fn probe_once(&self, point: &Point, requested: Limits, options: ProbeOptions) -> Result<ProbeAnswer> {
        let began = Instant::now();
        let mut live = self.lock();
        let tried = live.tried;
        self.load_tokenizer_early(&mut live, &self.request(point, None)?, requested)?;
        let mut answer = match self.ensure(&mut live, requested)? {
            Ensured::Failed(failure) => no_start(point, *failure),
            Ensured::Running(started) => {
                self.phase("probing", &point.to_string())?;
                let from = Instant::now();
                self.begin_requests(&mut live)?;
                let form = self.request(point, live.running.as_ref())?;
                let mut answer = self.probe_running(&mut live, &form, point, requested, options)?;
                answer.started = started;
                if self.runtime == RuntimeKind::Attach {
                    judge_server(&mut answer);
                    let unknown = matches!(answer.verdict, Verdict::Timeout | Verdict::Error);
                    // Before anything was measured, there is nothing to keep.
                    if answer.evidence.ended_server
                        && unknown
                        && options.timeout.is_none()
                        && !self.context.run.has_measured()
                    {
                        return Err(silent_server(&answer));
                    }
                }
                self.end_requests(&mut live, answer.verdict == Verdict::Ok)?;
                if let Some(sampler) = live.running.as_ref().and_then(|running| running.sampler.as_ref()) {
                    describe_memory(&mut answer, sampler, from.into_std());
                    self.show_memory(sampler)?;
                }
                answer
            }
        };
        answer.moves = answer.verdict.moves(answer.cause.as_ref(), options.overload);
        answer.starts = live.tried - tried;
        answer.seconds = began.elapsed().as_secs_f64();
        answer.gpus = self.gpu_count()?;
        answer.report = report(&live, &lock(&self.starts));
        Ok(answer)
    }

    /// Probes a running engine, retries where that makes sense, and keeps the best attempt.
    pub(super) fn probe_running(
        &self,
        live: &mut Live,
        form: &RequestForm,
        point: &Point,
        requested: Limits,
        options: ProbeOptions,
    ) -> Result<ProbeAnswer> {
        let mut best: Option<Attempt> = None;
        let (mut attempts, mut waits, mut rejected) = (0, 0, 0);
        let mut patience = self.patience();
        loop {
            attempts += 1;
            let attempt = self.attempt(live, form, requested, options)?;
            rejected += attempt.rejected().count() as u64;
            let waited = self.waited_for(&attempt, &mut patience)?;
            waits += u64::from(waited);
            let misses = adapt_calibration(live, form, requested, &attempt);
            // A count that differs from prompt to prompt does not become exact.
            let most = if attempt.near.is_some() { 1 } else { CORRECTIONS };
            let again = waited
                || (1..=most).contains(&misses)
                || (attempts - waits <= u64::from(options.retries) && worth_retrying(&attempt));
            live.health = attempt.health();
            let judged = attempt.near.as_ref().unwrap_or(&attempt.judgement);
            if let (Some(Cause::LengthLimit), Some(refusal), Some(running)) =
                (&judged.cause, &judged.line, &mut live.running)
            {
                running.info.reported.learn(&self.rules.failures, refusal);
            }
            let overloaded = attempt.judgement.cause == Some(Cause::Overloaded);
            if best
                .as_ref()
                .is_none_or(|best| produced(&attempt.answers) >= produced(&best.answers))
            {
                best = Some(attempt);
            }
            if !again {
                break;
            }
            if overloaded && !waited {
                self.context
                    .tasks
                    .sleep(Duration::from_millis(100 << (attempts - waits).min(6)))?;
            }
        }
        let mut best = best.ok_or_else(|| Fault::internal("a probe without an attempt"))?;
        if let Some(running) = live.running.as_mut().filter(|_| waits > 0) {
            self.count_rejected(running, rejected, patience.waited)?;
            best.waited = Some((rejected, patience.waited));
        }
        best.take_near();
        if best.is_untested() && options.overload == Overload::Fails {
            self.keep_in_flight(live, requested, options, &mut best)?;
        }
        if best.judgement.verdict == Verdict::Ok && !best.paused {
            for answer in &best.answers {
                let output = answer.counts.output.unwrap_or(requested.output);
                live.speed
                    .learn(&requested, answer.ttft_ms(answer.sent), answer.tpot_ms(output));
            }
        }
        let limits = live.running.as_ref().and_then(|running| running.limits);
        Ok(describe(point, requested, best, attempts, limits))
    }

    /// Waits as long as a server asks for that rejected requests. Where it served some, only once: a limit on how many run
    /// together would reject the others again.
    ///
    /// # Errors
    ///
    /// `missing` where a server that was attached to serves none until the time is over.
    fn waited_for(&self, attempt: &Attempt, patience: &mut Patience<'_>) -> Result<bool> {
        let asked = attempt.rejected().filter_map(|answer| answer.retry_after).max();
        let (Some(asked), Some(first)) = (asked, attempt.rejected().find_map(Record::failure)) else {
            return Ok(false);
        };
        let served = attempt.answers.iter().any(succeeded);
        if served && !patience.waited.is_zero() {
            return Ok(false);
        }
        let said = refusal(first, &attempt.path, Credentials::None);
        let waited = patience.wait(&said, Some(asked))?;
        if !waited && !served && self.runtime == RuntimeKind::Attach {
            let (asked, so_far) = (asked.as_secs_f64(), patience.waited.as_secs_f64());
            return Err(Fault::missing(
                format!("{said}; after {so_far:.0} s of waiting, the server asks for {asked:.0} s more"),
                format!(
                    "{}; then resume the run",
                    wait_longer(first.form.status().unwrap_or_default())
                ),
            ));
        }
        Ok(waited)
    }

    /// Counts the requests that the server rejected and that were sent again after it had been waited for.
    pub(super) fn count_rejected(&self, running: &mut Running, rejected: u64, waited: Duration) -> Result<()> {
        running.rejected += rejected;
        running.waited += waited;
        let (all, seconds) = (running.rejected, running.waited.as_secs_f64());
        let message = format!(
            "rate limit: the server rejected {} (status 429 or 503), sent again when it had said that they may come, after {seconds:.0} s in all",
            Count(usize::try_from(all).unwrap_or(usize::MAX), "request")
        );
        self.context
            .run
            .warn(Warning::new("rate_limited", message).sized(all as f64))
    }

    /// Sends the requests once more with a longer output, as far as the engine's limits allow, so that early ones do not end before late ones
    /// are admitted. That is harder than what was requested: it shows that all fit, or that so many more than ran do not.
    fn keep_in_flight(
        &self,
        live: &mut Live,
        requested: Limits,
        options: ProbeOptions,
        first: &mut Attempt,
    ) -> Result<()> {
        let running = live.running.as_ref();
        let longest = running.and_then(|running| match running.limits {
            Some(limits) => Some(limits.total),
            None => running.info.reported.max_model_len,
        });
        let longest = longest.map(|total| total.saturating_sub(requested.input));
        let Some(output) = longest.and_then(|longest| longer_output(&requested, &first.answers, longest)) else {
            return Ok(());
        };
        let longer = Limits::new(requested.input, output, requested.concurrency);
        let form = self.request(&longer.point()?, live.running.as_ref())?;
        // How much of it is produced does not matter.
        let options = ProbeOptions {
            output_tolerance: u64::MAX,
            ..options
        };
        let mut second = self.attempt(live, &form, longer, options)?;
        second.take_near();
        live.health = second.health();
        let total = |limits: Limits, concurrency| Limits { concurrency, ..limits }.resident();
        let so_many = |running: u64| total(longer, running + 1) <= requested.resident();
        let judged = &second.judgement;
        match judged.verdict {
            Verdict::Ok => {
                let all = requested.concurrency;
                let message = format!(
                    "all {all} ran together with {output} tokens of output; with less, early requests end first"
                );
                first.judgement = Judgement::ok(Some(message));
            }
            Verdict::Queued if judged.running.is_some_and(so_many) => first.judgement = second.judgement,
            _ if second.is_untested() => first.judgement = second.judgement,
            _ => {
                let why = judged.message.as_deref().unwrap_or_default();
                first.judgement.add(&format!("with {output} tokens of output: {why}"));
            }
        }
        first.queue = second.queue;
        first.longer_output = Some(output);
        Ok(())
    }

    /// The tokens of prompts that the engine reads in one step: from its log, or its command line.
    fn prefill_budget(&self, running: &Running) -> Option<u64> {
        const FACT: &str = "max_num_batched_tokens";
        let said = newest(running, FACT);
        let info = running.server.service.info();
        let words = ["command", "args"]
            .into_iter()
            .filter_map(|key| info[key].as_array())
            .flatten();
        let words: Vec<String> = words.filter_map(|word| Some(word.as_str()?.to_owned())).collect();
        said.or_else(|| facts::find(&self.rules.facts.log, &words).remove(FACT)?.as_u64())
    }

    /// Loads the tokenizer before the engine starts, if prompts need one in any case: a missing one is then reported at
    /// once instead of after a start of minutes.
    pub(super) fn load_tokenizer_early(&self, live: &mut Live, form: &RequestForm, requested: Limits) -> Result<()> {
        let text = form.prompt == PromptForm::Text && self.options.model.is_some();
        let needed = text || self.options.tokenizer.is_some();
        if !needed || self.runtime == RuntimeKind::Attach || live.prompting.is_some() {
            return Ok(());
        }
        // Missing permissions are reported before anything is downloaded.
        let launch = self.launch_for(requested)?;

        self.context
            .permits
            .check_launch(self.runtime, &launch, &self.origin()?)?;
        self.prepare_prompts(live, form)
    }

    /// Creates the prompt source on first use.
    pub(super) fn prepare_prompts(&self, live: &mut Live, form: &RequestForm) -> Result<()> {
        if live.prompting.is_none() {
            let vocabulary = live.running.as_ref().and_then(|running| running.info.vocabulary);
            let origin = origin(&self.options, self.runtime, form, vocabulary);
            let prompts = self.context.prompt_cache.prompts(&origin, self.context.seed);
            let prompting = live.prompting.insert(Prompting::new(self.wait(prompts)?));
            let counted = live.running.as_ref().and_then(|running| running.accepted.counted);
            let made_alike = form.prompt == PromptForm::Tokens || matches!(origin, Origin::Words(_));
            if let Some(counted) = counted.filter(|_| made_alike) {
                prompting.observe(form, forms::INPUT, counted);
            }
        }
        Ok(())
    }

    fn attempt(
        &self,
        live: &mut Live,
        form: &RequestForm,
        requested: Limits,
        options: ProbeOptions,
    ) -> Result<Attempt> {
        self.prepare_prompts(live, form)?;
        let timeout = match options.timeout.or(self.options.request_timeout) {
            Some(seconds) => Duration::from_secs_f64(seconds),
            // A server that nobody here started may hang.
            None if self.runtime == RuntimeKind::Attach && !live.speed.is_known() => {
                Duration::from_secs_f64(MIN_TIMEOUT)
            }
            None => live.speed.timeout(&requested),
        };
        let (Some(running), Some(prompting)) = (&live.running, &live.prompting) else {
            return Err(Fault::internal("a probe of an engine that does not run"));
        };
        let prompts = prompting.make(form, requested.input, requested.concurrency)?;
        let batch = Batch::new(running, form, &prompts, requested, timeout)?;
        let cursor = running.server.service.logs().cursor();
        let page = self.page(running);
        let stall = options.stall.map_or(STALL, Duration::from_secs_f64);
        self.context.run.note(Event::Sent {
            timeout: timeout.as_secs_f64(),
        })?;
        let sent = Instant::now();
        let (mut answers, queue) = self.wait(batch.send(page.as_ref(), stall))?;
        let failed = |answer: &Record| answer.failure().map(|failure| failure.form);
        let unsent = |answer: &Record| failed(answer) == Some(FailureForm::Unreachable);
        if !running.server.ours() && answers.iter().all(unsent) {
            // Nothing was requested of this point.
            let why = answers.iter().find_map(Record::failure).map(|failure| &failure.message);
            return Err(Fault::missing(
                format!(
                    "the attached engine no longer accepts connections: {}",
                    why.map_or("", String::as_str)
                ),
                "start it again, and resume the run",
            ));
        }
        let credentials = Credentials::new(running.key.as_ref(), running.server.base_url());
        let away = answers
            .first()
            .and_then(Record::failure)
            .filter(|failure| needs_key(failure));
        if let (false, Some(refused)) = (running.server.ours(), away) {
            let status = refused.form.status().unwrap_or_default();
            return Err(Fault::missing(
                format!(
                    "the server refused the request: {}",
                    refusal(refused, &form.path, credentials)
                ),
                remedy(status, credentials).unwrap_or_default(),
            ));
        }
        self.count_unreported(running, form, &prompts, &mut answers)?;
        let paused = self.wait(running.server.service.was_paused(sent.elapsed()))?;
        let (exit, survived) = self.state_after(running, &answers, false)?;
        let log = running.server.since(cursor);
        let ending = running.server.last(TAIL);
        let judged = |near| {
            let seen = Observation {
                requested,
                tolerance: options.output_tolerance.max(self.options.output_tolerance),
                answers: &answers,
                exit: exit.as_ref(),
                survived,
                log: &log,
                queue: &queue,
                reported: &running.info.reported,
                prefill_budget: self.prefill_budget(running),
                max_num_seqs: newest(running, "max_num_seqs"),
                simulated: running.info.simulated,
                path: &form.path,
                credentials,
                near,
            };
            judge(&self.rules.failures, &seen)
        };
        let mut judgement = judged(false);
        let near = miscounted(&judgement)
            .then(|| judged(true))
            .filter(|near| !miscounted(near));
        if judgement.cause == Some(Cause::EndOfText)
            && let Some(why) = running.accepted.early_end(form)
        {
            judgement.add(&why);
            self.warn("early_end", why)?;
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
}

/// Adapts the calibration to the engine's input count. Returns how many counts in a row were wrong.
fn adapt_calibration(live: &mut Live, form: &RequestForm, requested: Limits, attempt: &Attempt) -> u32 {
    let inputs = || attempt.answers.iter().filter_map(|answer| answer.counts.input);
    let other = || inputs().find(|input| *input != requested.input);
    let seen = match miscounted(&attempt.judgement) {
        true => attempt.judgement.counted.or_else(other),
        false => inputs().next().filter(|_| other().is_none()),
    };
    match (live.prompting.as_mut(), seen) {
        (Some(prompting), Some(seen)) => prompting.observe(form, requested.input, seen),
        _ => 0,
    }
}

fn miscounted(judgement: &Judgement) -> bool {
    judgement.cause == Some(Cause::InputCount)
}

/// Corrections of a prompt's length for one probe.
const CORRECTIONS: u32 = 4;

/// Said of requests whose times mean nothing.
pub(super) const PAUSED: &str = "the engine's container was paused in the meantime: times are not used";

/// An early end of text is random, and an overloaded engine may recover.
fn worth_retrying(attempt: &Attempt) -> bool {
    match attempt.judgement.verdict {
        Verdict::ShortOutput => attempt.judgement.cause == Some(Cause::EndOfText),
        Verdict::Error => attempt.judgement.cause == Some(Cause::Overloaded),
        _ => false,
    }
}

/// The minimum output over the requests.
fn produced(answers: &[Record]) -> Option<u64> {
    answers.iter().map(|answer| answer.counts.output).min().flatten()
}

/// The newest value of a fact that counts something.
fn newest(running: &Running, name: &str) -> Option<u64> {
    running.facts.iter().rfind(|fact| fact.name == name)?.value.as_u64()
}

/// The bounds reported by the running engine and by failed starts.
fn report(live: &Live, starts: &StartHistory) -> Option<BoundsReport> {
    let running = live.running.as_ref();
    let reported = running.map(|running| running.info.reported).unwrap_or_default();
    let block = running.and_then(|running| newest(running, "kv_block_tokens"));
    let attached = running.is_some_and(|running| !running.server.ours());
    bounds_report(&reported, block, starts, attached)
}

/// Judges the failure of a server that only its operator can start again.
fn judge_server(answer: &mut ProbeAnswer) {
    let died = answer.evidence.survived == Some(false);
    // One that still streams is slow.
    let silent = answer.verdict == Verdict::Timeout && answer.ttft_ms.is_none();
    answer.evidence.ended_server = died || silent;
    if died && answer.verdict == Verdict::Error {
        answer.cause = Some(Cause::Died);
    }
}

/// The error if a server that was attached to did not answer its first request.
fn silent_server(answer: &ProbeAnswer) -> Fault {
    let said = answer.evidence.message.as_deref().unwrap_or_default();
    Fault::missing(
        format!("the server did not finish its first request, {}: {said}", answer.point),
        match answer.verdict {
            Verdict::Timeout => {
                "see whether it hangs or still loads its model, and start it again; a slow one gets more time with `--set request_timeout=600`"
            }
            _ => "its own log says why; start it again, and ask for less, such as `--set input=[16,1024]`",
        },
    )
}

/// The answer if no start serves the point.
fn no_start(point: &Point, failure: StartFailure) -> ProbeAnswer {
    let verdict = match failure.evidence.reported {
        Some(_) => Verdict::NotSent,
        // A configured limit is no lack of memory: it clips the search range, whether a start or a request exceeds it.
        None if failure.cause == Cause::LengthLimit => Verdict::Refused,
        None => Verdict::StartFailed,
    };
    ProbeAnswer {
        verdict,
        cause: Some(failure.cause),
        evidence: failure.evidence,
        point: point.clone(),
        ..ProbeAnswer::default()
    }
}

fn describe(point: &Point, requested: Limits, attempt: Attempt, attempts: u64, limits: Option<Limits>) -> ProbeAnswer {
    let counted = attempt.counted();
    let Attempt {
        answers,
        judgement,
        exit,
        ..
    } = attempt;
    let timed = || answers.iter().filter(|_| !attempt.paused);
    let median =
        |figure: &dyn Fn(&Record) -> Option<f64>| Summary::from_values(timed().filter_map(figure).collect()).median;
    let evidence = Evidence {
        message: judgement.message,
        log: match judgement.line {
            Some(line) => vec![line],
            None if judgement.verdict == Verdict::Error || exit.is_some() => attempt.ending,
            None => Vec::new(),
        },
        phase: (judgement.verdict != Verdict::Ok).then(|| REQUEST.to_owned()),
        allocations: attempt.allocations,
        survived: attempt.survived,
        exit_code: exit.as_ref().and_then(|exit| exit.code),
        oom_killed: exit.map(|exit| exit.oom_killed),
        http_status: answers.iter().find_map(|answer| answer.failure()?.form.status()),
        finish: answers.iter().find_map(|answer| answer.finish.clone()),
        excess: answers
            .iter()
            .filter_map(|answer| answer.counts.output?.checked_sub(requested.output))
            .max()
            .filter(|excess| *excess > 0),
        completed: answers.iter().filter(|answer| succeeded(answer)).count() as u64,
        counted,
        longer_output: attempt.longer_output,
        issued: answers.len() as u64,
        attempts,
        rejected: attempt.waited.map(|(rejected, _)| rejected),
        waited: attempt.waited.map(|(_, waited)| waited.as_secs_f64()),
        queue: attempt.queue.peaks(),
        limits,
        ..Evidence::default()
    };
    let gaps: Vec<f64> = timed()
        .flat_map(|answer| &answer.itl_ms)
        .map(|gap| f64::from(*gap))
        .collect();
    ProbeAnswer {
        verdict: judgement.verdict,
        cause: judgement.cause,
        counted: counted.map(|input| Point::default().with("input", i64::try_from(input).unwrap_or(i64::MAX))),
        evidence,
        input: answers.iter().map(|answer| answer.counts.input).min().flatten(),
        output: produced(&answers),
        ttft_ms: median(&|answer| answer.ttft_ms(answer.sent)),
        tpot_ms: median(&|answer| answer.tpot_ms(answer.counts.output?)),
        itl_ms: Summary::from_values(gaps).median,
        e2el_ms: median(&|answer| answer.e2el_ms(answer.sent)),
        point: point.clone(),
        ..ProbeAnswer::default()
    }
}
