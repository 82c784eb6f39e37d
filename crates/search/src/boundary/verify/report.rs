//! Verifies the bounds that an engine reports itself.

use serde::{Deserialize, Serialize};

use super::super::{Boundary, BoundsReport, Class, Easier, Expected, Lattice, Moves, Point};
use super::place::Place;
use super::prediction::LimitPrediction;
use super::stated::Walk;
use super::step::VerificationStep;
use crate::error::{Error, Result};
use crate::fmt::thousands;

/// Distance, in tokens, from a reported boundary at which each side is verified: the two sides are 64 apart.
pub(super) const MARGIN: i64 = 32;

/// Tokens of a stated limit that a server may reserve.
const RESERVED: u64 = 2;

/// Largest difference, in tokens, between the requested length and a server's count, for servers whose count varies
/// between requests.
const NEAR: u64 = 8;

/// The limit that follows from an engine's report: all concurrent requests fit into the KV cache in whole blocks, and no
/// request is longer than the longest. `None` for unreported bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedLimit {
    /// KV cache size in tokens.
    pub tokens: Option<u64>,
    /// Tokens per KV cache block.
    pub block: Option<u64>,
    /// Longest input and output together.
    pub longest: Option<u64>,
    /// Longest input.
    pub longest_input: Option<u64>,
    /// Longest input and output together that the server accepts, as it states: no bound of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u64>,
    /// Input and output of the requests of which `tokens` are that many, if not of any requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// Blocks of one pool from which each request takes one for its state, too. `tokens` then bounds nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_blocks: Option<u64>,
    /// The sequences for whose recurrent state there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<u64>,
    /// Tokens that the server was seen to reserve of the length that it states. `max_model_len` is less by so many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved: u64,
    /// Tokens that the server was seen to count more or less than requested.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub near: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl From<BoundsReport> for ReportedLimit {
    fn from(report: BoundsReport) -> Self {
        let BoundsReport {
            tokens,
            block,
            longest,
            longest_input,
            max_model_len,
            length,
            sequences,
        } = report;
        Self {
            tokens,
            block,
            longest,
            longest_input,
            max_model_len,
            length,
            sequences,
            ..Self::default()
        }
    }
}

impl ReportedLimit {
    /// Whether a point should fit.
    pub(super) fn admits(&self, point: &Point) -> bool {
        let value = |name, missing| i128::from(point.int(name).unwrap_or(missing));
        let within = |value: i128, bound: Option<u64>| bound.is_none_or(|bound| value <= i128::from(bound));
        let block = i128::from(self.block.unwrap_or(1).max(1));
        let (input, length) = (value("input", 0), value("input", 0) + value("output", 0));
        let (blocks, count) = ((length + block - 1) / block, value("concurrency", 1));
        let in_pool = match self.state_blocks {
            Some(_) => within(count * (blocks + 1), self.state_blocks),
            None => within(count * blocks * block, self.tokens),
        };
        in_pool
            && within(count, self.sequences)
            && within(length, self.longest)
            && within(length, self.max_model_len)
            && within(input, self.longest_input)
    }

    /// Whether the engine refuses one request of a point for its length.
    fn is_too_long(&self, point: &Point) -> bool {
        let alone = Self {
            longest: self.longest,
            longest_input: self.longest_input,
            max_model_len: self.max_model_len,
            ..Self::default()
        };
        !alone.admits(point)
    }

    /// The limit if the tokens were counted in requests of one length that take one block for their state, too, out of the
    /// same pool.
    pub(in super::super) fn with_state(self, longest: u64) -> Option<Self> {
        let state_blocks = Some(self.pool(1, longest)?);
        Some(Self { state_blocks, ..self })
    }

    /// The limit if the tokens were counted in requests of one length, in whole blocks each.
    fn in_blocks(self, longest: u64) -> Option<Self> {
        let tokens = self.pool(0, longest)?.checked_mul(self.block?);
        Some(Self { tokens, ..self })
    }

    /// The blocks of a pool whose tokens are no whole number of blocks, if each request takes `more` blocks than its
    /// tokens need. vLLM writes such tokens as requests × their length, and never uses one of the blocks.
    fn pool(self, more: u64, longest: u64) -> Option<u64> {
        let (tokens, block, length) = (self.tokens?, self.block?, self.length.unwrap_or(longest));
        if self.state_blocks.is_some() || block < 2 || tokens % block == 0 || length == 0 {
            return None;
        }
        let by_request = u128::from(length.div_ceil(block) + more);
        let all = (u128::from(tokens) * by_request).div_ceil(u128::from(length));
        u64::try_from(all.checked_sub(1)?).ok()
    }

