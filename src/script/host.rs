//! What primitives reach through the interpreter's tag.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rhai::{Dynamic, NativeCallContext};
use serde_json::{Map, Value};

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
    /// What the command line decided.
    pub settings: Settings,
    /// What the program learns while the script runs.
    pub state: Mutex<State>,
}

/// What the program learns while the script runs.
#[derive(Debug, Default)]
pub struct State {
    /// How many boundaries the script has made.
    pub boundaries: usize,
    /// Axes of the newest boundary: the box that engine start limits should cover.
    pub axes: Option<Value>,
    /// When the run began.
    pub begun: Begun,
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
#[must_use]
pub fn host(context: &NativeCallContext) -> Arc<Host> {
    context
        .tag()
        .and_then(Dynamic::clone_cast_host)
        .expect("the interpreter carries its host")
}

trait CloneCastHost {
    fn clone_cast_host(&self) -> Option<Arc<Host>>;
}

impl CloneCastHost for Dynamic {
    fn clone_cast_host(&self) -> Option<Arc<Host>> {
        self.clone().try_cast::<Arc<Host>>()
    }
}
