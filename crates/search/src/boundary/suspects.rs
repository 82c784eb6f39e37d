//! Answers that may be wrong: one without which some family of limits agrees with all others is asked for again.
//!
//! A single wrong answer makes every family disagree, and the search closes in on a point that nothing else supports. It
//! is not corrected: if the second answer differs, the point becomes a band.

use super::dominance::maximal;
use super::lattice::Cell;
use super::predict::LIKELY;
use super::version_space::{Agreement, VersionSpace};
use super::{Boundary, Moves, Point};
use crate::error::Result;

/// While no family agrees, one answer in so many looks for a suspect.
const EVERY: usize = 3;

/// At most this many points are asked again because they are suspects.
const MOST: usize = 3;

/// The others give an answer that is a suspect less than this chance.
const UNLIKELY: f64 = 0.25;

/// How well classifiers predict the answers next to the limit, each of them from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrossValidation {
    /// The answers that were predicted.
    pub answers: usize,
    /// Those that were predicted wrongly.
    pub wrong: usize,
}

impl Boundary {
    /// The point of a single answer without which some family agrees with all others, and which that family does not
    /// expect; `None` if some family agrees with all answers, or if there is no such point.
    ///
    /// # Errors
    ///
    /// `limit` for a boundary with too many corners.
    pub fn suspect(&self) -> Result<Option<Point>> {
        let answers = self.records().len();
        let agreement = self.hypotheses()?.map(|hypotheses| hypotheses.agreement);
        let agrees = matches!(agreement, Some(Agreement::Exact | Agreement::Nearly));
        if agrees || !answers.is_multiple_of(EVERY) {
            return Ok(None);
        }
        let cells = self.answered_cells()?;
        let is_repeated = |cell: &Cell| cells.iter().filter(|(other, _)| other == cell).count() > 1;
        let mut repeated: Vec<&Cell> = cells
            .iter()
            .map(|(cell, _)| cell)
            .filter(|cell| is_repeated(cell))
            .collect();
        repeated.sort_unstable();
        repeated.dedup();
        if repeated.len() >= MOST {
            return Ok(None);
        }
        let view = self.view()?;
        let mut suspect = (UNLIKELY, None);
        for (cell, moves) in &cells {
            let is_edge = match moves {
                Moves::Fits => view.fits.contains(cell),
                _ => view.fails.contains(cell),
            };
            if !is_edge || repeated.contains(&cell) {
                continue;
            }
            let [fits, fails] = self.without(&cells, cell);
            let block = self.report().and_then(|report| report.block);
            let Some(without) = VersionSpace::new(&self.lattice, &fits, &fails, true, block) else {
                continue;
            };
            if without.agreement != Agreement::Exact {
                continue;
            }
            let share = without.share(without.votes(cell));
            let chance = if *moves == Moves::Fits { share } else { 1.0 - share };
            if chance < suspect.0 {
                suspect = (chance, Some(cell.clone()));
            }
        }
        Ok(suspect.1.map(|cell| self.lattice.point(&cell)))
    }

    /// Whether no family of limits agrees with the answers, and classifiers draw the prediction. Such a search is
    /// expected to go on until its coverage is proven or its budget is spent.
    ///
    /// # Errors
    ///
    /// `limit` for a boundary with too many corners.
    pub fn is_classified(&self) -> Result<bool> {
        let hypotheses = self.hypotheses()?;
        Ok(hypotheses.is_some_and(|hypotheses| hypotheses.agreement == Agreement::Classified))
    }

    /// Where no family agrees and classifiers draw the prediction: each answer next to the limit, predicted from the others.
    /// `None` if a family agrees.
    ///
    /// # Errors
    ///
    /// `limit` for a boundary with too many corners.
    pub fn cross_validation(&self) -> Result<Option<CrossValidation>> {
        if !self.is_classified()? {
            return Ok(None);
        }
        let cells = self.answered_cells()?;
        let view = self.view()?;
        let mut found = CrossValidation::default();
        for (cell, moves) in &cells {
            let fits = *moves == Moves::Fits;
            if !(if fits { &view.fits } else { &view.fails }).contains(cell) {
                continue;
            }
            let [fitting, failing] = self.without(&cells, cell);
            let Some(classifiers) = VersionSpace::of_classifiers(&self.lattice, &fitting, &failing) else {
                continue;
            };
            found.answers += 1;
            let predicted = classifiers.share(classifiers.votes(cell)) >= LIKELY;
            found.wrong += usize::from(predicted != fits);
        }
        Ok((found.answers > 0).then_some(found))
    }

