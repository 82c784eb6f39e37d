//! An engine as scripts hold it: described first, started by the first probe, restarted when it must be.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Client;
use serde_json::json;

use super::fire::Page;
use super::info::Info;
use super::options::LaunchOptions;
use super::pace::Pace;
use super::plan::{Next, StartFailure, Starts};
use super::prompting::Prompting;
use super::rules::{Rules, degraded};
use super::server::Server;
use super::start::Ready;
use super::told::Told;
use super::usage::Life;
use super::{Adapter, Context, Limits, Readiness};
use crate::fault::{Fault, Result};
use crate::http;
use crate::load::joined::State;
use crate::run::Event;
use crate::runtime::RuntimeKind;
use crate::telemetry::{Reading, Sampler};

/// vLLM closes a connection that was idle for 5 s; one that is given up earlier is never found closed.
const IDLE: Duration = Duration::from_secs(2);

/// How long an engine that misbehaved may take to answer again before it is started anew.
const RECOVERY: Duration = Duration::from_secs(5);

/// An engine under test.
pub struct Engine {
    pub(super) context: Context,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) options: LaunchOptions,
    pub(super) runtime: RuntimeKind,
    pub(super) rules: Rules,
    pub(super) client: Client,
    live: Mutex<Live>,
}

/// What changes while an engine is used.
pub(super) struct Live {
    pub(super) running: Option<Running>,
    pub(super) pace: Pace,
    pub(super) prompting: Option<Prompting>,
    pub(super) trust: Trust,
    /// Probes that a dry run answered.
    pub(super) rehearsed: u64,
    /// Memory of the newest start by its stages.
    pub(super) life: Life,
    pub(super) starts: Starts,
    /// Starts that were tried.
    pub(super) tried: u64,
    /// Memory of the GPUs before the first start.
    pub(super) baseline: Option<Reading>,
}

/// Whether a running engine can be asked as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nothing speaks against it.
    Good,
    /// Something went wrong: whether it still serves must be seen first.
    Suspect,
    /// It was seen not to serve any more, whatever its process does.
    Lost,
}

impl Trust {
    /// After requests that all ended as they should, or did not.
    pub(super) fn after(well: bool) -> Self {
        if well { Self::Good } else { Self::Suspect }
    }
}

/// An engine that is up.
pub(super) struct Running {
    pub(super) server: Server,
    pub(super) sampler: Option<Sampler>,
    /// What it can serve; `None` where that is not ours to choose.
    pub(super) limits: Option<Limits>,
    pub(super) info: Info,
    /// What it told of itself until it was ready.
    pub(super) told: Vec<Told>,
    /// The number of lines that its log had then.
    pub(super) told_until: u64,
}

/// Whether the engine can be asked a point.
pub(super) enum Ensured {
    /// It runs; `true` when it had to be started.
    Running(bool),
    /// No start serves the point.
    Failed(Box<StartFailure>),
}

