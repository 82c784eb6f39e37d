//! One panel: its scales, its grid, its marks, and what stands around it.

use plotters::style::text_anchor::{HPos, VPos};

use super::above::Above;
use super::bars::Slots;
use super::below::Below;
use super::beside::Beside;
use super::clean::clean;
use super::extent::Extent;
use super::ink::{Ink, Role};
use super::look::Look;
use super::marks;
use super::notes;
use super::pen::{Pen, Plane, Rect, Type, at};
use super::scaled::Scaled;
use super::text::{shorten, wide};
use super::ticks::Tick;
use crate::report::plot::{Layer, Panel};

/// A panel, ready to be drawn at a height.
pub(super) struct Plan {
    pub(super) panel: Panel,
    pub(super) x: Scaled,
    pub(super) y: Scaled,
    pub(super) right: Option<Scaled>,
    pub(super) beside: Beside,
    note: Option<String>,
    height: f64,
}

/// What of a panel is written around it, and not around its neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// Names of phases, rules and moments above.
    pub(super) above: bool,
    /// The x axis below.
    pub(super) below: bool,
    /// What stands below for what has no room above.
    pub(super) keys: bool,
}

/// What stands above and below a panel of a width.
pub(super) struct Ends {
    above: Option<Above>,
    below: Below,
    around: Around,
    keys: Vec<String>,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Plan {
    /// That of a panel so high; `shared` are the extents that it shares with others, across and up.
    pub(super) fn of(panel: &Panel, shared: (Option<Extent>, Option<Extent>), height: f64, look: Look) -> Self {
        let (mut panel, note) = clean(panel);
        let title = panel.title.clone();
        // What stands above the panel already is not written beside its axis again: the unit is.
        let axes = [Some(&mut panel.x), Some(&mut panel.y), panel.right.as_mut()];
        for axis in axes.into_iter().flatten().filter(|axis| axis.label == title) {
            axis.label.clear();
        }
        let across = shared.0.unwrap_or_else(|| Extent::across(&panel));
        let up = shared.1.unwrap_or_else(|| Extent::up(&panel, false));
        let right = panel.right.as_ref();
        let (x, y) = (Scaled::of(&panel.x, across, false), Scaled::of(&panel.y, up, true));
        Self {
            beside: Beside::of(&panel, x.along, y.along, height, look),
            right: right.map(|axis| Scaled::of(axis, Extent::up(&panel, true), true)),
            x,
            y,
            note,
            height,
            panel,
        }
    }

    /// The pixels at its left and its right.
    pub(super) fn sides(&self, look: Look) -> (f64, f64) {
        let widest = |ticks: &[Tick]| {
            ticks
                .iter()
                .map(|tick| wide(&tick.label, look.font))
                .fold(0.0, f64::max)
        };
        let left = widest(&self.y.upright(self.height)) + 10.0;
        let right = match &self.right {
            Some(right) => widest(&right.upright(self.height)) + 10.0,
            None => self.beside.width(look).max(16.0),
        };
        (left, right)
    }

    /// What stands above and below it where it is so wide.
    pub(super) fn ends(&self, width: f64, around: Around, look: Look) -> Ends {
        let above = Above::of(&self.panel, self.x.along, width, look);
        let below = Below::of(&self.x, width, look);
        let mut keys = if around.keys { above.keys.clone() } else { Vec::new() };
        keys.extend(self.note.clone());
        let untitled = self.y.heading.is_empty() && self.panel.title.is_empty();
        let heading = if untitled { 8.0 } else { look.font * 2.0 };
        let axis = if around.below { below.height(&self.x, look) } else { 6.0 };
        let above = around.above.then_some(above);
        let told = keys.len() as f64 * look.font * 1.4;
        Ends {
            top: heading + above.as_ref().map_or(0.0, Above::height),
            bottom: axis + told,
            above,
            below,
            around,
            keys,
        }
    }

    /// Draws it between its axes' edges, with what stands around it.
    pub(super) fn draw(&self, pen: &Pen, look: Look, rect: Rect, sides: (f64, f64), ends: &Ends, heat: (f64, f64)) {
        let left = pen.plane(self.x.along, self.y.along, rect);
        let second = self.right.as_ref().map_or(self.y.along, |right| right.along);
        let right = pen.plane(self.x.along, second, rect);
        self.headings(pen, look, rect, sides, ends.top);
        let layers = || self.panel.layers.iter().enumerate();
        let slots = Slots::of(&self.panel.layers);
        let (bands, marks): (Vec<_>, Vec<_>) = layers().partition(|(_, layer)| matches!(layer, Layer::Spans { .. }));
        for (number, layer) in bands {
            marks::draw(pen, layer, (&left, &right), &slots, number, heat);
        }
        self.grid(pen, look, &left, &right, ends);
        for (number, layer) in marks {
            marks::draw(pen, layer, (&left, &right), &slots, number, heat);
        }
        let corners = vec![at(rect.left, rect.bottom()), at(rect.right(), rect.bottom())];
        pen.line(corners, Ink::of(Role::Edge), 1.0);
        slots.tell(pen, &left, &self.panel.layers, self.y.measure, look);
        notes::draw(pen, &left, &self.panel, look);
        let mut below = rect.bottom() + 6.0;
        if ends.around.below {
            ends.below.draw(pen, &left, &self.x, look);
            below = rect.bottom() + ends.below.height(&self.x, look);
        }
        for line in &ends.keys {
            pen.text(line, rect.left, below, Type::of(Role::Faint, look.font));
            below += look.font * 1.4;
        }
        if let Some(above) = &ends.above {
            above.draw(pen, rect, look);
        }
        self.beside.draw(pen, &left, look);
        if self.panel.layers.iter().all(is_empty) {
            let (x, y) = (rect.left + rect.width / 2.0, rect.top + rect.height / 2.0);
            let set = Type::of(Role::Faint, look.font).across(HPos::Center).down(VPos::Center);
            pen.text("nothing to draw", x, y, set.halo());
        }
    }

    fn headings(&self, pen: &Pen, look: Look, rect: Rect, sides: (f64, f64), above: f64) {
        let top = rect.top - above;
        let from = rect.left - sides.0;
        let all = rect.width + sides.0 + sides.1;
        let mut x = from;
        if !self.panel.title.is_empty() {
            let title = shorten(&self.panel.title, look.font * 1.08, all * 0.6);
            pen.text(&title, x, top, Type::of(Role::Ink, look.font).bold());
            x += wide(&title, look.font * 1.08) + 12.0;
        }
        let right = self.right.as_ref().map_or("", |right| right.heading.as_str());
        let right = shorten(right, look.font, all * 0.45);
        let room = from + all - x - wide(&right, look.font) - 12.0;
        let set = Type::of(Role::Faint, look.font);
        pen.text(&shorten(&self.y.heading, look.font, room), x, top, set);
        pen.text(&right, from + all, top, set.across(HPos::Right));
    }

    fn grid(&self, pen: &Pen, look: Look, left: &Plane, right: &Plane, ends: &Ends) {
        let rect = left.rect;
        let set = Type::of(Role::Faint, look.font).down(VPos::Center);
        let ticks = self.y.upright(rect.height);
        for tick in &ticks {
            let y = left.py(tick.at);
            pen.line(vec![at(rect.left, y), at(rect.right(), y)], Ink::of(Role::Grid), 1.0);
        }
        // Places matter in both directions on a map.
        let map = |layer: &Layer| matches!(layer, Layer::Area { .. } | Layer::Cells { .. });
        if self.panel.layers.iter().any(map) {
            for tick in &ends.below.ticks {
                let x = left.px(tick.at);
                pen.line(vec![at(x, rect.top), at(x, rect.bottom())], Ink::of(Role::Grid), 1.0);
            }
        }
        for tick in &ticks {
            pen.text(&tick.label, rect.left - 7.0, left.py(tick.at), set.across(HPos::Right));
        }
        for tick in self.right.iter().flat_map(|axis| axis.upright(rect.height)) {
            pen.text(&tick.label, rect.right() + 7.0, right.py(tick.at), set);
        }
    }
}

fn is_empty(layer: &Layer) -> bool {
    match layer {
        Layer::Line { points, .. } => points.iter().all(|point| point.1.is_none()),
        Layer::Ribbon { points, .. } => points.is_empty(),
        Layer::Dots { points, .. } => points.is_empty(),
        Layer::Area { outlines, .. } => outlines.iter().all(Vec::is_empty),
        Layer::Bars { bars, .. } => bars.is_empty(),
        Layer::Cells { cells, .. } => cells.is_empty(),
        Layer::Spans { .. } | Layer::Rule { .. } | Layer::Moments { .. } => true,
    }
}
