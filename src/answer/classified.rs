//! The answer of a search before it is put into words: the outcome, how sure it is, what to run, why not more, how much
//! room is left, and the run to do next.

use serde_json::{Map, Value, json};

use super::advice::advise;
use super::confidence::Confidence;
use super::context::{AnswerContext, RunFacts, Search, Workload};
use super::evidence::nearest_failing;
use super::limit::{Bound, FoundLimit};
use super::offers::{Offer, offers};
use super::outcome::{Gap, Outcome, OutcomeKind, Untested};
use crate::boundary::{Axis, Boundary, Limit, Moves, Point, Quantity, Record};
use crate::evidence::Evidence;
use crate::fault::Result;

/// The answer of a search.
#[derive(Clone, Debug)]
pub(super) struct Classified {
    pub(super) outcome: Outcome,
    pub(super) confidence: Confidence,
    pub(super) workload: Option<Workload>,
    pub(super) offers: Vec<Offer>,
    pub(super) why: Option<Why>,
    pub(super) notes: Vec<Note>,
    /// The parameters of the suggested next run.
    pub(super) next: Option<Map<String, Value>>,
}

/// Why more does not fit, or why that is not known.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// The nearest point that fails or was not sent.
    Failing(Point, Record),
    /// Memory could not be tested here.
    Untested(Untested),
    /// The last point without a clear answer, and its message.
    Unclear(Point, String),
}

/// The room left, and other facts that the user needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Note {
    /// Tokens left in the KV cache at a point.
    KvCache { left: u64, tokens: u64, at: Point },
    /// Bytes of the machine's memory left at a point.
    HostMemory { bytes: u64, at: Point },
    /// Bytes of GPU memory left outside the engine's share; the engine will not allocate them.
    OutsideShare { bytes: u64 },
    /// Bytes of GPU memory left at a point.
    GpuMemory { bytes: u64, at: Point },
    /// Memory could not be tested here.
    Untested(Untested),
    /// The engine's own count of the input tokens, lowest and highest, for the single input length of the search.
    Counted { input: i64, least: u64, most: u64 },
    /// A length limit found in addition to a memory limit.
    LengthLimit(FoundLimit),
    /// The sequences for whose recurrent state there is room, in addition to a limit of memory or length.
    StateSlots(u64),
}

impl Classified {
    /// Classifies a boundary.
    ///
    /// # Errors
    ///
    /// Errors of the adapter's `flags`; `limit` for a boundary with too many corners.
    pub(super) fn new(boundary: &Boundary, context: &AnswerContext) -> Result<Self> {
        let search = context.search.map(Search::read).unwrap_or_default();
        let outcome = Outcome::new(boundary, &search)?;
        let confidence = Confidence::new(boundary, &outcome, &search, context)?;
        let advice = advise(boundary)?;
        let from = advice
            .as_ref()
            .map_or_else(|| boundary.smallest(), |advice| advice.safe.clone());
        let mut why = nearest_failing(boundary, &from).map(|(point, record)| Why::Failing(point, record.clone()));
        let mut notes = Vec::new();
        if let Some(advice) = advice {
            notes.extend(kv_cache(boundary, outcome.limit(), &advice.safe, &search));
            notes.extend(memory(boundary, outcome.limit(), &advice.safe, &search, context));
        }
        let is_said = matches!(outcome, Outcome::Undecided(Gap::Untested(_)));
        if let Some(untested) = boundary.untested().map(Untested::new).filter(|_| !is_said) {
            match why {
                None => why = Some(Why::Untested(untested)),
                Some(_) => notes.push(Note::Untested(untested)),
            }
        }
        if why.is_none() && outcome.state() == OutcomeKind::Undecided {
            why = unclear(boundary);
        }
        notes.extend(counted(boundary));
        let length_limit = boundary
            .length_limit()
            .filter(|length| outcome.limit().map(|stated| &stated.limit) != Some(length));
        notes.extend(length_limit.map(|length| Note::LengthLimit(FoundLimit::new(boundary, length))));
        notes.extend(state_slots(boundary, outcome.limit()).map(Note::StateSlots));
        Ok(Self {
            offers: offers(boundary, &outcome, &search, context)?,
            next: next(boundary, &outcome, context.run),
            workload: search.workload,
            outcome,
            confidence,
            why,
            notes,
        })
    }
}

/// The sequences for whose recurrent state there is room, unless that is the limit, or more than was searched.
fn state_slots(boundary: &Boundary, limit: Option<&FoundLimit>) -> Option<u64> {
    let most = Quantity::Concurrency.of(&boundary.largest())?;
    let slots = boundary.report()?.sequences.filter(|slots| *slots < most);
    slots.filter(|_| limit.is_none_or(|limit| limit.bound != Bound::StateSlots))
}

/// The last point without a clear answer.
fn unclear(boundary: &Boundary) -> Option<Why> {
    let unclear = boundary.records().filter(|(_, record)| record.moves == Moves::None);
    let (point, record) = unclear.last()?;
    Some(Why::Unclear(point, Evidence::from_record(record).message?))
}

