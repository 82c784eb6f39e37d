//! Labels around and within a panel, placed so that they do not overlap: names of phases, vertical rules and moments at
//! the top; names of horizontal rules and of lines at the right; labels beside single points.

use super::layout::Metrics;
use super::scale::AxisScale;
use super::style::{EDGE, Stroke, TEXT};
use super::svg::{AlignH, AlignV, PlotArea, Rect, SvgWriter, TextStyle, point, shorten, text_width, widest, wrap};
use crate::report::plot::{Layer, Panel, Span};

/// Maximum number of rows of labels at the top.
const ROWS: usize = 3;
/// Maximum number of phases with a name: the widest. Others are stripes without a name.
const NAMED: usize = 12;

/// The labels above a panel; positions are in pixels from its left edge.
pub(super) struct TopLabels {
    /// Middle and name of each phase.
    phases: Vec<(f64, String)>,
    /// Position, left end, row and text of the labels of vertical rules and moments.
    lines: Vec<(f64, f64, usize, String)>,
    /// Notes for below the panel.
    pub(super) footnotes: Vec<String>,
    strip: f64,
    row: f64,
}

/// Whether two panels have the same labels above them.
pub(super) fn same_top_labels(one: &Panel, other: &Panel) -> bool {
    fn labels(panel: &Panel) -> impl Iterator<Item = &Layer> {
        panel.layers.iter().filter(|layer| {
            matches!(
                layer,
                Layer::Spans { .. } | Layer::Moments { .. } | Layer::Rule { upright: true, .. }
            )
        })
    }
    labels(one).eq(labels(other))
}

impl TopLabels {
    pub(super) fn new(panel: &Panel, x: AxisScale, width: f64, font: f64) -> Self {
        let (phases, names) = phase_labels(panel, x, width, font);
        let mut footnotes = wrap(&names.join(" · "), font, width, 4);
        let mut wanted: Vec<(f64, &str)> = line_labels(panel).filter(|(at, _)| x.contains(*at)).collect();
        wanted.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut ends = [f64::NEG_INFINITY; ROWS];
        let mut lines = Vec::new();
        let mut left_out = 0;
        for (at, text) in wanted {
            let text = shorten(text, font, (width * 0.6).min(280.0));
            let (at, wide) = (x.share(at) * width, text_width(&text, font));
            let left = (at - wide / 2.0).min(width - wide).max(0.0);
            // The lowest row with room.
            match ends.iter().position(|end| *end + 8.0 <= left) {
                Some(row) => {
                    ends[row] = left + wide;
                    lines.push((at, left, row, text));
                }
                None => left_out += 1,
            }
        }
        match left_out {
            0 => {}
            1 => footnotes.push("1 more label has no room above".to_owned()),
            _ => footnotes.push(format!("{left_out} more labels have no room above")),
        }
        Self {
            strip: if phases.is_empty() { 0.0 } else { font * 1.5 },
            row: font * 1.3,
            phases,
            lines,
            footnotes,
        }
    }

    pub(super) fn height(&self) -> f64 {
        let rows = self.lines.iter().map(|(_, _, row, _)| row + 1).max().unwrap_or(0);
        self.strip + if rows > 0 { rows as f64 * self.row + 4.0 } else { 0.0 }
    }

    pub(super) fn draw(&self, svg: &mut SvgWriter, rect: Rect, font: f64) {
        let style = TextStyle {
            h: AlignH::Center,
            v: AlignV::Bottom,
            ..TextStyle::new(font)
        };
        for (middle, label) in &self.phases {
            svg.text(label, rect.left + middle, rect.top - 2.0, style);
        }
        let height = |row: usize| rect.top - self.strip - 3.0 - row as f64 * self.row;
        for (at, _, row, _) in &self.lines {
            let x = rect.left + at;
            svg.line(
                &[point(x, height(*row) + 1.0), point(x, rect.top)],
                Stroke::solid(EDGE, 0.8),
            );
        }
        let style = TextStyle {
            role: TEXT,
            h: AlignH::Left,
            halo: true,
            ..style
        };
        for (_, left, row, text) in &self.lines {
            svg.text(text, rect.left + left, height(*row), style);
        }
    }
}

