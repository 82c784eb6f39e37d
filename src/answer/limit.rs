//! A stated limit: the resource that it bounds, and what is known beyond it.

use crate::boundary::{Boundary, Cause, Limit, Quantity, Scalar, Verdict};
use crate::evidence::Evidence;

/// An inequality that agrees with every answer, and its grounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FoundLimit {
    pub(super) limit: Limit,
    pub(super) bound: Bound,
    pub(super) beyond: Beyond,
    /// The engine's own figure, if a point that was sent contradicts it.
    pub(super) contradicted: Option<u64>,
    /// Axes with a single value that the inequality does not name.
    pub(super) held: Vec<(String, Scalar)>,
}

/// The resource or setting behind a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// The size of the KV cache, which the engine allocates from its share at the start: a larger request leaves the
    /// memory outside that share unchanged.
    KvCache,
    GpuMemory,
    HostMemory,
    /// The number of requests that the engine runs at the same time.
    Admission,
    /// The memory for the state of recurrent layers, of which each sequence takes its own.
    StateSlots,
    /// The server died beyond it, for an unknown reason.
    ServerDied,
    /// The server did not answer in time beyond it, for an unknown reason.
    ServerSilent,
    /// The configured maximum length, as the server reports it.
    MaxModelLen,
    /// A length limit that the server enforces but does not report.
    LengthLimit,
    /// Beyond it the server refuses every request, for an unknown reason.
    UnknownLimit,
}

impl Bound {
    pub(super) fn new(boundary: &Boundary, limit: &Limit) -> Self {
        let beyond = boundary.records().find(|(point, _)| *point == limit.beyond);
        if limit.configured {
            let cause = beyond.as_ref().and_then(|(_, record)| record.cause.as_ref());
            return match (limit.reported, limit.quantity) {
                _ if cause == Some(&Cause::UnknownLimit) => Self::UnknownLimit,
                (Some(_), Quantity::Total) => Self::MaxModelLen,
                _ => Self::LengthLimit,
            };
        }
        let slots = boundary.report().and_then(|report| report.sequences);
        if limit.quantity == Quantity::Concurrency && slots == Some(limit.value()) {
            return Self::StateSlots;
        }
        if limit.uncontradicted().is_some() && limit.quantity != Quantity::Input {
            return Self::KvCache;
        }
        let record = beyond.filter(|(_, record)| record.is_out_of_memory());
        match record
            .as_ref()
            .map(|(_, record)| (record.verdict, record.cause.as_ref()))
        {
            Some((Verdict::Preempted, _) | (_, Some(Cause::KvCache))) => Self::KvCache,
            Some((Verdict::Queued, _)) => Self::Admission,
            Some((Verdict::Oom, Some(Cause::Host))) => Self::HostMemory,
            Some((Verdict::Error, _)) => Self::ServerDied,
            Some((Verdict::Timeout, _)) => Self::ServerSilent,
            _ => Self::GpuMemory,
        }
    }
}

/// The evidence beyond a limit. Values are in the unit of its quantity.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Beyond {
    /// The next value was sent, and the server rejected it for its length.
    Refused(u64),
    /// This value was sent and fails.
    Fails(u64),
    /// A larger value was sent and does not fit; the true limit on the lines that were narrowed is at most this far from
    /// the stated one. The widest of them goes through these values of other axes.
    Within(u64, Vec<(String, Scalar)>),
    /// The engine's own report rules out larger values.
    RuledOut(Report, Above),
}

/// The engine's own report that rules out larger values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The engine's figure for the limited quantity.
    Figure(u64),
    /// Room for this number of tokens.
    Tokens(u64),
    /// No figure.
    Unknown,
}

/// Probes above the largest value that fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Above {
    /// The smallest value that fails.
    Fails(u64),
    /// Larger values were sent, and none was seen to fail.
    NothingFailed,
    NothingSent,
}

impl FoundLimit {
    pub(super) fn new(boundary: &Boundary, limit: Limit) -> Self {
        let axes = boundary.lattice().axes().iter();
        let is_named = |name: &str| boundary.varies(name) || limit.quantity.formula().contains(name);
        let is_single = |name: &str, value: Scalar| name == "concurrency" && value.as_f64() == 1.0;
        let held = axes
            .map(|axis| (axis.name().to_owned(), axis.range().0))
            .filter(|(name, value)| !is_named(name) && !is_single(name, *value));
        Self {
            held: held.collect(),
            bound: Bound::new(boundary, &limit),
            beyond: Beyond::new(boundary, &limit),
            contradicted: limit
                .reported
                .filter(|_| !limit.not_sent && limit.uncontradicted().is_none()),
            limit,
        }
    }

    /// True if the limit is the same after every start, unlike memory that is allocated as needed.
    pub(super) fn is_exact(&self) -> bool {
        self.limit.is_exact() || self.bound == Bound::Admission
    }
}

impl Beyond {
    fn new(boundary: &Boundary, limit: &Limit) -> Self {
        if limit.not_sent {
            return Self::RuledOut(Report::new(boundary, limit), Above::new(boundary, limit));
        }
        let Some(line) = limit.on_line.as_ref() else {
            return Self::Fails(limit.fails);
        };
        match (line.within, limit.quantity) {
            (0, _) if limit.configured => Self::Refused(limit.fails),
            (0, _) | (_, Quantity::Concurrency) => Self::Fails(limit.fails),
            (within, _) => {
                let others = line
                    .at
                    .0
                    .iter()
                    .filter(|(name, _)| **name != line.along && boundary.varies(name));
                Self::Within(within, others.map(|(name, value)| (name.clone(), *value)).collect())
            }
        }
    }
}

impl Report {
    fn new(boundary: &Boundary, limit: &Limit) -> Self {
        if let Some(figure) = limit.reported {
            return Self::Figure(figure);
        }
        let mut at_limit = boundary.records().filter(|(point, _)| *point == limit.beyond);
        let tokens = at_limit.find_map(|(_, record)| Evidence::from_record(record).reported);
        tokens.map_or(Self::Unknown, Self::Tokens)
    }
}

impl Above {
    fn new(boundary: &Boundary, limit: &Limit) -> Self {
        if let Some(failed) = limit.failed {
            return Self::Fails(failed);
        }
        let mut sent = boundary
            .records()
            .filter(|(_, record)| record.verdict != Verdict::NotSent);
        let is_above = sent.any(|(point, _)| limit.quantity.of(&point).is_some_and(|value| value > limit.fits));
        if is_above {
            Self::NothingFailed
        } else {
            Self::NothingSent
        }
    }
}
