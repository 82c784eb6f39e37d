//! Makes prompts for an engine, corrects their length until the engine's own count matches, and sends requests to a
//! running engine through the load client: a batch of concurrent ones for a probe, polling the engine's metrics
//! meanwhile, or a single prompt of the user's own, unchanged.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::handle::{Ensured, Health, Running};
use super::judge::succeeded;
use super::metrics::{MetricsPage, QueueMetrics, StallDetector};
use super::options::{LaunchOptions, seconds};
use super::{Engine, Limits, Protocol, RequestForm, protocol};
use crate::fault::{Fault, Kind, Result};
use crate::http::ApiKey;
use crate::load::{BuildJob, Control, FailureForm, Job, LoadConfig, Outcome, Record, RequestSource, Slots, run_load};
use crate::prompt::{Calibration, Content, Origin, PromptForm, PromptSpec, Prompts};
use crate::runtime::RuntimeKind;
use crate::task::lock;

/// Pauses between polls of the metrics page.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How long a single request runs before its queue is polled.
const SINGLE_REQUEST_PAUSE: Duration = Duration::from_secs(1);

/// How long unfinished requests may all be queued, with none running, before they are cancelled.
pub(super) const STALL: Duration = Duration::from_secs(20);

/// Requests that are sent together.
pub(super) struct Batch {
    url: String,
    key: Option<ApiKey>,
    jobs: Mutex<VecDeque<Job>>,
    count: u64,
    timeout: Duration,
    /// Requests with a first token.
    decoding: AtomicU64,
    all_decode: Notify,
    ended: AtomicU64,
}

impl Batch {
    /// A request for each prompt, with the same form.
    pub(super) fn new(
        running: &Running,
        form: &RequestForm,
        prompts: &[Content],
        requested: Limits,
        timeout: Duration,
    ) -> Result<Self> {
        let job = |prompt| {
            Ok(Job {
                at: None,
                body: protocol::body(form, prompt, running.info.model.as_deref())?,
                decoder: protocol::decoder(form.protocol),
                timeout,
                input: requested.input,
                output: requested.output,
            })
        };
        let jobs = prompts.iter().map(job).collect::<Result<VecDeque<_>>>()?;
        let url = running.server.url(&form.path)?;
        Ok(Self::from_jobs(url, running.key.clone(), jobs, timeout))
    }

    fn from_jobs(url: String, key: Option<ApiKey>, jobs: VecDeque<Job>, timeout: Duration) -> Self {
        Self {
            url,
            key,
            count: jobs.len() as u64,
            timeout,
            jobs: Mutex::new(jobs),
            decoding: AtomicU64::new(0),
            all_decode: Notify::new(),
            ended: AtomicU64::new(0),
        }
    }

    /// Sends all requests concurrently and returns their records in order. Cuts them off after `stall` without
    /// progress.
    pub(super) async fn send(self, page: Option<&MetricsPage>, stall: Duration) -> Result<(Vec<Record>, QueueMetrics)> {
        let mut queue = QueueMetrics::default();
        // A single request is not preceded by a poll: fetching the page costs as much as a short probe.
        if self.count > 1 {
            queue.poll(page, Instant::now() + self.timeout).await;
        }
        let timeout = Instant::now() + self.timeout;
        let batch = Arc::new(self);
        let config = LoadConfig {
            slots: Slots::closed(batch.count, Duration::ZERO),
            limit: None,
            grace: Duration::ZERO,
            keep_text: false,
            must_connect: false,
            key: batch.key.clone(),
            cancel: CancellationToken::new(),
        };
        let give_up = config.cancel.clone();
        let ended = CancellationToken::new();
        let sent = async {
            let done = run_load(&batch.url, config, Arc::clone(&batch) as Arc<dyn RequestSource>).await;
            ended.cancel();
            done
        };
        let watch = async {
            if batch.wait_for_stall(page, stall, timeout, &mut queue, &ended).await {
                give_up.cancel();
            }
        };
        let (done, ()) = tokio::join!(sent, watch);
        if batch.count > 1 {
            queue.poll(page, timeout).await;
        }
        let mut records = done?.records;
        // Those that were cancelled before they were issued.
        let missing = records.len() as u64..batch.count;
        records.extend(missing.map(|index| Record {
            index,
            outcome: Outcome::CutOff,
            ..Record::default()
        }));
        Ok((records, queue))
    }

