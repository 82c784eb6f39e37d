//! What the lines say, at several widths.

use serde_json::json;

use super::*;
use crate::boundary::Verdict;

const SECOND: Duration = Duration::from_secs(1);

fn progress(done: u64, seconds_left: Option<f64>) -> Event {
    Event::Progress {
        done,
        expected: Some(40),
        resolved: 0.5,
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
        answer: json!(match moves {
            Moves::Fits => "ok",
            Moves::Fails => "oom",
            Moves::None => "error",
        }),
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
    let warning = Event::Warning("显存在开始之前没有回到基线\nand so on".into());
    let memory = Event::Memory {
        used: 60 << 30,
        total: 80 << 30,
    };
    let began = Event::Began {
        kind: "probe".into(),
        args: json!({ "point": { "input": 4096, "output": 64 } }),
    };
    let boundary = Event::Boundary {
        index: 0,
        axes: json!({ "axes": { "input": [1, 9] }, "options": {} }),
    };
    for event in [
        boundary,
        phase(
            "starting",
            "vllm 模型模型模型模型模型模型模型模型模型模型模型 input=4096",
        ),
        began,
        progress(20, None),
    ] {
        let _ = state.update(&event, 10 * SECOND);
    }
    for event in [
        point(1, Moves::Fits),
        point(7, Moves::Fits),
        point(9, Moves::None),
        memory,
        warning,
    ] {
        let _ = state.update(&event, 20 * SECOND);
    }
    let _ = state.update(&progress(22, None), 30 * SECOND);
    state.simulated = true;
    state
}

#[test]
fn the_lines_say_how_far_it_is() {
    let mut state = State::default();
    assert_eq!(state.lines(SECOND, 24, page(80, false)), ["- 0:01 running the script"]);
    let lines = busy().lines(40 * SECOND, 9, page(120, false));
    assert_eq!(
        lines,
        [
            "| 0:40 SIMULATED starting vllm 模型模型模型模型模型模型模型模型模型模型模型 input=4096, for 0:30",
            "  point input=4096 output=64; for 0:30",
            "  3 of about 40 points; 2 fit, 0 fail, 1 unclear; 50 % resolved; about 2:50 left",
            "  largest that fits: input=7",
            "  memory 60.0 GiB of 80.0 GiB  ###############.....  ++++++++++++++++++++++++++++++",
            "  ! 显存在开始之前没有回到基线 and so on",
        ]
    );
    let mut state = busy();
    let _ = state.update(&progress(22, Some(600.0)), 30 * SECOND);
    assert!(state.lines(40 * SECOND, 9, page(120, false))[2].ends_with("; about 9:50 left"));
}

#[test]
fn narrow_terminals_lose_no_figure() {
    for width in [24, 37, 60, 77, 197] {
        for unicode in [true, false] {
            let lines = busy().lines(40 * SECOND, 40, page(width, unicode));
            for line in &lines {
                assert!(measure_text_width(line) <= width, "{width}: {line}");
            }
            let text = lines.join("\n");
            for part in [
                "0:40",
                "3 of about 40 points",
                "1 unclear",
                "50 % resolved",
                "2:50 left",
                "input=7",
            ] {
                assert!(width < 37 || text.contains(part), "{width}: {part}\n{text}");
            }
            assert!(width < 37 || lines.len() <= 18, "{text}");
        }
    }
    let ascii = busy().lines(40 * SECOND, 40, page(60, false)).join("\n");
    assert!(
        ascii.contains('#') && !ascii.contains('…') && !ascii.contains('█'),
        "{ascii}"
    );
}

/// The announced loads: `(concurrency, requests)`.
fn planned(loads: &[(u64, u64)]) -> Event {
    let load = |(concurrency, requests): &(u64, u64)| json!({ "concurrency": concurrency, "requests": requests });
    Event::Planned {
        loads: loads.iter().map(load).collect(),
    }
}

fn load(began: bool, concurrency: u64, requests: u64) -> Event {
    let args = json!({ "load": { "concurrency": concurrency, "requests": requests } });
    let kind = "load".to_owned();
    match began {
        true => Event::Began { kind, args },
        false => Event::Done {
            kind,
            args,
            answer: json!({
                "issued": requests, "completed": requests, "output_throughput": 571.2,
                "ttft_ms": { "n": 60, "mean": 14.06, "p95": 15.02, "ci": {} }, "tpot_ms": { "n": 60, "mean": 1.634, "ci": {} },
            }),
        },
    }
}

#[test]
fn a_sweep_says_which_level_runs_what_the_others_gave_and_how_long_it_takes() {
    let mut state = State::default();
    let all = [(1, 60), (2, 60), (4, 60), (8, 60)];
    let _ = state.update(&planned(&all), Duration::ZERO);
    let mut lines = Vec::new();
    for (number, (concurrency, requests)) in (0..2).zip(all) {
        let begins = 60 * SECOND * number;
        let _ = state.update(&load(true, concurrency, requests), begins);
        let _ = state.update(&phase("probing", "so much"), begins);
        lines.extend(state.update(&load(false, concurrency, requests), begins + 60 * SECOND / (1 + number)));
    }
    assert_eq!(
        lines[1],
        "level 2 of 4: 2 concurrent requests: 571 output tokens/s, mean TTFT 14.1 ms (p95 15.0), mean TPOT 1.63 ms; about 0:22 left"
    );
    let _ = state.update(&load(true, 4, 60), 90 * SECOND);
    let _ = state.update(&phase("probing", "so much"), 90 * SECOND);
    let loading = Event::Loading {
        done: 4,
        issued: 8,
        expected: Some(60),
        per_second: 2.0,
    };
    let _ = state.update(&loading, 95 * SECOND);
    // Twice as many requests took half the time: 15 s for this level, of which 5 passed, and 7.5 s for the last one.
    assert_eq!(
        state.lines(95 * SECOND, 24, page(80, false)),
        [
            "- 1:35 level 3 of 4: 4 concurrent requests, for 0:05",
            "  4 of 60 requests done; 4 under way; 2.0 requests/s; about 0:17 left",
            "  concurrency  output tok/s  mean TTFT ms  mean TPOT ms  p95 TTFT ms",
            "            1           571          14.1          1.63         15.0",
            "            2           571          14.1          1.63         15.0",
        ]
    );
    assert_eq!(
        state.lines(95 * SECOND, 24, page(57, false))[4],
        "            1           571          14.1          1.63"
    );
    let _ = state.update(&phase("stopping", "vllm"), 100 * SECOND);
    assert_eq!(
        state.lines(107 * SECOND, 24, page(80, false))[0],
        "- 1:47 stopping vllm, for 0:07"
    );
}

#[test]
fn a_start_shows_its_log_and_what_the_last_one_took_and_a_probe_its_timeout() {
    let mut state = State::default();
    for (name, at) in [
        ("starting", 0),
        ("loading", 1),
        ("ready", 60),
        ("starting", 100),
        ("loading", 101),
    ] {
        let _ = state.update(&phase(name, "vllm up to 8192"), at * SECOND);
    }
    let line = "INFO [loader.py:7] Loading\tweights 50 %".to_owned();
    let _ = state.update(&Event::Log { line }, 110 * SECOND);
    assert_eq!(
        state.lines(120 * SECOND, 24, page(80, false)),
        [
            "| 2:00 loading vllm up to 8192, for 0:19; about 0:40 left",
            "  log: Loading weights 50 %",
        ]
    );
    let _ = state.update(&phase("ready", "vllm up to 8192"), 160 * SECOND);
    let _ = state.update(&phase("probing", "input=7"), 160 * SECOND);
    let _ = state.update(&Event::Sent { timeout: 600.0 }, 170 * SECOND);
    assert_eq!(
        state.lines(300 * SECOND, 24, page(80, false)),
        ["| 5:00 testing input=7, 2:10 of at most 10:00"]
    );
}

#[test]
fn a_map_grows_where_there_is_room() {
    let mut state = State::default();
    let axes = json!({ "axes": { "input": [1, 100], "output": [1, 100] }, "options": {} });
    let _ = state.update(&Event::Boundary { index: 0, axes }, Duration::ZERO);
    let (point, answer) = (Point::default().with("input", 40).with("output", 40), json!("ok"));
    let _ = state.update(&Event::Restored { point, answer }, Duration::ZERO);
    let lines = state.lines(SECOND, 24, page(80, false));
    assert!(
        lines.len() <= 12 && lines.iter().any(|line| line.contains("####")),
        "{lines:#?}"
    );
    assert_eq!(state.lines(SECOND, 8, page(80, false)).len(), 2);
}
