//! Builds a load's answer for the script: statistics, engine-side measurements, warm-up and precision. Several repeats
//! are combined into one.
//!
//! The run's folder keeps the records in `loads/<n>.jsonl` and the engine's timeline in `loads/<n>-timeline.csv`.

use std::path::Path;
use std::time::Duration;

use super::feed::file_stem;
use super::repeat::Repeat;
use super::session::Session;
use crate::compare::export::{Traffic, VllmBench};
use crate::engine::lifecycle::engine::Engine;
use crate::fault::Result;
use crate::load::engine_side::{Cost, EngineStats, Observations, timeline, write};
use crate::load::plan::{Arrivals, EndReason, Warmup};
use crate::load::stats::{LoadStats, RepeatStats, Settings, TargetConcurrency};
use crate::load::{
    EngineDeath, LoadAnswer, LoadRepeats, PrecisionReached, RequestOutcome, RequestRecord, WarmupCounts,
};
use crate::warning::Warning;

/// Maximum characters shown of a failed request's message.
const MAX_MESSAGE: usize = 160;

/// The answer for one or more repeats of a load.
pub(crate) fn answer(
    engine: &Engine,
    session: &Session,
    repeats: Vec<Repeat>,
    died: Option<EngineDeath>,
) -> Result<LoadAnswer> {
    let mut warnings = Vec::new();
    let mut each = Vec::new();
    let mut sent = session.prompts_from;
    for repeat in &repeats {
        sent = sent.saturating_add(repeat.records.len());
        let mut one = describe(session, repeat)?;
        one.engine.timeline.file = write_timeline(engine, session.number, repeat)?;
        one.records = relative(engine, repeat.file.as_deref());
        warnings.extend(load_warnings(session, repeat, sent));
        warnings.extend(one.engine.warnings(&repeat.records));
        write_bench(engine, session, repeat, &one.stats)?;
        each.push(one);
    }
    let mut answer = match <[Repeat; 1]>::try_from(repeats) {
        Ok(_) => each.remove(0),
        Err(repeats) => {
            let stats: Vec<LoadStats> = each.iter().map(|one| one.stats.clone()).collect();
            LoadAnswer {
                records: each.first().and_then(|first| first.records.clone()),
                repeats: Some(LoadRepeats {
                    stats: RepeatStats::new(&stats),
                    each,
                }),
                ..describe(session, &pool(repeats))?
            }
        }
    };
    warnings.extend(failures(&answer.stats));
    if let Some(died) = &died {
        let message = format!("the engine died within the load: {}", died.message);
        warnings.push(Warning::new("engine_died", message));
        answer.stopped = EndReason::Died;
    }
    answer.died = died;
    answer.stats.warnings.extend(warnings);
    answer.stats.warnings.dedup();
    for warning in &answer.stats.warnings {
        engine.context.run.warn(warning.clone())?;
    }
    Ok(answer)
}

/// Writes the engine's timeline. Returns its path within the run's folder.
fn write_timeline(engine: &Engine, number: u64, repeat: &Repeat) -> Result<Option<String>> {
    let name = format!("{}-timeline.csv", file_stem(number, repeat.number));
    let rows = timeline(&repeat.seen, &repeat.records);
    let path = engine.context.run.write("loads", &name, |file| write(file, &rows))?;
    Ok(relative(engine, path.as_deref()))
}

/// Writes the load in the format of vLLM's benchmark.
fn write_bench(engine: &Engine, session: &Session, repeat: &Repeat, figures: &LoadStats) -> Result<()> {
    let began = repeat.began.and_then(|began| jiff::Timestamp::try_from(began).ok());
    let bench = VllmBench {
        date: began.map_or_else(String::new, |began| began.strftime("%Y%m%d-%H%M%S").to_string()),
        backend: engine.name().to_owned(),
        model: session.model.clone().or_else(|| engine.options.model.clone()),
        tokenizer: engine.options.tokenizer.clone(),
        arrivals: match (&session.plan.arrivals, session.options.rate) {
            (Arrivals::Closed { .. }, _) => Traffic::Closed,
            (Arrivals::Open { pattern, .. }, Some(rate)) => Traffic::Rate(rate, pattern.burstiness()),
            _ => Traffic::Other,
        },
        max_concurrency: session
            .plan
            .arrivals
            .max_concurrency()
            .or(session.options.max_concurrency),
        simulated: engine.context.run.simulated(),
    };
    let settings = settings(session, repeat);
    let document = bench.document(&repeat.records, &settings, figures);
    let name = format!("{}.json", file_stem(session.number, repeat.number));
    let run = &engine.context.run;
    run.write("loads", &name, |file| Ok(serde_json::to_writer(file, &document)?))?;
    Ok(())
}

