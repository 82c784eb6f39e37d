//! Verifies the limits that agree with all answers: at their places, between them where the limits differ most, and
//! where the largest undecided region is.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::super::axis::Axis;
use super::super::lattice::cell_along;
use super::super::version_space::Agreement;
use super::super::{Ahead, Boundary, Point, Scale};
use super::place::{NARROW, Place, PlaceKind, axis_of};
use super::prediction::LimitPrediction;
use super::step::VerificationStep;
use crate::error::{Error, Result as Checked};

/// A place is proven from both sides if they are at most this fraction of the value itself (1/8) apart, for ranges that
/// reach far beyond it.
const RELATIVE: f64 = 8.0;

/// Between the places, limits that agree with all answers may differ by this share of the value.
const DIFFER: f64 = 0.15;

/// Families that agree with all answers may differ by this share of the value.
const RIVALS_DIFFER: f64 = 0.1;

/// Families are told apart only up to this many probes for each axis: with two axes, and with more.
const RIVALS_BY_AXIS: [usize; 2] = [15, 18];

/// The chances whose distance says how much the limits differ there.
const DISAGREE: [f64; 2] = [0.75, 0.25];

/// Points between the places are probed only up to this many probes for each axis.
const UNSURE: usize = 18;

/// Either answer at a place settles at least this share of its open stretch.
const SHARE: f64 = 0.125;

/// Places that are drawn at random: with two axes, and with more.
const DRAWN: [usize; 2] = [1, 2];

/// Both sides of a drawn place are at most this share of its value apart.
const DRAWN_WITHIN: f64 = 0.05;

/// A further point is worth a probe if it settles at least this share of the volume that fits.
const WORTH: f64 = 0.1;

/// This many fitting points on the line of a place, and no failing one, suggest that everything fits up to the end of
/// the range.
const FITTING: usize = 2;

/// After this many probes near a point on its line it is not approached any further.
const FOLLOWED: usize = 3;

/// How urgent it is to probe the fitting side of a place; the failing side is less urgent, and a place where limits
/// differ more.
const SIDE: f64 = 2.0;

/// How many probes it usually takes to verify limits that agree with all answers, from the time on at which they do
/// (`benches/foreign.rhai`). Those that confirm answers are left out.
struct Usual {
    /// For each open place, and for each halving of what the limits differ there.
    place: f64,
    halving: f64,
    /// Besides: while places are open, and once all are proven, from where limits are told apart, from a place that is
    /// drawn at random, and from a large region that is open.
    places: Rest,
    telling: Rest,
    drawn: Rest,
    regions: Rest,
    /// The share of them that fails, before all places are proven and limits told apart, and from then on.
    failing: [f64; 2],
    /// How far their number is usually off, as a share of it.
    spread: f64,
}

/// A number of probes: at least, for each halving of the open share of the volume until enough is proven, and for each
/// large region that is open.
struct Rest(f64, f64, f64);

/// Two lengths; a length and the concurrency, whose limit is a curve; three axes.
const USUAL: [Usual; 3] = [
    Usual {
        place: 0.35,
        halving: 0.6,
        places: Rest(0.0, 1.4, 0.15),
        telling: Rest(3.0, 0.0, 0.8),
        drawn: Rest(1.0, 0.0, 1.0),
        regions: Rest(0.3, 0.0, 0.7),
        failing: [0.46, 0.45],
        spread: 0.27,
    },
    Usual {
        place: 0.85,
        halving: 0.8,
        places: Rest(0.3, 2.2, 0.0),
        telling: Rest(0.0, 2.1, 0.0),
        drawn: Rest(0.0, 1.0, 0.45),
        regions: Rest(0.0, 0.0, 1.0),
        failing: [0.57, 0.67],
        spread: 0.25,
    },
    Usual {
        place: 2.3,
        halving: 0.6,
        places: Rest(0.5, 0.5, 0.28),
        telling: Rest(0.0, 0.0, 0.42),
        drawn: Rest(1.4, 0.0, 0.28),
        regions: Rest(0.8, 0.0, 0.25),
        failing: [0.6, 0.7],
        spread: 0.33,
    },
];

