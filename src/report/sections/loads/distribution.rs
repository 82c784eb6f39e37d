//! Distributions of latencies: the share of requests that took at most a given time, by level.

use super::format::ms;
use super::requests::Requests;
use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Plot, Scale, Sheet};
use crate::unit::Unit;

/// Maximum number of points of a curve, and of points at each end that are always drawn, because tails matter.
const MAX_POINTS: usize = 160;
const END_POINTS: usize = 12;

/// Sorted times of requests, in milliseconds.
type Times = fn(&Requests) -> &[f32];

/// Label, label of the vertical axis, and times.
const LATENCIES: [(&str, &str, Times); 3] = [
    ("time to first token (TTFT)", "of requests", |found| &found.ttft),
    ("inter-token latency (ITL)", "of tokens", |found| &found.itl),
    ("end-to-end latency (E2E)", "of requests", |found| &found.e2el),
];

/// The distributions of these named loads; none if no request completed.
pub(super) fn plot(loads: &[(String, Requests)], name: String) -> Option<Plot> {
    let panels: Vec<Panel> = LATENCIES.iter().filter_map(|latency| panel(loads, latency)).collect();
    if panels.is_empty() {
        return None;
    }
    let sampled: Vec<&Requests> = loads
        .iter()
        .map(|(_, found)| found)
        .filter(|found| found.itl_every > 1)
        .collect();
    let mut caption = "Where a curve is at 50 %, half of the requests took at most that long.".to_owned();
    if !sampled.is_empty() {
        caption += " In large loads, ITL is read for every n-th request only.";
    }
    Some(Plot {
        name,
        title: "Latency distributions".to_owned(),
        words: alt_text(loads),
        caption,
        panels,
        sheet: sheet(loads),
        ..Plot::default()
    })
}

fn panel(loads: &[(String, Requests)], (label, unit_label, times): &(&str, &str, Times)) -> Option<Panel> {
    let layers: Vec<Layer> = loads
        .iter()
        .enumerate()
        .filter(|(_, (_, found))| times(found).iter().any(|time| *time > 0.0))
        .map(|(index, (name, found))| Layer::Line {
            name: name.clone(),
            points: curve(times(found)),
            colour: Colour::Series(u8::try_from(index).unwrap_or(u8::MAX)),
            // Neighbouring curves lie close, so they differ in more than colour.
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
            label: (*unit_label).to_owned(),
            unit: Unit::Percent,
            range: Some((0.0, 100.0)),
            ..Axis::default()
        },
        layers,
        ..Panel::default()
    })
}

/// The empirical distribution in per cent. Zero times (tokens that arrived together) count, but have no place on a
/// logarithmic axis.
fn curve(ascending: &[f32]) -> Vec<(f64, Option<f64>)> {
    let n = ascending.len();
    let step = n.div_ceil(MAX_POINTS).max(1);
    let kept = |index: usize| index < END_POINTS || index + END_POINTS >= n || index.is_multiple_of(step);
    let point = |index: usize| (f64::from(ascending[index]), Some(100.0 * (index + 1) as f64 / n as f64));
    (0..n)
        .filter(|index| kept(*index))
        .map(point)
        .filter(|point| point.0 > 0.0)
        .collect()
}

/// The empirical quantile: an order statistic of the measured requests, not an estimate.
fn quantile(ascending: &[f32], share: f64) -> Option<f64> {
    let place = (share * ascending.len() as f64).ceil() as usize;
    ascending.get(place.max(1) - 1).map(|time| f64::from(*time))
}

fn alt_text(loads: &[(String, Requests)]) -> String {
    let sentences = loads.iter().filter_map(|(name, found)| {
        let half = quantile(&found.ttft, 0.5)?;
        let most = found.ttft.last()?;
        let whole = quantile(&found.e2el, 0.5)?;
        Some(format!(
            "{name}: of {} requests, median TTFT {}, slowest {}; median E2E latency {}.",
            found.ttft.len(),
            ms(half),
            ms(f64::from(*most)),
            ms(whole),
        ))
    });
    sentences.collect::<Vec<_>>().join(" ")
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
                let figures = shares.iter().map(|(_, share)| quantile(times(found), *share).into());
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
        /// A curve is monotonic and reaches 100 %, however few of its points are drawn.
        #[test]
        fn curve_reaches_all_requests(mut tenths in prop::collection::vec(1_u16..u16::MAX, 1..2000)) {
            tenths.sort_unstable();
            let times: Vec<f32> = tenths.into_iter().map(|tenths| f32::from(tenths) / 10.0).collect();
            let curve = curve(&times);
            prop_assert!(curve.len() <= MAX_POINTS + 2 * END_POINTS + 2);
            prop_assert!(curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
            prop_assert_eq!(curve.last().unwrap().1, Some(100.0));
        }
    }

    #[test]
    fn zero_times_count_but_are_not_drawn() {
        assert_eq!(curve(&[0.0, 0.0, 2.0, 4.0]), [(2.0, Some(75.0)), (4.0, Some(100.0))]);
        assert_eq!(curve(&[]), []);
        assert_eq!(
            (
                quantile(&[1.0, 2.0, 3.0], 0.5),
                quantile(&[1.0, 2.0, 3.0], 1.0),
                quantile(&[], 0.5)
            ),
            (Some(2.0), Some(3.0), None)
        );
    }
}
