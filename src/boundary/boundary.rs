//! What is known of where points stop fitting: the recorded points and what follows from them.
//!
//! Fitting points cast a shadow towards the easier end of the box, failing ones towards the harder end. Where answers
//! contradict each other, failing wins: nothing at or above a failing point is ever called fitting.

use std::collections::HashSet;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::guess::Guess;
use super::lattice::{Cell, below};
use super::record::Record;
use super::shadow::{Shadow, largest};
use super::view::{Change, View, Volume};
use super::{Answer, Lattice, Moves, Overload, Point, Scalar, Verdict};
use crate::fault::{Fault, Kind, Result};

/// Points that one boundary holds.
const MOST_POINTS: usize = 1_000_000;

/// Conflicts listed in one answer.
const MOST_CONFLICTS: usize = 1_000;

/// Options of a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whether what the engine served only by preempting or queueing fits.
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

/// What is proven of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It, or a harder point, was seen to fit, and neither it nor an easier one to fail.
    Fits,
    /// It, or an easier point, was seen to fail, if only once of several times.
    Fails,
    /// Neither.
    Unknown,
}

impl Class {
    /// The name in scripts and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Fits => "fits",
            Class::Fails => "fails",
            Class::Unknown => "unknown",
        }
    }
}

/// The recorded points and what follows from them.
#[derive(Debug)]
pub struct Boundary {
    pub(super) lattice: Lattice,
    options: Options,
    records: Vec<Record>,
    pub(super) seen: HashSet<Cell>,
    /// Those of them that were asked though their answer was known: to see whether it holds.
    pub(super) looked: HashSet<Cell>,
    /// Every cell that was seen to fit, contradicted or not.
    fitting: Vec<Cell>,
    /// Those of them that nothing contradicts.
    pub(super) fits: Shadow,
    /// The others: at or above a failing cell.
    pub(super) contradicted: Vec<Cell>,
    /// Mirrored.
    pub(super) fails: Shadow,
    /// Every cell refused for a length limit, mirrored.
    refused: Vec<Cell>,
    /// Those of them that no fitting cell contradicts.
    pub(super) clips: Shadow,
    view: OnceLock<Result<View>>,
}

impl Boundary {
    /// A boundary of which nothing is known; `axes` is an object of axes by name (see [`super::Axis::parse`]).
    pub fn new(axes: &Value, options: Options) -> Result<Self> {
        if !(0.0..=1.0).contains(&options.coverage) {
            return Err(Fault::usage(format!(
                "option `coverage`: {} is not between 0 and 1",
                options.coverage
            )));
        }
        Ok(Self {
            lattice: Lattice::parse(axes)?,
            options,
            records: Vec::new(),
            seen: HashSet::new(),
            looked: HashSet::new(),
            fitting: Vec::new(),
            fits: Shadow::default(),
            contradicted: Vec::new(),
            fails: Shadow::default(),
            refused: Vec::new(),
            clips: Shadow::default(),
            view: OnceLock::new(),
        })
    }

    /// Its axes and their box.
    #[must_use]
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// Its options.
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

    /// The coordinates of every record, in the order of the axes, and what it says.
    pub(super) fn recorded_moves(&self) -> impl Iterator<Item = (&[Scalar], Moves)> {
        self.records.iter().map(|record| (&*record.coordinates, record.moves))
    }

    /// Records an answer and tells what it says about the boundary.
    pub fn record(&mut self, point: &Point, answer: &Answer) -> Result<Moves> {
        if self.records.len() >= MOST_POINTS {
            return Err(Fault::new(Kind::Limit, "a boundary holds at most 1,000,000 points")
                .hint("record fewer, or spread them over several boundaries"));
        }
        let coordinates = self.lattice.coordinates(point)?;
        let (easier, harder) = self.lattice.cells(&coordinates)?;
        if self.fits.covers(&harder) || self.fails.covers(&self.lattice.mirror(&easier)) {
            self.looked.insert(harder.clone());
        }
        let moves = answer.verdict.moves(answer.cause.as_deref(), self.options.overload);
        let change = match moves {
            Moves::Fits => self.fit(easier),
            Moves::Fails => self.fail(&harder),
            Moves::None if answer.verdict == Verdict::Refused => self.clip(&harder),
            Moves::None => match self.produced(point, answer)? {
                Some(part) => self.fit(part),
                None => Change::None,
            },
        };
        self.seen.insert(harder);
        self.records.push(Record {
            coordinates,
            verdict: answer.verdict,
            cause: answer.cause.as_deref().map(Into::into),
            moves,
            evidence: answer.evidence.clone().map(Box::new),
        });
        self.follow(change);
        Ok(moves)
    }

