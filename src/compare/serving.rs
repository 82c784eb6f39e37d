//! Where measured loads stand between users and GPUs: output tokens/s of one user against output tokens/s of one GPU,
//! and $ per million output tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Case, ComparisonInput, LoadMetric, RECOMMENDED, load_metrics};
use crate::answer::run_command;
use crate::fmt::{Count, number};
use crate::load::LoadAnswer;
use crate::load::plan::Length;
use crate::run::{RecordedLoad, RecordedRun};

/// One setting of an engine at one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServingPoint {
    /// The engine.
    pub engine: String,
    /// The settings that a search chose, or the name of the case; empty if there is nothing to tell.
    pub settings: String,
    /// Options of its launch that say how it serves; null if unknown.
    pub launch: Value,
    /// Input and output length, as the load has them: tokens, or a distribution; null if unknown.
    pub input: Value,
    /// The output length.
    pub output: Value,
    /// Lengths, prompts and shared prefix: `512 + 128 tokens`. Points of another one cannot be compared, nor those whose
    /// lengths are not stated (`None`).
    pub workload: Option<String>,
    /// The load: `64 concurrent requests`.
    pub level: String,
    /// Concurrent requests of a closed loop; `None` for a request rate.
    pub concurrency: Option<f64>,
    /// Its throughputs, output length and latencies, under the names of vLLM's bench.
    pub figures: BTreeMap<String, f64>,
    /// GPUs that serve it; `None` if unknown.
    pub gpus: Option<u64>,
    /// Output tokens/s of one user: of all, shared among the concurrent requests. Of the whole load, as other tools have it.
    pub per_user: f64,
    /// Output tokens/s of one GPU; `None` without `gpus`.
    pub per_gpu: Option<f64>,
    /// $ per million output tokens, if the load had a price.
    pub cost: Option<f64>,
    /// How it is known.
    pub origin: Origin,
    /// Its part in the run's answer.
    pub role: Option<Role>,
    /// The command that measures it again; `None` if that is not known.
    pub command: Option<String>,
}

/// How a point is known, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured on a real engine.
    Measured,
    /// Measured on a simulated engine.
    Simulated,
    /// Forecast by a script, never started.
    Forecast,
}

/// The part of a point in the answer of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Recommended by the run.
    Chosen,
    /// The engine's own defaults.
    Defaults,
}

/// A script's result, as far as it is about points.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ScriptResult {
    chosen: Option<Chosen>,
    forecast: Vec<Forecast>,
}

/// The point that a script recommends; without a setting, that of any.
#[derive(Deserialize)]
struct Chosen {
    setting: Option<String>,
    level: f64,
}

/// A setting that was not started, at one concurrency.
#[derive(Deserialize)]
struct Forecast {
    setting: String,
    launch: Map<String, Value>,
    level: f64,
    gpus: f64,
    rate: f64,
}

/// Launch options that say how an engine serves. Others say how it was watched.
const SERVING: &str = "model revision tokenizer gpus runtime image program url container dtype quantization kv_cache_dtype \
                       tensor_parallel memory_fraction cuda_graphs prefix_cache random_weights trust_remote_code \
                       engine_args env profile sim speculation limits limit_concurrency";

/// Options of a load that are its workload.
const WORKLOAD: &str = "input output prompts shared_prefix price_per_hour";

/// Figures that [`ServingPoint::figures`] has.
const FIGURES: &str = "request_throughput output_throughput mean_output mean_ttft_ms mean_tpot_ms mean_e2el_ms median_ttft_ms median_tpot_ms \
                       median_e2el_ms p90_ttft_ms p90_tpot_ms p90_e2el_ms p95_ttft_ms p95_tpot_ms p95_e2el_ms p99_ttft_ms \
                       p99_tpot_ms p99_e2el_ms";

/// The setting of the engine's own defaults, as `std/tune/settings` writes it.
const DEFAULTS: &str = "the defaults";

/// All loads of a run at a concurrency or a request rate, repeats together, and what its script forecast.
pub fn serving_points(found: &RecordedRun) -> Vec<ServingPoint> {
    let first = found.loads.iter().chain(&found.experiment_loads).next();
    let ScriptResult { forecast, .. } = script_result(found);
    let forecast = forecast.iter().filter_map(|forecast| forecast_point(forecast, first?));
    let measured = measured_kinds(found).into_iter().map(|one| one.point);
    measured.chain(forecast).collect()
}