    /// Polls the page until the engine has stalled (true) or all requests have `ended`. Also polls when the last request gets its first token, because all
    /// requests are running at that moment if they ever are. A poll is not broken off: the page may have been cleared by it.
    async fn wait_for_stall(
        &self,
        page: Option<&MetricsPage>,
        stall: Duration,
        timeout: Instant,
        queue: &mut QueueMetrics,
        ended: &CancellationToken,
    ) -> bool {
        let mut detector = StallDetector::new(stall);
        detector.update((self.count, 0), None, Instant::now().into_std());
        let several = self.count > 1;
        let mut pause = if several { FIRST_PAUSE } else { SINGLE_REQUEST_PAUSE };
        while page.is_some() {
            tokio::select! {
                biased;
                () = ended.cancelled() => return false,
                () = self.all_decode.notified(), if several => {}
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE.max(pause)),
            }
            let newest = queue.poll(page, timeout).await;
            let ended = self.ended.load(Ordering::Relaxed);
            if detector
                .update((self.count, ended), newest, Instant::now().into_std())
                .is_some()
            {
                return true;
            }
        }
        false
    }
}

impl RequestSource for Batch {
    fn next(&self) -> Result<Option<BuildJob>> {
        let job = lock(&self.jobs).pop_front();
        Ok(job.map(|job| -> BuildJob { Box::new(move || Ok(job)) }))
    }

    fn first_token(&self) {
        if self.decoding.fetch_add(1, Ordering::Relaxed) + 1 == self.count {
            self.all_decode.notify_one();
        }
    }

    fn ended(&self, _: &Record) -> Control {
        self.ended.fetch_add(1, Ordering::Relaxed);
        Control::Continue
    }
}

/// Options of `engine.send`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SendOptions {
    /// Maximum tokens to generate.
    pub output: u64,
    /// Timeout in seconds.
    pub timeout: f64,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            output: 16,
            timeout: 600.0,
        }
    }
}

/// The response to `engine.send`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendAnswer {
    /// Whether the stream completed with a proper finish reason.
    pub complete: bool,
    /// Prompt tokens, as counted by the engine.
    pub input: Option<u64>,
    /// Output tokens, as counted by the engine.
    pub output: Option<u64>,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// The error, in the engine's words if it gave any.
    pub error: Option<String>,
    /// HTTP status of a rejected request.
    pub http_status: Option<u16>,
    /// Time to first token, in ms.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first, in ms.
    pub tpot_ms: Option<f64>,
    /// End-to-end latency, in ms.
    pub e2el_ms: Option<f64>,
}

impl Engine {
    /// Sends a prompt to the engine, starting it if needed.
    ///
    /// # Errors
    ///
    /// `usage` for token ids if the protocol takes none; `engine` if no start serves the request.
    pub fn send(&self, prompt: &Content, options: SendOptions) -> Result<SendAnswer> {
        let input = match prompt {
            Content::Tokens(ids) => ids.len(),
            // A token of text has at least one byte.
            Content::Text(text) => text.len(),
        };
        let point = Limits::new(input as u64, options.output, 1).point()?;
        let timeout = seconds("timeout", options.timeout)?;
        let requested = Limits::of_point(&point)?;
        let mut live = self.lock();
        if let Ensured::Failed(failure) = self.ensure(&mut live, requested)? {
            let message = failure.evidence.message.unwrap_or_default();
            let message = format!("no start serves this prompt: {message}");
            return Err(Fault::new(Kind::Engine, message));
        }
        self.begin_requests(&mut live)?;
        let running = live
            .running
            .as_ref()
            .ok_or_else(|| Fault::internal("a prompt for an engine that does not run"))?;
        let form = self.request(&point, Some(running))?;
        let record = self.send_one(running, &form, prompt, requested, timeout)?;
        live.health = Health::after(succeeded(&record));
        self.end_requests(&mut live, succeeded(&record))?;
        let failure = record.failure();
        let error = failure
            .filter(|_| !succeeded(&record))
            .map(|failure| match failure.form {
                FailureForm::Deadline => format!("unfinished after {} s", options.timeout),
                _ => failure.message.clone(),
            });
        Ok(SendAnswer {
            complete: succeeded(&record),
            input: record.counts.input,
            output: record.counts.output,
            error,
            http_status: failure.and_then(|failure| failure.form.status()),
            ttft_ms: record.ttft_ms(record.sent),
            tpot_ms: record.counts.output.and_then(|output| record.tpot_ms(output)),
            e2el_ms: record.e2el_ms(record.sent),
            finish: record.finish,
        })
    }

