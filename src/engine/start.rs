//! The server process or container behind an engine: started, waited for until it is ready, and a failed start
//! explained; then its log, its exit status and its address.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::facts::{FactValues, check_path, find, phase_of, strip_colours};
use super::failure::{Symptoms, allocations, classify};
use super::judge::excerpt;
use super::limits::StartFailure;
use super::options::wrong;
use super::served::AskedModel;
use super::usage::MemoryStages;
use super::{Context, Engine, Limits, Patience, Readiness, Rejection, RulePhase, WAIT, await_reachable, wait_longer};
use crate::boundary::Cause;
use crate::fault::{Fault, Kind, Result};
use crate::run::{Event, Evidence};
use crate::runtime::{Exit, HubModel, Launch, Mount, Origin, RuntimeKind, Service, StartContext, attach, start};
use crate::sim::Spec;
use crate::task::lock;
use crate::telemetry::{Phase, Reading, Sampler, Vendor, select};
use crate::warning::Warning;

/// Pauses between readiness checks. Short at first, because the simulated engine is ready immediately.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Seconds that an attached engine may take to answer.
const ATTACH_TIMEOUT: f64 = 5.0;

/// The remedy where something else than an engine may answer.
const OTHER_SERVER: &str = "see whether the address is that of an inference server, with the prefix of its path if it has one: `--url http://HOST:PORT/PREFIX`";

/// How often to list the processes of a starting server, before a failed one takes them with it.
const PROCESSES_EVERY: Duration = Duration::from_secs(1);

/// Log lines kept for an unexplained failure.
pub(super) const TAIL: usize = 40;

/// Why a server is not ready; if it says nothing, its time was up.
struct NotReady {
    exit: Option<Exit>,
    /// Alive, but it reported that it will not become ready.
    said: Option<String>,
    /// How it answered at last, if that is no success.
    rejection: Option<Rejection>,
}

impl NotReady {
    fn new(exit: Option<Exit>, said: Option<String>) -> Self {
        let rejection = None;
        Self { exit, said, rejection }
    }
}

impl Engine {
    /// Starts the engine with these limits. A failed start is an ordinary answer (the inner error); the outer error
    /// ends the script.
    pub(super) fn start_with(&self, limits: Limits, stages: &mut MemoryStages) -> Result<Result<Ready, StartFailure>> {
        let shown = format!("{} {limits}", self.name());
        self.phase("starting", &shown)?;
        let options = self.adapter_options(Some(limits));
        let launch = self.adapter.launch(&options)?;
        let server = {
            let _starting = lock(&self.starting);
            let server = self.launch(launch)?;
            self.phase("loading", &shown)?;
            server
        };
        let timeout = Duration::from_secs_f64(self.options.start_timeout.0);
        let waited = self.sample_memory(&server, stages, Phase::Loading).and_then(|sampler| {
            let state = self.poll_readiness(&server, &options, timeout, stages, sampler.as_ref())?;
            let asked = match state {
                Ok(()) => self.asked_model(&server)?,
                Err(_) => AskedModel::default(),
            };
            Ok((sampler, state, asked))
        });
        let (sampler, state, asked) = match waited {
            Ok(came) => came,
            Err(fault) => {
                self.context.tasks.finish(server.service.stop(self.grace()))?;
                return Err(fault);
            }
        };
        if let Some(sampler) = &sampler {
            sampler.mark(Phase::Ready);
        }
        let log = server.since(0);
        let facts = find(&self.rules.facts.log, &log);
        let Err(why) = state else {
            self.record_ready(stages, &server)?;
            self.phase("ready", &shown)?;
            return Ok(Ok(Ready {
                server,
                sampler,
                facts,
                asked,
            }));
        };
        let memory = sampler.as_ref().and_then(|sampler| sampler.series().peak());
        self.end_server(stages, &server, sampler, &shown)?;
        let mut failure = self.start_failure(limits, &why, &log, &facts);
        failure.evidence.memory = memory;
        Ok(Err(failure))
    }

