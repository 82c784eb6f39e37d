//! Finds out which of an adapter's request forms a server accepts, with small requests, once after a start.

use std::time::Duration;

use super::engine::Engine;
use super::requests::send_one;
use super::served::{AskedModel, refused_model};
use super::state::Running;
use crate::engine::adapter::{RequestForm, passes};
use crate::engine::wire::forms::{
    Accepted, LENGTH, NEWER_LENGTH, OPTIONAL, described, failure_text, is_of_the_form, is_of_the_model, remove,
};
use crate::engine::wire::prompting::VOCABULARY;
use crate::engine::wire::refusal::{COMPRESSED, Credentials, error_detail, refusal, remedy, title, wait_longer};
use crate::fault::{Fault, Result};
use crate::fmt::Count;
use crate::load::{Failure, FailureForm};
use crate::prompt::{Origin, PromptSpec};
use crate::run::EnginePhase;
use crate::run::{Event, Limits};
use crate::warning::Warning;

/// Input and output tokens, and the timeout, of the small request.
pub(crate) const INPUT: u64 = 16;
const OUTPUT: u64 = 4;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Finds out which of the adapter's forms the server accepts. Warns if it is not the first.
///
/// # Errors
///
/// `missing` if it accepts none, with its answer to each.
pub(crate) fn find_form(engine: &Engine, running: &mut Running, asked: &AskedModel) -> Result<()> {
    let requested = Limits::new(INPUT, if asked.untried { 1 } else { OUTPUT }, 1);
    let forms = engine.adapter.request(&requested.point()?, running.limits.as_ref())?;
    if forms.len() < 2 && !asked.untried {
        return Ok(());
    }
    engine.phase(EnginePhase::Probing, "which requests the server takes")?;
    let timeout = engine.options.request_timeout.map_or(TIMEOUT, Duration::from_secs_f64);
    engine.context.run.note(Event::Sent {
        timeout: timeout.as_secs_f64(),
    })?;
    let origin = Origin::Words(running.info.vocabulary.unwrap_or(VOCABULARY));
    let prompts = engine.wait(engine.context.prompt_cache.prompts(&origin, engine.context.seed))?;
    let credentials = Credentials::new(running.key.as_ref(), running.server.base_url());
    let mut refused = Vec::new();
    let mut absent = None;
    // True while the server has shown neither a path of the API nor a list of models.
    let mut nothing_there = running.facts.iter().all(|fact| fact.name != "model");
    // A program that we started knows its model, so requests may omit a name that nobody confirmed.
    let knows_model = nothing_there && running.server.ours() && !asked.untried;
    let mut patience = engine.patience();
    let mut rejected = 0;
    for (index, mut form) in forms.into_iter().enumerate() {
        if absent.as_ref() == Some(&form.path) {
            continue;
        }
        let prompt = prompts.make(&PromptSpec {
            form: form.prompt,
            ..PromptSpec::ids(INPUT as usize)
        })?;
        let mut left_out = Vec::new();
        let failure = loop {
            let record = send_one(engine, running, &form, &prompt, requested, timeout)?;
            // A stream that ended early had begun, so the server accepted the form. A probe will say what is wrong.
            let failure = record
                .failure()
                .filter(|failure| failure.form != FailureForm::EndedEarly);
            let Some(failure) = failure else {
                running.accepted = Accepted {
                    index,
                    form: described(&form),
                    left_out,
                    refused,
                    counted: record.counts.input,
                };
                if rejected > 0 {
                    count_rejected(engine, running, rejected, patience.waited)?;
                }
                let mut warnings = asked.warning().into_iter().chain(running.accepted.warning());
                return warnings.try_for_each(|warning| engine.context.run.warn(warning));
            };
            let status = failure.form.status().unwrap_or_default();
            if passes(status, failure.retry_after)
                && patience.wait(&refusal(failure, &form.path, credentials), failure.retry_after)?
            {
                rejected += u64::from(status == 429);
                continue;
            }
            if asked.untried && is_of_the_model(failure, &error_detail(&failure.message), running.info.model.as_deref())
            {
                return Err(refused_model(&running.server, asked, &failure_text(failure, timeout)));
            }
            if !adapt(&mut form, &mut left_out, &mut running.info.model, knows_model, failure) {
                break failure.clone();
            }
        };
        let status = failure.form.status().unwrap_or_default();
        let refusal = format!("{} ({})", described(&form), failure_text(&failure, timeout));
        if !is_of_the_form(&failure) {
            return Err(not_served(&failure, &refusal, requested, asked, credentials));
        }
        if matches!(status, 404 | 405) {
            absent = Some(form.path);
        } else {
            nothing_there = false;
        }
        // The server may use this status to say that it lacks the model.
        nothing_there &= !error_detail(&failure.message).contains("model");
        refused.push(refusal);
    }
    if asked.untried {
        return Err(refused_model(&running.server, asked, &refused.join("; ")));
    }
    Err(none_accepted(engine.name(), &refused, nothing_there))
}