/// The path relative to the run's folder.
fn relative(engine: &Engine, path: Option<&Path>) -> Option<String> {
    let path = path?;
    let inside = engine
        .context
        .run
        .folder()
        .and_then(|folder| path.strip_prefix(folder).ok());
    Some(inside.unwrap_or(path).display().to_string())
}

/// The answer of one repeat, or of all of them pooled: statistics and engine-side measurements within the measured
/// window.
fn describe(session: &Session, repeat: &Repeat) -> Result<LoadAnswer> {
    let options = &session.options;
    let stats = LoadStats::from_records(&repeat.records, &settings(session, repeat));
    let (from, to) = (repeat.from.unwrap_or(repeat.to).as_secs_f64(), repeat.to.as_secs_f64());
    let engine = EngineStats::new(&repeat.seen, &repeat.records, from, to);
    let rates = &stats.rates;
    let cost = Cost::new(
        options.price_per_hour.filter(|_| session.clock.is_meaningful()),
        engine.energy_wh.map(|energy| energy * 3600.0 / (to - from)),
        rates.input_throughput.unwrap_or(0.0),
        rates.output_throughput.unwrap_or(0.0),
    );
    let precision = options.precision.map(|precision| PrecisionReached {
        metric: precision.metric,
        statistic: precision.statistic,
        within: precision.within,
        reached: repeat.end == EndReason::Precision,
        width: repeat.width,
    });
    Ok(LoadAnswer {
        stats,
        engine,
        cost,
        seed: repeat.seed,
        stopped: repeat.end,
        warmup: options.warmup.map(|_| warmup(repeat)),
        precision,
        number: session.number,
        ..LoadAnswer::default()
    })
}

fn warmup(repeat: &Repeat) -> WarmupCounts {
    let count = |like: fn(&RequestOutcome) -> bool| {
        let warmup = repeat.records.iter().filter(|record| record.warmup);
        warmup.filter(|record| like(&record.outcome)).count()
    };
    WarmupCounts {
        issued: count(|_| true),
        completed: count(|outcome| *outcome == RequestOutcome::Completed),
        failed: count(|outcome| matches!(outcome, RequestOutcome::Failed(_))),
        cut_off: count(|outcome| *outcome == RequestOutcome::CutOff),
        seconds: repeat.from.map(|from| from.as_secs_f64()),
    }
}

fn settings(session: &Session, repeat: &Repeat) -> Settings {
    Settings {
        target: held(&session.plan.arrivals, repeat),
        slo: session.options.slo,
        over: (repeat.end == EndReason::Duration).then_some(repeat.to),
        exact: session.options.prompts.is_none(),
        tolerance: session.tolerance,
        timeless: !session.clock.is_real(),
        tokenized: repeat.tokenized.clone(),
        client: repeat.client,
    }
}

/// Warnings about this repeat. `sent` is the number of requests up to its end, from the first prompt of the file on.
fn load_warnings(session: &Session, repeat: &Repeat, sent: usize) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if session.plan.warmup != Warmup::NONE && repeat.from.is_none() {
        let message = "the load ended within its warm-up: nothing was measured";
        warnings.push(Warning::new("only_warmup", message));
    }
    if session.failed_arrivals > 0 {
        let failed = session.failed_arrivals;
        let message = format!(
            "{failed} requests of the trace are left out: they have no tokens, so they had failed when it was recorded"
        );
        warnings.push(Warning::new("failed_arrivals", message).sized(failed as f64));
    }
    if let Some(why) = &repeat.given_up {
        warnings.push(Warning::new("given_up", format!("the load was given up: {why}")));
    }
    if let Some(precision) = session.options.precision
        && repeat.end != EndReason::Precision
    {
        let width = match repeat.width {
            Some(width) => format!("it was ±{:.1} % when last computed", 100.0 * width),
            None => format!(
                "{} completed requests are needed to compute it",
                precision.first_check()
            ),
        };
        let message = format!(
            "the confidence interval of `precision` did not reach ±{:.1} %: {width}; give more `requests` or `duration`",
            100.0 * precision.within
        );
        let warning = Warning::new("precision", message);
        warnings.push(repeat.width.map_or(warning.clone(), |width| warning.sized(width)));
    }
    if let Some(corpus) = &session.corpus
        && sent > corpus.len()
    {
        let message = format!(
            "{sent} requests up to here reused the {} prompts of the file: an engine with a prefix cache answers a repeated prompt faster; give more prompts, or turn it off (`prefix_cache`)",
            corpus.len()
        );
        warnings.push(Warning::new("repeated_prompts", message).sized(sent as f64));
    }
    warnings
}

