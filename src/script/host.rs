//! What primitives reach through the interpreter's tag.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use rhai::{Dynamic, NativeCallContext};
use serde_json::{Map, Value};

use super::meter::{MAX_MEMORY, MAX_OPERATIONS, Meter};
use super::source::{self, Sources};
use crate::engine::Engine;
use crate::prompt::Shelf;
use crate::report::Page;
use crate::run::Run;
use crate::runtime::{Permits, Services};
use crate::task::Tasks;

/// What the command line decided before the script began.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The main script; imports and adapters given by path are relative to its folder.
    pub script: PathBuf,
    /// `--params` and `--set`, merged: what `params()` lays over its defaults.
    pub set: Map<String, Value>,
    /// `--seed`, or one drawn and recorded.
    pub seed: u64,
    /// `--dry-run`: nothing is started.
    pub dry_run: bool,
    /// `--shared-gpu`: other tenants are tolerated.
    pub shared_gpu: bool,
    /// What reports of this run are drawn on.
    pub page: Page,
    /// `--max-operations`: operations between two primitives; otherwise 100 million.
    pub max_operations: Option<u64>,
    /// Resident bytes of the program at which a script is stopped; otherwise 400 MiB. Who runs several scripts in one process, as
    /// our tests do, allows more: the memory is the whole program's.
    pub max_memory: Option<u64>,
}

impl Settings {
    /// The folder that imports and adapters given by path stay below.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        source::folder(&self.script)
    }
}

/// The program as primitives see it.
pub struct Host {
    /// Waiting for asynchronous work.
    pub tasks: Tasks,
    /// The run: journal, replay, warnings.
    pub run: Arc<Run>,
    /// What the user allowed.
    pub permits: Permits,
    /// Everything that this run started: ended at the end, whatever happens.
    pub services: Arc<Services>,
    /// Tokenizers and prompts, shared by all that ask.
    pub prompts: Arc<Shelf>,
    /// What the command line decided.
    pub settings: Settings,
    /// The texts of the main script and of every module imported so far.
    pub sources: Arc<Sources>,
    /// What the script used since the last primitive.
    pub meter: Meter,
    /// What the program learns while the script runs.
    pub state: Mutex<State>,
}

impl Host {
    /// A program that knows nothing yet.
    #[must_use]
    pub fn new(tasks: Tasks, run: Arc<Run>, permits: Permits, services: Arc<Services>, settings: Settings) -> Self {
        Self {
            tasks,
            run,
            permits,
            services,
            prompts: Arc::default(),
            meter: Meter::new(
                settings.max_operations.unwrap_or(MAX_OPERATIONS),
                settings.max_memory.unwrap_or(MAX_MEMORY),
            ),
            settings,
            sources: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// What the program has learnt so far.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the program learns while the script runs.
#[derive(Default)]
pub struct State {
    /// How many boundaries the script has made.
    pub boundaries: usize,
    /// Axes of the newest boundary: the box that engine start limits should cover.
    pub axes: Option<Value>,
    /// The newest engine, while the script holds it: a report tells its flags. (It holds the host itself.)
    pub engine: Weak<Engine>,
    /// When the run began.
    pub begun: Begun,
    /// The parameters that the script runs with, once it has called `params`.
    pub params: Option<Map<String, Value>>,
}

/// The moment when it was made.
#[derive(Debug)]
pub struct Begun(pub Instant);

impl Default for Begun {
    fn default() -> Self {
        Self(Instant::now())
    }
}

/// The host behind a call. Every interpreter of ours carries one.
///
/// Every primitive begins with it, so that it is also where the script's count of operations starts anew, and where the place of
/// the call is noted: the interpreter gives the errors of `module::function` none.
#[must_use]
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
