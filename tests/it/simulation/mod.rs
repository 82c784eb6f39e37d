//! A user's whole runs on simulated machines: the real script, search, probe, lifecycle, protocol and journal code,
//! with engines inside the process. Time, disk and network fail together by a seed. A machine dies at any change of its
//! disk, and the run is resumed from the remaining files.
//!
//! `PROFILER_TEST_SEED=17 cargo test --test it simulation::` repeats one seed; `PROFILER_TEST_SEEDS=10000` sets the
//! number of seeds.

mod chance;
mod disk;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use profiler::boundary::Point;
use profiler::fault::{Fault, Kind};
use profiler::run::{Event, RecordedRun, Run, RunPlan, RunStatus, Script};
use profiler::runtime::Permits;
use profiler::script::{self, Host, Main, Settings};
use profiler::task::Tasks;
use profiler::world;
use serde_json::{Value, json};

use chance::Chance;
use machine::{Faults, Machine};

/// Counters: machine deaths, truncated journals, and journals with a flipped bit.
static DEATHS: AtomicU64 = AtomicU64::new(0);
static CUTS: AtomicU64 = AtomicU64::new(0);
static FLIPS: AtomicU64 = AtomicU64::new(0);

/// Number of executions with faults; the next one has none.
const EXECUTIONS: u64 = 3;

/// Finds the longest input for two outputs.
const BISECTION: &str = r#"
    for output in [4, 16] {
        let range = [16, 2048];
        while range[1] - range[0] > 64 {
            let point = #{ input: (range[0] + range[1]) / 2, output: output };
            if map.classify(point) == "unknown" && !map.recorded(point) { map.record(point, engine.probe(point)); }
            range[if map.classify(point) == "fits" { 0 } else { 1 }] = point.input;
        }
    }"#;

/// The case derived from one seed.
struct Case {
    seed: u64,
    script: String,
    chance: Chance,
    network: bool,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 1);
        let share = 0.661 + chance.below(6) as f64 / 1000.0;
        let network = chance.one_in(3);
        let misbehave = match chance.below(if network { 6 } else { 1 }) {
            1 => "die_mid_stream: 2, after: 3, every: 4",
            2 => "hang: 1, after: 2, every: 5",
            3 => "refuse_429: 2",
            4 => "break_off: 1, after: 1, every: 3",
            _ => "",
        };
        // Most cases use a simple search, because `std/search` and its report take longer to compute than the machines
        // to run.
        let (search, result) = match chance.one_in(8) {
            true => (
                "search::adaptive(map, |p| engine.probe(p), #{ coverage: 0.7 });",
                "report(map)",
            ),
            false => (BISECTION, "#{ frontier: map.frontier() }"),
        };
        let script = format!(
            r#"
            import "std/engines" as engines;
            import "std/search" as search;
            let sim = #{{ time_scale: 0.1, gpu_memory_utilization: {share:?}, misbehave: #{{ {misbehave} }} }};
            let engine = engines::describe("sim", #{{ runtime: "sim", sim: sim }});
            let map = boundary(#{{ input: [16, 2048], output: [4, 16] }}, #{{}});
            {search}
            {result}
            "#
        );
        Self {
            seed,
            script,
            chance,
            network,
        }
    }

    /// `changes` are the disk changes of an undisturbed run.
    fn faults(&mut self, execution: u64, changes: &[PathBuf]) -> Faults {
        let chance = &mut self.chance;
        if execution >= EXECUTIONS {
            return Faults::default();
        }
        let number = changes.len() as u64;
        // Most changes append to one log. Changes between two files, and at the end, must be as likely.
        let between: Vec<u64> = (1..number)
            .filter(|at| changes[*at as usize] != changes[*at as usize - 1])
            .collect();
        let at = |chance: &mut Chance| match chance.below(3) {
            0 => Some(1 + between[chance.below(between.len() as u64) as usize]),
            1 => Some(number - chance.below(16)),
            _ => Some(1 + chance.below(number)),
        };
        Faults {
            dies_at: at(chance).filter(|_| !chance.one_in(4)),
            power: !chance.one_in(3),
            disk_fails_at: at(chance).filter(|_| chance.one_in(4)),
            bad_requests: Some(5 + chance.below(40)).filter(|_| self.network),
            busy_port: Some(1).filter(|_| chance.one_in(10)),
        }
    }
}

