//! What stands below a panel: the ticks of its x axis, or its names, in lines or turned, and its heading.

use plotters::style::text_anchor::{HPos, VPos};

use super::ink::{Ink, Role};
use super::look::Look;
use super::pen::{Pen, Plane, Type, at};
use super::scaled::Scaled;
use super::text::{shorten, wide, wrap};
use super::ticks::Tick;

/// Pixels of the longest name that is turned.
const LONGEST: f64 = 120.0;
/// Lines of a name at most.
const LINES: usize = 3;

/// How the places of an axis are written below a panel of a width.
pub(super) struct Below {
    pub(super) ticks: Vec<Tick>,
    texts: Vec<Vec<String>>,
    turned: bool,
    height: f64,
}

impl Below {
    /// That of an axis.
    pub(super) fn of(axis: &Scaled, width: f64, look: Look) -> Self {
        let size = look.font;
        if axis.names.is_empty() {
            let ticks = apart(axis, width, look);
            let texts = ticks.iter().map(|tick| vec![tick.label.clone()]).collect();
            return Self {
                ticks,
                texts,
                turned: false,
                height: size * 1.25,
            };
        }
        let ticks = axis.ticks(0, 0.0);
        let each = width / ticks.len() as f64 - 6.0;
        let words = axis.names.iter().flat_map(|name| name.split_whitespace());
        let turned = words.map(|word| wide(word, size)).fold(0.0, f64::max) > each;
        let texts: Vec<Vec<String>> = ticks
            .iter()
            .map(|tick| match turned {
                true if each + 6.0 < size => Vec::new(),
                true => vec![shorten(&tick.label, size, LONGEST)],
                false => wrap(&tick.label, size, each, LINES),
            })
            .collect();
        let height = match turned {
            true => texts.iter().flatten().map(|text| wide(text, size)).fold(0.0, f64::max) + 4.0,
            false => texts.iter().map(Vec::len).max().unwrap_or(1) as f64 * size * 1.25,
        };
        Self {
            ticks,
            texts,
            turned,
            height,
        }
    }

    /// The pixels that it takes, with a heading.
    pub(super) fn height(&self, axis: &Scaled, look: Look) -> f64 {
        6.0 + self.height + if axis.heading.is_empty() { 2.0 } else { look.font * 1.6 }
    }

    pub(super) fn draw(&self, pen: &Pen, plane: &Plane, axis: &Scaled, look: Look) {
        let rect = plane.rect;
        let top = rect.bottom() + 6.0;
        let set = Type::of(Role::Faint, look.font);
        if axis.names.is_empty() {
            for tick in &self.ticks {
                let x = plane.px(tick.at);
                pen.line(
                    vec![at(x, rect.bottom()), at(x, rect.bottom() + 4.0)],
                    Ink::of(Role::Edge),
                    1.0,
                );
            }
        }
        for (tick, lines) in self.ticks.iter().zip(&self.texts) {
            let x = plane.px(tick.at);
            let mut y = top;
            for line in lines {
                if self.turned {
                    pen.text(line, x, top, set.turned().across(HPos::Right).down(VPos::Center));
                    continue;
                }
                // The first and the last stay within the picture.
                let half = wide(line, look.font) / 2.0;
                pen.text(line, x.min(look.whole - half).max(half), y, set.across(HPos::Center));
                y += look.font * 1.25;
            }
        }
        let heading = shorten(&axis.heading, look.font, rect.width);
        let middle = rect.left + rect.width / 2.0;
        pen.text(&heading, middle, top + self.height + 3.0, set.across(HPos::Center));
    }
}

/// As many ticks as stand beside each other.
fn apart(axis: &Scaled, width: f64, look: Look) -> Vec<Tick> {
    let room = |ticks: &[Tick]| {
        ticks.windows(2).all(|pair| {
            let apart = (axis.along.share(pair[1].at) - axis.along.share(pair[0].at)) * width;
            apart >= (wide(&pair[0].label, look.font) + wide(&pair[1].label, look.font)) / 2.0 + 14.0
        })
    };
    let most = if look.roomy { 11 } else { 7 };
    // Between the middles of two labels, so much is always enough.
    let longest = |ticks: &[Tick]| {
        ticks
            .iter()
            .map(|tick| wide(&tick.label, look.font))
            .fold(0.0, f64::max)
    };
    let mut tries = (2..=most).rev().map(|most| {
        let room = longest(&axis.ticks(most, 0.0)) + 14.0;
        axis.ticks(most, room / width)
    });
    tries.find(|ticks| room(ticks)).unwrap_or_default()
}
