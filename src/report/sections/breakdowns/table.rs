//! The table of a breakdown: bytes of each component by device, their source, and the difference from the estimate.

use super::BreakdownView;
use crate::memory::{Breakdown, Component};
use crate::report::plot::{Entry, Sheet};
use crate::report::sections::memory::rounded;

/// With more devices than this, the table shows the lowest and the highest value instead of each.
const MAX_DEVICE_COLUMNS: usize = 4;

pub(super) fn sheet(view: &BreakdownView) -> Sheet {
    let footprint = &view.footprint;
    let devices: Vec<(String, Vec<&Breakdown>)> = match footprint.per_gpu.len() {
        0 | 1 => Vec::new(),
        some if some <= MAX_DEVICE_COLUMNS => {
            let named = view.devices.iter().zip(&footprint.per_gpu);
            named
                .map(|(device, breakdown)| (device.label.clone(), vec![breakdown]))
                .collect()
        }
        _ => {
            let all: Vec<&Breakdown> = footprint.per_gpu.iter().collect();
            vec![("lowest".to_owned(), all.clone()), ("highest".to_owned(), all)]
        }
    };
    let mut columns = vec!["component".to_owned(), "GiB".to_owned()];
    columns.extend(devices.iter().map(|(name, _)| format!("{name}, GiB")));
    columns.extend(["share, %", "source"].map(str::to_owned));
    if view.estimate.is_some() {
        columns.extend(["estimate, GiB", "difference, GiB", "difference, %"].map(str::to_owned));
    }
    columns.push("details".to_owned());

    let of_device = |(name, breakdowns): &(String, Vec<&Breakdown>), bytes: &dyn Fn(&Breakdown) -> Option<i64>| {
        let known = breakdowns.iter().filter_map(|breakdown| bytes(breakdown));
        let chosen = if name == "lowest" { known.min() } else { known.max() };
        Entry::from(chosen.map(gib))
    };
    let expected = |bytes: i64, expected: Option<i64>| -> Vec<Entry> {
        if view.estimate.is_none() {
            return Vec::new();
        }
        let difference = expected.map(|expected| bytes - expected);
        let share = expected
            .filter(|&expected| expected > 0)
            .map(|expected| percent(bytes - expected, expected));
        vec![expected.map(gib).into(), difference.map(gib).into(), share.into()]
    };
    let mut rows = Vec::new();
    let total = i64::try_from(footprint.all.total).unwrap_or(i64::MAX);
    for component in Component::ALL {
        let part = footprint.all.part(component);
        let estimate = view.estimate.as_ref().and_then(|estimate| estimate.part(component));
        // An estimate has no unexplained rest to compare.
        let estimate = estimate.filter(|part| component != Component::Unexplained || part.bytes != 0);
        let Some(part) = part else {
            if let Some(estimate) = estimate {
                let mut row: Vec<Entry> = vec![component.title().into(), Entry::None];
                row.extend(devices.iter().map(|_| Entry::None));
                row.extend([Entry::None, Entry::None]);
                row.extend([gib(estimate.bytes).into(), Entry::None, Entry::None]);
                row.push(format!("estimate ({}): {}", estimate.provenance, estimate.source).into());
                rows.push(row);
            }
            continue;
        };
        let title = match part.within {
            Some(outer) => format!("{} (within {})", component.title(), outer.title()),
            None => component.title().to_owned(),
        };
        let mut row: Vec<Entry> = vec![title.into(), gib(part.bytes).into()];
        let own = |breakdown: &Breakdown| breakdown.part(component).map(|part| part.bytes);
        row.extend(devices.iter().map(|device| of_device(device, &own)));
        row.push(part.within.is_none().then(|| percent(part.bytes, total)).into());
        row.push(part.provenance.to_string().into());
        row.extend(expected(part.bytes, estimate.map(|part| part.bytes)));
        row.push(part.source.as_str().into());
        rows.push(row);
    }
    let mut row: Vec<Entry> = vec!["physical".into(), gib(total).into()];
    let whole = |breakdown: &Breakdown| i64::try_from(breakdown.total).ok();
    row.extend(devices.iter().map(|device| of_device(device, &whole)));
    row.extend([100.0.into(), "measured".into()]);
    let estimated = view
        .estimate
        .as_ref()
        .and_then(|estimate| i64::try_from(estimate.total).ok());
    row.extend(expected(total, estimated));
    row.push("total in use, by all processes, at the moment of the breakdown".into());
    rows.push(row);
    if let Some(overhead) = &footprint.overhead {
        let mut row: Vec<Entry> = vec![overhead.title().into(), gib(overhead.bytes).into()];
        row.extend(devices.iter().map(|_| Entry::None));
        row.extend([
            percent(overhead.bytes, total).into(),
            overhead.provenance.to_string().into(),
        ]);
        row.extend(
            view.estimate
                .iter()
                .flat_map(|_| [Entry::None, Entry::None, Entry::None]),
        );
        row.push(overhead.source.as_str().into());
        rows.push(row);
    }
    Sheet {
        title: String::new(),
        columns,
        rows,
    }
}

fn percent(bytes: i64, of: i64) -> f64 {
    // Adding 0.0 turns -0.0 into 0.0.
    rounded(100.0 * bytes as f64 / of.max(1) as f64, 1) + 0.0
}

/// Signed GiB, rounded.
fn gib(bytes: i64) -> f64 {
    let gib = bytes as f64 / f64::from(1 << 30);
    rounded(gib, if gib.abs() < 0.1 { 4 } else { 2 }) + 0.0
}
