//! Every fact that an engine told of itself, each with the place where it stands: a log line, a line of its metrics page, a field of an
//! information page. What the facts mean for memory is `std/memory`'s to say.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::Engine;
use super::facts::{Match, told};
use super::pattern::without_colour;
use super::rules::Rules;
use super::server::Server;
use crate::fault::Result;
use crate::runtime::Arrived;
use crate::telemetry::{Sampler, Used};

/// One fact, told once.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Told {
    /// The fact: `weights_bytes`.
    #[serde(skip)]
    pub name: String,
    /// A number where it is one, sizes in bytes; else text.
    pub value: Value,
    /// `log`, or the path of the page.
    pub origin: String,
    /// The log line, the line of the metrics page, or the pointer into the information page.
    pub text: String,
    /// The number of the log line, from 0.
    pub line: Option<u64>,
    /// The tensor-parallel rank that wrote the line, where it tells.
    pub rank: Option<u64>,
    /// The device that the line names: `CUDA0`, `CPU`.
    pub device: Option<String>,
    /// Bytes in use by device id in the last look before the line came, where memory was watched then.
    pub before: Option<Used>,
    /// The same in the first look after it came.
    pub after: Option<Used>,
}

/// Facts by name, oldest first.
pub(super) fn by_fact(told: Vec<Told>) -> BTreeMap<String, Vec<Told>> {
    let mut facts: BTreeMap<String, Vec<Told>> = BTreeMap::new();
    for one in told {
        facts.entry(one.name.clone()).or_default().push(one);
    }
    // A fact may be told in several units, by patterns of their own.
    facts.values_mut().for_each(|told| told.sort_by_key(|one| one.line));
    facts
}

/// What a log tells, without the moments at which its lines came.
pub(super) fn told_by_log(rules: &Rules, log: &[String]) -> Vec<Told> {
    let told = |found: Match| {
        let text = &log[found.line];
        Told {
            rank: rank(rules, text, found.begins),
            line: Some(found.line as u64),
            ..Told::of(found, "log", text)
        }
    };
    rules.facts.matches(log).into_iter().map(told).collect()
}

/// The rank that the beginning of a line tells; what follows is the engine's text.
fn rank(rules: &Rules, line: &str, begins: usize) -> Option<u64> {
    let prefix = &line[..begins];
    let number = rules.ranks.iter().find_map(|pattern| pattern.captures(prefix)?.get(1));
    number?.as_str().parse().ok()
}

impl Told {
    fn of(found: Match, origin: &str, text: &str) -> Self {
        Self {
            name: found.fact,
            value: found.value,
            origin: origin.to_owned(),
            text: text.trim().to_owned(),
            device: found.device,
            ..Self::default()
        }
    }

    /// A field of an information page, where it tells something.
    pub(super) fn by_page(field: &str, path: &str, pointer: &str, at_pointer: &Value) -> Option<Self> {
        let (name, value) = told(field, at_pointer)?;
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
    /// Every fact that the running engine told in its log and on its pages, by name, oldest first; nothing where it does not run.
    pub fn facts(&self) -> BTreeMap<String, Vec<Told>> {
        let live = self.lock();
        live.running.as_ref().map_or_else(BTreeMap::new, |running| {
            let mut told = running.told.clone();
            let since = running.server.arrived(running.told_until);
            told.extend(self.read_lines(&since, &running.server, running.sampler.as_ref()));
            by_fact(told)
        })
    }

    /// What lines of its log tell, with the memory in use when each of them came.
    ///
    /// Those of an engine that ran before we looked, or whose time is a model's, say nothing of memory at that moment.
    pub(super) fn read_lines(&self, lines: &[Arrived], server: &Server, sampler: Option<&Sampler>) -> Vec<Told> {
        let log: Vec<String> = lines
            .iter()
            .map(|line| without_colour(&line.text).into_owned())
            .collect();
        let sampler = sampler.filter(|_| server.ours() && server.simulated().is_none());
        let mut told = told_by_log(&self.rules, &log);
        for one in &mut told {
            let Some(line) = one.line.and_then(|at| lines.get(usize::try_from(at).ok()?)) else {
                continue;
            };
            one.line = Some(line.number);
            if let Some(sampler) = sampler {
                (one.before, one.after) = sampler.around(line.at);
            }
        }
        told
    }

    /// What the metrics page tells that stays as it is.
    pub(super) fn read_gauges(&self, server: &Server) -> Result<Vec<Told>> {
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
                Told::of(found, path, &text)
            })
            .collect())
    }
}
