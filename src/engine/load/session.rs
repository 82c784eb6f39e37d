//! One load made ready, and each time that it is done.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::beside::METRICS_HZ;
use super::conduct::{Conducted, Orders, Signal};
use super::feed::Feed;
use super::keep::Keep;
use super::larder::{Cook, Larder};
use super::material::Material;
use super::options::{LoadOptions, time};
use crate::engine::fire::STALL;
use crate::engine::handle::{Live, Running};
use crate::engine::{Engine, Limits, RequestForm, Wire, protocol};
use crate::fault::{Fault, Result};
use crate::load::joined::Seen;
use crate::load::plan::{Arrivals, Corpus, Course, End, Plan, Schedule, Warmup};
use crate::load::{Drive, Record, Slots, Step, Watch};
use crate::prompt::Prompts;

/// Adapter's forms that are remembered, by their lengths.
const FORMS: usize = 4096;

/// Tokens of answers up to which their texts are kept, to be counted by the tokenizer: some 20 MB.
const MOST_TEXT: u64 = 4 << 20;

/// A load made ready.
pub(super) struct Session {
    pub(super) plan: Arc<Plan>,
    /// The load of the run that it is, from 1.
    pub(super) number: u64,
    pub(super) seed: u64,
    url: String,
    form: RequestForm,
    pub(super) model: Option<String>,
    pub(super) corpus: Option<Arc<Corpus>>,
    make: Arc<dyn Fn(u64) -> Result<Wire> + Send + Sync>,
    /// The tokenizer that answers are counted with, where they are.
    prompts: Option<Arc<Prompts>>,
    timeout: Duration,
    stall: Duration,
    metrics_hz: f64,
    pub(super) max_concurrency: Option<u64>,
}

/// A load that was done once.
#[derive(Default)]
pub(super) struct Repeat {
    /// Which time it was, from 1.
    pub(super) number: u64,
    pub(super) seed: u64,
    /// When the load's clock began.
    pub(super) began: Option<SystemTime>,
    pub(super) records: Vec<Record>,
    /// Where they are kept.
    pub(super) file: Option<PathBuf>,
    /// Tokens of answers by the tokenizer, by the index of the request.
    pub(super) tokenized: HashMap<u64, u64>,
    /// When the measured part began; none where the load ended within its warm-up.
    pub(super) from: Option<Duration>,
    /// When it was over.
    pub(super) to: Duration,
    /// How the client fared; of several put together, none.
    pub(super) watch: Option<Watch>,
    pub(super) seen: Seen,
    pub(super) end: End,
    /// Half the width of the interval that `precision` watches, at the last look.
    pub(super) width: Option<f64>,
    /// The engine was seen to be dead.
    pub(super) died: bool,
    /// Why it was given up, if it was.
    pub(super) given_up: Option<String>,
    /// It is several, put together.
    pub(super) pooled: bool,
}

impl Engine {
    /// Makes a load ready for an engine that runs.
    pub(super) fn session(
        &self,
        live: &Live,
        options: &LoadOptions,
        material: &Material,
        form: RequestForm,
        asked: Limits,
        number: u64,
    ) -> Result<Session> {
        let (Some(running), Some(prompting)) = (&live.running, &live.prompting) else {
            return Err(Fault::internal("a load on an engine that does not run"));
        };
        let plan = Arc::new(material.plan(options, Some(prompting.prompts()))?);
        let shared_prefix = options.shared_prefix.unwrap_or(0);
        let shortest = plan.sizes.shortest(&plan.arrivals);
        if shared_prefix > 0 && shared_prefix >= shortest {
            return Err(Fault::usage(format!(
                "`shared_prefix` of {shared_prefix} tokens leaves nothing of a prompt of {shortest} to differ"
            ))
            .hint(format!("at most {}", shortest.saturating_sub(1))));
        }
        let answers = plan.stop.requests.map(|requests| requests.saturating_mul(asked.output));
        let counted = prompting.prompts().has_tokenizer() && answers.is_some_and(|tokens| tokens <= MOST_TEXT);
        Ok(Session {
            number,
            seed: options.seed.unwrap_or(self.context.seed),
            url: running.server.url(&form.path)?,
            model: running.info.model.clone(),
            corpus: material.corpus.clone(),
            make: Arc::new(prompting.maker(&form, shared_prefix)),
            prompts: counted.then(|| prompting.shared()),
            timeout: match options.timeout {
                Some(seconds) => time("timeout", seconds)?,
                None => live.pace.timeout(&asked),
            },
            stall: options.stall.map_or(Ok(STALL), |seconds| time("stall", seconds))?,
            metrics_hz: options.metrics_hz.unwrap_or(METRICS_HZ),
            max_concurrency: options.max_concurrency,
            plan,
            form,
        })
    }