/// Answers and warnings seen before the machine died.
#[derive(Default)]
struct Told {
    answers: Vec<(String, String)>,
    warnings: Vec<String>,
}

/// The outcome of one execution.
struct Ended {
    machine: Arc<Machine>,
    told: Told,
    result: Result<Value, Fault>,
}

fn execute(case: &Case, root: &Path, machine: &Arc<Machine>) -> Ended {
    let told = Arc::new(Mutex::new(Told::default()));
    let world: Arc<dyn world::World> = Arc::clone(machine) as _;
    let result = world::within(Some(world), || run(case, root, machine, &told));
    let told = std::mem::take(&mut *told.lock().unwrap());
    Ended {
        machine: Arc::clone(machine),
        told,
        result,
    }
}

/// Follows `profiler run`.
fn run(case: &Case, root: &Path, machine: &Arc<Machine>, told: &Arc<Mutex<Told>>) -> Result<Value, Fault> {
    let main = Main::open(&root.join("../simulated.rhai"))?;
    let plan = RunPlan {
        script: Script {
            name: "simulated".into(),
            path: "simulated.rhai".into(),
            sha256: main.source.sha256.clone(),
        },
        text: main.source.text.to_string(),
        seed: Some(case.seed),
        ..RunPlan::default()
    };
    let out = root.join("out");
    let (run, warnings) = match out.join("manifest.json").exists() {
        true => {
            let found = RecordedRun::read_intact(&out)?;
            found.manifest.check(&plan, |name| script::module_hash(&main, name))?;
            if found.complete() {
                return Ok(found.document()["result"].clone());
            }
            Run::resume(&out, &plan)?
        }
        // The folder is not a run yet.
        false => {
            let _ = fs::remove_dir_all(&out);
            Run::create(&plan, Some(&out), false)?
        }
    };
    told.lock()
        .unwrap()
        .warnings
        .extend(warnings.into_iter().map(|warning| warning.message));
    // A weak reference, because tasks of the machine hold the run.
    let (told, listening) = (Arc::clone(told), Arc::downgrade(machine));
    run.listen(Box::new(move |event| {
        let mut told = told.lock().unwrap();
        match event {
            Event::Done { args, operation, .. } if listening.upgrade().is_some_and(|machine| !machine.is_dead()) => {
                // Parsed again, as from the journal, because numbers lose their last digit.
                let read: Value = serde_json::from_str(&json!(operation)["answer"].to_string()).unwrap();
                told.answers.push((args.to_string(), read.to_string()));
            }
            Event::Warning(warning) => told.warnings.push(warning.message.clone()),
            _ => {}
        }
    }));
    let settings = Settings {
        script: root.join("../simulated.rhai"),
        seed: case.seed,
        max_memory: Some(u64::MAX),
        ..Settings::default()
    };
    let tasks = Tasks::new(world::current().unwrap().runtime().handle().clone());
    let host = Arc::new(Host::new(
        tasks,
        Arc::new(run),
        Permits::default(),
        Arc::default(),
        settings,
    ));
    let ended = script::run(&host, &main);
    let stopped = host
        .tasks
        .finish(host.services.stop_all(std::time::Duration::from_secs(10)));
    let ended = match ended {
        Ok(value) => host
            .run
            .end(RunStatus::Done, value)
            .map(|document| document["result"].clone()),
        Err(diagnostic) => {
            let mut fault = diagnostic.fault.clone();
            let document = json!({ "kind": fault.kind.name(), "message": fault.message });
            // The program would print both errors.
            if let Err(also) = host.run.end(RunStatus::Failed, document) {
                fault.message = format!("{}; {}", fault.message, also.message);
            }
            Err(fault)
        }
    };
    ended.and_then(|value| stopped.map(|()| value))
}

fn events(journal: &Path) -> Vec<Value> {
    parsed(&fs::read(journal).unwrap_or_default())
}

