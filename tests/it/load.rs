//! Loads on the simulated engine, over real sockets: when requests come, when it ends, what is accounted for, what files may be read.

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

/// One load of a script, and the records that it left.
struct Loaded {
    answer: Value,
    records: Vec<Value>,
    /// Those of the repeats after the first.
    repeats: Vec<Vec<Value>>,
    outcome: Outcome,
}

impl Loaded {
    /// The records of the measured part, in the order of issue.
    fn measured(&self) -> impl Iterator<Item = &Value> {
        self.records.iter().filter(|record| record["warmup"] == false)
    }

    /// A number of each record of the measured part.
    fn numbers(&self, key: &str) -> Vec<f64> {
        self.measured().map(|record| record[key].as_f64().unwrap()).collect()
    }

    /// The counts of the answer: issued, completed, failed, cut off.
    fn counts(&self) -> [u64; 4] {
        ["issued", "completed", "failed", "cut_off"].map(|key| self.answer[key].as_u64().unwrap())
    }
}

/// A script that puts one load on a simulated engine: launch options, and options of the load.
fn script(launch: &str, load: &str) -> String {
    format!(
        "import \"std/engines\" as engines;\nlet engine = engines::launch(\"sim\", #{{ {launch} }});\nengine.load(#{{ {load} }})"
    )
}

/// Runs it.
#[track_caller]
fn loaded(launch: &str, load: &str) -> Loaded {
    finished(Profiler::new().file("main.rhai", script(launch, load)), &[])
}

/// Runs `main.rhai` to its end.
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

/// The records of a file in the order of issue, repeat after repeat.
#[track_caller]
fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.sort_by_key(|record| (record["repeat"].as_u64(), record["index"].as_u64()));
    records
}

/// An engine that answers at once.
const FAST: &str = "sim: #{ time_scale: 0.0 }";

/// An engine that takes a millisecond or so for a token, and two seconds to start.
const SLOW: &str = "sim: #{ time_scale: 0.05 }";