    /// Waits for a server that already runs.
    pub(super) fn attach_to(&self, server: Server, stages: &mut MemoryStages) -> Result<Ready> {
        if let Some(url) = &self.options.url {
            let Context {
                permits,
                tasks,
                run,
                wait,
                ..
            } = &self.context;
            await_reachable(url, permits, tasks, run, *wait)?;
        }
        let usual = Duration::from_secs_f64(self.options.start_timeout.0.min(ATTACH_TIMEOUT));
        // Where the user says how long to wait, one that does not answer is waited for too.
        let timeout = self.context.wait.unwrap_or(usual);
        let mut options = self.adapter_options(None);
        let mut state = self.poll_readiness(&server, &options, timeout, stages, None)?;
        let mut asked = AskedModel::default();
        if state.is_ok() {
            asked = self.asked_model(&server)?;
            if asked.name != self.options.model && !asked.untried {
                // Ollama loads a model once it is known which.
                options["model"] = json!(asked.name);
                state = self.poll_readiness(&server, &options, timeout, stages, None)?;
            }
        }
        match state {
            Ok(()) => {
                let facts = find(&self.rules.facts.log, &server.since(0));
                *stages = MemoryStages {
                    attached: true,
                    began: Some(std::time::Instant::now()),
                    ..MemoryStages::default()
                };
                let sampler = self.sample_memory(&server, stages, Phase::Ready)?;
                self.record_ready(stages, &server)?;
                Ok(Ready {
                    server,
                    sampler,
                    facts,
                    asked,
                })
            }
            Err(NotReady {
                rejection: Some(rejection),
                ..
            }) => {
                let Rejection { status, message, .. } = &rejection;
                let message = format!("the attached engine is not ready: {message}");
                Err(match rejection.remedy {
                    Some(remedy) => Fault::missing(message, remedy),
                    None if matches!(status, 429 | 503) => Fault::missing(message, wait_longer(*status)),
                    None => Fault::missing(message, OTHER_SERVER),
                })
            }
            Err(NotReady { said: Some(why), .. }) => Err(Fault::missing(
                format!("the attached engine is not ready: {}", why.trim()),
                OTHER_SERVER,
            )),
            Err(_) => Err(Fault::missing(
                format!(
                    "the engine at `{}` is not ready after {} s",
                    super::options::without_password(server.base_url()),
                    timeout.as_secs_f64()
                ),
                "wait until it has loaded its model, or name the URL or container where it runs",
            )),
        }
    }

