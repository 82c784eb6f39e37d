//! A user calls `profiler show` on whole runs and gets text that fits the terminal, and tables for other programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use console::measure_text_width;

use crate::compare::markdown::{self, only_folds};
use crate::import::fixture;
use crate::report::unescaped;
use crate::support::{Outcome, Profiler, temp};

const RUNS: [&str; 9] = [
    "transformers-12gib",
    "vllm-breakdown",
    "vllm-concurrency",
    "vllm-concurrency-direct",
    "vllm-cuda-graphs",
    "vllm-longest",
    "vllm-one-gpu",
    "vllm-sweep",
    "vllm-two-gpus",
];

fn folder(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/data/runs", name].iter().collect()
}

fn show(name: &str, option: &str) -> Outcome {
    Profiler::new().arg("show").arg(folder(name)).arg(option).run()
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    for run in RUNS {
        for columns in ["40", "60", "80", "120", "200"] {
            let home = temp();
            let mut command = Command::new("sh");
            command
                .env("HOME", home.path())
                .env("TERM", "xterm")
                .env("LC_ALL", "C.UTF-8")
                .args(["-c", r#"stty cols "$1" rows 50; exec "$0" show "$2""#])
                .args([env!("CARGO_BIN_EXE_profiler"), columns])
                .arg(folder(run));
            let mut session = rexpect::session::spawn_command(command, Some(60_000)).unwrap();
            // rexpect returns each byte as a character.
            let output = session.exp_eof().unwrap();
            let bytes = output.chars().map(|byte| u8::try_from(byte).unwrap());
            let text = String::from_utf8(bytes.collect()).unwrap();
            assert!(text.contains("\nrun") && text.contains("done"), "{text}");
            // Exempt from the width: pictures of the script, command lines to paste, and single words, with or without
            // a label.
            let one_word = |line: &str| line.split_whitespace().count() <= 2;
            let lines = text.lines().filter(|line| !line.contains(" --") && !one_word(line));
            for line in lines.filter(|_| run != "vllm-sweep") {
                let width = measure_text_width(line.trim_end_matches('\r'));
                assert!(width <= columns.parse().unwrap(), "{run} at {columns}: {line}");
            }
        }
    }
}

#[test]
fn memory_over_time_is_a_curve_for_each_device() {
    let two = Profiler::new().arg("show").arg(folder("vllm-two-gpus")).run().success();
    let curves = two.stdout.split("memory over time").nth(1).unwrap();
    assert_eq!(curves.matches(" % of 139.8 GiB").count(), 2, "{curves}");
    assert!(curves.contains("engine-1, GPU 1: peak"), "{curves}");
}

/// The cells of a table without quoting.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(',').collect()).collect()
}

#[test]
fn the_main_table_of_a_run_is_csv() {
    let points = show("vllm-concurrency-direct", "--csv").success();
    let table = rows(&points.stdout);
    assert_eq!(table[0][..4], ["concurrency", "verdict", "cause", "moves"]);
    assert_eq!(table.len(), 1 + 24);
    assert_eq!(table[1].last().unwrap().len(), "2026-11-21T07:30:29.156Z".len());
    let loads = show("vllm-sweep", "--csv").success();
    let table = rows(&loads.stdout);
    assert_eq!(table.len(), 1 + 9, "{}", loads.stdout);
    let throughput = table[0].iter().position(|name| *name == "output_throughput").unwrap();
    assert!(table[1][throughput].starts_with("202.21818782"), "{:?}", table[1]);
    assert!(table[0].contains(&"p99_itl_ms"), "{:?}", table[0]);
    let _ = show("vllm-cuda-graphs", "--csv")
        .success()
        .stdout("experiment,figure,unit,setting,starts,mean");
    let _ = show("vllm-breakdown", "--csv")
        .success()
        .stdout("breakdown,device,component,within,bytes")
        .stdout(",weights,,14");
}

#[test]
fn a_table_is_chosen_by_its_name() {
    let kept = show("vllm-sweep", "--csv=tables/throughput").success();
    let own = std::fs::read_to_string(folder("vllm-sweep").join("tables/throughput.csv")).unwrap();
    assert_eq!(kept.stdout.trim_end(), own.trim_end());
    let _ = show("vllm-sweep", "--csv=points")
        .code(2)
        .stderr("no table `points`")
        .stderr("it has `loads`, `frontier`, `tables/throughput`");
    let kept = Profiler::new()
        .file(
            "s.rhai",
            r#"keep_table("levels", ["level", "note"], [#{ level: 1 }, #{ level: 8, note: "slow" }])"#,
        )
        .args(["run", "s.rhai", "--out", "out"])
        .run()
        .success();
    let again = Profiler::new().current_dir(kept.folder()).args(["show", "out"]).run();
    let _ = again.success().stdout("\n  tables/levels.csv\n");
    let page = std::fs::read_to_string(kept.folder().join("out/report.html")).unwrap();
    assert!(
        page.contains("<summary>tables&#x2f;levels.csv") && page.contains(">slow<"),
        "{page}"
    );
    let nothing = Profiler::new()
        .file("s.rhai", "1")
        .args(["run", "s.rhai", "--out", "out"])
        .run()
        .success();
    let _ = Profiler::new()
        .args(["show", "--csv"])
        .arg(nothing.folder().join("out"))
        .run()
        .code(1)
        .stderr("this run has no table");
}

#[test]
fn the_document_holds_what_was_measured() {
    let points = show("vllm-longest", "--json").success().json();
    assert_eq!(
        points["boundaries"][0]["points"].as_array().unwrap().len(),
        show("vllm-longest", "--csv").stdout.lines().count() - 1
    );
    assert_eq!(points["status"], "done");
    assert_eq!(
        show("vllm-sweep", "--json").json()["loads"].as_array().unwrap().len(),
        9
    );
    let graphs = show("vllm-cuda-graphs", "--json").json();
    assert_eq!(
        graphs["experiments"].as_object().unwrap().len(),
        1,
        "{}",
        graphs["experiments"]
    );
}

#[test]
fn the_page_of_the_run_is_named_or_how_to_make_it() {
    let run = Profiler::new()
        .file("s.rhai", "1")
        .args(["run", "s.rhai", "--out", "out"])
        .run()
        .success();
    let show = |option: &[&str]| {
        let profiler = Profiler::new().current_dir(run.folder()).args(["show", "out"]);
        profiler.args(option).run().success()
    };
    let _ = show(&[]).stdout("report: out/report.html\n");
    assert_eq!(show(&["--json"]).json()["html"], "out/report.html");
    std::fs::remove_file(run.folder().join("out/report.html")).unwrap();
    let _ = show(&[]).stdout("report: none yet; profiler report out makes it\n");
    assert!(show(&["--json"]).json()["html"].is_null());
}

#[test]
fn warnings_of_one_kind_are_one_line_and_each_is_in_the_document_and_on_the_page() {
    let run = folder("vllm-cuda-graphs");
    let outcome = Profiler::new().arg("show").arg(&run).run().success();
    assert_eq!(
        outcome.stdout.matches("token counts disagree").count(),
        1,
        "{}",
        outcome.stdout
    );
    let outcome = outcome
        .stdout("token counts disagree by ")
        .stdout("(one of 4 such warnings, in 6 loads)");
    let warnings = show("vllm-cuda-graphs", "--json").success().json()["warnings"].clone();
    assert_eq!(warnings.as_array().unwrap().len(), 4);
    let page = outcome.folder().join("page.html");
    let _ = Profiler::new()
        .arg("report")
        .arg(&run)
        .arg("--html")
        .arg(&page)
        .run()
        .success();
    let html = std::fs::read_to_string(page).unwrap();
    let list = &html[html.find("What to know first").unwrap()..];
    let list = &list[..list.find("</section>").unwrap()];
    assert_eq!(list.matches("<li>").count(), 1, "{list}");
    for figure in ["8.7 %", "15.5 %", "22.6 %"] {
        assert!(
            html.contains(&format!("token counts disagree by {figure}: the engine")),
            "{figure}"
        );
    }
}

/// The first heading of a run's page.
fn page_heading(folder: &Path) -> String {
    let page = Profiler::new()
        .arg("report")
        .arg(folder)
        .args(["--html", "page.html"])
        .run()
        .success();
    let html = std::fs::read_to_string(page.folder().join("page.html")).unwrap();
    let (_, rest) = html.split_once("<h1>").unwrap();
    unescaped(rest.split_once("</h1>").unwrap().0)
}

#[track_caller]
fn shown_as_markdown(folder: &Path) -> (String, markdown::Page) {
    let shown = Profiler::new()
        .arg("show")
        .arg(folder)
        .arg("--markdown")
        .run()
        .success();
    let page = markdown::read(&shown.stdout);
    only_folds(&page);
    assert!(shown.stdout.len() < 65_000);
    (shown.stdout, page)
}

#[test]
fn every_run_is_markdown_that_begins_with_its_answer() {
    let runs = [env!("CARGO_MANIFEST_DIR"), "tests/data/runs"]
        .iter()
        .collect::<PathBuf>();
    for run in std::fs::read_dir(runs).unwrap() {
        let run = run.unwrap().path();
        let (text, page) = shown_as_markdown(&run);
        assert!(text.starts_with("## "), "{text}");
        assert_eq!(page.headings[0], page_heading(&run), "{}", run.display());
        assert!(
            page.headings.contains(&"What was run".to_owned()),
            "{:?}",
            page.headings
        );
        assert!(text.contains("**to repeat it**"), "{text}");
    }
    let (text, page) = shown_as_markdown(&folder("vllm-concurrency"));
    assert!(text.contains("concurrency ≤ 29") && text.contains("█"), "{text}");
    assert!(
        page.html
            .iter()
            .any(|html| html.contains("Largest concurrency that fits")),
        "{:?}",
        page.html
    );
    assert!(
        page.tables.iter().any(|rows| rows[0].contains(&"verdict".to_owned())),
        "every probe is there"
    );
}

#[test]
fn a_run_that_was_cut_off_is_markdown_that_says_so_first() {
    let home = temp();
    let run = home.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let whole = folder("vllm-concurrency");
    let journal = std::fs::read(whole.join("journal.jsonl")).unwrap();
    std::fs::write(run.join("journal.jsonl"), &journal[..journal.len() / 2]).unwrap();
    let (text, page) = shown_as_markdown(&run);
    assert!(
        page.headings[0].starts_with("Unfinished: undecided: concurrency="),
        "{text}"
    );
    let warning = text.lines().nth(2).unwrap();
    assert!(warning.starts_with("> **This run"), "{text}");
    assert!(text.contains("> **Missing: "), "{text}");
}

#[test]
fn what_a_run_says_is_text_in_markdown_and_nothing_else() {
    let script = r#"
        let evil = "</summary><img src=x onerror=alert(1)>\n```\n## no";
        warn(evil);
        warn("at http://me:passphrase@127.0.0.1/");
        record(evil, evil);
        let map = boundary(#{ input: [1, 100] }, #{});
        map.record(#{ input: 10 }, "ok");
        map.record(#{ input: 50 }, #{ verdict: "oom", cause: evil, evidence: #{ log: [evil], message: evil } });
        report(map);
        show(#{ value: evil }, evil);
        throw evil;
    "#;
    let name = "<img src=x>.rhai";
    let run = Profiler::new()
        .file(name, script)
        .args(["run", name, "--out", "out"])
        .run();
    let (text, page) = shown_as_markdown(&run.folder().join("out"));
    assert!(text.contains("&lt;img src=x"), "{text}");
    assert!(!text.contains("passphrase"), "{text}");
    assert!(
        page.headings.iter().all(|heading| heading != "no"),
        "{:?}",
        page.headings
    );
}

#[test]
fn a_file_of_another_tool_is_markdown_too() {
    let file = fixture("llm-sizer-3.0.json");
    let shown = Profiler::new().args(["show", &file, "--markdown"]).run().success();
    let page = markdown::read(&shown.stdout);
    only_folds(&page);
    assert!(page.headings[0].ends_with("llm-sizer profile"), "{:?}", page.headings);
    let weights = |rows: &Vec<Vec<String>>| rows.iter().any(|row| row[0] == "weights" && row[1] == "14.99");
    assert!(page.tables.iter().any(weights), "{}", shown.stdout);
}