fn parsed(journal: &[u8]) -> Vec<Value> {
    let lines = journal.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Points, and whether they are reported to fit.
fn points(events: &[Value]) -> Vec<(Point, bool)> {
    let moving = |event: &&Value| event["event"] == "point" && (event["moves"] == "fits" || event["moves"] == "fails");
    let point = |event: &Value| {
        (
            serde_json::from_value(event["point"].clone()).unwrap(),
            event["moves"] == "fits",
        )
    };
    events.iter().filter(moving).map(point).collect()
}

/// The answers in a journal.
fn answers(events: &[Value]) -> BTreeSet<(String, String)> {
    let done = events.iter().filter(|event| event["event"] == "done");
    done.map(|event| (event["args"].to_string(), event["answer"].to_string()))
        .collect()
}

/// Truncates a journal anywhere, or flips one bit. Removes the answers after that place from `told`. Returns true if
/// the next execution must report it: a kill can also leave a truncated journal or a damaged last line.
fn damage(journal: &Path, chance: &mut Chance, told: &mut BTreeSet<(String, String)>) -> bool {
    let mut bytes = fs::read(journal).unwrap_or_default();
    let at = usize::try_from(chance.below(bytes.len() as u64)).unwrap();
    let later_lines = bytes.iter().skip(at + 1).filter(|byte| **byte == b'\n').count();
    let is_cut = chance.one_in(6);
    let intact = bytes[..at]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let kept = answers(&parsed(&bytes[..intact]));
    told.retain(|answer| kept.contains(answer));
    if is_cut {
        bytes.truncate(at);
    } else if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << chance.below(8);
    }
    let _ = fs::write(journal, &bytes);
    let counter = if is_cut { &CUTS } else { &FLIPS };
    counter.fetch_add(1, Ordering::Relaxed);
    later_lines > 1 && !is_cut
}

/// Runs one seed to the end and returns the journal.
fn simulate(seed: u64) -> Vec<u8> {
    let folder = machine::folder().join(format!("seed-{seed}"));
    let root = folder.join("disk");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&root).unwrap();
    let mut case = Case::new(seed);
    fs::write(folder.join("simulated.rhai"), &case.script).unwrap();
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let out = root.join("out");
    let journal = out.join("journal.jsonl");

    // The result of an undisturbed machine is the truth.
    let quiet = Case {
        script: case.script.clone(),
        chance: case.chance.clone(),
        ..case
    };
    let whole = execute(&quiet, &root, &Machine::new(&root, start, seed, 0, Faults::default()));
    let changes = whole.machine.changes();
    let expected = whole
        .result
        .clone()
        .unwrap_or_else(|fault| panic!("seed {seed}: undisturbed: {fault}"));
    let truth = points(&events(&journal));
    let asked: BTreeMap<String, usize> = count(&events(&journal));
    whole.machine.leave(&root);
    fs::remove_dir_all(&out).unwrap();

    let mut told = BTreeSet::new();
    let (mut damaged, mut must_say_so) = (false, false);
    for execution in 1.. {
        let what = format!("seed {seed}, execution {execution}");
        let faults = case.faults(execution, &changes);
        let machine = Machine::new(
            &root,
            start + jiff::Span::new().hours(i64::try_from(execution).unwrap()),
            seed,
            execution,
            faults.clone(),
        );
        let ended = execute(&case, &root, &machine);
        machine.leave(&root);
        told.extend(ended.told.answers.iter().cloned());
        let found = events(&journal);
        let lost: Vec<_> = told.difference(&answers(&found)).cloned().collect();
        assert!(lost.is_empty(), "{what}: {faults:?}: lost: {lost:?}");
        if !told.is_empty() {
            let read = RecordedRun::read_intact(&out)
                .unwrap_or_else(|fault| panic!("{what}: {faults:?}: cannot be resumed: {fault}"));
            let changed = read.missing.iter().find(|note| note.contains("was changed after"));
            assert!(changed.is_none() || damaged, "{what}: {faults:?}: {changed:?}");
        }
        // The manifest says that a run ended only if the journal does.
        if let Ok(read) = RecordedRun::read(&out) {
            assert!(!read.ends_early || damaged, "{what}: {faults:?}: {:?}", read.missing);
        }
        for (point, fits) in points(&found) {
            let against = truth
                .iter()
                .find(|(other, other_fits)| fits != *other_fits && contradict(&point, fits, other));
            assert!(
                against.is_none(),
                "{what}: {faults:?}: {point} fits: {fits}, against {against:?}"
            );
        }
        if let (Some(path), false) = (machine.disk_failed(), machine.is_dead()) {
            let mut told = ended.told.warnings.clone();
            told.extend(ended.result.as_ref().err().map(|fault| fault.message.clone()));
            let name = path.strip_prefix(&out).unwrap_or(&path).display().to_string();
            let tells =
                |text: &String| text.contains("the disk failed") && text.contains(name.trim_end_matches(".new"));
            assert!(
                told.iter().any(tells),
                "{what}: {faults:?}: {name} is not told: {told:?}"
            );
        }
        match &ended.result {
            _ if machine.is_dead() => drop(DEATHS.fetch_add(1, Ordering::Relaxed)),
            Ok(result) => {
                let said = |text: &String| text.contains("was changed after it was written");
                assert!(
                    !must_say_so || ended.told.warnings.iter().any(said),
                    "{what}: {faults:?}: a changed journal is not told: {:?}",
                    ended.told.warnings
                );
                if !case.network {
                    assert_eq!(found_of(result), found_of(&expected), "{what}: {faults:?}");
                    for (args, times) in count(&found) {
                        assert!(
                            times <= asked.get(&args).copied().unwrap_or(0),
                            "{what}: {faults:?}: {times} times: {args}"
                        );
                    }
                }
                break;
            }
            Err(fault) => {
                assert!(execution < EXECUTIONS, "{what}: without a fault: {fault}");
                assert!(
                    !fault.message.is_empty() && fault.kind != Kind::Internal,
                    "{what}: {faults:?}: {fault}"
                );
            }
        }
        assert!(execution < EXECUTIONS, "{what}: no end");
        let is_hit = case.chance.one_in(3);
        must_say_so = is_hit && damage(&journal, &mut case.chance, &mut told);
        damaged |= is_hit;
    }
    let bytes = fs::read(&journal).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    bytes
}