/// No smaller share of the fitting volume is left open.
const EXACT: f64 = 1e-4;

/// The bracket on the axis of a place, as difficulties.
struct Line {
    /// The ends of the range.
    easy: f64,
    hard: f64,
    /// The hardest value proven to fit and the easiest proven to fail; the ends of the range where nothing is proven.
    low: f64,
    high: f64,
    fits: bool,
    fails: bool,
    whole: bool,
}

impl Line {
    /// A step that every line has: 1 if its values are whole numbers.
    fn step(&self) -> f64 {
        if self.whole { 1.0 } else { 0.0 }
    }
}

impl Boundary {
    /// The next step of verifying the limits that agree with all answers; `None` if none agrees, or if only one axis is
    /// searched, which is bisected instead. The limits are verified if nothing is left to probe and all places are proven,
    /// or before if so much `coverage` is proven.
    ///
    /// # Errors
    ///
    /// `limit` if the boundary is too large to compute its volume.
    pub fn verify_fitted(&self, workload: Option<&Point>, coverage: f64) -> Checked<Option<VerificationStep>> {
        let agreement = self
            .hypotheses()?
            .map_or(Agreement::None, |hypotheses| hypotheses.agreement);
        let rays = self.predicted()?;
        if !matches!(agreement, Agreement::Exact | Agreement::Nearly) || rays.is_empty() {
            return Ok(None);
        }
        let chance = |point: &Point| self.expected_chance(point);
        let prediction = LimitPrediction::new(self, &chance, true, 0.0, workload);
        let places = prediction.places()?;
        let mut proven = Vec::new();
        let mut widest = 0.0;
        let mut next = None;
        let mut certifies = false;
        let mut halvings = 0.0;
        let axes = self.free_axes();
        let usual = match axes.len() {
            0..=2 => &USUAL[usize::from(axes.iter().any(|axis| axis.name() == "concurrency"))],
            _ => &USUAL[2],
        };
        let mut near = Vec::new();
        for place in &places {
            let Some(axis) = axis_of(self, place) else {
                proven.push(place.clone());
                continue;
            };
            let line = self.line(place, axis)?;
            let narrow = narrow_enough(&line, place, axis);
            if line.high - line.low <= narrow && line.fits {
                proven.push(place.clone());
                continue;
            }
            let halving = (spread(place, axis, &line) / narrow).max(1.0).log2();
            halvings += halving;
            near.push((place.point.clone(), usual.place + usual.halving * halving));
            // The position of the middle depends on the ends.
            if place.at == PlaceKind::Middle && next.is_some() {
                continue;
            }
            let (urgent, point) = self.probe_at(place, axis, &line, narrow)?;
            if urgent > widest && self.can_be_asked(&point)? {
                widest = urgent;
                certifies = urgent <= SIDE;
                next = Some(point);
            }
        }
        let open = (places.len() - proven.len()) as f64;
        let enough = WORTH * (self.volume()?.fits as f64).max(1.0);
        let mut regions = prediction.open_points()?;
        regions.retain(|region| region.settles >= enough);
        // The first of those that settle most is looked at first.
        regions.sort_by(|a, b| b.settles.total_cmp(&a.settles));
        let mut then = &usual.telling;
        let [mut failing, failing_then] = usual.failing;
        if next.is_none() {
            next = prediction.most_unsure()?;
        }
        if next.is_none() {
            next = prediction.rivalled()?;
        }
        if next.is_none() {
            next = prediction.drawn()?;
            certifies = next.is_some();
            (then, failing) = (&usual.drawn, failing_then);
        }
        if next.is_none() {
            next = regions.first().map(|region| region.point.clone());
            then = if next.is_some() {
                &usual.regions
            } else {
                &Rest(0.0, 0.0, 0.0)
            };
        }
        // Points at open places may be in flight.
        let Rest(least, by_halving, by_region) = if open > 0.0 { &usual.places } else { then };
        let at_places = usual.place * open + usual.halving * halvings;
        let to_prove = by_halving * self.halvings_of_open(coverage)?;
        let others = least + to_prove + by_region * regions.len() as f64;
        // Without a large region, probes tell limits apart at the places.
        let told_apart: Vec<&Point> = match &*regions {
            [] => places.iter().map(|place| &place.point).collect(),
            regions => regions.iter().map(|region| &region.point).collect(),
        };
        // Half of these others lie at these points, half anywhere on the limit.
        for points in [told_apart, rays.iter().map(|ray| &ray.expected).collect()] {
            let share = 0.5 * others / points.len() as f64;
            near.extend(points.into_iter().map(|point| (point.clone(), share)));
        }
        let ahead = Ahead {
            near,
            confirms: true,
            ..Ahead::of(at_places + others, failing, usual.spread)
        };
        let step = VerificationStep {
            next,
            certifies,
            planned: Vec::new(),
            places,
            proven,
            held: true,
            ahead,
        };
        Ok(Some(step))
    }

