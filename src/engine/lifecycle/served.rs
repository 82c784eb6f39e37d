//! The model that requests name: the one that the user gave, else the only one that the server serves. The server's
//! list decides; a name that is not listed is tried with one small request (`accept`).

use std::borrow::Cow;

use serde_json::Value;

use super::engine::Engine;
use super::options::{LaunchOptions, without_password};
use super::server::Server;
use crate::engine::adapter::InfoRule;
use crate::fault::{Fault, Result};
use crate::outside;
use crate::run::Event;
use crate::warning::Warning;

/// Maximum names shown of a list, and characters shown of each: both come from the server.
const MAX_SHOWN: usize = 100;
const MAX_LENGTH: usize = 200;

/// The tag that Ollama adds to a name without one.
const DEFAULT_TAG: &str = ":latest";

/// Fields of a list's items that name a model.
const NAMES: [&str; 3] = ["id", "name", "model"];

/// A model in a server's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ListedModel {
    name: String,
    /// The model or folder behind the name, as vLLM and SGLang report it.
    root: Option<String>,
    /// The base model of a LoRA.
    parent: Option<String>,
}

/// The model that requests name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskedModel {
    /// `None` if the user named none and the server lists none.
    pub(crate) name: Option<String>,
    /// True if the server does not list the name, so that only a request can show whether it accepts it.
    pub(crate) untried: bool,
    /// The base model of a LoRA.
    parent: Option<String>,
    /// The names that the server lists.
    pub(crate) listed: Vec<String>,
}

/// The choice that follows from a list and the name that the user gave.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Listed(usize),
    Unlisted(String),
    /// The server serves several models, and the user named none.
    Open,
    /// The server lists nothing, and the user named nothing.
    Unknown,
}

impl AskedModel {
    /// The pointer to a fact of this model. In a list of several models it points to the item of this model, or of its
    /// base model if that item lacks the fact; `None` if neither has it.
    pub(crate) fn pointer<'a>(&self, page: &Value, pointer: &'a str) -> Option<Cow<'a, str>> {
        let as_it_is = Some(Cow::Borrowed(pointer));
        let (Some((list, field)), Some(name)) = (pointer.split_once("/0/"), &self.name) else {
            return as_it_is;
        };
        let Some(items) = page.pointer(list).and_then(Value::as_array) else {
            return as_it_is;
        };
        let names = |item: &Value| NAMES.map(|field| item[field].as_str().map(str::to_owned));
        let is_named = |item: &Value| names(item).iter().any(Option::is_some);
        if items.len() < 2 || !items.iter().any(is_named) {
            return as_it_is;
        }
        let wanted = std::iter::once(name).chain(&self.parent);
        let mut found = wanted.filter_map(|name| {
            let index = items
                .iter()
                .position(|item| names(item).iter().flatten().any(|own| is_same(own, name)))?;
            let pointer = format!("{list}/{index}/{field}");
            page.pointer(&pointer).filter(|value| !value.is_null())?;
            Some(Cow::Owned(pointer))
        });
        found.next()
    }

    /// The only model that the server lists, if requests use another name.
    pub(crate) fn only_listed(&self) -> Option<String> {
        match self.listed.as_slice() {
            [only] if self.untried => Some(only.clone()),
            _ => None,
        }
    }

    /// A warning if requests use a name that the server does not list.
    pub(crate) fn warning(&self) -> Option<Warning> {
        let name = self.name.as_ref().filter(|_| self.untried && !self.listed.is_empty())?;
        let listed = match self.listed.as_slice() {
            [only] => format!("it lists `{only}`"),
            several => format!("it lists {} others", several.len()),
        };
        Some(Warning::new(
            "model_not_listed",
            format!("the server takes requests for `{name}`, which it does not list: {listed}"),
        ))
    }

    /// `; it lists:` and each name on a line of its own.
    pub(crate) fn listing(&self) -> String {
        listing(&self.listed)
    }
}

