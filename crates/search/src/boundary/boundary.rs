//! The recorded points and what follows from them.
//!
//! A fitting point proves every easier point to fit; a failing point proves every harder point to fail. Where answers
//! contradict each other, failing wins: nothing at or above a failing point is ever called fitting.

use std::collections::HashSet;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dominance::{DominatedSet, maximal};
use super::lattice::{Cell, below, incomparable};
use super::open_region::OpenRegionEstimate;
use super::version_space::VersionSpace;
use super::view::{Change, View, Volume};
use super::{Answer, BoundsReport, Cause, Effect, JsonText, Lattice, Moves, Overload, Point, Record, Scalar, Verdict};
use crate::error::{Error, Result};
use crate::names;

const MOST_POINTS: usize = 1_000_000;

/// Conflicts listed in one answer.
const MOST_CONFLICTS: usize = 1_000;

/// Options of a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whether a point counts as fitting if the engine served it only by preempting or queueing.
    pub overload: Overload,
    /// The share of the fitting volume to prove, 0 to 1.
    pub coverage: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            overload: Overload::default(),
            coverage: 0.95,
        }
    }
}

/// The knowledge about a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It or a harder point fitted, and neither it nor an easier one failed.
    Fits,
    /// It or an easier point failed, even if only once.
    Fails,
    /// The engine's own report rules it or an easier point out, and neither was sent.
    NotSent,
    /// None of these.
    Unknown,
}

names!(Class { Fits "fits", Fails "fails", NotSent "not_sent", Unknown "unknown", });

/// Points that are excluded without having failed, as mirrored cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Exclusions {
    all: Vec<Cell>,
    /// The cells that no fitting cell contradicts.
    pub(super) standing: DominatedSet,
}

impl Exclusions {
    fn add(&mut self, mirrored: Cell, contradicted: bool) -> Change {
        self.all.push(mirrored.clone());
        if contradicted {
            return Change::None;
        }
        self.standing.add(mirrored);
        Change::Rebuild
    }

    /// Drops cells that a fitting cell contradicts: a harder point fits, so the limit has changed since.
    fn reclassify(&mut self, lattice: &Lattice, fits: &DominatedSet) {
        self.standing = DominatedSet::default();
        for mirrored in self.all.iter().filter(|cell| !fits.covers(&lattice.mirror(cell))) {
            self.standing.add(mirrored.clone());
        }
    }
}

/// The recorded points and the conclusions drawn from them.
#[derive(Clone, Debug)]
pub struct Boundary {
    pub(super) lattice: Lattice,
    options: Options,
    records: Vec<Record>,
    report: Option<BoundsReport>,
    pub(super) tested: HashSet<Cell>,
    /// Cells that are being probed.
    pub(super) asked: Vec<Cell>,
    /// Cells that were probed although their answer was already known, to verify it.
    pub(super) verified: HashSet<Cell>,
    /// Every cell that fitted, contradicted or not.
    all_fitting: Vec<Cell>,
    /// Fitting cells that nothing contradicts.
    pub(super) fits: DominatedSet,
    /// Fitting cells at or above a failing cell.
    pub(super) contradicted: Vec<Cell>,
    /// Failing cells, mirrored.
    pub(super) fails: DominatedSet,
    /// Cells that the engine's own report rules out.
    pub(super) ruled_out: Exclusions,
    /// Cells refused for a length limit, or at which memory could not be tested.
    pub(super) clips: Exclusions,
    view: OnceLock<Result<View>>,
    expectations: Expectations,
}

/// Expectations of the hypotheses for the current view, each computed when first needed.
#[derive(Clone, Debug, Default)]
struct Expectations {
    hypotheses: OnceLock<Option<VersionSpace>>,
    open_region: OnceLock<Option<OpenRegionEstimate>>,
    fitting_upper_bound: OnceLock<f64>,
}

impl Boundary {
    /// An empty boundary. `axes` is an object of axes by name (see [`super::Axis::parse`]).
    pub fn new(axes: &Value, options: Options) -> Result<Self> {
        check_coverage(options.coverage)?;
        Ok(Self {
            lattice: Lattice::parse(axes)?,
            options,
            records: Vec::new(),
            report: None,
            tested: HashSet::new(),
            asked: Vec::new(),
            verified: HashSet::new(),
            all_fitting: Vec::new(),
            fits: DominatedSet::default(),
            contradicted: Vec::new(),
            fails: DominatedSet::default(),
            ruled_out: Exclusions::default(),
            clips: Exclusions::default(),
            view: OnceLock::new(),
            expectations: Expectations::default(),
        })
    }

