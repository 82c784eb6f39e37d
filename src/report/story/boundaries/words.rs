//! A boundary in sentences: how much is proven, and where; and apart from that, what is predicted. What to run, and why not one step further,
//! stands among the answers at the top, and once more only where a picture is read aloud.

use std::collections::HashSet;

use super::panel::{Stage, title};
use super::sight::Sight;
use crate::boundary::{Axis, Boundary, Point, Volume};
use crate::report::plot::Panel;
use crate::report::summary::{caveats, searched};
use crate::report::{Count, Extras};

/// What a part says beside its pictures.
pub(super) fn paragraphs(stage: &Stage, extras: &Extras) -> Vec<String> {
    let boundary = stage.boundary;
    let fails = boundary.failing().ok().and_then(|points| ends(&points));
    let fails = fails.map(|ends| format!("the smallest that fail: {ends}"));
    let mut told = vec![sentences([shares(boundary), fails])];
    told.extend(predicted(boundary));
    let search = extras.search.as_ref().and_then(searched);
    let caveats = caveats(boundary).ok().flatten();
    let lines = search.iter().chain(&caveats).flat_map(|lines| lines.lines());
    told.extend(lines.map(|line| sentence(line.to_owned())));
    told.retain(|paragraph| !paragraph.is_empty());
    told
}

/// What a picture shows, for whoever cannot see it.
pub(super) fn words(stage: &Stage, sight: &Sight) -> String {
    let (boundary, advice) = (stage.boundary, stage.advice);
    let over = sight.slider.map_or_else(String::new, |axis| {
        format!(
            "what fits over {} is shown by {}",
            names(&[Some(sight.x), sight.y]),
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
        Some(over).filter(|over| !over.is_empty()),
        shares(boundary),
        largest(boundary),
        recommended,
        stage.further.clone(),
    ])
}

/// What must be known to read a picture. `absent` probes are not in it.
pub(super) fn caption(boundary: &Boundary, sight: &Sight, panels: &[Panel], absent: usize) -> String {
    let mut told = Vec::new();
    let elsewhere = sight.elsewhere();
    if !elsewhere.is_empty() {
        told.push(format!("all of it at {}", elsewhere.join(", ")));
    }
    if let Some(slider) = sight.slider {
        let cuts: HashSet<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
        let own = |point: &Point| point.0.get(slider.name()).map(|value| title(slider, *value));
        let between = |point: &Point| own(point).is_some_and(|own| !cuts.contains(own.as_str()));
        if boundary.records().any(|(point, _)| between(&point)) {
            told.push(format!(
                "more values of {} were asked than are cut here: a probe between two cuts stands on the one of which it says something, what fits \
                 on the easier, what fails on the harder one",
                slider.name()
            ));
        }
    }
    if absent > 0 {
        told.push(format!(
            "{} elsewhere in the box or outside of it, and only in the table",
            Count(absent, "probe")
        ));
    }
    if boundary.records().len() > 0 {
        told.push("what is proven follows from the probes alone: a limit is monotone, so that whatever is easier than what fits fits too".to_owned());
    }
    sentences(told.into_iter().map(Some))
}

/// How the box divides.
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
        return Some(format!("nothing was asked yet of {}", ranges.join(", ")));
    }
    let asked = format!("{} over {}", Count(count, "probe"), ranges.join(", "));
    let Ok(volume) = boundary.volume() else {
        return Some(asked);
    };
    let mut parts = vec![
        format!("{} is proven to fit", share(volume.fits, volume)),
        format!("{} proven to fail", share(volume.fails, volume)),
    ];
    if volume.clipped > 0 {
        parts.push(format!("{} beyond a length limit", share(volume.clipped, volume)));
    }
    let open = share(volume.open, volume);
    Some(format!("{asked}: of the box, {} and {open} open", parts.join(", ")))
}

/// A part of the box in hundredths; what is little, or nearly all, never reads as nothing, or as all.
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

/// Where what fits ends, and where what fails begins.
fn largest(boundary: &Boundary) -> Option<String> {
    let (frontier, failing) = (boundary.frontier().ok()?, boundary.failing().ok()?);
    let fits = ends(&frontier).map(|ends| format!("the largest that fit: {ends}"));
    let fails = ends(&failing).map(|ends| format!("the smallest that fail: {ends}"));
    let told: Vec<String> = fits.into_iter().chain(fails).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Points by the first and the last of them.
fn ends(points: &[Point]) -> Option<String> {
    match points {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{} points from {first} to {last}", points.len())),
    }
}

/// What is predicted, in words that nobody takes for a proof.
fn predicted(boundary: &Boundary) -> Option<String> {
    let places = boundary.predicted().ok()?;
    let middle = places.get(places.len() / 2)?;
    let high = middle
        .high
        .as_ref()
        .map_or_else(|| "the end of the box".to_owned(), Point::to_string);
    Some(format!(
        "Predicted, not proven: limits of memory that agree with every answer let the boundary run, on one ray from the easiest corner, between {} \
         and {high}, most likely near {}; the hatched region is what more than half of them admit.",
        middle.low, middle.expected,
    ))
}

fn names(axes: &[Option<&Axis>]) -> String {
    axes.iter()
        .flatten()
        .map(|axis| axis.name())
        .collect::<Vec<_>>()
        .join(" and ")
}

/// Sentences, each with a capital letter and a full stop.
fn sentences(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().map(sentence).collect::<Vec<_>>().join(" ")
}

fn sentence(text: String) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return text };
    let end = if text.ends_with(['.', '…']) { "" } else { "." };
    format!("{}{}{end}", first.to_uppercase(), letters.as_str())
}
