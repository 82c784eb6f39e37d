//! The content of each plot, read from its SVG.

use resvg::usvg::{Node, Tree};
use roxmltree::Document;

use super::samples;
use crate::report::plot::draw::options;
use crate::report::plot::draw::{AxisScale, Width, file, panel, svg};
use crate::report::plot::{Axis, Colour, Layer, Panel, Plot, Shape};
use crate::unit::Unit;

fn classes(svg: &str, class: &str) -> usize {
    let document = Document::parse(svg).unwrap();
    let nodes = document.descendants();
    nodes
        .filter(|node| {
            node.attribute("class")
                .is_some_and(|all| all.split(' ').any(|one| one == class))
        })
        .count()
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let nodes = document.descendants().filter(|node| node.has_tag_name("text"));
    nodes.filter_map(|node| node.text().map(str::to_owned)).collect()
}

#[test]
fn ten_thousand_dots_are_two_paths() {
    let drawing = svg(&samples::many(), Width::Wide);
    // One in the panel, one in the legend.
    assert_eq!(classes(&drawing.svg, "pl-fits"), 2);
    assert_eq!(classes(&drawing.svg, "pl-fails"), 2);
    assert!(drawing.svg.len() < 200_000, "{}", drawing.svg.len());
}

#[test]
fn an_hour_of_looks_is_some_ten_kilobytes_and_keeps_its_peak() {
    let plot = samples::memory(1, 360_000);
    let drawing = svg(&plot, Width::Wide);
    assert!(drawing.svg.len() < 60_000, "{}", drawing.svg.len());
    let frame = &drawing.frames[0];
    let peak = frame.top + frame.height * (1.0 - frame.y.share(79.0 * 1024_f64.powi(3)));
    let tree = Tree::from_str(&drawing.svg, &options()).unwrap();
    let mut highest = f64::INFINITY;
    each(tree.root(), &mut |node| {
        if let Node::Path(path) = node
            && path.data().len() > 1000
        {
            highest = highest.min(f64::from(path.abs_bounding_box().top()));
        }
    });
    assert!((highest - peak).abs() < 0.2, "{highest} {peak}");
}

#[test]
fn what_a_panel_is_called_is_not_written_beside_its_axis_again() {
    let panel = |title: &str| Panel {
        title: title.to_owned(),
        x: Axis {
            label: "power".to_owned(),
            unit: Unit::Watts,
            ..Axis::default()
        },
        layers: vec![Layer::Dots {
            name: String::new(),
            points: vec![(1.0, 1.0), (2.0, 3.0)],
            colour: Colour::Quiet,
            shape: Shape::Circle,
        }],
        ..Panel::default()
    };
    let about = |title: &str| {
        let plot = Plot {
            panels: vec![panel(title)],
            ..Plot::default()
        };
        let mut all = texts(&svg(&plot, Width::Wide).svg);
        all.retain(|text| text.contains("power") || text.contains('W'));
        all
    };
    assert_eq!(about("power"), ["power", "W"]);
    assert_eq!(about("GPU 0"), ["power, W"]);
}

#[test]
fn hostile_text_stays_text() {
    for text in [
        file(&samples::hostile(), true),
        svg(&samples::hostile(), Width::Narrow).svg,
    ] {
        let document = Document::parse(&text).unwrap();
        assert!(document.descendants().all(|node| node.tag_name().name() != "script"));
        assert!(texts(&text).iter().any(|text| text.contains("<script>")));
    }
}

#[test]
fn ids_are_of_this_picture_and_each_is_there_once() {
    for plot in samples::all() {
        let mut page = svg(&plot, Width::Wide).svg;
        page.push_str(&svg(&plot, Width::Narrow).svg);
        page.push_str(&panel(&plot, 0, Width::Wide).svg);
        let page = format!("<div>{page}</div>");
        let document = Document::parse(&page).unwrap();
        let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        let mut once = ids.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), ids.len(), "{}", plot.name);
        assert!(ids.iter().all(|id| id.starts_with(&format!("plot-{}-", plot.name))));
        for used in page.split("url(#").skip(1).filter_map(|text| text.split(')').next()) {
            assert!(ids.contains(&used), "{used}");
        }
    }
}

#[test]
fn every_text_lies_within_its_picture() {
    for plot in samples::all() {
        let drawings = [
            svg(&plot, Width::Wide).svg,
            svg(&plot, Width::Narrow).svg,
            panel(&plot, 0, Width::Narrow).svg,
            file(&plot, true),
        ];
        for text in drawings {
            let tree = Tree::from_str(&text, &options()).unwrap();
            let (width, height) = (tree.size().width(), tree.size().height());
            each(tree.root(), &mut |node| {
                if let Node::Text(text) = node {
                    let box_ = text.abs_bounding_box();
                    let words: String = text.chunks().iter().map(|chunk| chunk.text().to_owned()).collect();
                    let within = box_.left() >= -1.0 && box_.right() <= width + 1.0;
                    let within = within && box_.top() >= -1.0 && box_.bottom() <= height + 1.0;
                    assert!(within, "{}: {words}: {box_:?} of {width} by {height}", plot.name);
                }
            });
        }
    }
}

