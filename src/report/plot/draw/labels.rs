//! Labels around and within a panel, placed so that they do not overlap: names of phases, vertical rules and moments at
//! the top; names of horizontal rules and of lines at the right; labels beside single points.

use super::scale::AxisScale;
use super::style::{LayoutMetrics, MarkStyle, Role};
use super::text::{shorten, text_width, wrap};
use super::writer::{AlignH, AlignV, PlotArea, Rect, SvgWriter, TextStyle, point};
use crate::report::plot::{Layer, Panel, Span};

/// Maximum number of rows of labels.
const ROWS: usize = 3;
/// Maximum number of phases with a name: the widest. Others are bands without a name.
const NAMED: usize = 12;

pub(super) struct TopLabels {
    /// Middle and name of each phase.
    phases: Vec<(f64, String)>,
    /// Labels with their left ends and rows, in pixels from the left edge.
    line_labels: Vec<(Label, f64, usize)>,
    /// Notes for below the panel.
    pub(super) footnotes: Vec<String>,
    strip: f64,
    row: f64,
}

/// Whether two panels have the same labels above them.
pub(super) fn same_top_labels(one: &Panel, other: &Panel) -> bool {
    fn labels(panel: &Panel) -> impl Iterator<Item = &Layer> {
        let labelled = |layer: &&Layer| match layer {
            Layer::Spans { .. } | Layer::Moments { .. } => true,
            Layer::Rule { upright, .. } => *upright,
            _ => false,
        };
        panel.layers.iter().filter(labelled)
    }
    labels(one).eq(labels(other))
}

impl TopLabels {
    pub(super) fn new(panel: &Panel, x: AxisScale, width: f64, metrics: LayoutMetrics) -> Self {
        let (mut phases, mut footnotes) = (Vec::new(), Vec::new());
        let ends = |span: &Span| (x.share(span.from).clamp(0.0, 1.0), x.share(span.to).clamp(0.0, 1.0));
        let named = widest(spans(panel).map(|span| ends(span).1 - ends(span).0).collect());
        for (number, span) in spans(panel).enumerate().filter(|(number, _)| named.contains(number)) {
            let (from, to) = ends(span);
            let label = span_label(span, number, (to - from) * width, metrics);
            if label.is_empty() {
                continue;
            }
            if label != span.label {
                footnotes.push(format!("{}\u{a0}{}", number + 1, span.label));
            }
            phases.push((f64::midpoint(from, to) * width, label));
        }
        let wanted: Vec<Label> = line_labels(panel)
            .filter(|(place, _)| x.contains(*place))
            .map(|(place, text)| {
                let text = shorten(text, metrics.font, (width * 0.6).min(280.0));
                Label {
                    at: x.share(place) * width,
                    width: text_width(&text, metrics.font),
                    text,
                }
            })
            .collect();
        let count = wanted.len();
        let line_labels = stack_rows(wanted, 0.0, width, ROWS);
        let mut footnotes = wrap(&footnotes.join(" · "), metrics.font, width, 4);
        match count - line_labels.len() {
            0 => {}
            1 => footnotes.push("1 more label has no room above".to_owned()),
            left => footnotes.push(format!("{left} more labels have no room above")),
        }
        let strip = if phases.is_empty() { 0.0 } else { metrics.font * 1.5 };
        Self {
            phases,
            line_labels,
            footnotes,
            strip,
            row: metrics.font * 1.3,
        }
    }

    pub(super) fn height(&self) -> f64 {
        let rows = self.line_labels.iter().map(|(_, _, row)| row + 1).max().unwrap_or(0);
        let rows = rows as f64;
        self.strip + rows * self.row + if rows > 0.0 { 4.0 } else { 0.0 }
    }

