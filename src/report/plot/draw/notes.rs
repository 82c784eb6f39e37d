//! Labels beside single points, as many as have room: none overlaps another, a marker, or the panel's edge.

use super::metrics::LayoutMetrics;
use super::style::Role;
use super::text::text_width;
use super::writer::{PlotArea, Rect, SvgWriter, TextStyle};
use crate::report::plot::{Layer, Panel};

/// Pixels from the middle of a marker to its label, and half the size of a marker.
const DISTANCE: f64 = 7.0;
const MARK: f64 = 5.0;

/// Pixels between two labels.
const GAP: f64 = 3.0;

/// Samples along each segment of a curve.
const STEPS: u8 = 24;

pub(super) fn draw(svg: &SvgWriter, area: &PlotArea, panel: &Panel, metrics: LayoutMetrics) {
    let notes: Vec<_> = panel
        .notes
        .iter()
        .filter(|note| area.contains(note.at.0, note.at.1))
        .collect();
    let wanted: Vec<((f64, f64), f64)> = notes
        .iter()
        .map(|note| {
            (
                (area.x_pixel(note.at.0), area.y_pixel(note.at.1)),
                text_width(&note.label, metrics.font),
            )
        })
        .collect();
    let curves: Vec<Vec<(f64, f64)>> = panel
        .layers
        .iter()
        .filter_map(|layer| match layer {
            Layer::Line {
                points, right: false, ..
            } => Some(points),
            _ => None,
        })
        .map(|points| {
            let pixels = points
                .iter()
                .filter_map(|(x, y)| y.map(|y| (area.x_pixel(*x), area.y_pixel(y))));
            pixels.collect()
        })
        .collect();
    let places = place_labels(&wanted, metrics.font * 1.15, area.rect, &curves);
    for (note, place) in notes.iter().zip(places) {
        if let Some(place) = place {
            svg.text(
                &note.label,
                place.left,
                place.top,
                TextStyle::new(Role::Text, metrics.font).halo(),
            );
        }
    }
}

/// Greedy label placement: end points first, then midpoints. Tries six positions per label and prefers one that does
/// not cross a curve. `wanted` has the marker's middle and the width of each label.
fn place_labels(
    wanted: &[((f64, f64), f64)],
    height: f64,
    inside: Rect,
    curves: &[Vec<(f64, f64)>],
) -> Vec<Option<Rect>> {
    let mut places: Vec<Option<Rect>> = vec![None; wanted.len()];
    for index in placement_order(wanted.len()) {
        let ((x, y), width) = wanted[index];
        let rect = |left: f64, top: f64| Rect {
            left,
            top,
            width,
            height,
        };
        let choices = [
            rect(x + DISTANCE - 2.0, y + 2.0),
            rect(x - DISTANCE + 2.0 - width, y - 2.0 - height),
            rect(x + DISTANCE, y - height / 2.0),
            rect(x - DISTANCE - width, y - height / 2.0),
            rect(x - width / 2.0, y + DISTANCE),
            rect(x - width / 2.0, y - DISTANCE - height),
        ];
        let free = |rect: &&Rect| {
            let within = rect.left >= inside.left
                && rect.right() <= inside.right()
                && rect.top >= inside.top
                && rect.bottom() <= inside.bottom();
            let marks = wanted.iter().enumerate().filter(|(other, _)| *other != index);
            within
                && marks.map(|(_, (at, _))| *at).all(|at| !contains(**rect, at, MARK))
                && places.iter().flatten().all(|other| !overlap(**rect, *other))
        };
        let aside = |rect: &&Rect| curves.iter().all(|curve| !crosses(curve, **rect));
        let free: Vec<&Rect> = choices.iter().filter(free).collect();
        let best = free.iter().copied().find(aside).or_else(|| free.first().copied());
        places[index] = best.copied();
    }
    places
}

/// The order of placement: both ends, the middle, then the middles between these.
fn placement_order(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = [0, count.saturating_sub(1)]
        .into_iter()
        .filter(|index| *index < count)
        .collect();
    let mut step = count.saturating_sub(1);
    while step > 0 {
        order.extend((0..count).step_by(step));
        step /= 2;
    }
    let mut placed = vec![false; count];
    order.retain(|index| !std::mem::replace(&mut placed[*index], true));
    order
}

fn overlap(one: Rect, other: Rect) -> bool {
    one.left < other.right() + GAP
        && other.left < one.right() + GAP
        && one.top < other.bottom()
        && other.top < one.bottom()
}

/// Whether a point lies in a rectangle that is extended by `near`.
fn contains(rect: Rect, (x, y): (f64, f64), near: f64) -> bool {
    x > rect.left - near && x < rect.right() + near && y > rect.top - near && y < rect.bottom() + near
}

fn crosses(curve: &[(f64, f64)], rect: Rect) -> bool {
    let pairs = curve.iter().zip(curve.iter().skip(1));
    pairs.into_iter().any(|(from, to)| {
        (0..=STEPS).any(|step| {
            let part = f64::from(step) / f64::from(STEPS);
            let at = (from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1));
            contains(rect, at, 0.0)
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INSIDE: Rect = Rect {
        left: 0.0,
        top: 0.0,
        width: 400.0,
        height: 200.0,
    };

    #[test]
    fn end_points_are_placed_first() {
        assert_eq!(placement_order(0), [0; 0]);
        assert_eq!(placement_order(1), [0]);
        assert_eq!(placement_order(9)[..3], [0, 8, 4]);
        let mut all = placement_order(14);
        all.sort_unstable();
        assert_eq!(all, (0..14).collect::<Vec<_>>());
    }

    #[test]
    fn labels_avoid_the_curve_and_are_left_out_without_room() {
        let point = |x: f64, y: f64| ((x, y), 20.0);
        let rising = [point(50.0, 150.0), point(200.0, 100.0), point(350.0, 50.0)];
        let curve = rising.map(|(place, _)| place).to_vec();
        let places = place_labels(&rising, 12.0, INSIDE, std::slice::from_ref(&curve));
        assert!(
            places.iter().flatten().all(|rect| !crosses(&curve, *rect)) && !places.contains(&None),
            "{places:?}"
        );
        let crowd = [point(100.0, 100.0); 9];
        assert!(place_labels(&crowd, 12.0, INSIDE, &[]).contains(&None));
    }

    proptest! {
        #[test]
        fn no_label_overlaps_another_a_marker_or_the_edge(
            wanted in prop::collection::vec(((0.0..400.0_f64, 0.0..200.0_f64), 4.0..90.0_f64), 0..24)
        ) {
            let places = place_labels(&wanted, 12.0, INSIDE, &[]);
            let all: Vec<Rect> = places.iter().flatten().copied().collect();
            for (index, rect) in all.iter().enumerate() {
                prop_assert!(all[index + 1..].iter().all(|other| !overlap(*rect, *other)));
                prop_assert!(rect.left >= 0.0 && rect.right() <= 400.0 && rect.top >= 0.0 && rect.bottom() <= 200.0);
                prop_assert!(wanted.iter().all(|(at, _)| !contains(*rect, *at, 0.0)));
            }
        }
    }
}
