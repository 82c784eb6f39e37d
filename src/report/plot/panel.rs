//! One panel: its title, grid, marks, x axis and labels.

use super::marks::{Slot, axis_line, bar_slots, draw_markers, draw_within};
use super::scale::{AxisLayout, Tick};
use super::style::{GRID, Stroke, TEXT};
use super::svg::{PlotArea, Rect, SvgWriter, TextStyle, point, shorten, text_width, widest, wrap};
use crate::fmt::number;
use crate::report::plot::{Bar, Layer, Marks, Note, Panel};

/// A panel with its scales, ready to be drawn.
pub(super) struct PanelLayout<'a> {
    pub(super) panel: &'a Panel,
    pub(super) x: AxisLayout,
    pub(super) y: AxisLayout,
    pub(super) y_ticks: Vec<Tick>,
    pub(super) font: f64,
}

/// Labels without room, which are numbered above a panel and explained below the last one.
#[derive(Default)]
pub(super) struct Footnotes {
    labels: Vec<String>,
    /// How many marks have neither a label nor a number.
    unlabelled: usize,
}

impl Footnotes {
    /// The index that a label has, or would have.
    fn index(&self, label: &str) -> usize {
        let known = self.labels.iter().position(|known| known == label);
        known.unwrap_or(self.labels.len())
    }

    /// The explanations, and how many marks have none.
    pub(super) fn lines(&self, font: f64, width: f64) -> Vec<String> {
        let notes = (1..)
            .zip(&self.labels)
            .map(|(number, label)| format!("{number} {label}"));
        let more = (self.unlabelled > 0).then(|| format!("{} more have no room for a label", self.unlabelled));
        let notes: Vec<String> = notes.chain(more).collect();
        wrap(&notes.join(" · "), font, width, usize::MAX)
    }
}

/// A label wanted above a panel: where, between which ends it has room, and its text; in pixels from the left edge.
type Wanted<'a> = (f64, (f64, f64), &'a str);

