//! Starts an engine, or attaches to one, waits until it is ready, and explains a start that failed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::engine::Engine;
use super::memory::{end_server, record_processes, record_ready, sample_memory, show_memory};
use super::options::{Context, without_password, wrong};
use super::patience::await_reachable;
use super::served::{AskedModel, asked_model};
use super::server::Server;
use super::usage::MemoryStages;
use crate::boundary::Cause;
use crate::engine::adapter::{Readiness, Rejection, RulePhase};
use crate::engine::facts::log::{FactValues, find, phase_of};
use crate::engine::verdict::bounds::StartFailure;
use crate::engine::verdict::failure::{Finding, allocations, classify};
use crate::engine::verdict::reason::Symptoms;
use crate::engine::wire::refusal::wait_longer;
use crate::fault::{Fault, Kind, Result};
use crate::fmt::excerpt;
use crate::run::EnginePhase;
use crate::run::{Event, Evidence, Limits, SlotLimit};
use crate::runtime::{EndedBy, Exit, HubModel, Launch, Origin, RuntimeKind, attach, start};
use crate::sim::Spec;
use crate::task::lock;
use crate::telemetry::{Phase, Sampler};

/// Pauses between readiness checks. Short at first, because the simulated engine is ready immediately.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Seconds that an attached engine may take to answer.
const ATTACH_TIMEOUT: f64 = 5.0;

/// The remedy if the server may not be an inference engine.
const OTHER_SERVER: &str = "check that the address is an inference server's, with the prefix of its path if it has one: `--url http://HOST:PORT/PREFIX`";

/// Interval at which the processes of a starting server are listed: once a start has failed, they are gone.
const PROCESSES_EVERY: Duration = Duration::from_secs(1);

/// Why a server is not ready. With neither `exit` nor `said`, it timed out.
struct NotReady {
    exit: Option<Exit>,
    /// The reason, if a living server reported that it will not become ready.
    said: Option<String>,
    /// Its last answer, if that was no success.
    rejection: Option<Rejection>,
}

impl NotReady {
    fn new(exit: Option<Exit>, said: Option<String>) -> Self {
        let rejection = None;
        Self { exit, said, rejection }
    }
}

/// A server that is ready.
pub(crate) struct Ready {
    pub(crate) server: Server,
    pub(crate) sampler: Option<Sampler>,
    /// Facts in its start log.
    pub(crate) facts: FactValues,
    /// The model that requests name.
    pub(crate) asked: AskedModel,
}

/// Starts the engine with these limits. A failed start is an ordinary answer (the inner error); the outer error
/// ends the script.
pub(crate) fn start_with(
    engine: &Engine,
    limits: Limits,
    stages: &mut MemoryStages,
) -> Result<Result<Ready, StartFailure>> {
    let shown = format!("{} {limits}", engine.name());
    engine.phase(EnginePhase::Starting, &shown)?;
    let options = engine.adapter_options(Some(limits));
    let launch = engine.launch(&options)?;
    let server = {
        let _starting = lock(&engine.context.services.naming);
        let server = launch_server(engine, launch)?;
        engine.phase(EnginePhase::Loading, &shown)?;
        server
    };
    let timeout = Duration::from_secs_f64(engine.options.start_timeout.0);
    let waited = sample_memory(engine, &server, stages, Phase::Loading).and_then(|sampler| {
        let state = poll_readiness(engine, &server, &options, timeout, stages, sampler.as_ref())?;
        let asked = match state {
            Ok(()) => asked_model(engine, &server)?,
            Err(_) => AskedModel::default(),
        };
        Ok((sampler, state, asked))
    });
    let (sampler, state, asked) = match waited {
        Ok(came) => came,
        Err(fault) => {
            engine.context.tasks.finish(server.service.stop(engine.grace()))?;
            return Err(fault);
        }
    };
    if let Some(sampler) = &sampler {
        sampler.mark(Phase::Ready);
    }
    let log = server.since(0);
    let facts = find(&engine.rules.facts.log, &log);
    let Err(why) = state else {
        record_ready(engine, stages, &server)?;
        engine.phase(EnginePhase::Ready, &shown)?;
        return Ok(Ok(Ready {
            server,
            sampler,
            facts,
            asked,
        }));
    };
    let memory = sampler.as_ref().and_then(|sampler| sampler.series().peak());
    end_server(engine, stages, &server, sampler, &shown)?;
    let mut failure = start_failure(engine, limits, &why, &log, &facts);
    failure.evidence.memory = memory;
    Ok(Err(failure))
}

