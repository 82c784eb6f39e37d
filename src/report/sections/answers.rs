//! The list of answers at the top of a run's page, and its headline.

use serde_json::Value;

use super::boundaries::MAX_DRAWN;
use super::evidence::nearest_failure;
use super::{Fact, Source, facts, reproduce};
use crate::boundary::{Boundary, Point};
use crate::fault::Result;
use crate::memory::Footprint;
use crate::report::summary::nothing_fits;
use crate::report::{Advice, Bytes, Count, Extras, advise};

/// Frontier points, or memory components, named in an answer.
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
        let own = match &boundary.boundary {
            Ok(rebuilt) => boundary_facts(rebuilt, boundary.report, source.found.manifest.simulated),
            // The boundary's own section reports the fault.
            Err(_) => continue,
        };
        facts.extend(own.unwrap_or_default().into_iter().map(|fact| match several {
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
        true => summary_line(source, "fits"),
        false => format!("Unfinished: {}", summary_line(source, "fits, so far")),
    }
}

fn summary_line(source: &Source, fits: &str) -> String {
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
        let Ok(rebuilt) = &boundary.boundary else { continue };
        match advise(rebuilt) {
            Ok(Some(Advice { recommended, .. })) => return format!("{recommended} {fits}{of}"),
            Ok(None) if found.nothing_fits() => return format!("Nothing is known to fit{of}"),
            _ => {}
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

fn boundary_facts(boundary: &Boundary, report: Option<&Value>, simulated: bool) -> Result<Vec<Fact>> {
    let extras = Extras::from_report(report, simulated);
    let mut facts = Vec::new();
    let Some(Advice { safe, recommended }) = advise(boundary)? else {
        if boundary.records().len() > 0 {
            facts.push(Fact::new("what fits", nothing_fits(boundary)));
        }
        return Ok(facts);
    };
    let reason = if recommended == safe {
        "it fits; no slightly smaller point is in the search range".to_owned()
    } else {
        format!("5 % below {safe}, which was tested and fits")
    };
    facts.push(Fact::new("recommended", format!("{recommended} ({reason})")));
    let ends: Vec<Point> = boundary
        .frontier()?
        .into_iter()
        .filter(|point| *point != safe)
        .collect();
    let others = match ends.as_slice() {
        [] => String::new(),
        ends => {
            let step = |number: usize| number * (ends.len() - 1) / (MAX_NAMED - 1);
            let mut named: Vec<String> = (0..MAX_NAMED).map(|number| ends[step(number)].to_string()).collect();
            named.dedup();
            format!(
                "; also on the frontier ({}): {}",
                Count(ends.len() + 1, "point"),
                named.join("; ")
            )
        }
    };
    facts.push(Fact::new("largest seen to fit", format!("{safe}{others}")));
    facts.push(match nearest_failure(boundary, &safe) {
        Some(near) => Fact::new("why not more", near.sentence()),
        None => Fact::new("why not more", "nothing failed: every tested limit fits"),
    });
    if !extras.flags.is_empty() {
        facts.push(Fact::code("flags", extras.flags.join(" ")));
    }
    if let Some(headroom) = extras.headroom {
        facts.push(Fact::new(
            "headroom",
            format!("{} of memory left at {safe}", Bytes(headroom)),
        ));
    }
    Ok(facts)
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
