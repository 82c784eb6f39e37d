//! Load: throughput and latency along concurrency or rate, the distribution of latencies, and what the engine did meanwhile.
//!
//! `load` reads one load, `sweep` puts those together that differ only in their level, `findings` says what they together say (the knee, preemption, queues).
//! Pictures: `curves`, `trade`, `costs`, `pressure` and `objectives` of a sweep, `distribution` and `timeline` of single loads from the files of the run's folder,
//! `beside` of several sweeps.

mod axes;
mod beside;
mod costs;
mod curves;
mod distribution;
mod doubts;
mod figures;
mod files;
mod findings;
mod load;
mod objectives;
mod pressure;
mod requests;
mod say;
mod sweep;
mod timeline;
mod trade;
mod words;

use super::{Part, Source};
use crate::report::plot::Plot;

pub(super) use findings::Findings;
pub(super) use say::{list, number, tenths};
pub(super) use sweep::{Sweep, apart, sweeps};

/// The parts; what the folder lacks is added to `missing`.
pub(super) fn parts(source: &Source, missing: &mut Vec<String>) -> Vec<Part> {
    let sweeps = sweeps(source.found);
    let findings: Vec<Findings> = sweeps.iter().map(|sweep| Findings::of(sweep, source.found)).collect();
    let mut parts = Vec::new();
    let both: Vec<(&Sweep, &Findings)> = sweeps.iter().zip(&findings).collect();
    let title = if sweeps.len() > 1 {
        "Loads beside each other"
    } else {
        "Loads"
    };
    parts.extend(compared(&both, "loads", title));
    let mut files = files::Files::of(&source.folder);
    for (index, (sweep, findings)) in both.iter().enumerate() {
        let name = if sweeps.len() > 1 {
            format!("load-{}", index + 1)
        } else {
            "load".to_owned()
        };
        parts.extend(part(sweep, findings, source, &name, &mut files, sweeps.len() > 1));
    }
    missing.extend(files.missing());
    missing.extend(files.unfinished(sweeps.iter()));
    parts
}

/// Several sweeps in one part; nothing for fewer than two that have curves.
pub(super) fn compared(sweeps: &[(&Sweep, &Findings)], name: &str, title: &str) -> Option<Part> {
    let rising: Vec<(&Sweep, &Findings)> = sweeps.iter().copied().filter(|(sweep, _)| sweep.rises()).collect();
    let curves = beside::plot(&rising, format!("{name}-curves"))?;
    let trade = trade::plot(&rising, format!("{name}-trade"));
    Some(Part {
        name: name.to_owned(),
        title: title.to_owned(),
        paragraphs: vec![curves.words.clone()],
        plots: [Some(curves), trade].into_iter().flatten().collect(),
        ..Part::default()
    })
}

/// One sweep, or a load alone; `several`: others stand beside it, and what it did over time is told of one level only.
fn part(
    sweep: &Sweep,
    findings: &Findings,
    source: &Source,
    name: &str,
    files: &mut files::Files,
    several: bool,
) -> Option<Part> {
    let of = if sweep.name.is_empty() {
        String::new()
    } else {
        format!(" of {}", sweep.name)
    };
    let plot_name = |what: &str| format!("{name}-{what}");
    let mut plots: Vec<Plot> = Vec::new();
    let mut part = Part {
        name: name.to_owned(),
        title: format!("Load{of}"),
        ..Part::default()
    };
    if sweep.rises() {
        let words = words::sweep(sweep, findings);
        part.title = format!("Throughput and latency along {}{}", sweep.along.word(), of);
        part.paragraphs.extend(words.iter().cloned());
        let title = format!("Throughput and latency along {}{of}", sweep.along.word());
        plots.push(curves::plot(
            sweep,
            findings,
            plot_name("curves"),
            title,
            words.join(" "),
        ));
        if !several {
            plots.extend(trade::plot(&[(sweep, findings)], plot_name("trade")));
        }
        plots.extend(objectives::plot(sweep, source.found, plot_name("limits")));
        plots.extend(pressure::plot(sweep, findings, plot_name("engine")));
        plots.extend(costs::plot(sweep, findings, plot_name("cost")));
    } else {
        let level = sweep.levels.first()?;
        part.paragraphs.extend(words::alone(level, sweep.along));
        part.sheets.push(figures::alone(level));
    }
    part.paragraphs.extend(
        doubts::doubts(sweep)
            .into_iter()
            .map(|doubt| format!("Caution, {doubt}")),
    );
    let (spread, lines) = files.plots(sweep, findings, name, if several { 1 } else { 3 });
    part.paragraphs.extend(lines.told);
    plots.extend(spread);
    plots.extend(lines.plots);
    part.plots = plots;
    Some(part)
}
