//! Reads what an engine reports about itself: its pages once, when it is ready; its log and metrics at any time.

use std::collections::BTreeMap;

use console::strip_ansi_codes;
use serde_json::Value;

use super::engine::Engine;
use super::server::Server;
use super::start::Ready;
use super::state::Info;
use crate::engine::facts::log::{ReportedFact, group_by_name, matches};
use crate::engine::verdict::bounds::EngineBounds;
use crate::fault::Result;
use crate::load::engine_side::EngineMetrics;
use crate::outside;
use crate::runtime::{LogLine, RuntimeKind};
use crate::telemetry::Sampler;

/// Reads the pages that the adapter names. Takes facts that they lack from the log. Adds the pages' facts to
/// `ready.facts` and returns them with their location.
pub(crate) fn read_info(engine: &Engine, ready: &mut Ready) -> Result<(Info, Vec<ReportedFact>)> {
    let mut facts = std::mem::take(&mut ready.facts);
    let mut from_pages = Vec::new();
    let mut pages: BTreeMap<&str, Value> = BTreeMap::new();
    for (field, rules) in &engine.rules.facts.info {
        // The first location with a value wins; later ones are for older versions.
        for rule in rules {
            if !pages.contains_key(rule.path.as_str()) {
                let url = ready.server.url(&rule.path)?;
                let text = engine.wait(async { Ok(engine.fetch(&url).await) })?;
                let json = text.and_then(|text| outside::page(text.as_bytes()).ok());
                pages.insert(&rule.path, json.unwrap_or_default());
            }
            let page = &pages[rule.path.as_str()];
            let fact = ready.asked.pointer(page, &rule.pointer).and_then(|pointer| {
                let value = page.pointer(&pointer)?;
                ReportedFact::from_page(field, &rule.path, &pointer, value)
            });
            if let Some(fact) = fact {
                facts.insert(fact.name.clone(), fact.value.clone());
                from_pages.push(fact);
                break;
            }
        }
    }
    ready.facts.clone_from(&facts);
    let text = |field: &str| {
        facts
            .get(field)
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let count = |field: &str| facts.get(field).and_then(Value::as_u64);
    let version = text("version");
    let simulated =
        engine.runtime == RuntimeKind::Sim || version.as_deref().is_some_and(|version| version.contains("SIMULATED"));
    let reported = EngineBounds {
        kv_tokens: count("kv_tokens"),
        max_model_len: count("max_model_len"),
        max_input: count("max_input"),
        fitted: count("fitted"),
        sequences: count("state_slots"),
        smallest: None,
    };
    let info = Info {
        version,
        model: (ready.asked.name.clone())
            .or_else(|| text("model"))
            .or_else(|| engine.options.model.clone().filter(|_| ready.server.ours())),
        listed: ready.asked.only_listed(),
        max_model_len: reported.max_model_len,
        kv_tokens: reported.kv_tokens,
        reported,
        vocabulary: count("vocabulary").and_then(|size| u32::try_from(size).ok()),
        ..Info::before(engine.name(), None, simulated)
    };
    Ok((info, from_pages))
}

/// The facts of an engine. Before a start, facts that only a running engine reports are missing.
pub fn info(engine: &Engine) -> Info {
    match &engine.lock().running {
        Some(running) => running.info.clone(),
        None => Info::before(
            engine.name(),
            engine.options.model.as_deref(),
            engine.runtime == RuntimeKind::Sim,
        ),
    }
}

/// The newest log lines.
pub fn logs(engine: &Engine, last: usize) -> Vec<String> {
    let live = engine.lock();
    live.running
        .as_ref()
        .map_or_else(Vec::new, |running| running.server.last(last))
}

/// The engine's current queue, KV cache and counters. Empty if it does not run or has no metrics page.
pub fn metrics(engine: &Engine) -> Result<EngineMetrics> {
    let live = engine.lock();
    let Some(page) = live.running.as_ref().and_then(|running| engine.page(running)) else {
        return Ok(EngineMetrics::default());
    };
    let facts = engine.wait(async { Ok(page.fetch().await) })?;
    Ok(facts.unwrap_or_default().pop().unwrap_or_default())
}

/// Every fact that the running engine reported, by name, oldest first. Empty if it does not run.
pub fn facts(engine: &Engine) -> BTreeMap<String, Vec<ReportedFact>> {
    let live = engine.lock();
    live.running.as_ref().map_or_else(BTreeMap::new, |running| {
        let mut facts = running.facts.clone();
        let since = running.server.service.logs().lines_since(running.facts_read);
        facts.extend(read_lines(engine, &since, &running.server, running.sampler.as_ref()));
        group_by_name(facts)
    })
}

/// The facts in log lines, with the memory in use when each line arrived.
///
/// Lines of attached or simulated engines get no memory: they were written before sampling began, or in model time.
pub(crate) fn read_lines(
    engine: &Engine,
    lines: &[LogLine],
    server: &Server,
    sampler: Option<&Sampler>,
) -> Vec<ReportedFact> {
    let log: Vec<String> = lines
        .iter()
        .map(|line| strip_ansi_codes(&line.text).into_owned())
        .collect();
    let sampler = sampler.filter(|_| server.ours() && server.simulated().is_none());
    let mut facts = matches(&engine.rules.facts.log, &engine.rules.facts.rank, &log, "log");
    for fact in &mut facts {
        let Some(line) = fact.line.and_then(|at| lines.get(usize::try_from(at).ok()?)) else {
            continue;
        };
        fact.line = Some(line.number);
        if let Some(sampler) = sampler {
            (fact.before, fact.after) = sampler.around(line.at);
        }
    }
    facts
}

/// Facts on the metrics page that do not change while the engine runs.
pub(crate) fn read_gauges(engine: &Engine, server: &Server) -> Result<Vec<ReportedFact>> {
    let path = &engine.rules.facts.metrics.path;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let url = server.url(path)?;
    let page = engine.wait(async { Ok(engine.fetch(&url).await) })?.unwrap_or_default();
    let lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let mut found = matches(&engine.rules.facts.gauges, &[], &lines, path);
    found.iter_mut().for_each(|fact| fact.line = None);
    Ok(found)
}
