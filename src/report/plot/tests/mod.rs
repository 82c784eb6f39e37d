//! Checks the SVG of each plot. `PROFILER_GALLERY=FOLDER cargo test --lib gallery` writes all samples as files.

mod samples;

use resvg::usvg::{Node, Tree};
use roxmltree::Document;

use super::layout::options;
use super::{
    Axis, AxisScale, Bar, Colour, Layer, MarkerShape, Marks, Panel, Plot, Scale, Span, Width, css, file, panel, png,
    svg,
};
use crate::fmt::Unit;

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
fn gallery() {
    let folder = std::env::var_os("PROFILER_GALLERY").map(std::path::PathBuf::from);
    let mut page = format!(
        "<!doctype html><meta charset=utf-8><style>body{{background:var(--plot-paper);color:var(--plot-ink);font-family:system-ui;margin:20px}}svg{{display:block;max-width:100%}}.plot-wide{{width:960px}}.plot-narrow{{width:400px}}{}</style>",
        css()
    );
    for plot in samples::all() {
        let drawn = file(&plot, plot.name == "load");
        let picture = png(&plot, plot.name == "load", 1.0).unwrap();
        assert!(picture.starts_with(b"\x89PNG"));
        for width in [Width::Wide, Width::Narrow] {
            page.push_str(&format!("<h2>{}</h2>{}", plot.name, svg(&plot, width).svg));
        }
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(format!("{}.svg", plot.name)), drawn).unwrap();
            std::fs::write(folder.join(format!("{}.png", plot.name)), picture).unwrap();
        }
    }
    if let Some(folder) = &folder {
        std::fs::write(folder.join("page.html"), page).unwrap();
    }
}

#[test]
fn ten_thousand_dots_are_two_paths() {
    let drawing = svg(&samples::many(), Width::Wide);
    // One mark in the panel, one in the legend.
    assert_eq!(classes(&drawing.svg, "pl-fits"), 2);
    assert_eq!(classes(&drawing.svg, "pl-fails"), 2);
    assert!(drawing.svg.len() < 200_000, "{}", drawing.svg.len());
}

