//! Runs `engine.load`: many requests over time on one engine, reduced to statistics.
//!
//! `options` validates the script's options; `session` reads the files that they name and turns both into a plan;
//! `repeat` runs it once. `feed` hands requests to the load's client and writes its records, `client` runs that, and
//! `clock` converts the times of a simulated engine that does not run in real time. `monitor` polls the engine
//! meanwhile, and `answer` builds the result.

mod answer;
mod client;
mod clock;
mod feed;
mod monitor;
pub(super) mod options;
mod repeat;
mod session;

use serde_json::{Value, json};

use crate::boundary::{Cause, Verdict};
use crate::engine::adapter::{Protocol, RequestForm, RulePhase};
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::ensure::{Ensured, ensure};
use crate::engine::lifecycle::health::state_after;
use crate::engine::lifecycle::memory::{begin_requests, end_requests};
use crate::engine::lifecycle::prompts::{load_tokenizer_early, prepare_prompts};
use crate::engine::lifecycle::requests::form_for;
use crate::engine::lifecycle::server::TAIL;
use crate::engine::lifecycle::state::{Health, Live, Running};
use crate::engine::probe::answer::ProbeOptions;
use crate::engine::probe::attempt::PAUSED;
use crate::engine::probe::probe_running;
use crate::engine::verdict::failure::classify;
use crate::engine::verdict::judge::how_it_ended;
use crate::engine::verdict::reason::Symptoms;
use crate::engine::wire::prompting::key;
use crate::fault::{Fault, Kind, Result};
use crate::load::plan::EndReason;
use crate::load::{EngineDeath, LOAD_TOKEN, LoadAnswer, RequestOutcome, RequestRecord, check_in_flight};
use crate::prompt::PromptForm;
use crate::run::{EnginePhase, OperationKind};
use crate::run::{Limits, Operation};
use answer::answer;
use options::LoadOptions;
use repeat::{Repeat, run_repeat};
use session::{LoadInputs, first_prompt, session};

/// Runs a load on the engine, starting it if needed, and returns the results. Failed requests and the engine's
/// death are part of the answer, not errors.
///
/// # Errors
///
/// `usage` for invalid options; `not_allowed` for a file that the user did not name; `engine` if no start serves
/// such requests or none could be sent; `missing` for more requests at a time than this machine can hold.
pub fn load(engine: &Engine, options: &LoadOptions) -> Result<Value> {
    options.check()?;
    let number = engine.context.run.ordinal("load");
    let args = json!({ "engine": engine.name(), "launch": engine.shown, "load": options });
    let answer = engine.context.run.measure(OperationKind::Load, args, || -> Result<_> {
        let answer = run_load(engine, LoadInputs::read(options, &engine.context)?, number)?;
        Ok(Operation::Load(Box::new(answer)))
    })?;
    if let Some(file) = &options.prompts {
        let mut live = engine.lock();
        let repeats = answer.pointer("/repeats/each").and_then(Value::as_array);
        let repeats = repeats.map_or(std::slice::from_ref(&answer), Vec::as_slice);
        let counts = repeats
            .iter()
            .flat_map(|one| [one.pointer("/issued"), one.pointer("/warmup/issued")]);
        let sent: u64 = counts.flatten().filter_map(Value::as_u64).sum();
        let next = first_prompt(options, &live).saturating_add(sent);
        live.next_prompts.insert(file.clone(), next);
    }
    Ok(answer)
}

/// Checks options of [`load`] and the files that they name, without starting anything.
///
/// # Errors
///
/// The errors of [`load`] that need no engine.
pub fn check_load(engine: &Engine, options: &LoadOptions) -> Result<()> {
    options.check()?;
    LoadInputs::read(options, &engine.context).map(drop)
}

fn run_load(engine: &Engine, inputs: LoadInputs, number: u64) -> Result<LoadAnswer> {
    let mut live = engine.lock();
    let requested = prepare_engine(engine, &mut live, &inputs)?;
    let Limits { input, output, .. } = requested;
    let level = inputs.options.level();
    engine.phase(
        EnginePhase::Probing,
        &format!("{level}, up to {input} + {output} tokens"),
    )?;
    begin_requests(engine, &mut live)?;
    let form = form_for(engine, live.running.as_ref(), input, output)?;
    prepare_prompts(engine, &mut live, &form)?;
    if inputs.corpus.is_none() {
        calibrate_prompts(engine, &mut live, &form, requested)?;
    }
    let session = session(engine, &live, inputs, &form, requested, number)?;
    let Some(running) = &live.running else {
        return Err(Fault::internal("a load on an engine that does not run"));
    };
    if let Some(note) = session.clock.note().filter(|_| number == 1) {
        engine.context.run.warn(note)?;
    }
    warn_of_drafts(engine, session.options.prompts.is_some())?;
    let cursor = running.server.service.logs().cursor();
    let mut done: Vec<Repeat> = Vec::new();
    let (mut died, mut health) = (None, Health::Good);
    for repeat in 1..=session.options.repeats() {
        let sent = done.iter().map(|load| load.records.len()).sum();
        let began = std::time::Instant::now();
        let mut load = run_repeat(engine, running, &session, repeat, sent)?;
        (died, health) = check_after_load(engine, running, &load.records, load.end == EndReason::Died, cursor)?;
        if engine.wait(running.server.service.was_paused(began.elapsed()))? {
            load.given_up.get_or_insert_with(|| PAUSED.to_owned());
        }
        let over = load.given_up.is_some() || died.is_some();
        done.push(load);
        if over {
            break;
        }
    }
    let completed = |record: &RequestRecord| record.outcome == RequestOutcome::Completed;
    let records = || done.iter().flat_map(|load| &load.records);
    let any = records().any(completed);
    if died.is_none() && done.last().is_some_and(|load| load.given_up.is_some()) {
        // The engine's state is unknown.
        health = Health::Lost;
    } else if health == Health::Good {
        health = Health::after(records().all(completed));
    }
    let mut answer = answer(engine, &session, done, died)?;
    answer.isolated = live.isolated;
    live.health = health;
    end_requests(engine, &mut live, any)?;
    Ok(answer)
}