    pub(super) fn draw(&self, svg: &mut SvgWriter, rect: Rect, metrics: LayoutMetrics) {
        let phase = TextStyle::new(Role::SecondaryText, metrics.font)
            .align_h(AlignH::Center)
            .align_v(AlignV::Bottom);
        for (middle, label) in &self.phases {
            svg.text(label, rect.left + middle, rect.top - 2.0, phase);
        }
        let height = |row: usize| {
            let up = row as f64 * self.row;
            rect.top - self.strip - 3.0 - up
        };
        for (label, _, row) in &self.line_labels {
            let x = rect.left + label.at;
            svg.line(&[point(x, height(*row) + 1.0), point(x, rect.top)], Role::Edge, 0.8);
        }
        for (label, left, row) in &self.line_labels {
            let text_style = TextStyle::new(Role::Text, metrics.font).align_v(AlignV::Bottom).halo();
            svg.text(&label.text, rect.left + left, height(*row), text_style);
        }
    }
}

/// Positions and names of vertical rules and moments.
fn line_labels(panel: &Panel) -> impl Iterator<Item = (f64, &str)> {
    panel.layers.iter().flat_map(|layer| {
        let named: Vec<(f64, &str)> = match layer {
            Layer::Rule {
                name,
                at,
                upright: true,
                ..
            } => vec![(*at, name)],
            Layer::Moments { moments, .. } => moments
                .iter()
                .map(|moment| (moment.at, moment.label.as_str()))
                .collect(),
            _ => Vec::new(),
        };
        named.into_iter().filter(|(_, name)| !name.is_empty())
    })
}

/// Indices of the widest phases, which get names.
fn widest(wide: Vec<f64>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wide.len()).collect();
    order.sort_by(|one, other| wide[*other].total_cmp(&wide[*one]));
    order.truncate(NAMED);
    order
}

fn spans(panel: &Panel) -> impl Iterator<Item = &Span> {
    panel.layers.iter().flat_map(|layer| match layer {
        Layer::Spans { spans } => spans.as_slice(),
        _ => &[],
    })
}

/// The name of a phase, its number if the name has no room, or nothing.
fn span_label(span: &Span, number: usize, room: f64, metrics: LayoutMetrics) -> String {
    if text_width(&span.label, metrics.font) + 6.0 <= room {
        return span.label.clone();
    }
    let number = (number + 1).to_string();
    if text_width(&number, metrics.font) <= room {
        number
    } else {
        String::new()
    }
}

/// Maximum width of a label in pixels, and maximum number of its lines.
const WIDEST: f64 = 170.0;
const LINES: usize = 2;
/// Pixels from the panel to a label, and of the line sample before it.
const GAP: f64 = 7.0;
const SAMPLE: f64 = 12.0;

struct SideLabel {
    at: f64,
    text: Vec<String>,
    sample: Option<MarkStyle>,
}

#[derive(Default)]
pub(super) struct DirectLabels {
    sides: Vec<SideLabel>,
    /// Whether lines are labelled here, so that they need no legend.
    pub(super) lines: bool,
    /// Whether horizontal rules are.
    pub(super) rules: bool,
}

impl DirectLabels {
    /// No labels if there is no room, or if the panel has a second scale there.
    pub(super) fn new(panel: &Panel, x: AxisScale, y: AxisScale, height: f64, metrics: LayoutMetrics) -> Self {
        if !metrics.side_room || panel.right.is_some() {
            return Self::default();
        }
        let line = |layer: &Layer| match layer {
            Layer::Line {
                name,
                points,
                colour,
                dashed,
                ..
            } if !name.is_empty() => {
                let (last, value) = points.iter().rev().find_map(|(x, y)| y.map(|y| (*x, y)))?;
                (x.share(last) > 0.97 && y.contains(value)).then(|| SideLabel {
                    at: value,
                    text: vec![name.clone()],
                    sample: Some(MarkStyle::line(*colour, *dashed)),
                })
            }
            _ => None,
        };
        let named = |layer: &&Layer| matches!(layer, Layer::Line { name, .. } if !name.is_empty());
        let area = |layer: &Layer| matches!(layer, Layer::Area { .. });
        let mut sides: Vec<SideLabel> = panel.layers.iter().filter_map(line).collect();
        let all = panel.layers.iter().filter(named).count();
        let fit = sides.iter().all(|side| side.width(metrics) <= WIDEST);
        let lines = all > 1 && sides.len() == all && fit && !panel.layers.iter().any(area);
        if !lines {
            sides.clear();
        }
        for layer in &panel.layers {
            if let Layer::Rule {
                name,
                at,
                upright: false,
                ..
            } = layer
                && y.contains(*at)
                && !name.is_empty()
            {
                sides.push(SideLabel {
                    at: *at,
                    text: wrap(name, metrics.font, WIDEST, LINES),
                    sample: None,
                });
            }
        }
        let needed: f64 = sides.iter().map(|side| side.height(metrics)).sum();
        if needed > height + metrics.font {
            return Self::default();
        }
        Self {
            sides,
            lines,
            rules: true,
        }
    }