impl PanelLayout<'_> {
    /// Draws the panel between `left` and `right`; gives the area between its axes and the lower end of all.
    pub(super) fn draw(
        &self,
        svg: &mut SvgWriter,
        top: f64,
        (left, right): (f64, f64),
        (height, own_axis): (f64, bool),
        heat: (f64, f64),
        footnotes: &mut Footnotes,
    ) -> (Rect, f64) {
        let font = self.font;
        let mut rect = Rect::new(left, top + 6.0, right - left, height);
        if !(self.panel.title.is_empty() && self.y.heading.is_empty()) {
            self.headings(svg, top, right);
            rect.top = top + font * 2.0;
        }
        for wanted in [self.phases(rect.width), self.upright_rules(rect.width)] {
            if !wanted.is_empty() {
                self.labels_above(svg, rect, wanted, footnotes);
                rect.top += font * 1.5;
            }
        }
        let (x, y) = (self.x.scale, self.y.scale);
        let area = PlotArea { x, y, rect };
        self.marks(svg, &area, heat);
        let ticks = self.x_ticks(rect.width);
        let marked = ticks.iter().filter(|_| own_axis && !self.x.has_names());
        axis_line(svg, &area, marked.map(|tick| tick.at));
        let bottom = match own_axis {
            true => self.x_axis(svg, &area, &ticks),
            false => rect.bottom() + 10.0,
        };
        (rect, bottom)
    }

    /// The title, and the name of the vertical axis.
    fn headings(&self, svg: &mut SvgWriter, top: f64, right: f64) {
        let style = TextStyle::new(self.font);
        let title = shorten(&self.panel.title, self.font * 1.08, right * 0.6);
        svg.text(&title, 0.0, top, style.role(TEXT).bold());
        let x = match title.as_str() {
            "" => 0.0,
            title => text_width(title, self.font * 1.08) + 12.0,
        };
        svg.text(&shorten(&self.y.heading, self.font, right - x), x, top, style);
    }

    fn phases(&self, width: f64) -> Vec<Wanted<'_>> {
        let spans = self.panel.layers.iter().filter_map(|layer| match &layer.marks {
            Marks::Spans { spans } => Some(spans),
            _ => None,
        });
        let pixel = |x: f64| self.x.scale.share(x).clamp(0.0, 1.0) * width;
        let wanted = spans.flatten().map(|span| {
            let (from, to) = (pixel(span.from), pixel(span.to));
            (f64::midpoint(from, to), (from, to), span.label.as_str())
        });
        wanted.collect()
    }

    /// Vertical rules, each with room up to the middle between it and the next.
    fn upright_rules(&self, width: f64) -> Vec<Wanted<'_>> {
        let rules = self.panel.layers.iter().filter_map(|layer| match layer.marks {
            Marks::Rule { at, upright: true } if self.x.scale.contains(at) && !layer.name.is_empty() => {
                Some((self.x.scale.share(at) * width, layer.name.as_str()))
            }
            _ => None,
        });
        let mut rules: Vec<(f64, &str)> = rules.collect();
        rules.sort_by(|one, other| one.0.total_cmp(&other.0));
        let end = |one: Option<usize>, other: usize, edge: f64| match one
            .and_then(|one| rules.get(one))
            .zip(rules.get(other))
        {
            Some((one, other)) => f64::midpoint(one.0, other.0),
            None => edge,
        };
        let wanted = rules.iter().enumerate().map(|(index, (at, label))| {
            let from = end(index.checked_sub(1), index, 0.0);
            (*at, (from, end(Some(index), index + 1, width)), *label)
        });
        wanted.collect()
    }

    /// One row of labels. Those without room are numbered, and left out where not even a number has room near its mark.
    fn labels_above(&self, svg: &mut SvgWriter, rect: Rect, wanted: Vec<Wanted>, footnotes: &mut Footnotes) {
        let mut end = 0.0_f64;
        for (at, (from, to), label) in wanted {
            let whole = text_width(label, self.font) + 8.0 <= to - from;
            let index = footnotes.index(label);
            let text = match whole {
                true => label.to_owned(),
                false => (index + 1).to_string(),
            };
            let width = text_width(&text, self.font);
            let left = (at - width / 2.0).min(to - width).max(from).max(end);
            if left + width > rect.width + 12.0 || left > at + width / 2.0 {
                footnotes.unlabelled += 1;
                continue;
            }
            svg.text(&text, rect.left + left, rect.top, TextStyle::new(self.font));
            end = left + width + 4.0;
            if !whole && index == footnotes.labels.len() {
                footnotes.labels.push(label.to_owned());
            }
        }
    }

    /// Grid, marks and the labels among them.
    fn marks(&self, svg: &mut SvgWriter, area: &PlotArea, heat: (f64, f64)) {
        let (rect, font) = (area.rect, self.font);
        let slots = bar_slots(&self.panel.layers);
        let (behind, before): (Vec<_>, Vec<_>) =
            (self.panel.layers.iter().zip(&slots)).partition(|(layer, _)| matches!(layer.marks, Marks::Spans { .. }));
        let style = TextStyle::new(font).anchor("end").middle();
        svg.clipped(rect, |svg| {
            for (layer, slot) in behind {
                draw_within(svg, layer, area, *slot, heat);
            }
            for tick in &self.y_ticks {
                let y = area.y_pixel(tick.at);
                svg.line(&[point(rect.left, y), point(rect.right(), y)], Stroke::solid(GRID, 1.0));
            }
            for (layer, slot) in before {
                draw_within(svg, layer, area, *slot, heat);
            }
        });
        for tick in &self.y_ticks {
            svg.text(&tick.label, rect.left - 7.0, area.y_pixel(tick.at), style);
        }
        for layer in &self.panel.layers {
            draw_markers(svg, layer, area);
        }
        let mut labels = Labels::new(font, rect);
        for layer in &self.panel.layers {
            labels.rule(svg, area, layer);
        }
        for (layer, slot) in self.panel.layers.iter().zip(&slots) {
            if let (Marks::Bars { bars }, Some(slot)) = (&layer.marks, slot) {
                labels.values(svg, area, bars, *slot, self.y.unit.size);
            }
        }
        labels.notes(svg, area, self.panel, &slots);
        let annotation = |layer: &Layer| matches!(layer.marks, Marks::Spans { .. } | Marks::Rule { .. });
        let marked = |layer: &Layer| !annotation(layer) && !layer.values().1.is_empty();
        if !self.panel.layers.iter().any(marked) {
            let style = TextStyle::new(font).anchor("middle").on_marks();
            svg.text(
                "nothing to draw",
                rect.left + rect.width / 2.0,
                rect.top + rect.height / 2.0,
                style,
            );
        }
    }

    fn x_ticks(&self, width: f64) -> Vec<Tick> {
        match self.x.has_names() {
            true => self.x.ticks(0),
            false => self.x.ticks_in(width, 11, |label| text_width(label, self.font) + 14.0),
        }
    }

    /// The labels of the x axis and its heading; gives their lower end. Names are wrapped, or rotated if a word has no
    /// room.
    fn x_axis(&self, svg: &mut SvgWriter, area: &PlotArea, ticks: &[Tick]) -> f64 {
        /// Maximum length of a rotated name in pixels, and maximum number of lines of a wrapped one.
        const LONGEST: f64 = 120.0;
        const LINES: usize = 3;
        let (font, rect) = (self.font, area.rect);
        let style = TextStyle::new(font).anchor("middle");
        let room = rect.width / ticks.len().max(1) as f64;
        let each = room - 6.0;
        let words = ticks.iter().flat_map(|tick| tick.label.split_whitespace());
        let rotated = self.x.has_names() && widest(words, font) > each;
        // Of too many names, every second, third, … one.
        let step = if rotated { (font / room).ceil().max(1.0) } else { 1.0 };
        let mut labels = font * 1.25;
        for tick in ticks.iter().step_by(step as usize) {
            let x = area.x_pixel(tick.at);
            if rotated {
                let name = shorten(&tick.label, font, LONGEST);
                labels = labels.max(text_width(&name, font) + 4.0);
                svg.text(&name, x, rect.bottom() + 6.0, style.anchor("end").middle().rotated());
                continue;
            }
            let lines = match self.x.has_names() {
                true => wrap(&tick.label, font, each, LINES),
                false => vec![tick.label.clone()],
            };
            labels = labels.max(lines.len() as f64 * font * 1.25);
            for (row, line) in (0_u8..).zip(&lines) {
                svg.text(line, x, rect.bottom() + 6.0 + f64::from(row) * font * 1.25, style);
            }
        }
        let bottom = rect.bottom() + 9.0 + labels;
        let heading = shorten(&self.x.heading, font, rect.width);
        svg.text(&heading, rect.left + rect.width / 2.0, bottom, style);
        bottom + if heading.is_empty() { 0.0 } else { font * 1.4 }
    }
}

