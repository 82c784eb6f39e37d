//! Prepares a load from its options, input files (trace, prompts) and a running engine, and runs one repeat of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::client::{BodyBuilder, Feed, ModelClock, Signal};
use super::monitor::METRICS_HZ;
use super::options::LoadOptions;
use crate::engine::handle::{Live, Running};
use crate::engine::options::{seconds, wrong};
use crate::engine::send::STALL;
use crate::engine::{Engine, Limits, Protocol, RequestForm, protocol};
use crate::fault::{Fault, Result};
use crate::load::engine_side::Observations;
use crate::load::plan::{
    Arrivals, EndReason, FilePrompt, Length, LoadProgress, Plan, Schedule, Sizes, Warmup, read_prompts, read_trace,
};
use crate::load::stats::ClientStats;
use crate::load::{LoadConfig, Record, Slots, Step};
use crate::prompt::{Content, Prompts};
use crate::runtime::Permits;
use crate::task::lock;

/// Upper estimate of the tokens that a chat template adds to a prompt.
const TEMPLATE: u64 = 256;

/// What a load is made of: its options, and the arrivals and prompts that they give or name.
pub(super) struct LoadInputs {
    pub(super) options: LoadOptions,
    pub(super) arrivals: Arrivals,
    pub(super) corpus: Option<Arc<Vec<FilePrompt>>>,
}

impl LoadInputs {
    /// Reads the files that the options name.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a file that the user did not name; `usage` for a missing or malformed file.
    pub(super) fn read(options: &LoadOptions, permits: &Permits) -> Result<Self> {
        fn parsed<T>(name: &str, text: &str, parse: fn(&str) -> Result<T>) -> Result<T> {
            parse(text).map_err(|fault| fault.while_doing(format!("`{name}`")))
        }
        let text = |name: &str, option| permits.read_file(Path::new(name), option);
        let trace = options.trace.as_deref();
        let trace = trace
            .map(|name| parsed(name, &text(name, "trace")?, read_trace))
            .transpose()?;
        let corpus = options.prompts.as_deref();
        let corpus = corpus
            .map(|name| parsed(name, &text(name, "prompts")?, read_prompts))
            .transpose()?;
        if let Some(corpus) = &corpus
            && options.output.is_none()
            && let Some(place) = corpus.iter().position(|written| written.output.is_none())
        {
            return wrong(
                format!("prompt {} of the file does not say how long its answer is", place + 1),
                "give `output`, or `output` with each prompt",
            );
        }
        Ok(Self {
            options: options.clone(),
            arrivals: options.arrivals(trace)?,
            corpus: corpus.map(Arc::new),
        })
    }

    /// The limits that an engine must be started with. Counts the prompts of a file if `prompts` has a tokenizer.
    pub(super) fn limits(&self, prompts: Option<&Prompts>, protocol: Protocol) -> Result<Limits> {
        let (mut input, output, mut total) = self.sizes(prompts)?.largest();
        if let Some(corpus) = &self.corpus {
            // A token of text has at least one byte.
            let bytes = || corpus.iter().map(|written| written.prompt.len() as u64).max();
            let counted = Some(input).filter(|input| *input > 0);
            let given = self.options.input.map(|length| length.bounds().1);
            let template = if protocol == Protocol::OpenaiChat { TEMPLATE } else { 0 };
            input = given.or(counted).or_else(bytes).unwrap_or(1) + template;
            total = input.saturating_add(output);
        }
        Ok(Limits {
            input,
            output,
            total,
            concurrency: self.options.planned_concurrency(&self.arrivals),
        })
    }