/// Warns of a speculating engine whose drafts are accepted or not by a text that nobody wrote.
fn warn_of_drafts(engine: &Engine, own_prompts: bool) -> Result<()> {
    let options = &engine.options;
    let flags = options.engine_args.iter();
    let speculates = options.speculation.is_some() || flags.clone().any(|word| word.starts_with("--spec"));
    let of = match (options.random_weights, own_prompts) {
        (true, _) => "random weights",
        (false, false) => "prompts of random tokens",
        (false, true) => return Ok(()),
    };
    if !speculates {
        return Ok(());
    }
    let message = format!(
        "speculation gains by the drafts that fit the text, and with {of} there is no text: its speed says nothing of yours; \
         load the model's weights and send `prompts` of your own to compare it"
    );
    engine.warn("speculation_without_text", message)
}

/// Makes sure that the engine serves the largest request. Returns the limits for it.
fn prepare_engine(engine: &Engine, live: &mut Live, inputs: &LoadInputs) -> Result<Limits> {
    let rough = inputs.limits(None, Protocol::OpenaiCompletions)?;
    let form = form_for(engine, None, rough.input, rough.output)?;
    load_tokenizer_early(engine, live, &form, rough)?;
    let prompts = live.prompting.as_ref().map(|prompting| &*prompting.prompts);
    let requested = inputs.limits(prompts, form.protocol)?;
    if let Some(most) = inputs.most_in_flight()? {
        check_in_flight(most, inputs.mean(prompts)?, LOAD_TOKEN)?;
    }
    if let Ensured::Failed(failure) = ensure(engine, live, requested)? {
        let message = failure.evidence.message.unwrap_or_default();
        return Err(
            Fault::new(Kind::Engine, format!("no start serves this load: {message}"))
                .hint("probe the point first: its verdict says why"),
        );
    }
    Ok(requested)
}

/// Before a load of text, sends a small request to calibrate our token count to the engine's. Does so once per form.
fn calibrate_prompts(engine: &Engine, live: &mut Live, form: &RequestForm, requested: Limits) -> Result<()> {
    let prompting = live.prompting.as_mut();
    if form.prompt != PromptForm::Text || prompting.is_none_or(|prompting| !prompting.calibrated.insert(key(form))) {
        return Ok(());
    }
    let (input, output) = (requested.input.min(SMALL.0), requested.output.min(SMALL.1));
    let form = form_for(engine, live.running.as_ref(), input, output)?;
    let small = Limits::new(input, output, 1);
    probe_running(engine, live, &form, &small.point()?, small, ProbeOptions::default())?;
    Ok(())
}

/// Input and output tokens of the calibration request.
const SMALL: (u64, u64) = (64, 4);

/// Checks the engine after these requests. `cursor` is the log position before them; `died` says that its death was
/// already noticed. Returns its death, if it died, and its health.
fn check_after_load(
    engine: &Engine,
    running: &Running,
    records: &[RequestRecord],
    died: bool,
    cursor: u64,
) -> Result<(Option<EngineDeath>, Health)> {
    let (exit, survived) = state_after(engine, running, records, died)?;
    match survived {
        None => return Ok((None, Health::Good)),
        Some(true) => return Ok((None, Health::Suspect)),
        Some(false) => {}
    }
    let failures = records.iter().filter_map(RequestRecord::failure);
    let messages: Vec<String> = failures.map(|failure| failure.message.clone()).collect();
    let log = running.server.since(cursor);
    let symptoms = Symptoms {
        exit: exit.as_ref(),
        messages: &messages,
        log: &log,
    };
    let found = classify(&engine.rules.failures, RulePhase::Request, symptoms);
    let (verdict, cause, line) = match found {
        Some(found) => (found.verdict, found.cause, found.line),
        None => (Verdict::Error, None, None),
    };
    let unexplained = if exit.is_some() { Cause::Died } else { Cause::Dead };
    let message = match (&line, &exit) {
        (Some(line), _) => line.clone(),
        (None, Some(exit)) => how_it_ended(exit),
        (None, None) if running.server.ours() => "its process is alive but no longer serves".to_owned(),
        (None, None) => "it no longer answers".to_owned(),
    };
    let death = EngineDeath {
        verdict,
        cause: cause.unwrap_or(unexplained),
        message,
        log: line.map_or_else(|| running.server.last(TAIL), |line| vec![line]),
        exit_code: exit.as_ref().and_then(|exit| exit.code),
        oom_killed: exit.as_ref().is_some_and(|exit| exit.oom_killed),
    };
    // An engine that has not exited is alive but no longer serves.
    let health = if exit.is_some() { Health::Suspect } else { Health::Lost };
    Ok((Some(death), health))
}
