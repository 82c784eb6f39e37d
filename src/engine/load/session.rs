//! Prepares a load from its options, input files (trace, prompts) and a running engine.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::clock::ModelClock;
use super::feed::{BodyBuilder, Signal};
use super::options::LoadOptions;
use crate::engine::adapter::{Protocol, RequestForm};
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::options::{Context, seconds, wrong};
use crate::engine::lifecycle::state::Live;
use crate::engine::wire::batch::STALL;
use crate::engine::wire::protocol;
use crate::fault::{Fault, Result};
use crate::load::plan::{Arrivals, FilePrompt, Length, LoadPlan, Sizes, Warmup, read_prompts, read_trace};
use crate::load::{ConcurrencyChange, LoadConfig, RequestRecord, Slots, Tolerance};
use crate::prompt::{Content, Prompts};
use crate::run::Limits;
use crate::task::lock;

/// Upper estimate of the tokens that a chat template adds to a prompt.
const TEMPLATE: u64 = 256;

/// A load's options, with the arrivals and prompts from its files.
pub(crate) struct LoadInputs {
    pub(crate) options: LoadOptions,
    pub(crate) arrivals: Arrivals,
    pub(crate) corpus: Option<Arc<Vec<FilePrompt>>>,
    /// Requests of the trace that are left out, because they had failed when it was recorded.
    pub(crate) failed_arrivals: u64,
}

impl LoadInputs {
    /// Reads the files that the options name.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a file that the user did not name; `usage` for a missing or malformed file, or one that changed
    /// since an earlier load.
    pub(crate) fn read(options: &LoadOptions, context: &Context) -> Result<Self> {
        fn parsed<T>(name: &str, text: &str, parse: fn(&str) -> Result<T>) -> Result<T> {
            parse(text).map_err(|fault| fault.while_doing(format!("`{name}`")))
        }
        let text = |name: &str, option| {
            let text = context.permits.read_file(Path::new(name), option)?;
            context.run.input(name, &text).map(|()| text)
        };
        let trace = options
            .trace
            .as_deref()
            .map(|name| parsed(name, &text(name, "trace")?, read_trace))
            .transpose()?;
        let corpus = options
            .prompts
            .as_deref()
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
            failed_arrivals: trace.as_ref().map_or(0, |trace| trace.failed),
            arrivals: options.arrivals(trace.map(|trace| trace.arrivals))?,
            corpus: corpus.map(Arc::new),
        })
    }

    /// The limits that an engine must be started with. Counts the prompts of a file if `prompts` has a tokenizer.
    pub(crate) fn limits(&self, prompts: Option<&Prompts>, protocol: Protocol) -> Result<Limits> {
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

    /// The most requests in flight at a time, if something bounds them: how many a rate piles up depends on the engine.
    pub(crate) fn most_in_flight(&self) -> Result<Option<u64>> {
        let prompts = self.corpus.as_ref().map(|corpus| corpus.len() as u64);
        let all = match &self.arrivals {
            Arrivals::Replay(trace) => Some(trace.len() as u64),
            _ => self.options.stop(prompts)?.requests,
        };
        let warmup = match self.options.warmup()? {
            Warmup::Requests(requests) => requests,
            Warmup::Time(_) => u64::MAX,
        };
        let most = self.arrivals.max_concurrency().or(self.options.max_concurrency);
        let planned = all.map(|all| all.saturating_add(warmup));
        Ok(most.map(|most| planned.map_or(most, |planned| most.min(planned))))
    }

    /// The mean input; of texts that cannot be counted, by four bytes for each token.
    pub(crate) fn mean(&self, prompts: Option<&Prompts>) -> Result<u64> {
        const TOKEN: usize = 4;
        let bytes = |corpus: &Arc<Vec<FilePrompt>>| {
            let bytes: usize = corpus.iter().map(|written| written.prompt.len()).sum();
            (bytes / TOKEN / corpus.len().max(1)) as u64
        };
        let counted = self.sizes(prompts)?.mean();
        Ok(self.corpus.as_ref().map_or(0, bytes).max(counted))
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

/// The number of the file's prompt that a load begins with: unless it is given, the one after those of the load before,
/// so that no load finds the prompts of an earlier one in the prefix cache.
pub(super) fn first_prompt(options: &LoadOptions, live: &Live) -> u64 {
    let next = || {
        options
            .prompts
            .as_ref()
            .and_then(|file| live.next_prompts.get(file).copied())
    };
    options.prompts_from.or_else(next).unwrap_or_default()
}

/// Maximum cached request forms.
const FORMS: usize = 4096;

/// Maximum output tokens for which response texts are kept for counting; about 20 MB.
const MAX_COUNTED_TOKENS: u64 = 4 << 20;

/// A load that is ready to run.
pub(crate) struct Session {
    pub(crate) options: LoadOptions,
    pub(crate) plan: Arc<LoadPlan>,
    pub(crate) corpus: Option<Arc<Vec<FilePrompt>>>,
    /// The number of the first prompt of the file.
    pub(crate) prompts_from: usize,
    /// Requests of the trace that are left out, because they had failed when it was recorded.
    pub(crate) failed_arrivals: u64,
    /// Number of the load within the run, from 1.
    pub(crate) number: u64,
    pub(crate) seed: u64,
    pub(crate) url: String,
    /// Path of the requests.
    path: String,
    pub(crate) model: Option<String>,
    make_prompt: Arc<dyn Fn(u64) -> Result<Content> + Send + Sync>,
    /// The tokenizer for counting responses, if they are counted.
    prompts: Option<Arc<Prompts>>,
    pub(crate) timeout: Duration,
    pub(crate) stall: Duration,
    /// Tokens that may be missing from an answer without a word.
    pub(crate) tolerance: Tolerance,
    pub(crate) clock: ModelClock,
}

/// Prepares a load for a running engine.
pub(crate) fn session(
    engine: &Engine,
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
        failed_arrivals,
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
        plan: Arc::new(LoadPlan {
            arrivals,
            sizes,
            warmup: options.warmup()?,
            stop,
        }),
        number,
        seed: options.seed.unwrap_or(engine.context.seed),
        url: running.server.url(&form.path)?,
        path: form.path.clone(),
        model: running.info.model.clone(),
        corpus,
        prompts_from: usize::try_from(first_prompt(&options, live)).unwrap_or(usize::MAX),
        failed_arrivals,
        make_prompt: Arc::new(prompting.maker(form, shared_prefix)),
        prompts: counted.then(|| Arc::clone(&prompting.prompts)),
        timeout: match options.timeout {
            Some(timeout) => seconds("timeout", timeout)?,
            None => live.speed.timeout(&requested),
        },
        stall: options.stall.map_or(Ok(STALL), |stall| seconds("stall", stall))?,
        clock: ModelClock::new(running.server.time_scale()),
        tolerance: options
            .output_tolerance
            .unwrap_or_default()
            .or(engine.options.output_tolerance),
        options,
    })
}

