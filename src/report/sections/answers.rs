//! The list of answers at the top of a run's page, and its headline.

use serde_json::Value;

use super::boundaries::MAX_DRAWN;
use super::{RebuiltBoundary, Source, facts, reproduce};
use crate::memory::Footprint;
use crate::report::{Answer, Bytes, Extras, Fact};

/// Memory components named in an answer.
const MAX_NAMED: usize = 3;

/// All answers, most important first.
pub(super) fn answers(source: &Source) -> Vec<Fact> {
    let mut facts = Vec::new();
    let boundaries = source.boundaries().len();
    // With this many boundaries, individual recommendations are of no use.
    if boundaries > MAX_DRAWN {
        facts.push(Fact::new(
            "boundaries",
            format!("{boundaries}; the first {MAX_DRAWN} are drawn below, and the run's folder has the points of all"),
        ));
    }
    let few = source.boundaries().iter().filter(|_| boundaries <= MAX_DRAWN);
    for (number, boundary) in few.enumerate() {
        let several = boundaries > 1;
        // The boundary's own section reports a fault.
        let Some(answer) = answer(source, boundary) else {
            continue;
        };
        // The limit of the only boundary is the heading.
        let facts_of_it = answer.facts().into_iter().skip(usize::from(!several));
        facts.extend(facts_of_it.map(|fact| match several {
            true => Fact {
                term: format!("boundary {}: {}", number + 1, fact.term),
                ..fact
            },
            false => fact,
        }));
    }
    facts.extend(source.found.shown.iter().flat_map(|(value, _)| load_facts(value)));
    facts.extend(
        source
            .found
            .breakdowns
            .iter()
            .filter_map(|(name, value)| breakdown_fact(name, value)),
    );
    facts.extend(
        source
            .found
            .experiments
            .iter()
            .flat_map(|(name, value)| experiment_facts(name, value)),
    );
    facts.extend(reproduce::facts(source));
    facts
}

/// The result in one line. An unfinished run is marked as such.
pub(super) fn headline(source: &Source) -> String {
    match source.found.done() {
        true => summary_line(source),
        false => format!("Unfinished: {}", summary_line(source)),
    }
}

fn summary_line(source: &Source) -> String {
    let found = source.found;
    let on = match facts::cards(&found.manifest).as_slice() {
        [] => String::new(),
        cards => format!(" on {}", cards.join(", ")),
    };
    let of = match facts::models(&found.manifest).as_slice() {
        [] => on.clone(),
        models => format!(": {}{on}", models.join(", ")),
    };
    if source.boundaries().len() > MAX_DRAWN {
        return format!(
            "{} boundaries: {}{on}",
            source.boundaries().len(),
            found.manifest.script.name
        );
    }
    for boundary in source.boundaries() {
        if let Some(answer) = answer(source, boundary) {
            return format!("{}{of}", answer.limit);
        }
    }
    if let Some(text) = found.shown.iter().find_map(|(value, _)| load_headline(value)) {
        return format!("{text}{of}");
    }
    if let Some((name, _)) = found.experiments.first() {
        return format!("{name}{of}");
    }
    if let Some((name, value)) = found.breakdowns.first() {
        let total = value["all"]["total"]
            .as_u64()
            .map_or_else(String::new, |total| format!(" holds {}", Bytes(total)));
        return format!("{name}{total}{of}");
    }
    format!("{}{of}", found.manifest.script.name)
}

/// The answer of a boundary; none if it cannot be read or nothing was tested.
fn answer(source: &Source, boundary: &RebuiltBoundary) -> Option<Answer> {
    let rebuilt = boundary.boundary.as_ref().ok()?;
    let found = source.found;
    let extras = Extras {
        report: boundary.report.cloned(),
        stopped: (!found.done()).then(|| found.ended()),
        script: found.manifest.script.path.clone(),
        simulated: found.manifest.simulated,
    };
    (rebuilt.records().len() > 0).then(|| extras.answer(rebuilt).ok())?
}

/// The knee of a sweep, or the level that meets the SLO.
fn load_headline(value: &Value) -> Option<String> {
    let sweep = &value["workloads"][0];
    if let (Some(axis), Some(at), Some(height)) = (
        sweep["axis"].as_str(),
        sweep["knee"]["x"].as_f64(),
        sweep["knee"]["y"].as_f64(),
    ) {
        return Some(format!("{height:.0} output tokens/s at {axis} {at}, the knee"));
    }
    let (axis, meets) = (value["axis"].as_str()?, value["meets"].as_f64()?);
    value["slo"]
        .is_object()
        .then(|| format!("{axis} {meets} meets the limits"))
}

/// Facts from the values that `throughput` and `slo` showed.
fn load_facts(value: &Value) -> Vec<Fact> {
    let mut facts = Vec::new();
    for sweep in value["workloads"].as_array().into_iter().flatten() {
        let name = sweep["name"].as_str().unwrap_or("throughput");
        let axis = sweep["axis"].as_str().unwrap_or("level");
        let knee = &sweep["knee"];
        if let (Some(at), Some(height)) = (knee["x"].as_f64(), knee["y"].as_f64()) {
            facts.push(Fact::new(
                &format!("knee of {name}"),
                format!("{axis} {at}: {height:.0} output tokens/s"),
            ));
        } else if knee.is_null() {
            facts.push(Fact::new(&format!("knee of {name}"), "none within these levels"));
        }
        if let Some(first) = sweep["preemption"]["first_with"].as_f64() {
            facts.push(Fact::new("preemption", format!("from {axis} {first} on")));
        }
        if let Some(cheapest) = sweep["cheapest"].as_f64() {
            facts.push(Fact::new("cheapest", format!("{axis} {cheapest}")));
        }
    }
    if let Some(limits) = value["slo"].as_object() {
        let axis = value["axis"].as_str().unwrap_or("level");
        let limits: Vec<String> = limits.iter().map(|(name, limit)| format!("{name} ≤ {limit}")).collect();
        let share = value["attainment"]
            .as_f64()
            .map_or_else(String::new, |share| format!(" in {} % of the requests", 100.0 * share));
        let limits = format!("{}{share}", limits.join(", "));
        facts.push(Fact::new(
            "meets the limits",
            match value["meets"].as_f64() {
                Some(level) => format!("{axis} {level} meets {limits}"),
                None => format!("no {axis} was shown to meet {limits}"),
            },
        ));
        if let Some(level) = value["fails"].as_f64() {
            facts.push(Fact::new("fails them", format!("{axis} {level}")));
        }
    }
    facts
}

fn breakdown_fact(name: &str, value: &Value) -> Option<Fact> {
    let footprint: Footprint = serde_json::from_value(value.clone()).ok()?;
    let mut parts: Vec<_> = footprint
        .all
        .parts
        .iter()
        .filter(|part| part.within.is_none() && part.bytes > 0)
        .collect();
    parts.sort_by_key(|part| -part.bytes);
    let bytes = |bytes: i64| Bytes(u64::try_from(bytes).unwrap_or(0)).to_string();
    let parts: Vec<String> = parts
        .iter()
        .take(MAX_NAMED)
        .map(|part| format!("{} {}", part.component.title(), bytes(part.bytes)))
        .collect();
    Some(Fact::new(
        &format!("memory of {name}"),
        format!("{}: {}", Bytes(footprint.all.total), parts.join(", ")),
    ))
}

fn experiment_facts(name: &str, value: &Value) -> Vec<Fact> {
    let conclusions = value["conclusions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    conclusions.map(|conclusion| Fact::new(name, conclusion)).collect()
}
