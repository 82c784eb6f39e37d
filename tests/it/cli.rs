//! A user calls commands: here the whole command line runs more than once in this process.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

/// In a process of its own: a script is stopped if its process holds much, and this one runs many tests.
#[test]
fn the_program_can_be_called_in_process_and_again() {
    let own = std::env::current_exe().unwrap();
    let name = "cli::it_is_called_in_this_process_and_again";
    let ran = Command::new(own)
        .args(["--exact", name, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by the test above"]
fn it_is_called_in_this_process_and_again() {
    let folder = crate::support::temp();
    let script = folder.path().join("s.rhai");
    std::fs::write(&script, "40 + 2").unwrap();
    let out = folder.path().join("out");
    let args = || -> [OsString; 6] {
        [
            "profiler".into(),
            "run".into(),
            (&script).into(),
            "--out".into(),
            (&out).into(),
            "--force-new".into(),
        ]
    };
    for _ in 0..2 {
        let code = profiler::cli::main(args());
        // `ExitCode` implements no comparison.
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    }
    assert!(out.is_dir() && folder.path().join("out-2").is_dir());
}
