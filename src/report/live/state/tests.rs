//! What the lines say, at several widths.

use serde_json::json;

use super::*;
use crate::boundary::Verdict;

const SECOND: Duration = Duration::from_secs(1);

fn progress(done: u64, seconds_left: Option<f64>) -> Event {
    Event::Progress {
        done,
        expected: Some(40),
        coverage: 0.5,
        seconds_left,
    }
}

fn point(input: i64, moves: Moves) -> Event {
    Event::Point {
        boundary: 0,
        point: Point::default().with("input", input),
        verdict: Verdict::Ok,
        cause: None,
        moves,
        answer: Value::Null,
    }
}

fn phase(phase: &str, detail: &str) -> Event {
    Event::Phase {
        phase: phase.into(),
        detail: detail.into(),
    }
}

fn page(width: usize, unicode: bool) -> Page {
    Page {
        width,
        unicode,
        colour: false,
    }
}

fn busy() -> State {
    let mut state = State::default();
    let warning = Event::Warning {
        text: "显存在开始之前没有回到基线\nand so on".into(),
    };
    let loading = Event::Loading {
        done: 12,
        issued: 20,
        expected: Some(512),
        per_second: 3.25,
    };
    let memory = Event::Memory {
        used: 60 << 30,
        total: 80 << 30,
    };
    let began = Event::Began {
        kind: "probe".into(),
        args: json!({ "point": { "input": 4096, "output": 64 } }),
    };
    for event in [
        phase(
            "starting",
            "vllm 模型模型模型模型模型模型模型模型模型模型模型 input=4096",
        ),
        began,
        progress(20, None),
    ] {
        state.update(&event, 10 * SECOND);
    }
    for event in [
        point(1, Moves::Fits),
        point(7, Moves::Fits),
        point(9, Moves::None),
        loading,
        memory,
        warning,
    ] {
        state.update(&event, 20 * SECOND);
    }
    state.update(&progress(22, None), 30 * SECOND);
    assert!(state.mark_simulated() && !state.mark_simulated());
    state
}

#[test]
fn the_lines_say_how_far_it_is() {
    let state = State::default();
    assert_eq!(state.lines(SECOND, page(80, false)), ["- 0:01 running the script"]);
    let lines = busy().lines(40 * SECOND, page(120, false));
    assert_eq!(
        lines,
        [
            "| 0:40 SIMULATED starting vllm 模型模型模型模型模型模型模型模型模型模型模型 input=4096, for 0:30",
            "  point input=4096 output=64; for 0:30",
            "  requests: 12 of 512 done; 8 under way; 3.2 a second",
            "  3 of about 40 points; 2 fit, 0 fail, 1 unclear; 50 % proven; about 2:50 left",
            "  largest that fits: input=7",
            "  memory 60.0 GiB of 80.0 GiB  ###############.....  ++++++++++++++++++++++++++++++",
            "  1 warning, the latest: 显存在开始之前没有回到基线 and so on",
        ]
    );
    let mut state = busy();
    state.update(&progress(22, Some(600.0)), 30 * SECOND);
    assert!(state.lines(40 * SECOND, page(120, false))[3].ends_with("; about 9:50 left"));
}

#[test]
fn narrow_terminals_lose_no_figure() {
    for width in [24, 37, 60, 77, 197] {
        for unicode in [true, false] {
            let lines = busy().lines(40 * SECOND, page(width, unicode));
            for line in &lines {
                assert!(measure_text_width(line) <= width, "{width}: {line}");
            }
            let text = lines.join("\n");
            for part in [
                "0:40",
                "3 of about 40 points",
                "1 unclear",
                "50 % proven",
                "2:50 left",
                "input=7",
            ] {
                assert!(width < 37 || text.contains(part), "{width}: {part}\n{text}");
            }
            assert!(width < 37 || lines.len() <= 13, "{text}");
        }
    }
    let ascii = busy().lines(40 * SECOND, page(60, false)).join("\n");
    assert!(
        ascii.contains('#') && !ascii.contains('…') && !ascii.contains('█'),
        "{ascii}"
    );
}

#[test]
fn the_next_phase_ends_the_load() {
    let mut state = busy();
    state.update(&phase("stopping", "vllm"), 50 * SECOND);
    let text = state.lines(57 * SECOND, page(80, true)).join("\n");
    assert!(
        text.contains("stopping vllm, for 0:07") && !text.contains("requests"),
        "{text}"
    );
}
