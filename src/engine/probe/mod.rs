//! Tests one point on an engine: starts the engine if necessary, sends the point's requests, retries where that makes
//! sense, and keeps the best attempt.

pub(super) mod answer;
pub(super) mod attempt;
mod counts;
pub(super) mod dry_run;
pub(crate) mod unstated;

use std::time::Duration;

use tokio::time::Instant;

use crate::boundary::{BoundsReport, Cause, Overload, Point, Verdict};
use crate::engine::adapter::RequestForm;
use crate::engine::facts::log::REQUEST;
use crate::engine::lifecycle::accept::count_rejected;
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::ensure::{Ensured, ensure};
use crate::engine::lifecycle::memory::{begin_requests, end_requests, gpu_count, show_memory};
use crate::engine::lifecycle::options::wrong;
use crate::engine::lifecycle::patience::Patience;
use crate::engine::lifecycle::prompts::load_tokenizer_early;
use crate::engine::lifecycle::requests::request;
use crate::engine::lifecycle::state::Live;
use crate::engine::verdict::bounds::{StartFailure, StartHistory, bounds_report};
use crate::engine::verdict::judge::succeeded;
use crate::engine::verdict::observation::Judgement;
use crate::engine::verdict::residency::longer_output;
use crate::engine::wire::refusal::{Credentials, refusal, wait_longer};
use crate::fault::{Fault, Kind, Result};
use crate::load::{PROBE_TOKEN, RequestRecord, Summary, Tolerance, check_in_flight};
use crate::run::EnginePhase;
use crate::run::{Evidence, Limits, ProbeAnswer};
use crate::runtime::RuntimeKind;
use crate::task::lock;
use answer::{COORDINATES, ProbeOptions, RETRIES, describe_memory};
use attempt::{Attempt, adapt_calibration, attempt, newest};
use unstated::{judge_cut, judge_refusal};

/// The limits that an engine needs to serve a point.
///
/// # Errors
///
/// `usage` for a wrong point or option.
pub(crate) fn check(point: &Point, options: &ProbeOptions) -> Result<Limits> {
    options.check()?;
    let requested = Limits::of_point(point)?;
    if let Some(name) = point.0.keys().find(|name| !COORDINATES.contains(&name.as_str())) {
        return wrong(
            format!("a point of an engine has no `{name}`"),
            "a point is `#{ input: 512, output: 128, concurrency: 1 }`; what else varies belongs to the launch",
        );
    }
    Ok(requested)
}

/// Tests one point, whose limits are `requested`. The engine's failures are verdicts.
///
/// # Errors
///
/// `missing` for something that the engine needs.
pub(crate) fn probe(engine: &Engine, point: &Point, requested: Limits, options: ProbeOptions) -> Result<ProbeAnswer> {
    let began = Instant::now();
    let mut live = engine.lock();
    let tried = live.tried;
    load_tokenizer_early(engine, &mut live, &request(engine, point, None)?, requested)?;
    if let Err(fault) = check_in_flight(requested.concurrency, requested.input, PROBE_TOKEN) {
        return too_much(engine, point, fault);
    }
    let mut answer = match ensure(engine, &mut live, requested)? {
        Ensured::Failed(failure) => no_start(point, &requested, *failure),
        Ensured::Running(started) => {
            engine.phase(EnginePhase::Probing, &point.to_string())?;
            let from = Instant::now();
            begin_requests(engine, &mut live)?;
            let form = request(engine, point, live.running.as_ref())?;
            let mut answer = probe_running(engine, &mut live, &form, point, requested, options)?;
            answer.started = started;
            if engine.runtime == RuntimeKind::Attach {
                judge_server(&mut answer);
                let unknown = matches!(answer.verdict, Verdict::Timeout | Verdict::Error);
                // The run has measured nothing yet, so ending it loses nothing.
                if answer.evidence.ended_server
                    && unknown
                    && options.timeout.is_none()
                    && !engine.context.run.has_measured()
                {
                    return Err(silent_server(&answer));
                }
            }
            end_requests(engine, &mut live, answer.verdict == Verdict::Ok)?;
            if let Some(sampler) = live.running.as_ref().and_then(|running| running.sampler.as_ref()) {
                describe_memory(&mut answer, sampler, from.into_std());
                show_memory(engine, sampler)?;
            }
            answer
        }
    };
    answer.moves = answer.verdict.moves(answer.cause.as_ref(), options.overload);
    answer.starts = live.tried - tried;
    answer.isolated = live
        .isolated
        .filter(|_| answer.starts > 0 || answer.evidence.issued > 0);
    answer.seconds = began.elapsed().as_secs_f64();
    answer.gpus = gpu_count(engine)?;
    answer.report = report(&live, &lock(&engine.starts));
    Ok(answer)
}

