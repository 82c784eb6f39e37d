//! What an engine reports about itself on its pages and in its log, and the architecture of its model.

use std::collections::BTreeMap;
use std::path::Path;

use console::strip_ansi_codes;
use reqwest::{RequestBuilder, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::facts::{ReportedFact, group_by_name, matches};
use super::limits::EngineBounds;
use super::start::{Ready, Server};
use super::{Engine, Limits};
use crate::fault::{Fault, Result};
use crate::http;
use crate::run::Run;
use crate::runtime::{LogLine, RuntimeKind};
use crate::sim::{Profile, Spec};
use crate::telemetry::Sampler;

/// What is known about an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// The engine's name, such as `vllm` or `sim`.
    pub engine: String,
    /// The engine's version.
    pub version: Option<String>,
    /// The model's name in requests, as the engine lists it, or as the user gave it where the engine takes that too.
    pub model: Option<String>,
    /// The only model that the engine lists, where another name is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed: Option<String>,
    /// Maximum input and output together, in tokens.
    pub max_model_len: Option<u64>,
    /// KV cache size in tokens.
    pub kv_tokens: Option<u64>,
    /// Vocabulary size, if reported. Prompt ids must be below it.
    #[serde(skip)]
    pub(super) vocabulary: Option<u32>,
    /// The engine's own bounds, for verdicts.
    #[serde(skip)]
    pub(super) reported: EngineBounds,
    /// Whether this is the simulated engine, so that nothing was measured.
    pub simulated: bool,
}

impl Info {
    pub(super) fn before(engine: &str, model: Option<&str>, simulated: bool) -> Self {
        Self {
            engine: engine.to_owned(),
            model: model.map(str::to_owned),
            simulated,
            ..Self::default()
        }
    }
}

