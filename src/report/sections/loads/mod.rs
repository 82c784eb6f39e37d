//! Loads: throughput and latency by concurrency or request rate, latency distributions, and engine metrics over time.
//!
//! `sweep` reads loads and groups those that differ only in their level, and `findings` what its levels say together.
//! `curves`, `tradeoff`, `costs`, `pressure` and `slo` draw a sweep, `comparison` several sweeps, `distribution` and
//! `timeline` single loads from their files.

mod comparison;
mod costs;
mod curves;
mod distribution;
mod files;
mod findings;
mod pressure;
mod shared;
mod slo;
mod sweep;
mod text;
mod timeline;
mod tradeoff;

use crate::report::plot::Plot;
use crate::report::sections::{Section, Source};

pub(super) use crate::load::engine_side::SweepFindings;
pub(super) use findings::findings;
pub(super) use sweep::{Sweep, distinguishing_labels, sweeps};

/// The sections. Missing files are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let sweeps = sweeps(source.found);
    let findings: Vec<SweepFindings> = sweeps.iter().map(|sweep| self::findings(sweep, source.found)).collect();
    let mut sections = Vec::new();
    let both: Vec<(&Sweep, &SweepFindings)> = sweeps.iter().zip(&findings).collect();
    let title = if sweeps.len() > 1 {
        "Comparison of loads"
    } else {
        "Loads"
    };
    sections.extend(comparison_section(&both, "loads", title));
    let mut files = files::LoadFiles::new(&source.folder);
    for (index, (sweep, findings)) in both.iter().enumerate() {
        let name = if sweeps.len() > 1 {
            format!("load-{}", index + 1)
        } else {
            "load".to_owned()
        };
        sections.extend(section(sweep, findings, source, &name, &mut files, sweeps.len() > 1));
    }
    missing.extend(files.missing());
    missing.extend(files.unfinished(sweeps.iter()));
    sections
}

/// A section for several sweeps; none for fewer than two with curves.
pub(super) fn comparison_section(sweeps: &[(&Sweep, &SweepFindings)], name: &str, title: &str) -> Option<Section> {
    let rising: Vec<(&Sweep, &SweepFindings)> = sweeps.iter().copied().filter(|(sweep, _)| sweep.has_curve()).collect();
    let curves = comparison::plot(&rising, format!("{name}-curves"))?;
    let trade = tradeoff::plot(&rising, format!("{name}-trade"));
    Some(Section {
        name: name.to_owned(),
        title: title.to_owned(),
        paragraphs: vec![curves.words.clone()],
        plots: [Some(curves), trade].into_iter().flatten().collect(),
        ..Section::default()
    })
}

/// The section of a sweep or of a single load. If there are `several`, the timeline of only one level is drawn.
fn section(
    sweep: &Sweep,
    findings: &SweepFindings,
    source: &Source,
    name: &str,
    files: &mut files::LoadFiles,
    several: bool,
) -> Option<Section> {
    let of_sweep = if sweep.name.is_empty() {
        String::new()
    } else {
        format!(" of {}", sweep.name)
    };
    let plot_name = |what: &str| format!("{name}-{what}");
    let mut plots: Vec<Plot> = Vec::new();
    let mut section = Section {
        name: name.to_owned(),
        title: format!("Load{of_sweep}"),
        ..Section::default()
    };
    if sweep.has_curve() {
        let words = text::paragraphs(sweep, findings);
        section.title = format!("Throughput and latency along {}{}", sweep.axis.name(), of_sweep);
        section.paragraphs.extend(words.iter().cloned());
        section.sheets.push(shared::sheet(sweep));
        let title = format!("Throughput and latency along {}{of_sweep}", sweep.axis.name());
        plots.push(curves::plot(
            sweep,
            findings,
            plot_name("curves"),
            title,
            words.join(" "),
        ));
        if !several {
            plots.extend(tradeoff::plot(&[(sweep, findings)], plot_name("trade")));
        }
        plots.extend(slo::plot(sweep, source.found, plot_name("limits")));
        plots.extend(pressure::plot(sweep, findings, plot_name("engine")));
        plots.extend(costs::plot(sweep, findings, plot_name("cost")));
    } else {
        let level = sweep.levels.first()?;
        section.paragraphs.extend(text::single_load(level, sweep.axis));
        section.sheets.push(shared::load_table(level));
    }
    section.paragraphs.extend(
        text::warnings(sweep)
            .into_iter()
            .map(|doubt| format!("Caution, {doubt}")),
    );
    let (spread, lines) = files.plots(sweep, findings, name, if several { 1 } else { 3 });
    section.paragraphs.extend(lines.note);
    plots.extend(spread);
    plots.extend(lines.plots);
    section.plots = plots;
    Some(section)
}
