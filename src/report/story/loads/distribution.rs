//! How latencies are spread: the share of requests that took at most so long, for each level.

use super::requests::Requests;
use super::say::ms;
use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Plot, Scale, Sheet};
use crate::unit::Unit;

/// Points of a curve, and those at each end that are all drawn: there a distribution is told apart.
const POINTS: usize = 160;
const ENDS: usize = 12;

/// The sorted times of requests.
type Times = fn(&Requests) -> &[f32];

/// What is spread.
const LATENCIES: [(&str, &str, Times); 3] = [
    ("time to first token", "of requests", |found| &found.ttft),
    ("time between tokens", "of gaps", |found| &found.itl),
    ("whole time of a request", "of requests", |found| &found.e2el),
];

/// The distributions of these loads, each with its name; nothing where no request completed.
pub(super) fn plot(loads: &[(String, Requests)], name: String) -> Option<Plot> {
    let panels: Vec<Panel> = LATENCIES.iter().filter_map(|latency| panel(loads, latency)).collect();
    if panels.is_empty() {
        return None;
    }
    let sampled: Vec<&Requests> = loads
        .iter()
        .map(|(_, found)| found)
        .filter(|found| found.every > 1)
        .collect();
    let mut caption =
        "Each curve rises by one request at a time: where it is at 50 %, half took at most so long.".to_owned();
    if !sampled.is_empty() {
        caption += " Of loads of many requests, gaps between tokens are those of some requests, evenly chosen.";
    }
    Some(Plot {
        name,
        title: "How latencies are spread".to_owned(),
        words: words(loads),
        caption,
        panels,
        sheet: sheet(loads),
        ..Plot::default()
    })
}

fn panel(loads: &[(String, Requests)], (label, what, times): &(&str, &str, Times)) -> Option<Panel> {
    let layers: Vec<Layer> = loads
        .iter()
        .enumerate()
        .filter(|(_, (_, found))| times(found).iter().any(|time| *time > 0.0))
        .map(|(index, (name, found))| Layer::Line {
            name: name.clone(),
            points: curve(times(found)),
            colour: Colour::Series(u8::try_from(index).unwrap_or(u8::MAX)),
            // Neighbouring levels lie close: they differ by more than their colour.
            dashed: index % 2 == 1,
            steps: true,
            dots: false,
            right: false,
        })
        .collect();
    (!layers.is_empty()).then(|| Panel {
        title: (*label).to_owned(),
        x: Axis {
            label: (*label).to_owned(),
            unit: Unit::Milliseconds,
            scale: Scale::Log,
            ..Axis::default()
        },
        y: Axis {
            label: (*what).to_owned(),
            unit: Unit::Percent,
            range: Some((0.0, 100.0)),
            ..Axis::default()
        },
        layers,
        ..Panel::default()
    })
}

/// The share of times up to each of them, in hundredths. Times of nothing, such as gaps between tokens that came together, count and have no place on a
/// logarithmic axis.
fn curve(ascending: &[f32]) -> Vec<(f64, Option<f64>)> {
    let n = ascending.len();
    let step = n.div_ceil(POINTS).max(1);
    let kept = |index: usize| index < ENDS || index + ENDS >= n || index.is_multiple_of(step);
    let point = |index: usize| (f64::from(ascending[index]), Some(100.0 * (index + 1) as f64 / n as f64));
    (0..n)
        .filter(|index| kept(*index))
        .map(point)
        .filter(|point| point.0 > 0.0)
        .collect()
}

/// What is at most taken by this share, of ascending times: an order statistic of the requests drawn, not an estimate of all that could be.
fn at_share(ascending: &[f32], share: f64) -> Option<f64> {
    let place = (share * ascending.len() as f64).ceil() as usize;
    ascending.get(place.max(1) - 1).map(|time| f64::from(*time))
}

fn words(loads: &[(String, Requests)]) -> String {
    let told = loads.iter().filter_map(|(name, found)| {
        let half = at_share(&found.ttft, 0.5)?;
        let most = found.ttft.last()?;
        let whole = at_share(&found.e2el, 0.5)?;
        Some(format!(
            "{name}: half of {} requests had their first token within {}, the slowest after {}; half were done within {}.",
            found.ttft.len(),
            ms(half),
            ms(f64::from(*most)),
            ms(whole),
        ))
    });
    told.collect::<Vec<_>>().join(" ")
}

fn sheet(loads: &[(String, Requests)]) -> Sheet {
    let shares = [
        ("fastest", 0.0),
        ("10 %", 0.1),
        ("50 %", 0.5),
        ("90 %", 0.9),
        ("slowest", 1.0),
    ];
    let columns = ["load", "what"].into_iter().chain(shares.iter().map(|share| share.0));
    let rows = loads.iter().flat_map(|(name, found)| {
        LATENCIES
            .iter()
            .filter(|(.., times)| !times(found).is_empty())
            .map(|(label, _, times)| {
                let figures = shares.iter().map(|(_, share)| at_share(times(found), *share).into());
                let head: [Entry; 2] = [name.as_str().into(), format!("{label}, ms").into()];
                head.into_iter().chain(figures).collect()
            })
    });
    Sheet {
        title: String::new(),
        columns: columns.map(str::to_owned).collect(),
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A curve rises from left to right up to all requests, however few of its points are drawn.
        #[test]
        fn a_curve_rises_to_all(mut tenths in prop::collection::vec(1_u16..u16::MAX, 1..2000)) {
            tenths.sort_unstable();
            let times: Vec<f32> = tenths.into_iter().map(|tenths| f32::from(tenths) / 10.0).collect();
            let curve = curve(&times);
            prop_assert!(curve.len() <= POINTS + 2 * ENDS + 2);
            prop_assert!(curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
            prop_assert_eq!(curve.last().unwrap().1, Some(100.0));
        }
    }

    #[test]
    fn times_of_nothing_count_without_a_place() {
        assert_eq!(curve(&[0.0, 0.0, 2.0, 4.0]), [(2.0, Some(75.0)), (4.0, Some(100.0))]);
        assert_eq!(curve(&[]), []);
        assert_eq!(
            (
                at_share(&[1.0, 2.0, 3.0], 0.5),
                at_share(&[1.0, 2.0, 3.0], 1.0),
                at_share(&[], 0.5)
            ),
            (Some(2.0), Some(3.0), None)
        );
    }
}