fn listing(names: &[String]) -> String {
    if names.is_empty() {
        return "; it lists no models".to_owned();
    }
    let shown = names.iter().take(MAX_SHOWN);
    let lines: String = shown
        .map(|name| format!("\n    {}", name.chars().take(MAX_LENGTH).collect::<String>()))
        .collect();
    let more = match names.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        more => format!("\n    and {more} more"),
    };
    format!("; it lists:{lines}{more}")
}

/// True if both names mean the same model to a server: Ollama's default tag may be left out.
fn is_same(listed: &str, name: &str) -> bool {
    listed == name || listed.strip_suffix(DEFAULT_TAG) == Some(name)
}

/// The models in a page: the items of the list that the rule points into, or the one value that it points to.
fn models(page: &Value, rule: &InfoRule) -> Vec<ListedModel> {
    let text = |value: Option<&Value>| value?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let Some((list, field)) = rule.pointer.split_once("/0/") else {
        let only = text(page.pointer(&rule.pointer));
        return only
            .map(|name| ListedModel {
                name,
                ..ListedModel::default()
            })
            .into_iter()
            .collect();
    };
    let items = page.pointer(list).and_then(Value::as_array);
    let listed = items.into_iter().flatten().filter_map(|item| {
        Some(ListedModel {
            name: text(item.pointer(&format!("/{field}")))?,
            root: text(item.get("root")),
            parent: text(item.get("parent")),
        })
    });
    listed.collect()
}

/// The model of a server that serves one: its only base model, under the first of its names. LoRAs belong to their
/// base, and names with one root are the same model.
fn only_base(listed: &[ListedModel]) -> Option<usize> {
    let is_lora = |one: &ListedModel| {
        let parent = one.parent.as_ref();
        parent.is_some_and(|parent| *parent != one.name && listed.iter().any(|other| other.name == *parent))
    };
    let mut bases = (0..listed.len()).filter(|index| !is_lora(&listed[*index]));
    let first = bases.next()?;
    let root = &listed[first].root;
    bases
        .all(|other| root.is_some() && listed[other].root == *root)
        .then_some(first)
}

/// Chooses the model that requests name. `names` holds the user's value, as typed and as an absolute path; `is_path` is
/// true if it is a path rather than a name. A `launched` server serves the model that it was started with, under any
/// name.
fn choose(listed: &[ListedModel], names: &[&str], is_path: bool, launched: bool) -> Choice {
    let position = |test: &dyn Fn(&ListedModel, &str) -> bool| {
        names
            .iter()
            .find_map(|name| listed.iter().position(|one| test(one, name)))
    };
    let named = position(&|one, name| is_same(&one.name, name))
        .or_else(|| position(&|one, name| one.root.as_deref() == Some(name)));
    if let Some(index) = named {
        return Choice::Listed(index);
    }
    let only = only_base(listed);
    match names.first() {
        Some(_) if launched && is_path && !listed.is_empty() => Choice::Listed(only.unwrap_or(0)),
        Some(name) if !is_path && !(launched && (listed.is_empty() || only.is_some())) => {
            Choice::Unlisted((*name).to_owned())
        }
        _ if listed.is_empty() => Choice::Unknown,
        _ => only.map_or(Choice::Open, Choice::Listed),
    }
}

/// True if the user gave the model as a path.
fn is_path(options: &LaunchOptions) -> bool {
    let given = options.given_model.as_deref().unwrap_or_default();
    given.starts_with(['/', '.', '~']) || given.ends_with(".gguf") || options.model != options.given_model
}