    fn sizes(&self, prompts: Option<&Prompts>) -> Result<Sizes> {
        let missing = |name: &str| Fault::usage(format!("option `{name}` is missing")).hint("give a number of tokens");
        if let Some(corpus) = &self.corpus {
            let requests = corpus.iter().map(|written| {
                let counted = prompts.and_then(|prompts| prompts.count(&written.prompt)).transpose()?;
                Ok((counted.unwrap_or(0) as u64, written.output))
            });
            return Ok(Sizes::Listed {
                requests: requests.collect::<Result<_>>()?,
                // Unused if every prompt has its own output length.
                output: self.options.output.unwrap_or(Length::Fixed(1)),
            });
        }
        if let Arrivals::Replay(trace) = &self.arrivals {
            return Ok(Sizes::of_trace(trace));
        }
        Ok(Sizes::Random {
            input: self.options.input.ok_or_else(|| missing("input"))?,
            output: self.options.output.ok_or_else(|| missing("output"))?,
        })
    }
}

/// Maximum cached request forms.
const FORMS: usize = 4096;

/// Maximum output tokens for which response texts are kept for counting; about 20 MB.
const MAX_COUNTED_TOKENS: u64 = 4 << 20;

/// A load that is ready to run.
pub(super) struct Session {
    pub(super) options: LoadOptions,
    pub(super) plan: Arc<Plan>,
    pub(super) corpus: Option<Arc<Vec<FilePrompt>>>,
    /// Number of the load within the run, from 1.
    pub(super) number: u64,
    seed: u64,
    pub(super) url: String,
    /// Path of the requests.
    path: String,
    pub(super) model: Option<String>,
    make_prompt: Arc<dyn Fn(u64) -> Result<Content> + Send + Sync>,
    /// The tokenizer for counting responses, if they are counted.
    prompts: Option<Arc<Prompts>>,
    timeout: Duration,
    pub(super) stall: Duration,
    pub(super) clock: ModelClock,
}

/// The results of one repeat.
#[derive(Default)]
pub(super) struct Repeat {
    /// Number of the repeat, from 1.
    pub(super) number: u64,
    pub(super) seed: u64,
    /// Start of the load's clock.
    pub(super) began: Option<SystemTime>,
    pub(super) records: Vec<Record>,
    /// The file with the records.
    pub(super) file: Option<PathBuf>,
    /// Output tokens as counted by the tokenizer, by request index.
    pub(super) tokenized: HashMap<u64, u64>,
    /// Start of the measured part; `None` if the load ended during its warm-up.
    pub(super) from: Option<Duration>,
    /// End of the load.
    pub(super) to: Duration,
    /// The client's own performance; `None` for combined repeats.
    pub(super) client: Option<ClientStats>,
    pub(super) seen: Observations,
    pub(super) end: EndReason,
    /// Relative half-width of the interval that `precision` watches, as last computed.
    pub(super) width: Option<f64>,
    /// Why the load was given up, if it was.
    pub(super) given_up: Option<String>,
    /// Whether this combines several repeats.
    pub(super) pooled: bool,
}

impl Engine {
    /// Prepares a load for a running engine.
    pub(super) fn session(
        &self,
        live: &Live,
        inputs: LoadInputs,
        form: &RequestForm,
        requested: Limits,
        number: u64,
    ) -> Result<Session> {
        let (Some(running), Some(prompting)) = (&live.running, &live.prompting) else {
            return Err(Fault::internal("a load on an engine that does not run"));
        };
        let sizes = inputs.sizes(Some(&prompting.prompts))?;
        let LoadInputs {
            options,
            arrivals,
            corpus,
        } = inputs;
        let (shared_prefix, shortest) = (options.shared_prefix.unwrap_or(0), sizes.shortest());
        if shared_prefix > 0 && shared_prefix >= shortest {
            return wrong(
                format!("`shared_prefix` of {shared_prefix} tokens leaves nothing unique in a prompt of {shortest}"),
                format!("at most {}", shortest.saturating_sub(1)),
            );
        }
        let stop = options.stop(corpus.as_ref().map(|corpus| corpus.len() as u64))?;
        let answers = stop.requests.map(|requests| requests.saturating_mul(requested.output));
        let counted = prompting.prompts.has_tokenizer() && answers.is_some_and(|tokens| tokens <= MAX_COUNTED_TOKENS);
        Ok(Session {
            plan: Arc::new(Plan {
                arrivals,
                sizes,
                warmup: options.warmup()?,
                stop,
            }),
            number,
            seed: options.seed.unwrap_or(self.context.seed),
            url: running.server.url(&form.path)?,
            path: form.path.clone(),
            model: running.info.model.clone(),
            corpus,
            make_prompt: Arc::new(prompting.maker(form, shared_prefix)),
            prompts: counted.then(|| Arc::clone(&prompting.prompts)),
            timeout: match options.timeout {
                Some(timeout) => seconds("timeout", timeout)?,
                None => live.speed.timeout(&requested),
            },
            stall: options.stall.map_or(Ok(STALL), |stall| seconds("stall", stall))?,
            clock: ModelClock::new(running.server.time_scale()),
            options,
        })
    }

