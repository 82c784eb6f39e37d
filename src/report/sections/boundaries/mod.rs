//! Boundaries: charts of what fits and what fails, with every probe.
//!
//! Every reader sees a boundary in sentences: how much of the search range is known, what is predicted, and what a reader
//! must know. The page adds charts: `panel` chooses their axes and draws them, `probes` tabulates the probes.

mod panel;
mod probes;

#[cfg(test)]
mod tests;

pub(super) use self::panel::plot_axis;

use self::panel::{FigureContext, MAX_CUTS, Projection, projection};
use self::probes::{Probes, largest, probes_sheet};
use super::{Section, Source};
use crate::boundary::{Band, Boundary, Point, Record, Scalar, Volume};
use crate::fault::Result;
use crate::report::answer::{Extras, State};
use crate::report::document::sentence;
use crate::report::evidence::{ProbeClass, not_sent};
use crate::report::picture::beyond;
use crate::report::plot::Plot;
use crate::report::{Block, Count, Page, Weight, advise, draw};
use crate::run::RecordedPoint;

/// Maximum number of boundaries to draw. A script with more summarises them itself.
pub(super) const MAX_DRAWN: usize = 12;

/// The sections. Unreadable boundaries are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let several = source.boundaries.len() > 1;
    let mut sections = Vec::new();
    for (number, (recorded, map)) in (1..).zip(&source.boundaries).take(MAX_DRAWN) {
        let map = map.as_ref().map_err(Clone::clone);
        let shown = several.then_some(number);
        match map.and_then(|map| section(map, &recorded.points, shown, source.sketches)) {
            Ok(section) => sections.push(section),
            Err(fault) => missing.push(format!("boundary {number} is not drawn: {}", fault.message)),
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
        .with(sketch(boundary, sketches)?)
        .with(plot)
        .with(blocks(boundary, boundary.stated_limit().is_some())?)
        .with(predicted(boundary)))
}

fn plot(context: &FigureContext, projection: &Projection, name: &str) -> Result<Plot> {
    let panels = context.panels(projection)?;
    let drawn: usize = panels.iter().map(|panel| panel.spots.spots.len()).sum();
    Ok(Plot {
        name: name.to_owned(),
        title: projection.title(),
        words: alt_text(context),
        caption: caption(
            context.boundary,
            projection,
            panels.len(),
            context.probes.list.len() - drawn,
        ),
        slider: projection.slider.map(|axis| axis.name().to_owned()),
        sheet: probes_sheet(context.probes, &panels),
        panels,
    })
}

/// Rows of the largest points that fit in the terminal.
const MAX_FRONTIER_POINTS: usize = 6;

const MAX_BAND_POINTS: usize = 3;

/// A boundary for the terminal: the answer, a drawing, the largest points that fit if there is no single limit, and what
/// a reader must know.
///
/// # Errors
///
/// `limit` for a boundary with too many corners.
pub fn overview(boundary: &Boundary, extras: &Extras, page: Page) -> Result<Vec<Block>> {
    let answer = extras.answer(boundary)?;
    let mut all: Vec<Block> = Block::notice(extras.simulated.clone()).into_iter().collect();
    // The limit is the headline.
    let facts = answer.facts().split_off(1);
    all.push(Block::Finding(answer.limit.clone()));
    all.push(Block::Facts(facts));
    if boundary.records().len() == 0 {
        return Ok(all);
    }
    all.extend(sketch(boundary, Some(page))?);
    let mut blocks = blocks(boundary, answer.state == State::Limit)?;
    let frontier = boundary.frontier()?;
    if answer.state == State::Table && !frontier.is_empty() {
        blocks.insert(1, largest(boundary, &frontier, MAX_FRONTIER_POINTS).into());
    }
    all.extend(blocks);
    Ok(all)
}

/// The boundary in characters; `None` where a chart shows it.
fn sketch(boundary: &Boundary, page: Option<Page>) -> Result<Option<Block>> {
    let drawn = page.filter(|_| boundary.records().len() > 0);
    drawn.map(|page| Ok(Block::Sketch(draw(boundary, page)?))).transpose()
}