/// Position and name of each phase: its number if the name has no room, and then a footnote.
fn phase_labels(panel: &Panel, x: AxisScale, width: f64, font: f64) -> (Vec<(f64, String)>, Vec<String>) {
    let spans = panel.layers.iter().filter_map(|layer| match layer {
        Layer::Spans { spans } => Some(spans),
        _ => None,
    });
    let ends = |span: &Span| [span.from, span.to].map(|end| x.share(end).clamp(0.0, 1.0) * width);
    let mut named: Vec<(usize, [f64; 2], &str)> = (1..)
        .zip(spans.flatten())
        .map(|(number, span)| (number, ends(span), span.label.as_str()))
        .collect();
    named.sort_by(|(_, one, _), (_, other, _)| (other[1] - other[0]).total_cmp(&(one[1] - one[0])));
    named.truncate(NAMED);
    named.sort_by_key(|(number, ..)| *number);
    let (mut phases, mut footnotes) = (Vec::new(), Vec::new());
    for (number, [from, to], name) in named {
        let middle = f64::midpoint(from, to);
        let short = number.to_string();
        if text_width(name, font) + 6.0 <= to - from {
            phases.push((middle, name.to_owned()));
        } else if text_width(&short, font) <= to - from {
            footnotes.push(format!("{short}\u{a0}{name}"));
            phases.push((middle, short));
        }
    }
    (phases, footnotes)
}

/// Positions and names of vertical rules and moments.
fn line_labels(panel: &Panel) -> impl Iterator<Item = (f64, &str)> {
    fn labels(layer: &Layer) -> Vec<(f64, &str)> {
        match layer {
            Layer::Rule {
                name,
                at,
                upright: true,
                ..
            } => vec![(*at, name)],
            Layer::Moments { moments, .. } => moments.iter().map(|one| (one.at, one.label.as_str())).collect(),
            _ => Vec::new(),
        }
    }
    panel
        .layers
        .iter()
        .flat_map(labels)
        .filter(|(_, name)| !name.is_empty())
}

/// Maximum width of a label in pixels, and maximum number of its lines.
const WIDEST: f64 = 170.0;
const LINES: usize = 2;
/// Pixels from the panel to a label, and of the line sample before it.
const GAP: f64 = 7.0;
const SAMPLE: f64 = 17.0;

struct SideLabel {
    at: f64,
    text: Vec<String>,
    sample: Option<Stroke>,
}

/// Names of horizontal rules and of lines at the right edge, instead of in the legend.
#[derive(Default)]
pub(super) struct SideLabels {
    labels: Vec<SideLabel>,
    /// Whether lines are labelled here, so that they need no legend.
    pub(super) lines: bool,
    /// Whether horizontal rules are.
    pub(super) rules: bool,
}

impl SideLabels {
    /// No labels if there is no room, or if the panel has a second scale there.
    pub(super) fn new(panel: &Panel, x: AxisScale, y: AxisScale, height: f64, metrics: Metrics) -> Self {
        if !metrics.side_room || panel.right.is_some() {
            return Self::default();
        }
        let font = metrics.font;
        let named = |layer: &&Layer| matches!(layer, Layer::Line { name, .. } if !name.is_empty());
        // Lines are labelled if all of several end at the right edge.
        let line = |layer: &Layer| {
            let Layer::Line {
                name,
                points,
                colour,
                dashed,
                ..
            } = layer
            else {
                return None;
            };
            let (last, at) = points.iter().rev().find_map(|(x, y)| y.map(|y| (*x, y)))?;
            let fits = x.share(last) > 0.97 && y.contains(at) && text_width(name, font) <= WIDEST;
            let label = || SideLabel {
                at,
                text: vec![name.clone()],
                sample: Some(Stroke::new(*colour, *dashed, 2.0)),
            };
            fits.then(label)
        };
        let map = panel.layers.iter().any(|layer| matches!(layer, Layer::Area { .. }));
        let lines: Option<Vec<SideLabel>> = panel.layers.iter().filter(named).map(line).collect();
        let lines = lines.filter(|lines| lines.len() > 1 && !map);
        let rule = |layer: &Layer| match layer {
            Layer::Rule {
                name,
                at,
                upright: false,
                ..
            } if y.contains(*at) && !name.is_empty() => Some(SideLabel {
                at: *at,
                text: wrap(name, font, WIDEST, LINES),
                sample: None,
            }),
            _ => None,
        };
        let side = Self {
            lines: lines.is_some(),
            rules: true,
            labels: lines
                .into_iter()
                .flatten()
                .chain(panel.layers.iter().filter_map(rule))
                .collect(),
        };
        let needed: f64 = side.labels.iter().map(|label| label.height(font)).sum();
        if needed > height + font { Self::default() } else { side }
    }

    pub(super) fn width(&self, font: f64) -> f64 {
        let width = |label: &SideLabel| {
            let text = widest(label.text.iter().map(String::as_str), font);
            GAP + label.indent() + text
        };
        self.labels.iter().map(width).fold(0.0, f64::max)
    }

