//! Options shared by the commands that run scripts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::program::Program;
use crate::fault::Result;
use crate::report::Page;
use crate::run::{Run, add_secrets, is_remembered, named_secrets, remember};
use crate::runtime::{Permits, Services};
use crate::script::{Host, Main, Settings, Source, params};

/// What a script is run with.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct ScriptOptions {
    /// Set a parameter; VALUE is JSON, else a string; dots reach into maps: --set search.max_probes=20
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Parameters")]
    pub(super) set: Vec<String>,
    /// The model, an id or a folder: same as --set model=MODEL
    #[arg(long, help_heading = "Parameters")]
    pub(super) model: Option<String>,
    /// The address of a server that runs already: same as --set url=URL
    #[arg(long, help_heading = "Parameters")]
    pub(super) url: Option<String>,
    /// Parameters from a YAML, TOML or JSON file; --set wins
    #[arg(long, value_name = "FILE", help_heading = "Parameters")]
    pub(super) params: Option<PathBuf>,
    /// Seed of everything random; drawn and recorded when absent
    #[arg(long, value_name = "N", help_heading = "Parameters")]
    pub(super) seed: Option<u64>,
    /// Allow what a script may not do: token, process, exec, code, entrypoint, image=PREFIX, mount=PATH, net=HOST[:PORT], port=N,
    /// command=NAME
    #[arg(long, value_name = "WHAT", help_heading = "Permissions and limits")]
    pub(super) allow: Vec<String>,
    /// Operations that a script may use between two calls of the API
    #[arg(long, value_name = "N", help_heading = "Permissions and limits")]
    pub(super) max_operations: Option<u64>,
    /// Measure although other processes use the GPU
    #[arg(long, help_heading = "Permissions and limits")]
    pub(super) shared_gpu: bool,
    /// What the user wants of a fleet.
    #[arg(skip)]
    pub(super) wish: String,
}

impl ScriptOptions {
    /// Creates the host of a script; a signal will end its services.
    pub(super) fn host(
        &self,
        script: &Path,
        set: Map<String, Value>,
        run: Run,
        dry_run: bool,
        author: Author,
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
            wish: self.wish.clone(),
            max_memory: None,
            page: Page::from(&program.terminal),
        };
        let permits = self.permits(author, &run, &settings.set)?;
        let services = Arc::new(Services::default());
        program.signals.guard(&services);
        let host = Host::new(program.tasks.clone(), Arc::new(run), permits, services, settings);
        Ok(Arc::new(host))
    }

    /// What the command line sets, in order.
    fn assignments(&self) -> Result<Vec<(&str, Value)>> {
        let short = [("model", &self.model), ("url", &self.url)].into_iter();
        let short = short.filter_map(|(name, value)| Some(Ok((name, Value::String(value.clone()?)))));
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
        add_secrets(named_secrets(&Value::Object(map.clone())));
        Ok(map)
    }

    /// The permissions of `--allow`, and what `--set` names. A parameter of somebody else's script allows nothing,
    /// whatever its name. Neither does a parameter file: like the script, it may come from somebody else. What `--set` named
    /// to a shipped script is remembered with the run, so that `--resume` alone goes on with it.
    fn permits(&self, author: Author, run: &Run, set: &Map<String, Value>) -> Result<Permits> {
        let mut permits = Permits::parse(&self.allow)?;
        if author == Author::Stranger {
            return Ok(permits);
        }
        let mut named = Vec::new();
        for (path, value) in self.assignments()? {
            add_texts(path, &value, &mut named);
        }
        if run.folder().is_some() {
            let fact = |(path, text): &(String, String)| named_fact(run.id(), path, text);
            // Where nothing can be remembered, it is to be named again.
            let _ = remember(named.iter().map(fact), "");
            let mut recorded = Vec::new();
            for (path, value) in set {
                add_texts(path, value, &mut recorded);
            }
            let known = |one: &(String, String)| !named.contains(one) && is_remembered(&fact(one));
            recorded.retain(known);
            named.extend(recorded);
        }
        let named = named.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        permits.name(named, author == Author::User);
        Ok(permits)
    }
}

/// Adds the strings in a value, with the path of each.
fn add_texts(path: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((path.to_owned(), text.clone())),
        Value::Array(values) => values.iter().for_each(|value| add_texts(path, value, found)),
        Value::Object(values) => values
            .iter()
            .for_each(|(name, value)| add_texts(&format!("{path}.{name}"), value, found)),
        _ => {}
    }
}

/// The line by which it is remembered that the command line named this in a run. The text may hold a password.
fn named_fact(run: &str, path: &str, text: &str) -> String {
    format!("named {run} {}", Source::new("", &format!("{path}={text}")).sha256)
}

/// Who wrote a script, as far as its permissions depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    /// Anybody. The user's own scripts cannot be told from others'.
    Stranger,
    /// It ships with the program, unchanged.
    Shipped,
    /// The user types it.
    User,
}

impl Author {
    pub(super) fn of(main: &Main) -> Self {
        if main.has_shipped_text() {
            Self::Shipped
        } else {
            Self::Stranger
        }
    }
}