/// Probes a running engine, retries where that makes sense, and keeps the best attempt.
pub(crate) fn probe_running(
    engine: &Engine,
    live: &mut Live,
    form: &RequestForm,
    point: &Point,
    requested: Limits,
    options: ProbeOptions,
) -> Result<ProbeAnswer> {
    let mut best: Option<Attempt> = None;
    let (mut attempts, mut waits, mut rejected) = (0, 0, 0);
    let mut patience = engine.patience();
    loop {
        attempts += 1;
        let mut attempt = attempt(engine, live, form, requested, options)?;
        rejected += attempt.rejected().count() as u64;
        let waited = waited_for(engine, &attempt, &mut patience)?;
        waits += u64::from(waited);
        // Nothing is calibrated from the count of a prompt that was cut.
        let is_cut = judge_cut(engine, live, requested, options, &mut attempt)?;
        let misses = if is_cut {
            0
        } else {
            adapt_calibration(live, form, requested, &attempt)
        };
        // If counts differ from prompt to prompt, further corrections do not make them exact.
        let most = if attempt.near.is_some() { 1 } else { CORRECTIONS };
        let again = waited
            || (1..=most).contains(&misses)
            || (attempts - waits <= u64::from(options.retries.unwrap_or(RETRIES)) && worth_retrying(&attempt));
        live.health = attempt.health();
        let judged = attempt.near.as_ref().unwrap_or(&attempt.judgement);
        if let (Some(Cause::LengthLimit), Some(refusal), Some(running)) =
            (&judged.cause, &judged.line, &mut live.running)
        {
            running.info.reported.learn(&engine.rules.failures, refusal);
        }
        let overloaded = attempt.judgement.cause == Some(Cause::Overloaded);
        if best
            .as_ref()
            .is_none_or(|best| produced(&attempt.answers) >= produced(&best.answers))
        {
            best = Some(attempt);
        }
        if !again {
            break;
        }
        if overloaded && !waited {
            engine
                .context
                .tasks
                .sleep(Duration::from_millis(100 << (attempts - waits).min(6)))?;
        }
    }
    let mut best = best.ok_or_else(|| Fault::internal("a probe without an attempt"))?;
    judge_refusal(engine, live, form, requested, options, &mut best)?;
    if let Some(running) = live.running.as_mut().filter(|_| best.judgement.verdict == Verdict::Ok) {
        running.sizes.add_served(requested);
    }
    if let Some(running) = live.running.as_mut().filter(|_| waits > 0) {
        count_rejected(engine, running, rejected, patience.waited)?;
        best.waited = Some((rejected, patience.waited));
    }
    best.take_near();
    if best.is_untested() && options.overload == Overload::Fails {
        keep_in_flight(engine, live, requested, options, &mut best)?;
    }
    if best.judgement.verdict == Verdict::Ok && !best.paused {
        for answer in &best.answers {
            let output = answer.counts.output.unwrap_or(requested.output);
            live.speed
                .learn(&requested, answer.ttft_ms(answer.sent), answer.tpot_ms(output));
        }
    }
    let limits = live.running.as_ref().and_then(|running| running.limits);
    Ok(describe(point, requested, best, attempts, limits))
}

/// Waits for the delay that a server requested when it rejected requests. If it served some of them, waits only once: a
/// concurrency limit would reject the others again.
///
/// # Errors
///
/// `missing` if an attached server serves no request before the wait time is over.
fn waited_for(engine: &Engine, attempt: &Attempt, patience: &mut Patience<'_>) -> Result<bool> {
    let requested_wait = attempt
        .rejected()
        .filter_map(|answer| answer.failure()?.retry_after)
        .max();
    let (Some(requested_wait), Some(first)) = (requested_wait, attempt.rejected().find_map(RequestRecord::failure))
    else {
        return Ok(false);
    };
    let served = attempt.answers.iter().any(succeeded);
    if served && !patience.waited.is_zero() {
        return Ok(false);
    }
    let reason = refusal(first, &attempt.path, Credentials::None);
    let waited = patience.wait(&reason, Some(requested_wait))?;
    if !waited && !served && engine.runtime == RuntimeKind::Attach {
        let (requested_wait, so_far) = (requested_wait.as_secs_f64(), patience.waited.as_secs_f64());
        return Err(Fault::missing(
            format!("{reason}; after {so_far:.0} s of waiting, the server asks for {requested_wait:.0} s more"),
            format!(
                "{}; then resume the run",
                wait_longer(first.form.status().unwrap_or_default())
            ),
        ));
    }
    Ok(waited)
}