/// Leaves out the field of the request that the server's answer names. Returns false if it names none that may be absent;
/// the model may be if the server knows it.
fn adapt(
    form: &mut RequestForm,
    left_out: &mut Vec<String>,
    model: &mut Option<String>,
    knows_model: bool,
    failure: &Failure,
) -> bool {
    let error_detail = error_detail(&failure.message);
    let names = |word: &str| error_detail.contains(word);
    if knows_model && model.as_deref().is_some_and(names) {
        *model = None;
    } else if let Some(field) = OPTIONAL.iter().find(|field| names(field) && remove(form, field)) {
        left_out.push((*field).to_owned());
    } else if names(NEWER_LENGTH) && remove(form, LENGTH) {
        left_out.push(LENGTH.to_owned());
    } else {
        return false;
    }
    true
}

/// The server failed in a way that another form of the request would not change.
fn not_served(
    failure: &Failure,
    refusal: &str,
    requested: Limits,
    asked: &AskedModel,
    credentials: Credentials,
) -> Fault {
    let status = failure.form.status().unwrap_or_default();
    let remedy = match failure.form {
        FailureForm::Status(429 | 503) => wait_longer(status).to_owned(),
        FailureForm::Deadline => {
            "see whether it hangs or still loads its model; a slow one gets more time with `--request-timeout 600`"
                .to_owned()
        }
        _ => remedy(status, credentials).unwrap_or_else(|| "when it answers again, run this again".to_owned()),
    };
    let title = title(status, credentials).map_or_else(String::new, |title| format!("{title}: "));
    let (input, output) = (requested.input, requested.output);
    let mut message = format!("{title}the server did not serve a request of {input} + {output} tokens: {refusal}");
    if let Some(name) = asked.name.as_ref().filter(|_| asked.untried) {
        message += &format!("; whether it serves `{name}`, which it does not list, is not known");
    }
    Fault::missing(message, remedy)
}

/// The server refused every form. `nothing_there`: it has shown neither a path of the API nor a model.
fn none_accepted(adapter: &str, refused: &[String], nothing_there: bool) -> Fault {
    let all_say = |text: &str| refused.iter().all(|refusal| refusal.contains(text));
    let remedy = if all_say("does not stream") {
        "let it stream (`stream: true`): without a stream it is not seen when tokens come"
    } else if all_say("content encoding") {
        COMPRESSED
    } else if nothing_there {
        "nothing of the engine's API is at this address: give the path that it begins with, as `--url http://HOST:PORT/PREFIX` (without `/v1`)"
    } else {
        "name the model that it serves (`model=NAME`), or its engine (`engine=vllm`); for any other protocol write an adapter (stdlib/engines/README.md)"
    };
    let answers = refused.join("; ");
    Fault::missing(
        format!("the server takes no request of the adapter `{adapter}`: {answers}"),
        remedy,
    )
}

/// Counts requests that the server rejected and that were sent again after a wait.
pub(crate) fn count_rejected(engine: &Engine, running: &mut Running, rejected: u64, waited: Duration) -> Result<()> {
    running.rejected += rejected;
    running.waited += waited;
    let (all, seconds) = (running.rejected, running.waited.as_secs_f64());
    let message = format!(
        "rate limit: the server rejected {} (status 429 or 503), retried after the delay that it asked for ({seconds:.0} s in total)",
        Count(usize::try_from(all).unwrap_or(usize::MAX), "request")
    );
    engine
        .context
        .run
        .warn(Warning::new("rate_limited", message).sized(all as f64))
}