    fn poll_readiness(
        &self,
        server: &Server,
        options: &Value,
        timeout: Duration,
        stages: &mut MemoryStages,
        sampler: Option<&Sampler>,
    ) -> Result<Result<(), NotReady>> {
        let deadline = Instant::now() + timeout;
        let mut pause = FIRST_PAUSE;
        let mut patience = self.patience();
        let mut last_listed = Instant::now();
        loop {
            if last_listed.elapsed() >= PROCESSES_EVERY {
                self.record_processes(stages, server)?;
                if let Some(sampler) = sampler {
                    self.show_memory(sampler)?;
                }
                if let Some(line) = server.last(1).pop() {
                    let line = excerpt(&line);
                    self.context.run.note(Event::Log { line })?;
                }
                last_listed = Instant::now();
            }
            if let Some(exit) = self.wait(server.exit())? {
                return Ok(Err(NotReady::new(Some(exit), None)));
            }
            let mut not_ready = NotReady::new(None, None);
            match self.readiness(server, options)? {
                Readiness::Ready => return Ok(Ok(())),
                Readiness::Failed(why) => return Ok(Err(NotReady::new(None, Some(why)))),
                Readiness::Rejecting(rejection) if server.ours() => {
                    // It would answer so for ever.
                    if let Some(remedy) = &rejection.remedy {
                        let said = format!("{}; {remedy}", rejection.message);
                        return Ok(Err(NotReady::new(None, Some(said))));
                    }
                }
                Readiness::Rejecting(rejection) => {
                    let (passes, remedy) = (rejection.passes(), rejection.remedy.is_some());
                    if passes && patience.wait(&rejection.message, rejection.retry_after)? {
                        continue;
                    }
                    not_ready.rejection = Some(rejection);
                    if passes || remedy {
                        return Ok(Err(not_ready));
                    }
                }
                Readiness::NotYet if !server.ours() && self.context.wait.is_some() => {
                    if patience.wait("the server does not answer yet", None)? {
                        continue;
                    }
                }
                Readiness::NotYet => {}
            }
            if Instant::now() >= deadline {
                return Ok(Err(not_ready));
            }
            self.context.tasks.sleep(pause)?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn start_failure(&self, limits: Limits, why: &NotReady, log: &[String], facts: &FactValues) -> StartFailure {
        let NotReady { exit, said, .. } = why;
        let symptoms = Symptoms {
            exit: exit.as_ref(),
            messages: said.as_slice(),
            log,
        };
        let found = classify(&self.rules.failures, RulePhase::Start, symptoms);
        let (cause, line) = found.map_or((None, None), |found| (found.cause, found.line));
        let message = match (line.as_ref().or(said.as_ref()), exit) {
            (Some(said), _) => said.trim().to_owned(),
            (None, Some(exit)) if exit.oom_killed => "the OOM killer ended the engine while it started".to_owned(),
            (None, Some(exit)) => exit
                .stopped_by()
                .unwrap_or_else(|| format!("it exited with {} before it was ready", exit.status())),
            (None, None) => format!("the engine was not ready after {} s", self.options.start_timeout.0),
        };
        let memory = cause == Some(Cause::Memory);
        let log_shown = match line {
            Some(line) if memory || cause == Some(Cause::LengthLimit) => vec![line],
            _ => last_words(log),
        };
        let unexplained = match (exit, said) {
            (Some(_), _) => Cause::Exited,
            (None, Some(_)) => Cause::Engine,
            (None, None) => Cause::Timeout,
        };
        StartFailure {
            limits,
            cause: cause.unwrap_or(unexplained),
            longest: facts.get("longest").and_then(Value::as_u64),
            evidence: Evidence {
                message: Some(message),
                log: log_shown,
                phase: phase_of(&self.rules.facts.progress, log),
                allocations: if memory { allocations(log) } else { Vec::new() },
                exit_code: exit.as_ref().and_then(|exit| exit.code),
                oom_killed: exit.as_ref().map(|exit| exit.oom_killed),
                limits: Some(limits),
                ..Evidence::default()
            },
        }
    }

    /// The fault that ends a run: no other start would succeed either.
    pub(super) fn cannot_start(&self, failure: &StartFailure) -> Fault {
        let said = failure.evidence.message.as_deref().unwrap_or_default();
        let folder = self.context.run.folder();
        let logs = folder.map_or_else(String::new, |folder| {
            format!("; its whole log is in `{}`", folder.join("logs").display())
        });
        let lines: String = failure
            .evidence
            .log
            .iter()
            .map(|line| format!("\n    {line}"))
            .collect();
        Fault::new(
            Kind::StartFailed,
            format!("`{}` cannot start: {said}{lines}", self.name()),
        )
        .hint(format!("{}{logs}", failure.cause.remedy().unwrap_or(REMEDY)))
    }

    /// The options as the adapter sees them: every key, the chosen runtime, this start's limits, mounts for a local
    /// model and the GPU vendor.
    pub(super) fn adapter_options(&self, limits: Option<Limits>) -> Value {
        let mut options = json!(self.options);
        options["runtime"] = json!(self.runtime);
        options["limits"] = json!(limits);
        options["mounts"] = json!(self.model_mounts());
        options["gpu_vendor"] = json!(self.gpu_vendor());
        options
    }

    /// The launch that serves the whole search range and what is requested.
    pub(super) fn launch_for(&self, requested: Limits) -> Result<Launch> {
        self.adapter
            .launch(&self.adapter_options(Some(self.full_limits(requested))))
    }

    /// Whether a server is ready, with the options that it was started with.
    pub(super) fn readiness(&self, server: &Server, options: &Value) -> Result<Readiness> {
        self.adapter.ready(server.base_url(), options, self.key.as_ref())
    }

    /// `nvidia` or `amd`, because images differ. `None` if no GPUs are requested or found.
    pub(super) fn gpu_vendor(&self) -> Option<Vendor> {
        if self.options.gpus.is_empty() || self.runtime == RuntimeKind::Sim {
            return None;
        }
        // A missing GPU is reported by the runtime when it is assigned.
        select(&self.options.gpus).ok()?.first().map(|gpu| gpu.vendor)
    }

    /// The folder of a local model, mounted read-only under the same path.
    fn model_mounts(&self) -> Vec<Mount> {
        let model = self.options.model.as_deref().map(Path::new);
        let Some(path) = model.filter(|path| path.is_absolute()) else {
            return Vec::new();
        };
        let folder = path.parent().filter(|_| path.is_file()).unwrap_or(path);
        let folder = folder.display().to_string();
        vec![Mount {
            host: folder.clone(),
            container: folder,
            writable: false,
        }]
    }

    /// The time that a server is waited for.
    pub(super) fn patience(&self) -> Patience<'_> {
        let context = &self.context;
        Patience::new(&context.tasks, &context.run, context.wait.unwrap_or(WAIT))
    }

    pub(super) fn phase(&self, phase: &str, detail: &str) -> Result<()> {
        self.context.run.note(Event::Phase {
            phase: phase.to_owned(),
            detail: detail.to_owned(),
        })
    }

    pub(super) fn warn(&self, kind: &str, message: impl Into<String>) -> Result<()> {
        self.context.run.warn(Warning::new(kind, message))
    }

    pub(super) fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.options.stop_grace.0)
    }
}

