//! Probing: one point is put to the engine, and the answer is kept before anything else happens.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::allocation::allocations;
use super::answer::{Evidence, ProbeAnswer};
use super::ask_options::ProbeOptions;
use super::failure::Exit;
use super::fire::{STALL, fire};
use super::handle::{Ensured, Live, Running, Trust};
use super::judge::{Judgement, Seen, clean, complaint, judge};
use super::memory::stretch;
use super::plan::StartFailure;
use super::progress::REQUEST;
use super::prompting::{Prompting, origin};
use super::queue::Queue;
use super::start::{TAIL, plain};
use super::{Allocation, Engine, Limits, Report, RequestForm, protocol};
use crate::boundary::{Point, Verdict};
use crate::fault::{Fault, Result};
use crate::load::{Answer, Ask, End, Summary};
use crate::prompt::PromptForm;
use crate::run::Event;
use crate::runtime::RuntimeKind;

/// What an engine is asked for.
const COORDINATES: [&str; 3] = ["input", "output", "concurrency"];

/// What came of sending a point once.
struct Attempt {
    answers: Vec<Answer>,
    queue: Queue,
    exit: Option<Exit>,
    /// Whether the engine served again, where that was looked at.
    survived: Option<bool>,
    /// Allocations that failed on a GPU.
    allocations: Vec<Allocation>,
    /// The end of the whole log: the last words before a death may be older than the probe.
    ending: Vec<String>,
    judgement: Judgement,
}

impl Engine {
    /// Puts one point to the engine: `#{ input, output, concurrency }`.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong point or option; `missing` when something that the engine needs is not there. What the engine does is
    /// never an error but a verdict.
    pub fn probe(&self, point: &Point, options: ProbeOptions) -> Result<Value> {
        options.check()?;
        let asked = Limits::of_point(point)?;
        if let Some(name) = point.0.keys().find(|name| !COORDINATES.contains(&name.as_str())) {
            return Err(Fault::usage(format!("an engine cannot be asked for `{name}`")).hint(
                "a point is `#{ input: 512, output: 128, concurrency: 1 }`; what else varies belongs to the launch",
            ));
        }
        if self.context.dry_run {
            return self.rehearse(point, asked, options.overload);
        }
        let args = json!({ "engine": self.name(), "launch": self.options.shown(), "point": point, "options": options });
        if let Some(answer) = self.context.run.replay("probe", &args) {
            return Ok(answer);
        }
        self.context.run.note(Event::Began {
            kind: "probe".into(),
            args: args.clone(),
        })?;
        let begun = Instant::now();
        let mut live = self.lock();
        let tried = live.tried;
        self.prepare_early(&mut live, &self.adapter.request(point, None)?, asked)?;
        let mut answer = match self.ensure(&mut live, asked)? {
            Ensured::Failed(failure) => unstarted(point, *failure),
            Ensured::Running(started) => {
                self.phase("probing", &point.to_string())?;
                let from = Instant::now();
                self.begin_requests(&mut live)?;
                let limits = live.running.as_ref().and_then(|running| running.limits);
                let form = self.adapter.request(point, limits.as_ref())?;
                let mut answer = self.put(&mut live, &form, point, asked, options)?;
                answer.started = started;
                self.end_requests(&mut live, answer.verdict == Verdict::Ok)?;
                if let Some(sampler) = live.running.as_ref().and_then(|running| running.sampler.as_ref()) {
                    let seen = stretch(sampler, from, Instant::now());
                    self.show_memory(sampler)?;
                    answer.peak = seen.peak;
                    answer.evidence.memory = seen.last;
                    answer.series = seen.series;
                }
                answer
            }
        };
        answer.moves = answer.verdict.moves(answer.cause.as_deref(), options.overload);
        answer.starts = live.tried - tried;
        answer.seconds = begun.elapsed().as_secs_f64();
        answer.gpus = self.gpu_count()?;
        answer.report = report(&live);
        let answer = serde_json::to_value(&answer).map_err(|error| Fault::internal(error.to_string()))?;
        self.context.run.note(Event::Done {
            kind: "probe".into(),
            args,
            answer: answer.clone(),
        })?;
        Ok(answer)
    }

