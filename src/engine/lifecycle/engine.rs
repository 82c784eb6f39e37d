//! The object for one engine: its description, and its state behind a lock. [`ensure`](super::ensure) starts it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};

use super::options::{Context, LaunchOptions, wrong};
use super::patience::{Patience, WAIT};
use super::server::Server;
use super::state::{Live, Running};
use super::version;
use crate::engine::adapter::{Adapter, Readiness};
use crate::engine::verdict::bounds::StartHistory;
use crate::engine::verdict::rules::Rules;
use crate::engine::wire::page::{MetricsPage, read_page};
use crate::fault::{Kind, Result};
use crate::http::{self, ApiKey};
use crate::prompt::ModelId;
use crate::run::EnginePhase;
use crate::run::{Event, Limits, can_be_hidden};
use crate::runtime::{Launch, Mount, Origin, RuntimeKind, StartContext, api_key, server_url};
use crate::task::lock;
use crate::telemetry::{Vendor, select};
use crate::warning::Warning;

/// vLLM closes connections that were idle for 5 s. Closing them earlier avoids sending a request on a closed one.
const IDLE: Duration = Duration::from_secs(2);

/// An engine under test. The modules beside this one start it, keep it running and send requests to it.
pub struct Engine {
    pub(crate) context: Context,
    pub(crate) adapter: Arc<dyn Adapter>,
    pub(crate) options: LaunchOptions,
    pub(crate) runtime: RuntimeKind,
    pub(crate) rules: Rules,
    pub(crate) client: Client,
    /// The API key of an attached server.
    pub(crate) key: Option<ApiKey>,
    /// The options as the journal shows them: those of all engines of a pool.
    pub(crate) shown: Value,
    /// The starts so far of all engines of the pool.
    pub(crate) starts: Arc<Mutex<StartHistory>>,
    live: Mutex<Live>,
}

/// Whether an adapter of the user's own gives a command to start and no image.
fn starts_command(adapter: &dyn Adapter, options: &LaunchOptions) -> bool {
    if adapter.shipped() || options.image.is_some() {
        return false;
    }
    let mut seen = json!(options);
    seen["runtime"] = json!(RuntimeKind::Process);
    seen["limits"] = json!(Limits::SMALLEST);
    seen["gpu_vendor"] = Value::Null;
    seen["version"] = Value::Null;
    // The start itself reports what is wrong with the launch.
    adapter
        .launch(&seen)
        .is_ok_and(|launch| launch.image.is_none() && !launch.command.is_empty())
}

impl Engine {
    /// Describes an engine without starting it.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong option or unusable adapter rules; `not_allowed` for a local model or tokenizer that the
    /// script may not read.
    pub(crate) fn new(mut context: Context, adapter: Arc<dyn Adapter>, mut options: LaunchOptions) -> Result<Self> {
        options.check()?;
        if !adapter.shipped() {
            context.permits = context.permits.for_foreign_code();
        }
        options.find_model(&context.home);
        match options.check_files(&context) {
            // The preview reports everything else that is not allowed.
            Err(fault) if context.dry_run && fault.kind == Kind::NotAllowed => {}
            checked => checked?,
        }
        let runtime = match options.named_runtime()? {
            Some(named) => named,
            None if options.url.is_some() || options.container.is_some() => RuntimeKind::Attach,
            None if adapter.name() == "sim" => RuntimeKind::Sim,
            None if starts_command(adapter.as_ref(), &options) => RuntimeKind::Process,
            None => RuntimeKind::Docker,
        };
        // An adapter of the user's own may read any option when it launches.
        if runtime == RuntimeKind::Attach || adapter.shipped() {
            options.check_runtime(runtime)?;
        }
        if options.in_process && matches!(runtime, RuntimeKind::Sim | RuntimeKind::Attach) {
            return wrong(
                format!("option `in_process` means nothing to the runtime `{runtime}`"),
                "it is for engines started in a container or as a process",
            );
        }
        let target = options.target().filter(|_| runtime == RuntimeKind::Attach);
        let key = match target {
            Some(target) => api_key(&target, options.api_key_env.as_deref(), &context.permits)?,
            None => None,
        };
        if let (Some(key), Some(url)) = (&key, &options.url) {
            warn_of_key(&context, key, url)?;
        }
        Ok(Self {
            rules: Rules::from_adapter(adapter.as_ref())?,
            client: http::build_for_engines(
                http::direct_with(key.as_ref())
                    .pool_idle_timeout(IDLE)
                    .pool_max_idle_per_host(usize::MAX),
            )?,
            key,
            context,
            adapter,
            shown: options.shown(),
            options,
            runtime,
            starts: Arc::default(),
            live: Mutex::default(),
        })
    }

    /// Notes the engine's phase.
    pub(crate) fn phase(&self, phase: EnginePhase, detail: &str) -> Result<()> {
        self.context.run.note(Event::Phase {
            phase,
            detail: detail.to_owned(),
        })
    }

    /// Adds a warning to the run.
    pub(crate) fn warn(&self, kind: &str, message: impl Into<String>) -> Result<()> {
        self.context.run.warn(Warning::new(kind, message))
    }

