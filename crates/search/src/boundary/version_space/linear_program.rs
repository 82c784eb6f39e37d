//! A small linear program that grows row by row: minimize a sum of non-negative variables under upper bounds.
//!
//! The dual simplex method on a dense table (Lemke 1954; Chvátal 1983, chapter 10). All costs are positive, so zero
//! is optimal at first, and the previous optimum is a good start when a row is added. Ten variables and some dozens
//! of rows take microseconds; solvers for large sparse programs would mostly spend their set-up time.

/// Tolerances for coefficients, and for violated rows.
const ZERO: f64 = 1e-11;
const FEASIBLE: f64 = 1e-9;
const MAX_PIVOTS: usize = 400;

/// Where a variable is in the table.
#[derive(Clone, Copy)]
enum Position {
    /// Nonbasic: zero, in this column.
    Column(usize),
    /// Basic: the value of this row.
    Row(usize),
}

/// A program with its optimal solution.
#[derive(Clone)]
pub(super) struct LinearProgram {
    /// Reduced cost by column; never negative.
    costs: Vec<f64>,
    /// The coefficients of each row's columns, then its value: `value - Σ coefficient × column`.
    rows: Vec<Vec<f64>>,
    /// By variable.
    positions: Vec<Position>,
    /// The variable of each column and of each row; `None` for a slack variable.
    columns: Vec<Option<usize>>,
    basis: Vec<Option<usize>>,
}

impl LinearProgram {
    /// Minimizes Σ cost × variable. No cost is negative.
    pub(super) fn new(costs: Vec<f64>) -> Self {
        let count = costs.len();
        Self {
            costs,
            rows: Vec::new(),
            positions: (0..count).map(Position::Column).collect(),
            columns: (0..count).map(Some).collect(),
            basis: Vec::new(),
        }
    }

    /// Adds the row Σ coefficient × variable ≤ `most`.
    pub(super) fn add_upper_bound(&mut self, coefficients: impl IntoIterator<Item = f64>, most: f64) {
        let count = self.costs.len();
        let mut row = vec![0.0; count + 1];
        row[count] = most;
        for (coefficient, position) in coefficients.into_iter().zip(&self.positions) {
            match position {
                Position::Column(column) => row[*column] += coefficient,
                Position::Row(index) => {
                    for (side, other) in row.iter_mut().zip(&self.rows[*index]) {
                        *side -= coefficient * other;
                    }
                }
            }
        }
        self.rows.push(row);
        self.basis.push(None);
    }

    /// Finds the optimum for all rows so far. False if there is none, or if it takes too many pivots.
    pub(super) fn solve(&mut self) -> bool {
        let count = self.costs.len();
        for _ in 0..MAX_PIVOTS {
            let values = self.rows.iter().map(|row| row[count]).enumerate();
            let Some((row, _)) = values
                .filter(|(_, value)| *value < -FEASIBLE)
                .min_by(|a, b| a.1.total_cmp(&b.1))
            else {
                return true;
            };
            let Some(column) = self.entering(row) else {
                return false;
            };
            self.pivot(row, column);
        }
        false
    }

    pub(super) fn value(&self, variable: usize) -> f64 {
        match self.positions[variable] {
            Position::Column(_) => 0.0,
            Position::Row(row) => self.rows[row][self.costs.len()].max(0.0),
        }
    }

    /// The column that makes a row feasible at the least cost; on ties, the one with the largest coefficient.
    fn entering(&self, row: usize) -> Option<usize> {
        let mut best: Option<(f64, f64, usize)> = None;
        for (column, (cost, coefficient)) in self.costs.iter().zip(&self.rows[row]).enumerate() {
            if *coefficient < -ZERO {
                let ratio = cost / -coefficient;
                if best.is_none_or(|(least, most, _)| ratio < least || ratio == least && *coefficient < most) {
                    best = Some((ratio, *coefficient, column));
                }
            }
        }
        best.map(|(_, _, column)| column)
    }

    /// Exchanges the variables of a row and a column.
    fn pivot(&mut self, row: usize, column: usize) {
        let mut pivot = std::mem::take(&mut self.rows[row]);
        let by = 1.0 / pivot[column];
        pivot.iter_mut().for_each(|side| *side *= by);
        pivot[column] = by;
        for other in self.rows.iter_mut().filter(|other| !other.is_empty()) {
            eliminate(other, &pivot, column);
        }
        // Costs have the opposite sign of a row's coefficients, and no value column.
        let cost = std::mem::replace(&mut self.costs[column], 0.0);
        for (side, part) in self.costs.iter_mut().zip(&pivot) {
            *side = (*side - cost * part).max(0.0);
        }
        self.costs[column] = (-cost * by).max(0.0);
        self.rows[row] = pivot;
        std::mem::swap(&mut self.columns[column], &mut self.basis[row]);
        if let Some(variable) = self.columns[column] {
            self.positions[variable] = Position::Column(column);
        }
        if let Some(variable) = self.basis[row] {
            self.positions[variable] = Position::Row(row);
        }
    }
}

/// Eliminates a column from a row by the pivot row.
fn eliminate(other: &mut [f64], pivot: &[f64], column: usize) {
    let part = std::mem::replace(&mut other[column], 0.0);
    if part != 0.0 {
        for (side, of) in other.iter_mut().zip(pivot) {
            *side -= part * of;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The largest violation of the rows by these variables; the first variable compensates for it.
    fn needed(rows: &[(Vec<f64>, f64)], variables: &[f64]) -> f64 {
        let sum = |row: &[f64]| row.iter().zip(variables).map(|(a, b)| a * b).sum::<f64>();
        rows.iter().map(|(row, most)| sum(row) - most).fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn none_is_better_than_the_best(
            rows in prop::collection::vec((prop::collection::vec(-1.0..1.0f64, 3), -1.0..1.0f64), 1..12),
            others in prop::collection::vec(prop::collection::vec(0.0..4.0f64, 3), 200),
            first_solved in 0usize..12,
        ) {
            let mut program = LinearProgram::new(vec![1.0, 1e-6, 1e-6, 1e-6]);
            for (index, (row, most)) in rows.iter().enumerate() {
                program.add_upper_bound([-1.0].into_iter().chain(row.iter().copied()), *most);
                if index >= first_solved {
                    prop_assert!(program.solve());
                }
            }
            prop_assert!(program.solve());
            let found: Vec<f64> = (1..4).map(|variable| program.value(variable)).collect();
            let cost = |needed: f64, variables: &[f64]| needed + 1e-6 * variables.iter().sum::<f64>();
            prop_assert!((program.value(0) - needed(&rows, &found)).abs() < 1e-6, "{} {:?}", program.value(0), found);
            for other in &others {
                prop_assert!(cost(program.value(0), &found) <= cost(needed(&rows, other), other) + 1e-7);
            }
        }
    }
}
