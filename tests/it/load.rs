//! A user's script puts loads on a simulated engine, over real sockets: arrivals, the end of a load, the account of
//! every request, and access to files.

mod accounts;
mod arrivals;
mod cut;
mod dead;
mod ends;
mod faults;
mod files;
mod misdeeds;
mod raw;

use std::path::Path;

use serde_json::Value;

use crate::support::{Outcome, Profiler};

/// The answer to a load, and its records.
struct Loaded {
    answer: Value,
    records: Vec<Value>,
    /// The records of the repeats after the first.
    repeats: Vec<Vec<Value>>,
    outcome: Outcome,
}

impl Loaded {
    /// The records without the warm-up, in the order of issue.
    fn measured(&self) -> impl Iterator<Item = &Value> {
        self.records.iter().filter(|record| record["warmup"] == false)
    }

    /// This number of each record of the measured part.
    fn numbers(&self, key: &str) -> Vec<f64> {
        self.measured().map(|record| record[key].as_f64().unwrap()).collect()
    }

    /// The issued, completed, failed and cut-off requests of the answer.
    fn counts(&self) -> [u64; 4] {
        ["issued", "completed", "failed", "cut_off"].map(|key| self.answer[key].as_u64().unwrap())
    }
}

/// A script that puts one load on a simulated engine with these launch options and load options.
fn script(launch: &str, load: &str) -> String {
    format!(
        "import \"std/engines\" as engines;\nlet engine = engines::describe(\"sim\", #{{ {launch} }});\nengine.load(#{{ {load} }})"
    )
}

/// Runs that script.
#[track_caller]
fn loaded(launch: &str, load: &str) -> Loaded {
    finished(Profiler::new().file("main.rhai", script(launch, load)), &[])
}

/// Runs `main.rhai` to its end, and reads the records of its first load.
#[track_caller]
fn finished(program: Profiler, args: &[&str]) -> Loaded {
    let run = program.args(["run", "main.rhai", "--out", "run", "--json", "--seed", "7"]);
    let outcome = run.args(args).run().success();
    let mut all = records(&outcome.folder().join("run/loads/1.jsonl"))
        .into_iter()
        .peekable();
    let mut repeats = Vec::new();
    for number in 1.. {
        let repeat: Vec<Value> = std::iter::from_fn(|| all.next_if(|record| record["repeat"] == number)).collect();
        repeats.push(repeat);
        if all.peek().is_none() {
            break;
        }
    }
    Loaded {
        answer: outcome.json()["result"].clone(),
        records: repeats.remove(0),
        repeats,
        outcome,
    }
}

/// The records of a file in the order of issue, repeat by repeat.
#[track_caller]
fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.sort_by_key(|record| (record["repeat"].as_u64(), record["index"].as_u64()));
    records
}

/// Launch options of an engine that answers at once.
const FAST: &str = "sim: #{ time_scale: 0.0 }";

/// Launch options of an engine that takes about a millisecond per token, and two seconds to start.
const SLOW: &str = "sim: #{ time_scale: 0.05 }";