    /// The hardest fitting and the easiest failing cells of all answers but those for one cell.
    fn without(&self, cells: &[(Cell, Moves)], cell: &Cell) -> [Vec<Cell>; 2] {
        let others = |wanted: Moves| {
            cells
                .iter()
                .filter(move |(other, moves)| other != cell && *moves == wanted)
        };
        let fits = maximal(others(Moves::Fits).map(|(cell, _)| cell.clone()).collect());
        let fails = maximal(
            others(Moves::Fails)
                .map(|(cell, _)| self.lattice.mirror(cell))
                .collect(),
        );
        [fits, fails.iter().map(|cell| self.lattice.mirror(cell)).collect()]
    }

    /// The cells inside the search range that fitted or failed, in recording order.
    fn answered_cells(&self) -> Result<Vec<(Cell, Moves)>> {
        let mut cells = Vec::new();
        for (coordinates, moves) in self.recorded_moves() {
            let (easier, harder) = self.lattice.cells_at(coordinates)?;
            let inside = match moves {
                Moves::Fits => self.lattice.clamp(&easier),
                Moves::Fails => self
                    .lattice
                    .clamp(&self.lattice.mirror(&harder))
                    .map(|cell| self.lattice.mirror(&cell)),
                Moves::Bounds | Moves::None => None,
            };
            cells.extend(inside.map(|cell| (cell, moves)));
        }
        Ok(cells)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Options, Verdict};
    use super::*;
    use serde_json::json;

    fn point(input: i64, output: i64) -> Point {
        Point::default().with("input", input).with("output", output)
    }

    /// Answers for input + output ≤ 2,000, of which one is wrong.
    fn answered(wrong: Option<Point>) -> Boundary {
        let mut map = Boundary::new(&json!({ "input": [1, 4000], "output": [1, 4000] }), Options::default()).unwrap();
        let fits = [(1950, 1), (1850, 100), (1800, 150), (1000, 950), (500, 1450), (1, 1960)];
        let fails = [(2050, 1), (1700, 350), (1000, 1060), (500, 1550), (1, 2060)];
        let points = fits
            .into_iter()
            .chain(fails)
            .map(|(input, output)| point(input, output));
        let more = wrong.clone().unwrap_or(point(1500, 450));
        for at in points.chain([more]) {
            let fits = (at.int("input").unwrap() + at.int("output").unwrap() <= 2000) != (Some(&at) == wrong.as_ref());
            let verdict = if fits { Verdict::Ok } else { Verdict::Oom };
            map.record(&at, &Answer::from(verdict)).unwrap();
        }
        map
    }

    #[test]
    fn the_answer_without_which_the_others_agree_is_a_suspect() {
        let wrong = point(1500, 200);
        let mut map = answered(Some(wrong.clone()));
        assert_eq!(map.suspect().unwrap(), Some(wrong.clone()));
        for _ in 0..EVERY {
            map.record(&wrong, &Answer::from(Verdict::Ok)).unwrap();
        }
        assert_eq!(map.suspect().unwrap(), None, "it was asked again");
    }

    #[test]
    fn answers_that_agree_have_no_suspect() {
        let map = answered(None);
        assert_eq!(map.suspect().unwrap(), None);
        assert_eq!(map.cross_validation().unwrap(), None, "no classifier is needed");
    }

    #[test]
    fn a_classifier_is_tested_on_answers_that_it_does_not_know() {
        // Steps that no family has: some answer is always wrong by the others.
        let steps = [
            (1_500, 8_000),
            (2_600, 6_500),
            (5_200, 6_300),
            (6_100, 3_000),
            (9_000, 2_700),
            (12_000, 900),
        ];
        let last = |input: i64| steps.iter().find(|(end, _)| input < *end).unwrap().1;
        let mut map = Boundary::new(&json!({ "input": [1, 12000], "output": [1, 9000] }), Options::default()).unwrap();
        for input in (0..24).map(|step| 400 + 400 * step) {
            for (output, verdict) in [(last(input) - 40, Verdict::Ok), (last(input) + 40, Verdict::Oom)] {
                map.record(&point(input, output), &Answer::from(verdict)).unwrap();
            }
        }
        let found = map.cross_validation().unwrap().unwrap();
        assert!(found.answers >= 8, "{found:?}");
        assert!((1..found.answers).contains(&found.wrong), "{found:?}");
    }
}
