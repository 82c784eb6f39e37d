//! Plots of rows: a y axis of categories, markers at an edge, and labels beside markers.

use super::samples::one;
use crate::report::plot::draw::{Width, svg};
use crate::report::plot::{Axis, Colour, Layer, Note, Panel, Plot, Shape};
use crate::unit::Unit;

/// Differences, one of them beyond the edge.
pub(super) fn forest() -> Plot {
    let dots = |name: &str, points: Vec<(f64, f64)>, shape: Shape| Layer::Dots {
        name: name.into(),
        points,
        colour: Colour::Series(0),
        shape,
    };
    Plot {
        name: "forest".into(),
        title: "Differences from one".into(),
        words: "Differences from one, told in words.".into(),
        panels: vec![Panel {
            x: Axis {
                label: "difference from one".into(),
                unit: Unit::Percent,
                range: Some((-104.0, 104.0)),
                ..Axis::default()
            },
            y: Axis {
                names: ["KV tokens", "memory", "start time"].map(str::to_owned).to_vec(),
                ..Axis::default()
            },
            layers: vec![
                dots("two", vec![(3.0, 1.0)], Shape::Circle),
                dots("two, beyond the edge", vec![(100.0, 0.0)], Shape::Beyond),
                dots("two, beyond the edge", vec![(-100.0, 2.0)], Shape::Before),
            ],
            notes: [(100.0, 0.0, "+1,567.2 %"), (-100.0, 2.0, "−180 %")]
                .map(|(x, y, label)| Note {
                    at: (x, y),
                    label: label.into(),
                })
                .to_vec(),
            ..Panel::default()
        }],
        ..Plot::default()
    }
}

#[test]
fn what_is_proven_has_an_edge() {
    let mut plot = super::samples::boundary();
    plot.panels[0]
        .layers
        .retain(|layer| !matches!(layer, Layer::Dots { .. }));
    let drawing = svg(&plot, Width::Wide).svg;
    for role in ["fits", "fails"] {
        // One outline in the legend, one edge in the panel.
        assert_eq!(drawing.matches(&format!("\"pl-{role}\"")).count(), 2, "{role}");
    }
}

#[test]
fn a_few_rows_are_not_as_high_as_a_map() {
    let height = |plot: &Plot| svg(plot, Width::Wide).frames[0].height;
    assert!(height(&forest()) < 0.5 * height(&one()), "{}", height(&forest()));
}

#[test]
fn what_lies_beyond_the_edge_is_told_beside_its_mark() {
    for width in [Width::Wide, Width::Narrow] {
        let drawing = svg(&forest(), width).svg;
        assert!(
            drawing.contains(">+1,567.2 %<") && drawing.contains(">−180 %<"),
            "{drawing}"
        );
    }
}