    /// Sends one prompt to a running engine.
    pub(super) fn send_one(
        &self,
        running: &Running,
        form: &RequestForm,
        prompt: &Content,
        requested: Limits,
        timeout: Duration,
    ) -> Result<Record> {
        let batch = Batch::new(running, form, std::slice::from_ref(prompt), requested, timeout)?;
        let (records, _) = self.wait(batch.send(None, STALL))?;
        let record = records.into_iter().next();
        record.ok_or_else(|| Fault::internal("a request without a record"))
    }
}

/// Assumed vocabulary size if no tokenizer is known: the smallest of the common model families (Llama 2).
pub(super) const VOCABULARY: u32 = 32_000;

pub(super) struct Prompting {
    pub(super) prompts: Arc<Prompts>,
    // By protocol and form, because each adds tokens of its own.
    calibrations: HashMap<(Protocol, PromptForm), Calibration>,
    /// Forms for which a calibration request was already sent.
    pub(super) calibrated: HashSet<(Protocol, PromptForm)>,
}

impl Prompting {
    pub(super) fn new(prompts: Arc<Prompts>) -> Self {
        Self {
            prompts,
            calibrations: HashMap::new(),
            calibrated: HashSet::new(),
        }
    }

    /// Makes `count` prompts of `tokens` tokens, as counted by the engine.
    pub(super) fn make(&self, form: &RequestForm, tokens: u64, count: u64) -> Result<Vec<Content>> {
        let make = self.maker(form, 0);
        (0..count).map(|_| make(tokens)).collect()
    }

    /// Returns a function that makes prompts of a given number of tokens, as counted by the engine. All share their
    /// first `shared_prefix` tokens.
    pub(super) fn maker(
        &self,
        form: &RequestForm,
        shared_prefix: u64,
    ) -> impl Fn(u64) -> Result<Content> + Send + Sync + use<> {
        let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
        let calibration = self.calibrations.get(&key(form)).copied().unwrap_or_default();
        let prompts = Arc::clone(&self.prompts);
        let shape = PromptSpec {
            tokens: 0,
            form: form.prompt,
            chat: form.protocol == Protocol::OpenaiChat,
            shared_prefix: size(shared_prefix),
        };
        move |tokens| {
            let spec = calibration.adjust(PromptSpec {
                tokens: size(tokens),
                ..shape
            })?;
            prompts.make(&spec)
        }
    }

    /// Adapts the calibration to the engine's count. Returns how many counts in a row were wrong.
    pub(super) fn observe(&mut self, form: &RequestForm, wanted: u64, seen: u64) -> u32 {
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        self.calibrations
            .entry(key(form))
            .or_default()
            .observe(size(wanted), size(seen))
    }
}

pub(super) fn key(form: &RequestForm) -> (Protocol, PromptForm) {
    (form.protocol, form.prompt)
}