impl Engine {
    /// Reads the pages that the adapter names. Facts that they lack are taken from the log. Adds the pages' facts to
    /// `ready.facts` and returns them with their location.
    pub(super) fn read_info(&self, ready: &mut Ready) -> Result<(Info, Vec<ReportedFact>)> {
        let mut facts = std::mem::take(&mut ready.facts);
        let mut from_pages = Vec::new();
        let mut pages: BTreeMap<&str, Value> = BTreeMap::new();
        for (field, rules) in &self.rules.facts.info {
            // The first location with a value wins; later ones are for older versions.
            for rule in rules {
                if !pages.contains_key(rule.path.as_str()) {
                    let url = ready.server.url(&rule.path)?;
                    let text = self.wait(async { Ok(self.fetch(&url).await) })?;
                    let json = text.and_then(|text| serde_json::from_str(&text).ok());
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
        let simulated = self.runtime == crate::runtime::RuntimeKind::Sim
            || version.as_deref().is_some_and(|version| version.contains("SIMULATED"));
        let reported = EngineBounds {
            kv_tokens: count("kv_tokens"),
            max_model_len: count("max_model_len"),
            max_input: count("max_input"),
            fitted: count("fitted"),
        };
        let info = Info {
            version,
            model: (ready.asked.name.clone())
                .or_else(|| text("model"))
                .or_else(|| self.options.model.clone().filter(|_| ready.server.ours())),
            listed: ready.asked.only_listed(),
            max_model_len: reported.max_model_len,
            kv_tokens: reported.kv_tokens,
            reported,
            vocabulary: count("vocabulary").and_then(|size| u32::try_from(size).ok()),
            ..Info::before(self.name(), None, simulated)
        };
        Ok((info, from_pages))
    }

    /// Fetches a page; `None` if the engine does not have it.
    pub(super) async fn fetch(&self, url: &str) -> Option<String> {
        let request = self.client.get(url).timeout(std::time::Duration::from_secs(10));
        read_page(request, &self.context.run).await
    }
}

/// A page of an engine; `None` if the engine does not have it. A page that is too long is not read, with a warning.
pub(super) async fn read_page(request: RequestBuilder, run: &Run) -> Option<String> {
    let answer = http::send(request).await.and_then(Response::error_for_status).ok()?;
    let path = answer.url().path().to_owned();
    let (text, cut) = http::text(answer, http::MAX_PAGE).await.ok()?;
    if cut {
        let most = http::MAX_PAGE >> 20;
        // A full disk is reported by the next event that must be written.
        let _ = run.warn(format!(
            "the engine's page `{path}` has more than {most} MiB and was not read: what it tells is unknown"
        ));
    }
    (!cut).then_some(text)
}

impl Engine {
    /// Every fact that the running engine reported, by name, oldest first. Empty if it does not run.
    pub fn facts(&self) -> BTreeMap<String, Vec<ReportedFact>> {
        let live = self.lock();
        live.running.as_ref().map_or_else(BTreeMap::new, |running| {
            let mut facts = running.facts.clone();
            let since = running.server.service.logs().lines_since(running.facts_read);
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
        let log = lines.iter().map(|line| strip_ansi_codes(&line.text).into_owned());
        let log: Vec<String> = log.collect();
        let sampler = sampler.filter(|_| server.ours() && server.simulated().is_none());
        let mut facts = matches(&self.rules.facts.log, &self.rules.facts.rank, &log, "log");
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
        let path = &self.rules.facts.metrics.path;
        if path.is_empty() {
            return Ok(Vec::new());
        }
        let url = server.url(path)?;
        let page = self.wait(async { Ok(self.fetch(&url).await) })?.unwrap_or_default();
        let lines: Vec<String> = page.lines().map(str::to_owned).collect();
        let mut found = matches(&self.rules.facts.gauges, &[], &lines, path);
        found.iter_mut().for_each(|fact| fact.line = None);
        Ok(found)
    }
}

/// Where the model architecture comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Architecture {
    /// The contents of `config.json`.
    Config(Value),
    /// A local folder or a Hugging Face model id.
    Model(String),
}

impl Engine {
    /// The source of the model architecture. A simulated engine uses the model of its profile. An attached engine is
    /// asked which model it serves, unless a local folder was given.
    ///
    /// # Errors
    ///
    /// `missing` where no model is named.
    pub fn architecture(&self) -> Result<Architecture> {
        if let Some(shape) = self.simulated_profile()?.and_then(|profile| profile.shape) {
            return Ok(Architecture::Config(shape.config()?));
        }
        let named = self.options.model.clone();
        if let Some(folder) = named.as_ref().filter(|model| Path::new(model).is_absolute()) {
            return Ok(Architecture::Model(folder.clone()));
        }
        if let Some(config) = self.config_in_container()? {
            return Ok(Architecture::Config(config));
        }
        let served = match self.runtime {
            RuntimeKind::Attach => self.info().model,
            _ => None,
        };
        served.or(named).map(Architecture::Model).ok_or_else(|| {
            Fault::missing(
                format!("the model of `{}` is not named", self.name()),
                "name it as `model`: its id or its folder",
            )
        })
    }

    /// `config.json` of the model in the container that was attached to: in the folder that its command line names, or in its
    /// cache of the hub.
    fn config_in_container(&self) -> Result<Option<Value>> {
        /// Those of large models have a few KiB.
        const MOST: u64 = 1 << 20;
        let live = self.lock();
        let Some(running) = live.running.as_ref().filter(|_| self.options.container.is_some()) else {
            return Ok(None);
        };
        let service = &running.server.service;
        let info = service.info();
        let Some(model) = info["model"]["name"].as_str().or(running.info.model.as_deref()) else {
            return Ok(None);
        };
        let read = async |path: String| service.read_file(&path, MOST).await;
        let text = self.wait(async {
            if model.starts_with('/') {
                return read(format!("{model}/config.json")).await;
            }
            let variable = |name: &str| info["env"][name].as_str().map(str::to_owned);
            let home = variable("HF_HOME").unwrap_or_else(|| "/root/.cache/huggingface".to_owned());
            let cache = variable("HF_HUB_CACHE").unwrap_or_else(|| format!("{home}/hub"));
            let folder = format!("{cache}/models--{}", model.replace('/', "--"));
            let Some(commit) = read(format!("{folder}/refs/main")).await? else {
                return Ok(None);
            };
            let commit = String::from_utf8_lossy(&commit);
            read(format!("{folder}/snapshots/{}/config.json", commit.trim())).await
        })?;
        // One that is no JSON is not there for us either: the hub may have it.
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// The profile of a simulated engine.
    pub fn simulated_profile(&self) -> Result<Option<Profile>> {
        if self.runtime != RuntimeKind::Sim {
            return Ok(None);
        }
        let Some(spec) = self.launch_for(Limits::SMALLEST)?.sim else {
            return Ok(None);
        };
        let (profile, _) = Spec::from_script(spec, &self.context.home)?.resolve()?;
        Ok(Some(profile))
    }
}