    pub(super) fn width(&self, metrics: LayoutMetrics) -> f64 {
        let width = |side: &SideLabel| GAP + sample_width(side) + side.width(metrics);
        self.sides.iter().map(width).fold(0.0, f64::max)
    }

    pub(super) fn draw(&self, svg: &mut SvgWriter, area: &PlotArea, metrics: LayoutMetrics) {
        let wanted: Vec<f64> = self.sides.iter().map(|side| area.y_pixel(side.at)).collect();
        let high: Vec<f64> = self.sides.iter().map(|side| side.height(metrics)).collect();
        let places = spread(&wanted, &high, area.rect.top, area.rect.bottom());
        for (side, y) in self.sides.iter().zip(places) {
            let left = area.rect.right() + GAP;
            if let Some(style) = side.sample {
                svg.line(&[point(left, y), point(left + SAMPLE, y)], style, 2.0);
            }
            let text_style = TextStyle::new(Role::Text, metrics.font).align_v(AlignV::Center);
            let mut y = y - (side.height(metrics) - line_height(metrics)) / 2.0;
            for text in &side.text {
                svg.text(text, left + sample_width(side), y, text_style);
                y += line_height(metrics);
            }
        }
    }
}

impl SideLabel {
    fn width(&self, metrics: LayoutMetrics) -> f64 {
        self.text
            .iter()
            .map(|text| text_width(text, metrics.font))
            .fold(0.0, f64::max)
    }

    fn height(&self, metrics: LayoutMetrics) -> f64 {
        self.text.len() as f64 * line_height(metrics)
    }
}

fn line_height(metrics: LayoutMetrics) -> f64 {
    metrics.font * 1.25
}

/// Width of the line sample before a label.
fn sample_width(side: &SideLabel) -> f64 {
    if side.sample.is_some() { SAMPLE + 5.0 } else { 0.0 }
}

/// Pixels from the middle of a marker to its label, and half the size of a marker.
const NOTE_DISTANCE: f64 = 7.0;
const MARKER: f64 = 5.0;

/// Pixels between two labels.
const NOTE_GAP: f64 = 3.0;

/// Samples along each segment of a curve.
const STEPS: u8 = 24;

pub(super) fn draw_notes(svg: &mut SvgWriter, area: &PlotArea, panel: &Panel, metrics: LayoutMetrics) {
    let notes: Vec<_> = panel
        .notes
        .iter()
        .filter(|note| area.contains(note.at.0, note.at.1))
        .collect();
    let wanted: Vec<((f64, f64), f64)> = notes
        .iter()
        .map(|note| {
            (
                (area.x_pixel(note.at.0), area.y_pixel(note.at.1)),
                text_width(&note.label, metrics.font),
            )
        })
        .collect();
    let curves: Vec<Vec<(f64, f64)>> = panel
        .layers
        .iter()
        .filter_map(|layer| match layer {
            Layer::Line {
                points, right: false, ..
            } => Some(points),
            _ => None,
        })
        .map(|points| {
            let pixels = points
                .iter()
                .filter_map(|(x, y)| y.map(|y| (area.x_pixel(*x), area.y_pixel(y))));
            pixels.collect()
        })
        .collect();
    let places = place_labels(&wanted, metrics.font * 1.15, area.rect, &curves);
    for (note, place) in notes.iter().zip(places) {
        if let Some(place) = place {
            svg.text(
                &note.label,
                place.left,
                place.top,
                TextStyle::new(Role::Text, metrics.font).halo(),
            );
        }
    }
}

