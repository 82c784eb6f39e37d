//! From a boundary to what somebody should run: the safe point, and the point to recommend.

use crate::boundary::{Axis, Boundary, Easier, Point, Scalar, Scale};
use crate::fault::Result;

/// The share by which the recommended point stays away from the safe one, on every axis of which so much is a whole step.
const MARGIN: f64 = 0.05;

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The point of the frontier that offers most.
    pub safe: Point,
    /// The safe point less the margin, inside the box.
    pub recommended: Point,
}

/// What to run, where anything fits.
///
/// The point of the frontier that offers most is the one with the largest product of its shares of the axes: neither a
/// long input with no output, nor the other way round.
pub fn advise(boundary: &Boundary) -> Result<Option<Advice>> {
    let axes = boundary.lattice().axes();
    let frontier = boundary.frontier()?;
    let best = frontier
        .into_iter()
        .map(|point| (offer(axes, &point), point))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(best.map(|(_, safe)| Advice {
        recommended: margin(axes, &safe),
        safe,
    }))
}

fn offer(axes: &[Axis], point: &Point) -> f64 {
    let share = |axis: &Axis| {
        let value = point.0.get(axis.name())?.as_f64();
        // An axis at its easiest end still counts for something, as otherwise every other one would not matter.
        Some(0.01 + hardness(axis, value))
    };
    axes.iter().filter_map(share).product()
}

/// Where a value lies between the easiest (0) and the hardest (1) end of its axis.
fn hardness(axis: &Axis, value: f64) -> f64 {
    let share = position(axis, value);
    match axis.easier() {
        Easier::Down => share,
        Easier::Up => 1.0 - share,
    }
}

/// Where a value lies between the lowest (0) and the highest (1) end of its axis, as its scale has it.
pub(super) fn position(axis: &Axis, value: f64) -> f64 {
    let (low, high) = axis.range();
    let (low, high) = (low.as_f64(), high.as_f64());
    if low >= high {
        return 0.0;
    }
    let share = match axis.scale() {
        Scale::Linear => (value - low) / (high - low),
        Scale::Log => (value / low).ln() / (high / low).ln(),
    };
    share.clamp(0.0, 1.0)
}

fn margin(axes: &[Axis], safe: &Point) -> Point {
    let easier = |(name, value): (&String, &Scalar)| {
        let axis = axes.iter().find(|axis| axis.name() == name);
        (name.clone(), axis.map_or(*value, |axis| step_back(axis, *value)))
    };
    Point(safe.0.iter().map(easier).collect())
}

/// A value less the margin, towards the easier end and not beyond it; whole numbers stay whole.
fn step_back(axis: &Axis, value: Scalar) -> Scalar {
    let (low, high) = axis.range();
    let real = value.as_f64();
    // One of two requests at once is half, not 5 %, and the lengths step back already.
    if matches!(value, Scalar::Int(_)) && MARGIN * real.abs() < 1.0 {
        return value;
    }
    let eased = match axis.easier() {
        Easier::Down => (real - MARGIN * real.abs()).max(low.as_f64()),
        Easier::Up => (real + MARGIN * real.abs()).min(high.as_f64()),
    };
    match value {
        Scalar::Int(_) => Scalar::Int(match axis.easier() {
            Easier::Down => eased.floor().max(low.as_f64()) as i64,
            Easier::Up => eased.ceil().min(high.as_f64()) as i64,
        }),
        // Six digits are finer than any axis is measured.
        Scalar::Float(_) => Scalar::Float((eased * 1e6).round() / 1e6),
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
    fn the_margin_goes_to_the_easier_end_and_stays_in_the_box() {
        let boundary = boundary(
            json!({ "fraction": { "range": [0.5, 0.9], "easier": "up" }, "input": [100, 200] }),
            &[json!({ "fraction": 0.88, "input": 100 })],
        );
        let advice = advise(&boundary).unwrap().unwrap();
        assert_eq!(advice.recommended.to_string(), "fraction=0.9 input=100");
    }

    #[test]
    fn few_requests_at_once_are_not_halved() {
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
