//! Every fact that an engine reported, with its location: a log line, a line of the metrics page or a field of an
//! information page. `std/memory` interprets the facts.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::Engine;
use super::facts::{FactMatch, fact_from_json};
use super::pattern::without_colour;
use super::rules::Rules;
use super::server::Server;
use crate::fault::Result;
use crate::runtime::LogLine;
use crate::telemetry::{Sampler, UsedByDevice};

/// One reported fact.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReportedFact {
    /// Such as `weights_bytes`.
    #[serde(skip)]
    pub name: String,
    /// A number if it parses as one (sizes in bytes), otherwise text.
    pub value: Value,
    /// `log`, or the path of the page.
    pub origin: String,
    /// The log line, the line of the metrics page, or the pointer into the information page.
    pub text: String,
    /// Number of the log line, from 0.
    pub line: Option<u64>,
    /// The tensor-parallel rank that wrote the line, if it is named.
    pub rank: Option<u64>,
    /// The device named by the line: `CUDA0`, `CPU`.
    pub device: Option<String>,
    /// Bytes in use by device id in the last sample before the line, if memory was sampled then.
    pub before: Option<UsedByDevice>,
    /// The same in the first sample after the line.
    pub after: Option<UsedByDevice>,
}

/// Groups facts by name, oldest first.
pub(super) fn group_by_name(reported: Vec<ReportedFact>) -> BTreeMap<String, Vec<ReportedFact>> {
    let mut facts: BTreeMap<String, Vec<ReportedFact>> = BTreeMap::new();
    for one in reported {
        facts.entry(one.name.clone()).or_default().push(one);
    }
    // A fact may be reported in several units, each with its own pattern.
    facts.values_mut().for_each(|same| same.sort_by_key(|one| one.line));
    facts
}

/// The facts in a log, without arrival times.
pub(super) fn facts_in_log(rules: &Rules, log: &[String]) -> Vec<ReportedFact> {
    let fact = |found: FactMatch| {
        let text = &log[found.line];
        ReportedFact {
            rank: rank(rules, text, found.begins),
            line: Some(found.line as u64),
            ..ReportedFact::from_match(found, "log", text)
        }
    };
    rules.facts.matches(log).into_iter().map(fact).collect()
}

/// The rank named before the match; the rest of the line is the engine's text.
fn rank(rules: &Rules, line: &str, begins: usize) -> Option<u64> {
    let prefix = &line[..begins];
    let number = rules.ranks.iter().find_map(|pattern| pattern.captures(prefix)?.get(1));
    number?.as_str().parse().ok()
}

impl ReportedFact {
    fn from_match(found: FactMatch, origin: &str, text: &str) -> Self {
        Self {
            name: found.fact,
            value: found.value,
            origin: origin.to_owned(),
            text: text.trim().to_owned(),
            device: found.device,
            ..Self::default()
        }
    }

    /// The fact in a field of an information page, if it has a value.
    pub(super) fn from_page(field: &str, path: &str, pointer: &str, at_pointer: &Value) -> Option<Self> {
        let (name, value) = fact_from_json(field, at_pointer)?;
        Some(Self {
            name,
            value,
            origin: path.to_owned(),
            text: pointer.to_owned(),
            ..Self::default()
        })
    }
}

impl Engine {
    /// Every fact that the running engine reported, by name, oldest first. Empty if it does not run.
    pub fn facts(&self) -> BTreeMap<String, Vec<ReportedFact>> {
        let live = self.lock();
        live.running.as_ref().map_or_else(BTreeMap::new, |running| {
            let mut facts = running.facts.clone();
            let since = running.server.arrived(running.facts_read);
            facts.extend(self.read_lines(&since, &running.server, running.sampler.as_ref()));
            group_by_name(facts)
        })
    }

    /// The facts in log lines, with the memory in use when each line arrived.
    ///
    /// Lines of attached or simulated engines get no memory: they were written before we watched, or in modelled time.
    pub(super) fn read_lines(
        &self,
        lines: &[LogLine],
        server: &Server,
        sampler: Option<&Sampler>,
    ) -> Vec<ReportedFact> {
        let log: Vec<String> = lines
            .iter()
            .map(|line| without_colour(&line.text).into_owned())
            .collect();
        let sampler = sampler.filter(|_| server.ours() && server.simulated().is_none());
        let mut facts = facts_in_log(&self.rules, &log);
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

    /// Facts on the metrics page that do not change.
    pub(super) fn read_gauges(&self, server: &Server) -> Result<Vec<ReportedFact>> {
        let path = &self.rules.metrics.path;
        if path.is_empty() {
            return Ok(Vec::new());
        }
        let url = server.url(path)?;
        let page = self
            .context
            .tasks
            .wait(async { Ok(self.fetch(&url).await) })?
            .unwrap_or_default();
        let lines: Vec<String> = page.lines().map(str::to_owned).collect();
        let found = self.rules.gauges.matches(&lines);
        Ok(found
            .into_iter()
            .map(|found| {
                let text = lines[found.line].clone();
                ReportedFact::from_match(found, path, &text)
            })
            .collect())
    }
}