/// Greedy label placement: end points first, then midpoints. Tries six positions per label and prefers one that does
/// not cross a curve. `wanted` has the marker's middle and the width of each label.
fn place_labels(
    wanted: &[((f64, f64), f64)],
    height: f64,
    inside: Rect,
    curves: &[Vec<(f64, f64)>],
) -> Vec<Option<Rect>> {
    let mut places: Vec<Option<Rect>> = vec![None; wanted.len()];
    for index in placement_order(wanted.len()) {
        let ((x, y), width) = wanted[index];
        let rect = |left: f64, top: f64| Rect {
            left,
            top,
            width,
            height,
        };
        let choices = [
            rect(x + NOTE_DISTANCE - 2.0, y + 2.0),
            rect(x - NOTE_DISTANCE + 2.0 - width, y - 2.0 - height),
            rect(x + NOTE_DISTANCE, y - height / 2.0),
            rect(x - NOTE_DISTANCE - width, y - height / 2.0),
            rect(x - width / 2.0, y + NOTE_DISTANCE),
            rect(x - width / 2.0, y - NOTE_DISTANCE - height),
        ];
        let free = |rect: &&Rect| {
            let within = rect.left >= inside.left
                && rect.right() <= inside.right()
                && rect.top >= inside.top
                && rect.bottom() <= inside.bottom();
            let marks = wanted.iter().enumerate().filter(|(other, _)| *other != index);
            within
                && marks.map(|(_, (at, _))| *at).all(|at| !contains(**rect, at, MARKER))
                && places.iter().flatten().all(|other| !overlap(**rect, *other))
        };
        let aside = |rect: &&Rect| curves.iter().all(|curve| !crosses(curve, **rect));
        let free: Vec<&Rect> = choices.iter().filter(free).collect();
        let best = free.iter().copied().find(aside).or_else(|| free.first().copied());
        places[index] = best.copied();
    }
    places
}

/// The order of placement: both ends, the middle, then the middles between these.
fn placement_order(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = [0, count.saturating_sub(1)]
        .into_iter()
        .filter(|index| *index < count)
        .collect();
    let mut step = count.saturating_sub(1);
    while step > 0 {
        order.extend((0..count).step_by(step));
        step /= 2;
    }
    let mut placed = vec![false; count];
    order.retain(|index| !std::mem::replace(&mut placed[*index], true));
    order
}

fn overlap(one: Rect, other: Rect) -> bool {
    one.left < other.right() + NOTE_GAP
        && other.left < one.right() + NOTE_GAP
        && one.top < other.bottom()
        && other.top < one.bottom()
}

/// Whether a point lies in a rectangle that is extended by `near`.
fn contains(rect: Rect, (x, y): (f64, f64), near: f64) -> bool {
    x > rect.left - near && x < rect.right() + near && y > rect.top - near && y < rect.bottom() + near
}

fn crosses(curve: &[(f64, f64)], rect: Rect) -> bool {
    let pairs = curve.iter().zip(curve.iter().skip(1));
    pairs.into_iter().any(|(from, to)| {
        (0..=STEPS).any(|step| {
            let part = f64::from(step) / f64::from(STEPS);
            let at = (from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1));
            contains(rect, at, 0.0)
        })
    })
}

/// A label and where it should be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    /// The position of what it labels.
    pub(super) at: f64,
    pub(super) width: f64,
    pub(super) text: String,
}

/// Moves labels apart as little as possible, so that none overlaps another, and within limits if they all fit. `wanted`
/// are their middles, `high` their heights; the result is in the same order.
pub(super) fn spread(wanted: &[f64], high: &[f64], low: f64, end: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]));
    let distance = |one: usize, other: usize| f64::midpoint(high[one], high[other]);
    let mut places = wanted.to_vec();
    let mut before: Option<usize> = None;
    for &index in &order {
        let least = before.map_or(low, |before| places[before] + distance(before, index));
        places[index] = places[index].max(least);
        before = Some(index);
    }
    let mut after: Option<usize> = None;
    for &index in order.iter().rev() {
        let most = after.map_or(end, |after| places[after] - distance(index, after));
        places[index] = places[index].min(most);
        after = Some(index);
    }
    places
}