    /// How often the open share of the volume must halve until so much `coverage` is proven.
    fn halvings_of_open(&self, coverage: f64) -> Checked<f64> {
        let volume = self.volume()?;
        let open = volume.open as f64 / ((volume.open + volume.fits) as f64).max(1.0);
        Ok((open / (1.0 - coverage).max(EXACT)).max(1.0).log2())
    }

    /// The point to probe at a place that is not narrow enough, and how urgent it is.
    fn probe_at(&self, place: &Place, axis: &Axis, line: &Line, narrow: f64) -> Checked<(f64, Point)> {
        let difficulty = |point: &Point| axis.difficulty(axis.at(point));
        // While the limits disagree, their median is the most informative point; after that, both sides are probed.
        let expected = difficulty(&place.point);
        let spread = spread(place, axis, line);
        let target = if spread > narrow {
            expected
        } else if line.low < expected - narrow / 2.0 {
            expected - 0.45 * narrow
        } else {
            expected + 0.45 * narrow
        };
        let mut point = between(axis, &place.point, line, target);
        // Everything may fit up to the end of the range if two points fit and none failed, or if the boundary was seen
        // just beyond that end.
        let far = axis.moved(&place.point, axis.at(&self.largest()));
        if !line.fails
            && !self.recorded(&far)?
            && (self.fitting_beside(place)? >= FITTING || self.fails_beyond(&far, axis)?)
        {
            point = far;
        }
        // Widest first, then points that should fit.
        let urgent = if spread > narrow {
            SIDE + spread / narrow
        } else if target < expected {
            SIDE
        } else {
            1.0
        };
        Ok((urgent, point))
    }

    /// The chance that a point fits, by the limits that agree with all answers; 0 while nothing is known.
    pub(super) fn expected_chance(&self, point: &Point) -> Checked<f64> {
        Ok(self.chance(point)?.unwrap_or(0.0))
    }

    /// The bracket on the axis of a place.
    fn line(&self, place: &Place, axis: &Axis) -> Checked<Line> {
        let bracket = self.bracket(&place.point, axis.name())?;
        let easy = axis.difficulty(axis.at(&self.smallest()));
        let hard = axis.difficulty(axis.at(&self.largest()));
        Ok(Line {
            easy,
            hard,
            low: bracket.fits.map_or(easy, |fits| axis.difficulty(fits.as_f64())),
            high: bracket.fails.map_or(hard, |fails| axis.difficulty(fails.as_f64())),
            fits: bracket.fits.is_some(),
            fails: bracket.fails.is_some(),
            whole: axis.is_whole(),
        })
    }

    /// True if three points near a point, on its line along an axis, were already probed. Limits that agree only nearly
    /// end just beyond a point that fitted, or just before one that failed, so that the search would follow them token
    /// by token.
    fn is_followed(&self, point: &Point, along: usize) -> Checked<bool> {
        let axis = &self.lattice.axes()[along];
        let (low, high) = axis.ends();
        let at = axis.at(point);
        let on_line = self.recorded_on_line(point, along)?;
        let near = on_line
            .iter()
            .filter(|(value, _)| (value - at).abs() * NARROW <= high - low);
        Ok(near.count() >= FOLLOWED)
    }