/// Waits until a server that already runs is ready.
pub(crate) fn attach_to(engine: &Engine, server: Server, stages: &mut MemoryStages) -> Result<Ready> {
    if let Some(url) = &engine.options.url {
        let Context {
            permits,
            tasks,
            run,
            wait,
            ..
        } = &engine.context;
        await_reachable(url, permits, tasks, run, *wait)?;
    }
    let usual = Duration::from_secs_f64(engine.options.start_timeout.0.min(ATTACH_TIMEOUT));
    // If the user sets a wait time, it also applies to a server that does not answer.
    let timeout = engine.context.wait.unwrap_or(usual);
    let mut options = engine.adapter_options(None);
    let mut state = poll_readiness(engine, &server, &options, timeout, stages, None)?;
    let mut asked = AskedModel::default();
    if state.is_ok() {
        asked = asked_model(engine, &server)?;
        if asked.name != engine.options.model && !asked.untried {
            // Ollama loads a model only once the model is named.
            options["model"] = json!(asked.name);
            state = poll_readiness(engine, &server, &options, timeout, stages, None)?;
        }
    }
    match state {
        Ok(()) => {
            let facts = find(&engine.rules.facts.log, &server.since(0));
            *stages = MemoryStages {
                attached: true,
                began: Some(std::time::Instant::now()),
                ..MemoryStages::default()
            };
            let sampler = sample_memory(engine, &server, stages, Phase::Ready)?;
            record_ready(engine, stages, &server)?;
            Ok(Ready {
                server,
                sampler,
                facts,
                asked,
            })
        }
        Err(NotReady {
            rejection: Some(rejection),
            ..
        }) => {
            let Rejection { status, message, .. } = &rejection;
            let message = format!("the attached engine is not ready: {message}");
            Err(match rejection.remedy {
                Some(remedy) => Fault::missing(message, remedy),
                None if matches!(status, 429 | 503) => Fault::missing(message, wait_longer(*status)),
                None => Fault::missing(message, OTHER_SERVER),
            })
        }
        Err(NotReady { said: Some(why), .. }) => Err(Fault::missing(
            format!("the attached engine is not ready: {}", why.trim()),
            OTHER_SERVER,
        )),
        Err(NotReady { exit: Some(exit), .. }) => Err(Fault::missing(
            exit.stopped_by()
                .unwrap_or_else(|| format!("the attached engine ended with {}", exit.status())),
            "see its log, start it again, and attach to it when it serves",
        )),
        Err(_) => Err(Fault::missing(
            format!(
                "the engine at `{}` is not ready after {} s",
                without_password(server.base_url()),
                timeout.as_secs_f64()
            ),
            "wait until it has loaded its model, or name the URL or container where it runs",
        )),
    }
}

