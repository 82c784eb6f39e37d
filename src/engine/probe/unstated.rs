//! Limits that a server does not state: a refusal that no rule explains and that repeats, and prompts that the server
//! cuts without a word.

use super::answer::ProbeOptions;
use super::attempt::{Attempt, attempt};
use crate::boundary::{Cause, Verdict};
use crate::engine::adapter::RequestForm;
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::requests::request;
use crate::engine::lifecycle::state::Live;
use crate::engine::verdict::observation::Judgement;
use crate::engine::verdict::sizes::{is_alike, is_for_rate};
use crate::engine::wire::refusal::error_detail;
use crate::fault::Result;
use crate::load::RequestRecord;
use crate::run::Limits;

/// Statuses of refusals that are not about the size of a request: of keys, payment, paths, methods, types and rates.
const NOT_OF_SIZE: [u16; 12] = [401, 402, 403, 404, 405, 406, 407, 408, 410, 415, 425, 429];

/// A request that every server serves, to tell a limit on sizes from a refusal of anything.
const EASY: Limits = Limits::new(16, 4, 1);

/// A longer prompt to see whether the server cuts it has this many tokens more, or a quarter more.
const LONGER: u64 = 64;

/// Judges a refusal, or an empty answer, that no rule explains. It is a limit if it repeats and an easier request is
/// served: then the attempt is `refused` for `unknown_limit`. A number in the server's words that may be the limit
/// becomes the length that it states, which the search verifies.
pub(super) fn judge_refusal(
    engine: &Engine,
    live: &mut Live,
    form: &RequestForm,
    requested: Limits,
    options: ProbeOptions,
    first: &mut Attempt,
) -> Result<()> {
    let Some(words) = refusal_words(first) else {
        return Ok(());
    };
    let running = live.running.as_ref();
    if !running.is_some_and(|running| running.sizes.refuses(&words)) {
        let second = attempt(engine, live, form, requested, options)?;
        live.health = second.health();
        let repeats = refusal_words(&second).is_some_and(|again| is_alike(&again, &words));
        if !repeats || !serves_easier(engine, live, requested, options)? {
            return Ok(());
        }
    }
    let Some(running) = &mut live.running else {
        return Ok(());
    };
    let stated = running.sizes.add_refused(&words, &requested);
    let reported = &mut running.info.reported;
    reported.max_model_len = reported.max_model_len.or(stated);
    first.judgement = Judgement {
        verdict: Verdict::Refused,
        cause: Some(Cause::UnknownLimit),
        line: Some(words).filter(|words| !words.is_empty()),
        ..first.judgement.clone()
    };
    Ok(())
}

/// Detects a server that cuts prompts: it counted fewer tokens than requested, and counts no more of a longer prompt. A
/// second output length tells what it cuts them to: an input limit if the count stays, a total limit if the sum of
/// count and output stays. The attempt is then `refused` for its length, and the limit becomes one that the server
/// states. Returns whether it cuts them.
pub(super) fn judge_cut(
    engine: &Engine,
    live: &mut Live,
    requested: Limits,
    options: ProbeOptions,
    first: &mut Attempt,
) -> Result<bool> {
    let counted = |attempt: &Attempt| attempt.answers.iter().filter_map(|answer| answer.counts.input).min();
    let Some(cut_to) = counted(first).filter(|counted| *counted < requested.input) else {
        return Ok(false);
    };
    if first.judgement.cause != Some(Cause::InputCount) || first.near.is_some() {
        return Ok(false);
    }
    let longer = requested.input + LONGER.max(requested.input / 4);
    let mut ask = |output: u64| -> Result<Option<u64>> {
        let limits = Limits::new(longer, output, requested.concurrency);
        let form = request(engine, &limits.point()?, live.running.as_ref())?;
        let attempt = attempt(engine, live, &form, limits, options)?;
        live.health = attempt.health();
        Ok(counted(&attempt))
    };
    if ask(requested.output)? != Some(cut_to) {
        return Ok(false);
    }
    let other = if requested.output > 1 { requested.output / 2 } else { 2 };
    let to_other = ask(other)?;
    let total = cut_to + requested.output;
    let (is_total, is_input) = (
        to_other.map(|count| count + other) == Some(total),
        to_other == Some(cut_to),
    );
    let limit = match (is_total, is_input) {
        (true, _) => format!("input + output ≤ {total}"),
        (_, true) => format!("input ≤ {cut_to}"),
        _ => "to a length that depends on the output in another way".to_owned(),
    };
    if let Some(running) = &mut live.running {
        let reported = &mut running.info.reported;
        if is_total {
            reported.max_model_len = Some(reported.max_model_len.map_or(total, |stated| stated.min(total)));
        } else if is_input {
            reported.max_input = Some(reported.max_input.map_or(cut_to, |stated| stated.min(cut_to)));
        }
    }
    let message = format!(
        "the server cuts prompts without a word: of {} and of {longer} tokens of input it counted {cut_to}; {limit}",
        requested.input
    );
    engine.warn("cut_prompts", message.clone())?;
    first.judgement = Judgement::new(Verdict::Refused, Cause::LengthLimit, message);
    Ok(true)
}

/// The server's words for refusing the requests of an attempt, if they may be about their size; empty if it answered
/// them with nothing.
fn refusal_words(attempt: &Attempt) -> Option<String> {
    if attempt.survived == Some(false) {
        return None;
    }
    match attempt.judgement.cause {
        Some(Cause::Status) => {
            let refused = attempt.answers.iter().filter_map(RequestRecord::failure);
            let mut refused = refused.filter(|failure| {
                let status = failure.form.status();
                status.is_some_and(|status| (400..500).contains(&status) && !NOT_OF_SIZE.contains(&status))
            });
            let body = &refused.next()?.message;
            (!is_for_rate(body)).then(|| error_detail(body))
        }
        Some(Cause::EndOfText | Cause::Clipped) => {
            let is_empty = attempt.answers.iter().all(|answer| answer.counts.output == Some(0));
            is_empty.then(String::new)
        }
        _ => None,
    }
}

/// Whether the server serves a request that is easier on every axis: one that it served before, or one sent now.
fn serves_easier(engine: &Engine, live: &mut Live, requested: Limits, options: ProbeOptions) -> Result<bool> {
    let running = live.running.as_ref();
    if running.is_some_and(|running| running.sizes.serves_easier(&requested)) {
        return Ok(true);
    }
    let easy = Limits::new(EASY.input.min(requested.input), EASY.output.min(requested.output), 1);
    if easy == requested {
        return Ok(false);
    }
    let form = request(engine, &easy.point()?, live.running.as_ref())?;
    let answer = attempt(engine, live, &form, easy, options)?;
    live.health = answer.health();
    let is_served = answer.judgement.verdict == Verdict::Ok;
    if let Some(running) = live.running.as_mut().filter(|_| is_served) {
        running.sizes.add_served(easy);
    }
    Ok(is_served)
}
