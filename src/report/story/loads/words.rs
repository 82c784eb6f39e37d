//! What a sweep says in sentences, with the figures that matter.

use super::axes::begins;
use super::findings::Findings;
use super::load::Load;
use super::say::{list, ms, number};
use super::sweep::{Along, Point, Sweep};
use crate::load::Summary;
use crate::load::joined::Knee;

/// The whole, a paragraph each: throughput and its knee, latencies, preemption and queues.
pub(super) fn sweep(sweep: &Sweep, findings: &Findings) -> Vec<String> {
    let told = [
        throughput(sweep, findings.knee),
        latencies(sweep, findings.knee),
        late(sweep),
        pressure(sweep, findings),
    ];
    told.into_iter().flatten().collect()
}

/// `with 64 at once`, `at 2 requests/s`.
fn at(level: f64, along: Along) -> String {
    let with = if along == Along::Rate { "at" } else { "with" };
    format!("{with} {}{}", number(level), along.behind())
}

fn throughput(sweep: &Sweep, knee: Option<Knee>) -> Option<String> {
    let curve = sweep.throughput();
    let (first, last) = (curve.first()?, curve.last()?);
    let best = curve
        .iter()
        .copied()
        .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let along = sweep.along;
    let rises = |to: (f64, f64)| {
        format!(
            "Output throughput rises from {} tokens/s {} to {} {}",
            number(first.1),
            at(first.0, along),
            number(to.1),
            at(to.0, along)
        )
    };
    Some(match knee {
        Some(knee) if knee.x < last.0 => {
            let bracket = if knee.low < knee.high {
                format!(
                    ", which the figures place between {} and {}",
                    number(knee.low),
                    number(knee.high)
                )
            } else {
                String::new()
            };
            let beyond = if best.0 > knee.x && best.1 > knee.y {
                format!("beyond it, it reaches {} {}", number(best.1), at(best.0, along))
            } else {
                format!(
                    "beyond it, it does not rise, and is {} {}",
                    number(last.1),
                    at(last.0, along)
                )
            };
            format!("{}, the knee{bracket}; {beyond}.", rises((knee.x, knee.y)))
        }
        _ if best.0 == first.0 => format!(
            "Output throughput is highest at the lowest level, {} tokens/s {}, and {} {}.",
            number(first.1),
            at(first.0, along),
            number(last.1),
            at(last.0, along)
        ),
        _ => {
            let end = if best.0 == last.0 {
                "the highest level asked: no knee is seen, and more may bring more".to_owned()
            } else {
                format!(
                    "and is {} {}; no knee can be told from the noise",
                    number(last.1),
                    at(last.0, along)
                )
            };
            format!("{}, {end}.", rises(best))
        }
    })
}

/// A latency of a load.
type Latency = fn(&Load) -> &Summary;

/// The highest percentile that a level supports, by its name.
fn tail(level: &Point, latency: Latency) -> Option<(&'static str, f64)> {
    type Percentile = fn(&Summary) -> Option<f64>;
    let percentiles: [(&str, Percentile); 4] = [
        ("p99", |one| one.p99),
        ("p95", |one| one.p95),
        ("p90", |one| one.p90),
        ("p50", |one| one.p50),
    ];
    percentiles
        .into_iter()
        .find_map(|(name, of)| Some((name, level.mean(|load| of(latency(load)))?)))
}

/// Medians at the lowest level, at the knee and at the highest, what is waited for first first.
fn latencies(sweep: &Sweep, knee: Option<Knee>) -> Option<String> {
    let (first, last) = (sweep.levels.first()?, sweep.levels.last()?);
    let knee = knee.and_then(|knee| sweep.levels.iter().find(|level| level.at == knee.x));
    let mut chosen: Vec<&Point> = vec![first];
    chosen.extend(knee.filter(|level| level.at != first.at && level.at != last.at));
    chosen.push(last);
    let kinds: [(&str, Latency); 3] = [
        ("The first token comes, in the median, after", |load| &load.ttft),
        ("each further token after", |load| &load.tpot),
        ("the whole answer after", |load| &load.e2el),
    ];
    let told = kinds.into_iter().filter_map(|(what, latency)| {
        let each = chosen.iter().filter_map(|level| {
            let half = level.mean(|load| latency(load).p50)?;
            let tail = tail(level, latency).filter(|(name, _)| *name != "p50");
            let tail = tail.map_or_else(String::new, |(name, time)| format!(" ({name} {})", ms(time)));
            Some(format!("{}{tail} {}", ms(half), at(level.at, sweep.along)))
        });
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| format!("{what} {}", list(&each)))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("{}.", told.join("; ")))
}

