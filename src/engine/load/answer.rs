//! What a script gets of a load: figures, what was seen beside it, and the accounts of the load itself, in one map.
//!
//! `loads/<n>.jsonl` in the run's folder has the records behind it, `loads/<n>-timeline.csv` what was seen of the engine meanwhile.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::death::Died;
use super::keep::stem;
use super::options::LoadOptions;
use super::pool::pool;
use super::session::{Repeat, Session};
use crate::compare::export::{Traffic, VllmBench};
use crate::engine::Engine;
use crate::fault::{Fault, Result};
use crate::load::figures::{Figures, Held, Repeats, Settings};
use crate::load::joined::{Cost, Joined, Produced, timeline, write};
use crate::load::plan::{Arrivals, End, Warmup};
use crate::load::{Outcome, Record};

/// The most characters of what a failed request was told that are shown.
const SAID: usize = 160;

impl Engine {
    /// The answer of a load that was done these times, at least once.
    pub(super) fn answer(
        &self,
        options: &LoadOptions,
        session: &Session,
        repeats: Vec<Repeat>,
        died: Option<Died>,
    ) -> Result<Value> {
        let mut warnings = Vec::new();
        let mut each = Vec::new();
        let mut figures = Vec::new();
        for repeat in &repeats {
            let mut joined = joined(repeat);
            joined.timeline.file = self.keep_timeline(session.number, repeat)?;
            warnings.extend(complaints(options, session, repeat));
            warnings.extend(joined.warnings(&repeat.records));
            let (mut told, numbers) = describe(options, session, repeat, &joined)?;
            self.keep_bench(options, session, repeat, &numbers)?;
            told.insert("records".into(), self.relative(repeat.file.as_deref()).into());
            each.push(told);
            figures.push(numbers);
        }
        let (mut answer, numbers) = match <[Repeat; 1]>::try_from(repeats) {
            Ok([one]) => {
                let mut only = each.remove(0);
                let accounts = accounts(options, &one)?;
                only.extend(accounts);
                only.insert("repeats".into(), Value::Null);
                (only, figures.remove(0))
            }
            Err(repeats) => {
                let whole = pool(repeats);
                let (mut all, numbers) = describe(options, session, &whole, &joined(&whole))?;
                all.extend(accounts(options, &whole)?);
                let first = each.first().and_then(|first| first.get("records")).cloned();
                all.insert("records".into(), first.into());
                let mut together = value(&Repeats::of(&figures))?;
                together["each"] = each.into();
                all.insert("repeats".into(), together);
                (all, numbers)
            }
        };
        warnings.extend(failures(&numbers));
        if let Some(died) = &died {
            warnings.push(format!("the engine died within the load: {}", died.message()));
            answer.insert("stopped".into(), value(&End::Died)?);
        }
        answer.insert("died".into(), value(&died)?);
        answer.insert("number".into(), session.number.into());
        if let Some(Value::Array(told)) = answer.get_mut("warnings") {
            told.extend(warnings.into_iter().map(Value::from));
            told.dedup();
            for warning in told.iter().filter_map(Value::as_str) {
                self.context.run.warn(warning)?;
            }
        }
        Ok(Value::Object(answer))
    }

    /// Writes what was seen beside a load; gives its path in the run's folder.
    fn keep_timeline(&self, number: u64, repeat: &Repeat) -> Result<Option<String>> {
        let name = format!("{}-timeline.csv", stem(number, repeat.number));
        let rows = timeline(&repeat.seen, &repeat.records);
        let path = self.context.run.write("loads", &name, |file| write(file, &rows))?;
        Ok(self.relative(path.as_deref()))
    }

    /// Writes a load as vLLM's bench would.
    fn keep_bench(&self, options: &LoadOptions, session: &Session, repeat: &Repeat, figures: &Figures) -> Result<()> {
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
            max_concurrency: session.plan.arrivals.at_once().or(session.max_concurrency),
        };
        let document = bench.document(&repeat.records, &settings(options, session, repeat), figures);
        let name = format!("{}.json", stem(session.number, repeat.number));
        self.context.run.write_json("loads", &name, &document)?;
        Ok(())
    }

    /// A path as seen from the run's folder.
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

/// From when to when it was measured, in seconds since its clock began.
fn window(repeat: &Repeat) -> (f64, f64) {
    (repeat.from.unwrap_or(repeat.to).as_secs_f64(), repeat.to.as_secs_f64())
}