    /// True if there is a failure near a point that is harder than it along another axis alone.
    fn fails_beyond(&self, point: &Point, along: &Axis) -> Checked<bool> {
        for axis in self.free_axes() {
            let (low, high) = axis.ends();
            if axis.name() != along.name()
                && let Some(fails) = self.bracket(point, axis.name())?.fails
                && (fails.as_f64() - axis.at(point)).abs() * RELATIVE <= high - low
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// How far apart limits that agree with all answers are at a place.
fn spread(place: &Place, axis: &Axis, line: &Line) -> f64 {
    let difficulty = |point: &Point| axis.difficulty(axis.at(point));
    place.fails.as_ref().map_or(line.hard, difficulty) - place.fits.as_ref().map_or(line.easy, difficulty)
}

/// How far apart the two sides of a place may be.
fn narrow_enough(line: &Line, place: &Place, axis: &Axis) -> f64 {
    let narrow = ((line.hard - line.easy) / NARROW).min(axis.at(&place.point).abs() / RELATIVE);
    // A finer tolerance is met only after a limit was verified.
    narrow.max(axis.tolerance().unwrap_or(0.0)).max(line.step())
}

/// The point on a line as hard as `target`, moved so that either answer settles at least `SHARE` of the open stretch.
fn between(axis: &Axis, through: &Point, line: &Line, target: f64) -> Point {
    let margin = (SHARE * (line.high - line.low)).max(line.step());
    let low = if line.fits { line.low + margin } else { line.low };
    let high = if line.fails { line.high - margin } else { line.high };
    let value = axis.difficulty(low.max(high.min(target)));
    axis.moved(through, axis.in_range(if line.whole { value.round() } else { value }))
}

/// An open point, and the volume that the unexpected answer would settle.
pub(super) struct OpenPoint {
    pub(super) point: Point,
    settles: f64,
}

impl<E: From<Error>> LimitPrediction<'_, E> {
    /// The open point at which an unexpected answer would settle most; `None` if nothing is open.
    pub(super) fn most_open(&self) -> Result<Option<OpenPoint>, E> {
        let open = self.open_points()?.into_iter();
        Ok(open.reduce(|most, other| if other.settles > most.settles { other } else { most }))
    }

    /// Where the predicted boundary crosses rays from the smallest point: the open point, if there is one, at which an
    /// unexpected answer would settle most.
    fn open_points(&self) -> Result<Vec<OpenPoint>, E> {
        let mut found = Vec::new();
        for place in self.crossings()? {
            let (Some(along), Some(axis)) = (place.along, axis_of(self.map, &place)) else {
                continue;
            };
            let line = self.map.line(&place, axis)?;
            let mut most: Option<OpenPoint> = None;
            for side in place.sides() {
                // Limits that merely agree with the answers: their side may be known already.
                let point = match self.levels {
                    Some(_) => between(axis, &place.point, &line, axis.difficulty(axis.at(side))),
                    None => side.clone(),
                };
                if !self.map.can_be_asked(&point)? || self.map.is_followed(&point, along)? {
                    continue;
                }
                let gain = self.map.expected_gain(&point)?;
                let settles = if self.expects(&point)? { gain.fits } else { gain.fails };
                if most.as_ref().is_none_or(|most| settles > most.settles) {
                    most = Some(OpenPoint { point, settles });
                }
            }
            found.extend(most);
        }
        Ok(found)
    }

    /// A point that tells families apart which agree with all answers, where they differ most, relative to its value, on
    /// the axis on which they differ least; `None` if they hardly differ.
    fn rivalled(&self) -> Result<Option<Point>, E> {
        let Some(hypotheses) = self.map.hypotheses()? else {
            return Ok(None);
        };
        let axes = self.map.free_axes().len();
        if self.map.records().len() >= RIVALS_BY_AXIS[usize::from(axes > 2)] * axes {
            return Ok(None);
        }
        self.widest(&self.crossings()?, RIVALS_DIFFER, |place, along, axis, line| {
            let (_, mut from) = self.map.lattice.cells(&place.point)?;
            let mut to = from.clone();
            (from[along], to[along]) = (0, axis.last());
            let Some([least, most]) = hypotheses.rivals(&from, &to) else {
                return Ok(None);
            };
            let value = |share: f64| axis.at(&self.map.lattice.point(&cell_along(&from, &to, share.clamp(0.0, 1.0))));
            let easy = axis.difficulty(value(least)).max(line.low);
            let hard = axis.difficulty(value(most)).min(line.high);
            Ok(Some((hard - easy - line.step(), f64::midpoint(easy, hard))))
        })
    }

    /// A point at the place that is widest, relative to its value, on the axis on which it is narrowest; `None` if none is
    /// wider than `least`. `spread` returns the width of a place on an axis, and the difficulty to probe there.
    fn widest(
        &self,
        places: &[Place],
        least: f64,
        spread: impl Fn(&Place, usize, &Axis, &Line) -> Result<Option<(f64, f64)>, E>,
    ) -> Result<Option<Point>, E> {
        let mut widest = least;
        let mut next = None;
        for place in places {
            let mut narrowest = f64::INFINITY;
            let mut point = None;
            for along in self.map.lattice.free() {
                let axis = &self.map.lattice.axes()[along];
                let line = self.map.line(place, axis)?;
                let Some((width, difficulty)) = spread(place, along, axis, &line)? else {
                    continue;
                };
                let scale = axis.at(&place.point).abs().max((line.hard - line.easy) / NARROW);
                if width / scale < narrowest {
                    narrowest = width / scale;
                    let between = between(axis, &place.point, &line, difficulty);
                    let is_open = self.map.can_be_asked(&between)? && !self.map.is_followed(&between, along)?;
                    point = is_open.then_some(between);
                }
            }
            if narrowest > widest && point.is_some() {
                widest = narrowest;
                next = point;
            }
        }
        Ok(next)
    }

    /// A point on one side of a place on a ray that is drawn at random; `None` if all of these are narrow. The rays are the
    /// same in every search, so that a resumed one continues with them.
    fn drawn(&self) -> Result<Option<Point>, E> {
        let axes = self.map.free_axes();
        let smallest = self.map.smallest();
        let mut random = ChaCha8Rng::seed_from_u64(axes.len() as u64);
        for _ in 0..DRAWN[usize::from(axes.len() > 2)] {
            let mut target = smallest.clone();
            for axis in &axes {
                let (low, high) = axis.ends();
                let share: f64 = random.random();
                let value = match axis.scale() {
                    Scale::Log => low * (high / low).powf(share),
                    Scale::Linear => low + (high - low) * share,
                };
                axis.set(&mut target, axis.in_range(value));
            }
            let Some(place) = self.crossing_along_longest(&smallest, &target)? else {
                continue;
            };
            let (Some(along), Some(axis)) = (place.along, axis_of(self.map, &place)) else {
                continue;
            };
            let within = |axis: &Axis, line: &Line| {
                let share = DRAWN_WITHIN * axis.at(&place.point).abs();
                share.max(line.step()).max(axis.tolerance().unwrap_or(0.0))
            };
            let mut is_narrow = false;
            for axis in &axes {
                let line = self.map.line(&place, axis)?;
                is_narrow = is_narrow || line.fits && line.fails && line.high - line.low <= within(axis, &line);
            }
            if is_narrow {
                continue;
            }
            let line = self.map.line(&place, axis)?;
            let expected = axis.difficulty(axis.at(&place.point));
            let within = within(axis, &line);
            let target = if line.low < expected - within / 2.0 {
                expected - 0.45 * within
            } else {
                expected + 0.45 * within
            };
            let point = between(axis, &place.point, &line, target);
            if self.map.can_be_asked(&point)? && !self.map.is_followed(&point, along)? {
                return Ok(Some(point));
            }
        }
        Ok(None)
    }

    /// A point between the places where the limits differ most, relative to its value, on the axis on which they differ
    /// least; `None` if they hardly differ.
    fn most_unsure(&self) -> Result<Option<Point>, E> {
        if self.map.records().len() >= UNSURE * self.map.free_axes().len() {
            return Ok(None);
        }
        let graded = self.graded(DISAGREE);
        self.widest(&graded.crossings()?, DIFFER, |place, _, axis, _| {
            let width = graded.place(PlaceKind::Ray, &place.point, axis)?.width(axis);
            Ok(width.map(|width| (width, axis.difficulty(axis.at(&place.point)))))
        })
    }
}
