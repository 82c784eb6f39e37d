//! What stands at the right of a panel: the names of level rules, and those of lines where they end, so that no eye wanders to a legend and back.

use plotters::style::text_anchor::VPos;

use super::along::Along;
use super::ink::Ink;
use super::ink::Role;
use super::labels::spread;
use super::look::Look;
use super::pen::{Pen, Plane, Type, at};
use super::text::{wide, wrap};
use crate::report::plot::{Layer, Panel};

/// Pixels of the widest label, and lines that it may have.
const WIDEST: f64 = 170.0;
const LINES: usize = 2;
/// Pixels from the panel, and of the stroke in the line's colour.
const GAP: f64 = 7.0;
const STROKE: f64 = 12.0;

/// A label at the right of a panel.
struct Side {
    at: f64,
    text: Vec<String>,
    line: Option<Ink>,
}

/// The labels beside a panel.
#[derive(Default)]
pub(super) struct Beside {
    sides: Vec<Side>,
    /// Whether lines are named there: a legend need not.
    pub(super) lines: bool,
    /// Whether level rules are.
    pub(super) rules: bool,
}

impl Beside {
    /// Those of a panel of a height: none where there is no room, or where a second scale stands.
    pub(super) fn of(panel: &Panel, x: Along, y: Along, height: f64, look: Look) -> Self {
        if !look.roomy || panel.right.is_some() {
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
                (x.share(last) > 0.97 && y.holds(value)).then(|| Side {
                    at: value,
                    text: vec![name.clone()],
                    line: Some(Ink::line(*colour, *dashed)),
                })
            }
            _ => None,
        };
        let named = |layer: &&Layer| matches!(layer, Layer::Line { name, .. } if !name.is_empty());
        let area = |layer: &Layer| matches!(layer, Layer::Area { .. });
        let mut sides: Vec<Side> = panel.layers.iter().filter_map(line).collect();
        let all = panel.layers.iter().filter(named).count();
        let fit = sides.iter().all(|side| side.wide(look) <= WIDEST);
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
                && y.holds(*at)
                && !name.is_empty()
            {
                sides.push(Side {
                    at: *at,
                    text: wrap(name, look.font, WIDEST, LINES),
                    line: None,
                });
            }
        }
        let needed: f64 = sides.iter().map(|side| side.high(look)).sum();
        if needed > height + look.font {
            return Self::default();
        }
        Self {
            sides,
            lines,
            rules: true,
        }
    }

    /// The pixels that it takes.
    pub(super) fn width(&self, look: Look) -> f64 {
        let width = |side: &Side| GAP + stroke(side) + side.wide(look);
        self.sides.iter().map(width).fold(0.0, f64::max)
    }

    pub(super) fn draw(&self, pen: &Pen, plane: &Plane, look: Look) {
        let wanted: Vec<f64> = self.sides.iter().map(|side| plane.py(side.at)).collect();
        let high: Vec<f64> = self.sides.iter().map(|side| side.high(look)).collect();
        let places = spread(&wanted, &high, plane.rect.top, plane.rect.bottom());
        for (side, y) in self.sides.iter().zip(places) {
            let left = plane.rect.right() + GAP;
            if let Some(ink) = side.line {
                pen.line(vec![at(left, y), at(left + STROKE, y)], ink, 2.0);
            }
            let set = Type::of(Role::Ink, look.font).down(VPos::Center);
            let mut y = y - (side.high(look) - row(look)) / 2.0;
            for text in &side.text {
                pen.text(text, left + stroke(side), y, set);
                y += row(look);
            }
        }
    }
}

impl Side {
    /// The pixels of its widest line.
    fn wide(&self, look: Look) -> f64 {
        self.text.iter().map(|text| wide(text, look.font)).fold(0.0, f64::max)
    }

    /// The pixels of all its lines.
    fn high(&self, look: Look) -> f64 {
        self.text.len() as f64 * row(look)
    }
}

/// The pixels of a line.
fn row(look: Look) -> f64 {
    look.font * 1.25
}

/// The room of the stroke before a label.
fn stroke(side: &Side) -> f64 {
    if side.line.is_some() { STROKE + 5.0 } else { 0.0 }
}