/// Puts labels into rows, the nearest row first; returns each with its left end and row. Drops those without room.
pub(super) fn stack_rows(mut labels: Vec<Label>, low: f64, high: f64, rows: usize) -> Vec<(Label, f64, usize)> {
    labels.sort_by(|one, other| one.at.total_cmp(&other.at));
    let mut ends = vec![f64::NEG_INFINITY; rows];
    let mut placed = Vec::new();
    for label in labels {
        let left = (label.at - label.width / 2.0).min(high - label.width).max(low);
        let row = ends.iter().position(|end| *end + 8.0 <= left);
        if let Some(row) = row {
            ends[row] = left + label.width;
            placed.push((label, left, row));
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INSIDE: Rect = Rect {
        left: 0.0,
        top: 0.0,
        width: 400.0,
        height: 200.0,
    };

    #[test]
    fn end_points_are_placed_first() {
        assert_eq!(placement_order(0), [0; 0]);
        assert_eq!(placement_order(1), [0]);
        assert_eq!(placement_order(9)[..3], [0, 8, 4]);
        let mut all = placement_order(14);
        all.sort_unstable();
        assert_eq!(all, (0..14).collect::<Vec<_>>());
    }

    #[test]
    fn labels_avoid_the_curve_and_are_left_out_without_room() {
        let point = |x: f64, y: f64| ((x, y), 20.0);
        let rising = [point(50.0, 150.0), point(200.0, 100.0), point(350.0, 50.0)];
        let curve = rising.map(|(place, _)| place).to_vec();
        let places = place_labels(&rising, 12.0, INSIDE, std::slice::from_ref(&curve));
        assert!(
            places.iter().flatten().all(|rect| !crosses(&curve, *rect)) && !places.contains(&None),
            "{places:?}"
        );
        let crowd = [point(100.0, 100.0); 9];
        assert!(place_labels(&crowd, 12.0, INSIDE, &[]).contains(&None));
    }

    proptest! {
        #[test]
        fn no_label_overlaps_another_a_marker_or_the_edge(
            wanted in prop::collection::vec(((0.0..400.0_f64, 0.0..200.0_f64), 4.0..90.0_f64), 0..24)
        ) {
            let places = place_labels(&wanted, 12.0, INSIDE, &[]);
            let all: Vec<Rect> = places.iter().flatten().copied().collect();
            for (index, rect) in all.iter().enumerate() {
                prop_assert!(all[index + 1..].iter().all(|other| !overlap(*rect, *other)));
                prop_assert!(rect.left >= 0.0 && rect.right() <= 400.0 && rect.top >= 0.0 && rect.bottom() <= 200.0);
                prop_assert!(wanted.iter().all(|(at, _)| !contains(*rect, *at, 0.0)));
            }
        }
    }

    proptest! {
        #[test]
        fn spread_places_keep_their_distance(wanted in prop::collection::vec(0.0..100.0_f64, 0..8)) {
            // Every other label has two lines.
            let high: Vec<f64> = (0..wanted.len()).map(|index| if index % 2 == 0 { 5.0 } else { 10.0 }).collect();
            let places = spread(&wanted, &high, 0.0, 100.0);
            let mut labels: Vec<(f64, f64)> = places.iter().copied().zip(high).collect();
            labels.sort_by(|one, other| one.0.total_cmp(&other.0));
            let clear = |pair: &[(f64, f64)]| pair[1].0 - pair[0].0 > f64::midpoint(pair[0].1, pair[1].1) - 1e-9;
            prop_assert!(labels.windows(2).all(clear), "{labels:?}");
            prop_assert!(places.iter().all(|place| (-1e-9..=100.0 + 1e-9).contains(place)), "{places:?}");
        }

        #[test]
        fn labels_of_one_row_do_not_touch(wanted in prop::collection::vec((0.0..500.0_f64, 5.0..120.0_f64), 0..20)) {
            let labels = wanted.iter().map(|(at, wide)| Label { at: *at, width: *wide, text: String::new() }).collect();
            let placed = stack_rows(labels, 0.0, 500.0, 2);
            for row in 0..2 {
                let ends: Vec<(f64, f64)> = placed.iter().filter(|label| label.2 == row).map(|(label, left, _)| (*left, left + label.width)).collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ends:?}");
                prop_assert!(ends.iter().all(|(left, right)| *left >= 0.0 && *right <= 500.0 + 1e-9));
            }
        }
    }
}