/// Determines the model that requests to this server name.
///
/// # Errors
///
/// `usage`, with the server's list, if it serves several models and the user neither names one nor chooses one at the
/// terminal.
pub(crate) fn asked_model(engine: &Engine, server: &Server) -> Result<AskedModel> {
    let mut listed: Vec<ListedModel> = Vec::new();
    let usual = InfoRule {
        path: "/v1/models".to_owned(),
        pointer: "/data/0/id".to_owned(),
    };
    let rules = match engine.rules.facts.info.get("model") {
        Some(rules) => rules.as_slice(),
        // The adapter does not say where the list is.
        None if !server.ours() => std::slice::from_ref(&usual),
        None => &[],
    };
    for rule in rules {
        let url = server.url(&rule.path)?;
        let page: Value = engine
            .wait(async { Ok(engine.fetch(&url).await) })?
            .and_then(|page| outside::page(page.as_bytes()).ok())
            .unwrap_or_default();
        for one in models(&page, rule) {
            if listed.iter().all(|known| known.name != one.name) {
                listed.push(one);
            }
        }
    }
    let options = &engine.options;
    let names: Vec<&str> = options
        .given_model
        .iter()
        .chain(&options.model)
        .map(String::as_str)
        .collect();
    let all: Vec<String> = listed.iter().map(|one| one.name.clone()).collect();
    let (name, untried) = match choose(&listed, &names, is_path(options), server.ours()) {
        Choice::Listed(index) => (Some(served_name(engine, server, &listed, index, &names)?), false),
        Choice::Unlisted(name) => (Some(name), true),
        Choice::Open => (Some(ask_model(engine, server, &all, names.first().copied())?), false),
        Choice::Unknown => (None, false),
    };
    let own = listed.iter().find(|one| name.as_ref() == Some(&one.name));
    Ok(AskedModel {
        parent: own.and_then(|own| own.parent.clone()),
        listed: all,
        name,
        untried,
    })
}

/// The name of a listed model in requests: the user's spelling if the server lists it, else the server's name, with a
/// note to the user.
fn served_name(
    engine: &Engine,
    server: &Server,
    listed: &[ListedModel],
    index: usize,
    names: &[&str],
) -> Result<String> {
    let served = &listed[index];
    if let Some(name) = names.iter().find(|name| is_same(&served.name, name)) {
        return Ok((*name).to_owned());
    }
    let others = listed.len() - 1;
    let note = match names.first() {
        Some(name) => format!("the server serves `{name}` as `{}`, which requests name", served.name),
        None if others > 0 => format!(
            "`{}` is asked, the base model: the server lists {others} more of it, which `--model NAME` asks",
            served.name
        ),
        None => return Ok(served.name.clone()),
    };
    // No note for a server that we started: it serves the model that we gave it.
    if !server.ours() {
        engine.context.run.note(Event::Note { text: note })?;
    }
    Ok(served.name.clone())
}

/// Lets the user choose one of several models at the terminal, unless this run has recorded a choice.
fn ask_model(engine: &Engine, server: &Server, listed: &[String], given: Option<&str>) -> Result<String> {
    let run = &engine.context.run;
    let recorded = run.recorded_engine(&engine.shown);
    let chosen = recorded
        .as_ref()
        .and_then(|engine| engine.pointer("/info/model")?.as_str());
    if let Some(model) = chosen.filter(|model| listed.iter().any(|name| name == model)) {
        return Ok(model.to_owned());
    }
    let at = without_password(server.base_url());
    let which = match given {
        Some(path) => format!("none of them listed as `{path}`"),
        None => "and none is named".to_owned(),
    };
    let question = format!("the server at `{at}` serves {} models, {which}", listed.len());
    match run.choose(&question, listed)? {
        Some(chosen) => Ok(chosen),
        None => Err(Fault::usage(format!("{question}{}", listing(listed))).hint("name one of them: `--model NAME`")),
    }
}