/// The parts of a result that describe the engine. The rest depends on time and place.
fn found_of(result: &Value) -> [&Value; 2] {
    [&result["frontier"], &result["answer"]["limit"]]
}

/// How often each question was answered.
fn count(events: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(|event| event["event"] == "done") {
        *counts.entry(event["args"].to_string()).or_default() += 1;
    }
    counts
}

/// True if the verdict of a point is impossible, given the opposite verdict of the other point.
fn contradict(point: &Point, fits: bool, other: &Point) -> bool {
    let at_least = |a: &Point, b: &Point| a.0.keys().all(|axis| a.int(axis) >= b.int(axis));
    if fits {
        at_least(point, other)
    } else {
        at_least(other, point)
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Finds failing seeds, and names the first ones with the command that repeats them.
#[test]
fn whole_runs_on_machines_that_fail() {
    let seeds: Vec<u64> = match number("PROFILER_TEST_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("PROFILER_TEST_SEEDS").unwrap_or(100)).collect(),
    };
    let failed = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if std::panic::catch_unwind(|| simulate(*seed)).is_err() {
                        let _ = fs::remove_dir_all(machine::folder().join(format!("seed-{seed}")));
                        failed.lock().unwrap().push(*seed);
                        eprintln!("repeat it: PROFILER_TEST_SEED={seed} cargo test --test it simulation::");
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort_unstable();
    let _ = fs::remove_dir(machine::folder());
    let counts = [&DEATHS, &CUTS, &FLIPS].map(|count| count.load(Ordering::Relaxed));
    let [deaths, cuts, flips] = counts;
    eprintln!(
        "{} seeds: {deaths} deaths, {cuts} journals cut, {flips} journals with a bit changed",
        seeds.len()
    );
    assert!(
        failed.is_empty(),
        "{} of {} seeds fail: {:?}",
        failed.len(),
        seeds.len(),
        &failed[..failed.len().min(20)]
    );
}

#[test]
fn a_seed_gives_the_same_journal_each_time() {
    for seed in [1_000_001, 1_000_002, 1_000_003, 1_000_004] {
        let (one, two) = (simulate(seed), simulate(seed));
        let differs = one
            .split(|byte| *byte == b'\n')
            .zip(two.split(|byte| *byte == b'\n'))
            .find(|(one, two)| one != two);
        let text =
            differs.map(|(one, two)| format!("{}\n{}", String::from_utf8_lossy(one), String::from_utf8_lossy(two)));
        assert!(one == two, "seed {seed}: {}", text.unwrap_or_default());
    }
}