    /// Time that the engine gets to end by itself before it is killed.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.options.stop_grace.0)
    }

    /// Blocks the script's thread until `work` is done.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.context.tasks.wait(work)
    }

    /// The adapter's name.
    pub fn name(&self) -> &str {
        self.adapter.name()
    }

    /// Locks the engine's state. The lock is held while the engine is started, probed or loaded.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }

    /// The metrics page of a running engine, if it has one.
    pub(crate) fn page(&self, running: &Running) -> Option<MetricsPage> {
        let rules = &self.rules.facts.metrics;
        (!rules.path.is_empty()).then(|| MetricsPage {
            client: self.client.clone(),
            url: format!("{}{}", running.server.base_url(), rules.path),
            rules: rules.clone(),
            run: Arc::clone(&self.context.run),
        })
    }

    /// The limits to start with if memory allows: the given ones, or the search range of the newest boundary.
    pub(crate) fn full_limits(&self, requested: Limits) -> Limits {
        match self.options.limits {
            Some(limits) => Limits::from(limits).join(requested),
            None => Limits::from_axes((self.context.axes)().as_ref(), requested),
        }
    }

    /// The model's id on the hub; `None` if the model is a file or folder.
    pub(crate) fn hub_model(&self) -> Option<ModelId> {
        let name = self.options.model.as_deref().filter(|name| name.contains('/'))?;
        match &self.options.revision {
            Some(revision) => format!("{name}@{revision}").parse().ok(),
            None => name.parse().ok(),
        }
    }

    /// Fetches a page; `None` if the engine does not have it.
    pub(crate) async fn fetch(&self, url: &str) -> Option<String> {
        let request = self.client.get(url).timeout(std::time::Duration::from_secs(10));
        read_page(request, &self.context.run).await
    }

    /// The options as the adapter sees them: every key, the chosen runtime, this start's limits, the mounts including a
    /// local model's, and the GPU vendor.
    pub(crate) fn adapter_options(&self, limits: Option<Limits>) -> Value {
        let mut options = json!(self.options);
        options["runtime"] = json!(self.runtime);
        options["limits"] = json!(limits);
        if self.options.limit_concurrency == Some(false) && limits.is_some() {
            options["limits"]["concurrency"] = Value::Null;
        }
        options["mounts"] = json!([self.model_mounts(), self.options.mounts.clone()].concat());
        options["gpu_vendor"] = json!(self.gpu_vendor());
        options["version"] = json!(self.version());
        options
    }

    /// The version of an engine that is to be started, if it is known before.
    fn version(&self) -> Option<String> {
        match self.runtime {
            RuntimeKind::Docker => version::of_image(self.options.image.as_deref()?),
            // Its files are inside the container.
            RuntimeKind::Process if self.options.container.is_some() => None,
            RuntimeKind::Process => {
                let program = self.options.program.as_deref().unwrap_or(self.name());
                version::of_package(self.name(), program, &self.options.env).or_else(|| lock(&self.starts).version())
            }
            RuntimeKind::Attach | RuntimeKind::Sim => None,
        }
    }

    /// The launch that serves the whole search range and the requested limits.
    pub(crate) fn launch_for(&self, requested: Limits) -> Result<Launch> {
        let limits = Some(self.full_limits(requested));
        self.launch(&self.adapter_options(limits))
    }

    /// The launch for these options, as the adapter sees them, with what the host adds.
    pub(crate) fn launch(&self, options: &Value) -> Result<Launch> {
        let mut launch = self.adapter.launch(options)?;
        launch.container = self.container_to_start_in().map(str::to_owned);
        launch.host_port = self.options.host_port;
        launch.gpu_runtime = self.options.gpu_runtime();
        Ok(launch)
    }

    /// The user's own container in which to start the engine.
    pub(crate) fn container_to_start_in(&self) -> Option<&str> {
        let container = self.options.container.as_deref();
        container.filter(|_| self.runtime == RuntimeKind::Process)
    }

    /// Whether a server is ready, with the options that it was started with.
    pub(crate) fn readiness(&self, server: &Server, options: &Value) -> Result<Readiness> {
        self.adapter.ready(server.base_url(), options, self.key.as_ref())
    }

    /// `nvidia` or `amd`, because images differ. `None` if no GPUs are requested or found.
    pub(crate) fn gpu_vendor(&self) -> Option<Vendor> {
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
        let folder = path
            .parent()
            .filter(|_| path.is_file())
            .unwrap_or(path)
            .display()
            .to_string();
        vec![Mount {
            host: folder.clone(),
            container: folder,
            writable: false,
            of_model: true,
        }]
    }

    /// The time budget for waiting for a server.
    pub(crate) fn patience(&self) -> Patience<'_> {
        let context = &self.context;
        Patience::new(&context.tasks, &context.run, context.wait.unwrap_or(WAIT))
    }

    /// The context of a start, for the runtime.
    pub(crate) fn start_context(&self, origin: Origin) -> StartContext {
        StartContext {
            run: Arc::clone(&self.context.run),
            permits: self.context.permits.clone(),
            services: Arc::clone(&self.context.services),
            origin,
            prefix: "engine".to_owned(),
        }
    }

    /// The origin of the launch: who decides what is started.
    pub(crate) fn origin(&self) -> Result<Origin> {
        if !self.adapter.shipped() {
            return Ok(Origin::Script);
        }
        Ok(Origin::ShippedAdapter {
            replaced: self.options.image.is_some() || self.options.program.is_some(),
            unlisted: self
                .adapter
                .harmless()?
                .unlisted(&self.options.engine_args, &self.options.env),
        })
    }
}

/// Warns of an API key that cannot be hidden in written files, or that others can read in transit.
fn warn_of_key(context: &Context, key: &ApiKey, url: &str) -> Result<()> {
    if !can_be_hidden(key.header().trim_start_matches("Bearer ")) {
        let message = "the API key is too plain to be hidden (8 characters of two kinds can be, or 12): it stays in what the server repeats of it";
        context.run.warn(Warning::new("plain_secret", message))?;
    }
    let url = server_url(url)?;
    if url.scheme() == "https" || http::is_loopback(&url) {
        return Ok(());
    }
    let host = url.host_str().unwrap_or_default();
    let message = format!("the API key is sent to `{host}` without TLS: others on the way can read it; use `https://`");
    context.run.warn(Warning::new("key_without_tls", message))
}
