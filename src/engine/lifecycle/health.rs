//! Checks whether a running engine still serves, and stops one that does not.

use std::time::Duration;

use serde_json::json;

use super::engine::Engine;
use super::memory::end_server;
use super::state::{Health, Live, Running};
use crate::engine::adapter::Readiness;
use crate::engine::verdict::judge::succeeded;
use crate::fault::{Fault, Result};
use crate::load::{FailureForm, RequestOutcome, RequestRecord};
use crate::run::EnginePhase;
use crate::run::Limits;
use crate::runtime::Exit;

/// Time that an engine gets to answer again after a failure before it is restarted.
const RECOVERY: Duration = Duration::from_secs(5);

/// Whether a running engine has served its point, if every point gets a fresh one.
pub(crate) fn is_spent(engine: &Engine, live: &Live) -> bool {
    engine.options.isolates() && live.stages.first.is_some()
}

/// Stops an engine that has exited, no longer answers, was started for smaller limits, or has served its point.
pub(crate) fn drop_unusable(engine: &Engine, live: &mut Live, requested: Limits) -> Result<()> {
    let Some(running) = &live.running else { return Ok(()) };
    let covers = running.limits.is_none_or(|limits| limits.cover(&requested));
    let exit = engine.wait(running.server.exit())?;
    let usable = covers
        && !is_spent(engine, live)
        && exit.is_none()
        && match live.health {
            Health::Good => true,
            Health::Suspect => recovers(engine, running)?,
            // An attached engine may have been restarted by its operator.
            Health::Lost => !running.server.ours() && recovers(engine, running)?,
        };
    live.health = Health::Good;
    if usable {
        return Ok(());
    }
    if !running.server.ours() {
        let mut why = exit.and_then(|exit| exit.stopped_by());
        let mut remedy = "start it again, and resume the run";
        if why.is_none() && engine.wait(running.server.service.was_paused(RECOVERY))? {
            why = Some("the engine's container is paused".to_owned());
            remedy = "let it go on, and resume the run";
        }
        let why = why.unwrap_or_else(|| "the attached engine no longer answers".to_owned());
        return Err(Fault::missing(why, remedy));
    }
    stop_running(engine, live)
}

/// Whether an engine answers again after a failure and has no requests left.
pub(crate) fn recovers(engine: &Engine, running: &Running) -> Result<bool> {
    let deadline = tokio::time::Instant::now() + RECOVERY;
    let mut options = engine.adapter_options(running.limits);
    if !running.server.ours() {
        options["model"] = json!(running.info.model);
    }
    loop {
        if engine.wait(running.server.exit())?.is_some() {
            return Ok(false);
        }
        let mut idle = true;
        if let Some(page) = engine.page(running) {
            let metrics = engine.wait(async { Ok(page.fetch().await) })?;
            // Without a page, which servers may have switched off, and without a newer snapshot, nothing is known to run.
            let newest = metrics.as_ref().and_then(|facts| facts.last());
            idle = newest.is_none_or(|newest| newest.queue.is_idle());
        }
        if idle {
            match engine.readiness(&running.server, &options)? {
                Readiness::Ready => return Ok(true),
                // It is alive but admits no requests at the moment.
                Readiness::Rejecting(rejection) if rejection.status == 429 => return Ok(true),
                Readiness::Rejecting(rejection) if rejection.remedy.is_some() => return Ok(false),
                Readiness::Failed(_) => return Ok(false),
                Readiness::Rejecting(_) | Readiness::NotYet => {}
            }
        }
        if tokio::time::Instant::now() >= deadline {
            return Ok(false);
        }
        engine.context.tasks.sleep(Duration::from_millis(50))?;
    }
}

/// Returns the engine's exit, if it exited after these requests, and whether it still serves. Checks only after
/// failures that may have damaged the engine, or if its death was already noticed (`died`). Waits for the exit if a
/// connection broke.
pub(crate) fn state_after(
    engine: &Engine,
    running: &Running,
    answers: &[RequestRecord],
    died: bool,
) -> Result<(Option<Exit>, Option<bool>)> {
    let failed: Vec<&RequestRecord> = answers.iter().filter(|answer| !succeeded(answer)).collect();
    if failed.is_empty() && !died {
        return Ok((None, None));
    }
    let failures = || failed.iter().filter_map(|answer| Some(answer.failure()?.form));
    // A server that closes the connection after each answer looks the same when it is killed.
    let unfinished = |answer: &&RequestRecord| answer.outcome == RequestOutcome::Completed;
    let broke = |form| {
        use FailureForm::{Broken, EndedEarly, Unreachable};
        matches!(form, EndedEarly | Broken | Unreachable)
    };
    let broken = died || failed.iter().any(unfinished) || failures().any(broke);
    let exit = engine.wait(running.server.ended(broken))?;
    if exit.is_some() {
        return Ok((exit, Some(false)));
    }
    if !died && !failures().any(may_damage) {
        return Ok((None, None));
    }
    if recovers(engine, running)? {
        return Ok((None, Some(true)));
    }
    // Engines report an error first and exit a moment later.
    Ok((engine.wait(running.server.exit())?, Some(false)))
}

/// Whether such a failure may have damaged the engine.
fn may_damage(form: FailureForm) -> bool {
    match form {
        // TGI answers 424 where other engines answer 500.
        FailureForm::Status(status) => status >= 500 || status == 424,
        FailureForm::InStream | FailureForm::Broken | FailureForm::Unreachable | FailureForm::EndedEarly => true,
        FailureForm::Deadline | FailureForm::Malformed => false,
    }
}

/// Cleans up an engine that has exited.
pub(crate) fn stop_if_exited(engine: &Engine, live: &mut Live) -> Result<()> {
    let dead = match &live.running {
        Some(running) => engine.wait(running.server.exit())?.is_some(),
        None => false,
    };
    if dead { stop_running(engine, live) } else { Ok(()) }
}

/// Stops a running engine, unless it is an attached one.
pub(crate) fn stop_running(engine: &Engine, live: &mut Live) -> Result<()> {
    let Some(running) = live.running.take() else {
        return Ok(());
    };
    engine.phase(EnginePhase::Stopping, engine.name())?;
    end_server(
        engine,
        &mut live.stages,
        &running.server,
        running.sampler,
        engine.name(),
    )
}