    /// As people write it, if it is more than a number of tokens.
    pub fn formula(&self) -> Option<String> {
        let (block, all) = (self.block?, self.state_blocks?);
        let (block, all) = (thousands(block), thousands(all));
        Some(format!("concurrency × (⌈(input + output) / {block}⌉ + 1) ≤ {all}"))
    }

    /// The length that the server states.
    fn stated(&self) -> Option<u64> {
        Some(self.max_model_len? + self.reserved)
    }

    /// The prediction that follows, by `chance`.
    pub(super) fn prediction<'a>(
        &self,
        map: &'a Boundary,
        chance: &'a dyn Fn(&Point) -> Result<f64>,
        workload: Option<&'a Point>,
    ) -> LimitPrediction<'a, Error> {
        let mut prediction = LimitPrediction::new(map, chance, false, MARGIN as f64, workload);
        prediction.stated = self.max_model_len.and_then(|most| i64::try_from(most).ok());
        prediction.near = self.near.cast_signed();
        prediction
    }

    /// True if the report bounds every axis.
    fn bounds(&self, lattice: &Lattice) -> bool {
        let is_known = |name: &str| ["input", "output", "concurrency"].contains(&name);
        let mut axes = lattice.axes().iter();
        if !axes.all(|axis| is_known(axis.name()) && axis.easier() == Easier::Down && axis.is_whole()) {
            return false;
        }
        // A stated limit does not bound the number of concurrent requests.
        let free = lattice.free().into_iter();
        let many = free
            .map(|axis| &lattice.axes()[axis])
            .any(|axis| axis.name() == "concurrency");
        let memory = [self.tokens, self.longest, self.longest_input];
        memory.iter().any(Option::is_some) || self.max_model_len.is_some() && !many
    }
}

/// Whether all places lie where the engine states its limit, which leaves nothing to look at between them.
fn is_exact(prediction: &LimitPrediction<'_, Error>, places: &[Place]) -> bool {
    places.iter().all(|place| prediction.is_stated(&place.point))
}

impl Boundary {
    /// The next step of verifying an engine's report, and the report itself: a newer one if the server states less by
    /// now, less the tokens that it was seen to reserve of the stated length. `None` if it does not bound every axis.
    /// Once all places are proven, one more point is probed where the largest undecided region is, to catch what ends and
    /// middle miss.
    ///
    /// # Errors
    ///
    /// `limit` if the boundary is too large to compute its volume.
    pub fn verify_report(
        &self,
        report: ReportedLimit,
        workload: Option<&Point>,
        parallel: bool,
    ) -> Result<Option<(VerificationStep, ReportedLimit)>> {
        let mut limit = report;
        let mut planned = Vec::new();
        while limit.bounds(&self.lattice) {
            let chance = |point: &Point| Ok(if limit.admits(point) { 1.0 } else { 0.0 });
            let prediction = limit.prediction(self, &chance, workload);
            let places = prediction.places()?;
            let restated = |point: &Point| self.restated(limit, &prediction, point);
            let walk = self.walk(&places, parallel, &mut planned, restated)?;
            if let Walk::Restated(other) = walk {
                limit = other;
                continue;
            }
            let is_answered = |place: &Place, side: &Point, class: Class| self.is_answered(limit, place, side, class);
            let mut step = self.concluded(&walk, places, planned, is_answered)?;
            if step.proven.len() == step.places.len() && step.next.is_none() && !(parallel && self.is_waiting()) {
                self.look_between(&prediction, &mut step)?;
            } else if step.held && !is_exact(&prediction, &step.places) {
                // One more point will be looked at.
                step.ahead.points.extend(step.ahead.points.last().cloned());
            }
            for (point, expected) in &mut step.ahead.points {
                if *expected == Expected::Fails && limit.is_too_long(point) {
                    *expected = Expected::Refused;
                }
            }
            return Ok(Some((step, limit)));
        }
        Ok(None)
    }

    /// The limit that the engine meant, if the answer of a point shows that it is another one.
    fn restated(
        &self,
        limit: ReportedLimit,
        prediction: &LimitPrediction<'_, Error>,
        point: &Point,
    ) -> Result<Option<ReportedLimit>> {
        let stated = limit.stated();
        let newest = ReportedLimit {
            near: limit.near,
            ..self.report().unwrap_or_default().into()
        };
        if let Some(now) = newest.max_model_len
            && stated.is_none_or(|stated| now < stated)
        {
            return Ok(Some(newest));
        }
        if stated.is_some() && limit.near == 0 && self.recorded(point)? && !self.has_record_at(point)? {
            return Ok(Some(ReportedLimit { near: NEAR, ..newest }));
        }
        if prediction.is_stated(point) && self.is_refused(point)? && limit.reserved < RESERVED {
            let reserved = limit.reserved + 1;
            let max_model_len = newest.max_model_len.map(|stated| stated.saturating_sub(reserved));
            return Ok(Some(ReportedLimit {
                max_model_len,
                reserved,
                ..newest
            }));
        }
        let known = self.side(point)?;
        if known != Class::Unknown && limit.admits(point) != (known == Class::Fits) {
            return Ok(self.reread(limit));
        }
        Ok(None)
    }