/// Texts among marks, each at the first of its places that is free.
struct Labels {
    font: f64,
    inside: Rect,
    taken: Vec<Rect>,
}

impl Labels {
    fn new(font: f64, inside: Rect) -> Self {
        let taken = Vec::new();
        Self { font, inside, taken }
    }

    /// Writes a text at one of these upper left corners. If none is free, it is left out, or written at the first if it `must`.
    fn place(&mut self, svg: &mut SvgWriter, text: &str, corners: &[(f64, f64)], must: bool) {
        let (width, inside) = (text_width(text, self.font), self.inside);
        let rect = |(left, top): &(f64, f64)| Rect::new(*left, *top, width, self.font * 1.2);
        let free = |rect: &Rect| {
            let within = rect.left >= inside.left && rect.right() <= inside.right();
            let within = within && rect.top >= inside.top && rect.bottom() <= inside.bottom();
            within && !self.taken.iter().any(|taken| taken.overlaps(rect))
        };
        let first = corners.first().filter(|_| must).map(rect);
        let Some(rect) = corners.iter().map(rect).find(free).or(first) else {
            return;
        };
        svg.text(text, rect.left, rect.top, TextStyle::new(self.font).on_marks());
        self.taken.push(rect);
    }

    /// The label of a horizontal rule: above it at the left end, where values near a limit are rare, otherwise below it
    /// or at the right end.
    fn rule(&mut self, svg: &mut SvgWriter, area: &PlotArea, layer: &Layer) {
        let Marks::Rule { at, upright: false } = layer.marks else {
            return;
        };
        if area.y.contains(at) && !layer.name.is_empty() {
            let label = shorten(&layer.name, self.font, self.inside.width - 8.0);
            let (left, y) = (self.inside.left + 4.0, area.y_pixel(at));
            let right = self.inside.right() - 4.0 - text_width(&label, self.font);
            let (above, below) = (y - self.font * 1.2 - 1.0, y + 2.0);
            self.place(
                svg,
                &label,
                &[(left, above), (left, below), (right, above), (right, below)],
                true,
            );
        }
    }

