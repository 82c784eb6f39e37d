//! A boundary in sentences: what is proven and, separately, what is predicted. The recommendation and why the next
//! point fails are among the answers at the top of the page; here they appear only in the chart's alternative text.

use std::collections::HashSet;

use super::panel::{FigureContext, cut_title};
use super::projection::Projection;
use crate::boundary::{Axis, Boundary, Point, Volume};
use crate::report::Count;
use crate::report::plot::Panel;
use crate::report::summary::caveats;

/// The section's paragraphs.
pub(super) fn paragraphs(context: &FigureContext) -> Vec<String> {
    let boundary = context.boundary;
    let fails = boundary.failing().ok().and_then(|points| ends(&points));
    let fails = fails.map(|ends| format!("the smallest that fail: {ends}"));
    let mut paragraphs = vec![sentences([shares(boundary), fails])];
    paragraphs.extend(predicted(boundary));
    let caveats = caveats(boundary, boundary.stated_limit().is_some())
        .ok()
        .flatten()
        .unwrap_or_default();
    paragraphs.extend(caveats.lines().map(|line| sentence(line.to_owned())));
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// A chart in words, for readers who cannot see it.
pub(super) fn alt_text(context: &FigureContext, projection: &Projection) -> String {
    let (boundary, advice) = (context.boundary, context.advice);
    let axes = projection.slider.map_or_else(String::new, |axis| {
        format!(
            "what fits over {} is shown by {}",
            axis_names(&[Some(projection.x), projection.y]),
            axis.name()
        )
    });
    let recommended = advice.map(|advice| {
        format!(
            "recommended is {}, near the safe point {}",
            advice.recommended, advice.safe
        )
    });
    sentences([
        Some(axes).filter(|axes| !axes.is_empty()),
        shares(boundary),
        largest(boundary),
        recommended,
        context.nearest_failure.clone(),
    ])
}

/// How to read a chart. `absent` probes are not in it.
pub(super) fn caption(boundary: &Boundary, projection: &Projection, panels: &[Panel], absent: usize) -> String {
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
        notes.push("proven regions follow from the probes alone: limits are monotone, so whatever is easier than a fitting point fits too".to_owned());
    }
    sentences(notes.into_iter().map(Some))
}

/// How much of the search range is proven.
fn shares(boundary: &Boundary) -> Option<String> {
    let axes = boundary.lattice().axes();
    let range = |axis: &Axis| {
        let (low, high) = axis.range();
        if low.as_f64() < high.as_f64() {
            format!("{} {low} to {high}", axis.name())
        } else {
            format!("{}={low}", axis.name())
        }
    };
    let ranges: Vec<String> = axes.iter().map(range).collect();
    let count = boundary.records().len();
    if count == 0 {
        return Some(format!("nothing was probed yet over {}", ranges.join(", ")));
    }
    let probed = format!("{} over {}", Count(count, "probe"), ranges.join(", "));
    let Ok(volume) = boundary.volume() else {
        return Some(probed);
    };
    let mut parts = vec![
        format!("{} is proven to fit", share(volume.fits, volume)),
        format!("{} proven to fail", share(volume.fails, volume)),
    ];
    if volume.clipped > 0 {
        parts.push(format!("{} beyond a length limit", share(volume.clipped, volume)));
    }
    let open = share(volume.open, volume);
    Some(format!(
        "{probed}: of the search range, {} and {open} open",
        parts.join(", ")
    ))
}

/// A share of the search range in per cent. Small shares never read as nothing, and large ones never as all.
fn share(part: u128, volume: Volume) -> String {
    let percent = 100.0 * part as f64 / volume.total.max(1) as f64;
    match percent {
        _ if part == 0 => "nothing".to_owned(),
        _ if part == volume.total => "all".to_owned(),
        few if few < 0.05 => "less than 0.1 %".to_owned(),
        most if most >= 99.95 => "more than 99.9 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// The ends of the frontier and of the failing points.
fn largest(boundary: &Boundary) -> Option<String> {
    let (frontier, failing) = (boundary.frontier().ok()?, boundary.failing().ok()?);
    let fits = ends(&frontier).map(|ends| format!("the largest that fit: {ends}"));
    let fails = ends(&failing).map(|ends| format!("the smallest that fail: {ends}"));
    let notes: Vec<String> = fits.into_iter().chain(fails).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// The first and the last of some points.
fn ends(points: &[Point]) -> Option<String> {
    match points {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{} points from {first} to {last}", points.len())),
    }
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
        "Predicted, not proven: memory limits consistent with every answer place the boundary, on one ray from the easiest corner, between {} \
         and {high}, most likely near {}; in the hatched region, more than half of them predict a fit.",
        middle.low, middle.expected,
    ))
}

fn axis_names(axes: &[Option<&Axis>]) -> String {
    axes.iter()
        .flatten()
        .map(|axis| axis.name())
        .collect::<Vec<_>>()
        .join(" and ")
}

/// Joins sentences, each with a capital letter and a full stop.
fn sentences(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().map(sentence).collect::<Vec<_>>().join(" ")
}

fn sentence(text: String) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return text };
    let end = if text.ends_with(['.', '…']) { "" } else { "." };
    format!("{}{}{end}", first.to_uppercase(), letters.as_str())
}