/// A warning that counts failed requests by kind, each with its first message.
fn failures(figures: &LoadStats) -> Option<Warning> {
    if figures.failed == 0 {
        return None;
    }
    let forms = figures
        .failures
        .iter()
        .map(|(form, failures)| {
            let message: String = failures.message.chars().take(MAX_MESSAGE).collect();
            format!("{} `{form}` ({message})", failures.count)
        })
        .collect::<Vec<_>>()
        .join(", ");
    let message = format!("{} of {} requests failed: {forms}", figures.failed, figures.issued);
    Some(Warning::new("failed_requests", message).sized(figures.failed as f64))
}

/// The concurrency that the load aims at.
fn held(arrivals: &Arrivals, repeat: &Repeat) -> TargetConcurrency {
    match arrivals {
        _ if repeat.pooled => TargetConcurrency::Varying,
        Arrivals::Closed { concurrency, .. } => TargetConcurrency::Closed {
            concurrency: *concurrency,
        },
        Arrivals::Open { profile, .. } if profile.length().is_none() => TargetConcurrency::Open {
            ramped: repeat.from.unwrap_or_default(),
        },
        Arrivals::Open { .. } | Arrivals::ClosedSteps(_) | Arrivals::Replay(_) => TargetConcurrency::Varying,
    }
}

/// Joins the measured parts of the repeats on one clock, without the time between them. Drops the warm-up and samples
/// outside the measured parts.
pub(crate) fn pool(repeats: Vec<Repeat>) -> Repeat {
    let mut whole = Repeat {
        pooled: true,
        from: Some(Duration::ZERO),
        ..Repeat::default()
    };
    for repeat in repeats {
        let from = repeat.from.unwrap_or(repeat.to);
        let first = whole.records.len() as u64;
        let begins = whole.to;
        let mut tokenized = repeat.tokenized;
        for record in repeat.records.into_iter().filter(|record| !record.warmup) {
            let index = whole.records.len() as u64;
            if let Some(tokens) = tokenized.remove(&record.index) {
                whole.tokenized.insert(index, tokens);
            }
            whole.records.push(RequestRecord {
                index,
                ..record.retimed(|moment| moment.saturating_sub(from) + begins)
            });
        }
        let shift = begins.as_secs_f64() - from.as_secs_f64();
        add(
            &mut whole.seen,
            repeat.seen,
            (from.as_secs_f64(), repeat.to.as_secs_f64()),
            shift,
        );
        whole.to += repeat.to.saturating_sub(from);
        if first == 0 {
            whole.seed = repeat.seed;
        }
        // All repeats end the same way, unless the engine died in the last one.
        whole.end = repeat.end;
        whole.width = [whole.width, repeat.width].into_iter().flatten().reduce(f64::max);
    }
    whole
}

/// Appends a part to the whole, shifted in time by `shift`.
fn add(whole: &mut Observations, mut part: Observations, (from, to): (f64, f64), shift: f64) {
    part.samples.retain(|sample| sample.at >= from && sample.at <= to);
    // Clip intervals that reach beyond the load.
    let clip = |begin: &mut f64, end: &mut f64| {
        (*begin, *end) = (begin.max(from), end.min(to));
        begin <= end
    };
    part.memory.retain_mut(|used| clip(&mut used.from, &mut used.to));
    part.power.retain_mut(|sample| clip(&mut sample.from, &mut sample.to));
    part.retime(|at| at + shift);
    part.samples.splice(0..0, std::mem::take(&mut whole.samples));
    part.memory.splice(0..0, std::mem::take(&mut whole.memory));
    part.power.splice(0..0, std::mem::take(&mut whole.power));
    *whole = part;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::engine_side::{MemoryInUse, PowerSample};

    /// A load from second 1 to second 3, sampled from 0 to 5 and once more afterwards.
    fn repeat() -> Repeat {
        let used = |from, to| MemoryInUse { from, to, bytes: 7 };
        let power = |from, to| PowerSample {
            from,
            to,
            devices: Vec::new(),
        };
        Repeat {
            from: Some(Duration::from_secs(1)),
            to: Duration::from_secs(3),
            seen: Observations {
                memory: vec![used(0.0, 5.0), used(6.0, 6.0)],
                power: vec![power(0.0, 5.0), power(6.0, 6.0)],
                ..Observations::default()
            },
            ..Repeat::default()
        }
    }

    #[test]
    fn of_joined_loads_memory_and_power_count_for_the_time_within_each() {
        let seen = pool(vec![repeat(), repeat()]).seen;
        let within = [(0.0, 2.0), (2.0, 4.0)];
        let memory: Vec<_> = seen.memory.iter().map(|used| (used.from, used.to)).collect();
        let power: Vec<_> = seen.power.iter().map(|sample| (sample.from, sample.to)).collect();
        assert_eq!((memory.as_slice(), power.as_slice()), (&within[..], &within[..]));
    }
}
