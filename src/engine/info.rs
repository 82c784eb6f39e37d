//! What an engine tells of itself: on its information pages, and in its log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Engine;
use super::reported::Reported;
use super::start::Ready;
use super::told::Told;
use crate::fault::Result;

/// What is known of a running engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// `vllm`; `sim` says SIMULATED in `simulated`.
    pub engine: String,
    /// The engine's version.
    pub version: Option<String>,
    /// The model as the engine names it.
    pub model: Option<String>,
    /// Longest input and output together, tokens.
    pub max_model_len: Option<u64>,
    /// Tokens that the KV cache holds.
    pub kv_tokens: Option<u64>,
    /// Ids that prompts may consist of, where the engine tells: they are below this.
    #[serde(skip)]
    pub(super) vocabulary: Option<u32>,
    /// Its own bounds, for verdicts.
    #[serde(skip)]
    pub(super) reported: Reported,
    /// Whether this is the simulated engine: then nothing here was measured.
    pub simulated: bool,
}

impl Info {
    /// What is known before a start.
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
    /// Asks the pages that the adapter names; what they do not tell is taken from the log. What they tell is added to the facts, and given
    /// with its place.
    pub(super) fn learn_info(&self, ready: &mut Ready) -> Result<(Info, Vec<Told>)> {
        let mut told = std::mem::take(&mut ready.facts);
        let mut facts = Vec::new();
        let mut pages: BTreeMap<&str, Value> = BTreeMap::new();
        for (field, places) in &self.rules.info {
            // The first place that tells it: later ones are those of older versions.
            for rule in places {
                if !pages.contains_key(rule.path.as_str()) {
                    let url = ready.server.url(&rule.path)?;
                    let text = self.context.tasks.wait(async { Ok(self.fetch(&url).await) })?;
                    let json = text.and_then(|text| serde_json::from_str(&text).ok());
                    pages.insert(&rule.path, json.unwrap_or_default());
                }
                let value = pages
                    .get(rule.path.as_str())
                    .and_then(|page| page.pointer(&rule.pointer));
                if let Some(fact) = value.and_then(|value| Told::by_page(field, &rule.path, &rule.pointer, value)) {
                    told.insert(fact.name.clone(), fact.value.clone());
                    facts.push(fact);
                    break;
                }
            }
        }
        ready.facts.clone_from(&told);
        let text = |field: &str| {
            told.get(field)
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        };
        let count = |field: &str| told.get(field).and_then(Value::as_u64);
        let version = text("version");
        let simulated = self.runtime == crate::runtime::RuntimeKind::Sim
            || version.as_deref().is_some_and(|version| version.contains("SIMULATED"));
        let reported = Reported {
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
        Ok((info, facts))
    }

    /// A page; nothing where the engine does not have it.
    pub(super) async fn fetch(&self, url: &str) -> Option<String> {
        let request = self.client.get(url).timeout(std::time::Duration::from_secs(10));
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        answer.ok()?.text().await.ok()
    }
}