    /// How many of the last answers failed, or said nothing, since one fitted.
    pub(super) fn last_failures(&self) -> usize {
        let since = self.records.iter().rev();
        since.take_while(|record| record.moves != Moves::Fits).count()
    }

    /// Whether a point of this cell was recorded, whatever its answer.
    pub fn recorded(&self, point: &Point) -> Result<bool> {
        let (_, harder) = self.lattice.cells(&self.lattice.coordinates(point)?)?;
        Ok(self.seen.contains(&harder))
    }

    /// What is proven of a point, inside the box or outside.
    pub fn classify(&self, point: &Point) -> Result<Class> {
        let (easier, harder) = self.lattice.cells(&self.lattice.coordinates(point)?)?;
        Ok(if self.fails.covers(&self.lattice.mirror(&easier)) {
            Class::Fails
        } else if self.fits.covers(&harder) {
            Class::Fits
        } else {
            Class::Unknown
        })
    }

    /// The largest points of the box that are known to fit, sorted.
    pub fn frontier(&self) -> Result<Vec<Point>> {
        Ok(self.view()?.fits.iter().map(|cell| self.lattice.point(cell)).collect())
    }

    /// The smallest points of the box that are known to fail, sorted.
    pub fn failing(&self) -> Result<Vec<Point>> {
        Ok(self.view()?.fails.iter().map(|cell| self.lattice.point(cell)).collect())
    }

    /// The smallest points that a length limit keeps out of reach, sorted.
    #[must_use]
    pub fn clipped(&self) -> Vec<Point> {
        self.unmirrored(&largest(
            self.clips.cells().filter_map(|cell| self.lattice.clamp(cell)).collect(),
        ))
    }

    /// Pairs of a fitting point and a smallest failing one at or below it, sorted: answers that no monotone limit can give.
    /// At most a thousand.
    #[must_use]
    pub fn conflicts(&self) -> Vec<(Point, Point)> {
        let mut fits = self.contradicted.clone();
        fits.sort_unstable();
        fits.dedup();
        let fails = largest(self.fails.cells().cloned().collect());
        let pairs = fits.iter().flat_map(|fit| {
            let mirrored = self.lattice.mirror(fit);
            let below_it = fails.iter().rev().filter(move |fail| below(&mirrored, fail));
            below_it.map(|fail| (self.lattice.point(fit), self.lattice.point(&self.lattice.mirror(fail))))
        });
        pairs.take(MOST_CONFLICTS).collect()
    }

    /// How the box divides, in lattice points.
    pub fn volume(&self) -> Result<Volume> {
        Ok(self.view()?.volume)
    }

    /// The share of the fitting volume that is proven, 0 to 1, as far as it can be known while points are open: see DESIGN.
    ///
    /// How much of the open volume fits is estimated from above: by what the limits of the guess admit at 95 % confidence. A guess
    /// may be wrong, though it agrees with n largest fitting and smallest failing cells: no less counts than 2/(n + 2) of what
    /// counts without a guess (twice what Laplace's rule of succession gives).
    pub fn coverage(&self) -> Result<f64> {
        let view = self.view()?;
        if view.volume.open == 0 {
            return Ok(1.0);
        }
        let Some(most) = self.most_fitting()? else {
            return Ok(view.coverage());
        };
        let (fits, without) = (view.volume.fits as f64, view.may_fit());
        let doubt = 2.0 / (view.fits.len() + view.walls.len() + 2) as f64;
        let may_fit = most.clamp(without * doubt, without);
        Ok(fits / (fits + may_fit))
    }

