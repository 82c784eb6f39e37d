//! The program as seen by the script API: the host that API functions reach through the interpreter's tag, and the
//! handles of engines, services, fitted memory models and known boundaries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use rhai::{Dynamic, Map as ScriptMap, NativeCallContext};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::api::jobs::{Job, OwnTexts};
use super::meter::{MAX_MEMORY, MAX_OPERATIONS, Meter};
use super::source::Sources;
use super::{adapter, main_script, options};
use crate::boundary::KnownBoundary;
use crate::boundary::memory_model::MemoryModel;
use crate::engine::{Context, LaunchOptions, Pool, simulated_profile};
use crate::fault::{Fault, Result};
use crate::prompt::PromptCache;
use crate::report::Page;
use crate::run::Run;
use crate::runtime::{Exit, Launch, Origin, Permits, RuntimeKind, Services, StartContext};
use crate::task::{Tasks, lock};
use crate::warning::Warning;
use crate::{runtime, telemetry};

/// Settings from the command line.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The main script. Imports and adapters given by path are relative to its folder.
    pub script: PathBuf,
    /// `--params` and `--set`, merged: `params()` merges them into its defaults.
    pub set: Map<String, Value>,
    /// `--allow`, as given.
    pub allow: Vec<String>,
    /// `--seed`, or a random seed that was recorded.
    pub seed: u64,
    /// `--dry-run`: nothing is started.
    pub dry_run: bool,
    /// `--shared-gpu`: other processes on the GPU are tolerated.
    pub shared_gpu: bool,
    /// `--wait`: how long to wait for a server that is still loading.
    pub wait: Option<Duration>,
    /// Layout of terminal reports.
    pub page: Page,
    /// The requested action of a fleet: `detach`, `cancel`, `follow`, or empty.
    pub wish: String,
    /// `--max-operations`: operations between two API calls; default 100 million.
    pub max_operations: Option<u64>,
    /// Resident bytes of the whole program at which a script is stopped; default 400 MiB. Tests that run several
    /// scripts in one process raise it.
    pub max_memory: Option<u64>,
}

impl Settings {
    /// The folder that contains imports and adapters given by path.
    pub fn root(&self) -> PathBuf {
        main_script::folder(&self.script)
    }
}

/// Everything that API functions can reach.
#[derive(Clone)]
pub struct Host {
    /// Runs asynchronous work.
    pub tasks: Tasks,
    /// Journal, replay, warnings.
    pub run: Arc<Run>,
    /// Permissions given by the user.
    pub permits: Permits,
    /// Everything that this run started; stopped at its end.
    pub services: Arc<Services>,
    /// Tokenizers and prompts, shared by all users of the host.
    pub prompts: Arc<PromptCache>,
    /// Settings from the command line.
    pub settings: Settings,
    /// Texts of the main script and of all modules imported so far.
    pub sources: Arc<Sources>,
    /// Limits on what the script uses between two API calls.
    pub meter: Arc<Meter>,
    /// When the run started.
    pub started: Instant,
    /// State that changes while the script runs.
    pub state: Arc<Mutex<ScriptState>>,
}

impl Host {
    /// Creates a host with empty state.
    pub fn new(tasks: Tasks, run: Arc<Run>, permits: Permits, services: Arc<Services>, settings: Settings) -> Self {
        Self {
            tasks,
            run,
            permits,
            services,
            prompts: Arc::default(),
            meter: Arc::new(Meter::new(
                settings.max_operations.unwrap_or(MAX_OPERATIONS),
                settings.max_memory.unwrap_or(MAX_MEMORY),
            )),
            settings,
            sources: Arc::default(),
            started: Instant::now(),
            state: Arc::default(),
        }
    }

    /// A host for a script that is inspected but not run.
    pub fn idle(tasks: &Tasks, settings: Settings) -> Arc<Self> {
        let run = Arc::new(Run::ephemeral("check"));
        Arc::new(Self::new(
            tasks.clone(),
            run,
            Default::default(),
            Default::default(),
            settings,
        ))
    }

    /// The context for servers that the script starts. Their names begin with `prefix`.
    pub(super) fn start_context(&self, prefix: &str) -> StartContext {
        StartContext {
            run: Arc::clone(&self.run),
            permits: self.permits.clone(),
            services: Arc::clone(&self.services),
            origin: Origin::Script,
            prefix: prefix.to_owned(),
        }
    }

    /// A copy of the host with the permissions of foreign code, such as somebody else's adapter under a shipped script.
    pub(super) fn for_foreign_code(&self) -> Self {
        Self {
            permits: self.permits.for_foreign_code(),
            ..self.clone()
        }
    }

    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, ScriptState> {
        lock(&self.state)
    }
}

/// State that changes while the script runs.
#[derive(Default)]
pub struct ScriptState {
    /// Number of boundaries that the script created.
    pub boundaries: usize,
    /// Axes of the latest boundary: engine start limits should cover its range.
    pub axes: Option<Value>,
    /// The latest engine, while the script holds it. Reports show its flags. Weak, because it holds the host.
    pub engine: Weak<Pool>,
    /// Jobs that the script prepared, by name.
    pub jobs: BTreeMap<String, Job>,
    /// The texts of checked jobs that do not ship with the program, by script and parameters.
    pub checked_jobs: BTreeMap<String, Arc<OwnTexts>>,
    /// Whether the script ran a command, which may have started something.
    pub commands: bool,
    /// Whether the script ended while its jobs continue elsewhere.
    pub left: bool,
    /// The effective parameters, once the script has called `params`.
    pub params: Option<Map<String, Value>>,
}

