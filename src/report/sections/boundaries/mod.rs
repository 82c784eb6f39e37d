//! Boundaries: charts of what fits and what fails, with every probe.
//!
//! `text` lays out what every reader sees; the page adds charts: `projection` chooses the axes and cuts of a chart,
//! `probes` tabulates the probes, `panel` draws one plane or strip.

mod panel;
mod probes;
mod projection;
mod text;

#[cfg(test)]
mod tests;

pub use self::text::overview;

use self::panel::FigureContext;
use self::probes::Probes;
use self::projection::{Projection, projections};
use super::format::anchor;
use super::{Section, Source};
use crate::boundary::Boundary;
use crate::fault::Result;
use crate::report::plot::Plot;
use crate::report::{Page, advise};
use crate::run::RecordedPoint;

/// Maximum number of boundaries to draw. A script with more summarises them itself.
pub(super) const MAX_DRAWN: usize = 12;

/// The sections. Unreadable boundaries are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let found = source
        .found
        .boundaries
        .iter()
        .filter(|found| !found.described.is_null());
    let several = source.boundaries().len() > 1;
    let mut sections = Vec::new();
    for (index, (boundary, found)) in source.boundaries().iter().zip(found).enumerate().take(MAX_DRAWN) {
        let number = several.then_some(index + 1);
        let map = boundary.boundary.as_ref().map_err(Clone::clone);
        let built = map.and_then(|map| section(map, &found.points, number, source.sketches));
        match built {
            Ok(section) => sections.push(section),
            Err(fault) => missing.push(format!("boundary {} is not drawn: {}", index + 1, fault.message)),
        }
    }
    sections
}

/// The section of one boundary. `answers` are its points with their full answers, `number` its number if there are
/// several; `sketches` says for which page the boundary is drawn in characters too.
fn section(
    boundary: &Boundary,
    answers: &[RecordedPoint],
    number: Option<usize>,
    sketches: Option<Page>,
) -> Result<Section> {
    let projections = projections(boundary);
    let probes = Probes::new(boundary, answers);
    // Fails for frontiers with too many corners; the rest of the section does not need it.
    let advice = advise(boundary).ok().flatten();
    let name = number.map_or_else(|| "boundary".to_owned(), |number| format!("boundary-{number}"));
    let context = FigureContext::new(boundary, &probes, advice.as_ref());
    let plots = projections
        .iter()
        .enumerate()
        .map(|(index, projection)| plot(&context, projection, &name, index));
    let plots = plots.collect::<Result<Vec<_>>>()?;
    let axes_text = projections.first().map_or_else(String::new, Projection::axes_text);
    let title = match (number, &plots[..]) {
        (Some(number), _) => format!("Boundary {number}: {axes_text}"),
        // The title of the only chart.
        (None, [only]) => only.title.clone(),
        (None, _) => format!("What fits: {axes_text}"),
    };
    Ok(Section::new(name, title)
        .with(text::sketch(boundary, sketches)?)
        .with(plots)
        .with(text::blocks(boundary, boundary.stated_limit().is_some())?)
        .with(text::predicted(boundary))
        .with(probes::sheets(boundary, &probes)))
}

fn plot(context: &FigureContext, projection: &Projection, name: &str, index: usize) -> Result<Plot> {
    let panels = context.panels(projection)?;
    let name = match projection.slider.filter(|_| index > 0) {
        Some(slider) => format!("{name}-by-{}", anchor(slider.name())),
        None => name.to_owned(),
    };
    let drawn: usize = panels.iter().map(|panel| panel.spots.spots.len()).sum();
    Ok(Plot {
        name,
        title: projection.title(),
        words: text::alt_text(context, projection),
        caption: text::caption(context.boundary, projection, &panels, context.probes.list.len() - drawn),
        slider: projection.slider.map(|axis| axis.name().to_owned()),
        sheet: probes::probes_sheet(context.probes, &panels),
        panels,
    })
}