    /// Whether [`Boundary::coverage`] has come so far: told in less time as long as it is far from it.
    pub(super) fn covers(&self, coverage: f64) -> Result<bool> {
        let view = self.view()?;
        if view.volume.open > 0
            && let Some(outlook) = self.outlook()?
        {
            let fits = view.volume.fits as f64;
            if fits / (fits + outlook.fitting() / 2.0) < coverage {
                return Ok(false);
            }
        }
        Ok(self.coverage()? >= coverage)
    }

    pub(super) fn view(&self) -> Result<&View> {
        self.view
            .get_or_init(|| View::new(&self.lattice, &self.fits, &self.fails, &self.clips))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Whether a cell fails, or lies beyond a length limit.
    pub(super) fn shut(&self, cell: &[i64]) -> bool {
        let mirrored = self.lattice.mirror(cell);
        self.fails.covers(&mirrored) || self.clips.covers(&mirrored)
    }

    /// Where the boundary may run, if limits of memory agree with what is proven.
    pub(super) fn guess(&self) -> Result<Option<&Guess>> {
        let view = self.view()?;
        let guess = || Guess::new(&self.lattice, &view.fits, &view.walls);
        Ok(view.guess.get_or_init(guess).as_ref())
    }

    /// Brings the view up to date where it was looked at since the last change; otherwise it is derived when it is looked at.
    fn follow(&mut self, change: Change) {
        if matches!(change, Change::None) {
            return;
        }
        if let Some(Ok(mut view)) = self.view.take()
            && view.follow(&self.lattice, change)
        {
            self.view = OnceLock::from(Ok(view));
        }
    }

    fn fit(&mut self, cell: Cell) -> Change {
        self.fitting.push(cell.clone());
        let mirrored = self.lattice.mirror(&cell);
        if self.fails.covers(&mirrored) {
            self.contradicted.push(cell);
            return Change::None;
        }
        self.fits.add(cell.clone());
        if self.clips.covers(&mirrored) {
            self.sort_clips();
            return Change::Other;
        }
        Change::Fits(cell)
    }

    fn fail(&mut self, cell: &Cell) -> Change {
        self.fails.add(self.lattice.mirror(cell));
        if self.fits.covers(cell) {
            self.sort_fits();
            self.sort_clips();
            return Change::Other;
        }
        Change::Fails(cell.clone())
    }

    fn clip(&mut self, cell: &[i64]) -> Change {
        let mirrored = self.lattice.mirror(cell);
        self.refused.push(mirrored.clone());
        if self.fits.covers(cell) {
            return Change::None;
        }
        self.clips.add(mirrored);
        Change::Other
    }

    /// Divides the fitting cells anew, after a failing one that contradicts some.
    fn sort_fits(&mut self) {
        self.fits = Shadow::default();
        self.contradicted.clear();
        for cell in &self.fitting {
            if self.fails.covers(&self.lattice.mirror(cell)) {
                self.contradicted.push(cell.clone());
            } else {
                self.fits.add(cell.clone());
            }
        }
    }

    /// Keeps the length limits that no fitting cell contradicts: where a harder point fits, the limit was another one then.
    fn sort_clips(&mut self) {
        self.clips = Shadow::default();
        for mirrored in &self.refused {
            if !self.fits.covers(&self.lattice.mirror(mirrored)) {
                self.clips.add(mirrored.clone());
            }
        }
    }

    /// The cell that a short output proves: the asked point, its output as long as was produced.
    fn produced(&self, point: &Point, answer: &Answer) -> Result<Option<Cell>> {
        let (Verdict::ShortOutput, Some(output)) = (answer.verdict, answer.output) else {
            return Ok(None);
        };
        let asked = point.0.get("output").copied();
        if output <= 0 || asked.is_none_or(|asked| asked.as_f64() <= output as f64) {
            return Ok(None);
        }
        let part = point.clone().with("output", output);
        Ok(Some(self.lattice.cells(&self.lattice.coordinates(&part)?)?.0))
    }

    fn unmirrored(&self, cells: &[Cell]) -> Vec<Point> {
        let mut cells: Vec<Cell> = cells.iter().map(|cell| self.lattice.mirror(cell)).collect();
        cells.sort_unstable();
        cells.iter().map(|cell| self.lattice.point(cell)).collect()
    }
}
