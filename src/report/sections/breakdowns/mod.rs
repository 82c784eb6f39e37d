//! Where memory goes: components, measured and estimated, with the source of each number, in sentences and as a table.

mod chart;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::fmt::Gib;
use crate::memory::{Breakdown, Component, Footprint};
use crate::report::breakdown::{detail_lines, finding, sheet};
use crate::report::sections::memory::{Device, devices_of};
use crate::report::sections::{Section, Source};

/// With more devices than this, the table shows the lowest and the highest value instead of each.
const MAX_DEVICE_COLUMNS: usize = 4;

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
        let view = BreakdownView {
            name,
            devices: devices_of(&ids, found),
            estimate: footprint.estimate(),
            footprint,
        };
        let several = found.breakdowns.len() > 1;
        let own = if several { format!("{name}: ") } else { String::new() };
        section.paragraphs.push(format!("{own}{}.", finding(&view.footprint)));
        section.paragraphs.push(format!("{own}{}.", details(&view)));
        let labels: Vec<String> = view
            .devices
            .iter()
            .map(|device| format!("{}, GiB", device.label))
            .collect();
        section
            .sheets
            .push(sheet(&view.footprint, &labels, MAX_DEVICE_COLUMNS).titled(if several { name } else { "" }));
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
    let mut sentences = vec![format!("{}.", finding(&view.footprint))];
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
    if let Some(estimate) = &view.estimate {
        let expected = i64::try_from(estimate.total).unwrap_or(i64::MAX);
        let percent = 100.0 * (total - expected) as f64 / expected.max(1) as f64;
        let pool = if all.part(Component::KvPool).is_some() {
            " (without the rest of the KV cache)"
        } else {
            ""
        };
        sentences.push(format!(
            "{} were expected from the model's architecture{pool}: {percent:+.1} %.",
            Gib(expected)
        ));
    }
    sentences.push("The table has every component with its source.".to_owned());
    sentences.join(" ")
}

/// What the script recorded in words, and whether there is an estimate.
fn details(view: &BreakdownView) -> String {
    let mut texts = detail_lines(&view.footprint.details);
    // A script that could not make an estimate says why.
    let has_reason = view.footprint.details.get("estimate").is_some_and(Value::is_string);
    if view.estimate.is_none() && !has_reason {
        texts.push("no estimate was recorded (`architecture=true` makes one)".to_owned());
    }
    texts.join("; ")
}
