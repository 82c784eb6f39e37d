//! Tables of a boundary: all probes, the frontier, and predictions.

use std::collections::{HashMap, HashSet};

use super::probes::{Probe, ProbeClass, Probes};
use crate::boundary::{Boundary, Point, PredictedCrossing};
use crate::report::plot::{Entry, Panel, Sheet};

/// Maximum number of frontier points listed.
const MAX_LISTED: usize = 200;

/// All probes. Those on panels come first and in panel order, so that the page stores them once.
pub(super) fn probes(probes: &Probes, panels: &[Panel]) -> Sheet {
    let number = |entries: &[Entry]| match entries.first() {
        Some(Entry::Number(number)) => number.to_bits(),
        _ => 0,
    };
    let spots = || panels.iter().flat_map(|panel| &panel.spots.spots);
    let drawn: HashSet<u64> = spots().map(|spot| number(&spot.entries)).collect();
    let others = probes
        .list
        .iter()
        .filter(|probe| !drawn.contains(&number(&probe.entries)));
    let rows = spots().map(|spot| spot.entries.clone());
    Sheet {
        title: "Every probe".to_owned(),
        columns: probes.columns.clone(),
        rows: rows.chain(others.map(|probe| probe.entries.clone())).collect(),
    }
}

/// The frontier and the predictions.
pub(super) fn sheets(boundary: &Boundary, probes: &Probes) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    let frontier = boundary.frontier().unwrap_or_default();
    if !frontier.is_empty() {
        sheets.push(largest(boundary, probes, &frontier));
    }
    let places = boundary.predicted().unwrap_or_default();
    if !places.is_empty() {
        sheets.push(predicted(&places));
    }
    sheets
}

/// The largest points that fit, with their measurements.
fn largest(boundary: &Boundary, probes: &Probes, frontier: &[Point]) -> Sheet {
    let axes = boundary.lattice().axis_names();
    let fitting = probes.list.iter().filter(|probe| probe.class == ProbeClass::Fits);
    let by_name: HashMap<&str, &Probe> = fitting.map(|probe| (probe.name.as_str(), probe)).collect();
    let measured = |column: &&(usize, &String)| column.1.contains(", ") || column.1.as_str() == "probe";
    let columns: Vec<(usize, &String)> = probes.columns.iter().enumerate().collect();
    let columns: Vec<&(usize, &String)> = columns.iter().filter(measured).collect();
    let shown = frontier.len().min(MAX_LISTED);
    let spread = (0..shown).map(|number| &frontier[number * (frontier.len() - 1) / (shown - 1).max(1)]);
    let rows = spread.map(|point| {
        let probe = by_name.get(point.to_string().as_str());
        let own = axes
            .iter()
            .map(|name| Entry::from(point.0.get(*name).map(|value| value.as_f64())));
        let more = columns
            .iter()
            .map(|(at, _)| probe.map_or(Entry::None, |probe| probe.entries[*at].clone()));
        own.chain(more).collect()
    });
    let title = if shown < frontier.len() {
        format!("The largest points that fit: {shown} of {}", frontier.len())
    } else {
        "The largest points that fit".to_owned()
    };
    Sheet {
        title,
        rows: rows.collect(),
        columns: axes
            .iter()
            .map(|name| (*name).to_owned())
            .chain(columns.iter().map(|(_, name)| (*name).clone()))
            .collect(),
    }
}

fn predicted(places: &[PredictedCrossing]) -> Sheet {
    let row = |place: &PredictedCrossing| {
        vec![
            place.low.to_string().into(),
            place.expected.to_string().into(),
            place
                .high
                .as_ref()
                .map_or_else(|| "beyond the search range".to_owned(), Point::to_string)
                .into(),
        ]
    };
    Sheet {
        title: "PredictedCrossing, not proven: where the boundary runs on rays from the easiest corner".to_owned(),
        columns: ["fits at least at", "likely up to", "fails at the latest at"]
            .map(str::to_owned)
            .to_vec(),
        rows: places.iter().map(row).collect(),
    }
}
