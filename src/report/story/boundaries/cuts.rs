//! Where a third axis is cut, and on which cut a probe stands that lies between two.

use crate::boundary::{Axis, Boundary, Point, Scalar};
use crate::report::Advice;

use super::probes::Class;
use super::sight::hard;

/// Cuts at most.
const MOST: usize = 12;

/// The values at which an axis is cut, rising: all that were asked and both ends; of more than twelve, those that divide the probes into equal
/// parts. What is safe and what is recommended have cuts of their own.
pub(super) fn values(boundary: &Boundary, axis: &Axis, advice: Option<&Advice>) -> Vec<Scalar> {
    let (low, high) = axis.range();
    let at = |point: &Point| point.0.get(axis.name()).copied();
    let inside = |value: &Scalar| (low.as_f64()..=high.as_f64()).contains(&value.as_f64());
    let mut asked: Vec<Scalar> = boundary
        .records()
        .filter_map(|(point, _)| at(&point))
        .filter(inside)
        .collect();
    let advised: Vec<Scalar> = advice.map_or_else(Vec::new, |advice| {
        [&advice.safe, &advice.recommended].into_iter().filter_map(at).collect()
    });
    let kept = rising([&[low, high], &advised[..]].concat());
    asked.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    let distinct = rising([&asked[..], &kept[..]].concat());
    if distinct.len() <= MOST {
        return distinct;
    }
    // Where many were asked there is most to see.
    let mut most = kept.clone();
    for parts in MOST - kept.len()..=asked.len() {
        let more = (1..=parts).filter_map(|part| asked.get(part * asked.len() / (parts + 1)));
        let more = rising(kept.iter().chain(more).copied().collect());
        match more.len() {
            MOST => return more,
            // Many parts fall on the same values.
            ..MOST => most = more,
            _ => break,
        }
    }
    most
}

fn rising(mut values: Vec<Scalar>) -> Vec<Scalar> {
    values.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    values.dedup_by(|a, b| a.as_f64() == b.as_f64());
    values
}

/// The cut on which a probe stands: its own; else the nearest of which it says something, as what fits at one value fits at every easier one, and
/// what fails fails at every harder one.
pub(super) fn home(axis: &Axis, cuts: &[Scalar], point: &Point, class: Class) -> Option<usize> {
    let own = hard(axis, *point.0.get(axis.name())?);
    let apart = |(_, cut): &(usize, &Scalar)| {
        let away = own - hard(axis, **cut);
        match class {
            Class::Fits if away < 0.0 => None,
            Class::Fails | Class::Clipped if away > 0.0 => None,
            _ => Some(away.abs()),
        }
    };
    let near = cuts.iter().enumerate().filter_map(|cut| Some((apart(&cut)?, cut.0)));
    near.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::boundary::{Answer, Options, Verdict};

    fn asked(values: impl Iterator<Item = i64>) -> Boundary {
        let axes = json!({ "concurrency": [1, 64], "input": [1, 100], "output": [1, 100] });
        let mut map = Boundary::new(&axes, Options::default()).unwrap();
        for value in values {
            let point = Point::default()
                .with("input", 5)
                .with("output", 5)
                .with("concurrency", value);
            map.record(&point, &Answer::from(Verdict::Ok)).unwrap();
        }
        map
    }

    fn ints(values: &[Scalar]) -> Vec<f64> {
        values.iter().map(|value| value.as_f64()).collect()
    }

    #[test]
    fn few_values_are_all_cut_with_both_ends_and_many_where_most_was_asked() {
        let map = asked([4, 8, 4, 8, 16].into_iter());
        let axis = &map.lattice().axes()[0];
        assert_eq!(ints(&values(&map, axis, None)), [1.0, 4.0, 8.0, 16.0, 64.0]);
        let map = asked((1..=30).chain((1..=30).map(|_| 3)));
        let axis = &map.lattice().axes()[0];
        let many = ints(&values(&map, axis, None));
        assert!(
            many.len() <= MOST && many.first() == Some(&1.0) && many.last() == Some(&64.0),
            "{many:?}"
        );
        assert!(many.contains(&3.0), "{many:?}");
        let advice = Advice {
            safe: Point::default().with("concurrency", 29),
            recommended: Point::default().with("concurrency", 27),
        };
        let many = ints(&values(&map, axis, Some(&advice)));
        assert!(
            many.len() == MOST && many.contains(&29.0) && many.contains(&27.0),
            "{many:?}"
        );
    }

    #[test]
    fn a_probe_between_two_cuts_stands_where_it_says_something() {
        let map = asked(std::iter::empty());
        let axis = &map.lattice().axes()[0];
        let cuts = [1, 4, 16].map(Scalar::Int);
        let point = |value| Point::default().with("concurrency", value);
        for (value, class, cut) in [
            (4, Class::Fits, Some(1)),
            (4, Class::Fails, Some(1)),
            (6, Class::Fits, Some(1)),
            (6, Class::Fails, Some(2)),
            (6, Class::Unclear, Some(1)),
            (64, Class::Fails, None),
            (64, Class::Fits, Some(2)),
        ] {
            assert_eq!(home(axis, &cuts, &point(value), class), cut, "{value} {class:?}");
        }
        assert_eq!(home(axis, &cuts, &Point::default(), Class::Fits), None);
    }
}