    pub(super) fn draw(&self, svg: &mut SvgWriter, area: &PlotArea, font: f64) {
        let wanted: Vec<(f64, f64)> = self
            .labels
            .iter()
            .map(|label| (area.y_pixel(label.at), label.height(font)))
            .collect();
        let places = spread(&wanted, area.rect.top, area.rect.bottom());
        let left = area.rect.right() + GAP;
        let style = TextStyle {
            role: TEXT,
            v: AlignV::Center,
            ..TextStyle::new(font)
        };
        for (label, y) in self.labels.iter().zip(places) {
            if let Some(stroke) = label.sample {
                svg.line(&[point(left, y), point(left + SAMPLE - 5.0, y)], stroke);
            }
            let first = y - (label.height(font) - line_height(font)) / 2.0;
            for (row, text) in label.text.iter().enumerate() {
                svg.text(
                    text,
                    left + label.indent(),
                    first + row as f64 * line_height(font),
                    style,
                );
            }
        }
    }
}

impl SideLabel {
    fn height(&self, font: f64) -> f64 {
        self.text.len() as f64 * line_height(font)
    }

    /// Width of the line sample before the text.
    fn indent(&self) -> f64 {
        if self.sample.is_some() { SAMPLE } else { 0.0 }
    }
}

fn line_height(font: f64) -> f64 {
    font * 1.25
}

/// Moves labels apart as little as possible, so that none overlaps another, and within limits if they all fit. `wanted`
/// are their middles and heights; the result is in the same order.
fn spread(wanted: &[(f64, f64)], low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].0.total_cmp(&wanted[*other].0));
    let mut places: Vec<f64> = wanted.iter().map(|label| label.0).collect();
    let distance = |one: usize, other: usize| f64::midpoint(wanted[one].1, wanted[other].1);
    for (rank, &index) in order.iter().enumerate() {
        let before = rank.checked_sub(1).map(|rank| order[rank]);
        places[index] = places[index].max(before.map_or(low, |before| places[before] + distance(before, index)));
    }
    for (rank, &index) in order.iter().enumerate().rev() {
        let after = order.get(rank + 1).copied();
        places[index] = places[index].min(after.map_or(high, |after| places[after] - distance(index, after)));
    }
    places
}

/// Pixels from the middle of a marker to its label, half the size of a marker, and pixels between two labels.
const NOTE_DISTANCE: f64 = 7.0;
const MARKER: f64 = 5.0;
const NOTE_GAP: f64 = 3.0;
/// Points of a line segment that are tested for whether it crosses a label.
const STEPS: u8 = 24;

/// Writes each label beside its point, where there is room.
pub(super) fn draw_notes(svg: &mut SvgWriter, area: &PlotArea, panel: &Panel, font: f64) {
    let shown: Vec<_> = panel
        .notes
        .iter()
        .filter(|note| area.contains(note.at.0, note.at.1))
        .collect();
    let points: Vec<((f64, f64), f64)> = shown
        .iter()
        .map(|note| {
            (
                (area.x_pixel(note.at.0), area.y_pixel(note.at.1)),
                text_width(&note.label, font),
            )
        })
        .collect();
    let curve = |layer: &Layer| match layer {
        Layer::Line {
            points, right: false, ..
        } => {
            let known = points.iter().filter_map(|(x, y)| y.map(|y| (*x, y)));
            Some(known.map(|(x, y)| (area.x_pixel(x), area.y_pixel(y))).collect())
        }
        _ => None,
    };
    let curves: Vec<Vec<(f64, f64)>> = panel.layers.iter().filter_map(curve).collect();
    let style = TextStyle {
        role: TEXT,
        halo: true,
        ..TextStyle::new(font)
    };
    let places = place_notes(&points, font * 1.15, area.rect, &curves);
    for (note, place) in shown.iter().zip(places) {
        if let Some(place) = place {
            svg.text(&note.label, place.left, place.top, style);
        }
    }
}