/// The fault for a name that the server neither lists nor accepts; `said` is the server's answer.
pub(crate) fn refused_model(server: &Server, asked: &AskedModel, said: &str) -> Fault {
    let (at, name) = (
        without_password(server.base_url()),
        asked.name.as_deref().unwrap_or_default(),
    );
    let message = format!(
        "the server at `{at}` does not serve `{name}` ({said}){}",
        asked.listing()
    );
    Fault::usage(message).hint(if asked.listed.is_empty() {
        "name a model that it serves: `--model NAME`"
    } else {
        "name one of them: `--model NAME`"
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn listed(all: &[(&str, Option<&str>, Option<&str>)]) -> Vec<ListedModel> {
        let one = |(name, root, parent): &(&str, Option<&str>, Option<&str>)| ListedModel {
            name: (*name).to_owned(),
            root: root.map(str::to_owned),
            parent: parent.map(str::to_owned),
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn a_name_is_found_by_itself_then_by_its_root() {
        let all = listed(&[
            ("chat", Some("org/a"), None),
            ("org/a", Some("org/b"), None),
            ("sql", Some("/loras/sql"), Some("chat")),
        ]);
        for (name, index) in [("org/a", 1), ("chat", 0), ("org/b", 1), ("sql", 2), ("/loras/sql", 2)] {
            assert_eq!(
                choose(&all, &[name], name.starts_with('/'), false),
                Choice::Listed(index),
                "{name}"
            );
        }
        let tagged = listed(&[("llama3.2:latest", None, None), ("llama3.2:1b", None, None)]);
        assert_eq!(choose(&tagged, &["llama3.2"], false, false), Choice::Listed(0));
    }

    #[test]
    fn a_base_with_its_loras_is_one_model() {
        let loras = [
            ("base", Some("org/a"), None),
            ("one", Some("/l/1"), Some("base")),
            ("two", None, Some("base")),
        ];
        assert_eq!(choose(&listed(&loras), &[], false, false), Choice::Listed(0));
        let aliases = [("a", Some("org/a"), None), ("b", Some("org/a"), None)];
        assert_eq!(choose(&listed(&aliases), &[], false, false), Choice::Listed(0));
        let two = [("a", None, None), ("b", None, None)];
        assert_eq!(choose(&listed(&two), &[], false, false), Choice::Open);
        assert_eq!(choose(&listed(&two), &["/models/a"], true, false), Choice::Open);
        assert_eq!(
            choose(&listed(&two[..1]), &["/models/x"], true, false),
            Choice::Listed(0)
        );
    }

    #[test]
    fn what_was_launched_serves_what_it_was_started_with() {
        let one = listed(&[("served", None, None)]);
        assert_eq!(choose(&one, &["org/a"], false, true), Choice::Listed(0));
        assert_eq!(
            choose(&one, &["org/a"], false, false),
            Choice::Unlisted("org/a".to_owned())
        );
        assert_eq!(choose(&[], &["org/a"], false, true), Choice::Unknown);
        assert_eq!(
            choose(&[], &["org/a"], false, false),
            Choice::Unlisted("org/a".to_owned())
        );
    }

    proptest! {
        #[test]
        fn a_name_is_never_replaced(names in prop::collection::vec("[a-c]{1,2}", 0..6), named in "[a-c]{1,2}") {
            let all: Vec<ListedModel> = names.iter().map(|name| ListedModel { name: name.clone(), ..ListedModel::default() }).collect();
            match choose(&all, &[&named], false, false) {
                Choice::Listed(index) => prop_assert_eq!(&names[index], &named),
                Choice::Unlisted(name) => prop_assert!(name == named && !names.contains(&named)),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn facts_are_those_of_the_model_that_is_asked() {
        let page = json!({ "data": [
            { "id": "a", "max_model_len": 1 }, { "id": "b", "max_model_len": 2 }, { "id": "lora", "max_model_len": null },
        ] });
        let pointer = |name: &str, parent: Option<&str>| {
            let asked = AskedModel {
                name: Some(name.to_owned()),
                parent: parent.map(str::to_owned),
                ..AskedModel::default()
            };
            asked.pointer(&page, "/data/0/max_model_len").map(Cow::into_owned)
        };
        assert_eq!(pointer("b", None).as_deref(), Some("/data/1/max_model_len"));
        assert_eq!(pointer("lora", Some("b")).as_deref(), Some("/data/1/max_model_len"));
        assert_eq!(pointer("alias", None), None);
        let asked = AskedModel {
            name: Some("x".to_owned()),
            ..AskedModel::default()
        };
        let other = json!({ "states": [{ "free": 1 }, { "free": 2 }] });
        assert_eq!(
            asked.pointer(&other, "/states/0/free").as_deref(),
            Some("/states/0/free")
        );
    }
}
