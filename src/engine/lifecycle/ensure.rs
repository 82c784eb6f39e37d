//! Keeps an engine running: starts it on first use, and again if a point needs larger limits or the engine is no longer
//! healthy.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::accept::find_form;
use super::engine::Engine;
use super::health::{drop_unusable, is_spent};
use super::memory::{gpus, isolated, wait_for_baseline};
use super::preview::preview;
use super::report::{read_gauges, read_info, read_lines};
use super::start::{Ready, attach_to, cannot_start, find_server, start_with};
use super::state::{Health, Live, Running};
use super::usage::MemoryStages;
use crate::engine::facts::log::degraded;
use crate::engine::verdict::bounds::StartFailure;
use crate::engine::verdict::sizes::KnownSizes;
use crate::engine::wire::forms::Accepted;
use crate::fault::{Fault, Kind, Result};
use crate::prompt::Hub;
use crate::run::{Event, Limits};
use crate::runtime::RuntimeKind;
use crate::task::lock;
use crate::telemetry::Sampler;

/// Maximum starts in a row while the cause of their failure may pass, and the pause after the first; the second is
/// twice as long.
const MAX_STARTS: u32 = 3;
const START_PAUSE: Duration = Duration::from_secs(1);

/// Result of [`ensure`].
pub(crate) enum Ensured {
    /// It runs; `true` if it had to be started.
    Running(bool),
    /// No start serves the requested limits.
    Failed(Box<StartFailure>),
}

/// Starts the engine with limits that cover the whole search range. Returns whether it had to be started.
///
/// # Errors
///
/// `engine` if it does not become ready; `missing` if something that the runtime needs is not available.
pub fn start(engine: &Engine) -> Result<bool> {
    match ensure(engine, &mut engine.lock(), Limits::SMALLEST)? {
        Ensured::Running(started) => Ok(started),
        Ensured::Failed(failure) => {
            let reason = failure.evidence.message.as_deref().unwrap_or_default();
            let message = format!("`{}` did not start: {reason}", engine.name());
            Err(Fault::new(Kind::Engine, message).hint(format!("{}: {}", failure.cause, failure.remedy())))
        }
    }
}

/// Whether the running engine serves a request of these limits without a restart; `None` before the first start, and
/// with the option `isolate`.
pub fn serves(engine: &Engine, requested: Limits) -> Option<bool> {
    let live = engine.lock();
    match &live.running {
        // Each point is a start, whether or not an engine runs.
        _ if engine.options.isolates() => None,
        Some(running) => {
            let covers = running.limits.is_none_or(|limits| limits.cover(&requested));
            Some(covers && live.health == Health::Good)
        }
        None => (live.tried > 0).then_some(false),
    }
}

/// Makes sure that the engine runs with limits that cover the request. Starts it if necessary; an unsuitable one is
/// stopped first.
///
/// # Errors
///
/// `missing` if something that a start needs is not available; `start_failed` if no other start would succeed either.
pub(crate) fn ensure(engine: &Engine, live: &mut Live, requested: Limits) -> Result<Ensured> {
    let whole = engine.full_limits(requested);
    // A running engine is not stopped for a point that no start can serve.
    if let Some(running) = &live.running
        && (is_spent(engine, live) || running.limits.is_some_and(|limits| !limits.cover(&requested)))
        && let Err(failure) = next_start(engine, whole, requested)
    {
        return Ok(Ensured::Failed(failure));
    }
    drop_unusable(engine, live, requested)?;
    if live.running.is_some() {
        return Ok(Ensured::Running(false));
    }
    if engine.context.dry_run {
        return Err(preview(engine, whole)?);
    }
    if engine.runtime == RuntimeKind::Attach {
        let _starting = lock(&engine.context.services.naming);
        let ready = attach_to(engine, find_server(engine)?, &mut live.stages)?;
        register_running(engine, live, ready, None)?;
        return Ok(Ensured::Running(true));
    }
    if live.tried == 0 {
        check_model(engine)?;
    }
    let mut failures = 0;
    loop {
        let limits = match next_start(engine, whole, requested) {
            Ok(limits) => limits,
            Err(failure) => return Ok(Ensured::Failed(failure)),
        };
        let seen = wait_for_baseline(engine, &mut live.baseline)?;
        live.isolated = isolated(engine, &live.stages, seen)?;
        live.stages = MemoryStages {
            before: gpus(engine)?.map(|mut source| source.read()).transpose()?,
            began: Some(Instant::now()),
            ..MemoryStages::default()
        };
        live.tried += 1;
        match start_with(engine, limits, &mut live.stages)? {
            Ok(ready) => {
                register_running(engine, live, ready, Some(limits))?;
                return Ok(Ensured::Running(true));
            }
            Err(failure) if failure.is_permanent() => {
                engine.context.run.note(Event::StartFailed {
                    args: start_args(engine),
                    failure: json!(failure),
                })?;
                lock(&engine.starts).failed.push(failure);
            }
            Err(failure) => {
                failures += 1;
                if failure.may_pass() && failures < MAX_STARTS {
                    engine.context.tasks.sleep(START_PAUSE * failures)?;
                } else if lock(&engine.starts).served {
                    return Ok(Ensured::Failed(Box::new(failure)));
                } else {
                    return Err(cannot_start(engine, &failure));
                }
            }
        }
    }
}