impl Session {
    /// The client's settings, and the duration of the measured part if its start is not known in advance.
    pub(crate) fn client_config(&self) -> (LoadConfig, Option<Duration>) {
        let LoadPlan {
            arrivals, warmup, stop, ..
        } = &*self.plan;
        let slots = match arrivals {
            Arrivals::Closed { concurrency, ramp } => Slots::closed(*concurrency, self.clock.real(*ramp)),
            Arrivals::ClosedSteps(steps) => {
                let mut end = Duration::ZERO;
                let steps = steps.iter().map(|(concurrency, length)| {
                    let begins = self.clock.real(end);
                    end += *length;
                    ConcurrencyChange {
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

    /// True if the load ends with its last step, rather than at an earlier limit.
    pub(crate) fn ends_with_steps(&self) -> bool {
        self.has_steps()
            && self.client_config().0.limit == self.plan.arrivals.length().map(|length| self.clock.real(length))
    }

    /// Total number of requests, if known.
    pub(crate) fn expected(&self) -> Option<u64> {
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
    pub(crate) fn body_builder(&self, signal: UnboundedSender<Signal>) -> BodyBuilder {
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
    pub(crate) fn tokenized(&self, records: &mut [RequestRecord]) -> Result<HashMap<u64, u64>> {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn requests_in_flight_are_bounded_by_what_the_load_says() {
        let most = |given: Value| {
            let options: LoadOptions = serde_json::from_value(given).unwrap();
            let inputs = LoadInputs {
                arrivals: options.arrivals(None).unwrap(),
                options,
                corpus: None,
                failed_arrivals: 0,
            };
            inputs.most_in_flight().unwrap()
        };
        let slow = json!({ "rate": 0.05, "input": 500_000, "output": 1, "requests": 4 });
        assert_eq!(most(slow), None, "they hardly overlap");
        let bounded = json!({ "rate": 9, "max_concurrency": 64, "input": 1, "output": 1, "duration": 9 });
        assert_eq!(most(bounded), Some(64));
        let few = json!({ "concurrency": 64, "input": 1, "output": 1, "requests": 4, "warmup": { "requests": 2 } });
        assert_eq!(most(few), Some(6));
        let warmed = json!({ "concurrency": 64, "input": 1, "output": 1, "requests": 4, "warmup": { "seconds": 1 } });
        assert_eq!(most(warmed), Some(64));
    }
}
