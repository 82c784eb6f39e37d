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

pub(super) use self::panel::plot_axis;

use self::panel::FigureContext;
use self::probes::Probes;
use self::projection::{Projection, projection};
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
pub(super) fn section(
    boundary: &Boundary,
    answers: &[RecordedPoint],
    number: Option<usize>,
    sketches: Option<Page>,
) -> Result<Section> {
    let probes = Probes::new(boundary, answers);
    // Fails for frontiers with too many corners; the rest of the section does not need it.
    let advice = advise(boundary).ok().flatten();
    let name = number.map_or_else(|| "boundary".to_owned(), |number| format!("boundary-{number}"));
    let context = FigureContext::new(boundary, &probes, advice.as_ref());
    let plot = projection(boundary).map(|projection| plot(&context, &projection, &name));
    let plot = plot.transpose()?;
    let title = plot.as_ref().map_or("What fits", |plot| &plot.title);
    let title = number.map_or_else(|| title.to_owned(), |number| format!("Boundary {number}: {title}"));
    Ok(Section::new(name, title)
        .with(text::sketch(boundary, sketches)?)
        .with(plot)
        .with(text::blocks(boundary, boundary.stated_limit().is_some())?)
        .with(text::predicted(boundary)))
}

fn plot(context: &FigureContext, projection: &Projection, name: &str) -> Result<Plot> {
    let panels = context.panels(projection)?;
    let drawn: usize = panels.iter().map(|panel| panel.spots.spots.len()).sum();
    Ok(Plot {
        name: name.to_owned(),
        title: projection.title(),
        words: text::alt_text(context, projection),
        caption: text::caption(context.boundary, projection, &panels, context.probes.list.len() - drawn),
        slider: projection.slider.map(|axis| axis.name().to_owned()),
        sheet: probes::probes_sheet(context.probes, &panels),
        panels,
    })
}
