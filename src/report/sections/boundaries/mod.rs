//! Boundaries: charts of what fits and what fails, with every probe.
//!
//! Every output describes a boundary in sentences: how much of the search range is known, what is predicted, and the
//! caveats. The page adds charts, drawn by `panel`, and a table of every probe.

mod panel;
mod probes;

pub(super) use self::panel::plot_axis;

use self::panel::{FigureContext, MAX_CUTS};
use self::probes::Probes;
use super::source::{Source, numbered};
use crate::answer::evidence::{ProbeClass, nearest_failure};
use crate::answer::{OutcomeKind, advise};
use crate::boundary::{Axis, Band, Boundary, CrossValidation, Moves, Point, Scalar, Volume};
use crate::fault::Result;
use crate::report::document::{Section, sentence};
use crate::report::picture::{Projection, RULED_OUT, beyond, projection};
use crate::report::plot::{Plot, Sheet};
use crate::report::recorded_answer::{Extras, answer_facts};
use crate::report::{Block, Count, Page, Weight, draw};
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

/// The section of one boundary. `answers` are its points with their full answers; `number` is set if there are several
/// boundaries. With `sketches`, the boundary is also drawn in characters for that page.
pub(super) fn section(
    boundary: &Boundary,
    answers: &[RecordedPoint],
    number: Option<usize>,
    sketches: Option<Page>,
) -> Result<Section> {
    let probes = Probes::new(boundary, answers);
    // Fails for frontiers with too many corners; the rest of the section does not need it.
    let advice = advise(boundary).ok().flatten();
    let name = numbered("boundary", number.unwrap_or(1), number.is_some());
    let context = FigureContext {
        boundary,
        probes: &probes,
        advice: advice.as_ref(),
    };
    let plot = projection(boundary)
        .map(|projection| plot(&context, &projection, &name))
        .transpose()?;
    let subject = plot.as_ref().map_or("What fits", |plot| &plot.title);
    let title = number.map_or_else(|| subject.to_owned(), |number| format!("Boundary {number}: {subject}"));
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
        alt: alt_text(context),
        caption: caption(
            context.boundary,
            projection,
            panels.len(),
            context.probes.list.len() - drawn,
        ),
        slider: projection.slider.map(|axis| axis.name().to_owned()),
        sheet: context.probes.sheet(),
        panels,
    })
}

/// Maximum number of rows in the terminal's table of the largest points that fit.
const MAX_FRONTIER_POINTS: usize = 6;

const MAX_BAND_POINTS: usize = 3;

/// A boundary for the terminal: the answer, a drawing, the largest points that fit if there is no single limit, and the
/// caveats.
///
/// # Errors
///
/// `limit` for a boundary with too many corners.
pub fn overview(boundary: &Boundary, extras: &Extras, page: Page) -> Result<Vec<Block>> {
    let answer = extras.answer(boundary)?;
    let mut all: Vec<Block> = Block::notice(extras.simulated.clone()).into_iter().collect();
    // The limit is the headline.
    let facts = answer_facts(&answer).split_off(1);
    all.push(Block::Finding(answer.limit.clone()));
    all.push(Block::Facts(facts));
    if boundary.records().len() == 0 {
        return Ok(all);
    }
    all.extend(sketch(boundary, Some(page))?);
    let mut blocks = blocks(boundary, answer.state == OutcomeKind::Limit)?;
    let frontier = boundary.frontier()?;
    if answer.state == OutcomeKind::Table && !frontier.is_empty() {
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

/// How much of the search range is known, and the caveats. If the answer is a single `limit`, the largest unresolved
/// range is left out, because it follows from the limit.
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
    if volume.not_sent > 0 {
        line.push_str(&format!(", {} is {RULED_OUT}", share(volume.not_sent)));
    }
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
    let answers = band
        .answers
        .iter()
        .take(MAX_BAND_POINTS)
        .map(|answer| (&answer.point, answer.fits, answer.fits + answer.fails));
    let repeated = answers.filter(|(_, _, all)| *all > 1);
    lines.extend(repeated.map(|(point, fits, all)| format!("{point} fitted {fits} of {all} times")));
    lines
}

/// The caveats that a reader must know besides the answer.
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
        .filter(|(_, record)| ProbeClass::from_record(record) == ProbeClass::Unclear)
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
    let source = match boundary.cross_validation().ok()? {
        None => "more than half of the memory limits that agree with every answer predict a fit".to_owned(),
        Some(CrossValidation { answers, wrong }) => format!(
            "a classifier of the answers predicts a fit, since no known form of limits agrees with all of them; of the {} next to the \
             limit, it would predict {wrong} wrongly from the others",
            Count(answers, "answer")
        ),
    };
    Some(format!(
        "Predicted, not proven: along one line from the smallest point, the limit probably lies between {} and {high}, most likely near \
         {}. Where `predicted to fit` is drawn, {source}.",
        middle.low, middle.expected,
    ))
}

