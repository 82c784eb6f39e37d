//! The engine handle for scripts: describes an engine, starts it on first use and restarts it when needed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};

use super::facts::{ReportedFact, Rules, degraded};
use super::forms::Accepted;
use super::info::Info;
use super::judge::succeeded;
use super::limits::{RequestSpeed, StartFailure, StartHistory};
use super::metrics::MetricsPage;
use super::options::{LaunchOptions, wrong};
use super::send::Prompting;
use super::start::{Ready, Server};
use super::usage::MemoryStages;
use super::{Adapter, Context, Limits, Readiness};
use crate::fault::{Fault, Kind, Result};
use crate::http::{self, ApiKey};
use crate::load::engine_side::EngineMetrics;
use crate::load::{FailureForm, Outcome, Record};
use crate::prompt::{Hub, ModelId};
use crate::run::{Event, can_be_hidden, for_engine};
use crate::runtime::{Exit, RuntimeKind, api_key, server_url};
use crate::task::lock;
use crate::telemetry::{Reading, Sampler};
use crate::warning::Warning;

/// vLLM closes connections that were idle for 5 s. Closing them earlier avoids sending a request on a closed one.
const IDLE: Duration = Duration::from_secs(2);

/// How long an engine may take to answer again after a failure before it is restarted.
const RECOVERY: Duration = Duration::from_secs(5);

/// Starts in a row where what prevents them may pass, and the pause after the first; the next one is twice as long.
const MAX_STARTS: u32 = 3;
const START_PAUSE: Duration = Duration::from_secs(1);

/// An engine under test.
pub struct Engine {
    pub(super) context: Context,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) options: LaunchOptions,
    pub(super) runtime: RuntimeKind,
    pub(super) rules: Rules,
    pub(super) client: Client,
    /// For the server that was attached to.
    pub(super) key: Option<ApiKey>,
    /// The options, as the journal shows them; those of all, if there are `others`.
    pub(super) shown: Value,
    /// Further engines of the same kind on GPUs or servers of their own, among which probes at the same time are shared out.
    others: Vec<Engine>,
    /// Held while it is probed, if there are others.
    busy: Mutex<()>,
    /// Held from a server's name to the event that it starts, by one engine of several: servers are numbered in that order.
    pub(super) starting: Arc<Mutex<()>>,
    /// What starts have shown, of all.
    pub(super) starts: Arc<Mutex<StartHistory>>,
    live: Mutex<Live>,
}

/// Mutable state of an engine.
#[derive(Default)]
pub(super) struct Live {
    pub(super) running: Option<Running>,
    pub(super) speed: RequestSpeed,
    pub(super) prompting: Option<Prompting>,
    pub(super) health: Health,
    /// Probes answered by a dry run.
    pub(super) dry_run_probes: u64,
    /// Memory stages of the newest start.
    pub(super) stages: MemoryStages,
    /// Number of start attempts.
    pub(super) tried: u64,
    /// GPU memory before the first start.
    pub(super) baseline: Option<Reading>,
}

/// Whether a running engine can be sent requests without a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Health {
    #[default]
    Good,
    /// Something failed: check whether it still serves.
    Suspect,
    /// It no longer serves, even if its process is alive.
    Lost,
}

impl Health {
    pub(super) fn after(well: bool) -> Self {
        if well { Self::Good } else { Self::Suspect }
    }
}

pub(super) struct Running {
    pub(super) server: Server,
    pub(super) key: Option<ApiKey>,
    pub(super) sampler: Option<Sampler>,
    /// Limits of this start; `None` for an attached engine.
    pub(super) limits: Option<Limits>,
    pub(super) info: Info,
    pub(super) accepted: Accepted,
    /// Facts that it reported until it was ready.
    pub(super) facts: Vec<ReportedFact>,
    /// Number of log lines read by then.
    pub(super) facts_read: u64,
    /// Requests that it rejected for now and that were sent again, and how long it was waited for.
    pub(super) rejected: u64,
    pub(super) waited: Duration,
}

pub(super) enum Ensured {
    /// It runs; `true` if it had to be started.
    Running(bool),
    /// No start serves the requested limits.
    Failed(Box<StartFailure>),
}