/// Restores the failed starts that an earlier execution of the run recorded.
pub(crate) fn recall_failed_starts(engine: &Engine) {
    // An entry that cannot be read is tried again.
    let failed = engine
        .context
        .run
        .failed_starts(&start_args(engine))
        .into_iter()
        .filter_map(|failure| serde_json::from_value(failure).ok());
    lock(&engine.starts).failed = failed.collect();
}

/// The key under which a resumed run finds earlier starts of the same engine.
pub(crate) fn start_args(engine: &Engine) -> Value {
    json!({ "engine": engine.name(), "launch": engine.shown })
}

/// The limits of the next start, or the reason why none serves the point.
fn next_start(engine: &Engine, whole: Limits, requested: Limits) -> std::result::Result<Limits, Box<StartFailure>> {
    let starts = lock(&engine.starts);
    starts
        .next(whole, requested, engine.options.use_report.unwrap_or(true))
        .map_err(|failure| Box::new(failure.for_point(&requested)))
}

/// Fails before the first start if the model does not exist or is gated for this user.
fn check_model(engine: &Engine) -> Result<()> {
    let named = engine.options.model.as_deref();
    let Some(name) = named.filter(|_| engine.runtime != RuntimeKind::Sim) else {
        return Ok(());
    };
    let is_path = name.starts_with(['/', '.', '~']) || name.ends_with(".gguf");
    let is_here = engine.options.container.is_none();
    if is_path && is_here && !engine.context.home.join(name).exists() {
        return Err(Fault::missing(
            format!("there is no model `{name}`"),
            "check the path; a model of the Hugging Face hub is named `org/name`",
        ));
    }
    match engine.hub_model() {
        Some(model) => engine.wait(async { Hub::from_env()?.check_gate(&model).await }),
        None => Ok(()),
    }
}

fn register_running(engine: &Engine, live: &mut Live, mut ready: Ready, limits: Option<Limits>) -> Result<()> {
    let (mut info, mut facts) = read_info(engine, &mut ready)?;
    let gauges = read_gauges(engine, &ready.server)?;
    if info.kv_tokens.is_none() {
        // One pool for each engine behind the address: concurrent requests share them, and one request fits into one.
        let pools = gauges.iter().filter(|fact| fact.name == "kv_tokens");
        let pools: Vec<u64> = pools.filter_map(|fact| fact.value.as_u64()).collect();
        info.kv_tokens = (!pools.is_empty()).then(|| pools.iter().sum());
        info.reported.kv_tokens = info.kv_tokens;
        if pools.len() > 1 {
            let smallest = pools.iter().min().copied();
            info.reported.fitted = info.reported.fitted.or(smallest);
            // Without `use_report`, a smaller report must not refuse what a larger engine may serve.
            let refuses = engine.options.use_report.unwrap_or(true);
            let differs = |smallest: &u64| pools.iter().any(|pool| pool != smallest);
            info.reported.smallest = smallest.filter(|smallest| refuses && differs(smallest));
        }
    }
    facts.extend(gauges);
    let log = ready.server.service.logs().lines_since(0);
    facts.extend(read_lines(engine, &log, &ready.server, ready.sampler.as_ref()));
    let facts_read = log.last().map_or(0, |line| line.number + 1);
    // An attached engine or a process may be simulated too; its version says so.
    if info.simulated {
        engine.context.run.set_simulated();
    }
    let mut running = Running {
        server: ready.server,
        key: engine.key.clone(),
        sampler: ready.sampler,
        limits,
        info,
        accepted: Accepted::default(),
        sizes: KnownSizes::default(),
        facts,
        facts_read,
        rejected: 0,
        waited: Duration::ZERO,
    };
    find_form(engine, &mut running, &ready.asked)?;
    engine.context.run.note(Event::Engine {
        info: json!({
            "info": running.info,
            "facts": ready.facts,
            "limits": limits,
            "request": (running.accepted != Accepted::default()).then_some(&running.accepted),
            "memory_source": running.sampler.as_ref().map(Sampler::source),
            "memory_total": running.sampler.as_ref().map(|sampler| sampler.latest().total()),
            "runtime": engine.runtime,
            "launched": running.server.service.info(),
            "options": engine.shown,
        }),
    })?;
    for how in degraded(&ready.facts, &engine.rules.facts.parts, engine.gpu_vendor().is_some()) {
        let message = format!("`{}` serves another configuration than asked: {how}", engine.name());
        engine.warn("other_configuration", message)?;
    }
    live.health = Health::Good;
    lock(&engine.starts).serves(running.info.kv_tokens);
    live.running = Some(running);
    Ok(())
}