/// The size of the KV cache in tokens, if it is the limiting resource.
fn kv_cache_tokens(boundary: &Boundary, limit: Option<&FoundLimit>, safe: &Point, search: &Search) -> Option<u64> {
    // The reported size is right if the engine allocates the KV cache at start, but not if it fails long before that is
    // full.
    let is_full = |tokens: u64| {
        Quantity::AllTokens
            .of(safe)
            .is_none_or(|used| used >= tokens - tokens / 10)
    };
    let reported = boundary.report().and_then(|report| report.tokens);
    reported
        .filter(|tokens| !search.report_failed || is_full(*tokens))
        .or_else(|| {
            let limit = limit.map(|stated| &stated.limit)?;
            let is_single = safe.int("concurrency").unwrap_or(1) == 1;
            let is_total = limit.quantity == Quantity::Total && !limit.configured && is_single;
            limit.uncontradicted().filter(|_| is_total)
        })
}

fn kv_cache(boundary: &Boundary, limit: Option<&FoundLimit>, safe: &Point, search: &Search) -> Option<Note> {
    let tokens = kv_cache_tokens(boundary, limit, safe, search)?;
    Some(Note::KvCache {
        left: tokens.checked_sub(Quantity::AllTokens.of(safe)?)?,
        tokens,
        at: safe.clone(),
    })
}

fn memory(
    boundary: &Boundary,
    limit: Option<&FoundLimit>,
    safe: &Point,
    search: &Search,
    context: &AnswerContext,
) -> Option<Note> {
    let bytes = (context.headroom)(safe)?;
    // An allocator with a cap of its own ran out of that, not of the GPU.
    let is_capped = || {
        boundary
            .records()
            .flat_map(|(_, record)| Evidence::from_record(record).allocations)
            .any(|allocation| allocation.allowed.is_some())
    };
    let is_allocated = kv_cache_tokens(boundary, limit, safe, search).is_some()
        || limit.is_some_and(|limit| limit.bound == Bound::KvCache)
        || is_capped();
    let at = safe.clone();
    Some(if context.run.on_host {
        Note::HostMemory { bytes, at }
    } else if is_allocated {
        Note::OutsideShare { bytes }
    } else {
        Note::GpuMemory { bytes, at }
    })
}

/// The range of the engine's own input token counts, if the search used a single input length.
fn counted(boundary: &Boundary) -> Option<Note> {
    let input = boundary.smallest().int("input").filter(|_| !boundary.varies("input"))?;
    let counted: Vec<u64> = boundary
        .records()
        .filter_map(|(_, record)| Evidence::from_record(record).counted)
        .collect();
    Some(Note::Counted {
        input,
        least: *counted.iter().min()?,
        most: *counted.iter().max()?,
    })
}

/// The parameters of the suggested next run.
fn next(boundary: &Boundary, outcome: &Outcome, run: &RunFacts) -> Option<Map<String, Value>> {
    match outcome {
        Outcome::NotReached { largest, positions } => {
            let tokens = boundary.report().and_then(|report| report.tokens);
            let total = Quantity::Total.of(largest)?;
            // One request cannot fill the KV cache.
            let is_far = tokens.is_none_or(|tokens| tokens >= 2 * total);
            if !boundary.varies("concurrency") && (positions.is_some() || is_far) {
                concurrency(largest, run)
            } else {
                further(boundary, positions.is_some(), run)
            }
        }
        // A configured length limit says nothing about memory.
        Outcome::Limit(FoundLimit {
            limit: Limit {
                configured: true, at, ..
            },
            ..
        }) if !boundary.varies("concurrency") => concurrency(at, run),
        _ => None,
    }
}

/// Parameters that search for the concurrency at these lengths; `None` if the script does not declare them.
fn concurrency(lengths: &Point, run: &RunFacts) -> Option<Map<String, Value>> {
    let mut set = run.set.clone();
    set.retain(|name, _| name != "workload" && name != "concurrency");
    for axis in ["input", "output"] {
        set.insert(axis.to_owned(), json!(lengths.int(axis)?));
    }
    are_declared(["input", "output", "concurrency"], run).then_some(set)
}

/// Parameters that widen the search range and keep everything else; `None` if the script does not declare them.
/// `longest` is true if requests cannot be longer.
fn further(boundary: &Boundary, longest: bool, run: &RunFacts) -> Option<Map<String, Value>> {
    let (smallest, largest) = (boundary.smallest(), boundary.largest());
    let mut set = run.set.clone();
    let axes = boundary.lattice().axes().iter().map(Axis::name);
    let searched = axes.filter(|axis| boundary.varies(axis) && (!longest || *axis == "concurrency"));
    for axis in searched.clone() {
        let (low, high) = (smallest.int(axis)?, largest.int(axis)?);
        set.insert(axis.to_owned(), json!(format!("{low}..{}", high.saturating_mul(4))));
    }
    are_declared(searched, run).then_some(set)
}

fn are_declared<'a>(names: impl IntoIterator<Item = &'a str>, run: &RunFacts) -> bool {
    names.into_iter().all(|name| run.declared.contains(name))
}