    /// The axes and their range.
    #[must_use]
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// Every recorded point with its answer, in recording order.
    pub fn records(&self) -> impl ExactSizeIterator<Item = (Point, &Record)> {
        self.records
            .iter()
            .map(|record| (self.lattice.named(record.coordinates.iter().copied()), record))
    }

    /// The bounds that the engine reported last, if any.
    #[must_use]
    pub fn report(&self) -> Option<BoundsReport> {
        self.report
    }

    /// The coordinates of every record, in the order of the axes, and its effect on the boundary.
    pub(super) fn recorded_moves(&self) -> impl Iterator<Item = (&[Scalar], Moves)> {
        self.records.iter().map(|record| (&*record.coordinates, record.moves))
    }

    /// Records an answer and returns its effect on the boundary. An answer with `counted` coordinates is recorded at
    /// those, within the search range, and `point` counts as recorded, too.
    pub fn record(&mut self, point: &Point, answer: &Answer) -> Result<Moves> {
        if self.records.len() >= MOST_POINTS {
            return Err(Error::limit("a boundary holds at most 1,000,000 points")
                .hint("record fewer, or spread them over several boundaries"));
        }
        let (_, asked) = self.lattice.cells(point)?;
        self.asked.retain(|cell| *cell != asked);
        let point = &match &answer.counted {
            Some(counted) => self.lattice.counted(point.clone(), counted),
            None => point.clone(),
        };
        let coordinates = self.lattice.coordinates(point)?;
        let (easier, harder) = self.lattice.cells_at(&coordinates)?;
        if self.fits.covers(&harder) || self.fails.covers(&self.lattice.mirror(&easier)) {
            self.verified.insert(harder.clone());
        }
        let moves = match (
            answer.verdict.moves(answer.cause.as_ref(), self.options.overload),
            answer.crash,
        ) {
            (Moves::None, Some(crash)) => crash,
            (moves, _) => moves,
        };
        let untested = answer.crash.is_some() || answer.cause.as_ref().map(Cause::effect) == Some(Effect::Untested);
        let change = match moves {
            Moves::Fits => self.fit(easier),
            Moves::Fails => self.fail(&harder),
            Moves::Bounds => {
                let contradicted = self.fits.covers(&harder);
                self.ruled_out.add(self.lattice.mirror(&harder), contradicted)
            }
            Moves::None if answer.verdict == Verdict::Refused || untested => {
                let contradicted = self.fits.covers(&harder);
                self.clips.add(self.lattice.mirror(&harder), contradicted)
            }
            Moves::None => match self.proven_by_short_output(point, answer)? {
                Some(part) => self.fit(part),
                None => Change::None,
            },
        };
        self.tested.extend([asked, harder]);
        self.report = answer.report.or(self.report);
        self.records.push(Record {
            coordinates,
            verdict: answer.verdict,
            cause: answer.cause.clone(),
            moves,
            evidence: answer.evidence.as_ref().map(JsonText::from),
        });
        self.update(change);
        Ok(moves)
    }

    /// The number of answers since the last fit. The first answer and all answers at the smallest point are skipped:
    /// they say nothing about the quality of the hypotheses.
    pub(super) fn last_failures(&self) -> usize {
        let smallest: Box<[Scalar]> = self.lattice.axes().iter().map(|axis| axis.value(0)).collect();
        let others = self.records.iter().skip(1).rev();
        let others = others.filter(|record| record.coordinates != smallest);
        others.take_while(|record| record.moves != Moves::Fits).count()
    }

    /// Whether this point's cell was recorded, with any answer.
    pub fn recorded(&self, point: &Point) -> Result<bool> {
        let (_, harder) = self.lattice.cells(point)?;
        Ok(self.tested.contains(&harder))
    }

    /// Notes that a point is being probed. Until it is recorded, [`Boundary::refine`] and [`Boundary::best`] return no
    /// point that its answer could decide.
    pub fn ask(&mut self, point: &Point) -> Result<()> {
        let (_, harder) = self.lattice.cells(point)?;
        self.asked.push(harder);
        Ok(())
    }

    /// Notes that no point is being probed. A probe that ended with an error leaves its point behind.
    pub fn forget_asked(&mut self) {
        self.asked.clear();
    }

    /// True if a probe in flight could decide this point: the same point, or one that is comparable to it on every
    /// axis.
    pub fn asked(&self, point: &Point) -> Result<bool> {
        let (_, harder) = self.lattice.cells(point)?;
        Ok(!self.is_independent(&harder))
    }

    /// True if no probe in flight could decide this cell.
    pub(super) fn is_independent(&self, cell: &Cell) -> bool {
        self.asked.iter().all(|other| incomparable(other, cell))
    }