/// The loads of trials as cases, and which setting is recommended: the defaults at each level, and the recommended
/// setting, under a name that does not depend on it nor on its level. A run that recommends nothing has all its settings.
pub(super) fn trial_cases(found: &RecordedRun) -> (Vec<Case>, Option<String>) {
    let kinds: Vec<Kind> = measured_kinds(found)
        .into_iter()
        .filter(|one| !one.point.settings.is_empty())
        .collect();
    let recommended = kinds.iter().find(|one| one.point.role == Some(Role::Chosen));
    let case = |one: &Kind, name: &str, with_level: bool| {
        let mut options = one.kind["load"].clone();
        if with_level && let (Some(options), Some(at)) = (options.as_object_mut(), one.kind["at"].as_object()) {
            options.extend(at.clone());
        }
        let args = json!({ "load": options });
        let repeats = one.answers.iter().map(|answer| load_metrics::case(&args, answer));
        let mut case = Case::mean(repeats.collect());
        case.name = format!("{name} {}", case.name);
        case
    };
    let of_settings = kinds
        .iter()
        .filter(|one| recommended.is_none() || one.point.settings == DEFAULTS)
        .map(|one| case(one, &one.point.settings, true));
    let cases = recommended.map(|one| case(one, RECOMMENDED, false)).into_iter();
    let note = recommended.map(|one| format!("recommended: {}, at {}", one.point.settings, one.point.level));
    (cases.chain(of_settings).collect(), note)
}

fn script_result(found: &RecordedRun) -> ScriptResult {
    let result = found.result_so_far();
    let result = result.and_then(|result| ScriptResult::deserialize(result).ok());
    result.unwrap_or_default()
}

/// Loads that differ only in their seed and their number of requests.
struct Kind {
    kind: Value,
    answers: Vec<LoadAnswer>,
    point: ServingPoint,
}

/// All loads of a run at a concurrency or a request rate, repeats together.
fn measured_kinds(found: &RecordedRun) -> Vec<Kind> {
    let mut kinds: Vec<(Value, Vec<LoadAnswer>)> = Vec::new();
    let loads = || found.loads.iter().chain(&found.experiment_loads);
    let names_gpus = found.manifest.set.contains_key("gpus");
    for (args, answer) in loads() {
        let mut kind = kind(args);
        // The default of the option says nothing of a server that was running before.
        if !names_gpus && kind["launch"]["runtime"] == "attach" {
            let _ = kind["launch"].as_object_mut().map(|launch| launch.remove("gpus"));
        }
        match kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, answers)) => answers.push(answer.clone()),
            None => kinds.push((kind, vec![answer.clone()])),
        }
    }
    let simulated = found.manifest.simulated;
    let mut all: Vec<(f64, Kind)> = kinds
        .into_iter()
        .filter_map(|(kind, answers)| {
            let (level, point) = measured(&kind, &answers, simulated)?;
            Some((level, Kind { kind, answers, point }))
        })
        .collect();
    if let Some(chosen) = script_result(found).chosen {
        let of_setting =
            |one: &&mut (f64, Kind)| (chosen.setting.as_ref()).is_none_or(|setting| *setting == one.1.point.settings);
        // The level may lie between two that were measured.
        let away = |level: f64| (level / chosen.level).ln().abs();
        let nearest = all
            .iter_mut()
            .filter(of_setting)
            .min_by(|a, b| away(a.0).total_cmp(&away(b.0)));
        if let Some((_, one)) = nearest {
            one.point.role = Some(Role::Chosen);
        }
    }
    all.into_iter().map(|(_, one)| one).collect()
}

/// The arguments that repeats of a load share.
fn kind(args: &Value) -> Value {
    let wanted = |map: &Value, names: &str| -> Map<String, Value> {
        let has = |name: &str| map.get(name).filter(|value| !value.is_null()).cloned();
        let all = names.split_whitespace();
        all.filter_map(|name| Some((name.to_owned(), has(name)?))).collect()
    };
    json!({
        "engine": args["engine"],
        "setting": args["trial"]["setting"],
        "launch": wanted(&args["launch"], SERVING),
        "load": wanted(&args["load"], WORKLOAD),
        "at": wanted(&args["load"], "concurrency rate steps trace"),
    })
}

