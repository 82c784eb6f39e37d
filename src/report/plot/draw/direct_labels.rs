//! Labels at the right of a panel: names of horizontal rules, and of lines where they end, instead of a legend.

use plotters::style::text_anchor::VPos;

use super::labels::spread;
use super::metrics::LayoutMetrics;
use super::scale::AxisScale;
use super::style::MarkStyle;
use super::style::Role;
use super::text::{text_width, wrap};
use super::writer::{PlotArea, SvgWriter, TextStyle, point};
use crate::report::plot::{Layer, Panel};

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

    pub(super) fn draw(&self, svg: &SvgWriter, area: &PlotArea, metrics: LayoutMetrics) {
        let wanted: Vec<f64> = self.sides.iter().map(|side| area.y_pixel(side.at)).collect();
        let high: Vec<f64> = self.sides.iter().map(|side| side.height(metrics)).collect();
        let places = spread(&wanted, &high, area.rect.top, area.rect.bottom());
        for (side, y) in self.sides.iter().zip(places) {
            let left = area.rect.right() + GAP;
            if let Some(style) = side.sample {
                svg.line(vec![point(left, y), point(left + SAMPLE, y)], style, 2.0);
            }
            let text_style = TextStyle::new(Role::Text, metrics.font).align_v(VPos::Center);
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
