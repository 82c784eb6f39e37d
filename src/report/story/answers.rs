//! What was found, in sentences: what somebody asks first who opens the page.

use serde_json::Value;

use super::boundaries::DRAWN;
use super::neighbour::neighbour;
use super::{Fact, Source, facts, repeat};
use crate::boundary::{Boundary, Point};
use crate::fault::Result;
use crate::memory::Footprint;
use crate::report::summary::nothing;
use crate::report::{Advice, Bytes, Count, Extras, advise};

/// Further ends of the frontier that are named.
const ENDS: usize = 3;

/// The most wanted first.
pub(super) fn answers(source: &Source) -> Vec<Fact> {
    let mut told = Vec::new();
    let boundaries = source.boundaries().len();
    // The recommendations of so many answer no question that anybody has.
    if boundaries > DRAWN {
        told.push(Fact::told(
            "boundaries",
            format!("{boundaries}, of which the first {DRAWN} are drawn below; the run's folder has the points of all"),
        ));
    }
    let few = source.boundaries().iter().filter(|_| boundaries <= DRAWN);
    for (number, boundary) in few.enumerate() {
        let several = boundaries > 1;
        let facts = match &boundary.rebuilt {
            Ok(rebuilt) => of_boundary(rebuilt, boundary.report, source.found.manifest.simulated),
            // The part that draws it tells what is missing.
            Err(_) => continue,
        };
        told.extend(facts.unwrap_or_default().into_iter().map(|fact| match several {
            true => Fact {
                term: format!("boundary {}: {}", number + 1, fact.term),
                ..fact
            },
            false => fact,
        }));
    }
    told.extend(source.found.shown.iter().flat_map(|(value, _)| of_load(value)));
    told.extend(
        source
            .found
            .breakdowns
            .iter()
            .filter_map(|(name, value)| of_breakdown(name, value)),
    );
    told.extend(
        source
            .found
            .experiments
            .iter()
            .flat_map(|(name, value)| of_experiment(name, value)),
    );
    told.extend(repeat::facts(source));
    told
}

/// What was found, in one line; of a run that did not come to its end, it says so first.
pub(super) fn headline(source: &Source) -> String {
    match source.found.done() {
        true => found_of(source, "fits"),
        false => format!("Unfinished: {}", found_of(source, "fits, so far")),
    }
}

