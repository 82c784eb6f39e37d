//! Boundary charts show every probe, and nothing as proven that is not.

use serde_json::{Value, json};

use super::*;
use crate::boundary::{JsonText, Options, Point};
use crate::report::evidence::NOT_SENT;
use crate::report::plot::{Colour, Layer, Marks, Panel, Shape};
use crate::report::{Page, text};
use crate::run::RecordedBoundary;

fn section_of(axes: &Value, answers: &[(Value, Value)]) -> Section {
    let points = answers
        .iter()
        .map(|(point, answer)| (serde_json::from_value(point.clone()).unwrap(), JsonText::from(answer)));
    let found = RecordedBoundary {
        described: json!({ "axes": axes, "options": Options::default() }),
        points: points.collect(),
        ..RecordedBoundary::default()
    };
    section(&found.rebuild().unwrap(), &found.points, None, None).unwrap()
}

fn in_terminal(section: &Section) -> String {
    text(&section.blocks, Page::default())
}

fn areas(panel: &Panel) -> Vec<Colour> {
    let areas = panel.layers.iter().filter_map(|layer| match layer.marks {
        Marks::Area { .. } => Some(layer.colour),
        _ => None,
    });
    areas.collect()
}

fn dots(panel: &Panel) -> Vec<(Shape, Vec<(f64, f64)>)> {
    let dots = panel.layers.iter().filter_map(|layer| match &layer.marks {
        Marks::Dots { points, shape } => Some((*shape, points.clone())),
        _ => None,
    });
    dots.collect()
}

fn plane() -> Value {
    json!({ "input": [1, 100], "output": [1, 100] })
}

fn at(input: i64, output: i64) -> Value {
    json!({ "input": input, "output": output })
}

