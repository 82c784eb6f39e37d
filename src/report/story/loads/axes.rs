//! Axes and marks that the pictures of one sweep share.

use super::findings::Findings;
use super::say::number;
use super::sweep::{Along, Sweep};
use crate::load::joined::Onset;
use crate::report::plot::{Axis, Colour, Layer, Scale};
use crate::unit::Unit;

/// From the smallest to the largest by this factor, levels stand by their logarithm, and so do figures.
const WIDE: f64 = 8.0;
const WIDE_FIGURE: f64 = 20.0;

/// The levels of these sweeps to the right: by their logarithm where they span much, as levels that double do.
pub(in crate::report::story) fn levels(sweeps: &[&Sweep]) -> Axis {
    let along = sweeps.first().map_or(Along::Nothing, |sweep| sweep.along);
    let all = sweeps
        .iter()
        .flat_map(|sweep| sweep.levels.iter().map(|level| level.at));
    Axis {
        label: match along {
            Along::Rate => "arrivals".to_owned(),
            Along::Concurrency | Along::Nothing => "requests at once".to_owned(),
        },
        unit: if along == Along::Rate {
            Unit::RequestsPerSecond
        } else {
            Unit::Count
        },
        scale: scale(all, WIDE),
        ..Axis::default()
    }
}

/// An axis of figures: by their logarithm where they span much.
pub(in crate::report::story) fn figures(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
    Axis {
        label: label.to_owned(),
        unit,
        scale: scale(values, WIDE_FIGURE),
        ..Axis::default()
    }
}

/// An axis of figures that begins at zero.
pub(in crate::report::story) fn from_zero(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
    let top = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    Axis {
        label: label.to_owned(),
        unit,
        range: (top > 0.0).then_some((0.0, 1.06 * top)),
        ..Axis::default()
    }
}

fn scale(values: impl Iterator<Item = f64>, wide: f64) -> Scale {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > 0.0 && high >= wide * low {
        Scale::Log
    } else {
        Scale::Linear
    }
}

/// The knee with its bracket, and where preemption and a queue begin, as upright marks; `named` where their names stand beside them.
pub(in crate::report::story) fn marks(findings: &Findings, named: bool) -> Vec<Layer> {
    let mut places: Vec<(f64, Vec<String>, Colour)> = Vec::new();
    let mut mark = |at: f64, words: String, colour| match places.iter_mut().find(|place| place.0 == at) {
        Some(place) => {
            place.1.push(words);
            place.2 = colour;
        }
        None => places.push((at, vec![words], colour)),
    };
    let mut bracket = Vec::new();
    if let Some(knee) = findings.knee {
        if knee.low < knee.high {
            mark(
                knee.x,
                format!("knee ({} to {})", number(knee.low), number(knee.high)),
                Colour::Recommended,
            );
            bracket.extend([knee.low, knee.high].into_iter().filter(|end| *end != knee.x));
        } else {
            mark(knee.x, "knee".to_owned(), Colour::Recommended);
        }
    }
    for (onset, what) in [(&findings.preemption, "preemption"), (&findings.queue, "queue grows")] {
        if let Some(onset) = onset {
            mark(
                onset.first_with,
                format!("{what} from {}", number(onset.first_with)),
                Colour::Limit,
            );
        }
    }
    let rule = |at: f64, name: String, colour: Colour, dashed: bool| Layer::Rule {
        name: if named { name } else { String::new() },
        at,
        upright: true,
        colour,
        dashed,
        right: false,
    };
    let ends = bracket
        .into_iter()
        .map(|at| rule(at, String::new(), Colour::Recommended, true));
    let marked = places
        .into_iter()
        .map(|(at, words, colour)| rule(at, words.join(", "), colour, colour == Colour::Limit));
    ends.chain(marked).collect()
}

/// Where something begins, in words: `between 64 and 128 at once`.
pub(in crate::report::story) fn begins(onset: &Onset, along: Along) -> String {
    let first = number(onset.first_with);
    let behind = along.behind();
    let begins = match onset.last_without {
        Some(last) => format!("between {} and {first}{behind}", number(last)),
        None => format!("at {first}{behind} already, the lowest level"),
    };
    match onset.contradicting.as_slice() {
        [] => begins,
        others => {
            let others: Vec<String> = others.iter().map(|level| number(*level)).collect();
            format!("{begins} (though not at {})", super::say::list(&others))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::joined::{Knee, onset};

    #[test]
    fn marks_at_one_place_are_one_and_a_bracket_has_its_ends() {
        let knee = Knee {
            x: 16.0,
            y: 1.0,
            low: 8.0,
            high: 16.0,
            distance: 0.5,
        };
        let preemption = onset(&[(8.0, false), (16.0, true)]);
        let findings = Findings {
            knee: Some(knee),
            preemption,
            ..Findings::default()
        };
        let told: Vec<(String, f64, Colour)> = marks(&findings, true)
            .into_iter()
            .filter_map(|layer| match layer {
                Layer::Rule { name, at, colour, .. } => Some((name, at, colour)),
                _ => None,
            })
            .collect();
        assert_eq!(
            told,
            [
                (String::new(), 8.0, Colour::Recommended),
                ("knee (8 to 16), preemption from 16".to_owned(), 16.0, Colour::Limit)
            ]
        );
        assert!(marks(&Findings::default(), true).is_empty());
    }

    #[test]
    fn levels_that_double_stand_by_their_logarithm() {
        assert_eq!(scale([1.0, 2.0, 8.0].into_iter(), WIDE), Scale::Log);
        assert_eq!(scale([0.0, 8.0].into_iter(), WIDE), Scale::Linear);
        assert_eq!(scale([4.0, 8.0].into_iter(), WIDE), Scale::Linear);
    }
}