impl Engine {
    /// Describes an engine and starts nothing.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong option, or an adapter whose rules cannot be read; `not_allowed` for a model or tokenizer on this machine that the
    /// script may not read.
    pub fn describe(context: Context, adapter: Arc<dyn Adapter>, mut options: LaunchOptions) -> Result<Self> {
        options.check()?;
        options.find_model(&context.home);
        // Both may be read here, for the tokenizer.
        if let Some(model) = &options.model {
            context.permits.check_model(model, &context.home)?;
        }
        if let Some(tokenizer) = &mut options.tokenizer {
            *tokenizer = context.permits.check_model(tokenizer, &context.home)?;
        }
        let runtime = match options.runtime.as_deref() {
            None | Some("auto") if options.url.is_some() || options.container.is_some() => RuntimeKind::Attach,
            None | Some("auto") if adapter.name() == "sim" => RuntimeKind::Sim,
            None | Some("auto" | "docker") => RuntimeKind::Docker,
            Some("process") => RuntimeKind::Process,
            Some("attach") => RuntimeKind::Attach,
            Some("sim") => RuntimeKind::Sim,
            Some(other) => {
                return Err(Fault::usage(format!("there is no runtime `{other}`"))
                    .hint("one of: docker, process, attach, sim, auto"));
            }
        };
        if runtime == RuntimeKind::Attach {
            options.check_attached()?;
        }
        if options.in_process && matches!(runtime, RuntimeKind::Sim | RuntimeKind::Attach) {
            return Err(
                Fault::usage(format!("option `in_process` means nothing to the runtime `{runtime}`"))
                    .hint("it is for an engine that is started in a container or as a process"),
            );
        }
        let start = start_args(adapter.name(), &options);
        // What another version of this program kept in other words is tried again.
        let failed = context.run.failed_starts(&start).into_iter();
        let failed = failed.filter_map(|failure| serde_json::from_value(failure).ok());
        let starts = Starts::new(failed.collect());
        Ok(Self {
            rules: Rules::of(adapter.as_ref())?,
            client: http::build(
                http::direct()
                    .pool_idle_timeout(IDLE)
                    .pool_max_idle_per_host(usize::MAX),
            )?,
            context,
            adapter,
            options,
            runtime,
            live: Mutex::new(Live {
                running: None,
                pace: Pace::default(),
                prompting: None,
                trust: Trust::Good,
                rehearsed: 0,
                life: Life::default(),
                starts,
                tried: 0,
                baseline: None,
            }),
        })
    }