/// Sends the requests once more with a longer output, as far as the engine's limits allow, so that early ones do not
/// end before late ones are admitted. The longer output is harder than the requested one. A success therefore shows
/// that all requests fit. A full queue becomes the judgement of the requested point only if one request more than ran
/// would need no more KV cache than that point.
fn keep_in_flight(
    engine: &Engine,
    live: &mut Live,
    requested: Limits,
    options: ProbeOptions,
    first: &mut Attempt,
) -> Result<()> {
    let running = live.running.as_ref();
    let longest = running
        .and_then(|running| match running.limits {
            Some(limits) => Some(limits.total),
            None => running.info.reported.max_model_len,
        })
        .map(|total| total.saturating_sub(requested.input));
    let Some(output) = longest.and_then(|longest| longer_output(&requested, &first.answers, longest)) else {
        return Ok(());
    };
    let longer = Limits::new(requested.input, output, requested.concurrency);
    let form = request(engine, &longer.point()?, live.running.as_ref())?;
    // The attempt may produce any part of the longer output.
    let options = ProbeOptions {
        output_tolerance: Tolerance::ANY,
        ..options
    };
    let mut second = attempt(engine, live, &form, longer, options)?;
    second.take_near();
    live.health = second.health();
    let total = |limits: Limits, concurrency| Limits { concurrency, ..limits }.resident();
    let so_many = |running: u64| total(longer, running + 1) <= requested.resident();
    let judged = &second.judgement;
    match judged.verdict {
        Verdict::Ok => {
            let all = requested.concurrency;
            let message =
                format!("all {all} ran together with {output} tokens of output; with less, early requests end first");
            first.judgement = Judgement::ok(Some(message));
        }
        Verdict::Queued if judged.running.is_some_and(so_many) => first.judgement = second.judgement,
        _ if second.is_untested() => first.judgement = second.judgement,
        _ => {
            let why = judged.message.as_deref().unwrap_or_default();
            first.judgement.add(&format!("with {output} tokens of output: {why}"));
        }
    }
    first.queue = second.queue;
    first.longer_output = Some(output);
    Ok(())
}

/// Corrections of a prompt's length for one probe.
const CORRECTIONS: u32 = 4;

/// An early end of text is random, and an overloaded engine may recover.
fn worth_retrying(attempt: &Attempt) -> bool {
    match attempt.judgement.verdict {
        Verdict::ShortOutput => attempt.judgement.cause == Some(Cause::EndOfText),
        Verdict::Error => attempt.judgement.cause == Some(Cause::Overloaded),
        _ => false,
    }
}

/// The minimum output over the requests.
fn produced(answers: &[RequestRecord]) -> Option<u64> {
    answers.iter().map(|answer| answer.counts.output).min().flatten()
}

/// The bounds reported by the running engine and by failed starts.
fn report(live: &Live, starts: &StartHistory) -> Option<BoundsReport> {
    let running = live.running.as_ref();
    let reported = running.map(|running| running.info.reported).unwrap_or_default();
    let block = running.and_then(|running| newest(running, "kv_block_tokens"));
    bounds_report(&reported, block, starts, running.and_then(|running| running.limits))
}

/// Judges the failure of a server that only its operator can start again.
fn judge_server(answer: &mut ProbeAnswer) {
    let died = answer.evidence.survived == Some(false);
    // A server that still streams is only slow.
    let silent = answer.verdict == Verdict::Timeout && answer.ttft_ms.is_none();
    answer.evidence.ended_server = died || silent;
    if died && answer.verdict == Verdict::Error {
        answer.cause = Some(Cause::Died);
    }
}