fn found_of(source: &Source, fits: &str) -> String {
    let found = source.found;
    let on = match facts::cards(&found.manifest).as_slice() {
        [] => String::new(),
        cards => format!(" on {}", cards.join(", ")),
    };
    let of = match facts::models(&found.manifest).as_slice() {
        [] => on.clone(),
        models => format!(": {}{on}", models.join(", ")),
    };
    if source.boundaries().len() > DRAWN {
        return format!(
            "{} boundaries: {}{on}",
            source.boundaries().len(),
            found.manifest.script.name
        );
    }
    for boundary in source.boundaries() {
        let Ok(rebuilt) = &boundary.rebuilt else { continue };
        match advise(rebuilt) {
            Ok(Some(Advice { recommended, .. })) => return format!("{recommended} {fits}{of}"),
            Ok(None) if found.nothing_fits() => return format!("Nothing is known to fit{of}"),
            _ => {}
        }
    }
    if let Some(told) = found.shown.iter().find_map(|(value, _)| level(value)) {
        return format!("{told}{of}");
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

/// The knee of a sweep, or the level that meets the limits of latency.
fn level(value: &Value) -> Option<String> {
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

fn of_boundary(boundary: &Boundary, report: Option<&Value>, simulated: bool) -> Result<Vec<Fact>> {
    let extras = Extras::of(report, simulated);
    let mut told = Vec::new();
    let Some(Advice { safe, recommended }) = advise(boundary)? else {
        if boundary.records().len() > 0 {
            told.push(Fact::told("what fits", nothing(boundary)));
        }
        return Ok(told);
    };
    let less = if recommended == safe {
        "it fits; nothing a little smaller is in the box".to_owned()
    } else {
        format!("5 % less than {safe}, which was seen to fit")
    };
    told.push(Fact::told("recommended", format!("{recommended} ({less})")));
    let ends: Vec<Point> = boundary
        .frontier()?
        .into_iter()
        .filter(|point| *point != safe)
        .collect();
    let also = match ends.as_slice() {
        [] => String::new(),
        ends => {
            let step = |number: usize| number * (ends.len() - 1) / (ENDS - 1);
            let mut named: Vec<String> = (0..ENDS).map(|number| ends[step(number)].to_string()).collect();
            named.dedup();
            format!(
                "; also, among {} of the frontier, {}",
                Count(ends.len() + 1, "point"),
                named.join("; ")
            )
        }
    };
    told.push(Fact::told("largest seen to fit", format!("{safe}{also}")));
    told.push(match neighbour(boundary, &safe) {
        Some(near) => Fact::told("why not more", near.sentence()),
        None => Fact::told("why not more", "nothing failed: the limits that were asked about fit"),
    });
    if !extras.flags.is_empty() {
        told.push(Fact::typed("flags", extras.flags.join(" ")));
    }
    if let Some(headroom) = extras.headroom {
        told.push(Fact::told(
            "headroom",
            format!("{} of memory left at {safe}", Bytes(headroom)),
        ));
    }
    Ok(told)
}

/// Sweeps and limits of latency, as throughput and slo show them.
fn of_load(value: &Value) -> Vec<Fact> {
    let mut told = Vec::new();
    for sweep in value["workloads"].as_array().into_iter().flatten() {
        let name = sweep["name"].as_str().unwrap_or("throughput");
        let axis = sweep["axis"].as_str().unwrap_or("level");
        let knee = &sweep["knee"];
        if let (Some(at), Some(height)) = (knee["x"].as_f64(), knee["y"].as_f64()) {
            told.push(Fact::told(
                &format!("knee of {name}"),
                format!("{axis} {at}: {height:.0} output tokens/s"),
            ));
        } else if knee.is_null() {
            told.push(Fact::told(&format!("knee of {name}"), "none within these levels"));
        }
        if let Some(first) = sweep["preemption"]["first_with"].as_f64() {
            told.push(Fact::told("preemption", format!("from {axis} {first} on")));
        }
        if let Some(cheapest) = sweep["cheapest"].as_f64() {
            told.push(Fact::told("cheapest", format!("{axis} {cheapest}")));
        }
    }
    if let Some(limits) = value["slo"].as_object() {
        let axis = value["axis"].as_str().unwrap_or("level");
        let limits: Vec<String> = limits.iter().map(|(name, limit)| format!("{name} ≤ {limit}")).collect();
        let share = value["attainment"]
            .as_f64()
            .map_or_else(String::new, |share| format!(" in {} % of the requests", 100.0 * share));
        let limits = format!("{}{share}", limits.join(", "));
        told.push(Fact::told(
            "meets the limits",
            match value["meets"].as_f64() {
                Some(level) => format!("{axis} {level} meets {limits}"),
                None => format!("no {axis} was shown to meet {limits}"),
            },
        ));
        if let Some(level) = value["fails"].as_f64() {
            told.push(Fact::told("fails them", format!("{axis} {level}")));
        }
    }
    told
}

fn of_breakdown(name: &str, value: &Value) -> Option<Fact> {
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
        .take(ENDS)
        .map(|part| format!("{} {}", part.component.title(), bytes(part.bytes)))
        .collect();
    Some(Fact::told(
        &format!("memory of {name}"),
        format!("{}: {}", Bytes(footprint.all.total), parts.join(", ")),
    ))
}

fn of_experiment(name: &str, value: &Value) -> Vec<Fact> {
    let conclusions = value["conclusions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    conclusions.map(|conclusion| Fact::told(name, conclusion)).collect()
}
