//! What an engine needs of the program around it.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::fault::Result;
use crate::prompt::Shelf;
use crate::run::Run;
use crate::runtime::{Permits, Services};
use crate::task::Tasks;
use crate::telemetry::Source;

/// The axes of the newest boundary, asked when an engine starts.
pub type Axes = Arc<dyn Fn() -> Option<Value> + Send + Sync>;

/// A look at the GPUs of these names; nothing where the machine has none.
pub type Gpus = Arc<dyn Fn(&[String]) -> Result<Option<Box<dyn Source>>> + Send + Sync>;

/// What an engine needs of the program around it.
#[derive(Clone)]
pub struct Context {
    /// Waiting for asynchronous work.
    pub tasks: Tasks,
    /// The run: journal, replay, events.
    pub run: Arc<Run>,
    /// What the user allowed.
    pub permits: Permits,
    /// Everything that this run started.
    pub services: Arc<Services>,
    /// Tokenizers and prompts of the run.
    pub shelf: Arc<Shelf>,
    /// The axes of the newest boundary.
    pub axes: Axes,
    /// Where the memory of GPUs is looked at.
    pub gpus: Gpus,
    /// The folder of the main script: relative paths of models start there.
    pub home: PathBuf,
    /// Seed of the prompts.
    pub seed: u64,
    /// Other tenants on the GPUs are tolerated.
    pub shared_gpu: bool,
    /// Nothing is started.
    pub dry_run: bool,
}