/// The first of six places beside each point that is free, if possible one that crosses no curve. `points` are the
/// middles of the markers and the widths of their labels.
fn place_notes(
    points: &[((f64, f64), f64)],
    height: f64,
    inside: Rect,
    curves: &[Vec<(f64, f64)>],
) -> Vec<Option<Rect>> {
    let overlap = |one: &Rect, other: &Rect| {
        one.left < other.right() + NOTE_GAP
            && other.left < one.right() + NOTE_GAP
            && one.top < other.bottom()
            && other.top < one.bottom()
    };
    let marker = |(x, y): (f64, f64)| Rect {
        left: x - MARKER,
        top: y - MARKER,
        width: 2.0 * MARKER,
        height: 2.0 * MARKER,
    };
    let mut places: Vec<Option<Rect>> = vec![None; points.len()];
    for index in placement_order(points.len()) {
        let ((x, y), width) = points[index];
        let choices = [
            (x + NOTE_DISTANCE - 2.0, y + 2.0),
            (x - NOTE_DISTANCE + 2.0 - width, y - 2.0 - height),
            (x + NOTE_DISTANCE, y - height / 2.0),
            (x - NOTE_DISTANCE - width, y - height / 2.0),
            (x - width / 2.0, y + NOTE_DISTANCE),
            (x - width / 2.0, y - NOTE_DISTANCE - height),
        ];
        let free = |rect: &Rect| {
            let within = rect.left >= inside.left
                && rect.right() <= inside.right()
                && rect.top >= inside.top
                && rect.bottom() <= inside.bottom();
            let others = points.iter().enumerate().filter(|(other, _)| *other != index);
            within
                && others
                    .map(|(_, (at, _))| marker(*at))
                    .all(|marker| !overlap(rect, &marker))
                && places.iter().flatten().all(|other| !overlap(rect, other))
        };
        let rects = choices.map(|(left, top)| Rect {
            left,
            top,
            width,
            height,
        });
        let free: Vec<Rect> = rects.into_iter().filter(free).collect();
        let clear = free
            .iter()
            .find(|rect| !curves.iter().any(|curve| crosses(curve, **rect)));
        places[index] = clear.or(free.first()).copied();
    }
    places
}

/// The order of placement: both ends, the middle, then the middles between these.
fn placement_order(count: usize) -> Vec<usize> {
    let Some(last) = count.checked_sub(1) else {
        return Vec::new();
    };
    let mut order = vec![0, last];
    let mut step = last;
    while step > 0 {
        order.extend((0..count).step_by(step));
        step /= 2;
    }
    let mut placed = vec![false; count];
    order.retain(|index| !std::mem::replace(&mut placed[*index], true));
    order
}

/// Whether a curve runs through a rectangle.
fn crosses(curve: &[(f64, f64)], rect: Rect) -> bool {
    curve.windows(2).any(|ends| {
        (0..=STEPS).any(|step| {
            let part = f64::from(step) / f64::from(STEPS);
            let x = ends[0].0 + part * (ends[1].0 - ends[0].0);
            let y = ends[0].1 + part * (ends[1].1 - ends[0].1);
            x > rect.left && x < rect.right() && y > rect.top && y < rect.bottom()
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_label_overlaps_another_a_marker_or_the_edge(
            points in prop::collection::vec(((0.0..400.0_f64, 0.0..200.0_f64), 4.0..90.0_f64), 0..24)
        ) {
            let inside = Rect { left: 0.0, top: 0.0, width: 400.0, height: 200.0 };
            let places = place_notes(&points, 12.0, inside, &[]);
            let all: Vec<Rect> = places.iter().flatten().copied().collect();
            for (index, one) in all.iter().enumerate() {
                let apart = |other: &Rect| one.right() <= other.left || other.right() <= one.left || one.bottom() <= other.top || other.bottom() <= one.top;
                prop_assert!(all[index + 1..].iter().all(apart));
                prop_assert!(one.left >= 0.0 && one.right() <= 400.0 && one.top >= 0.0 && one.bottom() <= 200.0);
                prop_assert!(points.iter().all(|((x, y), _)| *x <= one.left || *x >= one.right() || *y <= one.top || *y >= one.bottom()));
            }
        }

        #[test]
        fn spread_places_keep_their_distance(wanted in prop::collection::vec(0.0..100.0_f64, 0..8)) {
            // Every other label has two lines.
            let wanted: Vec<(f64, f64)> = wanted.into_iter().zip([5.0, 10.0].into_iter().cycle()).collect();
            let places = spread(&wanted, 0.0, 100.0);
            let mut labels: Vec<(f64, f64)> = places.iter().copied().zip(wanted.iter().map(|label| label.1)).collect();
            labels.sort_by(|one, other| one.0.total_cmp(&other.0));
            let clear = |pair: &[(f64, f64)]| pair[1].0 - pair[0].0 > f64::midpoint(pair[0].1, pair[1].1) - 1e-9;
            prop_assert!(labels.windows(2).all(clear), "{labels:?}");
            prop_assert!(places.iter().all(|place| (-1e-9..=100.0 + 1e-9).contains(place)), "{places:?}");
        }
    }
}
