//! What of a panel can be drawn: values that are no numbers, or that a logarithmic axis cannot show, are left out and said to be.

use crate::report::plot::{Axis, Layer, Panel, Scale};

/// The panel without them, and what to say of them.
pub(super) fn clean(panel: &Panel) -> (Panel, Option<String>) {
    let mut panel = panel.clone();
    let x = Sieve::of(&panel.x);
    let left = Sieve::of(&panel.y);
    let right = panel.right.as_ref().map_or(left, Sieve::of);
    let mut lost = 0;
    for layer in &mut panel.layers {
        lost += sift(layer, x, left, right);
    }
    (panel, left_out(lost))
}

/// What to say of values that are left out.
pub(in crate::report) fn left_out(lost: usize) -> Option<String> {
    (lost > 0).then(|| match lost {
        1 => "1 value cannot be shown on these axes".to_owned(),
        _ => format!("{lost} values cannot be shown on these axes"),
    })
}

/// The largest value that is drawn; far beyond any that is measured.
pub(super) const LARGEST: f64 = 1e100;

/// What an axis lets through.
#[derive(Clone, Copy)]
struct Sieve {
    log: bool,
}

impl Sieve {
    fn of(axis: &Axis) -> Self {
        Self {
            log: axis.scale == Scale::Log,
        }
    }

    fn passes(self, value: f64) -> bool {
        // Beyond these, lengths of axes overflow.
        value.abs() <= LARGEST && (!self.log || value >= 1.0 / LARGEST)
    }
}

/// Leaves out what cannot be drawn, and counts it.
fn sift(layer: &mut Layer, x: Sieve, left: Sieve, right: Sieve) -> usize {
    match layer {
        Layer::Line {
            points, right: second, ..
        } => {
            let y = if *second { right } else { left };
            let before = points.len();
            points.retain(|point| x.passes(point.0));
            let mut lost = before - points.len();
            for (_, value) in points.iter_mut() {
                if value.is_some_and(|value| !y.passes(value)) {
                    *value = None;
                    lost += 1;
                }
            }
            lost
        }
        Layer::Ribbon { points, .. } => kept(points, |point| {
            x.passes(point.0) && point.1.abs() <= LARGEST && point.2.abs() <= LARGEST
        }),
        Layer::Dots { points, .. } => kept(points, |point| x.passes(point.0) && left.passes(point.1)),
        Layer::Area { outlines, .. } => {
            let finite = |point: &(f64, f64)| point.0.abs() <= LARGEST && point.1.abs() <= LARGEST;
            outlines.iter_mut().map(|outline| kept(outline, finite)).sum()
        }
        Layer::Spans { spans } => kept(spans, |span| {
            span.from.abs() <= LARGEST && span.to.abs() <= LARGEST && span.from <= span.to
        }),
        Layer::Moments { moments, .. } => kept(moments, |moment| x.passes(moment.at)),
        Layer::Bars { bars, .. } => {
            for bar in bars.iter_mut() {
                bar.interval = bar
                    .interval
                    .filter(|(low, high)| low.abs() <= LARGEST && high.abs() <= LARGEST);
            }
            kept(bars, |bar| {
                x.passes(bar.at) && left.passes(bar.value) && bar.base.abs() <= LARGEST
            })
        }
        Layer::Cells { cells, .. } => kept(cells, |cell| {
            [cell.x.0, cell.x.1, cell.y.0, cell.y.1, cell.value]
                .iter()
                .all(|value| value.abs() <= LARGEST)
        }),
        Layer::Rule { .. } => 0,
    }
}

/// Keeps what passes, and counts the rest.
fn kept<T>(things: &mut Vec<T>, passes: impl Fn(&T) -> bool) -> usize {
    let before = things.len();
    things.retain(passes);
    before - things.len()
}

#[cfg(test)]
mod tests {
    use super::clean;
    use crate::report::plot::{Axis, Colour, Layer, Panel, Scale, Shape};

    #[test]
    fn what_an_axis_cannot_show_is_left_out_and_said() {
        let mut panel = Panel {
            layers: vec![Layer::Dots {
                name: String::new(),
                points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)],
                colour: Colour::Fits,
                shape: Shape::Circle,
            }],
            ..Panel::default()
        };
        assert!(clean(&panel).1.unwrap().starts_with("1 value "));
        panel.x = Axis {
            scale: Scale::Log,
            ..Axis::default()
        };
        let (kept, told) = clean(&panel);
        assert!(told.unwrap().starts_with("2 values"));
        assert!(matches!(&kept.layers[0], Layer::Dots { points, .. } if points.len() == 1));
    }
}