    /// Does it once. Of written prompts, number `offset` comes first.
    pub(super) fn once(&self, running: &Running, session: &Session, repeat: u64, offset: usize) -> Result<Repeat> {
        let plan = &session.plan;
        let seed = session.seed.wrapping_add(repeat - 1);
        let (signal, signals) = unbounded_channel();
        let name = format!("{}.jsonl", session.number);
        let kept = self.context.run.append("loads", &name)?;
        let path = kept.as_ref().map(|(path, _)| path.clone());
        let keep = Keep::new(kept, repeat);
        let beside = self.look_beside(running, session.metrics_hz)?;
        let course = Course::new(Arc::clone(plan));
        let larder = Larder::open(
            Schedule::new(Arc::clone(plan), seed, offset),
            &session.cook(signal.clone()),
        );
        let feed = Arc::new(Feed::new(larder, course, keep, signal, session.timeout));
        let (drive, lasts) = session.drive();
        let limit = drive.limit;
        let Conducted { driven, died } = self.conduct(
            running,
            &beside,
            Orders {
                url: session.url.clone(),
                drive,
                feed: Arc::clone(&feed),
                signals,
                lasts,
                expected: session.expected(),
                stall: session.stall,
            },
        )?;
        if let Some(fault) = feed.failed() {
            return Err(fault);
        }
        let seen = self.seen_beside(beside, running, driven.clock.began)?;
        let course = feed.course();
        let mut records = driven.records;
        for record in &mut records {
            record.warmup = course.is_warmup(record.index);
        }
        let tokenized = session.tokenized(&mut records)?;
        let given_up = feed.given_up();
        let end = if died {
            End::Died
        } else if given_up.is_some() {
            End::GivenUp
        } else {
            match course.end(records.len() as u64) {
                End::Duration if session.ends_with_steps(limit) => End::Arrivals,
                end => end,
            }
        };
        Ok(Repeat {
            number: repeat,
            seed,
            began: Some(driven.clock.unix),
            file: path,
            tokenized,
            from: course.handed_over(),
            to: driven.duration,
            watch: Some(driven.watch),
            seen,
            end,
            width: course.width(),
            died,
            given_up,
            pooled: false,
            records,
        })
    }
}

impl Session {
    /// How the client is to go about it, and how long after the hand-over it ends, where that moment is not known beforehand.
    fn drive(&self) -> (Drive, Option<Duration>) {
        let Plan {
            arrivals, warmup, stop, ..
        } = &*self.plan;
        let slots = match arrivals {
            Arrivals::Closed { concurrency, ramp } => Slots::Closed {
                concurrency: *concurrency,
                ramp: *ramp,
            },
            Arrivals::ClosedSteps(steps) => {
                let mut begins = Duration::ZERO;
                let steps = steps.iter().map(|(concurrency, lasts)| {
                    let step = Step {
                        begins,
                        concurrency: *concurrency,
                    };
                    begins += *lasts;
                    step
                });
                Slots::Steps(steps.collect())
            }
            Arrivals::Open { .. } | Arrivals::Replay(_) => Slots::Open {
                at_most: self.max_concurrency,
                expected: self.max_concurrency.unwrap_or(u64::MAX).min(arrivals.expected()),
            },
        };
        let begins = match warmup {
            Warmup::None => Some(Duration::ZERO),
            Warmup::Time(time) if arrivals.by_clock() => Some(*time),
            Warmup::Requests(_) | Warmup::Time(_) => None,
        };
        let cut = stop.duration.zip(begins).map(|(lasts, begins)| begins + lasts);
        let steps = match arrivals {
            Arrivals::ClosedSteps(_) => arrivals.length(),
            _ => None,
        };
        // At the end of steps what is under way ends; at the end of the duration it is cut off.
        let (limit, grace) = match (steps, cut) {
            (Some(steps), Some(cut)) if steps < cut => (Some(steps), cut - steps),
            (Some(steps), None) => (Some(steps), self.timeout),
            (_, cut) => (cut, Duration::ZERO),
        };
        let drive = Drive {
            slots,
            limit,
            grace,
            keep_text: self.prompts.is_some(),
            cut: CancellationToken::new(),
        };
        (drive, stop.duration.filter(|_| begins.is_none()))
    }

