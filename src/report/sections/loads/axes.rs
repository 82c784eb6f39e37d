//! Axes and marks shared by the charts of a sweep.

use super::findings::SweepFindings;
use super::format::number;
use super::sweep::{Sweep, SweepAxis};
use crate::load::engine_side::Onset;
use crate::report::plot::{Axis, Colour, Layer, Scale};
use crate::unit::Unit;

/// An axis is logarithmic if its largest value is at least this many times its smallest.
const LOG_LEVEL_RATIO: f64 = 8.0;
const LOG_VALUE_RATIO: f64 = 20.0;

/// The axis of the sweep's levels; logarithmic if they span a wide range, as doubling levels do.
pub(in crate::report::sections) fn level_axis(sweeps: &[&Sweep]) -> Axis {
    let axis = sweeps.first().map_or(SweepAxis::Other, |sweep| sweep.axis);
    let all = sweeps
        .iter()
        .flat_map(|sweep| sweep.levels.iter().map(|level| level.at));
    Axis {
        label: match axis {
            SweepAxis::Rate => "request rate".to_owned(),
            SweepAxis::Concurrency | SweepAxis::Other => "concurrent requests".to_owned(),
        },
        unit: if axis == SweepAxis::Rate {
            Unit::RequestsPerSecond
        } else {
            Unit::Count
        },
        scale: scale(all, LOG_LEVEL_RATIO),
        ..Axis::default()
    }
}

/// An axis of values; logarithmic if they span a wide range.
pub(in crate::report::sections) fn value_axis(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
    Axis {
        label: label.to_owned(),
        unit,
        scale: scale(values, LOG_VALUE_RATIO),
        ..Axis::default()
    }
}

pub(in crate::report::sections) fn zero_based_axis(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
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

/// Vertical lines at the knee with its bracket and at the onset of preemption and queueing; `named` adds their labels.
pub(in crate::report::sections) fn finding_marks(findings: &SweepFindings, named: bool) -> Vec<Layer> {
    let mut lines: Vec<(f64, Vec<String>, Colour)> = Vec::new();
    let mut mark = |at: f64, label: String, colour| match lines.iter_mut().find(|line| line.0 == at) {
        Some(line) => {
            line.1.push(label);
            line.2 = colour;
        }
        None => lines.push((at, vec![label], colour)),
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
    let marked = lines
        .into_iter()
        .map(|(at, label, colour)| rule(at, label.join(", "), colour, colour == Colour::Limit));
    ends.chain(marked).collect()
}

/// Where something begins: `between concurrency 64 and 128`.
pub(in crate::report::sections) fn onset_text(onset: &Onset, axis: SweepAxis) -> String {
    let first = number(onset.first_with);
    let text = match onset.last_without {
        Some(last) => format!("between {}", axis.level_text(&format!("{} and {first}", number(last)))),
        None => format!("at {}, the lowest level", axis.level_text(&first)),
    };
    match onset.contradicting.as_slice() {
        [] => text,
        others => {
            let others: Vec<String> = others.iter().map(|level| number(*level)).collect();
            format!("{text} (though not at {})", super::format::list(&others))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::engine_side::{Knee, onset};

    #[test]
    fn marks_at_one_level_are_merged() {
        let knee = Knee {
            x: 16.0,
            y: 1.0,
            low: 8.0,
            high: 16.0,
            distance: 0.5,
        };
        let preemption = onset(&[(8.0, false), (16.0, true)]);
        let findings = SweepFindings {
            knee: Some(knee),
            preemption,
            ..SweepFindings::default()
        };
        let expected: Vec<(String, f64, Colour)> = finding_marks(&findings, true)
            .into_iter()
            .filter_map(|layer| match layer {
                Layer::Rule { name, at, colour, .. } => Some((name, at, colour)),
                _ => None,
            })
            .collect();
        assert_eq!(
            expected,
            [
                (String::new(), 8.0, Colour::Recommended),
                ("knee (8 to 16), preemption from 16".to_owned(), 16.0, Colour::Limit)
            ]
        );
        assert!(finding_marks(&SweepFindings::default(), true).is_empty());
    }

    #[test]
    fn doubling_levels_have_a_logarithmic_axis() {
        assert_eq!(scale([1.0, 2.0, 8.0].into_iter(), LOG_LEVEL_RATIO), Scale::Log);
        assert_eq!(scale([0.0, 8.0].into_iter(), LOG_LEVEL_RATIO), Scale::Linear);
        assert_eq!(scale([4.0, 8.0].into_iter(), LOG_LEVEL_RATIO), Scale::Linear);
    }
}
