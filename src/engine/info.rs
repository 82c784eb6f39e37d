//! What an engine reports about itself on its information pages and in its log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Engine;
use super::bounds::EngineBounds;
use super::reported_facts::ReportedFact;
use super::start::Ready;
use crate::fault::Result;

/// What is known about an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// The engine's name, such as `vllm` or `sim`.
    pub engine: String,
    /// The engine's version.
    pub version: Option<String>,
    /// The model's name as reported by the engine.
    pub model: Option<String>,
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
        for (field, rules) in &self.rules.info {
            // The first location with a value wins; later ones are for older versions.
            for rule in rules {
                if !pages.contains_key(rule.path.as_str()) {
                    let url = ready.server.url(&rule.path)?;
                    let text = self.context.tasks.wait(async { Ok(self.fetch(&url).await) })?;
                    let json = text.and_then(|text| serde_json::from_str(&text).ok());
                    pages.insert(&rule.path, json.unwrap_or_default());
                }
                let value = pages
                    .get(rule.path.as_str())
                    .and_then(|page| page.pointer(&rule.pointer));
                if let Some(fact) =
                    value.and_then(|value| ReportedFact::from_page(field, &rule.path, &rule.pointer, value))
                {
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
            model: text("model").or_else(|| self.options.model.clone()),
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
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        answer.ok()?.text().await.ok()
    }
}
