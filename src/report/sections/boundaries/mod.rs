//! Boundaries: charts of what fits and what fails, with every probe.
//!
//! Every reader sees a boundary in sentences: how much of the search range is known, what is predicted, and what a reader
//! must know. The page adds charts: `panel` chooses their axes and draws them, `probes` tabulates the probes.

mod panel;
mod probes;

#[cfg(test)]
mod tests;

pub(super) use self::panel::plot_axis;

use std::collections::HashSet;

use self::panel::{FigureContext, Projection, cut_title, projection};
use self::probes::{Probes, largest, probes_sheet};
use super::{Section, Source};
use crate::boundary::{Band, Boundary, Moves, Point, Scalar, Verdict, Volume};
use crate::fault::Result;
use crate::report::answer::{Extras, State};
use crate::report::document::sentence;
use crate::report::evidence::not_sent;
use crate::report::picture::beyond;
use crate::report::plot::{Panel, Plot};
use crate::report::{Block, Count, Page, Weight, advise, draw};
use crate::run::RecordedPoint;

/// Maximum number of boundaries to draw. A script with more summarises them itself.
pub(super) const MAX_DRAWN: usize = 12;

/// The sections. Unreadable boundaries are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let several = source.boundaries().len() > 1;
    let mut sections = Vec::new();
    for (index, boundary) in source.boundaries().iter().enumerate().take(MAX_DRAWN) {
        let number = several.then_some(index + 1);
        let map = boundary.boundary.as_ref().map_err(Clone::clone);
        let built = map.and_then(|map| section(map, &boundary.recorded.points, number, source.sketches));
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
        words: alt_text(context, projection),
        caption: caption(context.boundary, projection, &panels, context.probes.list.len() - drawn),
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
        points
            .iter()
            .take(MAX_BAND_POINTS)
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let widths = band.width.iter().map(|(axis, width)| format!("{axis} {width}"));
    lines.push(format!(
        "answers contradict each other from {} up to {} (a band {} wide): nothing in it is called fitting",
        ends(&band.from),
        ends(&band.to),
        widths.collect::<Vec<_>>().join(", ")
    ));
    for answer in band
        .answers
        .iter()
        .take(MAX_BAND_POINTS)
        .filter(|answer| answer.fits + answer.fails > 1)
    {
        lines.push(format!(
            "{} fitted {} of {} times",
            answer.point,
            answer.fits,
            answer.fits + answer.fails
        ));
    }
    lines
}

/// What a reader must know besides the answer.
fn caveats(boundary: &Boundary, limit: bool) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let wide = |(_, width): &(String, Scalar)| width.as_f64() > 0.0;
    let gap: Vec<String> = boundary
        .gap()?
        .into_iter()
        .filter(wide)
        .map(|(axis, width)| format!("{axis} {width}"))
        .collect();
    if !gap.is_empty() && !limit {
        lines.push(format!("largest unresolved range: {}", gap.join(", ")));
    }
    let unclear = boundary
        .records()
        .filter(|(_, record)| record.moves == Moves::None && record.verdict != Verdict::Refused)
        .count();
    if unclear > 0 {
        lines.push(format!("inconclusive: {}", Count(unclear, "point")));
    }
    if let Some(band) = boundary.band() {
        lines.extend(contradictions(boundary, &band));
    }
    let untested: Vec<Point> = boundary
        .records()
        .filter(|(_, record)| record.is_untested())
        .map(|(point, _)| point)
        .collect();
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
    let high = middle
        .high
        .as_ref()
        .map_or_else(|| "the end of the search range".to_owned(), Point::to_string);
    Some(format!(
        "Predicted, not proven: along one line from the smallest point, the limit probably lies between {} and {high}, most likely near \
         {}. Where `predicted to fit` is drawn, more than half of the memory limits that agree with every answer predict a fit.",
        middle.low, middle.expected,
    ))
}

/// A chart in words, for readers who cannot see it.
fn alt_text(context: &FigureContext, projection: &Projection) -> String {
    let (boundary, advice) = (context.boundary, context.advice);
    let axes = projection.slider.map_or_else(String::new, |axis| {
        let y = projection.y.map_or_else(String::new, |y| format!(" and {}", y.name()));
        format!("what fits over {}{y} is shown by {}", projection.x.name(), axis.name())
    });
    let recommended = advice.map(|advice| {
        format!(
            "recommended is {}; the largest confirmed is {}",
            advice.recommended, advice.safe
        )
    });
    sentences([
        Some(axes).filter(|axes| !axes.is_empty()),
        Some(resolved(boundary)),
        ends(boundary),
        recommended,
        context.nearest_failure.clone(),
    ])
}

/// How to read a chart. `absent` probes are not in it.
fn caption(boundary: &Boundary, projection: &Projection, panels: &[Panel], absent: usize) -> String {
    let mut notes = Vec::new();
    let held = projection.held_values();
    if !held.is_empty() {
        notes.push(format!("all of it at {}", held.join(", ")));
    }
    if let Some(slider) = projection.slider {
        let cuts: HashSet<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
        let own = |point: &Point| point.0.get(slider.name()).map(|value| cut_title(slider, *value));
        let between = |point: &Point| own(point).is_some_and(|own| !cuts.contains(own.as_str()));
        if boundary.records().any(|(point, _)| between(&point)) {
            notes.push(format!(
                "more values of {} were probed than are shown: a probe between two of them is drawn at the one that it \
                 constrains (if it fits, at the easier; if it fails, at the harder one)",
                slider.name()
            ));
        }
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
    sentences(notes.into_iter().map(Some))
}

/// The ends of the frontier and of the failing points.
fn ends(boundary: &Boundary) -> Option<String> {
    let text = |points: Vec<Point>| match &points[..] {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{} points from {first} to {last}", points.len())),
    };
    let fits = text(boundary.frontier().ok()?).map(|ends| format!("the largest that fit: {ends}"));
    let fails = text(boundary.failing().ok()?).map(|ends| format!("the smallest that fail: {ends}"));
    let notes: Vec<String> = fits.into_iter().chain(fails).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn sentences(parts: impl IntoIterator<Item = Option<String>>) -> String {
    let parts = parts.into_iter().flatten().map(|part| sentence(&part));
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
