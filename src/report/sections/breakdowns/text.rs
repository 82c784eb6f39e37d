//! A breakdown in sentences: total, components with their sources, and the difference from the estimate.

use serde_json::Value;

use super::BreakdownView;
use crate::memory::compare::Gib;
use crate::memory::{Component, Part};
use crate::report::breakdown::detail_lines;

/// The chart in words.
pub(super) fn alt_text(view: &BreakdownView) -> String {
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
pub(super) fn details(view: &BreakdownView, several: bool) -> Vec<String> {
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
