//! What stands above a panel: the names of its phases, upright rules and moments; and what stands below it for those without room.

use plotters::style::text_anchor::{HPos, VPos};

use super::along::Along;
use super::ink::{Ink, Role};
use super::labels::{Label, above};
use super::look::Look;
use super::pen::{Pen, Rect, Type, at};
use super::text::{shorten, wide, wrap};
use crate::report::plot::{Layer, Panel, Span};

/// Rows of labels at most.
const ROWS: usize = 3;
/// Phases at most that are named: of more the widest, and the others are bands without a name.
const NAMED: usize = 12;

/// The labels above a panel of a width.
pub(super) struct Above {
    /// Middle and text of each phase.
    phases: Vec<(f64, String)>,
    /// Labels with their left ends and rows; places are pixels from the left edge.
    tops: Vec<(Label, f64, usize)>,
    /// What is told below.
    pub(super) keys: Vec<String>,
    strip: f64,
    row: f64,
}

/// Whether two panels would have the same labels above them.
pub(super) fn alike(one: &Panel, other: &Panel) -> bool {
    fn of(panel: &Panel) -> impl Iterator<Item = &Layer> {
        let told = |layer: &&Layer| match layer {
            Layer::Spans { .. } | Layer::Moments { .. } => true,
            Layer::Rule { upright, .. } => *upright,
            _ => false,
        };
        panel.layers.iter().filter(told)
    }
    of(one).eq(of(other))
}

impl Above {
    /// Those of a panel.
    pub(super) fn of(panel: &Panel, x: Along, width: f64, look: Look) -> Self {
        let (mut phases, mut keys) = (Vec::new(), Vec::new());
        let ends = |span: &Span| (x.share(span.from).clamp(0.0, 1.0), x.share(span.to).clamp(0.0, 1.0));
        let named = widest(spans(panel).map(|span| ends(span).1 - ends(span).0).collect());
        for (number, span) in spans(panel).enumerate().filter(|(number, _)| named.contains(number)) {
            let (from, to) = ends(span);
            let label = span_label(span, number, (to - from) * width, look);
            if label.is_empty() {
                continue;
            }
            if label != span.label {
                keys.push(format!("{}\u{a0}{}", number + 1, span.label));
            }
            phases.push((f64::midpoint(from, to) * width, label));
        }
        let wanted: Vec<Label> = tops(panel)
            .filter(|(place, _)| x.holds(*place))
            .map(|(place, text)| {
                let text = shorten(text, look.font, (width * 0.6).min(280.0));
                Label {
                    at: x.share(place) * width,
                    wide: wide(&text, look.font),
                    text,
                }
            })
            .collect();
        let count = wanted.len();
        let tops = above(wanted, 0.0, width, ROWS);
        let mut keys = wrap(&keys.join(" · "), look.font, width, 4);
        match count - tops.len() {
            0 => {}
            1 => keys.push("1 more label has no room above".to_owned()),
            left => keys.push(format!("{left} more labels have no room above")),
        }
        let strip = if phases.is_empty() { 0.0 } else { look.font * 1.5 };
        Self {
            phases,
            tops,
            keys,
            strip,
            row: look.font * 1.3,
        }
    }

    /// The pixels that it takes.
    pub(super) fn height(&self) -> f64 {
        let rows = self.tops.iter().map(|(_, _, row)| row + 1).max().unwrap_or(0);
        let rows = rows as f64;
        self.strip + rows * self.row + if rows > 0.0 { 4.0 } else { 0.0 }
    }

    pub(super) fn draw(&self, pen: &Pen, rect: Rect, look: Look) {
        let phase = Type::of(Role::Faint, look.font).across(HPos::Center).down(VPos::Bottom);
        for (middle, label) in &self.phases {
            pen.text(label, rect.left + middle, rect.top - 2.0, phase);
        }
        let height = |row: usize| {
            let up = row as f64 * self.row;
            rect.top - self.strip - 3.0 - up
        };
        for (label, _, row) in &self.tops {
            let x = rect.left + label.at;
            pen.line(
                vec![at(x, height(*row) + 1.0), at(x, rect.top)],
                Ink::of(Role::Edge),
                0.8,
            );
        }
        for (label, left, row) in &self.tops {
            let set = Type::of(Role::Ink, look.font).down(VPos::Bottom).halo();
            pen.text(&label.text, rect.left + left, height(*row), set);
        }
    }
}

/// Upright rules and moments with a name.
fn tops(panel: &Panel) -> impl Iterator<Item = (f64, &str)> {
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

/// The numbers of the widest stretches, as many as are named.
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

/// The label of a phase: its name, or its number where there is no room.
fn span_label(span: &Span, number: usize, room: f64, look: Look) -> String {
    if wide(&span.label, look.font) + 6.0 <= room {
        return span.label.clone();
    }
    let number = (number + 1).to_string();
    if wide(&number, look.font) <= room {
        number
    } else {
        String::new()
    }
}
