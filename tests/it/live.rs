//! What is seen while a run goes on: lines where nobody looks on, a live view on a terminal.

use rexpect::session::spawn_command;

use crate::support::{Profiler, temp};

const POINTS: &str = r#"
    let map = boundary(#{ input: [1, 9] }, #{});
    for n in 1..5 { map.record(#{ input: n }, if n < 4 { "ok" } else { "oom" }); map.progress(n, 0.9); sleep(0.2); }
    print("between");
    report(map)
"#;

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
        outcome.stdout.starts_with("between\nboundary over input: 4 points"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.is_ascii(), "no locale says that more can be shown");
}

#[test]
fn a_live_view_on_a_terminal() {
    let folder = temp();
    std::fs::write(folder.path().join("s.rhai"), POINTS).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_profiler"));
    command
        .current_dir(folder.path())
        .env("TERM", "xterm")
        .env("LC_ALL", "C.UTF-8")
        .env("NO_COLOR", "1")
        .args(["run", "s.rhai"]);
    let mut session = spawn_command(command, Some(10_000)).unwrap();
    session
        .exp_regex(r"of about [0-9]+ points|[0-9] points?: [0-9] fit")
        .unwrap();
    session.exp_string("between").unwrap();
    session.exp_string("recommended: input=").unwrap();
    let rest = session.exp_eof().unwrap();
    assert!(!rest.contains("[31m"), "colours in spite of NO_COLOR: {rest}");
}
