//! The inputs of an answer besides the boundary: the run, and the map that the search strategy returned.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::boundary::Point;
use crate::fault::Result;

/// The inputs of an answer besides the boundary.
pub struct AnswerContext<'a> {
    /// The map that the search strategy returned.
    pub search: Option<&'a Value>,
    /// The run's facts.
    pub run: &'a RunFacts,
    /// The engine's flags for a point; the `bool` decides whether they limit concurrency.
    pub flags: &'a dyn Fn(&Point, bool) -> Result<Vec<String>>,
    /// Bytes of memory left while a point was probed.
    pub headroom: &'a dyn Fn(&Point) -> Option<u64>,
}

/// The run that an answer is about.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Why the run ended before its script finished: `stopped by Ctrl-C`.
    pub stopped: Option<String>,
    /// The script as the user named it.
    pub script: String,
    /// The names of the parameters that the script declares.
    pub declared: BTreeSet<String>,
    /// The parameters that were set.
    pub set: Map<String, Value>,
    /// The permissions given with `--allow`.
    pub allow: Vec<String>,
    /// True if memory was read from the host, not from a GPU.
    pub on_host: bool,
    /// The servers and models that were probed.
    pub asked: Vec<String>,
}

impl RunFacts {
    /// The names of the parameters in the map that `params` returned; none for a script that did not call it.
    pub fn declared_in(parameters: Option<&Value>) -> BTreeSet<String> {
        let parameters = parameters.and_then(Value::as_object);
        parameters.into_iter().flat_map(Map::keys).cloned().collect()
    }
}

/// The fields of the map that a search strategy returned. Scripts may return any map: a field that is missing or has
/// another type counts as unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Search {
    /// Number of probes.
    pub(super) probes: Option<usize>,
    /// Number of engine starts.
    pub(super) starts: Option<usize>,
    /// Whether each point got a fresh engine.
    pub(super) isolated: bool,
    pub(super) seconds: Option<f64>,
    pub(super) ended: Option<SearchEnd>,
    pub(super) verified: Option<Verified>,
    /// Whether answers contradict the engine's own report.
    pub(super) report_failed: bool,
    /// The model's maximum of input and output tokens together.
    pub(super) positions: Option<u64>,
    pub(super) workload: Option<Workload>,
    /// True if the search ran without extra probes for the recommendation.
    pub(super) without_advice: bool,
}

/// Why a search ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SearchEnd {
    /// The limit was probed on both sides at its ends and in its middle.
    Verified,
    /// An option that bounds the search, by its name: `max_probes`.
    Budget(String),
    /// The server died or did not answer.
    ServerLost,
    /// Several probes in a row gave no clear answer.
    Unanswered,
    /// Any other reason: the search did all it should.
    Complete,
}

/// The places at which a predicted limit was checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verified {
    pub(super) by: Predictor,
    /// Number of ends that were checked.
    pub(super) ends: usize,
    /// Whether the middle was checked.
    pub(super) middle: bool,
    /// Number of these places where nothing was sent beyond the limit, if known.
    pub(super) not_sent: Option<usize>,
    /// The limit as people write it, if it counts blocks.
    pub(super) formula: Option<String>,
}

impl Verified {
    /// Number of places that were checked.
    pub(super) fn places(&self) -> usize {
        self.ends + usize::from(self.middle)
    }
}

/// The source of a predicted limit between the places where it was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predictor {
    /// Limits that agree with all answers.
    Fitted,
    MemoryModel,
    /// The engine's own report.
    Report,
    /// Figures that were passed to the script.
    Given,
}

/// The workload that the user named.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload {
    pub(super) name: String,
    /// The 95th percentile of each length that the user did not give otherwise, in tokens, by axis.
    pub(super) lengths: Vec<(&'static str, u64)>,
}

impl Search {
    /// Reads the map that a strategy returned.
    pub(super) fn read(value: &Value) -> Self {
        let (predicted, question) = (&value["predicted"], &value["question"]);
        Self {
            probes: count(&value["probes"]),
            starts: count(&value["starts"]),
            isolated: value["isolated"] == true,
            seconds: value["seconds"].as_f64(),
            ended: value["stopped"].as_str().map(SearchEnd::read),
            verified: Some(&value["verified"])
                .filter(|found| !found.is_null())
                .map(Verified::read),
            report_failed: predicted["held"] == false && !predicted["report"].is_null(),
            positions: question["bounds"]["positions"].as_u64(),
            workload: Workload::read(question),
            without_advice: value["advice_probes"] == 0,
        }
    }
}

impl SearchEnd {
    fn read(name: &str) -> Self {
        match name {
            "verified" => Self::Verified,
            "server" => Self::ServerLost,
            "unanswered" => Self::Unanswered,
            budget if budget.starts_with("max_") => Self::Budget(budget.to_owned()),
            _ => Self::Complete,
        }
    }
}

impl Verified {
    fn read(value: &Value) -> Self {
        Self {
            by: match value["by"].as_str() {
                Some("fitted") => Predictor::Fitted,
                Some("memory model") => Predictor::MemoryModel,
                Some("report") => Predictor::Report,
                _ => Predictor::Given,
            },
            ends: count(&value["ends"]).unwrap_or(0),
            middle: count(&value["middle"]).unwrap_or(0) > 0,
            not_sent: count(&value["not_sent"]),
            formula: value["formula"].as_str().map(str::to_owned),
        }
    }
}

impl Workload {
    fn read(question: &Value) -> Option<Self> {
        let (work, given) = (&question["workload"], question["given"].as_array());
        let is_given = |name: &str| given.is_some_and(|given| given.iter().any(|one| one == name));
        let lengths = ["input", "output"].into_iter().filter(|name| !is_given(name));
        Some(Self {
            name: work["name"].as_str()?.to_owned(),
            lengths: lengths
                .filter_map(|name| Some((name, work[name]["p95"].as_u64()?)))
                .collect(),
        })
    }
}

fn count(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}