    /// Classifies a point, inside the search range or outside.
    pub fn classify(&self, point: &Point) -> Result<Class> {
        let (easier, harder) = self.lattice.cells(point)?;
        let mirrored = self.lattice.mirror(&easier);
        Ok(if self.fails.covers(&mirrored) {
            Class::Fails
        } else if self.fits.covers(&harder) {
            Class::Fits
        } else if self.ruled_out.standing.covers(&mirrored) {
            Class::NotSent
        } else {
            Class::Unknown
        })
    }

    /// The largest points of the search range that are proven to fit, sorted.
    pub fn frontier(&self) -> Result<Vec<Point>> {
        Ok(self.view()?.fits.iter().map(|cell| self.lattice.point(cell)).collect())
    }

    /// The smallest points of the search range that are proven to fail, sorted.
    pub fn failing(&self) -> Result<Vec<Point>> {
        Ok(self.view()?.fails.iter().map(|cell| self.lattice.point(cell)).collect())
    }

    /// The smallest points of the search range that are proven to fail or that the engine's report rules out, sorted.
    pub fn bounding(&self) -> Result<Vec<Point>> {
        Ok(self
            .view()?
            .bounding
            .iter()
            .map(|cell| self.lattice.point(cell))
            .collect())
    }

    /// The smallest points that a length limit excludes, or beyond which memory cannot be tested, sorted.
    #[must_use]
    pub fn clipped(&self) -> Vec<Point> {
        let clips = self.clips.standing.cells();
        self.points_from_mirrored(&maximal(clips.filter_map(|cell| self.lattice.clamp(cell)).collect()))
    }

    /// The hardest point at which memory could not be tested, unless other answers decide it.
    #[must_use]
    pub fn untested(&self) -> Option<(Point, &Record)> {
        let untested = self
            .records()
            .filter(|(point, record)| record.is_untested() && matches!(self.classify(point), Ok(Class::Unknown)));
        untested.max_by_key(|(point, _)| (point.int("concurrency"), point.int("input"), point.int("output")))
    }

    /// Pairs of a fitting point and a minimal failing point at or below it, sorted. No monotone limit allows both. At
    /// most 1,000.
    #[must_use]
    pub fn conflicts(&self) -> Vec<(Point, Point)> {
        let mut fits = self.contradicted.clone();
        fits.sort_unstable();
        fits.dedup();
        let fails = maximal(self.fails.cells().cloned().collect());
        let pairs = fits.iter().flat_map(|fit| {
            let mirrored = self.lattice.mirror(fit);
            let below_it = fails.iter().rev().filter(move |fail| below(&mirrored, fail));
            below_it.map(|fail| (self.lattice.point(fit), self.lattice.point(&self.lattice.mirror(fail))))
        });
        pairs.take(MOST_CONFLICTS).collect()
    }

    /// How the search range divides, in lattice points.
    pub fn volume(&self) -> Result<Volume> {
        Ok(self.view()?.volume)
    }

    /// A lower estimate of the share of the fitting volume that is proven, 0 to 1.
    ///
    /// The part of the open volume that fits is bounded from above by what the hypotheses admit at 95 % confidence.
    /// All hypotheses may be wrong, even if they agree with n maximal fitting and minimal failing cells. So the bound
    /// is at least 2/(n + 2) of the estimate without hypotheses (twice what Laplace's rule of succession gives).
    pub fn coverage(&self) -> Result<f64> {
        let view = self.view()?;
        if view.volume.open == 0 {
            return Ok(1.0);
        }
        let Some(most) = self.fitting_upper_bound()? else {
            return Ok(view.coverage());
        };
        let (fits, without) = (view.volume.fits as f64, view.may_fit());
        let doubt = 2.0 / (view.fits.len() + view.excluded.len() + 2) as f64;
        let may_fit = most.clamp(without * doubt, without);
        Ok(fits / (fits + may_fit))
    }

    /// Whether [`Boundary::coverage`] is at least this much. Cheaper than computing the coverage while it is far below.
    pub(super) fn has_coverage(&self, coverage: f64) -> Result<bool> {
        let view = self.view()?;
        if view.volume.open > 0
            && let Some(open_region) = self.open_region()?
        {
            let fits = view.volume.fits as f64;
            if fits / (fits + open_region.fitting() / 2.0) < coverage {
                return Ok(false);
            }
        }
        Ok(self.coverage()? >= coverage)
    }