/// A chart in words, for readers who cannot see it.
fn alt_text(context: &FigureContext) -> String {
    let recommended = context.advice.map(|advice| {
        let (recommended, safe) = (&advice.recommended, &advice.safe);
        format!("recommended is {recommended}; the largest confirmed is {safe}")
    });
    let nearest = context
        .advice
        .and_then(|advice| nearest_failure(context.boundary, &advice.safe));
    let resolved = std::iter::once(resolved(context.boundary));
    sentences(resolved.chain(recommended).chain(nearest))
}

/// Explains how to read a chart with this number of `cuts`. `absent` is the number of probes that it does not show.
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
        let reported = if boundary.records().any(|(_, record)| record.moves == Moves::Bounds) {
            "; what is harder than a point that was not sent is ruled out by the engine's own report"
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

/// A table of at most `most` of the largest points that fit, evenly spaced and including both ends.
fn largest(boundary: &Boundary, frontier: &[Point], most: usize) -> Sheet {
    let axes = boundary.lattice().axes();
    let shown = frontier.len().min(most);
    let spread = (0..shown).map(|number| &frontier[number * (frontier.len() - 1) / (shown - 1).max(1)]);
    let rows = spread.map(|point| axes.iter().map(|axis| axis.of(point).into()).collect());
    let title = if shown < frontier.len() {
        format!("largest points that fit: {shown} of {}", frontier.len())
    } else {
        "largest points that fit".to_owned()
    };
    Sheet::new(axes.iter().map(Axis::name), rows).titled(title)
}

#[cfg(test)]
mod tests {
    //! Boundary charts show every probe, and do not show anything as proven that is not.

    use serde_json::{Value, json};

    use super::*;
    use crate::answer::evidence::NOT_SENT;
    use crate::boundary::{JsonText, Options, Point};
    use crate::report::plot::{Colour, Layer, MarkerShape, Marks, Panel};
    use crate::report::{Page, text};
    use crate::run::RecordedBoundary;

    fn section_of(axes: &Value, answers: &[(Value, Value)]) -> Section {
        let points = answers
            .iter()
            .map(|(point, answer)| (serde_json::from_value(point.clone()).unwrap(), JsonText::from(answer)));
        let found = RecordedBoundary {
            described: json!({ "axes": axes, "options": Options::default() }),
            points: points.collect(),
            ..RecordedBoundary::default()
        };
        section(&found.rebuild().unwrap(), &found.points, None, None).unwrap()
    }

    fn in_terminal(section: &Section) -> String {
        text(&section.blocks, Page::default())
    }

    fn areas(panel: &Panel) -> Vec<Colour> {
        let areas = panel.layers.iter().filter_map(|layer| match layer.marks {
            Marks::Area { .. } => Some(layer.colour),
            _ => None,
        });
        areas.collect()
    }

    fn dots(panel: &Panel) -> Vec<(MarkerShape, Vec<(f64, f64)>)> {
        let dots = panel.layers.iter().filter_map(|layer| match &layer.marks {
            Marks::Dots { points, shape } => Some((*shape, points.clone())),
            _ => None,
        });
        dots.collect()
    }

    fn plane() -> Value {
        json!({ "input": [1, 100], "output": [1, 100] })
    }

    fn at(input: i64, output: i64) -> Value {
        json!({ "input": input, "output": output })
    }

    #[test]
    fn plane_shows_regions_probes_and_recommendation() {
        let queue = json!({ "kv_usage": 0.5, "running": 1, "waiting": 0, "preemptions": 0 });
        let ok = json!({ "verdict": "ok", "peak": 2_147_483_648u64, "ttft_ms": 12.34, "evidence": { "completed": 1, "issued": 1, "queue": queue } });
        let oom = json!({ "verdict": "oom", "cause": "cuda", "evidence": { "log": ["CUDA out of memory. Tried to allocate 2.00 GiB"] } });
        let section = section_of(
            &plane(),
            &[
                (at(60, 60), oom),
                (at(40, 40), ok),
                (at(50, 50), json!("timeout")),
                (at(5, 95), json!({ "verdict": "refused", "cause": "length_limit" })),
            ],
        );
        let [plot] = section.plots()[..] else { panic!() };
        let [panel] = &plot.panels[..] else { panic!() };
        let shown = areas(panel);
        for colour in [
            Colour::Fits,
            Colour::Fails,
            Colour::Open,
            Colour::Quiet,
            Colour::Predicted,
        ] {
            assert!(shown.contains(&colour), "{colour:?} of {shown:?}");
        }
        let marks = dots(panel);
        assert!(marks.contains(&(MarkerShape::Circle, vec![(40.0, 40.0)])), "{marks:?}");
        assert!(marks.contains(&(MarkerShape::Cross, vec![(60.0, 60.0)])), "{marks:?}");
        assert!(
            marks.contains(&(MarkerShape::Triangle, vec![(50.0, 50.0)])),
            "{marks:?}"
        );
        assert!(marks.contains(&(MarkerShape::Diamond, vec![(5.0, 95.0)])), "{marks:?}");
        assert!(
            marks.contains(&(MarkerShape::Ring, vec![(40.0, 40.0)])),
            "the largest confirmed: {marks:?}"
        );
        assert!(marks.contains(&(MarkerShape::Star, vec![(38.0, 38.0)])), "{marks:?}");
        assert_eq!(
            panel.spots.columns,
            [
                "probe",
                "input",
                "output",
                "verdict",
                "cause",
                "evidence",
                "peak, GiB",
                "TTFT, ms",
                "KV cache, %"
            ]
        );
        let second = &panel.spots.spots[1];
        assert_eq!(
            (second.at, &second.entries[6], &second.entries[8]),
            ((40.0, 40.0), &2.0.into(), &50.0.into())
        );
        assert_eq!(plot.sheet.rows.len(), 4);
        let text = in_terminal(&section);
        for expected in [
            "4 points; 16.0 % of the search range fits, 16.8 % fails",
            "Predicted, not proven:",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        // Only the answers at the top of the page have the recommendation and its reason.
        assert!(!text.contains("input=38") && !text.contains("CUDA"), "{text}");
        for expected in [
            "16.0 %",
            "Recommended is input=38 output=38; the largest confirmed is input=40 output=40.",
            "At input=60 output=60 the engine ran out of GPU memory (cuda): “CUDA out of memory. Tried to allocate 2.00 GiB”.",
        ] {
            assert!(plot.alt.contains(expected), "{expected}\n{}", plot.alt);
        }
        assert!(!plot.alt.contains("redicted"), "{}", plot.alt);
    }

    /// A point that was not sent, and cells that no hypothesis admits, are never shown as confirmed or failed.
    #[test]
    fn what_is_predicted_to_fail_has_its_own_mark_on_the_page_and_in_the_terminal() {
        let not_sent = json!({ "verdict": "not_sent", "cause": "memory", "evidence": { "reported": 120 } });
        let axes = json!({ "input": [0, 9], "output": [0, 5] });
        let answers = [(at(4, 2), json!("ok")), (at(7, 1), json!("oom")), (at(9, 5), not_sent)];
        let section = section_of(&axes, &answers);
        let panel = &section.plots()[0].panels[0];
        let named = |layer: &Layer, wanted: &str| match &layer.marks {
            Marks::Dots { points, .. } => layer.name == wanted && *points == [(9.0, 5.0)],
            Marks::Area { .. } => layer.name == wanted && layer.dashed,
            _ => false,
        };
        for wanted in [NOT_SENT, "predicted to fail"] {
            assert!(
                panel.layers.iter().any(|layer| named(layer, wanted)),
                "{wanted}: {panel:?}"
            );
        }
        assert!(dots(panel).contains(&(MarkerShape::Cross, vec![(7.0, 1.0)])));
        let found = RecordedBoundary {
            described: json!({ "axes": axes, "options": Options::default() }),
            points: answers
                .iter()
                .map(|(point, answer)| (serde_json::from_value(point.clone()).unwrap(), JsonText::from(answer)))
                .collect(),
            ..RecordedBoundary::default()
        };
        let text = crate::report::draw(&found.rebuild().unwrap(), Page::default()).unwrap();
        assert!(text.starts_with("output\n5 |*****--..%"), "{text}");
        assert!(
            text.contains(": predicted to fail") && text.contains(&format!("% {NOT_SENT}")),
            "{text}"
        );
    }

    #[test]
    fn single_axis_is_a_strip_with_a_row_for_each_class() {
        let axes = json!({ "concurrency": [1, 64], "input": [2000, 2000], "output": [128, 128] });
        let at = |concurrency: i64| json!({ "concurrency": concurrency, "input": 2000, "output": 128 });
        let section = section_of(
            &axes,
            &[
                (at(29), json!("ok")),
                (at(30), json!("preempted")),
                (at(40), json!("error")),
            ],
        );
        let [plot] = section.plots()[..] else { panic!() };
        let panel = &plot.panels[0];
        assert_eq!(plot.title, "Largest concurrency that fits");
        assert_eq!(panel.y.names, ["fits", "fails", "inconclusive"]);
        assert_eq!(
            areas(panel),
            [Colour::Fits, Colour::Fails],
            "nothing is open between 29 and 30"
        );
        assert!(dots(panel).contains(&(MarkerShape::Cross, vec![(30.0, 1.0)])));
        assert!(
            plot.caption.contains("All of it at input=2000, output=128."),
            "{}",
            plot.caption
        );
    }

    #[test]
    fn third_axis_is_cut_and_every_probe_is_on_one_cut() {
        let axes = json!({ "concurrency": [1, 64], "input": [1, 100], "output": [1, 100] });
        let answers: Vec<(Value, Value)> = (0..120)
            .map(|number| {
                let (concurrency, input, output) = (1 + number * 7 % 64, 1 + number * 13 % 100, 1 + number * 29 % 100);
                let fits = concurrency * (input + output) <= 400;
                let point = json!({ "concurrency": concurrency, "input": input, "output": output });
                (point, json!(if fits { "ok" } else { "oom" }))
            })
            .collect();
        let section = section_of(&axes, &answers);
        let plot = section.plots()[0];
        assert_eq!(plot.slider.as_deref(), Some("concurrency"));
        assert!((3..=12).contains(&plot.panels.len()), "{}", plot.panels.len());
        assert_eq!(
            (
                plot.panels[0].title.as_str(),
                plot.panels.last().unwrap().title.as_str()
            ),
            ("concurrency=1", "concurrency=64")
        );
        let spots: usize = plot.panels.iter().map(|panel| panel.spots.spots.len()).sum();
        assert_eq!((spots, plot.sheet.rows.len()), (120, 120));
        let stars = plot
            .panels
            .iter()
            .filter(|panel| dots(panel).iter().any(|(shape, _)| *shape == MarkerShape::Star));
        assert_eq!(stars.count(), 1);
        assert!(
            plot.caption
                .contains("A probe between two values of concurrency that are shown"),
            "{}",
            plot.caption
        );
    }

    #[test]
    fn fourth_axis_is_held_at_its_easiest() {
        let axes = json!({ "input": [1, 9], "output": [1, 9], "batch": [1, 4], "fraction": { "range": [0.5, 0.9], "easier": "up" } });
        let at = |batch: i64, fraction: f64| json!({ "input": 5, "output": 5, "batch": batch, "fraction": fraction });
        let section = section_of(
            &axes,
            &[
                (at(1, 0.9), json!("ok")),
                (at(4, 0.5), json!("oom")),
                (at(2, 0.9), json!("oom")),
            ],
        );
        let [plot] = section.plots()[..] else { panic!() };
        assert_eq!(plot.slider.as_deref(), Some("batch"));
        assert!(
            plot.caption.contains("All of it at fraction=0.9.") && plot.caption.contains("1 probe elsewhere"),
            "{}",
            plot.caption
        );
        assert_eq!(plot.sheet.rows.len(), 3);
    }

    #[test]
    fn empty_and_inconclusive_boundaries_are_drawn() {
        let cases = [
            (vec![], vec![Colour::Open], "nothing was probed yet"),
            (vec![(at(1, 1), "oom")], vec![Colour::Fails], "100 % fails"),
            (
                vec![(at(100, 100), "ok")],
                vec![Colour::Fits],
                "1 point; 100 % of the search range fits",
            ),
            (
                vec![(at(50, 50), "timeout")],
                vec![Colour::Open],
                "1 point; 0 % of the search range fits",
            ),
            (
                vec![(at(50, 50), "ok"), (at(50, 50), "oom"), (at(50, 50), "ok")],
                vec![Colour::Open, Colour::Band, Colour::Fails],
                "fitted 2 of 3 times",
            ),
        ];
        for (answers, colours, expected) in cases {
            let answers: Vec<(Value, Value)> = answers
                .into_iter()
                .map(|(point, verdict)| (point, json!(verdict)))
                .collect();
            let section = section_of(&plane(), &answers);
            assert_eq!(areas(&section.plots()[0].panels[0]), colours, "{answers:?}");
            let text = in_terminal(&section);
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        let clipped = section_of(
            &plane(),
            &[(at(1, 1), json!({ "verdict": "refused", "cause": "length_limit" }))],
        );
        assert_eq!(areas(&clipped.plots()[0].panels[0]), [Colour::Quiet]);
    }

    #[test]
    fn repeated_point_is_one_mark_for_each_answer() {
        let section = section_of(
            &plane(),
            &[
                (at(50, 50), json!("ok")),
                (at(50, 50), json!("oom")),
                (at(50, 50), json!("ok")),
            ],
        );
        let panel = &section.plots()[0].panels[0].clone();
        assert_eq!(panel.spots.spots.len(), 3);
        assert_eq!(
            dots(panel),
            [
                (MarkerShape::Circle, vec![(50.0, 50.0)]),
                (MarkerShape::Cross, vec![(50.0, 50.0)])
            ]
        );
    }

    #[test]
    fn probes_outside_of_the_search_range_are_only_in_the_table() {
        let section = section_of(&plane(), &[(at(50, 50), json!("ok")), (at(500, 50), json!("oom"))]);
        let plot = section.plots()[0];
        assert_eq!((plot.panels[0].spots.spots.len(), plot.sheet.rows.len()), (1, 2));
        assert!(
            plot.caption
                .contains("1 probe elsewhere in the search range or outside of it"),
            "{}",
            plot.caption
        );
    }

    #[test]
    fn every_recorded_run_with_a_boundary_is_drawn() {
        let runs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs");
        for (name, title, expected) in [
            (
                "transformers-12gib",
                "Largest input that fits",
                "“CUDA out of memory. Tried to allocate",
            ),
            (
                "vllm-longest",
                "Largest input that fits",
                "At input=63266 output=64 the engine had no room for it in its KV cache",
            ),
            ("vllm-concurrency", "Largest concurrency that fits", "At concurrency=30"),
        ] {
            let folder = crate::run::Folder::open(&runs.join(name)).unwrap();
            let found = crate::run::RecordedRun::from_folder(&folder).unwrap();
            let source = Source::new(folder, &found);
            let mut missing = Vec::new();
            let sections = sections(&source, &mut missing);
            assert_eq!((sections.len(), missing.len()), (1, 0), "{name}: {missing:?}");
            assert_eq!(sections[0].plots()[0].title, title);
            let text = &sections[0].plots()[0].alt;
            assert!(text.contains(expected), "{name}: {text}");
            let points: Vec<Point> = found.boundaries[0]
                .points
                .iter()
                .map(|(point, _)| point.clone())
                .collect();
            assert_eq!(sections[0].plots()[0].sheet.rows.len(), points.len());
        }
    }
}
