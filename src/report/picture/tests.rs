//! Maps of small boundaries, compared as text.

use serde_json::{Value, json};

use super::draw;
use crate::boundary::{Answer, Boundary, Options, Point};
use crate::report::Page;

fn boundary(axes: Value, answers: &[(Value, &str)]) -> Boundary {
    let mut boundary = Boundary::new(&axes, Options::default()).unwrap();
    for (point, verdict) in answers {
        let point: Point = serde_json::from_value(point.clone()).unwrap();
        boundary
            .record(&point, &Answer::parse(&json!(verdict)).unwrap())
            .unwrap();
    }
    boundary
}

fn picture(boundary: &Boundary, width: usize) -> String {
    let page = Page {
        width,
        ..Page::default()
    };
    let text = draw(boundary, page).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("\n{}\n", lines.join("\n"))
}

#[test]
fn one_axis_is_a_row() {
    let boundary = boundary(
        json!({ "input": [1, 100] }),
        &[
            (json!({ "input": 50 }), "ok"),
            (json!({ "input": 80 }), "oom"),
            (json!({ "input": 60 }), "timeout"),
        ],
    );
    assert_eq!(
        picture(&boundary, 42),
        "
  |##################o---?-------x.......
  +--------------------------------------
   1      21     39      60     78    100
                                    input
# fits  - unknown  . fails
probes: o fitted  x failed  ? undecided
"
    );
}

#[test]
fn what_is_refused_for_its_length_has_its_own_mark_and_region() {
    let mut boundary = boundary(json!({ "input": [1, 100] }), &[(json!({ "input": 50 }), "ok")]);
    let refused = json!({ "verdict": "refused", "cause": "length_limit" });
    boundary
        .record(&Point::default().with("input", 80), &Answer::parse(&refused).unwrap())
        .unwrap();
    let text = picture(&boundary, 42);
    assert!(text.contains("#o-") && text.contains("-!///"), "{text}");
    for named in ["/ beyond a length limit", "! refused for its length"] {
        assert!(text.contains(named), "{named}: {text}");
    }
}

#[test]
fn two_axes_are_a_map() {
    let boundary = boundary(
        json!({ "input": [0, 9], "output": [0, 5] }),
        &[
            (json!({ "input": 4, "output": 2 }), "ok"),
            (json!({ "input": 7, "output": 1 }), "oom"),
        ],
    );
    assert_eq!(
        picture(&boundary, 80),
        "
output
5 |*****--...
  |*****--...
  |******-...
  |####o*-...
  |#####*-x..
0 |#####*-:::
  +----------
   0        9
        input
# fits  - unknown  . fails  * predicted to fit  : predicted to fail
probes: o fitted  x failed  ? undecided
"
    );
}

#[test]
fn three_axes_are_slices() {
    let boundary = boundary(
        json!({ "a": [0, 3], "b": [0, 1], "c": [1, 8] }),
        &[
            (json!({ "a": 1, "b": 1, "c": 4 }), "ok"),
            (json!({ "a": 2, "b": 1, "c": 4 }), "oom"),
        ],
    );
    let text = picture(&boundary, 80);
    assert!(text.contains("slice at c=1\n") && text.contains("slice at c=4\n") && text.contains("slice at c=8\n"));
    assert!(text.contains("1 |#ox.\n0 |##--\n"), "{text}");
}

#[test]
fn an_axis_of_one_value_is_not_drawn_and_a_log_scale_is_named() {
    let boundary = boundary(
        json!({ "input": [2000, 2000], "output": [500, 500], "concurrency": { "range": [1, 1000], "scale": "log" } }),
        &[
            (json!({ "input": 2000, "output": 500, "concurrency": 31 }), "ok"),
            (json!({ "input": 2000, "output": 500, "concurrency": 33 }), "queued"),
        ],
    );
    let text = picture(&boundary, 62);
    let lines: Vec<&str> = text.trim_start().lines().collect();
    assert_eq!(lines[0], "at input=2000 output=500", "{text}");
    assert!(text.contains(" concurrency (log scale)\n"), "{text}");
    // 58 cells: 32 is in the middle of a scale from 1 to 1,000.
    let (fitting, failing) = (lines[1].matches('#').count(), lines[1].matches('.').count());
    assert!(fitting.abs_diff(28) <= 1 && failing.abs_diff(28) <= 1, "{text}");
}

#[test]
fn no_line_is_wider_than_the_page() {
    let wide = boundary(
        json!({ "input": { "range": [128, 131_072], "scale": "log" }, "output": [128, 32_768] }),
        &[
            (json!({ "input": 4096, "output": 2000 }), "ok"),
            (json!({ "input": 60_000, "output": 9000 }), "oom"),
        ],
    );
    for width in [24, 40, 80, 200] {
        for unicode in [true, false] {
            let page = Page {
                width,
                unicode,
                colour: true,
            };
            for line in draw(&wide, page).unwrap().lines() {
                // The legend cannot be cut any further.
                let limit = width.max(40);
                assert!(console::measure_text_width(line) <= limit, "{width}: {line}");
            }
        }
    }
}
