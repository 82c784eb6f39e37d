//! What fits and what fails: each boundary of the run as pictures, with every probe and what it showed.
//!
//! `sight` says which axes a picture shows, `cuts` where a third axis is cut, `probes` what is told of each probe, `panel` draws one plane or
//! line, `words` says the same in sentences, and `tables` lists it.

mod cuts;
mod panel;
mod probes;
mod sight;
mod tables;
mod words;

#[cfg(test)]
mod tests;

use serde_json::Value;

use self::panel::Stage;
use self::probes::Probes;
use self::sight::{Sight, sights};
use super::{Part, Source};
use crate::boundary::Boundary;
use crate::fault::Result;
use crate::report::plot::Plot;
use crate::report::{Extras, advise};
use crate::run::Recorded;

/// Boundaries that are drawn at most: a page of hundreds of pictures is opened by nobody, and a script with so many sums them up itself.
pub(super) const DRAWN: usize = 12;

/// The parts; what the folder lacks is added to `missing`.
pub(super) fn parts(source: &Source, missing: &mut Vec<String>) -> Vec<Part> {
    let found = source
        .found
        .boundaries
        .iter()
        .filter(|found| !found.described.is_null());
    let several = source.boundaries().len() > 1;
    let mut parts = Vec::new();
    for (index, (boundary, found)) in source.boundaries().iter().zip(found).enumerate().take(DRAWN) {
        let number = several.then_some(index + 1);
        let made = boundary.rebuilt.as_ref().map_err(Clone::clone);
        let made = made.and_then(|map| part(map, &found.points, boundary.report, number));
        match made {
            Ok(part) => parts.push(part),
            Err(fault) => missing.push(format!("boundary {} is not drawn: {}", index + 1, fault.message)),
        }
    }
    parts
}

/// One boundary: `answers` are its points with their whole answers, `report` what `report(map)` gave, `number` which of several it is.
fn part(boundary: &Boundary, answers: &[Recorded], report: Option<&Value>, number: Option<usize>) -> Result<Part> {
    let sights = sights(boundary);
    let probes = Probes::of(boundary, answers);
    // A frontier of too many corners is not measured; everything else is told all the same.
    let advice = advise(boundary).ok().flatten();
    let name = number.map_or_else(|| "boundary".to_owned(), |number| format!("boundary-{number}"));
    let stage = Stage::new(boundary, &probes, advice.as_ref());
    let plots = sights
        .iter()
        .enumerate()
        .map(|(index, sight)| plot(&stage, sight, &name, index));
    let plots = plots.collect::<Result<Vec<_>>>()?;
    let over = sights.first().map_or_else(String::new, Sight::over);
    let title = match (number, &plots[..]) {
        (Some(number), _) => format!("Boundary {number}: {over}"),
        // What the only picture is called.
        (None, [only]) => only.title.clone(),
        (None, _) => format!("What fits: {over}"),
    };
    Ok(Part {
        title,
        paragraphs: words::paragraphs(&stage, &Extras::of(report, false)),
        plots,
        sheets: tables::sheets(boundary, &probes),
        texts: Vec::new(),
        name,
    })
}

fn plot(stage: &Stage, sight: &Sight, name: &str, index: usize) -> Result<Plot> {
    let panels = stage.panels(sight)?;
    let name = match sight.slider.filter(|_| index > 0) {
        Some(slider) => format!("{name}-by-{}", anchor(slider.name())),
        None => name.to_owned(),
    };
    let drawn: usize = panels.iter().map(|panel| panel.spots.spots.len()).sum();
    Ok(Plot {
        name,
        title: sight.title(),
        words: words::words(stage, sight),
        caption: words::caption(stage.boundary, sight, &panels, stage.probes.list.len() - drawn),
        slider: sight.slider.map(|axis| axis.name().to_owned()),
        sheet: tables::probes(stage.probes, &panels),
        panels,
    })
}

/// A name as an anchor has it: `a-z`, `0-9` and `-`.
fn anchor(name: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    name.chars().map(plain).collect()
}