    pub(super) fn view(&self) -> Result<&View> {
        self.view
            .get_or_init(|| {
                let (ruled_out, clips) = (&self.ruled_out.standing, &self.clips.standing);
                View::new(&self.lattice, &self.fits, &self.fails, ruled_out, clips)
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Whether a cell fails, is ruled out by the engine's report, or lies beyond a length limit.
    pub(super) fn is_excluded(&self, cell: &[i64]) -> bool {
        let mirrored = self.lattice.mirror(cell);
        let excluded = [&self.fails, &self.ruled_out.standing, &self.clips.standing];
        excluded.iter().any(|cells| cells.covers(&mirrored))
    }

    /// Memory limits that agree with everything proven; `None` if there are none.
    pub(super) fn hypotheses(&self) -> Result<Option<&VersionSpace>> {
        let view = self.view()?;
        let find = || {
            VersionSpace::new(
                &self.lattice,
                &view.fits,
                &view.excluded,
                true,
                self.report().and_then(|report| report.block),
            )
        };
        Ok(self.expectations.hypotheses.get_or_init(find).as_ref())
    }

    /// The estimate for the open region; `None` without hypotheses.
    pub(super) fn open_region(&self) -> Result<Option<&OpenRegionEstimate>> {
        let (view, hypotheses) = (self.view()?, self.hypotheses()?);
        let estimate = || hypotheses.map(|hypotheses| OpenRegionEstimate::new(self, hypotheses, view));
        Ok(self.expectations.open_region.get_or_init(estimate).as_ref())
    }

    /// The most open volume that fits at 95 % confidence; `None` without hypotheses.
    fn fitting_upper_bound(&self) -> Result<Option<f64>> {
        let (Some(hypotheses), Some(open_region)) = (self.hypotheses()?, self.open_region()?) else {
            return Ok(None);
        };
        let view = self.view()?;
        let bound = || open_region.fitting_upper_bound(self, hypotheses, view);
        Ok(Some(*self.expectations.fitting_upper_bound.get_or_init(bound)))
    }

    /// Updates the cached view if there is one. Otherwise the view is derived when needed.
    fn update(&mut self, change: Change) {
        if matches!(change, Change::None) {
            return;
        }
        self.expectations = Expectations::default();
        if let Some(Ok(mut view)) = self.view.take()
            && view.update(&self.lattice, change)
        {
            self.view = OnceLock::from(Ok(view));
        }
    }

    fn fit(&mut self, cell: Cell) -> Change {
        self.all_fitting.push(cell.clone());
        let mirrored = self.lattice.mirror(&cell);
        if self.fails.covers(&mirrored) {
            self.contradicted.push(cell);
            return Change::None;
        }
        self.fits.add(cell.clone());
        if self.ruled_out.standing.covers(&mirrored) || self.clips.standing.covers(&mirrored) {
            self.reclassify_exclusions();
            return Change::Rebuild;
        }
        Change::Fits(cell)
    }

    fn fail(&mut self, cell: &Cell) -> Change {
        self.fails.add(self.lattice.mirror(cell));
        if self.fits.covers(cell) {
            self.reclassify_fits();
            self.reclassify_exclusions();
            return Change::Rebuild;
        }
        Change::Fails(cell.clone())
    }

    /// Re-divides the fitting cells after a failing cell that contradicts some of them.
    fn reclassify_fits(&mut self) {
        self.fits = DominatedSet::default();
        self.contradicted.clear();
        for cell in &self.all_fitting {
            if self.fails.covers(&self.lattice.mirror(cell)) {
                self.contradicted.push(cell.clone());
            } else {
                self.fits.add(cell.clone());
            }
        }
    }

    fn reclassify_exclusions(&mut self) {
        self.ruled_out.reclassify(&self.lattice, &self.fits);
        self.clips.reclassify(&self.lattice, &self.fits);
    }

    /// The cell that a short output proves: the probed point with the output that was produced.
    fn proven_by_short_output(&self, point: &Point, answer: &Answer) -> Result<Option<Cell>> {
        let (Verdict::ShortOutput, Some(output)) = (answer.verdict, answer.output) else {
            return Ok(None);
        };
        let requested = point.0.get("output").copied();
        if output <= 0 || requested.is_none_or(|requested| requested.as_f64() <= output as f64) {
            return Ok(None);
        }
        let part = point.clone().with("output", output);
        Ok(Some(self.lattice.cells(&part)?.0))
    }

    fn points_from_mirrored(&self, cells: &[Cell]) -> Vec<Point> {
        let mut cells: Vec<Cell> = cells.iter().map(|cell| self.lattice.mirror(cell)).collect();
        cells.sort_unstable();
        cells.iter().map(|cell| self.lattice.point(cell)).collect()
    }
}

/// Rejects a coverage that is not a share.
pub(super) fn check_coverage(coverage: f64) -> Result<()> {
    if (0.0..=1.0).contains(&coverage) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "option `coverage`: {coverage} is not between 0 and 1"
    )))
}