    /// Asks a running engine, again where that makes sense, and keeps the best answer.
    pub(super) fn put(
        &self,
        live: &mut Live,
        form: &RequestForm,
        point: &Point,
        asked: Limits,
        options: ProbeOptions,
    ) -> Result<ProbeAnswer> {
        let mut best: Option<Attempt> = None;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let attempt = self.attempt(live, form, asked, options)?;
            let recount = attempt.judgement.cause.as_deref() == Some("input_count")
                && self.recount(live, form, asked, &attempt)?;
            let again = recount || (attempts <= u64::from(options.retries) && worth_repeating(&attempt));
            // What was looked at need not be looked at twice.
            live.trust = match attempt.survived {
                Some(true) => Trust::Good,
                Some(false) => Trust::Lost,
                None => Trust::after(attempt.answers.iter().all(clean)),
            };
            let overloaded = attempt.judgement.cause.as_deref() == Some("overloaded");
            if best.as_ref().is_none_or(|best| produced(&attempt) >= produced(best)) {
                best = Some(attempt);
            }
            if !again {
                break;
            }
            if overloaded {
                self.context
                    .tasks
                    .sleep(Duration::from_millis(100 << attempts.min(6)))?;
            }
        }
        let best = best.ok_or_else(|| Fault::internal("a probe without an attempt"))?;
        if best.judgement.verdict == Verdict::Ok {
            for answer in &best.answers {
                let output = answer.counts.output.unwrap_or(asked.output);
                live.pace
                    .learn(&asked, answer.timing.ttft_ms(), answer.timing.tpot_ms(output));
            }
        }
        let limits = live.running.as_ref().and_then(|running| running.limits);
        Ok(describe(point, asked, best, attempts, limits))
    }

    /// Learns from a count of the input that is not the one asked; true where asking again will help.
    fn recount(&self, live: &mut Live, form: &RequestForm, asked: Limits, attempt: &Attempt) -> Result<bool> {
        let mut answered = attempt.answers.iter().filter_map(|answer| answer.counts.input);
        let seen = attempt
            .judgement
            .counted
            .or_else(|| answered.find(|input| *input != asked.input));
        match (live.prompting.as_mut(), seen) {
            // A count that does not settle is no reason to end the script: the judgement says what is wrong.
            (Some(prompting), Some(seen)) => Ok(prompting.observe(form, asked.input, seen).is_ok()),
            _ => Ok(false),
        }
    }

    /// Loads the tokenizer before the engine starts, where prompts need one whatever the engine tells: that it is not there is
    /// better learnt now than after a start of minutes.
    pub(super) fn prepare_early(&self, live: &mut Live, form: &RequestForm, asked: Limits) -> Result<()> {
        let text = form.prompt == PromptForm::Text && self.options.model.is_some();
        let needed = text || self.options.tokenizer.is_some();
        if !needed || self.runtime == RuntimeKind::Attach || live.prompting.is_some() {
            return Ok(());
        }
        // What the user did not allow is told before anything is fetched.
        let launch = self.adapter.launch(&self.adapter_options(Some(self.whole(asked))))?;
        self.context.permits.check_launch(self.runtime, &launch, false)?;
        self.prepare_prompts(live, form)
    }

    /// Finds out what prompts for this engine come from, when it is first asked.
    pub(super) fn prepare_prompts(&self, live: &mut Live, form: &RequestForm) -> Result<()> {
        if live.prompting.is_none() {
            let told = live.running.as_ref().and_then(|running| running.info.vocabulary);
            let origin = origin(&self.options, self.runtime, form, told);
            let prompts = self.context.shelf.prompts(&origin, self.context.seed);
            live.prompting = Some(Prompting::new(self.context.tasks.wait(prompts)?));
        }
        Ok(())
    }

    fn attempt(&self, live: &mut Live, form: &RequestForm, asked: Limits, options: ProbeOptions) -> Result<Attempt> {
        self.prepare_prompts(live, form)?;
        let timeout = options
            .timeout
            .map_or_else(|| live.pace.timeout(&asked), Duration::from_secs_f64);
        let (Some(running), Some(prompting)) = (&live.running, &live.prompting) else {
            return Err(Fault::internal("a probe of an engine that does not run"));
        };
        let requests = prompting
            .make(form, asked.input, asked.concurrency)?
            .iter()
            .map(|prompt| {
                let ask = Ask {
                    url: running.server.url(&form.path)?,
                    body: protocol::body(form, prompt, running.info.model.as_deref())?,
                    timeout,
                };
                Ok((ask, protocol::decoder(form.protocol)))
            })
            .collect::<Result<Vec<_>>>()?;
        let cursor = running.server.cursor();
        let page = self.page(running);
        let stall = options.stall.map_or(STALL, Duration::from_secs_f64);
        let (answers, queue) = self
            .context
            .tasks
            .wait(fire(&self.client, requests, page.as_ref(), stall))?;
        let (exit, survived) = self.aftermath(running, &answers)?;
        let log = plain(running.server.since(cursor));
        let ending = plain(running.server.last(TAIL));
        let judgement = judge(
            &self.rules.failures,
            &Seen {
                asked,
                tolerance: options.output_tolerance,
                answers: &answers,
                exit,
                survived,
                log: &log,
                queue: &queue,
                reported: &running.info.reported,
            },
        );
        let allocations = if judgement.verdict == Verdict::Oom {
            allocations(answers.iter().filter_map(complaint).chain(&log))
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
            judgement,
        })
    }
}

impl Engine {
    /// How the engine ended over these requests, if it did, and whether it serves on: looked at where a request failed for more than its size.
    fn aftermath(&self, running: &Running, answers: &[Answer]) -> Result<(Option<Exit>, Option<bool>)> {
        let exit = self.context.tasks.wait(death(running, answers))?;
        if exit.is_some() {
            return Ok((exit, Some(false)));
        }
        if !answers.iter().any(hurt) {
            return Ok((None, None));
        }
        let survived = self.recovers(running)?;
        // Engines report an error first and end a moment later.
        let exit = if survived {
            None
        } else {
            self.context.tasks.wait(running.server.exit())?
        };
        Ok((exit, Some(survived)))
    }
}

