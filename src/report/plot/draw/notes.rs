//! Words beside single places, as many as have room: none lies on another, on a mark, or beyond the panel.

use super::ink::Role;
use super::look::Look;
use super::pen::{Pen, Plane, Rect, Type};
use super::text::wide;
use crate::report::plot::{Layer, Panel};

/// Pixels from the middle of a mark to its words, and half of what a mark takes.
const AWAY: f64 = 7.0;
const MARK: f64 = 5.0;

/// Pixels between two words.
const APART: f64 = 3.0;

/// Steps in which a stretch of a curve is looked at.
const STEPS: u8 = 24;

/// Writes the notes of a panel that have room.
pub(super) fn draw(pen: &Pen, plane: &Plane, panel: &Panel, look: Look) {
    let notes: Vec<_> = panel
        .notes
        .iter()
        .filter(|note| plane.holds(note.at.0, note.at.1))
        .collect();
    let wanted: Vec<((f64, f64), f64)> = notes
        .iter()
        .map(|note| ((plane.px(note.at.0), plane.py(note.at.1)), wide(&note.label, look.font)))
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
            let seen = points
                .iter()
                .filter_map(|(x, y)| y.map(|y| (plane.px(*x), plane.py(y))));
            seen.collect()
        })
        .collect();
    let places = placed(&wanted, look.font * 1.15, plane.rect, &curves);
    for (note, place) in notes.iter().zip(places) {
        if let Some(place) = place {
            pen.text(
                &note.label,
                place.left,
                place.top,
                Type::of(Role::Ink, look.font).halo(),
            );
        }
    }
}

/// Where each word stands that has room, by its middle of mark and its width: the ends first, then what lies halfway between those that stand. A place
/// beside a curve goes before one on it.
fn placed(wanted: &[((f64, f64), f64)], height: f64, inside: Rect, curves: &[Vec<(f64, f64)>]) -> Vec<Option<Rect>> {
    let mut places: Vec<Option<Rect>> = vec![None; wanted.len()];
    for index in order(wanted.len()) {
        let ((x, y), width) = wanted[index];
        let rect = |left: f64, top: f64| Rect {
            left,
            top,
            width,
            height,
        };
        let choices = [
            rect(x + AWAY - 2.0, y + 2.0),
            rect(x - AWAY + 2.0 - width, y - 2.0 - height),
            rect(x + AWAY, y - height / 2.0),
            rect(x - AWAY - width, y - height / 2.0),
            rect(x - width / 2.0, y + AWAY),
            rect(x - width / 2.0, y - AWAY - height),
        ];
        let free = |rect: &&Rect| {
            let within = rect.left >= inside.left
                && rect.right() <= inside.right()
                && rect.top >= inside.top
                && rect.bottom() <= inside.bottom();
            let marks = wanted.iter().enumerate().filter(|(other, _)| *other != index);
            within
                && marks.map(|(_, (at, _))| *at).all(|at| !holds(**rect, at, MARK))
                && places.iter().flatten().all(|other| !meet(**rect, *other))
        };
        let aside = |rect: &&Rect| curves.iter().all(|curve| !crosses(curve, **rect));
        let free: Vec<&Rect> = choices.iter().filter(free).collect();
        let best = free.iter().copied().find(aside).or_else(|| free.first().copied());
        places[index] = best.copied();
    }
    places
}

/// The ends, then the middle, then the middles between these.
fn order(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = [0, count.saturating_sub(1)]
        .into_iter()
        .filter(|index| *index < count)
        .collect();
    let mut step = count.saturating_sub(1);
    while step > 0 {
        order.extend((0..count).step_by(step));
        step /= 2;
    }
    let mut known = vec![false; count];
    order.retain(|index| !std::mem::replace(&mut known[*index], true));
    order
}

fn meet(one: Rect, other: Rect) -> bool {
    one.left < other.right() + APART
        && other.left < one.right() + APART
        && one.top < other.bottom()
        && other.top < one.bottom()
}

/// Whether a place lies in a rectangle, or so near.
fn holds(rect: Rect, (x, y): (f64, f64), near: f64) -> bool {
    x > rect.left - near && x < rect.right() + near && y > rect.top - near && y < rect.bottom() + near
}

fn crosses(curve: &[(f64, f64)], rect: Rect) -> bool {
    let pairs = curve.iter().zip(curve.iter().skip(1));
    pairs.into_iter().any(|(from, to)| {
        (0..=STEPS).any(|step| {
            let part = f64::from(step) / f64::from(STEPS);
            let at = (from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1));
            holds(rect, at, 0.0)
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
    fn ends_go_before_what_lies_between() {
        assert_eq!(order(0), [0; 0]);
        assert_eq!(order(1), [0]);
        assert_eq!(order(9)[..3], [0, 8, 4]);
        let mut all = order(14);
        all.sort_unstable();
        assert_eq!(all, (0..14).collect::<Vec<_>>());
    }

    #[test]
    fn words_stand_beside_the_curve_and_what_has_no_room_is_left_out() {
        let at = |x: f64, y: f64| ((x, y), 20.0);
        let rising = [at(50.0, 150.0), at(200.0, 100.0), at(350.0, 50.0)];
        let curve = rising.map(|(place, _)| place).to_vec();
        let places = placed(&rising, 12.0, INSIDE, std::slice::from_ref(&curve));
        assert!(
            places.iter().flatten().all(|rect| !crosses(&curve, *rect)) && !places.contains(&None),
            "{places:?}"
        );
        let crowd = [at(100.0, 100.0); 9];
        assert!(placed(&crowd, 12.0, INSIDE, &[]).contains(&None));
    }

    proptest! {
        #[test]
        fn no_word_lies_on_another_on_a_mark_or_beyond_the_panel(
            wanted in prop::collection::vec(((0.0..400.0_f64, 0.0..200.0_f64), 4.0..90.0_f64), 0..24)
        ) {
            let places = placed(&wanted, 12.0, INSIDE, &[]);
            let all: Vec<Rect> = places.iter().flatten().copied().collect();
            for (index, rect) in all.iter().enumerate() {
                prop_assert!(all[index + 1..].iter().all(|other| !meet(*rect, *other)));
                prop_assert!(rect.left >= 0.0 && rect.right() <= 400.0 && rect.top >= 0.0 && rect.bottom() <= 200.0);
                prop_assert!(wanted.iter().all(|(at, _)| !holds(*rect, *at, 0.0)));
            }
        }
    }
}
