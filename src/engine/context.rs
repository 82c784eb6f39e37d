//! What an engine needs from the rest of the program.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::fault::Result;
use crate::prompt::PromptCache;
use crate::run::Run;
use crate::runtime::{Permits, Services};
use crate::task::Tasks;
use crate::telemetry::Source;

/// Returns the axes of the newest boundary. Called when an engine starts.
pub type Axes = Arc<dyn Fn() -> Option<Value> + Send + Sync>;

/// Opens the memory source for the named GPUs; `None` if the machine has no GPUs.
pub type Gpus = Arc<dyn Fn(&[String]) -> Result<Option<Box<dyn Source>>> + Send + Sync>;

/// What an engine needs from the rest of the program.
#[derive(Clone)]
pub struct Context {
    /// Runs asynchronous work.
    pub tasks: Tasks,
    /// The run: journal, replay and events.
    pub run: Arc<Run>,
    /// What the user has allowed.
    pub permits: Permits,
    /// Everything that this run started.
    pub services: Arc<Services>,
    /// Tokenizers and prompts of the run.
    pub prompt_cache: Arc<PromptCache>,
    /// Axes of the newest boundary.
    pub axes: Axes,
    /// Opens the memory source of the GPUs.
    pub gpus: Gpus,
    /// Folder of the main script; relative model paths start here.
    pub home: PathBuf,
    /// Seed for prompts.
    pub seed: u64,
    /// Whether other processes may use the GPUs.
    pub shared_gpu: bool,
    /// Whether to start nothing.
    pub dry_run: bool,
}
