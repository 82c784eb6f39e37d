//! Below a panel: the ticks of its x axis, or its category names, wrapped or rotated, and its heading.

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::AxisLayout;
use super::metrics::LayoutMetrics;
use super::style::{MarkStyle, Role};
use super::text::{shorten, text_width, wrap};
use super::ticks::Tick;
use super::writer::{PlotArea, SvgWriter, TextStyle, point};

/// Maximum length of a rotated name in pixels.
const LONGEST: f64 = 120.0;
/// Maximum number of lines of a name.
const LINES: usize = 3;

/// How the tick labels of an x axis are laid out.
pub(super) struct XAxisLayout {
    pub(super) ticks: Vec<Tick>,
    texts: Vec<Vec<String>>,
    rotated: bool,
    height: f64,
}

impl XAxisLayout {
    pub(super) fn new(axis: &AxisLayout, width: f64, metrics: LayoutMetrics) -> Self {
        let size = metrics.font;
        if axis.names.is_empty() {
            let ticks = ticks_with_room(axis, width, metrics);
            let texts = ticks.iter().map(|tick| vec![tick.label.clone()]).collect();
            return Self {
                ticks,
                texts,
                rotated: false,
                height: size * 1.25,
            };
        }
        let ticks = axis.ticks(0, 0.0);
        let each = width / ticks.len() as f64 - 6.0;
        let words = axis.names.iter().flat_map(|name| name.split_whitespace());
        let rotated = words.map(|word| text_width(word, size)).fold(0.0, f64::max) > each;
        let texts: Vec<Vec<String>> = ticks
            .iter()
            .map(|tick| match rotated {
                true if each + 6.0 < size => Vec::new(),
                true => vec![shorten(&tick.label, size, LONGEST)],
                false => wrap(&tick.label, size, each, LINES),
            })
            .collect();
        let height = match rotated {
            true => {
                texts
                    .iter()
                    .flatten()
                    .map(|text| text_width(text, size))
                    .fold(0.0, f64::max)
                    + 4.0
            }
            false => texts.iter().map(Vec::len).max().unwrap_or(1) as f64 * size * 1.25,
        };
        Self {
            ticks,
            texts,
            rotated,
            height,
        }
    }

    /// Height in pixels, with the heading.
    pub(super) fn height(&self, axis: &AxisLayout, metrics: LayoutMetrics) -> f64 {
        6.0 + self.height
            + if axis.heading.is_empty() {
                2.0
            } else {
                metrics.font * 1.6
            }
    }

    pub(super) fn draw(&self, svg: &SvgWriter, area: &PlotArea, axis: &AxisLayout, metrics: LayoutMetrics) {
        let rect = area.rect;
        let top = rect.bottom() + 6.0;
        let text_style = TextStyle::new(Role::SecondaryText, metrics.font);
        if axis.names.is_empty() {
            for tick in &self.ticks {
                let x = area.x_pixel(tick.at);
                svg.line(
                    vec![point(x, rect.bottom()), point(x, rect.bottom() + 4.0)],
                    MarkStyle::new(Role::Edge),
                    1.0,
                );
            }
        }
        for (tick, lines) in self.ticks.iter().zip(&self.texts) {
            let x = area.x_pixel(tick.at);
            let mut y = top;
            for line in lines {
                if self.rotated {
                    svg.text(
                        line,
                        x,
                        top,
                        text_style.rotated().align_h(HPos::Right).align_v(VPos::Center),
                    );
                    continue;
                }
                // The first and the last label stay within the drawing.
                let half = text_width(line, metrics.font) / 2.0;
                svg.text(
                    line,
                    x.min(metrics.total_width - half).max(half),
                    y,
                    text_style.align_h(HPos::Center),
                );
                y += metrics.font * 1.25;
            }
        }
        let heading = shorten(&axis.heading, metrics.font, rect.width);
        let middle = rect.left + rect.width / 2.0;
        svg.text(
            &heading,
            middle,
            top + self.height + 3.0,
            text_style.align_h(HPos::Center),
        );
    }
}

/// As many ticks as have room side by side.
fn ticks_with_room(axis: &AxisLayout, width: f64, metrics: LayoutMetrics) -> Vec<Tick> {
    let room = |ticks: &[Tick]| {
        ticks.windows(2).all(|pair| {
            let distance = (axis.scale.share(pair[1].at) - axis.scale.share(pair[0].at)) * width;
            distance
                >= (text_width(&pair[0].label, metrics.font) + text_width(&pair[1].label, metrics.font)) / 2.0 + 14.0
        })
    };
    let most = if metrics.side_room { 11 } else { 7 };
    // This distance between two ticks is always enough.
    let longest = |ticks: &[Tick]| {
        ticks
            .iter()
            .map(|tick| text_width(&tick.label, metrics.font))
            .fold(0.0, f64::max)
    };
    let mut tries = (2..=most).rev().map(|most| {
        let room = longest(&axis.ticks(most, 0.0)) + 14.0;
        axis.ticks(most, room / width)
    });
    tries.find(|ticks| room(ticks)).unwrap_or_default()
}
