//! Phases, limits and stacks: narrow ones stay visible, not all of many are named, and no name is cut.

use roxmltree::Document;

use crate::report::plot::draw::{Width, svg};
use crate::report::plot::{Axis, Bar, Colour, Layer, Panel, Plot, Span};

/// A plot from 0 to 100.
fn drawn(layers: Vec<Layer>, width: Width) -> String {
    let axis = Axis {
        range: Some((0.0, 100.0)),
        ..Axis::default()
    };
    let panel = Panel {
        x: axis.clone(),
        y: axis,
        layers,
        ..Panel::default()
    };
    let plot = Plot {
        name: "phases".into(),
        panels: vec![panel],
        ..Plot::default()
    };
    svg(&plot, width).svg
}

/// The widths of the areas of a class, in pixels.
fn widths(svg: &str, class: &str) -> Vec<f64> {
    let tree = resvg::usvg::Tree::from_str(
        &format!("<svg xmlns='http://www.w3.org/2000/svg'>{}</svg>", areas(svg, class)),
        &resvg::usvg::Options::default(),
    );
    let tree = tree.unwrap();
    let nodes = tree.root().children().iter();
    nodes.map(|node| f64::from(node.abs_bounding_box().width())).collect()
}

fn areas(svg: &str, class: &str) -> String {
    let document = Document::parse(svg).unwrap();
    let nodes = document
        .descendants()
        .filter(|node| node.attribute("class") == Some(class));
    nodes
        .filter_map(|node| node.attribute("d"))
        .map(|data| format!("<path d='{data}'/>"))
        .collect()
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let nodes = document.descendants().filter(|node| node.has_tag_name("text"));
    nodes.filter_map(|node| node.text().map(str::to_owned)).collect()
}

fn spans(ends: &[(f64, f64)]) -> Layer {
    let span = |&(from, to): &(f64, f64)| Span {
        from,
        to,
        label: "load".into(),
    };
    Layer::Spans {
        spans: ends.iter().map(span).collect(),
    }
}

#[test]
fn a_stretch_alone_and_a_moment_are_seen() {
    for width in [Width::Wide, Width::Narrow] {
        let alone = drawn(vec![spans(&[(20.0, 60.0)])], width);
        assert_eq!(widths(&alone, "pa-stripe").len(), 1);
        for whole in [(0.0, 100.0), (-7.3, 123.4)] {
            assert_eq!(widths(&drawn(vec![spans(&[whole])], width), "pa-stripe").len(), 1);
        }
        // At the start, in the middle, at the end.
        for at in [0.0, 50.0, 100.0] {
            let seen = widths(&drawn(vec![spans(&[(at, at)])], width), "pa-edge");
            assert!(matches!(seen.as_slice(), [wide] if *wide >= 1.9), "{at}: {seen:?}");
        }
        let ribbon = Layer::Ribbon {
            name: String::new(),
            points: vec![(50.0, 10.0, 90.0)],
            colour: Colour::Fits,
            solid: false,
            steps: false,
            right: false,
        };
        let ribbon = widths(&drawn(vec![ribbon], width), "pa-fits");
        assert!(matches!(ribbon.as_slice(), [wide] if *wide >= 1.9), "{ribbon:?}");
    }
    // Of adjacent spans every other one is a band; the first is none if the axis starts with it.
    let four = [(0.0, 20.0), (20.0, 50.0), (50.0, 70.0), (70.0, 100.0)];
    let stripes = areas(&drawn(vec![spans(&four)], Width::Wide), "pa-stripe");
    assert_eq!(stripes.matches(['z', 'Z']).count(), 2, "{stripes}");
}

#[test]
fn of_many_phases_twelve_are_named() {
    let many: Vec<(f64, f64)> = (0..40)
        .map(|at| (2.5 * f64::from(at), 2.5 * f64::from(at + 1)))
        .collect();
    let wide: Vec<(f64, f64)> = (0..12)
        .map(|at| (8.0 * f64::from(at), 8.0 * f64::from(at + 1)))
        .collect();
    let named = |ends: &[(f64, f64)], width| {
        let svg = drawn(vec![spans(ends)], width);
        let bare = texts(&drawn(Vec::new(), width)).len();
        (
            texts(&svg).iter().filter(|text| *text == "load").count(),
            texts(&svg).len() - bare,
        )
    };
    assert_eq!(named(&wide, Width::Wide).0, 12);
    for width in [Width::Wide, Width::Narrow] {
        let (_, all) = named(&many, width);
        // Numbers of those without room, and their meaning on at most four lines below.
        assert!(all <= 12 + 4, "{all}");
    }
}

#[test]
fn the_name_of_a_limit_goes_on_below_rather_than_being_cut() {
    let limit = Layer::Rule {
        name: "memory_fraction 0.9: 125.82 GiB".into(),
        at: 90.0,
        upright: false,
        colour: Colour::Limit,
        dashed: true,
        right: false,
    };
    for width in [Width::Wide, Width::Narrow] {
        let all = texts(&drawn(vec![limit.clone()], width));
        assert!(all.join(" ").contains("memory_fraction 0.9: 125.82 GiB"), "{all:?}");
    }
}

#[test]
fn a_component_is_worn_alike_in_a_column_and_over_time() {
    let bars = |base: f64| Layer::Bars {
        name: String::new(),
        bars: vec![Bar {
            at: 50.0,
            value: base + 10.0,
            base,
            interval: None,
        }],
        colour: Colour::Fits,
        hatched: false,
    };
    let ribbon = Layer::Ribbon {
        name: String::new(),
        points: vec![(0.0, 0.0, 10.0), (100.0, 0.0, 10.0)],
        colour: Colour::Fits,
        solid: true,
        steps: true,
        right: false,
    };
    let worn = |layers: Vec<Layer>| {
        let svg = drawn(layers, Width::Wide);
        let document = Document::parse(&svg).unwrap();
        let area = document
            .descendants()
            .find(|node| node.attribute("class") == Some("pa-fits"));
        area.unwrap().attribute("fill-opacity").map(str::to_owned)
    };
    assert_eq!(worn(vec![bars(0.0), bars(10.0)]), worn(vec![ribbon]));
    assert_eq!(worn(vec![bars(0.0)]), None, "bars beside each other are full");
}
