//! Options shared by the commands that run scripts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::program::Program;
use crate::fault::Result;
use crate::report::Page;
use crate::run::{Run, add_secrets};
use crate::runtime::{Permits, Services, redact, server_url};
use crate::script::{Host, Settings, params};

/// What a script is run with.
#[derive(clap::Args, Debug, Default)]
pub(super) struct ScriptOptions {
    /// Set a parameter; VALUE is JSON, else a string; dots reach into maps: --set search.max_probes=20
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Parameters")]
    pub(super) set: Vec<String>,
    /// The model, an id or a folder: same as --set model=MODEL
    #[arg(long, help_heading = "Parameters")]
    model: Option<String>,
    /// The address of a server that runs already: same as --set url=URL
    #[arg(long, help_heading = "Parameters")]
    url: Option<String>,
    /// Parameters from a YAML, TOML or JSON file; --set wins
    #[arg(long, value_name = "FILE", help_heading = "Parameters")]
    pub(super) params: Option<PathBuf>,
    /// Seed of everything random; drawn and recorded when absent
    #[arg(long, value_name = "N", help_heading = "Parameters")]
    pub(super) seed: Option<u64>,
    /// Allow what a stranger's script may not do: token, process, exec, code, image=PREFIX, mount=DIR, net=HOST
    #[arg(long, value_name = "WHAT", help_heading = "Permissions and limits")]
    pub(super) allow: Vec<String>,
    /// Operations that a script may use between two calls of the API
    #[arg(long, value_name = "N", help_heading = "Permissions and limits")]
    pub(super) max_operations: Option<u64>,
    /// Measure although other processes use the GPU
    #[arg(long, help_heading = "Permissions and limits")]
    pub(super) shared_gpu: bool,
}

impl ScriptOptions {
    /// Creates the host of a script; a signal will end its services.
    pub(super) fn host(
        &self,
        script: &Path,
        set: Map<String, Value>,
        run: Arc<Run>,
        dry_run: bool,
        program: &Program,
    ) -> Result<Arc<Host>> {
        let settings = Settings {
            script: script.to_owned(),
            set,
            allow: self.allow.clone(),
            seed: run.seed(),
            dry_run,
            shared_gpu: self.shared_gpu,
            max_operations: self.max_operations,
            max_memory: None,
            page: Page::from(&program.terminal),
        };
        let permits = self.permits()?;
        let services = Arc::new(Services::default());
        program.signals.guard(&services);
        Ok(Arc::new(Host::new(
            program.tasks.clone(),
            run,
            permits,
            services,
            settings,
        )))
    }

    /// What the command line sets, in order.
    fn assignments(&self) -> Result<Vec<(&str, Value)>> {
        let short = [("model", &self.model), ("url", &self.url)];
        let short = short
            .into_iter()
            .filter_map(|(name, value)| Some(Ok((name, Value::String(value.clone()?)))));
        let set = self.set.iter().map(|text| params::assignment(text));
        short.chain(set).collect()
    }

    /// The parameters of `--params` and `--set`; the latter win. Registers secrets among them for redaction.
    pub(super) fn parameters(&self) -> Result<Map<String, Value>> {
        let mut map = match &self.params {
            Some(file) => params::read_file(file)?,
            None => Map::new(),
        };
        for (path, value) in self.assignments()? {
            params::assign(&mut map, path, value)?;
        }
        // Before anything of it is written or printed.
        add_secrets(redact::secrets(&Value::Object(map.clone())));
        Ok(map)
    }

    /// The permissions of `--allow`, and those implied by `--set`: an address, a container, a model's folder,
    /// and files that the user named there. A parameter file grants nothing: like the script, it may come from
    /// somebody else.
    pub(super) fn permits(&self) -> Result<Permits> {
        let mut permits = Permits::parse(&self.allow)?;
        for (path, value) in self.assignments()? {
            name_files(&mut permits, &value);
            let Value::String(value) = value else { continue };
            match path.rsplit('.').next().unwrap_or(path) {
                "url" => {
                    if let Ok(url) = server_url(&value) {
                        permits.name_url(&url);
                    }
                }
                "api_key_env" => permits.name_key(&value),
                "container" => permits.name_container(&value),
                "model" | "tokenizer" => {
                    // A name that is no folder is a model of the hub.
                    let _ = permits.name_model(Path::new(&value));
                }
                _ => {}
            }
        }
        Ok(permits)
    }
}

/// Permits every file that a value names. Missing files are reported when the script reads them.
fn name_files(permits: &mut Permits, value: &Value) {
    match value {
        Value::String(text) => {
            let _ = permits.name_file(Path::new(text));
        }
        Value::Array(values) => values.iter().for_each(|value| name_files(permits, value)),
        Value::Object(values) => values.values().for_each(|value| name_files(permits, value)),
        _ => {}
    }
}