    /// Runs one repeat. `sent` requests were sent by earlier ones: prompts of a file go on after them.
    pub(super) fn run_repeat(&self, running: &Running, session: &Session, repeat: u64, sent: usize) -> Result<Repeat> {
        let offset = if session.corpus.is_some() { sent } else { 0 };
        let plan = &session.plan;
        let seed = session.seed.wrapping_add(repeat - 1);
        let (signal, signals) = unbounded_channel();
        let name = format!("{}.jsonl", session.number);
        let file = self.context.run.append("loads", &name)?;
        let path = file.as_ref().map(|(path, _)| path.clone());
        let monitor = self.start_monitor(running, session.options.metrics_hz.unwrap_or(METRICS_HZ))?;
        let feed = Arc::new(Feed {
            schedule: Mutex::new(Schedule::new(Arc::clone(plan), seed, offset)),
            build: session.body_builder(signal.clone()),
            progress: Mutex::new(LoadProgress::new(Arc::clone(plan))),
            file: Mutex::new(file),
            repeat,
            signals: signal,
            timeout: session.timeout,
            clock: session.clock,
            fault: Mutex::default(),
            quiet_until: AtomicU64::default(),
            issued: AtomicU64::default(),
            ended: AtomicU64::default(),
            failing: Mutex::default(),
            given_up: Mutex::default(),
        });
        let (driven, died) = self.run_client(running, &monitor, session, &feed, signals)?;
        if let Some(fault) = lock(&feed.fault).take() {
            return Err(fault);
        }
        let seen = self.finish_monitor(monitor, running, driven.clock.began)?;
        let progress = feed.progress();
        let records = driven.records.iter().map(|record| Record {
            warmup: progress.is_warmup(record.index),
            ..session.clock.record(record).into_owned()
        });
        let mut records: Vec<Record> = records.collect();
        let tokenized = session.tokenized(&mut records)?;
        let given_up = lock(&feed.given_up).take();
        let end = if died {
            EndReason::Died
        } else if given_up.is_some() {
            EndReason::GivenUp
        } else {
            match progress.end(records.len() as u64) {
                EndReason::Duration if session.ends_with_steps() => EndReason::Arrivals,
                end => end,
            }
        };
        Ok(Repeat {
            number: repeat,
            seed,
            began: Some(driven.clock.unix),
            file: path,
            tokenized,
            from: progress.measurement_start(),
            to: session.clock.model(driven.duration),
            client: Some(driven.health.stats.scaled(session.clock.speed)),
            seen: session.clock.observations(seen),
            end,
            width: progress.width(),
            given_up,
            records,
            ..Repeat::default()
        })
    }
}