/// The remedy for a failed start whose cause has none of its own.
const REMEDY: &str =
    "mend what its last lines say; if they say that memory was short, ask for shorter or fewer requests";

/// The first error in a log, and its last lines. Of several processes the first one to fail says why.
fn last_words(log: &[String]) -> Vec<String> {
    const LAST: usize = 12;
    let lines: Vec<&str> = log
        .iter()
        .map(|line| line.trim_end())
        .filter(|line| !line.is_empty())
        .collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(LAST));
    // The name of a process and a place may stand before it.
    let is_error = |line: &&&str| {
        let (_, said) = line.rsplit_once("] ").unwrap_or(("", line));
        let kind = said.trim_start().split_once(": ").map(|(kind, _)| kind);
        kind.is_some_and(|kind| kind.ends_with("Error") && !kind.contains(' '))
    };
    let first = before.iter().find(is_error);
    first.into_iter().chain(last).map(|line| (*line).to_owned()).collect()
}

impl Engine {
    /// Starts the server that the adapter describes.
    pub(super) fn launch(&self, mut launch: Launch) -> Result<Server> {
        launch.in_process |= self.options.in_process;
        let weights = !self.options.random_weights;
        launch.model = self.hub_model().map(|id| HubModel { id, weights });
        if let Some(spec) = launch.sim.take() {
            // Files named by a script are relative to its folder.
            launch.sim = Some(json!(Spec::from_script(spec, &self.context.home)?));
        }
        let mut words = launch.command.iter().chain(launch.env.values());
        if self.runtime == RuntimeKind::Process && words.any(|word| word.contains("{port}")) {
            // The adapter's port is the one inside a container; on this machine it may be taken.
            launch.port = self.options.port.unwrap_or_default();
        }
        let context = self.start_context(self.origin()?);
        let service = self.wait(start(self.runtime, &launch, &context))?;
        Server::new(service)
    }