    fn ends_with_steps(&self, limit: Option<Duration>) -> bool {
        matches!(self.plan.arrivals, Arrivals::ClosedSteps(_)) && limit == self.plan.arrivals.length()
    }

    /// Requests in all, where that is known beforehand.
    fn expected(&self) -> Option<u64> {
        let warmup = match self.plan.warmup {
            Warmup::None => 0,
            Warmup::Requests(requests) => requests,
            Warmup::Time(_) => return None,
        };
        match (&self.plan.arrivals, self.plan.stop.requests) {
            (_, Some(requests)) => Some(requests + warmup),
            (Arrivals::Replay(trace), None) => Some(trace.arrivals().len() as u64),
            _ => None,
        }
    }

    /// Makes bodies, asking the script's thread for forms that are not known yet.
    fn cook(&self, signal: UnboundedSender<Signal>) -> Cook {
        let forms = Mutex::new(HashMap::new());
        let (make, corpus, model) = (Arc::clone(&self.make), self.corpus.clone(), self.model.clone());
        let path = self.form.path.clone();
        Arc::new(move |request| {
            let lengths = (request.input, request.output);
            let locked = || forms.lock().unwrap_or_else(PoisonError::into_inner);
            let known: Option<Arc<RequestForm>> = locked().get(&lengths).cloned();
            let form = match known {
                Some(form) => form,
                None => {
                    let form = Arc::new(ask_form(&signal, lengths)?);
                    if form.path != path {
                        return Err(Fault::usage(format!(
                            "`request(point)` of the adapter gives the path `{}` for one length and `{path}` for another",
                            form.path
                        ))
                        .hint("a load has one address"));
                    }
                    let mut forms = locked();
                    if forms.len() >= FORMS {
                        forms.clear();
                    }
                    forms.insert(lengths, Arc::clone(&form));
                    form
                }
            };
            let written = request.written.zip(corpus.as_ref());
            let prompt = match written.and_then(|(number, corpus)| corpus.prompts().get(number)) {
                Some(written) => Wire::Text(written.prompt.clone()),
                None => make(request.input)?,
            };
            Ok((protocol::body(&form, &prompt, model.as_deref())?, form.protocol))
        })
    }

    /// Counts the texts of answers, and lets go of them.
    fn tokenized(&self, records: &mut [Record]) -> Result<HashMap<u64, u64>> {
        let mut tokenized = HashMap::new();
        let Some(prompts) = &self.prompts else {
            return Ok(tokenized);
        };
        for record in records {
            let text = record.text.take();
            if let Some(tokens) = text.and_then(|text| prompts.count_generated(&text)) {
                tokenized.insert(record.index, tokens? as u64);
            }
        }
        Ok(tokenized)
    }
}

/// Asks the script's thread.
fn ask_form(signal: &UnboundedSender<Signal>, (input, output): (u64, u64)) -> Result<RequestForm> {
    let (reply, answer) = std::sync::mpsc::sync_channel(1);
    let gone = || Fault::interrupted();
    signal.send(Signal::Form(input, output, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}