fn poll_readiness(
    engine: &Engine,
    server: &Server,
    options: &Value,
    timeout: Duration,
    stages: &mut MemoryStages,
    sampler: Option<&Sampler>,
) -> Result<Result<(), NotReady>> {
    let deadline = Instant::now() + timeout;
    let mut pause = FIRST_PAUSE;
    let mut patience = engine.patience();
    let mut last_listed = Instant::now();
    loop {
        if last_listed.elapsed() >= PROCESSES_EVERY {
            record_processes(engine, stages, server)?;
            if let Some(sampler) = sampler {
                show_memory(engine, sampler)?;
            }
            if let Some(line) = server.last(1).pop() {
                let line = excerpt(&line);
                engine.context.run.note(Event::Log { line })?;
            }
            last_listed = Instant::now();
        }
        if let Some(exit) = engine.wait(server.exit())? {
            return Ok(Err(NotReady::new(Some(exit), None)));
        }
        let mut not_ready = NotReady::new(None, None);
        match engine.readiness(server, options)? {
            Readiness::Ready => return Ok(Ok(())),
            Readiness::Failed(why) => return Ok(Err(NotReady::new(None, Some(why)))),
            Readiness::Rejecting(rejection) if server.ours() => {
                // A server with such an answer will not become ready.
                if let Some(remedy) = &rejection.remedy {
                    let reason = format!("{}; {remedy}", rejection.message);
                    return Ok(Err(NotReady::new(None, Some(reason))));
                }
            }
            Readiness::Rejecting(rejection) => {
                let (passes, remedy) = (rejection.passes(), rejection.remedy.is_some());
                if passes && patience.wait(&rejection.message, rejection.retry_after)? {
                    continue;
                }
                not_ready.rejection = Some(rejection);
                if passes || remedy {
                    return Ok(Err(not_ready));
                }
            }
            Readiness::NotYet if !server.ours() && engine.context.wait.is_some() => {
                if patience.wait("the server does not answer yet", None)? {
                    continue;
                }
            }
            Readiness::NotYet => {}
        }
        if Instant::now() >= deadline {
            return Ok(Err(not_ready));
        }
        engine.context.tasks.sleep(pause)?;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn start_failure(engine: &Engine, limits: Limits, why: &NotReady, log: &[String], facts: &FactValues) -> StartFailure {
    let NotReady { exit, said, .. } = why;
    let symptoms = Symptoms {
        exit: exit.as_ref(),
        messages: said.as_slice(),
        log,
    };
    let found = classify(&engine.rules.failures, RulePhase::Start, symptoms);
    let found = found.unwrap_or_default();
    // An argument of the user's may tell the engine another number.
    let is_told = engine.options.limit_concurrency != Some(false) && engine.options.engine_args.is_empty();
    let slots = found.slots_for_sequences(is_told.then_some(limits.concurrency));
    let Finding {
        cause, line, remedy, ..
    } = found;
    let message = match (line.as_ref().or(said.as_ref()), exit) {
        (Some(said), _) => said.trim().to_owned(),
        (None, Some(exit)) if exit.oom_killed => "the OOM killer ended the engine while it started".to_owned(),
        (None, Some(exit)) => exit
            .stopped_by()
            .unwrap_or_else(|| format!("it exited with {} before it was ready", exit.status())),
        (None, None) => format!("the engine was not ready after {} s", engine.options.start_timeout.0),
    };
    let memory = cause == Some(Cause::Memory);
    let log_shown = match line {
        Some(line) if memory || cause == Some(Cause::LengthLimit) => vec![line],
        _ => last_words(log),
    };
    // Somebody else's container is not started again.
    let ours = engine.container_to_start_in().is_none();
    let stopped = |exit: &Exit| {
        ours && !matches!(
            exit.ended_by,
            None | Some(EndedBy::MemoryLimit(_) | EndedBy::Process(_))
        )
    };
    let unexplained = match (exit, said) {
        (Some(exit), _) if stopped(exit) => Cause::Stopped,
        (Some(_), _) => Cause::Exited,
        (None, Some(_)) => Cause::Engine,
        (None, None) => Cause::Timeout,
    };
    StartFailure {
        limits,
        cause: cause.unwrap_or(unexplained),
        longest: facts.get("longest").and_then(Value::as_u64),
        version: facts.get("version").and_then(Value::as_str).map(str::to_owned),
        evidence: Evidence {
            message: Some(message),
            remedy,
            limit: slots.map(|concurrency| SlotLimit {
                concurrency,
                by: "state_slots".to_owned(),
            }),
            log: log_shown,
            phase: phase_of(&engine.rules.facts.progress, log),
            allocations: if memory { allocations(log) } else { Vec::new() },
            exit_code: exit.as_ref().and_then(|exit| exit.code),
            oom_killed: exit.as_ref().map(|exit| exit.oom_killed),
            limits: Some(limits),
            ..Evidence::default()
        },
    }
}

/// The fault that ends a run: no other start would succeed either.
pub(crate) fn cannot_start(engine: &Engine, failure: &StartFailure) -> Fault {
    let reason = failure.evidence.message.as_deref().unwrap_or_default();
    let folder = engine.context.run.folder();
    let logs = folder.map_or_else(String::new, |folder| {
        format!("; its whole log is in `{}`", folder.join("logs").display())
    });
    let lines: String = failure
        .evidence
        .log
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect();
    Fault::new(
        Kind::StartFailed,
        format!("`{}` cannot start: {reason}{lines}", engine.name()),
    )
    .hint(format!("{}{logs}", failure.remedy()))
}

/// The first error in a log, and its last lines; both without the frames of Python's tracebacks. If several processes
/// fail, the first error gives the reason.
fn last_words(log: &[String]) -> Vec<String> {
    const LAST: usize = 12;
    let mut in_frames = false;
    let is_shown = |line: &&str| {
        let message = message_of(line);
        // The frames end with the error, whose own lines may be indented too.
        in_frames = message.starts_with("Traceback (most recent call last)") || in_frames && message.starts_with("  ");
        !in_frames
    };
    let lines: Vec<&str> = log
        .iter()
        .map(|line| line.trim_end())
        .filter(|line| !line.is_empty())
        .filter(is_shown)
        .collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(LAST));
    let is_error = |line: &&&str| {
        let kind = message_of(line).trim_start().split_once(": ").map(|(kind, _)| kind);
        kind.is_some_and(|kind| kind.ends_with("Error") && !kind.contains(' '))
    };
    let first = before.iter().find(is_error);
    first.into_iter().chain(last).map(|line| (*line).to_owned()).collect()
}

/// A line of a log without the names and times before its message: `(EngineCore pid=777) ERROR … [core.py:1231] `,
/// `[2026-11-20 12:50:22 TP0] `, `[rank0]: `.
fn message_of(line: &str) -> &str {
    let located = line.find(".py:").and_then(|at| line[at..].split_once("] "));
    let mut message = located.map_or(line, |(_, message)| message);
    loop {
        let named = match message.as_bytes().first() {
            Some(b'(') => message.split_once(") ").filter(|(name, _)| name.contains("pid=")),
            Some(b'[') => message.split_once("]: ").or_else(|| message.split_once("] ")),
            _ => None,
        };
        let Some((_, rest)) = named.filter(|(name, _)| !name[1..].contains(['(', '['])) else {
            return message;
        };
        message = rest;
    }
}

/// The port of an engine that is started in somebody else's container, unless the adapter or the user says another.
const CONTAINER_PORT: u16 = 8000;

/// Starts the server that the adapter describes.
pub(crate) fn launch_server(engine: &Engine, mut launch: Launch) -> Result<Server> {
    launch.in_process |= engine.options.in_process;
    let weights = !engine.options.random_weights;
    launch.model = engine.hub_model().map(|id| HubModel { id, weights });
    if let Some(spec) = launch.sim.take() {
        // Files named by a script are relative to its folder.
        launch.sim = Some(json!(Spec::from_script(spec, &engine.context.home)?));
    }
    let mut words = launch.command.iter().chain(launch.env.values());
    if let Some(container) = engine.container_to_start_in() {
        launch.container = Some(container.to_owned());
        launch.port = engine
            .options
            .port
            .unwrap_or(if launch.port == 0 { CONTAINER_PORT } else { launch.port });
    } else if engine.runtime == RuntimeKind::Process && words.any(|word| word.contains("{port}")) {
        // The adapter's port is the one inside a container; on this machine it may be taken.
        launch.port = engine.options.port.unwrap_or_default();
    }
    let context = engine.start_context(engine.origin()?);
    let service = engine.wait(start(engine.runtime, &launch, &context))?;
    Server::new(service)
}

/// Connects to a server that already runs.
pub(crate) fn find_server(engine: &Engine) -> Result<Server> {
    if engine.options.url.is_some() && engine.options.container.is_some() {
        return wrong("`url` and `container` are both given", "give one of them");
    }
    let Some(target) = engine.options.target() else {
        return wrong(
            "nothing to attach to",
            "give `url`, or the name of a running `container`",
        );
    };
    let context = engine.start_context(Origin::Script);
    Server::new(engine.wait(attach(&target, &context))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// vLLM 0.24.0 on an H200: the engine's own process fails first, and the server tells where it noticed.
    #[test]
    fn the_last_words_have_no_frames_of_tracebacks() {
        let server = "(APIServer pid=4663) ";
        let trace = format!("{server}Traceback (most recent call last):");
        let frames = (0..20).map(|line| format!("{server}  File \"core.py\", line {line}, in wait"));
        let cause = "(EngineCore pid=4747) ERROR 11-30 08:44:13 [core.py:1231] RuntimeError: For FP16/BF16 input, output [1] must";
        let end = format!("{server}RuntimeError: Engine core initialization failed. See root cause above.");
        let more = (0..11).map(|number| format!("{number}"));
        let log: Vec<String> = [cause.to_owned(), trace]
            .into_iter()
            .chain(frames)
            .chain([end.clone()])
            .chain(more.clone())
            .collect();
        let shown: Vec<String> = [cause.to_owned(), end].into_iter().chain(more).collect();
        assert_eq!(last_words(&log), shown);
    }

    /// Of an error in several lines, of torchrun, of SGLang, and of a program that is not Python.
    #[test]
    fn the_last_words_have_all_lines_of_an_error() {
        for (log, shown) in [
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1\n    f()\nValidationError: 1 validation error\n  Value error, too long",
                "ValidationError: 1 validation error\n  Value error, too long",
            ),
            (
                "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"a.py\", line 1\n[rank0]: ValueError: x",
                "[rank0]: ValueError: x",
            ),
            (
                "[2026-11-20 12:50:22 TP0] Scheduler hit an exception: x\n[2026-11-20 12:50:22 TP0] ValueError: y",
                "[2026-11-20 12:50:22 TP0] Scheduler hit an exception: x\n[2026-11-20 12:50:22 TP0] ValueError: y",
            ),
            ("usage:\n    --port PORT", "usage:\n    --port PORT"),
        ] {
            let log: Vec<String> = log.lines().map(str::to_owned).collect();
            assert_eq!(last_words(&log).join("\n"), shown);
        }
    }
}