/// The error if a server that was attached to did not answer its first request.
fn silent_server(answer: &ProbeAnswer) -> Fault {
    let reason = answer.evidence.message.as_deref().unwrap_or_default();
    Fault::missing(
        format!(
            "the server did not finish its first request, {}: {reason}",
            answer.point
        ),
        match answer.verdict {
            Verdict::Timeout => {
                "see whether it hangs or still loads its model, and start it again; a slow one gets more time with `--request-timeout 600`"
            }
            _ => "see its log, restart it, and try a smaller range, such as `--input 16..1024`",
        },
    )
}

/// The answer for a point that this program cannot send. Easier ones may still be sent.
fn too_much(engine: &Engine, point: &Point, fault: Fault) -> Result<ProbeAnswer> {
    if fault.kind != Kind::Missing {
        return Err(fault);
    }
    let message = [Some(fault.message), fault.hint];
    Ok(ProbeAnswer {
        point: point.clone(),
        verdict: Verdict::Refused,
        cause: Some(Cause::ClientLimit),
        evidence: Evidence {
            message: Some(message.into_iter().flatten().collect::<Vec<_>>().join("; ")),
            ..Evidence::default()
        },
        gpus: gpu_count(engine)?,
        ..ProbeAnswer::default()
    })
}

/// The answer if no start serves the point.
fn no_start(point: &Point, requested: &Limits, failure: StartFailure) -> ProbeAnswer {
    let verdict = match failure.cause {
        _ if failure.is_foreseen(requested) => Verdict::NotSent,
        // A configured limit is no lack of memory: it clips the search range, whether a start or a request exceeds it.
        Cause::LengthLimit => Verdict::Refused,
        _ => Verdict::StartFailed,
    };
    ProbeAnswer {
        verdict,
        cause: Some(failure.cause),
        evidence: failure.evidence,
        point: point.clone(),
        ..ProbeAnswer::default()
    }
}

fn describe(point: &Point, requested: Limits, attempt: Attempt, attempts: u64, limits: Option<Limits>) -> ProbeAnswer {
    let counted = attempt.counted();
    let Attempt {
        answers,
        judgement,
        exit,
        ..
    } = attempt;
    let timed = || answers.iter().filter(|_| !attempt.paused);
    let median = |figure: &dyn Fn(&RequestRecord) -> Option<f64>| {
        Summary::from_values(timed().filter_map(figure).collect()).median
    };
    let evidence = Evidence {
        message: judgement.message,
        remedy: judgement.remedy,
        log: match judgement.line {
            Some(line) => vec![line],
            None if judgement.verdict == Verdict::Error || exit.is_some() => attempt.ending,
            None => Vec::new(),
        },
        phase: (judgement.verdict != Verdict::Ok).then(|| REQUEST.to_owned()),
        allocations: attempt.allocations,
        survived: attempt.survived,
        exit_code: exit.as_ref().and_then(|exit| exit.code),
        oom_killed: exit.map(|exit| exit.oom_killed),
        http_status: answers.iter().find_map(|answer| answer.failure()?.form.status()),
        finish: answers.iter().find_map(|answer| answer.finish.clone().map(Into::into)),
        excess: answers
            .iter()
            .filter_map(|answer| answer.counts.output?.checked_sub(requested.output))
            .max()
            .filter(|excess| *excess > 0),
        completed: answers.iter().filter(|answer| succeeded(answer)).count() as u64,
        counted,
        longer_output: attempt.longer_output,
        issued: answers.len() as u64,
        attempts,
        rejected: attempt.waited.map(|(rejected, _)| rejected),
        waited: attempt.waited.map(|(_, waited)| waited.as_secs_f64()),
        queue: attempt.queue.peaks(),
        limits,
        ..Evidence::default()
    };
    let gaps: Vec<f64> = timed()
        .flat_map(|answer| &answer.itl_ms)
        .map(|gap| f64::from(*gap))
        .collect();
    ProbeAnswer {
        verdict: judgement.verdict,
        cause: judgement.cause,
        counted: counted.map(|input| Point::default().with("input", i64::try_from(input).unwrap_or(i64::MAX))),
        evidence,
        input: answers.iter().map(|answer| answer.counts.input).min().flatten(),
        output: produced(&answers),
        ttft_ms: median(&|answer| answer.ttft_ms(answer.sent)),
        tpot_ms: median(&|answer| answer.tpot_ms(answer.counts.output?)),
        itl_ms: Summary::from_values(gaps).median,
        e2el_ms: median(&|answer| answer.e2el_ms(answer.sent)),
        point: point.clone(),
        ..ProbeAnswer::default()
    }
}
