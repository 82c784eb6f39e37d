//! Builds a load's answer for the script: statistics, engine-side measurements, warm-up and precision in one map.
//!
//! The run's folder keeps the records in `loads/<n>.jsonl` and the engine's timeline in `loads/<n>-timeline.csv`.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::death::EngineDeath;
use super::options::LoadOptions;
use super::pool::pool;
use super::records::file_stem;
use super::session::{Repeat, Session};
use crate::compare::export::{Traffic, VllmBench};
use crate::engine::Engine;
use crate::fault::{Fault, Result};
use crate::load::engine_side::{Cost, EngineStats, WindowThroughput, timeline, write};
use crate::load::plan::{Arrivals, EndReason, Warmup};
use crate::load::stats::{LoadStats, RepeatStats, Settings, TargetConcurrency};
use crate::load::{Outcome, Record};

/// Maximum characters shown of a failed request's message.
const MAX_MESSAGE: usize = 160;

impl Engine {
    /// The answer for one or more repeats of a load.
    pub(super) fn answer(
        &self,
        options: &LoadOptions,
        session: &Session,
        repeats: Vec<Repeat>,
        died: Option<EngineDeath>,
    ) -> Result<Value> {
        let mut warnings = Vec::new();
        let mut each = Vec::new();
        let mut figures = Vec::new();
        for repeat in &repeats {
            let mut joined = joined(repeat);
            joined.timeline.file = self.write_timeline(session.number, repeat)?;
            warnings.extend(load_warnings(options, session, repeat));
            warnings.extend(joined.warnings(&repeat.records));
            let (mut map, numbers) = describe(options, session, repeat, &joined)?;
            self.write_bench(options, session, repeat, &numbers)?;
            map.insert("records".into(), self.relative(repeat.file.as_deref()).into());
            each.push(map);
            figures.push(numbers);
        }
        let (mut answer, numbers) = match <[Repeat; 1]>::try_from(repeats) {
            Ok([one]) => {
                let mut only = each.remove(0);
                let warmup_and_precision = warmup_and_precision(options, &one)?;
                only.extend(warmup_and_precision);
                only.insert("repeats".into(), Value::Null);
                (only, figures.remove(0))
            }
            Err(repeats) => {
                let whole = pool(repeats);
                let (mut all, numbers) = describe(options, session, &whole, &joined(&whole))?;
                all.extend(warmup_and_precision(options, &whole)?);
                let first = each.first().and_then(|first| first.get("records")).cloned();
                all.insert("records".into(), first.into());
                let mut together = value(&RepeatStats::new(&figures))?;
                together["each"] = each.into();
                all.insert("repeats".into(), together);
                (all, numbers)
            }
        };
        warnings.extend(failures(&numbers));
        if let Some(died) = &died {
            warnings.push(format!("the engine died within the load: {}", died.message()));
            answer.insert("stopped".into(), value(&EndReason::Died)?);
        }
        answer.insert("died".into(), value(&died)?);
        answer.insert("number".into(), session.number.into());
        if let Some(Value::Array(map)) = answer.get_mut("warnings") {
            map.extend(warnings.into_iter().map(Value::from));
            map.dedup();
            for warning in map.iter().filter_map(Value::as_str) {
                self.context.run.warn(warning)?;
            }
        }
        Ok(Value::Object(answer))
    }

    /// Writes the engine's timeline. Returns its path within the run's folder.
    fn write_timeline(&self, number: u64, repeat: &Repeat) -> Result<Option<String>> {
        let name = format!("{}-timeline.csv", file_stem(number, repeat.number));
        let rows = timeline(&repeat.seen, &repeat.records);
        let path = self.context.run.write("loads", &name, |file| write(file, &rows))?;
        Ok(self.relative(path.as_deref()))
    }

    /// Writes the load in the format of vLLM's benchmark.
    fn write_bench(
        &self,
        options: &LoadOptions,
        session: &Session,
        repeat: &Repeat,
        figures: &LoadStats,
    ) -> Result<()> {
        let began = repeat.began.and_then(|began| jiff::Timestamp::try_from(began).ok());
        let bench = VllmBench {
            date: began.map_or_else(String::new, |began| began.strftime("%Y%m%d-%H%M%S").to_string()),
            backend: self.name().to_owned(),
            model: session.model.clone().or_else(|| self.options.model.clone()),
            tokenizer: self.options.tokenizer.clone(),
            arrivals: match (&session.plan.arrivals, options.rate) {
                (Arrivals::Closed { .. }, _) => Traffic::Closed,
                (Arrivals::Open { pattern, .. }, Some(rate)) => Traffic::Rate(rate, pattern.burstiness()),
                _ => Traffic::Other,
            },
            max_concurrency: session.plan.arrivals.max_concurrency().or(session.max_concurrency),
        };
        let document = bench.document(&repeat.records, &settings(options, session, repeat), figures);
        let name = format!("{}.json", file_stem(session.number, repeat.number));
        self.context.run.write_json("loads", &name, &document)?;
        Ok(())
    }

    /// The path relative to the run's folder.
    fn relative(&self, path: Option<&Path>) -> Option<String> {
        let path = path?;
        let inside = self
            .context
            .run
            .folder()
            .and_then(|folder| path.strip_prefix(folder).ok());
        Some(inside.unwrap_or(path).display().to_string())
    }
}

