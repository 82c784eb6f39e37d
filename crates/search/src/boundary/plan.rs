//! For two free axes: the fewest corners that prove the coverage if the boundary runs where half of the hypotheses
//! expect it.
//!
//! Repeatedly probing the point that adds most halves every gap. That takes more corners than a staircase planned as a
//! whole. The best staircase with k corners follows from the best ones with k - 1 (dynamic programming).

use super::lattice::{Cell, cell_along, evenly_spaced};
use super::version_space::VersionSpace;
use super::view::View;

/// Columns across the range, and rows up to the top.
const COLUMNS: i64 = 48;
const MAX_CORNERS: usize = 48;
/// How many proven points of each side, fitting and failing, get a column of their own.
const MAX_PROVEN: usize = 128;
/// Corners that the plan returns as lines.
const MAX_GIVEN: usize = 10;

/// A value of the first axis. It represents the values after the previous column.
struct Column {
    at: i64,
    width: f64,
    /// Cells proven to fit.
    proven: f64,
    /// Cells expected to fit.
    expected: f64,
}

/// The corners to probe.
pub(super) struct Plan {
    /// Lines along the second axis on which corners lie, from the easiest cell to the hardest: an evenly spaced
    /// selection.
    pub(super) lines: Vec<(Cell, Cell)>,
    /// The volume that the last corner adds. Candidates that add at least this much count as equally good, however much
    /// more some add: each of them saves one probe.
    pub(super) least: f64,
}

impl Plan {
    /// A plan for two free axes. `missing` returns the volume still to prove, given the total volume expected to fit.
    pub(super) fn new(
        hypotheses: &VersionSpace,
        view: &View,
        [first, second]: [usize; 2],
        last: &Cell,
        missing: impl Fn(f64) -> f64,
    ) -> Self {
        let line = |axis: usize, at: i64| {
            let (mut from, mut to) = (vec![0; last.len()], last.clone());
            (from[axis], to[axis]) = (at, at);
            (from, to)
        };
        // How far half of the hypotheses reach on a line; -1 for not at all.
        let middle = |axis: usize, at: i64| {
            let (from, to) = line(axis, at);
            let [half] = hypotheses.reaches(&from, &to, &[], [0.5]);
            let reached = cell_along(&from, &to, half)[first + second - axis];
            if half < 0.0 { -1 } else { reached }
        };
        let farthest = |axis: usize| view.fits.iter().map(|fit| fit[axis]).max().unwrap_or(0);
        let (right, top) = (
            middle(second, 0).max(farthest(first)),
            middle(first, 0).max(farthest(second)),
        );
        let mut places: Vec<i64> = (0..=COLUMNS).map(|step| right * step / COLUMNS).collect();
        places.extend((0..COLUMNS).map(|step| middle(second, top * step / COLUMNS)));
        places.extend(evenly_spaced(&view.fits, MAX_PROVEN).map(|fit| fit[first]));
        places.extend(evenly_spaced(&view.excluded, MAX_PROVEN).map(|fail| fail[first] - 1));
        places.retain(|place| (0..=right).contains(place));
        places.sort_unstable();
        places.dedup();
        let mut before = -1;
        let column = |at: i64| {
            let fits = view
                .fits
                .iter()
                .filter(|fit| fit[first] >= at)
                .map(|fit| fit[second] + 1);
            let fails = view
                .excluded
                .iter()
                .filter(|fail| fail[first] <= at)
                .map(|fail| fail[second]);
            let proven = fits.max().unwrap_or(0);
            let expected = (middle(first, at) + 1).min(fails.min().unwrap_or(i64::MAX)).max(proven);
            let width = (at - before) as f64;
            before = at;
            Column {
                at,
                width,
                proven: proven as f64,
                expected: expected as f64,
            }
        };
        let columns: Vec<Column> = places.into_iter().map(column).collect();
        let mut all = 0.0;
        let mut height = columns.first().map_or(0.0, |column| column.expected);
        for column in &columns {
            // The expected height falls linearly between two columns.
            all += column.width * column.expected + (column.width - 1.0) * (height - column.expected).max(0.0) / 2.0;
            height = column.expected;
        }
        let (corners, least) = corners(&columns, missing(all));
        let given = corners.len().min(MAX_GIVEN);
        let lines = (0..given)
            .map(|index| line(first, corners[index * corners.len() / given]))
            .collect();
        // With two corners or fewer left, the search is nearly done, so nothing is capped.
        let least = if corners.len() > 2 {
            least.max(1.0)
        } else {
            f64::INFINITY
        };
        Self { lines, least }
    }
}

