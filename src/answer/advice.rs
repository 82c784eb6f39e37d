//! The point to recommend: the largest that fitted, less a margin.

use crate::boundary::{Axis, Boundary, Easier, Limit, Point, Scalar};
use crate::fault::Result;
use crate::fmt::rounded;

/// Safety margin: the recommended point is 5 % easier than the safe one on every axis. Integers below 20 stay, because
/// 5 % of them is less than one; so does the whole point if the limit is exact.
const MARGIN: f64 = 0.05;

/// The point to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// A point that fitted.
    pub safe: Point,
    /// The safe point less the margin, within the search range; the safe point itself if the limit is exact.
    pub recommended: Point,
}

/// The point to run: where the limit was confirmed. If no single limit agrees with every answer, it is the frontier
/// point with the largest product of normalised coordinates, which favours balanced points. `None` if nothing fits.
pub fn advise(boundary: &Boundary) -> Result<Option<Advice>> {
    let axes = boundary.lattice().axes();
    let limit = boundary.stated_limit();
    let exact = limit.as_ref().is_some_and(Limit::is_exact);
    let safe = match limit {
        Some(limit) => Some(limit.at),
        None => {
            let scored = boundary
                .frontier()?
                .into_iter()
                .map(|point| (score(axes, &point), point));
            scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, point)| point)
        }
    };
    Ok(safe.map(|safe| Advice {
        recommended: if exact { safe.clone() } else { with_margin(axes, &safe) },
        safe,
    }))
}

fn score(axes: &[Axis], point: &Point) -> f64 {
    let share = |axis: &Axis| {
        // Keeps the product above zero, so that an axis at its easiest end does not hide the others.
        let share = axis.share(axis.of(point)?);
        Some(match axis.easier() {
            Easier::Down => 0.01 + share,
            Easier::Up => 1.01 - share,
        })
    };
    axes.iter().filter_map(share).product()
}

/// The point a margin easier than `safe`, within the search range.
pub(super) fn with_margin(axes: &[Axis], safe: &Point) -> Point {
    let easier = |(name, value): (&String, &Scalar)| {
        let axis = axes.iter().find(|axis| axis.name() == name);
        (name.clone(), axis.map_or(*value, |axis| step_back(axis, *value)))
    };
    Point(safe.0.iter().map(easier).collect())
}

/// Moves a value towards the easier end by the margin, within the axis. Integers stay integers.
fn step_back(axis: &Axis, value: Scalar) -> Scalar {
    let (low, high) = axis.range();
    let real = value.as_f64();
    // Small counts stay: dropping one of two concurrent requests would be a margin of half, not 5 %. The lengths step
    // back anyway.
    if matches!(value, Scalar::Int(_)) && MARGIN * real.abs() < 1.0 {
        return value;
    }
    let margin = MARGIN * real.abs();
    // No axis is measured more finely than six decimals.
    let eased = match (axis.easier(), value) {
        (Easier::Down, Scalar::Int(_)) => (real - margin).floor(),
        (Easier::Up, Scalar::Int(_)) => (real + margin).ceil(),
        (Easier::Down, Scalar::Float(_)) => rounded(real - margin, 6),
        (Easier::Up, Scalar::Float(_)) => rounded(real + margin, 6),
    }
    .max(low.as_f64())
    .min(high.as_f64());
    match value {
        Scalar::Int(_) => Scalar::Int(eased as i64),
        Scalar::Float(_) => Scalar::Float(eased),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Answer, Options, Verdict};
    use serde_json::json;

    fn boundary(axes: serde_json::Value, fitting: &[serde_json::Value]) -> Boundary {
        let mut boundary = Boundary::new(&axes, Options::default()).unwrap();
        for point in fitting {
            let point: Point = serde_json::from_value(point.clone()).unwrap();
            boundary.record(&point, &Answer::from(Verdict::Ok)).unwrap();
        }
        boundary
    }

    #[test]
    fn the_balanced_point_is_recommended_less_the_margin() {
        let boundary = boundary(
            json!({ "input": [128, 8192], "output": [128, 4096] }),
            &[
                json!({ "input": 8192, "output": 128 }),
                json!({ "input": 4000, "output": 2000 }),
                json!({ "input": 128, "output": 4096 }),
            ],
        );
        let advice = advise(&boundary).unwrap().unwrap();
        assert_eq!(advice.safe.to_string(), "input=4000 output=2000");
        assert_eq!(advice.recommended.to_string(), "input=3800 output=1900");
    }

    #[test]
    fn the_margin_goes_to_the_easier_end_and_stays_in_the_search_space() {
        let boundary = boundary(
            json!({ "fraction": { "range": [0.5, 0.9], "easier": "up" }, "input": [100, 200] }),
            &[json!({ "fraction": 0.88, "input": 100 })],
        );
        let advice = advise(&boundary).unwrap().unwrap();
        assert_eq!(advice.recommended.to_string(), "fraction=0.9 input=100");
    }

    #[test]
    fn few_concurrent_requests_are_not_halved() {
        let boundary = boundary(
            json!({ "input": [128, 8192], "concurrency": [1, 64] }),
            &[json!({ "input": 2000, "concurrency": 2 })],
        );
        let advice = advise(&boundary).unwrap().unwrap();
        assert_eq!(advice.recommended.to_string(), "concurrency=2 input=1900");
    }

    #[test]
    fn nothing_is_recommended_where_nothing_fits() {
        assert_eq!(advise(&boundary(json!({ "input": [1, 9] }), &[])).unwrap(), None);
    }
}
