//! Non-negative least squares for few columns: the active-set method of Lawson and Hanson ("Solving Least Squares
//! Problems", 1974, chapter 23).
//!
//! Columns are scaled to a largest entry of 1 first, because bytes and tokens differ by orders of magnitude.

#![allow(clippy::needless_range_loop, reason = "matrices are indexed by row and column")]

pub(crate) const COLUMNS: usize = 4;

/// The features of one sample; zero for a column that is left out.
pub(crate) type DesignRow = [f64; COLUMNS];

#[derive(Clone, Debug)]
pub(crate) struct Solution {
    /// One per column, none below zero.
    pub(crate) coefficients: DesignRow,
    /// The inverse of XᵀX over the columns with a non-zero coefficient; zero elsewhere.
    pub(crate) inverse: [DesignRow; COLUMNS],
    /// The number of those columns.
    pub(crate) active: usize,
}

/// The non-negative coefficients with the least squared error. `None` if the rows cannot distinguish the columns.
pub(crate) fn solve(rows: &[DesignRow], values: &[f64]) -> Option<Solution> {
    let mut scale = [0.0_f64; COLUMNS];
    for row in rows {
        for (most, entry) in scale.iter_mut().zip(row) {
            *most = most.max(entry.abs());
        }
    }
    let present = scale.map(|most| most > 0.0);
    let scale = scale.map(|most| if most > 0.0 { most } else { 1.0 });
    let (mut gram, mut right) = ([[0.0; COLUMNS]; COLUMNS], [0.0; COLUMNS]);
    for (row, value) in rows.iter().zip(values) {
        for i in 0..COLUMNS {
            right[i] += row[i] / scale[i] * value;
            for j in 0..COLUMNS {
                gram[i][j] += row[i] / scale[i] * row[j] / scale[j];
            }
        }
    }
    let (mut active, mut found) = ([false; COLUMNS], [0.0; COLUMNS]);
    let small = 1e-9
        * right
            .iter()
            .copied()
            .fold(f64::MIN_POSITIVE, |most, entry| most.max(entry.abs()));
    // Each round activates a column. The method terminates by itself; the bound guards against rounding.
    for _ in 0..3 * COLUMNS {
        let gradient = |column: usize| right[column] - (0..COLUMNS).map(|j| gram[column][j] * found[j]).sum::<f64>();
        let next = (0..COLUMNS).filter(|&column| present[column] && !active[column] && gradient(column) > small);
        let Some(next) = next.max_by(|&a, &b| gradient(a).total_cmp(&gradient(b))) else {
            break;
        };
        active[next] = true;
        loop {
            let wanted = times(&inverse(&gram, active)?, &right);
            if (0..COLUMNS).all(|column| !active[column] || wanted[column] > 0.0) {
                found = wanted;
                break;
            }
            // Move towards the solution until a coefficient reaches zero, and deactivate that column.
            let stops = (0..COLUMNS).filter(|&column| active[column] && wanted[column] <= 0.0);
            let share = |column: usize| found[column] / (found[column] - wanted[column]);
            let Some(first) = stops.min_by(|&a, &b| share(a).total_cmp(&share(b))) else {
                break;
            };
            let step = share(first).clamp(0.0, 1.0);
            for column in 0..COLUMNS {
                found[column] += step * (wanted[column] - found[column]);
            }
            found[first] = 0.0;
            active[first] = false;
        }
    }
    let mut inverse = inverse(&gram, active)?;
    for i in 0..COLUMNS {
        found[i] /= scale[i];
        for j in 0..COLUMNS {
            inverse[i][j] /= scale[i] * scale[j];
        }
    }
    Some(Solution {
        coefficients: found,
        inverse,
        active: active.iter().filter(|active| **active).count(),
    })
}

/// The product of a matrix and a column vector.
pub(crate) fn times(matrix: &[DesignRow; COLUMNS], column: &DesignRow) -> DesignRow {
    matrix.map(|row| dot(&row, column))
}

pub(crate) fn dot(a: &DesignRow, b: &DesignRow) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The inverse of the active part of a symmetric matrix by Gauss-Jordan elimination; zero elsewhere. `None` if that
/// part is singular.
fn inverse(matrix: &[DesignRow; COLUMNS], active: [bool; COLUMNS]) -> Option<[DesignRow; COLUMNS]> {
    /// A pivot below this share of its diagonal is rounding error.
    const SINGULAR: f64 = 1e-10;
    let (mut left, mut right) = (*matrix, [[0.0; COLUMNS]; COLUMNS]);
    for i in (0..COLUMNS).filter(|&i| active[i]) {
        right[i][i] = 1.0;
    }
    for pivot in (0..COLUMNS).filter(|&pivot| active[pivot]) {
        let by = left[pivot][pivot];
        if by <= SINGULAR * matrix[pivot][pivot] {
            return None;
        }
        for column in 0..COLUMNS {
            left[pivot][column] /= by;
            right[pivot][column] /= by;
        }
        for row in (0..COLUMNS).filter(|&row| active[row] && row != pivot) {
            let times = left[row][pivot];
            for column in 0..COLUMNS {
                left[row][column] -= times * left[pivot][column];
                right[row][column] -= times * right[pivot][column];
            }
        }
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_the_values_were_made_of_is_found(truth in prop::array::uniform4(0.5_f64..1e3), seed in prop::collection::vec(prop::array::uniform3(1.0_f64..1e4), 8..30)) {
            let rows: Vec<DesignRow> = seed.iter().map(|[a, b, c]| [1.0, *a, *b, *c]).collect();
            let values: Vec<f64> = rows.iter().map(|row| dot(row, &truth)).collect();
            let found = solve(&rows, &values).unwrap().coefficients;
            for (row, value) in rows.iter().zip(&values) {
                prop_assert!((dot(row, &found) - value).abs() < 1e-4 * value, "{found:?} for {truth:?}");
            }
        }

        #[test]
        fn no_coefficient_is_negative_and_no_small_step_comes_nearer(rows in prop::collection::vec(prop::array::uniform4(0.1_f64..10.0), 6..20), values in prop::collection::vec(-10.0_f64..50.0, 20)) {
            let miss = |found: &DesignRow| rows.iter().zip(&values).map(|(row, value)| (dot(row, found) - value).powi(2)).sum::<f64>();
            let found = solve(&rows, &values).unwrap().coefficients;
            prop_assert!(found.iter().all(|one| *one >= 0.0));
            for column in 0..COLUMNS {
                for step in [-1e-3, 1e-3] {
                    let mut near = found;
                    near[column] = f64::max(0.0, near[column] + step);
                    prop_assert!(miss(&near) >= miss(&found) - 1e-6);
                }
            }
        }
    }

    #[test]
    fn indistinguishable_columns_share_one_coefficient() {
        let rows = [[1.0, 2.0, 0.0, 0.0]; 3];
        let solved = solve(&rows, &[5.0; 3]).unwrap();
        assert_eq!(solved.active, 1, "one of the two explains it");
    }
}
