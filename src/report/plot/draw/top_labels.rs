//! Labels above a panel: names of phases, vertical rules and moments. What has no room is listed below the panel.

use plotters::style::text_anchor::{HPos, VPos};

use super::labels::{Label, stack_rows};
use super::metrics::LayoutMetrics;
use super::scale::AxisScale;
use super::style::{MarkStyle, Role};
use super::text::{shorten, text_width, wrap};
use super::writer::{Rect, SvgWriter, TextStyle, point};
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

    pub(super) fn draw(&self, svg: &SvgWriter, rect: Rect, metrics: LayoutMetrics) {
        let phase = TextStyle::new(Role::SecondaryText, metrics.font)
            .align_h(HPos::Center)
            .align_v(VPos::Bottom);
        for (middle, label) in &self.phases {
            svg.text(label, rect.left + middle, rect.top - 2.0, phase);
        }
        let height = |row: usize| {
            let up = row as f64 * self.row;
            rect.top - self.strip - 3.0 - up
        };
        for (label, _, row) in &self.line_labels {
            let x = rect.left + label.at;
            svg.line(
                vec![point(x, height(*row) + 1.0), point(x, rect.top)],
                MarkStyle::new(Role::Edge),
                0.8,
            );
        }
        for (label, left, row) in &self.line_labels {
            let text_style = TextStyle::new(Role::Text, metrics.font).align_v(VPos::Bottom).halo();
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