/// Whether a request failed in a way that may have hurt the engine.
fn hurt(answer: &Answer) -> bool {
    answer.error.is_some()
        || match &answer.end {
            // TGI says 424 where others say 500.
            End::Status(status, _) => *status >= 500 || *status == 424,
            End::Broken(_) | End::Unreachable(_) => true,
            End::Complete | End::Deadline | End::GivenUp | End::Malformed(_) => false,
        }
}

/// How the engine ended, if it did: looked at only when a request failed, and waited for when its connection broke.
async fn death(running: &Running, answers: &[Answer]) -> Result<Option<Exit>> {
    if answers.iter().all(clean) {
        return Ok(None);
    }
    let broken = answers
        .iter()
        .any(|answer| matches!(answer.end, End::Broken(_) | End::Unreachable(_)));
    running.server.ended(broken).await
}

/// An early end of text differs from try to try, and an overloaded engine may be free a moment later.
fn worth_repeating(attempt: &Attempt) -> bool {
    match attempt.judgement.verdict {
        Verdict::ShortOutput => attempt.judgement.cause.as_deref() == Some("end_of_text"),
        Verdict::Error => attempt.judgement.cause.as_deref() == Some("overloaded"),
        _ => false,
    }
}

/// The fewest tokens of the requests.
fn produced(attempt: &Attempt) -> Option<u64> {
    attempt
        .answers
        .iter()
        .map(|answer| answer.counts.output)
        .min()
        .flatten()
}

/// What the engine that runs reports of its bounds, and starts that failed did.
fn report(live: &Live) -> Option<Report> {
    let running = live.running.as_ref();
    let reported = running.map(|running| running.info.reported).unwrap_or_default();
    let block = running.and_then(|running| {
        let told = running.told.iter().find(|told| told.name == "kv_block_tokens");
        told.and_then(|told| told.value.as_u64())
    });
    Report::new(&reported, block, live.starts.estimate())
}

/// The answer where no start serves the point.
fn unstarted(point: &Point, failure: StartFailure) -> ProbeAnswer {
    // A limit that was configured is no lack of memory: it clips the box, whether a start or a request runs into it.
    let verdict = if failure.cause == "length_limit" {
        Verdict::Refused
    } else {
        Verdict::StartFailed
    };
    ProbeAnswer {
        verdict,
        cause: Some(failure.cause),
        evidence: failure.evidence,
        ..ProbeAnswer::empty(point)
    }
}

fn describe(point: &Point, asked: Limits, attempt: Attempt, attempts: u64, limits: Option<Limits>) -> ProbeAnswer {
    let Attempt {
        answers,
        queue,
        exit,
        survived,
        allocations,
        ending,
        judgement,
    } = attempt;
    let output = answers.iter().map(|answer| answer.counts.output).min().flatten();
    let median =
        |figure: &dyn Fn(&Answer) -> Option<f64>| Summary::of(answers.iter().filter_map(figure).collect()).median;
    let evidence = Evidence {
        message: judgement.message,
        log: match judgement.line {
            Some(line) => vec![line],
            None if judgement.verdict == Verdict::Error || exit.is_some() => ending,
            None => Vec::new(),
        },
        phase: (judgement.verdict != Verdict::Ok).then(|| REQUEST.to_owned()),
        allocations,
        survived,
        exit_code: exit.and_then(|exit| exit.code),
        oom_killed: exit.map(|exit| exit.oom_killed),
        http_status: answers.iter().find_map(|answer| match answer.end {
            End::Status(status, _) => Some(status),
            _ => None,
        }),
        finish: answers.iter().find_map(|answer| answer.finish.clone()),
        excess: answers
            .iter()
            .filter_map(|answer| answer.counts.output?.checked_sub(asked.output))
            .max()
            .filter(|excess| *excess > 0),
        completed: answers.iter().filter(|answer| clean(answer)).count() as u64,
        issued: answers.len() as u64,
        attempts,
        queue: queue.seen(),
        limits,
        ..Evidence::default()
    };
    let gaps: Vec<f64> = answers
        .iter()
        .flat_map(|answer| answer.timing.gaps_ms())
        .map(|gap| f64::from(*gap))
        .collect();
    ProbeAnswer {
        verdict: judgement.verdict,
        cause: judgement.cause,
        evidence,
        input: answers.iter().map(|answer| answer.counts.input).min().flatten(),
        output,
        ttft_ms: median(&|answer| answer.timing.ttft_ms()),
        tpot_ms: median(&|answer| answer.timing.tpot_ms(answer.counts.output?)),
        itl_ms: Summary::of(gaps).median,
        e2el_ms: median(&|answer| answer.timing.e2el_ms()),
        ..ProbeAnswer::empty(point)
    }
}