    /// The values above bars, if these are few and not stacked.
    fn values(&mut self, svg: &mut SvgWriter, area: &PlotArea, bars: &[Bar], slot: Slot, unit: f64) {
        const FEW: usize = 16;
        for bar in bars.iter().filter(|_| !slot.stacked && bars.len() <= FEW) {
            let text = number(bar.value / unit);
            let (rect, width) = (slot.rect(area, bar), text_width(&text, self.font));
            let highest = bar
                .interval
                .map_or(bar.value, |(_, high)| high)
                .max(bar.value)
                .max(bar.base);
            if width <= rect.width + 12.0 {
                let left = rect.left + (rect.width - width) / 2.0;
                self.place(
                    svg,
                    &text,
                    &[(left, area.y_pixel(highest) - self.font * 1.2 - 1.0)],
                    false,
                );
            }
        }
    }

    /// The labels of single points and of components of a stack: next to the point, within the bar or next to it.
    fn notes(&mut self, svg: &mut SvgWriter, area: &PlotArea, panel: &Panel, slots: &[Option<Slot>]) {
        const MARKER: f64 = 4.0;
        const DISTANCE: f64 = 7.0;
        let bars = panel
            .layers
            .iter()
            .zip(slots)
            .filter_map(|pair| match (&pair.0.marks, pair.1) {
                (Marks::Bars { bars }, Some(slot)) => Some(bars.iter().map(|bar| slot.rect(area, bar))),
                _ => None,
            });
        let bars: Vec<Rect> = bars.flatten().collect();
        let shown = panel.notes.iter().filter(|note| area.contains(note.at.0, note.at.1));
        let shown = shown.map(|note| {
            let (x, y) = (area.x_pixel(note.at.0), area.y_pixel(note.at.1));
            let marker = Rect::new(x - MARKER, y - MARKER, 2.0 * MARKER, 2.0 * MARKER);
            let inside = |bar: &&Rect| bar.left <= x && x <= bar.right() && bar.top <= y && y <= bar.bottom();
            (note, marker, bars.iter().find(inside))
        });
        let shown: Vec<(&Note, Rect, Option<&Rect>)> = shown.collect();
        let markers = shown.iter().filter(|(_, _, bar)| bar.is_none());
        self.taken.extend(markers.map(|(_, marker, _)| *marker));
        for (note, marker, bar) in shown {
            let around = *bar.unwrap_or(&marker);
            let (width, height) = (text_width(&note.label, self.font), self.font * 1.2);
            let (x, y) = (around.left + around.width / 2.0, around.top + around.height / 2.0);
            let gap = DISTANCE - MARKER;
            let beside = [
                (around.right() + gap, y - height / 2.0),
                (around.left - gap - width, y - height / 2.0),
            ];
            let corners = match bar {
                Some(_) if width <= around.width && height <= around.height => {
                    vec![(x - width / 2.0, y - height / 2.0)]
                }
                Some(_) => {
                    let free = |corner: &(f64, f64)| {
                        let label = Rect::new(corner.0, corner.1, width, height);
                        !bars.iter().any(|bar| bar.overlaps(&label))
                    };
                    beside.into_iter().filter(free).collect()
                }
                None => {
                    let above = (x - width / 2.0, around.top - gap - height);
                    let below = (x - width / 2.0, around.bottom() + gap);
                    beside.into_iter().chain([above, below]).collect()
                }
            };
            self.place(svg, &note.label, &corners, false);
        }
    }
}
