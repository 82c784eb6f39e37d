//! The program as seen by the script API: what API functions reach through the interpreter's tag.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use rhai::{Dynamic, NativeCallContext};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::jobs::{Job, OwnTexts};
use super::meter::{MAX_MEMORY, MAX_OPERATIONS, Meter};
use super::source::{self, Sources};
use crate::engine::Engine;
use crate::prompt::PromptCache;
use crate::report::Page;
use crate::run::Run;
use crate::runtime::{Permits, Services};
use crate::task::Tasks;

/// Creates the interpreter of a host. API functions get it from the host, as `interpreter` itself depends on them.
pub(super) type Interpreter = fn(&Arc<Host>, &Path) -> rhai::Engine;

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
    /// Layout of terminal reports.
    pub page: Page,
    /// What the user wants of a fleet: `detach`, `cancel`, or nothing.
    pub wish: String,
    /// `--max-operations`: operations between two API calls; default 100 million.
    pub max_operations: Option<u64>,
    /// Resident bytes of the whole program at which a script is stopped; default 400 MiB. Tests that run several
    /// scripts in one process set more.
    pub max_memory: Option<u64>,
}

impl Settings {
    /// The folder that contains imports and adapters given by path.
    pub fn root(&self) -> PathBuf {
        source::folder(&self.script)
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
    /// State that changes while the script runs.
    pub state: Arc<Mutex<State>>,
    pub(super) interpreter: OnceLock<Interpreter>,
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
            state: Arc::default(),
            interpreter: OnceLock::new(),
        }
    }

    /// The same for code that is not the user's, such as an adapter of somebody else under a shipped script.
    pub(super) fn for_foreign_code(&self) -> Self {
        Self {
            permits: self.permits.for_foreign_code(),
            ..self.clone()
        }
    }

    /// The function that created the running interpreter.
    pub(super) fn interpreter(&self) -> Interpreter {
        *self.interpreter.get().expect("API functions run in an interpreter")
    }

    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State that changes while the script runs.
#[derive(Default)]
pub struct State {
    /// Number of boundaries that the script created.
    pub boundaries: usize,
    /// Axes of the latest boundary: engine start limits should cover its range.
    pub axes: Option<Value>,
    /// The latest engine, while the script holds it. Reports show its flags. Weak, because it holds the host.
    pub engine: Weak<Engine>,
    /// Jobs that the script prepared, by name.
    pub jobs: BTreeMap<String, Job>,
    /// What jobs of a script and these parameters run that does not ship with the program.
    pub checked_jobs: BTreeMap<String, Arc<OwnTexts>>,
    /// Whether the script ran a command, which may have begun something.
    pub commands: bool,
    /// Whether the script ended while its jobs go on elsewhere.
    pub left: bool,
    /// When the run started.
    pub started: StartTime,
    /// The effective parameters, once the script has called `params`.
    pub params: Option<Map<String, Value>>,
}

/// The time of its creation.
#[derive(Debug)]
pub struct StartTime(pub Instant);

impl Default for StartTime {
    fn default() -> Self {
        Self(Instant::now())
    }
}

/// The host behind an API call. Every interpreter carries one.
///
/// Every API function calls this first. So it also resets the operation count, and notes the call's position: Rhai
/// gives errors of `module::function` none.
pub fn host(context: &NativeCallContext) -> Arc<Host> {
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

/// The tag by which an interpreter carries its host.
pub(super) fn tag(host: &Arc<Host>) -> Dynamic {
    Dynamic::from(Arc::clone(host))
}
