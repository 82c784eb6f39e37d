//! A user's engine fails as its documentation or source code words it (tests/data/failures): the shipped adapters
//! recognise every such failure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use profiler::boundary::{Cause, Effect, Verdict};
use profiler::engine::{FailureRule, Reading, RulePhase, RulePlace, RuleRank, Rules};
use profiler::fault::Kind;
use profiler::script;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::logs::rules;
use super::script::bench::Bench;
use super::sim::adapter::Probed;

/// One failure, and its expected reading.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    /// The engine, from the file's name.
    #[serde(skip)]
    engine: String,
    version: String,
    /// File and line that write it, or the library.
    source: Option<String>,
    when: When,
    #[serde(default)]
    log: Vec<String>,
    message: Option<String>,
    exit: Option<i64>,
    verdict: Option<String>,
    cause: Option<Cause>,
    phase: Option<String>,
    /// The limits that the message states: input and output together, and input alone.
    limit: Option<u64>,
    input_limit: Option<u64>,
    state_slots: Option<u64>,
    /// A part of the remedy.
    remedy: Option<String>,
    /// A line of similar words that gives no reason.
    near: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum When {
    Start,
    Request,
}

#[derive(Deserialize)]
struct Table {
    failure: Vec<Failure>,
}

/// The failures of all engines.
fn failures() -> Vec<Failure> {
    let folder = format!("{}/tests/data/failures", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |file: &PathBuf| {
        let engine = file.file_stem().unwrap().to_string_lossy().into_owned();
        let table: Table = toml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        table.failure.into_iter().map(move |failure| Failure {
            engine: engine.clone(),
            ..failure
        })
    };
    files.iter().flat_map(read).collect()
}

impl Failure {
    fn read(&self, rules: &Rules) -> Reading {
        let messages: Vec<String> = self.message.iter().cloned().collect();
        match self.when {
            When::Start => rules.read_start(&self.log, self.exit.unwrap_or(1)),
            When::Request => rules.read_request(&messages, &self.log, self.exit),
        }
    }

    /// Describes the reading if it is not the expected one.
    fn complaint(&self, reading: &Reading) -> Option<String> {
        let verdict = json!(reading.verdict);
        let known = self.verdict.as_ref().map_or(Value::Null, |verdict| json!(verdict));
        // An unknown failure must not be classified. A known one must have the given cause, if one is given.
        let cause = self.cause.is_none() && self.verdict.is_some() || reading.cause == self.cause;
        let phase = self.phase.is_none() || reading.phase == self.phase;
        let limits = reading.limits == (self.limit, self.input_limit) && reading.state_slots == self.state_slots;
        let remedy = remedy(reading).unwrap_or_default();
        let remedy = self.remedy.as_ref().is_none_or(|part| remedy.contains(part));
        (verdict != known || !cause || !phase || !limits || !remedy)
            .then(|| format!("{} {}: {self:?}\nis read as {reading:?}", self.engine, self.version))
    }
}

/// The remedy: the adapter's, otherwise that of the cause.
fn remedy(reading: &Reading) -> Option<&str> {
    let of_cause = || reading.cause.as_ref().and_then(Cause::remedy);
    reading.remedy.as_deref().or_else(of_cause)
}

/// The readings of all failures by the shipped adapters.
fn readings() -> Vec<(Failure, Reading)> {
    let mut known: HashMap<String, Rules> = HashMap::new();
    let mut read = |failure: Failure| {
        let engine = failure.engine.clone();
        let reading = failure.read(known.entry(engine).or_insert_with_key(|engine| rules(engine)));
        (failure, reading)
    };
    failures().into_iter().map(&mut read).collect()
}

#[test]
fn every_failure_of_every_engine_is_what_it_is() {
    let readings = readings();
    let wrong: Vec<_> = readings
        .iter()
        .filter_map(|(failure, reading)| failure.complaint(reading))
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    for name in script::shipped::modules().filter_map(|module| module.strip_prefix("engines/")) {
        let told = readings.iter().any(|(failure, _)| failure.engine == name);
        // The simulated engine has no failures of its own.
        assert!(told || name == "sim", "no failures of `{name}` are told");
    }
}

#[test]
fn a_near_miss_gives_no_reason() {
    let near: Vec<_> = failures()
        .into_iter()
        .filter_map(|failure| {
            let near = failure.near.clone()?;
            Some(Failure {
                log: vec![near],
                message: None,
                ..failure
            })
        })
        .collect();
    assert!(near.len() > 30, "{}", near.len());
    for failure in near {
        assert!(failure.source.is_some(), "{failure:?}");
        let reading = failure.read(&rules(&failure.engine));
        assert_eq!(reading.verdict, None, "{failure:?} is read as {reading:?}");
    }
}

/// The simulated engine that prints the words of a failure, and what the probe answers, with further options.
fn met(failure: &Failure, further: &Value) -> Value {
    let exit = failure.exit;
    let ending = json!({ "code": exit.unwrap_or(1) });
    let misbehave = match failure.when {
        When::Start => json!({ "fail_start": { "log": failure.log, "ending": ending } }),
        When::Request => {
            let silent = failure.message.is_none() && exit.is_none();
            let message = failure.message.clone().or(silent.then(|| "x".to_owned()));
            // TensorRT-LLM ends a stream without a word, and logs why.
            let logged = message
                .clone()
                .filter(|_| failure.engine == "tensorrt_llm" && failure.log.is_empty());
            let log: Vec<&String> = failure.log.iter().chain(&logged).collect();
            let then = if exit.is_some() { "exits" } else { "lives" };
            json!({ "fail_request": { "log": log, "message": message, "then": then, "ending": ending } })
        }
    };
    let sim = json!({ "time_scale": 0.0, "misbehave": misbehave });
    let mut options = json!({ "runtime": "sim", "limits": { "input": 400, "output": 40 }, "sim": sim });
    let further = further.as_object().unwrap().clone();
    options.as_object_mut().unwrap().extend(further);
    let concurrency = options["limits"]["concurrency"].as_i64().unwrap_or(1);
    Probed::of(&failure.engine, options).probe(300, 40, concurrency, Some(60.0))
}

/// The words are read as above when an engine prints them, at its start and in a request. Causes other than memory end a
/// run at its first start.
#[test]
fn an_engine_that_prints_them_lacks_memory() {
    let lacks_memory = |failure: &Failure| match (failure.verdict.as_deref(), &failure.cause) {
        (Some("start_failed"), Some(cause)) => *cause == Cause::Memory,
        (Some("oom"), Some(cause)) => *cause != Cause::Host,
        (Some("refused"), Some(cause)) => cause.effect() == Effect::Memory,
        _ => false,
    };
    let all: Vec<(Failure, Reading)> = readings()
        .into_iter()
        .filter(|(failure, _)| failure.engine != "openai" && lacks_memory(failure))
        .collect();
    assert!(all.len() > 100, "{}", all.len());
    let complaint = |(failure, reading): &(Failure, Reading)| {
        let answer = met(failure, &json!({}));
        let told = (&answer["verdict"], &answer["cause"], &answer["evidence"]["remedy"]);
        let expected = (&json!(failure.verdict), &json!(failure.cause), &json!(reading.remedy));
        (told != expected).then(|| format!("{failure:?}\n{answer:#}"))
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            wrong.extend(complaint(one));
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(
        wrong.is_empty(),
        "{} of {} wrong:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}

/// The slots that an engine keeps for itself are known only if it was told the number of sequences.
#[test]
fn state_slots_are_a_limit_of_sequences_where_the_engine_was_told_them() {
    let failures = failures();
    let limit = |engine: &str, mut further: Value| {
        let stated = |failure: &&Failure| failure.engine == engine && failure.state_slots.is_some();
        further["limits"] = json!({ "input": 400, "output": 40, "concurrency": 512 });
        let answer = met(failures.iter().find(stated).unwrap(), &further);
        assert_eq!(answer["cause"], "memory", "{answer:#}");
        answer["evidence"]["limit"]["concurrency"].clone()
    };
    // 300 slots, where 513 are needed for 512 sequences.
    assert_eq!(limit("tensorrt_llm", json!({})), 299);
    let untold = json!({ "limit_concurrency": false });
    assert_eq!(limit("tensorrt_llm", untold.clone()), Value::Null);
    assert_eq!(limit("vllm", untold), 614);
}

/// In each engine's own flags, or a remedy for the cause that names an option of this program.
#[test]
fn every_lack_of_memory_and_every_failed_start_has_a_remedy() {
    for (failure, reading) in readings() {
        let is_own = !matches!(failure.engine.as_str(), "openai" | "transformers");
        let is_memory = reading.verdict.is_some_and(|verdict| verdict != Verdict::Error);
        assert!(
            !is_own || !is_memory || remedy(&reading).is_some(),
            "{failure:?}: {reading:?}"
        );
    }
}

#[test]
fn figures_of_torch_are_read_wherever_it_gives_them() {
    for (failure, reading) in readings() {
        let texts = failure.log.iter().chain(&failure.message);
        let told = texts.filter(|text| text.contains("has a total capacity of")).count();
        let full = reading
            .allocations
            .iter()
            .filter(|one| one.total.is_some() && one.free.is_some());
        assert_eq!(full.count(), told.min(1), "{failure:?}: {reading:?}");
    }
}

/// The top-level alternatives of a pattern.
fn alternatives(pattern: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut escaped) = (0, false);
    for letter in pattern.chars() {
        match letter {
            _ if escaped => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '|' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
        parts.last_mut().unwrap().push(letter);
    }
    parts
}

/// A rule, split into its alternatives.
struct Parts {
    phase: RulePhase,
    is_consequence: bool,
    alternatives: Vec<Regex>,
}

impl Parts {
    fn of(rule: &FailureRule) -> Self {
        // Within the line of an exception, the pattern begins at its type.
        let compile = |part: &String| match rule.place {
            RulePlace::Anywhere => Regex::new(part).unwrap(),
            RulePlace::Exception => Regex::new(part.trim_start_matches('^')).unwrap(),
        };
        Self {
            phase: rule.phase,
            is_consequence: rule.rank == RuleRank::Consequence,
            alternatives: alternatives(rule.pattern.as_str()).iter().map(compile).collect(),
        }
    }

    /// The alternatives that match this text.
    fn shown(&self, text: &str) -> Vec<&str> {
        let shown = self.alternatives.iter().filter(|part| part.is_match(text));
        shown.map(Regex::as_str).collect()
    }
}

/// The alternatives of all rules that decide none of these failures; consequences need only be in a log.
fn idle(rules: &[Parts], failures: &[&(Failure, Reading)]) -> BTreeSet<String> {
    let all = rules.iter().flat_map(|rule| &rule.alternatives);
    let mut idle: BTreeSet<String> = all.map(|part| part.as_str().to_owned()).collect();
    for (failure, reading) in failures {
        let phase = match failure.when {
            When::Start => RulePhase::Start,
            When::Request => RulePhase::Request,
        };
        let line = reading.line.as_deref().unwrap_or_default();
        let decides = rules
            .iter()
            .filter(|rule| !rule.is_consequence && (rule.phase == RulePhase::Any || rule.phase == phase))
            .map(|rule| rule.shown(line))
            .find(|shown| !shown.is_empty());
        let consequences = rules.iter().filter(|rule| rule.is_consequence);
        let followed = consequences.flat_map(|rule| failure.log.iter().flat_map(|line| rule.shown(line)));
        for part in decides.into_iter().flatten().chain(followed) {
            idle.remove(part);
        }
    }
    idle
}

#[test]
fn every_rule_of_every_engine_decides_a_failure() {
    let host = Bench::script("").host();
    let failures = readings();
    let engines: BTreeSet<&str> = failures.iter().map(|(failure, _)| failure.engine.as_str()).collect();
    let mut idle_of: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for engine in &engines {
        let rules = script::adapter(&host, engine).unwrap().failures().unwrap();
        let rules: Vec<_> = rules.iter().map(Parts::of).collect();
        let of: Vec<_> = failures
            .iter()
            .filter(|(failure, _)| failure.engine == *engine)
            .collect();
        for pattern in idle(&rules, &of) {
            idle_of.entry(pattern).or_default().insert(engine);
        }
    }
    // Rules for allocators and machines are shared by all engines: one failure that matches is enough.
    let common = include_str!("../../stdlib/failures.rhai");
    let shared = |pattern: &String| common.contains(pattern.as_str());
    let wrong: Vec<_> = idle_of
        .iter()
        .filter(|(pattern, of)| of.len() == engines.len() || !shared(pattern))
        .collect();
    assert!(wrong.is_empty(), "no failure shows them: {wrong:#?}");
}

#[test]
fn shipped_adapters_give_known_causes() {
    let host = Bench::script("").host();
    for name in script::shipped::modules().filter_map(|module| module.strip_prefix("engines/")) {
        for rule in script::adapter(&host, name).unwrap().failures().unwrap() {
            assert!(!matches!(rule.cause, Some(Cause::Other(_))), "{name}: {rule:?}");
        }
    }
}

/// The Rhai files below a folder.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let rhai = files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rhai"));
    rhai.chain(folders.iter().flat_map(|folder| scripts(folder))).collect()
}

#[test]
fn shipped_scripts_name_known_causes() {
    let given =
        Regex::new(r#"\bcause(?:"\))?\s*(?:[!=]?=|:|!?in)\s*(\[[^\]]*\]|"[^"]*")|not_measured\("\w+", ("\w+")"#)
            .unwrap();
    let text = Regex::new(r#""([^"]*)""#).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = 0;
    for path in ["stdlib", "scripts"]
        .iter()
        .flat_map(|folder| scripts(&root.join(folder)))
    {
        let script = fs::read_to_string(&path).unwrap();
        for found in given.captures_iter(&script) {
            let causes = found.get(1).or(found.get(2)).unwrap();
            for cause in text.captures_iter(causes.as_str()).map(|cause| cause[1].to_owned()) {
                named += 1;
                // If a fault ends a measurement, the kind of the fault is the cause.
                let is_kind = Kind::ALL.iter().any(|kind| kind.name() == cause);
                let is_known = !matches!(Cause::from(cause.as_str()), Cause::Other(_));
                assert!(is_known || is_kind, "{}: `{cause}`", path.display());
            }
        }
    }
    assert!(named > 50, "only {named} found");
}