impl Engine {
    /// Describes an engine without starting it; or several, which differ in their GPUs or their server alone, as one:
    /// probes at the same time are shared out among them, and anything else is done by the first.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong option or unusable adapter rules, and if there is no engine; `not_allowed` for a local model
    /// or tokenizer that the script may not read.
    pub fn describe(context: &Context, adapter: &Arc<dyn Adapter>, all: Vec<LaunchOptions>) -> Result<Self> {
        let each = |options| Self::described(context.clone(), Arc::clone(adapter), options);
        let mut engines: Vec<Self> = all.into_iter().map(each).collect::<Result<_>>()?;
        let shown = shown_together(&engines);
        let (starting, starts) = (Arc::default(), Arc::default());
        for engine in &mut engines {
            engine.shown = shown.clone();
            engine.starting = Arc::clone(&starting);
            engine.starts = Arc::clone(&starts);
        }
        let mut engines = engines.into_iter();
        let mut first = engines.next().ok_or_else(|| Fault::usage("no engine is described"))?;
        first.others = engines.collect();
        first.recall_failed_starts();
        Ok(first)
    }

    /// Blocks the script's thread on this.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.context.tasks.wait(work)
    }

    fn described(mut context: Context, adapter: Arc<dyn Adapter>, mut options: LaunchOptions) -> Result<Self> {
        options.check()?;
        if !adapter.shipped() {
            context.permits = context.permits.for_foreign_code();
        }
        options.find_model(&context.home);
        match options.check_files(&context) {
            // The preview says what else is not allowed.
            Err(fault) if context.dry_run && fault.kind == Kind::NotAllowed => {}
            checked => checked?,
        }
        let runtime = match options.runtime.as_deref() {
            None | Some("auto") if options.url.is_some() || options.container.is_some() => RuntimeKind::Attach,
            None | Some("auto") if adapter.name() == "sim" => RuntimeKind::Sim,
            None | Some("auto") => RuntimeKind::Docker,
            Some(named) => serde_json::from_value(json!(named)).map_err(|_| {
                Fault::usage(format!("there is no runtime `{named}`"))
                    .hint("one of: docker, process, attach, sim, auto")
            })?,
        };
        if runtime == RuntimeKind::Attach {
            options.check_attached()?;
        }
        if options.in_process && matches!(runtime, RuntimeKind::Sim | RuntimeKind::Attach) {
            return wrong(
                format!("option `in_process` means nothing to the runtime `{runtime}`"),
                "it is for engines started in a container or as a process",
            );
        }
        let target = options.target().filter(|_| runtime == RuntimeKind::Attach);
        let key = match target {
            Some(target) => api_key(&target, options.api_key_env.as_deref(), &context.permits)?,
            None => None,
        };
        if let (Some(key), Some(url)) = (&key, &options.url) {
            warn_of_key(&context, key, url)?;
        }
        Ok(Self {
            rules: Rules::from_adapter(adapter.as_ref())?,
            client: http::build_for_engines(
                http::direct_with(key.as_ref())
                    .pool_idle_timeout(IDLE)
                    .pool_max_idle_per_host(usize::MAX),
            )?,
            key,
            context,
            adapter,
            shown: options.shown(),
            options,
            runtime,
            others: Vec::new(),
            busy: Mutex::default(),
            starting: Arc::default(),
            starts: Arc::default(),
            live: Mutex::default(),
        })
    }

    /// Takes over the starts that failed in an earlier execution.
    fn recall_failed_starts(&self) {
        // Those written by another version of this program may not parse; they are tried again.
        let failed = self.context.run.failed_starts(&self.start_args()).into_iter();
        let failed = failed.filter_map(|failure| serde_json::from_value(failure).ok());
        lock(&self.starts).failed = failed.collect();
    }

    /// The key under which a resumed run finds earlier starts of the same engine.
    pub(super) fn start_args(&self) -> Value {
        json!({ "engine": self.name(), "launch": self.shown })
    }

    /// The limits of the next start, or why none serves the point.
    fn next_start(&self, whole: Limits, requested: Limits) -> std::result::Result<Limits, Box<StartFailure>> {
        let starts = lock(&self.starts);
        starts
            .next(whole, requested, self.options.use_report.unwrap_or(true))
            .map_err(|failure| Box::new(failure.for_point(&requested)))
    }

    /// Every engine that it stands for.
    pub(super) fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// Lets an engine that is not probed now do `work`: the first of those, or the first of all once it is free. Events that are
    /// noted meanwhile are about that one.
    pub(super) fn with_idle<'a, T>(&'a self, work: impl FnOnce(&Self) -> T) -> T {
        if self.others.is_empty() {
            return work(self);
        }
        let free = |(number, engine): (u64, &'a Self)| match engine.busy.try_lock() {
            Ok(busy) => Some((number, engine, busy)),
            Err(TryLockError::Poisoned(busy)) => Some((number, engine, busy.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        };
        let found = (1..).zip(self.all()).find_map(free);
        let (number, engine, _busy) = found.unwrap_or_else(|| (1, self, lock(&self.busy)));
        for_engine(number, || work(engine))
    }

    /// The adapter's name.
    pub fn name(&self) -> &str {
        self.adapter.name()
    }

    /// Starts the engine with limits that cover the whole search range. Returns whether it had to be started.
    ///
    /// # Errors
    ///
    /// `engine` if it does not become ready; `missing` for something that the runtime needs.
    pub fn start(&self) -> Result<bool> {
        match self.ensure(&mut self.lock(), Limits::SMALLEST)? {
            Ensured::Running(started) => Ok(started),
            Ensured::Failed(failure) => {
                let message = failure.evidence.message.unwrap_or_default();
                let message = format!("`{}` did not start: {message}", self.name());
                Err(Fault::new(Kind::Engine, message).hint(format!("{}; see its log", failure.cause)))
            }
        }
    }

    /// Whether the engine serves a request of these limits as it runs, without another start; `None` before the first start. Of
    /// several engines it is the one that takes the next probe.
    pub fn serves(&self, requested: Limits) -> Option<bool> {
        let live = self.lock();
        match &live.running {
            Some(running) => {
                let covers = running.limits.is_none_or(|limits| limits.cover(&requested));
                Some(covers && live.health == Health::Good)
            }
            None => (live.tried > 0).then_some(false),
        }
    }

    /// Stops the engine unless it was attached to. The next probe starts it again.
    pub fn stop(&self) -> Result<()> {
        self.all()
            .try_for_each(|engine| engine.stop_running(&mut engine.lock()))
    }

    /// Production command-line flags for these limits, or for those of the running engine.
    pub fn flags(&self, limits: Option<Limits>) -> Result<Vec<String>> {
        let running = self.lock().running.as_ref().and_then(|running| running.limits);
        let limits = limits
            .or(running)
            .or(self.options.limits.map(Into::into))
            .ok_or_else(|| Fault::usage("flags need limits").hint("give `#{ input, output, concurrency }`"))?;
        self.production_flags(limits, true)
    }

    /// The same; `concurrency` says whether they should limit the number of concurrent requests.
    pub fn production_flags(&self, limits: Limits, concurrency: bool) -> Result<Vec<String>> {
        let mut flags = self.adapter.flags(&limits, concurrency)?;
        // The operator of an attached engine already knows how it was started.
        if self.runtime != RuntimeKind::Attach {
            flags.extend(self.adapter.settings(&self.adapter_options(Some(limits)))?);
        }
        Ok(flags)
    }

    /// The engine's current queue, KV cache and counters. Empty if it does not run or has no metrics page.
    pub fn metrics(&self) -> Result<EngineMetrics> {
        let live = self.lock();
        let Some(page) = live.running.as_ref().and_then(|running| self.page(running)) else {
            return Ok(EngineMetrics::default());
        };
        let facts = self.wait(async { Ok(page.fetch().await) })?;
        Ok(facts.unwrap_or_default().pop().unwrap_or_default())
    }

    /// What is known about the engine. Before a start, facts that only a running engine reports are missing.
    pub fn info(&self) -> Info {
        match &self.lock().running {
            Some(running) => running.info.clone(),
            None => Info::before(
                self.name(),
                self.options.model.as_deref(),
                self.runtime == RuntimeKind::Sim,
            ),
        }
    }

    /// The newest log lines.
    pub fn logs(&self, last: usize) -> Vec<String> {
        let live = self.lock();
        live.running
            .as_ref()
            .map_or_else(Vec::new, |running| running.server.last(last))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }

    /// The metrics page of a running engine, if it has one.
    pub(super) fn page(&self, running: &Running) -> Option<MetricsPage> {
        let rules = &self.rules.facts.metrics;
        (!rules.path.is_empty()).then(|| MetricsPage {
            client: self.client.clone(),
            url: format!("{}{}", running.server.base_url(), rules.path),
            rules: rules.clone(),
            run: Arc::clone(&self.context.run),
        })
    }

    /// The limits to start with if memory allows: the given ones, or the search range of the newest boundary.
    pub(super) fn full_limits(&self, requested: Limits) -> Limits {
        match self.options.limits {
            Some(limits) => Limits::from(limits).join(requested),
            None => Limits::from_axes((self.context.axes)().as_ref(), requested),
        }
    }

    pub(super) fn ensure(&self, live: &mut Live, requested: Limits) -> Result<Ensured> {
        let whole = self.full_limits(requested);
        // A running engine is not stopped for a point that no start can serve.
        if let Some(running) = &live.running
            && running.limits.is_some_and(|limits| !limits.cover(&requested))
            && let Err(failure) = self.next_start(whole, requested)
        {
            return Ok(Ensured::Failed(failure));
        }
        self.drop_unusable(live, requested)?;
        if live.running.is_some() {
            return Ok(Ensured::Running(false));
        }
        if self.context.dry_run {
            return Err(self.preview(whole)?);
        }
        if self.runtime == RuntimeKind::Attach {
            let _starting = lock(&self.starting);
            let ready = self.attach_to(self.find()?, &mut live.stages)?;
            self.register_running(live, ready, None)?;
            return Ok(Ensured::Running(true));
        }
        if live.tried == 0 {
            self.check_model()?;
        }
        let mut failures = 0;
        loop {
            let limits = match self.next_start(whole, requested) {
                Ok(limits) => limits,
                Err(failure) => return Ok(Ensured::Failed(failure)),
            };
            self.wait_for_baseline(&mut live.baseline)?;
            live.stages = MemoryStages {
                before: self.gpus()?.map(|mut source| source.read()).transpose()?,
                began: Some(Instant::now()),
                ..MemoryStages::default()
            };
            live.tried += 1;
            match self.start_with(limits, &mut live.stages)? {
                Ok(ready) => {
                    self.register_running(live, ready, Some(limits))?;
                    return Ok(Ensured::Running(true));
                }
                Err(failure) if failure.is_permanent() => {
                    self.context.run.note(Event::StartFailed {
                        args: self.start_args(),
                        failure: json!(failure),
                    })?;
                    lock(&self.starts).failed.push(failure);
                }
                Err(failure) => {
                    failures += 1;
                    if failure.may_pass() && failures < MAX_STARTS {
                        self.context.tasks.sleep(START_PAUSE * failures)?;
                    } else if lock(&self.starts).served {
                        return Ok(Ensured::Failed(Box::new(failure)));
                    } else {
                        return Err(self.cannot_start(&failure));
                    }
                }
            }
        }
    }

    /// A model that is not there, or that the hub does not give to this user, costs no start.
    fn check_model(&self) -> Result<()> {
        let named = self.options.model.as_deref();
        let Some(name) = named.filter(|_| self.runtime != RuntimeKind::Sim) else {
            return Ok(());
        };
        let is_path = name.starts_with(['/', '.', '~']) || name.ends_with(".gguf");
        if is_path && !self.context.home.join(name).exists() {
            return Err(Fault::missing(
                format!("there is no model `{name}`"),
                "check the path; a model of the Hugging Face hub is named `org/name`",
            ));
        }
        match self.hub_model() {
            Some(model) => self.wait(async { Hub::from_env()?.check_gate(&model).await }),
            None => Ok(()),
        }
    }

    /// The model as one of the hub's; `None` if it is a file or folder.
    pub(super) fn hub_model(&self) -> Option<ModelId> {
        let name = self.options.model.as_deref().filter(|name| name.contains('/'))?;
        match &self.options.revision {
            Some(revision) => format!("{name}@{revision}").parse().ok(),
            None => name.parse().ok(),
        }
    }

    /// Stops an engine that has exited, no longer answers, or was started for smaller limits.
    fn drop_unusable(&self, live: &mut Live, requested: Limits) -> Result<()> {
        let Some(running) = &live.running else { return Ok(()) };
        let covers = running.limits.is_none_or(|limits| limits.cover(&requested));
        let usable = covers
            && self.wait(running.server.exit())?.is_none()
            && match live.health {
                Health::Good => true,
                Health::Suspect => self.recovers(running)?,
                // An attached engine may have been restarted by its operator.
                Health::Lost => !running.server.ours() && self.recovers(running)?,
            };
        live.health = Health::Good;
        if usable {
            return Ok(());
        }
        if !running.server.ours() {
            return Err(Fault::missing(
                "the attached engine no longer answers",
                "start it again, and resume the run",
            ));
        }
        self.stop_running(live)
    }

    /// Whether an engine answers again after a failure and has no requests left.
    pub(super) fn recovers(&self, running: &Running) -> Result<bool> {
        let deadline = tokio::time::Instant::now() + RECOVERY;
        let mut options = self.adapter_options(running.limits);
        if !running.server.ours() {
            options["model"] = json!(running.info.model);
        }
        loop {
            if self.wait(running.server.exit())?.is_some() {
                return Ok(false);
            }
            let mut idle = true;
            if let Some(page) = self.page(running) {
                let metrics = self.wait(async { Ok(page.fetch().await) })?;
                // No new snapshot means that nothing has run since the last poll.
                idle = metrics.is_some_and(|facts| facts.last().is_none_or(|newest| newest.queue.is_idle()));
            }
            if idle {
                match self.readiness(&running.server, &options)? {
                    Readiness::Ready => return Ok(true),
                    // It lives, and lets no request in for now.
                    Readiness::Rejecting(rejection) if rejection.status == 429 => return Ok(true),
                    Readiness::Rejecting(rejection) if rejection.remedy.is_some() => return Ok(false),
                    Readiness::Failed(_) => return Ok(false),
                    Readiness::Rejecting(_) | Readiness::NotYet => {}
                }
            }
            if tokio::time::Instant::now() >= deadline {
                return Ok(false);
            }
            self.context.tasks.sleep(Duration::from_millis(50))?;
        }
    }

    fn register_running(&self, live: &mut Live, mut ready: Ready, limits: Option<Limits>) -> Result<()> {
        let (mut info, mut facts) = self.read_info(&mut ready)?;
        let gauges = self.read_gauges(&ready.server)?;
        if info.kv_tokens.is_none() {
            let pool = gauges.iter().find(|fact| fact.name == "kv_tokens");
            info.kv_tokens = pool.and_then(|fact| fact.value.as_u64());
            info.reported.kv_tokens = info.kv_tokens;
        }
        facts.extend(gauges);
        let log = ready.server.service.logs().lines_since(0);
        facts.extend(self.read_lines(&log, &ready.server, ready.sampler.as_ref()));
        let facts_read = log.last().map_or(0, |line| line.number + 1);
        // An attached engine or a process may be simulated too; its version says so.
        if info.simulated {
            self.context.run.set_simulated();
        }
        let mut running = Running {
            server: ready.server,
            key: self.key.clone(),
            sampler: ready.sampler,
            limits,
            info,
            accepted: Accepted::default(),
            facts,
            facts_read,
            rejected: 0,
            waited: Duration::ZERO,
        };
        self.find_form(&mut running, &ready.asked)?;
        self.context.run.note(Event::Engine {
            info: json!({
                "info": running.info,
                "facts": ready.facts,
                "limits": limits,
                "request": (running.accepted != Accepted::default()).then_some(&running.accepted),
                "memory_source": running.sampler.as_ref().map(Sampler::source),
                "memory_total": running.sampler.as_ref().map(|sampler| sampler.latest().total()),
                "runtime": self.runtime,
                "launched": running.server.service.info(),
                "options": self.shown,
            }),
        })?;
        for how in degraded(&ready.facts, &self.rules.facts.parts, self.gpu_vendor().is_some()) {
            let message = format!("`{}` serves another configuration than asked: {how}", self.name());
            self.warn("other_configuration", message)?;
        }
        live.health = Health::Good;
        lock(&self.starts).serves(running.info.kv_tokens);
        live.running = Some(running);
        Ok(())
    }

    /// Cleans up an engine that has exited.
    pub(super) fn stop_if_exited(&self, live: &mut Live) -> Result<()> {
        let dead = match &live.running {
            Some(running) => self.wait(running.server.exit())?.is_some(),
            None => false,
        };
        if dead { self.stop_running(live) } else { Ok(()) }
    }

    fn stop_running(&self, live: &mut Live) -> Result<()> {
        let Some(running) = live.running.take() else {
            return Ok(());
        };
        self.phase("stopping", self.name())?;
        self.end_server(&mut live.stages, &running.server, running.sampler, self.name())
    }

    /// How the engine exited after these requests, and whether it still serves. Only checked after failures that may have
    /// damaged it, or if `died`: its death was already noticed. If a connection broke, waits for the exit.
    pub(super) fn state_after(
        &self,
        running: &Running,
        answers: &[Record],
        died: bool,
    ) -> Result<(Option<Exit>, Option<bool>)> {
        let failed: Vec<&Record> = answers.iter().filter(|answer| !succeeded(answer)).collect();
        if failed.is_empty() && !died {
            return Ok((None, None));
        }
        let failures = || failed.iter().filter_map(|answer| Some(answer.failure()?.form));
        // A server that closes the connection after each answer does so when it is killed, too.
        let unfinished = |answer: &&Record| answer.outcome == Outcome::Completed;
        let broke = |form| {
            use FailureForm::{Broken, EndedEarly, Unreachable};
            matches!(form, EndedEarly | Broken | Unreachable)
        };
        let broken = died || failed.iter().any(unfinished) || failures().any(broke);
        let exit = self.wait(running.server.ended(broken))?;
        if exit.is_some() {
            return Ok((exit, Some(false)));
        }
        if !died && !failures().any(may_damage) {
            return Ok((None, None));
        }
        if self.recovers(running)? {
            return Ok((None, Some(true)));
        }
        // Engines report an error first and exit a moment later.
        Ok((self.wait(running.server.exit())?, Some(false)))
    }
}

/// Whether such a failure may have damaged the engine.
fn may_damage(form: FailureForm) -> bool {
    match form {
        // TGI answers 424 where other engines answer 500.
        FailureForm::Status(status) => status >= 500 || status == 424,
        FailureForm::InStream | FailureForm::Broken | FailureForm::Unreachable | FailureForm::EndedEarly => true,
        FailureForm::Deadline | FailureForm::Malformed => false,
    }
}

/// Warns of an API key that cannot be kept out of what is written, or that others on the way can read.
fn warn_of_key(context: &Context, key: &ApiKey, url: &str) -> Result<()> {
    if !can_be_hidden(key.header().trim_start_matches("Bearer ")) {
        let message = "the API key is too plain to be hidden (8 characters of two kinds can be, or 12): it stays in what the server repeats of it";
        context.run.warn(Warning::new("plain_secret", message))?;
    }
    let url = server_url(url)?;
    if url.scheme() == "https" || http::is_loopback(&url) {
        return Ok(());
    }
    let host = url.host_str().unwrap_or_default();
    let message = format!("the API key is sent to `{host}` without TLS: others on the way can read it; use `https://`");
    context.run.warn(Warning::new("key_without_tls", message))
}

/// The options of several engines: where they differ, a list of what all have.
fn shown_together(engines: &[Engine]) -> Value {
    let mut shown = engines.first().map_or(Value::Null, |first| first.shown.clone());
    for (name, value) in shown.as_object_mut().into_iter().flatten() {
        if engines.iter().any(|other| other.shown[name] != *value) {
            let each = engines.iter().flat_map(|other| match &other.shown[name] {
                Value::Array(items) => items.clone(),
                one => vec![one.clone()],
            });
            *value = each.collect();
        }
    }
    shown
}

impl Drop for Engine {
    /// A script that ends need not stop its engine; the run does. The memory recorded until then is still written.
    fn drop(&mut self) {
        let live = self.live.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = live.running.take() else { return };
        if let Some(sampler) = &running.sampler {
            live.stages.record_peak(sampler);
        }
        let usage = live.stages.usage.clone();
        if let Err(fault) = self.write_memory(running.server.service.name(), running.sampler, &usage) {
            // The run continues; the warning says what is missing.
            let message = format!("the memory series was not written: {fault}");
            let _ = self.warn("series_not_written", message);
        }
    }
}
