//! A user watches a run: plain lines if output is not a terminal, and a live view on a terminal of any size.

use std::process::Command;

use rexpect::session::spawn_command;

use crate::support::{Profiler, temp};

const POINTS: &str = r#"
    let map = boundary(#{ input: [1, 9] }, #{});
    for n in 1..5 { map.record(#{ input: n }, if n < 4 { "ok" } else { "oom" }); map.progress(n, 0.9); sleep(0.2); }
    print("between");
    warn("a warning about 显存 that is longer than a narrow terminal is wide, by far");
    report(map)
"#;

/// The content of the terminal after each frame of the live view and at the end, and the raw output.
struct Seen {
    frames: Vec<String>,
    end: String,
    raw: String,
}

/// Runs the script on a terminal of this size.
fn on_terminal(columns: u16, rows: u16, variables: &[(&str, &str)], script: &str) -> Seen {
    let folder = temp();
    std::fs::write(folder.path().join("s.rhai"), script).unwrap();
    let mut command = Command::new("sh");
    command
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("TERM", "xterm")
        .env("LC_ALL", "C.UTF-8")
        .env("NO_COLOR", "1")
        .env_remove("CI")
        .envs(variables.iter().copied())
        .args(["-c", r#"stty cols "$1" rows "$2"; exec "$0" run s.rhai --out out"#])
        .args([env!("CARGO_BIN_EXE_profiler"), &columns.to_string(), &rows.to_string()]);
    let mut session = spawn_command(command, Some(60_000)).unwrap();
    // The session returns each byte as a character.
    let output = session.exp_eof().unwrap();
    let bytes = output.chars().map(|byte| u8::try_from(byte).unwrap());
    let raw = String::from_utf8(bytes.collect()).unwrap();
    let mut screen = vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0);
    let mut frames = Vec::new();
    for frame in raw.split_inclusive("\u{1b}[J") {
        screen.process(frame.as_bytes());
        let shown = screen.screen();
        // The terminal must not wrap any line of the live view.
        for row in (0..rows).filter(|_| raw.contains("\u{1b}[2K")) {
            assert!(
                !shown.row_wrapped(row),
                "row {row} of {columns} columns:\n{}",
                shown.contents()
            );
        }
        frames.push(shown.contents());
    }
    let end = frames.last().cloned().unwrap_or_default();
    Seen { frames, end, raw }
}

#[test]
fn lines_where_there_is_no_terminal() {
    let outcome = Profiler::new()
        .file("s.rhai", POINTS)
        .args(["run", "s.rhai"])
        .env("LC_ALL", "C")
        .run()
        .success()
        .stderr("[0:00] input=1: ok")
        .stderr("input=4: oom");
    assert!(
        !outcome.stderr.contains('\u{1b}'),
        "nothing is drawn: {}",
        outcome.stderr
    );
    assert!(
        outcome.stdout.starts_with("between\ninput <= 3 tokens"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.is_ascii(), "no locale says that more can be shown");
}

/// A secret that no output may show, and a script that prints it wherever a script can.
const SECRET: (&str, &str) = ("MY_API_KEY", "hf_never-to-be-seen");
const TELLTALE: &str = r#"
    warn("the hub refused hf_never-to-be-seen at http://me:passphrase@hub/");
    print("asked with hf_never-to-be-seen");
    let map = boundary(#{ input: [1, 9] }, #{});
    map.record(#{ input: 1 }, #{ verdict: "oom", cause: "hf_never-to-be-seen" });
    show(#{ value: 1 }, "a token: hf_never-to-be-seen");
    sleep(0.6);
    throw "hf_never-to-be-seen";
"#;

#[test]
fn what_is_secret_is_shown_neither_in_lines_nor_on_a_terminal() {
    let outcome = Profiler::new()
        .file("s.rhai", TELLTALE)
        .args(["run", "s.rhai"])
        .env(SECRET.0, SECRET.1)
        .run()
        .code(1)
        .stderr("the hub refused ***")
        .stdout("asked with ***")
        .stderr("http://***@hub/")
        .stderr("error: ***");
    let _ = outcome.nowhere("never-to-be-seen").nowhere("passphrase");
    // 200 columns show the whole warning; 60 cut it within the secret.
    for columns in [60, 200] {
        let seen = on_terminal(columns, 50, &[SECRET], TELLTALE);
        assert!(seen.raw.contains("⚠ the hub refused"), "{}", seen.raw);
        for part in ["hf_never", "be-seen", "passphrase"] {
            assert!(!seen.raw.contains(part), "{part} at {columns} columns: {}", seen.raw);
        }
    }
}

#[test]
fn a_live_view_on_terminals_of_any_width() {
    for (columns, rows) in [(40, 60), (80, 40), (200, 50)] {
        let seen = on_terminal(columns, rows, &[], POINTS);
        let frames = seen.frames.join("\n----\n");
        for part in [
            "running the script",
            " points; ",
            "largest that fits: input=",
            " % resolved",
            "⚠ a warning",
            " written, ",
            "█",
        ] {
            assert!(frames.contains(part), "{columns}: {part}\n{frames}");
        }
        // The live view is erased, and each line printed above it remains once.
        assert!(
            !seen.end.contains("running the script") && !seen.end.contains("largest that fits"),
            "{}",
            seen.end
        );
        for part in ["between", "input ≤ 3", "run folder: out"] {
            assert_eq!(seen.end.matches(part).count(), 1, "{columns}: {part}\n{}", seen.end);
        }
        assert!(!seen.raw.contains("[31m"), "colours in spite of NO_COLOR");
        // The cursor must never be hidden.
        assert!(!seen.raw.contains("[?25l"));
    }
}

#[test]
fn a_screen_of_few_rows_is_not_scrolled_away() {
    let seen = on_terminal(60, 4, &[], "for n in 1..4 { print(`line ${n}`); sleep(0.1); }");
    for line in ["line 1", "line 2", "line 3"] {
        let printed = seen.frames.iter().any(|frame| frame.contains(line));
        assert!(printed, "{line}\n{}", seen.raw);
    }
}

#[test]
fn nothing_is_drawn_where_it_would_not_be_understood() {
    for variables in [[("TERM", "dumb"), ("CI", "")], [("CI", "true"), ("TERM", "xterm")]] {
        let seen = on_terminal(80, 40, &variables, POINTS);
        assert!(!seen.raw.contains("\u{1b}["), "{variables:?}: {:?}", seen.raw);
        assert!(seen.raw.contains("[0:00] input=1: ok"), "{}", seen.raw);
    }
}

#[test]
fn a_terminal_that_knows_no_utf8_gets_ascii() {
    let script = POINTS.replace("显存", "memory");
    let seen = on_terminal(80, 40, &[("LC_ALL", "C")], &script);
    assert!(seen.raw.is_ascii(), "{}", seen.raw);
}

#[test]
fn the_headline_is_also_the_last_line_where_the_answer_fills_the_terminal() {
    let search = include_str!("../../scripts/adaptive.rhai");
    let ends_with_headline = |rows| {
        let end = on_terminal(80, rows, &[], search).end;
        end.rfind("input + output ≤") > end.rfind("report:")
    };
    assert!(ends_with_headline(24));
    assert!(!ends_with_headline(100), "the whole answer is in sight");
}