    /// The adapter's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.adapter.name()
    }

    /// Starts the engine, with limits that cover the whole box. Running already: nothing happens. Whether it had to be started.
    ///
    /// # Errors
    ///
    /// `engine` when it does not become ready; what the runtime needs and does not find is `missing`.
    pub fn start(&self) -> Result<bool> {
        match self.ensure(&mut self.lock(), Limits::SMALLEST)? {
            Ensured::Running(started) => Ok(started),
            Ensured::Failed(failure) => {
                let message = failure.evidence.message.unwrap_or_default();
                Err(Fault::new(
                    crate::fault::Kind::Engine,
                    format!("`{}` did not start: {message}", self.name()),
                )
                .hint(format!("{}; see its log", failure.cause)))
            }
        }
    }

    /// Ends the engine, unless it was attached to. The next probe starts it again.
    pub fn stop(&self) -> Result<()> {
        self.stop_running(&mut self.lock())
    }

    /// What to paste into a production command line: for these limits, or for those that the engine runs with.
    pub fn flags(&self, limits: Option<Limits>) -> Result<Vec<String>> {
        let running = self.lock().running.as_ref().and_then(|running| running.limits);
        let limits = limits
            .or(running)
            .or(self.options.limits.map(Into::into))
            .ok_or_else(|| Fault::usage("flags need limits").hint("give `#{ input, output, concurrency }`"))?;
        let mut flags = self.adapter.flags(&limits)?;
        // How one that runs already was started is its operator's to know.
        if self.runtime != RuntimeKind::Attach {
            flags.extend(self.adapter.settings(&self.adapter_options(Some(limits)))?);
        }
        Ok(flags)
    }

    /// The state of the engine's queue and KV cache now, and what it counted; all unknown where it does not run or does not tell.
    pub fn metrics(&self) -> Result<State> {
        let live = self.lock();
        let Some(page) = live.running.as_ref().and_then(|running| self.page(running)) else {
            return Ok(State::default());
        };
        let told = self.context.tasks.wait(async { Ok(page.look().await) })?;
        Ok(told.unwrap_or_default().pop().unwrap_or_default())
    }

    /// What is known of the engine; what only a running one tells is missing before its start.
    #[must_use]
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

    /// The newest lines that the engine wrote.
    #[must_use]
    pub fn logs(&self, last: usize) -> Vec<String> {
        self.lock()
            .running
            .as_ref()
            .map_or_else(Vec::new, |running| running.server.last(last))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the metrics page of a running engine is, if it has one.
    pub(super) fn page(&self, running: &Running) -> Option<Page> {
        let rules = &self.rules.metrics;
        (!rules.path.is_empty()).then(|| Page {
            client: self.client.clone(),
            url: format!("{}{}", running.server.base_url(), rules.path),
            rules: rules.clone(),
        })
    }

    /// What one start is to serve, where memory allows: the limits that were given, or the box of the newest boundary.
    pub(super) fn whole(&self, asked: Limits) -> Limits {
        match self.options.limits {
            Some(limits) => Limits::from(limits).join(asked),
            None => Limits::of_box((self.context.axes)().as_ref(), asked),
        }
    }

    /// Makes sure that the engine runs and serves `asked`.
    pub(super) fn ensure(&self, live: &mut Live, asked: Limits) -> Result<Ensured> {
        let whole = self.whole(asked);
        // An engine that runs is not given up for a point that no start serves.
        if let Some(running) = &live.running
            && running.limits.is_some_and(|limits| !limits.cover(&asked))
            && let Next::Hopeless(failure) = live.starts.next(whole, asked)
        {
            return Ok(Ensured::Failed(Box::new(failure.of_point(&asked))));
        }
        self.drop_unusable(live, asked)?;
        if live.running.is_some() {
            return Ok(Ensured::Running(false));
        }
        if self.context.dry_run {
            return Err(self.preview(whole)?);
        }
        if self.runtime == RuntimeKind::Attach {
            let ready = self.attach_to(self.find()?, &mut live.life)?;
            self.welcome(live, ready, None)?;
            return Ok(Ensured::Running(true));
        }
        loop {
            let limits = match live.starts.next(whole, asked) {
                Next::Try(limits) => limits,
                Next::Hopeless(failure) => return Ok(Ensured::Failed(Box::new(failure.of_point(&asked)))),
            };
            self.settle(&mut live.baseline)?;
            self.begin_life(&mut live.life)?;
            live.tried += 1;
            match self.start_with(limits, &mut live.life)? {
                Ok(ready) => {
                    self.welcome(live, ready, Some(limits))?;
                    return Ok(Ensured::Running(true));
                }
                Err(failure) if failure.lasts() => {
                    self.context.run.note(Event::StartFailed {
                        args: start_args(self.name(), &self.options),
                        failure: json!(failure),
                    })?;
                    live.starts.remember(failure);
                }
                Err(failure) => return Ok(Ensured::Failed(Box::new(failure))),
            }
        }
    }

    /// Puts away an engine that died, does not answer any more, or was started for less.
    fn drop_unusable(&self, live: &mut Live, asked: Limits) -> Result<()> {
        let Some(running) = &live.running else { return Ok(()) };
        let covers = running.limits.is_none_or(|limits| limits.cover(&asked));
        let usable = covers
            && self.context.tasks.wait(running.server.exit())?.is_none()
            && match live.trust {
                Trust::Good => true,
                Trust::Suspect => self.recovers(running)?,
                // One that is not ours to start may have been started again.
                Trust::Lost => !running.server.ours() && self.recovers(running)?,
            };
        live.trust = Trust::Good;
        if usable {
            return Ok(());
        }
        if !running.server.ours() {
            return Err(Fault::missing(
                "the engine that was attached to does not answer any more",
                "start it again, and resume the run",
            ));
        }
        self.stop_running(live)
    }

    /// Whether an engine that misbehaved answers, and has no request of ours left.
    pub(super) fn recovers(&self, running: &Running) -> Result<bool> {
        let deadline = std::time::Instant::now() + RECOVERY;
        let options = self.adapter_options(running.limits);
        loop {
            if self.context.tasks.wait(running.server.exit())?.is_some() {
                return Ok(false);
            }
            let idle = match self.page(running) {
                Some(page) => {
                    let metrics = self.context.tasks.wait(async { Ok(page.look().await) })?;
                    // A page that tells of no moment since the last look: nothing went on.
                    metrics.is_some_and(|told| {
                        let idle = |now: &State| now.running.unwrap_or(0) == 0 && now.waiting.unwrap_or(0) == 0;
                        told.last().is_none_or(idle)
                    })
                }
                None => true,
            };
            if idle {
                match self.adapter.ready(running.server.base_url(), &options)? {
                    Readiness::Ready => return Ok(true),
                    Readiness::Failed(_) => return Ok(false),
                    Readiness::NotYet => {}
                }
            }
            if std::time::Instant::now() >= deadline {
                return Ok(false);
            }
            self.context.tasks.sleep(Duration::from_millis(50))?;
        }
    }

    fn welcome(&self, live: &mut Live, mut ready: Ready, limits: Option<Limits>) -> Result<()> {
        let (info, mut told) = self.learn_info(&mut ready)?;
        told.extend(self.read_gauges(&ready.server)?);
        let log = ready.server.arrived(0);
        told.extend(self.read_lines(&log, &ready.server, ready.sampler.as_ref()));
        let told_until = log.last().map_or(0, |line| line.number + 1);
        // One that was attached to, or started as a process, says so in its version.
        if info.simulated {
            self.context.run.set_simulated();
        }
        self.context.run.note(Event::Engine {
            info: json!({
                "info": info,
                "facts": ready.facts,
                "limits": limits,
                "memory_total": ready.sampler.as_ref().map(|sampler| sampler.latest().total()),
                "runtime": self.runtime,
                "launched": ready.server.describe(),
                "options": self.options.shown(),
            }),
        })?;
        for how in degraded(&ready.facts, &self.rules.parts, self.gpu_vendor().is_some()) {
            self.context.run.warn(format!(
                "`{}` serves another configuration than asked: {how}",
                self.name()
            ))?;
        }
        live.trust = Trust::Good;
        live.starts.served(info.kv_tokens);
        live.running = Some(Running {
            server: ready.server,
            sampler: ready.sampler,
            limits,
            info,
            told,
            told_until,
        });
        Ok(())
    }

    /// Puts away an engine that has ended by itself.
    pub(super) fn put_away_dead(&self, live: &mut Live) -> Result<()> {
        let dead = match &live.running {
            Some(running) => self.context.tasks.wait(running.server.exit())?.is_some(),
            None => false,
        };
        if dead { self.stop_running(live) } else { Ok(()) }
    }

    fn stop_running(&self, live: &mut Live) -> Result<()> {
        let Some(running) = live.running.take() else {
            return Ok(());
        };
        self.phase("stopping", self.name())?;
        let (server, sampler) = (&running.server, running.sampler.as_ref());
        self.close_life(&mut live.life, server, sampler)?;
        self.context.tasks.finish(server.stop(self.grace()))?;
        let ended = self.end_life(&mut live.life, server, sampler);
        self.keep_memory(running.server.name(), running.sampler, live.life.usage())?;
        ended?;
        self.phase("stopped", self.name())
    }
}

/// By what a resume knows the starts of the same engine.
fn start_args(name: &str, options: &LaunchOptions) -> serde_json::Value {
    json!({ "engine": name, "launch": options.shown() })
}

impl Drop for Engine {
    /// A script that ends need not stop its engine: the run does. What memory did until then is kept all the same.
    fn drop(&mut self) {
        let live = self.live.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = live.running.take() else { return };
        if let Some(sampler) = &running.sampler {
            live.life.see_peak(sampler);
        }
        let usage = live.life.usage().clone();
        if let Err(fault) = self.keep_memory(running.server.name(), running.sampler, &usage) {
            // The run goes on to its end, and says what its folder lacks.
            let _ = self.context.run.warn(format!("the memory series is not kept: {fault}"));
        }
    }
}
