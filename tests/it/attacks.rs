//! What broke the program when it was attacked (`tests/data/attacks`): each try again.

use std::path::PathBuf;

use crate::support::Profiler;

fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/data/attacks", name]
        .iter()
        .collect()
}

/// What a terminal would obey: escape sequences and other control characters, one byte or two.
fn commands(text: &str) -> String {
    let obeyed = |letter: &char| letter.is_control() && *letter != '\n' && *letter != '\t';
    text.chars().filter(obeyed).collect()
}

#[test]
fn no_control_sequence_of_a_script_reaches_the_terminal_or_the_page() {
    for name in ["print", "warn", "show", "fault", "axis", "table", "progress"] {
        let outcome = Profiler::new()
            .args(["run", "--out", "run"])
            .arg(script(&format!("ansi_{name}.rhai")))
            .run();
        assert!(
            outcome.stdout.contains("RED") || outcome.stderr.contains("RED"),
            "{name}: {}{}",
            outcome.stdout,
            outcome.stderr
        );
        for text in [&outcome.stdout, &outcome.stderr] {
            assert_eq!(commands(text), "", "{name}: {text:?}");
        }
        for view in [
            &["show", "run"][..],
            &["show", "--markdown", "run"],
            &["report", "run", "--html", "page.html"],
        ] {
            let again = Profiler::new().current_dir(outcome.folder()).args(view).run();
            assert_eq!(commands(&again.stdout), "", "{name}, {view:?}: {:?}", again.stdout);
        }
        let page = std::fs::read_to_string(outcome.folder().join("page.html"));
        assert!(page.is_ok() || name == "fault", "{name}");
        assert_eq!(commands(&page.unwrap_or_default()), "", "{name}");
    }
    for name in ["help", "param"] {
        let file = script(&format!("ansi_{name}.rhai"));
        let help = Profiler::new().arg("run").arg(file).arg("--help").run().success();
        assert_eq!(commands(&help.stdout), "", "{name}: {:?}", help.stdout);
    }
}

/// Where colours are wanted, only they are left.
#[test]
fn colours_are_all_that_a_script_can_send_to_a_terminal() {
    let colours = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    for name in ["print", "show", "axis", "fault"] {
        let outcome = Profiler::new()
            .args(["--color", "always", "run"])
            .arg(script(&format!("ansi_{name}.rhai")))
            .run();
        for text in [&outcome.stdout, &outcome.stderr] {
            assert_eq!(commands(&colours.replace_all(text, "")), "", "{name}: {text:?}");
        }
    }
}

/// The texts of all files below a folder.
fn everything(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        text += &match path.is_dir() {
            true => everything(&path),
            false => String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
        };
    }
    text
}

#[test]
fn no_secret_of_the_environment_stays_in_a_run_folder() {
    let secrets = [
        ("HF_TOKEN", "hf_TEST99"),
        ("MY_PASSWD", "hunter2hunter2"),
        ("GITHUB_PAT", "ghp_abcdefgh12345"),
        ("MY_PASSWORD", "pa\"ss\\word-long"),
        ("DATABASE_URL", "postgres://u:dbpassw0rd@h/db"),
    ];
    for (name, permits) in [
        ("sec_proc_log", "process,token"),
        ("sec_otherenv", "process"),
        ("sec_quote", "process"),
    ] {
        let mut program = Profiler::new();
        for (name, value) in secrets {
            program = program.env(name, value);
        }
        let outcome = program
            .args(["run", "--allow", permits, "--out", "run"])
            .arg(script(&format!("{name}.rhai")))
            .run()
            .success();
        // The script is kept as it is: its hash says what was run.
        std::fs::remove_file(outcome.folder().join("run/script.rhai")).unwrap();
        let kept = everything(&outcome.folder().join("run"));
        for text in [&kept, &outcome.stdout, &outcome.stderr] {
            for secret in ["hf_TEST99", "hunter2", "ghp_", "word-long", "dbpassw0rd"] {
                assert!(!text.contains(secret), "{name}: {secret}");
            }
        }
        assert!(kept.contains("***"), "{name}: something was hidden");
    }
}

/// Numbers and words of the format are no secrets, whatever variable holds them.
#[test]
fn hiding_secrets_destroys_no_journal() {
    for (name, script_name) in [("MAX_TOKENS", "sec_digits"), ("MY_PASSWORD", "sec_word")] {
        let value = if name == "MAX_TOKENS" { "12345678" } else { "boundary" };
        let outcome = Profiler::new()
            .env(name, value)
            .args(["run", "--out", "run"])
            .arg(script(&format!("{script_name}.rhai")))
            .run()
            .success();
        let shown = Profiler::new()
            .current_dir(outcome.folder())
            .env(name, value)
            .args(["show", "run"])
            .run()
            .success();
        let _ = shown.stdout("undecided").nowhere("***");
    }
}