#[test]
fn no_text_covers_another() {
    for plot in samples::all() {
        for text in [
            svg(&plot, Width::Wide).svg,
            svg(&plot, Width::Narrow).svg,
            file(&plot, true),
        ] {
            let tree = Tree::from_str(&text, &options()).unwrap();
            let mut seen: Vec<(String, resvg::tiny_skia::Rect)> = Vec::new();
            each(tree.root(), &mut |node| {
                if let Node::Text(text) = node {
                    let words: String = text.chunks().iter().map(|chunk| chunk.text().to_owned()).collect();
                    seen.push((words, text.abs_bounding_box()));
                }
            });
            for (index, (words, one)) in seen.iter().enumerate() {
                for (others, other) in &seen[..index] {
                    let across = one.right().min(other.right()) - one.left().max(other.left());
                    let down = one.bottom().min(other.bottom()) - one.top().max(other.top());
                    // Boxes reach above the letters and below them.
                    assert!(
                        across < 1.0 || down < 4.0,
                        "{}: {words} covers {others}: {one:?} {other:?}",
                        plot.name
                    );
                }
            }
        }
    }
}

/// Every node below a group.
fn each(group: &resvg::usvg::Group, see: &mut impl FnMut(&Node)) {
    for node in group.children() {
        see(node);
        if let Node::Group(group) = node {
            each(group, see);
        }
    }
}

#[test]
fn a_frame_says_where_a_panel_is() {
    let drawing = svg(&samples::load(), Width::Wide);
    let [above, below] = drawing.frames.as_slice() else {
        panic!("two panels")
    };
    assert!((above.left - below.left).abs() < 1e-9 && (above.width - below.width).abs() < 1e-9);
    assert!(above.top + above.height < below.top && below.top + below.height < drawing.size.1);
    assert_eq!(above.x, below.x);
    assert!(above.x.log && !above.y.log && below.y.log);
    assert!(svg(&samples::two_scales(), Width::Narrow).frames[0].right.is_some());
}

#[test]
fn a_slider_shows_each_panel_on_the_same_axes() {
    let plot = samples::multiples();
    let whole = svg(&plot, Width::Wide);
    assert_eq!(whole.frames.len(), 5);
    for index in 0..5 {
        let single = panel(&plot, index, Width::Wide);
        assert_eq!(single.frames.len(), 1);
        assert_eq!(
            (single.frames[0].x, single.frames[0].y),
            (whole.frames[index].x, whole.frames[index].y)
        );
        assert!(single.frames[0].width > 2.0 * whole.frames[index].width);
    }
    assert!(panel(&plot, 5, Width::Wide).frames.is_empty());
}

#[test]
fn a_picture_without_marks_says_so() {
    for plot in [samples::empty(), Plot::default()] {
        assert!(texts(&svg(&plot, Width::Wide).svg).contains(&"nothing to draw".to_owned()));
    }
}

#[test]
fn a_file_carries_its_words() {
    let plot = samples::boundary();
    let text = file(&plot, true);
    let said = texts(&text);
    assert_eq!(said[0], plot.title);
    assert!(said[1].starts_with("SIMULATED"));
    assert!(said.last().unwrap().starts_with("Each dot is a probe."));
    let document = Document::parse(&text).unwrap();
    let told = document.descendants().find(|node| node.has_tag_name("desc")).unwrap();
    assert_eq!(told.text(), Some(plot.words.as_str()));
    assert!(!file(&plot, false).contains("SIMULATED"));
    // On a page, title and caption are outside of the drawing.
    assert!(!texts(&svg(&plot, Width::Wide).svg).contains(&plot.title));
}

#[test]
fn lines_are_named_where_they_end_or_in_the_legend() {
    let plot = samples::engines();
    for width in [Width::Wide, Width::Narrow] {
        let said = texts(&svg(&plot, width).svg);
        for number in 0..10 {
            let named = said
                .iter()
                .filter(|text| text.ends_with(&format!("run {number}")))
                .count();
            assert_eq!(named, 1, "{said:?}");
        }
    }
}

#[test]
fn odd_values_are_drawn_somewhere() {
    use crate::report::plot::{Axis, Bar, Colour, Layer, Panel, Scale, Shape};
    let odd = [
        f64::NAN,
        f64::INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        0.0,
        -1.0,
        1e300,
    ];
    for scale in [Scale::Linear, Scale::Log] {
        let axis = Axis {
            scale,
            ..Axis::default()
        };
        let points: Vec<(f64, f64)> = odd.iter().flat_map(|x| odd.iter().map(|y| (*x, *y))).collect();
        let bars = points.iter().map(|(at, value)| Bar {
            at: *at,
            value: *value,
            ..Bar::default()
        });
        let layers = vec![
            Layer::Dots {
                name: "dots".into(),
                points: points.clone(),
                colour: Colour::Fits,
                shape: Shape::Star,
            },
            Layer::Bars {
                name: "bars".into(),
                bars: bars.collect(),
                colour: Colour::Fits,
                hatched: true,
            },
        ];
        let panel = Panel {
            x: axis.clone(),
            y: axis,
            layers,
            ..Panel::default()
        };
        let plot = Plot {
            panels: vec![panel],
            ..samples::empty()
        };
        let drawing = svg(&plot, Width::Wide);
        assert!(!drawing.svg.contains("NaN") && !drawing.svg.contains("inf"));
        assert!(texts(&drawing.svg).iter().any(|text| text.contains("cannot be shown")));
        Document::parse(&drawing.svg).unwrap();
        let AxisScale { from, to, .. } = drawing.frames[0].x;
        assert!(from.is_finite() && to.is_finite() && from < to);
    }
}