    /// Connects to a server that already runs.
    pub(super) fn find(&self) -> Result<Server> {
        if self.options.url.is_some() && self.options.container.is_some() {
            return wrong("`url` and `container` are both given", "give one of them");
        }
        let Some(target) = self.options.target() else {
            return wrong(
                "nothing to attach to",
                "give `url`, or the name of a running `container`",
            );
        };
        let context = self.start_context(Origin::Script);
        Server::new(self.wait(attach(&target, &context))?)
    }

    pub(super) fn start_context(&self, origin: Origin) -> StartContext {
        StartContext {
            run: Arc::clone(&self.context.run),
            permits: self.context.permits.clone(),
            services: Arc::clone(&self.context.services),
            origin,
            prefix: "engine".to_owned(),
        }
    }

    /// Who decides what is started.
    pub(super) fn origin(&self) -> Result<Origin> {
        if !self.adapter.shipped() {
            return Ok(Origin::Script);
        }
        Ok(Origin::ShippedAdapter {
            replaced: self.options.image.is_some() || self.options.program.is_some(),
            unlisted: self.adapter.harmless()?.unlisted(&self.options),
        })
    }
}

/// How long to wait for the exit of an engine that broke a stream: the exit is reported after the socket closes.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Server {
    pub(super) service: Arc<Service>,
    base_url: String,
}

impl Server {
    pub(super) fn new(service: Arc<Service>) -> Result<Self> {
        let base_url = service
            .base_url()
            .ok_or_else(|| {
                Fault::usage("the engine listens on no port").hint("let `launch(options)` of the adapter give `port`")
            })?
            .to_owned();
        Ok(Self { service, base_url })
    }

    /// URL without a trailing slash.
    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(super) fn url(&self, path: &str) -> Result<String> {
        check_path(path)?;
        Ok(format!("{}{path}", self.base_url))
    }

    /// Whether we started it and may restart it.
    pub(super) fn ours(&self) -> bool {
        self.service.kind() != RuntimeKind::Attach
    }

    /// The exit status, if the process has exited.
    pub(super) async fn exit(&self) -> Result<Option<Exit>> {
        Ok(self.service.state().await?.exit().cloned())
    }

    /// The exit status, if the process has exited. If a connection just broke, waits briefly, because the exit is
    /// reported after the socket closes. Attached servers are never waited for.
    pub(super) async fn ended(&self, broke: bool) -> Result<Option<Exit>> {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            let exit = self.exit().await?;
            if exit.is_some() || !broke || !self.ours() || Instant::now() >= deadline {
                return Ok(exit);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Log lines since the cursor, without colour codes.
    pub(super) fn since(&self, cursor: u64) -> Vec<String> {
        strip_colours(&self.service.logs().since(cursor).0)
    }

    /// The newest log lines, without colour codes.
    pub(super) fn last(&self, count: usize) -> Vec<String> {
        strip_colours(&self.service.logs().last(count))
    }

    /// A reader of the simulated device's memory, if this is the simulated engine.
    pub(super) fn simulated(&self) -> Option<impl Fn() -> Reading + Send + 'static + use<>> {
        self.service.sim().map(|handle| handle.reader())
    }

    /// Seconds of real time per second of model time, if this is the simulated engine.
    pub(super) fn time_scale(&self) -> Option<f64> {
        self.service.sim().map(|handle| handle.time_scale)
    }
}

/// A server that is ready.
pub(super) struct Ready {
    pub(super) server: Server,
    pub(super) sampler: Option<Sampler>,
    /// Facts in its start log.
    pub(super) facts: FactValues,
    /// The model that requests name.
    pub(super) asked: AskedModel,
}