#[test]
fn an_hour_of_samples_is_some_ten_kilobytes_and_keeps_its_peak() {
    let plot = samples::memory(1, 360_000);
    let drawing = svg(&plot, Width::Wide);
    assert!(drawing.svg.len() < 60_000, "{}", drawing.svg.len());
    let frame = &drawing.frames[0];
    let peak = frame.rect.top + frame.rect.height * (1.0 - frame.y.share(79.0 * 1024_f64.powi(3)));
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
fn an_axis_label_that_repeats_the_title_is_omitted() {
    let panel = |title: &str| Panel {
        title: title.to_owned(),
        x: Axis::new("power", Unit::Watts),
        layers: vec![Layer::dots(
            "",
            [(1.0, 1.0), (2.0, 3.0)],
            Colour::Quiet,
            MarkerShape::Circle,
        )],
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
fn ids_begin_with_the_name_of_the_plot_and_are_unique() {
    for plot in samples::all() {
        let mut page = svg(&plot, Width::Wide).svg;
        page.push_str(&svg(&plot, Width::Narrow).svg);
        page.push_str(&panel(&plot, 0, Width::Wide).svg);
        let html = format!("<div>{page}</div>");
        let document = Document::parse(&html).unwrap();
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
                    let within = box_.left() >= -1.0
                        && box_.right() <= width + 1.0
                        && box_.top() >= -1.0
                        && box_.bottom() <= height + 1.0;
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

#[test]
fn a_frame_says_where_a_panel_is() {
    let drawing = svg(&samples::load(), Width::Wide);
    let [above, below] = drawing.frames.as_slice() else {
        panic!("two panels")
    };
    assert!((above.rect.left - below.rect.left).abs() < 1e-9 && (above.rect.width - below.rect.width).abs() < 1e-9);
    assert!(above.rect.top + above.rect.height < below.rect.top && below.rect.top + below.rect.height < drawing.size.1);
    assert_eq!(above.x, below.x);
    assert!(above.x.log && !above.y.log && below.y.log);
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
        assert!(single.frames[0].rect.height > 2.0 * whole.frames[index].rect.height);
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
fn a_file_has_title_warning_caption_and_description() {
    let plot = samples::boundary();
    let text = file(&plot, true);
    let said = texts(&text);
    assert_eq!(said[0], plot.title);
    assert!(said[1].starts_with("SIMULATED"));
    assert!(said.last().unwrap().starts_with("Each dot is a probe."));
    let document = Document::parse(&text).unwrap();
    let description = document.descendants().find(|node| node.has_tag_name("desc")).unwrap();
    assert_eq!(description.text(), Some(plot.alt.as_str()));
    assert!(!file(&plot, false).contains("SIMULATED"));
    // On a page, title and caption are outside of the drawing.
    assert!(!texts(&svg(&plot, Width::Wide).svg).contains(&plot.title));
}

#[test]
fn every_line_is_named_in_the_legend() {
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
            Layer::dots("dots", points.clone(), Colour::Fits, MarkerShape::Star),
            Layer::bars("bars", bars, Colour::Fits).dashed(true),
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

#[test]
fn what_is_proven_has_an_edge() {
    let mut plot = samples::boundary();
    plot.panels[0]
        .layers
        .retain(|layer| !matches!(layer.marks, Marks::Dots { .. }));
    let drawing = svg(&plot, Width::Wide).svg;
    for role in ["fits", "fails"] {
        // One outline in the legend, one edge in the panel.
        assert_eq!(drawing.matches(&format!("\"pl-{role}\"")).count(), 2, "{role}");
    }
}

#[test]
fn a_few_rows_are_not_as_high_as_a_map() {
    let height = |plot: &Plot| svg(plot, Width::Wide).frames[0].rect.height;
    assert!(height(&samples::rows()) < 0.5 * height(&samples::one()));
}

#[test]
fn long_names_of_rows_leave_room_for_the_map() {
    for width in [Width::Wide, Width::Narrow] {
        let drawing = svg(&samples::rows(), width);
        assert!(
            drawing.frames[0].rect.width > 0.5 * drawing.size.0,
            "{:?}",
            drawing.frames[0]
        );
        let said = texts(&drawing.svg);
        let cut = said
            .iter()
            .any(|text| text.starts_with("not tested") && text.ends_with('…'));
        assert!(cut && said.contains(&"fits".to_owned()), "{said:?}");
    }
}

#[test]
fn of_many_categories_some_are_named_on_every_screen() {
    for (count, width, least) in [(24, Width::Narrow, 24), (60, Width::Wide, 60), (60, Width::Narrow, 20)] {
        let said = texts(&svg(&samples::categories(count), width).svg);
        let named = said
            .iter()
            .filter(|text| text.parse::<usize>().is_ok_and(|name| name >= 1024));
        assert!(named.count() >= least, "{count}: {said:?}");
    }
}

#[test]
fn labels_without_room_are_counted() {
    for (width, least) in [(Width::Wide, 24), (Width::Narrow, 12)] {
        let said = texts(&svg(&samples::categories(60), width).svg);
        let named = said.iter().filter(|text| text.starts_with("mark ")).count();
        let rest = format!("{} more have no room for a label", 60 - named);
        assert!(named >= least && said.contains(&rest), "{said:?}");
    }
}

#[test]
fn labels_of_stacks_lie_within_their_bar_or_beside_it() {
    for (gpus, width) in [(1, Width::Wide), (4, Width::Wide), (1, Width::Narrow)] {
        let drawing = svg(&samples::stacks(gpus), width);
        let tree = Tree::from_str(&drawing.svg, &options()).unwrap();
        let (mut bars, mut labels) = (Vec::new(), Vec::new());
        each(tree.root(), &mut |node| match node {
            Node::Path(path) if path.fill().is_some_and(|fill| fill.opacity().get() < 0.7) => {
                bars.push(path.abs_bounding_box());
            }
            Node::Text(text) if text.chunks()[0].text().ends_with("GiB") => labels.push(text.abs_bounding_box()),
            _ => {}
        });
        assert!(!labels.is_empty() && bars.len() > 2, "{gpus}");
        for label in labels {
            let touches = |bar: &resvg::tiny_skia::Rect| label.intersect(bar).is_some_and(|both| both.height() > 4.0);
            let within = |bar: &resvg::tiny_skia::Rect| bar.left() <= label.left() && label.right() <= bar.right();
            assert!(
                bars.iter().all(|bar| !touches(bar) || within(bar)),
                "{gpus}: {label:?} {bars:?}"
            );
        }
    }
}

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
    )
    .unwrap();
    tree.root()
        .children()
        .iter()
        .map(|node| f64::from(node.abs_bounding_box().width()))
        .collect()
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

fn spans(ends: &[(f64, f64)]) -> Layer {
    let span = |&(from, to): &(f64, f64)| Span {
        from,
        to,
        label: "load".into(),
    };
    samples::spans(ends.iter().map(span).collect())
}

#[test]
fn a_single_phase_is_visible_and_neighbours_differ() {
    for width in [Width::Wide, Width::Narrow] {
        let alone = drawn(vec![spans(&[(20.0, 60.0)])], width);
        assert_eq!(widths(&alone, "pa-stripe").len(), 1);
        for whole in [(0.0, 100.0), (-7.3, 123.4)] {
            assert_eq!(widths(&drawn(vec![spans(&[whole])], width), "pa-stripe").len(), 1);
        }
    }
    // Every other one of adjacent spans is a band.
    let four = [(0.0, 20.0), (20.0, 50.0), (50.0, 70.0), (70.0, 100.0)];
    let stripes = areas(&drawn(vec![spans(&four)], Width::Wide), "pa-stripe");
    assert_eq!(stripes.matches(['z', 'Z']).count(), 2, "{stripes}");
}

#[test]
fn narrow_phases_are_named_once_and_close_rules_one_above_the_other() {
    let many: Vec<(f64, f64)> = (0..40)
        .map(|at| (2.5 * f64::from(at), 2.5 * f64::from(at + 1)))
        .collect();
    let all = texts(&drawn(vec![spans(&many)], Width::Wide));
    assert_eq!(all.iter().filter(|text| *text == "load").count(), 1, "{all:?}");
    let rule = |at: f64| Layer::vertical_rule(format!("saturation point at {at}"), at, Colour::Limit);
    let all = texts(&drawn(vec![rule(40.0), rule(41.0), rule(42.0)], Width::Narrow));
    assert_eq!(
        all.iter().filter(|text| text.starts_with("saturation point")).count(),
        3,
        "{all:?}"
    );
}

#[test]
fn limits_that_lie_close_are_labelled_apart() {
    let limit = |name: &str, at: f64| Layer::horizontal_rule(name, at, Colour::Limit);
    let limits = vec![
        limit("memory_fraction 0.9: 125.82 GiB", 90.0),
        limit("capacity: 139.8 GiB", 92.0),
    ];
    for width in [Width::Wide, Width::Narrow] {
        let all = texts(&drawn(limits.clone(), width));
        for name in ["memory_fraction 0.9: 125.82 GiB", "capacity: 139.8 GiB"] {
            assert!(all.contains(&name.to_owned()), "{all:?}");
        }
    }
}