/// The level and the point of loads of one kind; `None` without a steady level, or if a figure is unknown.
fn measured(kind: &Value, answers: &[LoadAnswer], simulated: bool) -> Option<(f64, ServingPoint)> {
    let value = |name: &str| LoadMetric::named(name)?.combined(answers);
    let at = kind["at"].as_object().filter(|at| at.len() == 1)?;
    let (name, level) = at.iter().find_map(|(name, level)| Some((name, level.as_f64()?)))?;
    let throughput = value("output_throughput").filter(|tokens| *tokens > 0.0)?;
    let closed = name == "concurrency";
    let per_user = if closed {
        throughput / level
    } else {
        1000.0 * value("mean_output")? / value("mean_e2el_ms").filter(|ms| *ms > 0.0)?
    };
    let settings = kind["setting"].as_str().unwrap_or_default();
    let gpus = gpus(&kind["launch"]);
    let point = ServingPoint {
        engine: kind["engine"].as_str().unwrap_or_default().to_owned(),
        settings: settings.to_owned(),
        launch: kind["launch"].clone(),
        input: kind["load"]["input"].clone(),
        output: kind["load"]["output"].clone(),
        concurrency: closed.then_some(level),
        figures: figures(value),
        workload: Some(workload(&kind["load"])),
        level: if closed {
            concurrent(level)
        } else {
            format!("{} requests/s", number(level))
        },
        gpus,
        per_user,
        per_gpu: gpus.map(|gpus| throughput / gpus as f64),
        cost: value("cost_output"),
        origin: if simulated { Origin::Simulated } else { Origin::Measured },
        role: (settings == DEFAULTS).then_some(Role::Defaults),
        command: command(kind, name, level),
    };
    Some((level, point))
}

/// A point that was only forecast, for the workload of the run's first load.
fn forecast_point(forecast: &Forecast, first: &RecordedLoad) -> Option<ServingPoint> {
    let mut args = first.0.clone();
    let launch = args["launch"].as_object_mut()?;
    launch.extend(forecast.launch.clone());
    let mut kind = kind(&args);
    kind["launch"] = self::kind(&json!({ "launch": args["launch"] }))["launch"].take();
    let price = args["load"]["price_per_hour"].as_f64();
    Some(ServingPoint {
        engine: kind["engine"].as_str().unwrap_or_default().to_owned(),
        settings: forecast.setting.clone(),
        launch: kind["launch"].clone(),
        input: kind["load"]["input"].clone(),
        output: kind["load"]["output"].clone(),
        concurrency: Some(forecast.level),
        figures: BTreeMap::new(),
        workload: Some(workload(&kind["load"])),
        level: concurrent(forecast.level),
        gpus: Some(forecast.gpus as u64),
        per_user: forecast.rate / forecast.level,
        per_gpu: Some(forecast.rate / forecast.gpus),
        cost: price.map(|price| price / 3600.0 / forecast.rate * 1e6),
        origin: Origin::Forecast,
        role: None,
        command: command(&kind, "concurrency", forecast.level),
    })
}

fn concurrent(level: f64) -> String {
    Count(level as usize, "concurrent request").to_string()
}

fn figures(value: impl Fn(&str) -> Option<f64>) -> BTreeMap<String, f64> {
    let known = FIGURES.split_whitespace();
    known.filter_map(|name| Some((name.to_owned(), value(name)?))).collect()
}

/// GPUs of an engine: the ranks that its options name, else those that it was given; `None` for a server that was running
/// before.
fn gpus(launch: &Value) -> Option<u64> {
    let given = launch["gpus"].as_array().map(|gpus| gpus.len().max(1) as u64);
    let own = (launch["runtime"] != "attach").then_some(1);
    launch["tensor_parallel"]
        .as_u64()
        .filter(|ranks| *ranks > 0)
        .or(given)
        .or(own)
}