/// At a rate, how much longer a first token took from when its request was due: the client was late, or a limit of requests at once held it back.
fn late(sweep: &Sweep) -> Option<String> {
    let waited = sweep.levels.iter().filter_map(|level| {
        let sent = level.mean(|load| load.ttft.p50)?;
        let due = level.mean(|load| load.due_ttft.p50)?;
        (due > 1.05 * sent && sweep.along == Along::Rate).then_some((level.at, due))
    });
    let (worst, due) = waited.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "Requests were not always sent when they were due: counted from then, half have their first token {} in {}.",
        at(worst, sweep.along),
        ms(due)
    ))
}

fn pressure(sweep: &Sweep, findings: &Findings) -> Option<String> {
    let along = sweep.along;
    let known = sweep
        .levels
        .iter()
        .any(|level| level.sum(|load| load.preemptions).is_some());
    let preemption = match &findings.preemption {
        Some(onset) => Some(format!("Preemption begins {}.", begins(onset, along))),
        None if known => Some("Nothing is preempted at any level.".to_owned()),
        None => None,
    };
    let queue = findings
        .queue
        .as_ref()
        .map(|onset| format!("More arrives than is served from a rate {}.", begins(onset, along)));
    let told: Vec<String> = preemption.into_iter().chain(queue).collect();
    (!told.is_empty()).then(|| told.join(" "))
}

/// One load that has no others beside it.
pub(super) fn alone(level: &Point, along: Along) -> Option<String> {
    let load = level.loads.first()?;
    let asked = if along == Along::Nothing {
        String::new()
    } else {
        format!(" {}", at(level.at, along))
    };
    let tokens = level
        .mean(|load| load.output_throughput)
        .map(|tokens| format!(": {} output tokens/s", number(tokens)));
    let mut told = vec![format!(
        "{} of {} requests{asked} completed{}.",
        number(level.sum(|load| Some(load.completed))?),
        number(level.sum(|load| Some(load.issued))?),
        tokens.unwrap_or_default()
    )];
    if let Some(half) = load.ttft.p50 {
        let tail = tail(level, |load| &load.ttft).filter(|(name, _)| *name != "p50");
        let tail = tail.map_or_else(String::new, |(name, time)| format!(" ({name}: {})", ms(time)));
        told.push(format!("Half had their first token within {}{tail}.", ms(half)));
    }
    if let Some(preemptions) = load.preemptions.filter(|count| *count > 0) {
        told.push(format!("There were {preemptions} preemptions."));
    }
    Some(told.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(at: f64, tokens: f64, first: f64, preemptions: u64) -> Point {
        let latency = |half| Summary {
            p50: Some(half),
            p90: Some(2.0 * half),
            ..Summary::default()
        };
        Point {
            at,
            loads: vec![Load {
                output_throughput: Some(tokens),
                ttft: latency(first),
                preemptions: Some(preemptions),
                ..Load::default()
            }],
        }
    }

    #[test]
    fn the_knee_is_told_with_what_it_costs() {
        let levels = vec![
            level(1.0, 20.0, 10.0, 0),
            level(32.0, 640.0, 40.0, 0),
            level(64.0, 641.0, 900.0, 5),
        ];
        let sweep = Sweep {
            name: String::new(),
            along: Along::Concurrency,
            common: serde_json::Map::new(),
            levels,
        };
        let knee = Knee {
            x: 32.0,
            y: 640.0,
            low: 32.0,
            high: 32.0,
            distance: 0.5,
        };
        let onset = crate::load::joined::onset(&[(32.0, false), (64.0, true)]);
        let findings = Findings {
            knee: Some(knee),
            preemption: onset,
            ..Findings::default()
        };
        let text = super::sweep(&sweep, &findings);
        assert_eq!(
            text,
            [
                "Output throughput rises from 20 tokens/s with 1 at once to 640 with 32 at once, the knee; beyond it, it reaches 641 with 64 at once.",
                "The first token comes, in the median, after 10 ms (p90 20 ms) with 1 at once, 40 ms (p90 80 ms) with 32 at once and 900 ms (p90 1.80 s) with \
                 64 at once.",
                "Preemption begins between 32 and 64 at once."
            ]
        );
        let text = super::sweep(&sweep, &Findings::default());
        assert!(text[0].contains("the highest level asked: no knee is seen"), "{text:?}");
        assert_eq!(text[2], "Nothing is preempted at any level.");
    }
}