/// How much of the search range is known, and what a reader must know besides the answer. With a `limit`, what is unknown
/// follows from it.
fn blocks(boundary: &Boundary, limit: bool) -> Result<Vec<Block>> {
    let caveats = caveats(boundary, limit)?;
    let mut blocks = vec![Block::Paragraph(resolved(boundary))];
    blocks.extend(Block::list("", caveats, Weight::Normal));
    Ok(blocks)
}

/// `21 points; 48.4 % of the search range fits, 27.9 % fails, 23.7 % is unknown`.
fn resolved(boundary: &Boundary) -> String {
    let points = match boundary.records().len() {
        0 => return "nothing was probed yet".to_owned(),
        points => Count(points, "point"),
    };
    let Ok(volume) = boundary.volume() else {
        return points.to_string();
    };
    let share = |part| share(part, volume);
    let mut line = format!(
        "{points}; {} of the search range fits, {} fails, {} is unknown",
        share(volume.fits),
        share(volume.fails),
        share(volume.open),
    );
    if volume.clipped > 0 {
        let why = beyond(boundary);
        line.push_str(&format!(", {} is {why}", share(volume.clipped)));
    }
    line
}

/// A share of the search range in per cent. Small shares never read as nothing, and large ones never as all.
fn share(part: u128, volume: Volume) -> String {
    let percent = 100.0 * part as f64 / volume.total.max(1) as f64;
    match percent {
        _ if part == 0 || part == volume.total => format!("{percent:.0} %"),
        few if few < 0.05 => "less than 0.1 %".to_owned(),
        most if most >= 99.95 => "more than 99.9 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// Describes contradicting answers and the points at the ends of their band.
fn contradictions(boundary: &Boundary, band: &Band) -> Vec<String> {
    let mut lines = Vec::new();
    let conflicts = boundary.conflicts();
    if let Some((fits, fails)) = conflicts.first() {
        lines.push(format!(
            "{} of points contradict each other, such as {fits}, which fits, and {fails}, which fails",
            Count(conflicts.len(), "pair")
        ));
    }
    let ends = |points: &[Point]| {
        let points = points.iter().take(MAX_BAND_POINTS).map(ToString::to_string);
        points.collect::<Vec<_>>().join(", ")
    };
    let widths = band.width.iter().map(|(axis, width)| format!("{axis} {width}"));
    lines.push(format!(
        "answers contradict each other from {} up to {} (a band {} wide): nothing in it is called fitting",
        ends(&band.from),
        ends(&band.to),
        widths.collect::<Vec<_>>().join(", ")
    ));
    let answers = band.answers.iter().take(MAX_BAND_POINTS);
    let answers = answers.map(|answer| (&answer.point, answer.fits, answer.fits + answer.fails));
    let repeated = answers.filter(|(_, _, all)| *all > 1);
    lines.extend(repeated.map(|(point, fits, all)| format!("{point} fitted {fits} of {all} times")));
    lines
}

/// What a reader must know besides the answer.
fn caveats(boundary: &Boundary, limit: bool) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let wide = |(_, width): &(String, Scalar)| width.as_f64() > 0.0;
    let gap = boundary.gap()?.into_iter().filter(wide);
    let gap: Vec<String> = gap.map(|(axis, width)| format!("{axis} {width}")).collect();
    if !gap.is_empty() && !limit {
        lines.push(format!("largest unresolved range: {}", gap.join(", ")));
    }
    let unclear = |(_, record): &(Point, &Record)| ProbeClass::of(record) == ProbeClass::Unclear;
    let unclear = boundary.records().filter(unclear).count();
    if unclear > 0 {
        lines.push(format!("inconclusive: {}", Count(unclear, "point")));
    }
    if let Some(band) = boundary.band() {
        lines.extend(contradictions(boundary, &band));
    }
    let untested = boundary.records().filter(|(_, record)| record.is_untested());
    let untested: Vec<Point> = untested.map(|(point, _)| point).collect();
    let mut refused = boundary.clipped();
    refused.retain(|point| !untested.contains(point));
    if let Some(point) = refused.first() {
        let others = match refused.len() {
            1 => String::new(),
            several => format!(" and {} more", Count(several - 1, "point")),
        };
        lines.push(format!(
            "refused for their length, not for lack of memory: {point}{others}, and all beyond"
        ));
    }
    Ok(lines)
}

/// The prediction, worded so that nobody takes it for a proof.
fn predicted(boundary: &Boundary) -> Option<String> {
    let places = boundary.predicted().ok()?;
    let middle = places.get(places.len() / 2)?;
    let high = middle.high.as_ref();
    let high = high.map_or_else(|| "the end of the search range".to_owned(), Point::to_string);
    Some(format!(
        "Predicted, not proven: along one line from the smallest point, the limit probably lies between {} and {high}, most likely near \
         {}. Where `predicted to fit` is drawn, more than half of the memory limits that agree with every answer predict a fit.",
        middle.low, middle.expected,
    ))
}

/// A chart in words, for readers who cannot see it.
fn alt_text(context: &FigureContext) -> String {
    let recommended = context.advice.map(|advice| {
        let (recommended, safe) = (&advice.recommended, &advice.safe);
        format!("recommended is {recommended}; the largest confirmed is {safe}")
    });
    let resolved = std::iter::once(resolved(context.boundary));
    sentences(resolved.chain(recommended).chain(context.nearest_failure.clone()))
}

/// How to read a chart with so many `cuts`. `absent` probes are not in it.
fn caption(boundary: &Boundary, projection: &Projection, cuts: usize, absent: usize) -> String {
    let mut notes = Vec::new();
    let held = projection.held_values();
    if !held.is_empty() {
        notes.push(format!("all of it at {}", held.join(", ")));
    }
    if let Some(slider) = projection.slider.filter(|_| cuts == MAX_CUTS) {
        notes.push(format!(
            "a probe between two values of {} that are shown is drawn at the one that it constrains (if it fits, at the easier; if it \
             fails, at the harder one)",
            slider.name()
        ));
    }
    if absent > 0 {
        notes.push(format!(
            "{} elsewhere in the search range or outside of it, listed only in the table",
            Count(absent, "probe")
        ));
    }
    if boundary.records().len() > 0 {
        let reported = if boundary.records().any(|(_, record)| not_sent(record)) {
            ", and points that were not sent fail by the engine's own report"
        } else {
            ""
        };
        notes.push(format!(
            "whatever is easier than a point that fits counts as fitting, and whatever is harder than one that fails as failing{reported}"
        ));
    }
    sentences(notes)
}

fn sentences(parts: impl IntoIterator<Item = String>) -> String {
    let parts = parts.into_iter().map(|part| sentence(&part));
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod text_tests {
    use serde_json::json;

    use super::*;
    use crate::boundary::{Answer, Options};
    use crate::report::{SIMULATED, text};

    #[test]
    fn the_limit_is_the_first_line_after_the_notice_of_a_simulation() {
        let mut map = Boundary::new(&json!({ "input": [1, 1000] }), Options::default()).unwrap();
        for (input, verdict) in [(500, "ok"), (600, "timeout"), (520, "oom")] {
            let point = Point::default().with("input", input);
            map.record(&point, &Answer::parse(&json!(verdict)).unwrap()).unwrap();
        }
        let extras = |simulated: bool| Extras {
            simulated: simulated.then(|| SIMULATED.to_owned()),
            ..Extras::default()
        };
        let shown = |simulated| {
            let blocks = overview(&map, &extras(simulated), Page::default()).unwrap();
            text(&blocks, Page::default())
        };
        let text = shown(true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            (lines[0], lines[1]),
            (SIMULATED, "input <= 500 tokens (GPU memory), confirmed to +-19")
        );
        assert!(text.contains("inconclusive: 1 point"), "{text}");
        assert!(shown(false).starts_with("input <= 500"));
    }

    #[test]
    fn contradictions_are_shown() {
        let mut map = Boundary::new(&json!({ "input": [1, 1000] }), Options::default()).unwrap();
        for (input, verdict) in [(500, "ok"), (400, "oom"), (500, "oom"), (300, "ok")] {
            let point = Point::default().with("input", input);
            map.record(&point, &Answer::parse(&json!(verdict)).unwrap()).unwrap();
        }
        let blocks = overview(&map, &Extras::default(), Page::default()).unwrap();
        let text = text(&blocks, Page::default());
        for part in [
            "1 pair of points contradict",
            "input=500 fitted 1 of 2 times",
            "~ contradictory",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