fn workload(load: &Value) -> String {
    let length = |name: &str| match &load[name] {
        Value::Null => "own".to_owned(),
        Value::Number(length) => length.to_string(),
        Value::Object(form) => form.values().next().map_or_else(String::new, range),
        other => other.to_string(),
    };
    let mut text = format!("{} + {} tokens", length("input"), length("output"));
    match &load["prompts"] {
        Value::Null => {}
        Value::String(file) => text += &format!(" of {file}"),
        own => text += &format!(" of {own}"),
    }
    if let Some(shared) = load["shared_prefix"].as_u64().filter(|shared| *shared > 0) {
        text += &format!(", {shared} shared");
    }
    text
}

/// A distribution: `128..512`, or its parameters as JSON.
fn range(value: &Value) -> String {
    match value.as_array().map(Vec::as_slice) {
        Some([low, high]) => format!("{low}..{high}"),
        _ => value.to_string(),
    }
}

/// `profiler run throughput …` at this level; `None` if that would start the engine otherwise.
fn command(kind: &Value, axis: &str, level: f64) -> Option<String> {
    let launch = &kind["launch"];
    let mut levels = vec![level];
    if !launch["speculation"].is_null() {
        return None;
    }
    // `throughput` starts an engine for its longest lengths and its highest concurrency.
    if let Some(limits) = launch["limits"].as_object() {
        let longest = |name: &str| {
            let length = Length::deserialize(&kind["load"][name]).ok()?;
            Some(length.bounds().1)
        };
        if ["input", "output"]
            .iter()
            .any(|name| limits[*name].as_u64() != longest(name))
        {
            return None;
        }
        let most = limits["concurrency"].as_f64()?;
        match axis {
            _ if launch["limit_concurrency"] == false || most == level => {}
            "concurrency" if most > level => levels.push(most),
            "rate" if most == 256.0 => {}
            _ => return None,
        }
    }
    let mut set = Map::new();
    set.insert("engine".to_owned(), kind["engine"].clone());
    let usual = |name: &str, value: &Value| match name {
        "gpus" => launch["runtime"] != "attach" && (*value == json!(["0"]) || *value == json!([0])),
        "random_weights" | "trust_remote_code" => *value == json!(false),
        "engine_args" | "env" => value.as_array().is_some_and(Vec::is_empty) || *value == json!({}),
        "runtime" => *value == "attach" || *value == "sim",
        "limits" => true,
        _ => false,
    };
    for options in ["launch", "load"] {
        let given = kind[options].as_object().into_iter().flatten();
        let given = given.filter(|(name, value)| !usual(name, value));
        set.extend(given.map(|(name, value)| (name.clone(), value.clone())));
    }
    let axis = if axis == "rate" { "rates" } else { "concurrency" };
    let levels = match axis {
        "concurrency" => json!(levels.iter().map(|level| *level as u64).collect::<Vec<_>>()),
        _ => json!(levels),
    };
    set.insert(axis.to_owned(), levels);
    Some(run_command("throughput", &set, &[]))
}

impl ComparisonInput {
    /// The points of the cases of another tool's file that name their concurrency.
    pub(super) fn serving_of_cases(&self) -> Vec<ServingPoint> {
        self.cases.iter().filter_map(|case| self.of_case(case)).collect()
    }