/// The measured window in seconds on the load's clock.
fn window(repeat: &Repeat) -> (f64, f64) {
    (repeat.from.unwrap_or(repeat.to).as_secs_f64(), repeat.to.as_secs_f64())
}

/// Engine-side measurements within the measured window.
fn joined(repeat: &Repeat) -> EngineStats {
    let (from, to) = window(repeat);
    EngineStats::new(&repeat.seen, &repeat.records, from, to)
}

/// The statistics and engine-side measurements of a load, as a map.
fn describe(
    options: &LoadOptions,
    session: &Session,
    repeat: &Repeat,
    joined: &EngineStats,
) -> Result<(Map<String, Value>, LoadStats)> {
    let figures = LoadStats::from_records(&repeat.records, &settings(options, session, repeat));
    let (from, to) = window(repeat);
    let cost = Cost::new(
        options.price_per_hour,
        WindowThroughput {
            input_throughput: figures.rates.input_throughput.unwrap_or(0.0),
            output_throughput: figures.rates.output_throughput.unwrap_or(0.0),
            seconds: to - from,
            energy_wh: joined.energy_wh,
        },
    )?;
    let mut map = Map::new();
    for part in [value(&figures)?, value(joined)?] {
        if let Value::Object(part) = part {
            map.extend(part);
        }
    }
    map.insert("cost".into(), value(&cost)?);
    map.insert("seed".into(), repeat.seed.into());
    map.insert("stopped".into(), value(&repeat.end)?);
    Ok((map, figures))
}

fn settings(options: &LoadOptions, session: &Session, repeat: &Repeat) -> Settings {
    Settings {
        target: held(&session.plan.arrivals, repeat),
        slo: options.slo,
        over: (repeat.end == EndReason::Duration).then_some(repeat.to),
        exact_input: options.prompts.is_none(),
        full_output: options.prompts.is_none(),
        tokenized: repeat.tokenized.clone(),
        client_health: repeat.watch.clone(),
    }
}

/// The warm-up, and how close `precision` came to its target.
fn warmup_and_precision(options: &LoadOptions, repeat: &Repeat) -> Result<Map<String, Value>> {
    let warm: Vec<&Record> = repeat.records.iter().filter(|record| record.warmup).collect();
    let with = |wanted: fn(&Outcome) -> bool| warm.iter().filter(|record| wanted(&record.outcome)).count();
    let warmup = options.warmup.map(|_| {
        json!({
            "issued": warm.len(),
            "completed": with(|outcome| *outcome == Outcome::Completed),
            "failed": with(|outcome| matches!(outcome, Outcome::Failed(_))),
            "cut_off": with(|outcome| *outcome == Outcome::CutOff),
            "seconds": repeat.from.map(|from| from.as_secs_f64()),
        })
    });
    let precision = options.precision.map(|precision| {
        json!({
            "metric": precision.metric,
            "statistic": precision.statistic,
            "within": precision.within,
            "reached": repeat.end == EndReason::Precision,
            "width": repeat.width,
        })
    });
    let mut map = Map::new();
    map.insert("warmup".into(), value(&warmup)?);
    map.insert("precision".into(), value(&precision)?);
    Ok(map)
}

/// Warnings about this repeat.
fn load_warnings(options: &LoadOptions, session: &Session, repeat: &Repeat) -> Vec<String> {
    let mut map = Vec::new();
    if session.plan.warmup != Warmup::None && repeat.from.is_none() {
        map.push("the load ended within its warm-up: nothing was measured".to_owned());
    }
    if let Some(why) = &repeat.given_up {
        map.push(format!("the load was given up: {why}"));
    }
    if let Some(precision) = options.precision
        && repeat.end != EndReason::Precision
    {
        let width = match repeat.width {
            Some(width) => format!("it was ±{:.1} % when last computed", 100.0 * width),
            None => format!(
                "{} completed requests are needed to compute it",
                precision.first_check()
            ),
        };
        map.push(format!(
            "the confidence interval of `precision` did not reach ±{:.1} %: {width}; give more `requests` or `duration`",
            100.0 * precision.within
        ));
    }
    if let Some(corpus) = &session.corpus
        && repeat.records.len() > corpus.prompts().len()
    {
        map.push(format!(
            "{} requests reused the {} prompts of the file: an engine with a prefix cache answers a repeated prompt faster",
            repeat.records.len(),
            corpus.prompts().len()
        ));
    }
    map
}

/// A warning that counts failed requests by kind, each with its first message.
fn failures(figures: &LoadStats) -> Option<String> {
    if figures.failed == 0 {
        return None;
    }
    let forms = figures.failures.iter().map(|(form, failures)| {
        let said: String = failures.message.chars().take(MAX_MESSAGE).collect();
        format!("{} `{form}` ({said})", failures.count)
    });
    let forms: Vec<String> = forms.collect();
    Some(format!(
        "{} of {} requests failed: {}",
        figures.failed,
        figures.issued,
        forms.join(", ")
    ))
}

/// The intended number of concurrent requests.
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

fn value(of: &impl Serialize) -> Result<Value> {
    serde_json::to_value(of).map_err(|error| Fault::internal(error.to_string()))
}