/// What was seen beside a load, over the measured window.
fn joined(repeat: &Repeat) -> Joined {
    let (from, to) = window(repeat);
    Joined::of(&repeat.seen, &repeat.records, from, to)
}

/// A load in figures, with what was seen beside it.
fn describe(
    options: &LoadOptions,
    session: &Session,
    repeat: &Repeat,
    joined: &Joined,
) -> Result<(Map<String, Value>, Figures)> {
    let figures = Figures::of(&repeat.records, &settings(options, session, repeat));
    let (from, to) = window(repeat);
    let cost = Cost::of(
        options.price_per_hour,
        Produced {
            input_throughput: figures.rates.input_throughput.unwrap_or(0.0),
            output_throughput: figures.rates.output_throughput.unwrap_or(0.0),
            seconds: to - from,
            energy_wh: joined.energy_wh,
        },
    )?;
    let mut told = Map::new();
    for part in [value(&figures)?, value(joined)?] {
        if let Value::Object(part) = part {
            told.extend(part);
        }
    }
    told.insert("cost".into(), value(&cost)?);
    told.insert("seed".into(), repeat.seed.into());
    told.insert("stopped".into(), value(&repeat.end)?);
    Ok((told, figures))
}

/// What figures need to know of a load.
fn settings(options: &LoadOptions, session: &Session, repeat: &Repeat) -> Settings {
    Settings {
        held: held(&session.plan.arrivals, repeat),
        slo: options.slo,
        over: (repeat.end == End::Duration).then_some(repeat.to),
        exact_input: options.prompts.is_none(),
        full_output: options.prompts.is_none(),
        tokenized: repeat.tokenized.clone(),
        watch: repeat.watch.clone(),
    }
}

/// The accounts of the load itself: what was warm-up, how near `precision` came, whether the engine counted the same.
fn accounts(options: &LoadOptions, repeat: &Repeat) -> Result<Map<String, Value>> {
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
            "reached": repeat.end == End::Precision,
            "width": repeat.width,
        })
    });
    let mut told = Map::new();
    told.insert("warmup".into(), value(&warmup)?);
    told.insert("precision".into(), value(&precision)?);
    Ok(told)
}

/// What the reader of the answer must know of this load.
fn complaints(options: &LoadOptions, session: &Session, repeat: &Repeat) -> Vec<String> {
    let mut told = Vec::new();
    if session.plan.warmup != Warmup::None && repeat.from.is_none() {
        told.push("the load ended within its warm-up: nothing was measured".to_owned());
    }
    if let Some(why) = &repeat.given_up {
        told.push(format!("the load was given up: {why}"));
    }
    if let Some(precision) = options.precision
        && repeat.end != End::Precision
    {
        let width = match repeat.width {
            Some(width) => format!("it was ±{:.1} % at the last look", 100.0 * width),
            None => format!(
                "{} completed requests are needed before the first look",
                precision.first_look()
            ),
        };
        told.push(format!(
            "the interval of `precision` did not become as narrow as ±{:.1} %: {width}; give more `requests` or `duration`",
            100.0 * precision.within
        ));
    }
    if let Some(corpus) = &session.corpus
        && repeat.records.len() > corpus.prompts().len()
    {
        told.push(format!(
            "{} requests took turns at the {} prompts of the file: an engine that caches prefixes answers a prompt faster when it comes again",
            repeat.records.len(),
            corpus.prompts().len()
        ));
    }
    told
}

/// Requests that failed, by how they did, with what the first of each said.
fn failures(figures: &Figures) -> Option<String> {
    if figures.failed == 0 {
        return None;
    }
    let forms = figures.failures.iter().map(|(form, failures)| {
        let said: String = failures.message.chars().take(SAID).collect();
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

/// How many requests were to be under way at once.
fn held(arrivals: &Arrivals, repeat: &Repeat) -> Held {
    match arrivals {
        _ if repeat.pooled => Held::Varying,
        Arrivals::Closed { concurrency, .. } => Held::Closed {
            concurrency: *concurrency,
        },
        Arrivals::Open { profile, .. } if profile.length().is_none() => Held::Open {
            ramped: repeat.from.unwrap_or_default(),
        },
        Arrivals::Open { .. } | Arrivals::ClosedSteps(_) | Arrivals::Replay(_) => Held::Varying,
    }
}

fn value(of: &impl Serialize) -> Result<Value> {
    serde_json::to_value(of).map_err(|error| Fault::internal(error.to_string()))
}