/// The fewest corners that add the missing volume to the proven one, or come closest to it, and the volume that the
/// last of them adds.
fn corners(columns: &[Column], missing: f64) -> (Vec<i64>, f64) {
    let open: Vec<&Column> = columns
        .iter()
        .filter(|column| column.expected > column.proven)
        .collect();
    // The volume that a corner adds over the columns from each one on.
    let added = |corner: usize| {
        let mut sum = 0.0;
        let add = |column: usize| {
            sum += open[column].width * (open[corner].expected - open[column].proven).max(0.0);
            sum
        };
        let mut from: Vec<f64> = (0..=corner).rev().map(add).collect();
        from.reverse();
        from
    };
    let added: Vec<Vec<f64>> = (0..open.len()).map(added).collect();
    let best = |round: &[(f64, Option<usize>)]| {
        let areas = round.iter().enumerate().map(|(corner, (area, _))| (*area, corner));
        areas.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    // By number of corners, then by the last corner: the largest volume that they add, and the previous corner.
    let mut rounds: Vec<Vec<(f64, Option<usize>)>> = Vec::new();
    let mut areas = vec![0.0];
    while rounds.len() < MAX_CORNERS && areas[rounds.len()] < missing {
        let extended = added.iter().map(|from| {
            let further = rounds
                .last()
                .into_iter()
                .flat_map(|before: &Vec<(f64, Option<usize>)>| {
                    let pairs = before.iter().zip(&from[1..]).enumerate();
                    pairs.map(|(corner, ((area, _), more))| (area + more, Some(corner)))
                });
            further.fold((from[0], None), |best, one| if one.0 > best.0 { one } else { best })
        });
        let round: Vec<_> = extended.collect();
        let Some((area, _)) = best(&round).filter(|(area, _)| *area > areas[rounds.len()]) else {
            break;
        };
        areas.push(area);
        rounds.push(round);
    }
    let mut chosen = Vec::new();
    let mut at = rounds.last().and_then(|round| best(round)).map(|(_, corner)| corner);
    for round in rounds.iter().rev() {
        let Some(corner) = at else { break };
        chosen.push(open[corner].at);
        at = round[corner].1;
    }
    chosen.reverse();
    let least = areas.last().copied().unwrap_or(0.0) - areas.iter().rev().nth(1).copied().unwrap_or(0.0);
    (chosen, least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_fewer_corners_add_as_much(
            steps in prop::collection::vec((1i64..5, 0i64..8), 1..9),
            proven in 0i64..12,
            share in 0.1..1.0f64,
        ) {
            let (mut at, mut height) = (0, 2 + steps.iter().map(|(_, fall)| fall).sum::<i64>());
            let columns: Vec<Column> = steps.iter().map(|(width, fall)| {
                (at, height) = (at + width, height - fall);
                Column { at, width: *width as f64, proven: height.min(proven) as f64, expected: height as f64 }
            }).collect();
            let added = |chosen: &[i64]| -> f64 {
                let gain = |column: &Column| {
                    let right = columns.iter().filter(|one| one.at >= column.at && chosen.contains(&one.at));
                    right.map(|one| one.expected - column.proven).fold(0.0, f64::max) * column.width
                };
                columns.iter().map(gain).sum()
            };
            let places: Vec<i64> = columns.iter().map(|column| column.at).collect();
            let missing = share * added(&places);
            let (chosen, _) = corners(&columns, missing);
            prop_assert!(added(&chosen) >= missing - 1e-9);
            for subset in 0..1usize << places.len() {
                let some: Vec<i64> = (0..places.len()).filter(|index| subset >> index & 1 == 1).map(|index| places[index]).collect();
                prop_assert!(some.len() >= chosen.len() || added(&some) < missing, "{:?} for {:?}", some, chosen);
            }
        }
    }
}