impl Session {
    /// The client's settings. Also the duration of the measured part, if its start is not known in advance.
    pub(super) fn client_config(&self) -> (LoadConfig, Option<Duration>) {
        let Plan {
            arrivals, warmup, stop, ..
        } = &*self.plan;
        let slots = match arrivals {
            Arrivals::Closed { concurrency, ramp } => Slots::closed(*concurrency, self.clock.real(*ramp)),
            Arrivals::ClosedSteps(steps) => {
                let mut end = Duration::ZERO;
                let steps = steps.iter().map(|(concurrency, length)| {
                    let begins = self.clock.real(end);
                    end += *length;
                    Step {
                        begins,
                        concurrency: *concurrency,
                    }
                });
                Slots::Closed(steps.collect())
            }
            Arrivals::Open { .. } | Arrivals::Replay(_) => Slots::Open {
                max_concurrency: self.options.max_concurrency,
                expected: arrivals.expected(),
            },
        };
        let begins = match warmup {
            &Warmup::NONE => Some(Duration::ZERO),
            Warmup::Time(time) if arrivals.is_open_loop() => Some(*time),
            Warmup::Requests(_) | Warmup::Time(_) => None,
        };
        let cut = stop.duration.zip(begins).map(|(duration, begins)| begins + duration);
        let steps = arrivals.length().filter(|_| self.has_steps());
        // At the end of the steps, unfinished requests may complete; at the end of the duration they are cut off.
        let (limit, grace) = match (steps, cut) {
            (Some(steps), Some(cut)) if steps < cut => (Some(steps), self.clock.real(cut - steps)),
            (Some(steps), None) => (Some(steps), self.timeout),
            (_, cut) => (cut, Duration::ZERO),
        };
        let real = |time| self.clock.real(time);
        let drive = LoadConfig {
            slots,
            limit: limit.map(real),
            grace,
            keep_text: self.prompts.is_some(),
            must_connect: true,
            key: None,
            cancel: CancellationToken::new(),
        };
        (drive, stop.duration.filter(|_| begins.is_none()).map(real))
    }

    fn has_steps(&self) -> bool {
        matches!(self.plan.arrivals, Arrivals::ClosedSteps(_))
    }

    /// Whether no request is issued after the last step because the steps are over.
    fn ends_with_steps(&self) -> bool {
        self.has_steps()
            && self.client_config().0.limit == self.plan.arrivals.length().map(|length| self.clock.real(length))
    }

    /// Total number of requests, if known.
    pub(super) fn expected(&self) -> Option<u64> {
        let Warmup::Requests(warmup) = self.plan.warmup else {
            return None;
        };
        match (&self.plan.arrivals, self.plan.stop.requests) {
            (_, Some(requests)) => Some(requests + warmup),
            (Arrivals::Replay(trace), None) => Some(trace.len() as u64),
            _ => None,
        }
    }

    /// Returns a function that builds request bodies. It asks the script's thread for request forms not cached yet.
    fn body_builder(&self, signal: UnboundedSender<Signal>) -> BodyBuilder {
        let forms = Mutex::new(HashMap::new());
        let (make_prompt, corpus, model) = (Arc::clone(&self.make_prompt), self.corpus.clone(), self.model.clone());
        let path = self.path.clone();
        Arc::new(move |request| {
            let lengths = (request.input, request.output);
            let cached: Option<Arc<RequestForm>> = lock(&forms).get(&lengths).cloned();
            let form = match cached {
                Some(form) => form,
                None => {
                    let form = Arc::new(fetch_form(&signal, lengths)?);
                    if form.path != path {
                        let other = &form.path;
                        return wrong(
                            format!(
                                "`request(point)` of the adapter gives the path `{other}` for one length and `{path}` for another"
                            ),
                            "a load uses a single path",
                        );
                    }
                    let mut forms = lock(&forms);
                    if forms.len() >= FORMS {
                        forms.clear();
                    }
                    forms.insert(lengths, Arc::clone(&form));
                    form
                }
            };
            let written = request.listed.zip(corpus.as_ref());
            let prompt = match written.and_then(|(number, corpus)| corpus.get(number)) {
                Some(written) => Content::Text(written.prompt.clone()),
                None => make_prompt(request.input)?,
            };
            Ok((protocol::body(&form, &prompt, model.as_deref())?, form.protocol))
        })
    }

    /// Counts the tokens of the responses and drops their texts.
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

/// Asks the script's thread for a request form.
fn fetch_form(signal: &UnboundedSender<Signal>, (input, output): (u64, u64)) -> Result<RequestForm> {
    let (reply, answer) = std::sync::mpsc::sync_channel(1);
    let gone = || Fault::interrupted();
    signal.send(Signal::Form(input, output, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}
