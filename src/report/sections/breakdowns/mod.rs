//! Where memory goes: components, measured and estimated, with the source of each number, in sentences and as a table.

mod chart;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::memory::compare::Gib;
use crate::memory::{Breakdown, Component, Footprint, Part};
use crate::report::breakdown::detail_lines;
use crate::report::plot::{Entry, Sheet};
use crate::report::sections::format::rounded;
use crate::report::sections::memory::{Device, devices};
use crate::report::sections::{Section, Source};

/// A breakdown with its context.
struct BreakdownView<'a> {
    name: &'a str,
    footprint: Footprint,
    devices: Vec<Device>,
    /// Expected from the model's architecture, over all devices.
    estimate: Option<Breakdown>,
}

/// The sections. Unreadable breakdowns are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let found = source.found;
    let mut section = Section {
        name: "breakdown".to_owned(),
        title: "Where memory goes".to_owned(),
        ..Section::default()
    };
    for (index, (name, value)) in found.breakdowns.iter().enumerate() {
        let Ok(footprint) = serde_json::from_value::<Footprint>(value.clone()) else {
            missing.push(format!("skipped breakdown `{name}`: cannot be read"));
            continue;
        };
        let ids: Vec<&str> = footprint
            .per_gpu
            .iter()
            .map(|device| device.device.as_deref().unwrap_or_default())
            .collect();
        // Any start that used these devices recorded their capacity.
        let covers = |(_, usage): &&(String, Value)| {
            let listed = usage["peak"]["per_gpu"].as_array();
            listed.is_some_and(|listed| ids.iter().all(|id| listed.iter().any(|device| device["id"] == **id)))
        };
        let usage = found
            .stages
            .iter()
            .find(covers)
            .map_or(&Value::Null, |(_, usage)| usage);
        let view = BreakdownView {
            name,
            devices: devices(&ids, usage, None, &found.manifest),
            estimate: footprint.estimate(),
            footprint,
        };
        section.paragraphs.extend(details(&view, found.breakdowns.len() > 1));
        section.plots.push(chart::plot(&view, index, found.manifest.simulated));
    }
    match &section.plots[..] {
        [] => return Vec::new(),
        [only] => section.title.clone_from(&only.title),
        _ => {}
    }
    if found.manifest.simulated {
        section.paragraphs.insert(
            0,
            "SIMULATED: memory of a simulated engine; no GPU was measured.".to_owned(),
        );
    }
    vec![section]
}

/// The chart in words.
fn alt_text(view: &BreakdownView) -> String {
    let all = &view.footprint.all;
    let total = i64::try_from(all.total).unwrap_or(i64::MAX);
    let capacity: Option<u64> = view.devices.iter().map(|device| device.total).sum();
    let mut sentences = Vec::new();
    let of = capacity
        .filter(|&capacity| capacity > 0)
        .map_or_else(String::new, |capacity| {
            let share = 100.0 * all.total as f64 / capacity as f64;
            format!(", {share:.1} % of {}", Gib(i64::try_from(capacity).unwrap_or(i64::MAX)))
        });
    let devices = match view.devices.as_slice() {
        [one] => one.named(),
        several => format!("{} devices", several.len()),
    };
    sentences.push(format!("{} in use on {devices}{of}.", Gib(total)));
    let part = |part: &Part| {
        let share = 100.0 * part.bytes as f64 / all.total.max(1) as f64;
        let name = part.component.title();
        match part.within {
            Some(outer) => format!(
                "{name}, within {}, {} ({})",
                outer.title(),
                Gib(part.bytes),
                part.provenance
            ),
            None => format!("{name} {} ({share:.1} %, {})", Gib(part.bytes), part.provenance),
        }
    };
    let named = all.parts.iter().filter(|part| part.component != Component::Unexplained);
    sentences.push(format!("{}.", named.map(part).collect::<Vec<_>>().join("; ")));
    let left = all.unexplained();
    sentences.push(match left {
        0 => "Nothing is left unexplained.".to_owned(),
        below if below < 0 => format!("The parts exceed the total by {}.", Gib(-below)),
        above => format!("{} are left unexplained.", Gib(above)),
    });
    if let Some(overhead) = &view.footprint.overhead {
        sentences.push(format!(
            "{}: {} ({}).",
            overhead.title(),
            Gib(overhead.bytes),
            overhead.provenance
        ));
    }
    if let Some(estimate) = &view.estimate {
        let expected = i64::try_from(estimate.total).unwrap_or(i64::MAX);
        let percent = 100.0 * (total - expected) as f64 / expected.max(1) as f64;
        let pool = if all.part(Component::KvPool).is_some() {
            " (without the rest of the KV pool)"
        } else {
            ""
        };
        sentences.push(format!(
            "{} were expected from the model's architecture{pool}: {percent:+.1} %.",
            Gib(expected)
        ));
    }
    sentences.join(" ")
}

/// What the script recorded in words, and whether there is an estimate.
fn details(view: &BreakdownView, several: bool) -> Vec<String> {
    let mut texts = detail_lines(&view.footprint.details);
    // A script that could not make an estimate says why.
    let has_reason = view.footprint.details.get("estimate").is_some_and(Value::is_string);
    if view.estimate.is_none() && !has_reason {
        texts.push("no estimate was recorded (`architecture=true` makes one)".to_owned());
    }
    let own = if several {
        format!("{}: ", view.name)
    } else {
        String::new()
    };
    vec![format!("{own}{}.", texts.join("; "))]
}

/// With more devices than this, the table shows the lowest and the highest value instead of each.
const MAX_DEVICE_COLUMNS: usize = 4;

fn sheet(view: &BreakdownView) -> Sheet {
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
    Sheet::new(columns, rows)
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
