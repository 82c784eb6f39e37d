//! A breakdown in sentences: how much, of what, how it is known, and how far from what was expected.

use serde_json::Value;

use super::Told;
use crate::memory::compare::Gib;
use crate::memory::{Component, Part};
use crate::report::breakdown::said;

/// All that matters of a breakdown: what is read aloud in the place of its picture.
pub(super) fn breakdown(told: &Told) -> String {
    let all = &told.footprint.all;
    let total = i64::try_from(all.total).unwrap_or(i64::MAX);
    let there: Option<u64> = told.devices.iter().map(|device| device.total).sum();
    let mut sentences = Vec::new();
    let of = there.filter(|&there| there > 0).map_or_else(String::new, |there| {
        let share = 100.0 * all.total as f64 / there as f64;
        format!(", {share:.1} % of {}", Gib(i64::try_from(there).unwrap_or(i64::MAX)))
    });
    let devices = match told.devices.as_slice() {
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
        below if below < 0 => format!("The parts say {} more than is there.", Gib(-below)),
        above => format!("{} are left unexplained.", Gib(above)),
    });
    if let Some(overhead) = &told.footprint.overhead {
        sentences.push(format!(
            "{}: {} ({}).",
            overhead.title(),
            Gib(overhead.bytes),
            overhead.provenance
        ));
    }
    if let Some(estimate) = &told.estimate {
        let expected = i64::try_from(estimate.total).unwrap_or(i64::MAX);
        let apart = 100.0 * (total - expected) as f64 / expected.max(1) as f64;
        let pool = if all.part(Component::KvPool).is_some() {
            ", without what the engine sets aside for more sequences"
        } else {
            ""
        };
        sentences.push(format!(
            "By the model's architecture {} were expected{pool}: {apart:+.1} %.",
            Gib(expected)
        ));
    }
    sentences.join(" ")
}

/// What the script says of it in words of its own, and whether there is an estimate.
pub(super) fn details(told: &Told, several: bool) -> Vec<String> {
    let mut texts = said(&told.footprint.details);
    // A script that could not make one says why.
    let said = told.footprint.details.get("estimate").is_some_and(Value::is_string);
    if told.estimate.is_none() && !said {
        texts.push("no estimate was recorded to hold it against (`architecture=true` makes one)".to_owned());
    }
    let own = if several {
        format!("{}: ", told.name)
    } else {
        String::new()
    };
    vec![format!("{own}{}.", texts.join("; "))]
}