    fn of_case(&self, case: &Case) -> Option<ServingPoint> {
        let value = |name: &str| Some(case.figure(name)?.value).filter(|value| *value > 0.0);
        let mut rest: BTreeMap<&str, &str> = case
            .name
            .split_whitespace()
            .filter_map(|part| part.split_once('='))
            .collect();
        let level: f64 = rest.remove("concurrency")?.parse().ok().filter(|level| *level > 0.0)?;
        let throughput = value("output_throughput")?;
        let lengths = [rest.remove("input"), rest.remove("output")];
        let length = |at: usize| lengths[at].and_then(|text| text.parse().ok()).unwrap_or_default();
        let gpus = case.facts.tensor_parallel.filter(|ranks| *ranks > 0);
        // With a request rate, a concurrency is only a limit.
        let rate: Option<f64> = rest.get("request_rate").and_then(|rate| rate.parse().ok());
        let rate = rate.filter(|rate| rate.is_finite());
        let busy = match rate {
            Some(_) => value("request_throughput")? * value("mean_e2el_ms")? / 1000.0,
            None => level,
        };
        let settings: Vec<String> = rest.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Some(ServingPoint {
            engine: self.engine.clone().unwrap_or_default(),
            settings: settings.join(" "),
            launch: Value::Null,
            input: length(0),
            output: length(1),
            concurrency: rate.is_none().then_some(level),
            figures: figures(|name| Some(case.figure(name)?.value)),
            workload: match lengths {
                [Some(input), Some(output)] => Some(format!("{input} + {output} tokens")),
                _ => None,
            },
            level: match rate {
                Some(rate) => format!("{} requests/s, at most {}", number(rate), concurrent(level)),
                None => concurrent(level),
            },
            gpus,
            per_user: throughput / busy,
            per_gpu: gpus.map(|gpus| throughput / gpus as f64),
            cost: value("cost_output"),
            origin: if self.simulated {
                Origin::Simulated
            } else {
                Origin::Measured
            },
            role: None,
            command: None,
        })
    }
}

/// Whether each point is dominated: another one of the same workload, known at least as surely, is no worse for the
/// user, for the GPU and in cost, as far as both are known, and better in one of them.
pub fn dominated(points: &[&ServingPoint]) -> Vec<bool> {
    let beats = |one: &ServingPoint, other: &ServingPoint| {
        let cheaper = one.cost.zip(other.cost);
        let busier = one.per_gpu.zip(other.per_gpu);
        let no_worse = one.per_user >= other.per_user
            && (busier.is_some() || cheaper.is_some())
            && busier.is_none_or(|(one, other)| one >= other)
            && cheaper.is_none_or(|(one, other)| one <= other);
        let better = one.per_user > other.per_user
            || busier.is_some_and(|(one, other)| one > other)
            || cheaper.is_some_and(|(one, other)| one < other);
        one.workload.is_some() && one.workload == other.workload && one.origin <= other.origin && no_worse && better
    };
    let is_dominated = |point: &&ServingPoint| points.iter().any(|other| beats(other, point));
    points.iter().map(is_dominated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_as_surely_dominates() {
        let point = |per_user: f64, per_gpu: f64, cost: Option<f64>, origin: Origin| ServingPoint {
            engine: "vllm".to_owned(),
            settings: String::new(),
            launch: Value::Null,
            input: Value::Null,
            output: Value::Null,
            concurrency: None,
            figures: BTreeMap::new(),
            workload: Some("512 + 128 tokens".to_owned()),
            level: String::new(),
            gpus: Some(1),
            per_user,
            per_gpu: Some(per_gpu),
            cost,
            origin,
            role: None,
            command: None,
        };
        let (real, forecast) = (Origin::Measured, Origin::Forecast);
        let points = [
            point(10.0, 100.0, None, real),
            point(9.0, 90.0, None, real),
            point(20.0, 50.0, None, real),
            point(30.0, 300.0, None, forecast),
            // Cheaper by the hour, and so worth it.
            point(9.0, 90.0, Some(0.1), real),
            point(10.0, 100.0, Some(0.2), real),
        ];
        let other = ServingPoint {
            workload: Some("64 + 8 tokens".to_owned()),
            ..points[1].clone()
        };
        let unstated = ServingPoint {
            workload: None,
            ..points[1].clone()
        };
        let better = ServingPoint {
            workload: None,
            ..points[0].clone()
        };
        assert_eq!(dominated(&[&unstated, &better]), [false, false]);
        // Without the number of GPUs, only cost can tell.
        let uncounted = |point: &ServingPoint| ServingPoint {
            gpus: None,
            per_gpu: None,
            ..point.clone()
        };
        let (two, cheap) = (uncounted(&points[1]), uncounted(&points[4]));
        assert_eq!(dominated(&[&points[0], &two]), [false, false]);
        assert_eq!(dominated(&[&cheap, &points[5], &points[0]]), [false, false, false]);
        let all: Vec<&ServingPoint> = points[..4].iter().chain([&other]).collect();
        assert_eq!(dominated(&all), [false, true, false, false, false]);
        assert_eq!(dominated(&[&points[4], &points[5]]), [false, false]);
    }
}
