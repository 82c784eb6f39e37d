//! A user asks what speed for each user costs in throughput of each GPU, over runs of several engines.

use std::fs;
use std::path::{Path, PathBuf};

use super::tune::{NARROW, tune};
use crate::report::unescaped;
use crate::support::Profiler;

fn recorded(run: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs").join(run)
}

/// The rows of `--csv=frontier` as maps.
fn rows(folder: &Path) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let show = Profiler::new()
        .args(["show", "--csv=frontier"])
        .arg(folder)
        .run()
        .success();
    let mut reader = csv::Reader::from_reader(show.stdout.as_bytes());
    reader.deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn two_engines_are_one_picture_in_terminal_page_and_csv() {
    let runs = ["vllm-sweep", "sglang-sweep"].map(recorded);
    let compare = || Profiler::new().arg("compare").args(&runs);
    let text = compare().run().success();
    let picture = text.stdout.split("Tokens/s per user").nth(1).unwrap();
    assert!(picture.contains("dominated") && picture.contains("[2]"), "{picture}");
    let document = compare().arg("--json").run().success().json();
    let points = document["inputs"][0]["serving"].as_array().unwrap();
    assert_eq!(points.len(), 9, "{document}");
    let last = &points[8];
    assert_eq!(last["concurrency"], 256.0, "{last}");
    // Nobody said how many GPUs the server has that was running before.
    assert!(last["gpus"].is_null() && last["per_gpu"].is_null(), "{last}");
    assert!(last["cost"].as_f64() > Some(0.0), "{last}");

    let report = Profiler::new().arg("report").args(&runs).run().success();
    let page = unescaped(&fs::read_to_string(report.folder().join("report.html")).unwrap());
    assert!(page.contains("together-serving-frontier"), "the picture of both runs");
    // The tooltip of a point has the command that measures it again.
    let command = last["command"].as_str().unwrap();
    assert!(page.contains(command), "{command}");

    let rows = rows(&runs[0]);
    assert_eq!(rows.len(), 9);
    // Of concurrencies that all make output cheaper, none is dominated but the last, which gains nothing.
    let beaten: Vec<bool> = rows
        .iter()
        .map(|row| row["dominated"] == "true" || row["dominated"] == true)
        .collect();
    assert_eq!(
        beaten,
        [false, false, false, false, false, false, false, false, true],
        "{beaten:?}"
    );
}

#[test]
fn a_tuned_run_shows_what_it_chose_the_defaults_and_what_it_only_forecast() {
    let mut sets = NARROW.to_vec();
    sets[2] = r#"space={"cuda_graphs":[true,false],"max_num_seqs":[32,64]}"#;
    sets.extend(["price_per_hour=2", "starts=2"]);
    let run = tune(&sets, 64).run().success();
    let rows = rows(&run.folder().join("killed"));
    let of = |column: &str, value: &str| rows.iter().filter(move |row| row[column] == value).collect::<Vec<_>>();
    assert!(rows.iter().all(|row| row["gpus"] == 1), "{rows:?}");
    let chosen = of("role", "chosen");
    assert_eq!(chosen.len(), 1, "{rows:?}");
    assert_eq!(chosen[0]["settings"], "the defaults");
    assert!(
        !of("origin", "simulated").is_empty() && !of("origin", "forecast").is_empty(),
        "{rows:?}"
    );
    // A forecast too has a command that would measure it.
    for row in of("origin", "forecast") {
        let command = row["command"].as_str().unwrap();
        assert!(
            command.contains("--cuda-graphs") || command.contains("max_num_seqs"),
            "{row:?}"
        );
    }
    // The command of a point is one.
    let command = chosen[0]["command"]
        .as_str()
        .unwrap()
        .replace("slow.toml", "llama-8b-24gb-vllm");
    let words: Vec<String> = shlex(&command);
    let again = Profiler::new().args(&words[1..]).arg("--dry-run").run();
    assert_eq!(again.code, Some(0), "{command}: {}", again.stderr);
}

/// The words of a command as a shell reads them.
fn shlex(command: &str) -> Vec<String> {
    let printed = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("printf '%s\\n' {command}"))
        .output()
        .unwrap();
    String::from_utf8(printed.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}