#[test]
fn plane_shows_regions_probes_and_recommendation() {
    let queue = json!({ "kv_usage": 0.5, "running": 1, "waiting": 0, "preemptions": 0 });
    let ok = json!({ "verdict": "ok", "peak": 2_147_483_648u64, "ttft_ms": 12.34, "evidence": { "completed": 1, "issued": 1, "queue": queue } });
    let oom = json!({ "verdict": "oom", "cause": "cuda", "evidence": { "log": ["CUDA out of memory. Tried to allocate 2.00 GiB"] } });
    let section = section_of(
        &plane(),
        &[
            (at(60, 60), oom),
            (at(40, 40), ok),
            (at(50, 50), json!("timeout")),
            (at(5, 95), json!({ "verdict": "refused", "cause": "length_limit" })),
        ],
    );
    let [plot] = section.plots()[..] else { panic!() };
    let [panel] = &plot.panels[..] else { panic!() };
    let shown = areas(panel);
    for colour in [
        Colour::Fits,
        Colour::Fails,
        Colour::Open,
        Colour::Quiet,
        Colour::Predicted,
    ] {
        assert!(shown.contains(&colour), "{colour:?} of {shown:?}");
    }
    let marks = dots(panel);
    assert!(marks.contains(&(Shape::Circle, vec![(40.0, 40.0)])), "{marks:?}");
    assert!(marks.contains(&(Shape::Cross, vec![(60.0, 60.0)])), "{marks:?}");
    assert!(marks.contains(&(Shape::Triangle, vec![(50.0, 50.0)])), "{marks:?}");
    assert!(marks.contains(&(Shape::Diamond, vec![(5.0, 95.0)])), "{marks:?}");
    assert!(
        marks.contains(&(Shape::Ring, vec![(40.0, 40.0)])),
        "the largest confirmed: {marks:?}"
    );
    assert!(marks.contains(&(Shape::Star, vec![(38.0, 38.0)])), "{marks:?}");
    assert_eq!(
        panel.spots.columns,
        [
            "probe",
            "input",
            "output",
            "verdict",
            "cause",
            "evidence",
            "peak, GiB",
            "TTFT, ms",
            "KV cache, %"
        ]
    );
    let second = &panel.spots.spots[1];
    assert_eq!(
        (second.at, &second.entries[6], &second.entries[8]),
        ((40.0, 40.0), &2.0.into(), &50.0.into())
    );
    assert_eq!(plot.sheet.rows.len(), 4);
    let text = in_terminal(&section);
    for expected in [
        "4 points; 16.0 % of the search range fits, 16.8 % fails",
        "Predicted, not proven:",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    // The recommendation and its reason are only among the answers at the top of the page.
    assert!(!text.contains("input=38") && !text.contains("CUDA"), "{text}");
    for expected in [
        "16.0 %",
        "Recommended is input=38 output=38; the largest confirmed is input=40 output=40.",
        "At input=60 output=60 the engine ran out of GPU memory (cuda): “CUDA out of memory. Tried to allocate 2.00 GiB”.",
    ] {
        assert!(plot.words.contains(expected), "{expected}\n{}", plot.words);
    }
    assert!(!plot.words.contains("redicted"), "{}", plot.words);
}

/// A point that was not sent, and cells that no hypothesis admits, are never shown as confirmed.
#[test]
fn what_is_predicted_to_fail_has_its_own_mark_on_the_page_and_in_the_terminal() {
    let message = "ValueError: too long; the engine itself says that 120 tokens would fit, and 121 do not";
    let not_sent = json!({ "verdict": "start_failed", "cause": "memory", "evidence": { "message": message } });
    let axes = json!({ "input": [0, 9], "output": [0, 5] });
    let answers = [(at(4, 2), json!("ok")), (at(7, 1), json!("oom")), (at(9, 5), not_sent)];
    let section = section_of(&axes, &answers);
    let panel = &section.plots()[0].panels[0];
    let named = |layer: &Layer, wanted: &str| match &layer.marks {
        Marks::Dots { points, .. } => layer.name == wanted && *points == [(9.0, 5.0)],
        Marks::Area { .. } => layer.name == wanted && layer.dashed,
        _ => false,
    };
    for wanted in [NOT_SENT, "predicted to fail"] {
        assert!(
            panel.layers.iter().any(|layer| named(layer, wanted)),
            "{wanted}: {panel:?}"
        );
    }
    assert!(dots(panel).contains(&(Shape::Cross, vec![(7.0, 1.0)])));
    let found = RecordedBoundary {
        described: json!({ "axes": axes, "options": Options::default() }),
        points: answers
            .iter()
            .map(|(point, answer)| (serde_json::from_value(point.clone()).unwrap(), JsonText::from(answer)))
            .collect(),
        ..RecordedBoundary::default()
    };
    let text = crate::report::draw(&found.rebuild().unwrap(), Page::default()).unwrap();
    assert!(text.starts_with("output\n5 |*****--..%"), "{text}");
    assert!(
        text.contains(": predicted to fail") && text.contains(&format!("% {NOT_SENT}")),
        "{text}"
    );
}

#[test]
fn single_axis_is_a_strip_with_a_row_for_each_class() {
    let axes = json!({ "concurrency": [1, 64], "input": [2000, 2000], "output": [128, 128] });
    let at = |concurrency: i64| json!({ "concurrency": concurrency, "input": 2000, "output": 128 });
    let section = section_of(
        &axes,
        &[
            (at(29), json!("ok")),
            (at(30), json!("preempted")),
            (at(40), json!("error")),
        ],
    );
    let [plot] = section.plots()[..] else { panic!() };
    let panel = &plot.panels[0];
    assert_eq!(plot.title, "Largest concurrency that fits");
    assert_eq!(panel.y.names, ["fits", "fails", "inconclusive"]);
    assert_eq!(
        areas(panel),
        [Colour::Fits, Colour::Fails],
        "nothing is open between 29 and 30"
    );
    assert!(dots(panel).contains(&(Shape::Cross, vec![(30.0, 1.0)])));
    assert!(
        plot.caption.contains("All of it at input=2000, output=128."),
        "{}",
        plot.caption
    );
}

#[test]
fn third_axis_is_cut_and_every_probe_is_on_one_cut() {
    let axes = json!({ "concurrency": [1, 64], "input": [1, 100], "output": [1, 100] });
    let answers: Vec<(Value, Value)> = (0..120)
        .map(|number| {
            let (concurrency, input, output) = (1 + number * 7 % 64, 1 + number * 13 % 100, 1 + number * 29 % 100);
            let fits = concurrency * (input + output) <= 400;
            let point = json!({ "concurrency": concurrency, "input": input, "output": output });
            (point, json!(if fits { "ok" } else { "oom" }))
        })
        .collect();
    let section = section_of(&axes, &answers);
    let plot = section.plots()[0];
    assert_eq!(plot.slider.as_deref(), Some("concurrency"));
    assert!((3..=12).contains(&plot.panels.len()), "{}", plot.panels.len());
    assert_eq!(
        (
            plot.panels[0].title.as_str(),
            plot.panels.last().unwrap().title.as_str()
        ),
        ("concurrency=1", "concurrency=64")
    );
    let spots: usize = plot.panels.iter().map(|panel| panel.spots.spots.len()).sum();
    assert_eq!((spots, plot.sheet.rows.len()), (120, 120));
    let stars = plot
        .panels
        .iter()
        .filter(|panel| dots(panel).iter().any(|(shape, _)| *shape == Shape::Star));
    assert_eq!(stars.count(), 1);
    assert!(
        plot.caption
            .contains("A probe between two values of concurrency that are shown"),
        "{}",
        plot.caption
    );
}

#[test]
fn fourth_axis_is_held_at_its_easiest() {
    let axes = json!({ "input": [1, 9], "output": [1, 9], "batch": [1, 4], "fraction": { "range": [0.5, 0.9], "easier": "up" } });
    let at = |batch: i64, fraction: f64| json!({ "input": 5, "output": 5, "batch": batch, "fraction": fraction });
    let section = section_of(
        &axes,
        &[
            (at(1, 0.9), json!("ok")),
            (at(4, 0.5), json!("oom")),
            (at(2, 0.9), json!("oom")),
        ],
    );
    let [plot] = section.plots()[..] else { panic!() };
    assert_eq!(plot.slider.as_deref(), Some("batch"));
    assert!(
        plot.caption.contains("All of it at fraction=0.9.") && plot.caption.contains("1 probe elsewhere"),
        "{}",
        plot.caption
    );
    assert_eq!(plot.sheet.rows.len(), 3);
}

#[test]
fn empty_and_inconclusive_boundaries_are_drawn() {
    let cases = [
        (vec![], vec![Colour::Open], "nothing was probed yet"),
        (vec![(at(1, 1), "oom")], vec![Colour::Fails], "100 % fails"),
        (
            vec![(at(100, 100), "ok")],
            vec![Colour::Fits],
            "1 point; 100 % of the search range fits",
        ),
        (
            vec![(at(50, 50), "timeout")],
            vec![Colour::Open],
            "1 point; 0 % of the search range fits",
        ),
        (
            vec![(at(50, 50), "ok"), (at(50, 50), "oom"), (at(50, 50), "ok")],
            vec![Colour::Open, Colour::Band, Colour::Fails],
            "fitted 2 of 3 times",
        ),
    ];
    for (answers, colours, expected) in cases {
        let answers: Vec<(Value, Value)> = answers
            .into_iter()
            .map(|(point, verdict)| (point, json!(verdict)))
            .collect();
        let section = section_of(&plane(), &answers);
        assert_eq!(areas(&section.plots()[0].panels[0]), colours, "{answers:?}");
        let text = in_terminal(&section);
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let clipped = section_of(
        &plane(),
        &[(at(1, 1), json!({ "verdict": "refused", "cause": "length_limit" }))],
    );
    assert_eq!(areas(&clipped.plots()[0].panels[0]), [Colour::Quiet]);
}

#[test]
fn repeated_point_is_one_mark_for_each_answer() {
    let section = section_of(
        &plane(),
        &[
            (at(50, 50), json!("ok")),
            (at(50, 50), json!("oom")),
            (at(50, 50), json!("ok")),
        ],
    );
    let panel = &section.plots()[0].panels[0].clone();
    assert_eq!(panel.spots.spots.len(), 3);
    assert_eq!(
        dots(panel),
        [(Shape::Circle, vec![(50.0, 50.0)]), (Shape::Cross, vec![(50.0, 50.0)])]
    );
}

#[test]
fn probes_outside_of_the_search_range_are_only_in_the_table() {
    let section = section_of(&plane(), &[(at(50, 50), json!("ok")), (at(500, 50), json!("oom"))]);
    let plot = section.plots()[0];
    assert_eq!((plot.panels[0].spots.spots.len(), plot.sheet.rows.len()), (1, 2));
    assert!(
        plot.caption
            .contains("1 probe elsewhere in the search range or outside of it"),
        "{}",
        plot.caption
    );
}

#[test]
fn every_recorded_run_with_a_boundary_is_drawn() {
    let runs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs");
    for (name, title, expected) in [
        (
            "transformers-12gib",
            "Largest input that fits",
            "“CUDA out of memory. Tried to allocate",
        ),
        (
            "vllm-longest",
            "Largest input that fits",
            "At input=63266 output=64 the engine had no room for it in its KV cache",
        ),
        ("vllm-concurrency", "Largest concurrency that fits", "At concurrency=30"),
    ] {
        let folder = crate::run::Folder::open(&runs.join(name)).unwrap();
        let found = crate::run::RecordedRun::from_folder(&folder).unwrap();
        let source = Source::new(folder, &found);
        let mut missing = Vec::new();
        let sections = sections(&source, &mut missing);
        assert_eq!((sections.len(), missing.len()), (1, 0), "{name}: {missing:?}");
        assert_eq!(sections[0].plots()[0].title, title);
        let text = &sections[0].plots()[0].words;
        assert!(text.contains(expected), "{name}: {text}");
        let points: Vec<Point> = found.boundaries[0]
            .points
            .iter()
            .map(|(point, _)| point.clone())
            .collect();
        assert_eq!(sections[0].plots()[0].sheet.rows.len(), points.len());
    }
}