/// Begins an API call: resets the operation count, notes the call's position, because Rhai gives errors of
/// `module::function` none, and returns the host, which every interpreter carries.
pub fn begin_call(context: &NativeCallContext) -> Arc<Host> {
    let host = context
        .tag()
        .and_then(|tag| tag.read_lock::<Arc<Host>>())
        .map(|host| Arc::clone(&host))
        .expect("the interpreter carries its host");
    host.meter.reset();
    if let Some(file) = context.call_source() {
        host.sources.note_call(file, context.call_position());
    }
    host
}

/// An engine, or several as one, shared by all copies of its handle.
#[derive(Clone)]
pub struct EngineHandle(pub Arc<Pool>);

impl EngineHandle {
    /// Describes the engine `name`, or several of that name as one. Options that are `()` or `""` count as not given.
    pub(super) fn describe(host: &Arc<Host>, name: &str, given: impl IntoIterator<Item = ScriptMap>) -> Result<Self> {
        let given = given
            .into_iter()
            .map(|one| one.into_iter().filter(|(_, value)| is_given(value)));
        let all: Vec<LaunchOptions> = given.map(|one| options(one.collect())).collect::<Result<_>>()?;
        let adapter = adapter::load(host, name)?;
        let engine = Arc::new(Pool::describe(&context(host), &adapter, all)?);
        if let (Some(Value::String(model)), Ok(Some(profile))) =
            (host.settings.set.get("model"), simulated_profile(engine.first()))
            && !model.is_empty()
            && *model != profile.model
        {
            host.run.warn(Warning::new(
                "model_not_simulated",
                format!(
                    "`{model}` is not simulated: the engine serves `{}`, the model of its profile `{}`; \
                     `--profile NAME` chooses another one",
                    profile.model, profile.name
                ),
            ))?;
        }
        host.state().engine = Arc::downgrade(&engine);
        Ok(Self(engine))
    }
}

fn is_given(value: &Dynamic) -> bool {
    !value.is_unit() && !value.as_immutable_string_ref().is_ok_and(|text| text.is_empty())
}

fn context(host: &Arc<Host>) -> Context {
    let axes = Arc::downgrade(host);
    let home = host.settings.script.parent().unwrap_or(Path::new(""));
    Context {
        tasks: host.tasks.clone(),
        run: Arc::clone(&host.run),
        permits: host.permits.clone(),
        services: Arc::clone(&host.services),
        prompt_cache: Arc::clone(&host.prompts),
        axes: Arc::new(move || {
            let host = axes.upgrade()?;
            let state = lock(&host.state);
            state.axes.clone()
        }),
        gpus: Arc::new(telemetry::gpus_if_any),
        home: home.to_owned(),
        seed: host.settings.seed,
        shared_gpu: host.settings.shared_gpu,
        wait: host.settings.wait,
        dry_run: host.settings.dry_run,
    }
}

#[derive(Clone, Debug)]
pub(super) struct Service(pub(super) Arc<runtime::Service>);

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LogOptions {
    /// Number of latest lines.
    pub(super) last: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TrialOptions {
    /// Whether a resume takes the answers within it.
    pub(super) in_parts: bool,
    /// The engine's number, from 1, if several are measured at the same time.
    pub(super) number: Option<u64>,
}

impl Service {
    /// Starts a service. Options of another runtime are an error.
    pub(super) fn start(host: &Host, kind: RuntimeKind, launch: &Launch) -> Result<Self> {
        check_runtime_options(kind, launch)?;
        if host.settings.dry_run {
            // A dry run refuses what a run would refuse.
            host.permits.check_launch(kind, launch, &Origin::Script)?;
            return Err(Fault::dry_run(match &launch.image {
                Some(image) => format!("the image `{image}` would be started"),
                None => format!(
                    "`{}` would be started",
                    launch.command.first().map_or("", String::as_str)
                ),
            }));
        }
        host.tasks
            .wait(runtime::start(kind, launch, &host.start_context("service")))
            .map(Self)
    }

    /// Waits until it exits; `None` if it is still running after `timeout`.
    pub(super) fn wait(&self, host: &Host, timeout: Option<Duration>) -> Result<Option<Exit>> {
        host.tasks.wait(async {
            let end = self.0.wait_exit();
            match timeout {
                None => end.await.map(Some),
                Some(timeout) => tokio::time::timeout(timeout, end).await.ok().transpose(),
            }
        })
    }

    pub(super) fn stop(&self, host: &Host, grace: Option<Duration>) -> Result<()> {
        host.tasks.wait(self.0.stop(grace.unwrap_or_else(|| self.0.grace())))
    }
}

fn check_runtime_options(kind: RuntimeKind, launch: &Launch) -> Result<()> {
    let (others, advice) = match kind {
        RuntimeKind::Docker => ("command sim", "use `entrypoint` and `args`"),
        _ => (
            "image entrypoint args mounts cache gpus shm_size ulimits memory_limit sim",
            "use `command`, or `docker::start`",
        ),
    };
    let (given, unset) = (json!(launch), json!(Launch::default()));
    match others.split(' ').find(|name| given[name] != unset[name]) {
        Some(name) => Err(Fault::usage(format!("option `{name}` does not apply to the runtime `{kind}`")).hint(advice)),
        None => Ok(()),
    }
}

/// A fitted model, shared by all copies of its handle.
#[derive(Clone)]
pub(super) struct ModelHandle(pub(super) Arc<MemoryModel>);

/// A known boundary, shared by all copies of its handle.
#[derive(Clone)]
pub(super) struct TruthHandle(pub(super) Arc<KnownBoundary>);