    /// The next reading of tokens that are no whole number of blocks which agrees with every answer. None comes twice, so
    /// that points which were never sent cannot make it go on for ever.
    fn reread(&self, limit: ReportedLimit) -> Option<ReportedLimit> {
        if limit.state_blocks.is_some() {
            return None;
        }
        let largest = self.largest();
        let longest: i64 = ["input", "output"].iter().filter_map(|name| largest.int(name)).sum();
        let longest = longest.try_into().unwrap_or(0);
        let reported = ReportedLimit {
            tokens: self.report().and_then(|report| report.tokens).or(limit.tokens),
            ..limit
        };
        let in_blocks = reported.in_blocks(longest).filter(|_| limit.tokens == reported.tokens);
        let readings = [in_blocks, reported.with_state(longest)];
        readings.into_iter().flatten().find(|reading| {
            self.records().all(|(point, record)| match record.moves {
                Moves::Fits => reading.admits(&point),
                Moves::Fails => !reading.admits(&point),
                Moves::Bounds | Moves::None => true,
            })
        })
    }

    /// Whether a side of a place is known, with a count that may differ by `near` tokens.
    fn is_answered(&self, limit: ReportedLimit, place: &Place, side: &Point, class: Class) -> Result<bool> {
        let mut point = side.clone();
        let axis = place.along.map(|along| &self.lattice.axes()[along]);
        if let Some(axis) = axis.filter(|axis| axis.name() != "concurrency") {
            let near = limit.near as f64;
            axis.set(
                &mut point,
                axis.at(side) + if class == Class::Fits { -near } else { near },
            );
        }
        Ok(self.classify(&point)? != Class::Unknown
            || class == Class::Fails && limit.stated().is_some() && self.is_refused(&point)?)
    }

    /// Looks once at the largest undecided region, unless the limit is exact, and takes the answer into account.
    fn look_between(&self, prediction: &LimitPrediction<'_, Error>, step: &mut VerificationStep) -> Result<()> {
        if is_exact(prediction, &step.places) {
            return Ok(());
        }
        let is_side = |point: &Point| step.places.iter().any(|place| place.sides().any(|side| side == point));
        let (mut looked, mut held) = (false, true);
        for place in prediction.crossings()? {
            for (side, class) in [(&place.fits, Class::Fits), (&place.fails, Class::Fails)] {
                if let Some(point) = side
                    && self.recorded(point)?
                    && !is_side(point)
                {
                    looked = true;
                    held = held && !self.contradicts(point, class)?;
                    step.planned.push(point.clone());
                }
            }
        }
        if !held {
            step.held = false;
            step.proven.clear();
        } else if !looked && let Some(open) = prediction.most_open()? {
            let expected = Expected::of(prediction.expects(&open.point)?);
            step.ahead.points.push((open.point.clone(), expected));
            step.planned.push(open.point.clone());
            step.next = Some(open.point);
        }
        Ok(())
    }

    /// True if this point or an easier one was refused because of a limit that is not memory.
    fn is_refused(&self, point: &Point) -> Result<bool> {
        let (easier, _) = self.lattice.cells(point)?;
        Ok(self.clips.standing.covers(&self.lattice.mirror(&easier)))
    }

    /// Whether an answer was recorded at exactly this point, not only for it.
    fn has_record_at(&self, point: &Point) -> Result<bool> {
        let wanted = self.lattice.coordinates(point)?;
        Ok(self.recorded_moves().any(|(coordinates, _)| *coordinates == *wanted))
    }

    /// Whether an answer contradicts a reported limit, and not only close to where it changes.
    pub(super) fn contradicts_report(&self, limit: ReportedLimit) -> bool {
        self.records().any(|(mut point, record)| {
            let fits = match record.moves {
                Moves::Fits => true,
                Moves::Fails => false,
                Moves::Bounds | Moves::None => return false,
            };
            for name in ["input", "output"] {
                if let Some(value) = point.int(name) {
                    point = point.with(name, value + if fits { -MARGIN } else { MARGIN });
                }
            }
            limit.admits(&point) != fits
        })
    }
}