/// Chooses the source of prompts: a named tokenizer; the model's tokenizer, for text or if a launched engine does not
/// report its vocabulary size; otherwise plain ids, or common words whose tokens the engine counts.
pub(super) fn origin(
    options: &LaunchOptions,
    runtime: RuntimeKind,
    form: &RequestForm,
    vocabulary: Option<u32>,
) -> Origin {
    if let Some(name) = &options.tokenizer {
        return Origin::Tokenizer(name.clone());
    }
    let text = form.prompt == PromptForm::Text;
    // Ollama has its own model names and keeps tokenizers inside its model files. What an attached server serves may be
    // another model than the one that is named.
    let elsewhere = |model: &String| runtime == RuntimeKind::Attach && !Path::new(model).is_absolute();
    if text && (form.protocol == Protocol::Ollama || options.model.as_ref().is_none_or(elsewhere)) {
        return Origin::Words(vocabulary.unwrap_or(VOCABULARY));
    }
    // An attached or simulated server may serve its model under a made-up name.
    let launched = matches!(runtime, RuntimeKind::Docker | RuntimeKind::Process);
    match &options.model {
        Some(model) if text || (launched && vocabulary.is_none()) => Origin::Tokenizer(model.clone()),
        _ => Origin::Vocabulary(vocabulary.unwrap_or(VOCABULARY)),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::engine::{MetricFormat, MetricRules, Protocol, protocol};
    use crate::http;

    /// How a request that is never answered ends, if the metrics page returns these snapshots in turn, repeating the
    /// last one.
    async fn ended(pages: &'static [&str]) -> Outcome {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let polls = Arc::new(AtomicU64::new(0));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let polls = Arc::clone(&polls);
                tokio::spawn(async move {
                    let mut head = [0; 4096];
                    let read = stream.read(&mut head).await.unwrap_or_default();
                    if !head[..read].starts_with(b"GET") {
                        return std::future::pending().await;
                    }
                    let poll = usize::try_from(polls.fetch_add(1, Ordering::Relaxed)).unwrap();
                    let page = pages[poll.min(pages.len() - 1)];
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{page}",
                        page.len()
                    );
                    stream.write_all(answer.as_bytes()).await.unwrap();
                });
            }
        });
        let client = http::build(http::direct()).unwrap();
        let page = MetricsPage {
            client,
            url: format!("{base}/metrics"),
            rules: MetricRules {
                path: "/metrics".into(),
                format: MetricFormat::Json,
                running: vec!["/running".into()],
                waiting: vec!["/waiting".into()],
                ..MetricRules::default()
            },
            run: Arc::default(),
        };
        let job = |_| Job {
            at: None,
            body: "{}".into(),
            decoder: protocol::decoder(Protocol::OpenaiCompletions),
            timeout: Duration::from_secs(2),
            input: 1,
            output: 1,
        };
        let jobs = (0..2).map(job).collect();
        let batch = Batch::from_jobs(format!("{base}/v1/completions"), None, jobs, Duration::from_secs(2));
        let (records, _) = batch.send(Some(&page), Duration::from_millis(300)).await.unwrap();
        records[0].outcome.clone()
    }

    #[tokio::test]
    async fn requests_are_cancelled_only_if_all_are_queued_and_none_runs() {
        let cut_off = async |pages| ended(pages).await == Outcome::CutOff;
        assert!(cut_off(&[r#"[{"running":0,"waiting":2}]"#]).await);
        // One request is in prefill.
        assert!(!cut_off(&[r#"[{"running":0,"waiting":1}]"#]).await);
        // No new snapshot: the engine is in a long step.
        assert!(!cut_off(&[r#"[{"running":0,"waiting":2}]"#, "[]"]).await);
    }
}

#[cfg(test)]
mod prompting_tests {
    use serde_json::json;

    use super::*;

    fn form(prompt: PromptForm, protocol: Protocol) -> RequestForm {
        RequestForm {
            protocol,
            path: "/".into(),
            prompt,
            body: json!({}),
        }
    }

    #[test]
    fn a_named_tokenizer_comes_first() {
        let options = LaunchOptions {
            model: Some("m".into()),
            tokenizer: Some("t".into()),
            ..LaunchOptions::default()
        };
        let ids = form(PromptForm::Tokens, Protocol::Llamacpp);
        for runtime in [RuntimeKind::Sim, RuntimeKind::Docker, RuntimeKind::Attach] {
            assert_eq!(origin(&options, runtime, &ids, Some(9)), Origin::Tokenizer("t".into()));
        }
    }

    #[test]
    fn ids_need_the_models_tokenizer_only_if_the_vocabulary_size_is_unknown() {
        let options = LaunchOptions {
            model: Some("m".into()),
            ..LaunchOptions::default()
        };
        let model = Origin::Tokenizer("m".into());
        let ids = &form(PromptForm::Tokens, Protocol::Llamacpp);
        let text = &form(PromptForm::Text, Protocol::Tgi);
        assert_eq!(origin(&options, RuntimeKind::Docker, ids, None), model);
        assert_eq!(
            origin(&options, RuntimeKind::Docker, ids, Some(9)),
            Origin::Vocabulary(9)
        );
        assert_eq!(
            origin(&options, RuntimeKind::Attach, ids, None),
            Origin::Vocabulary(VOCABULARY)
        );
        assert_eq!(
            origin(&options, RuntimeKind::Sim, ids, None),
            Origin::Vocabulary(VOCABULARY)
        );
        assert_eq!(origin(&options, RuntimeKind::Sim, text, None), model);
    }
    #[test]
    fn text_without_a_tokenizer_is_common_words() {
        let nameless = LaunchOptions::default();
        let text = &form(PromptForm::Text, Protocol::Tgi);
        let words = Origin::Words(VOCABULARY);
        assert_eq!(origin(&nameless, RuntimeKind::Attach, text, None), words);
        let ollama = LaunchOptions {
            model: Some("llama3.2:1b".into()),
            ..LaunchOptions::default()
        };
        let text = &form(PromptForm::Text, Protocol::Ollama);
        assert_eq!(origin(&ollama, RuntimeKind::Docker, text, None), words);
    }
}
