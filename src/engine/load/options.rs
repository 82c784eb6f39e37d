//! Options of `engine.load`: validation, and the parts of the plan that follow from them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::lifecycle::options::{seconds, some_seconds, wrong};
use crate::fault::Result;
use crate::load::Tolerance;
use crate::load::plan::{Arrival, Arrivals, Length, Pattern, Precision, RateProfile, Stop, Warmup};
use crate::load::stats::Slo;

/// Concurrency that an engine is started with for an open loop without `max_concurrency`; vLLM's default `max_num_seqs`
/// on most GPUs.
const DEFAULT_CONCURRENCY: u64 = 256;

/// Time limit in seconds of a load with `precision` but no other end.
const PRECISION_TIME_LIMIT: f64 = 600.0;
const MAX_REPEATS: u64 = 1000;

/// Options of `engine.load`. Exactly one of `concurrency`, `rate`, `steps` and `trace` determines when requests are
/// sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadOptions {
    /// Closed loop: concurrent requests.
    pub concurrency: Option<u64>,
    /// Closed loop: seconds over which the slots are opened evenly. Default: 0.
    pub ramp: Option<f64>,
    /// Open loop: requests per second.
    pub rate: Option<f64>,
    /// Open loop: arrival process. Default: `poisson`, or `gamma` if `burstiness` is given.
    pub arrivals: Option<ArrivalOption>,
    /// Shape of the `gamma` arrivals: 1 is a Poisson process, less is burstier.
    pub burstiness: Option<f64>,
    /// Open loop and trace: maximum concurrent requests. Further requests wait.
    pub max_concurrency: Option<u64>,
    /// Rates or concurrencies, one after the other.
    pub steps: Option<Vec<StepOption>>,
    /// File with arrival times and lengths.
    pub trace: Option<String>,
    /// Input tokens per request. With `prompts`: tokens of the longest prompt.
    pub input: Option<Length>,
    /// Output tokens per request.
    pub output: Option<Length>,
    /// File with prompts.
    pub prompts: Option<String>,
    /// Prompts of the file that are passed over. Default: those that earlier loads sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts_from: Option<u64>,
    /// Tokens at the start that all prompts share. Default: 0; then all prompts start differently.
    pub shared_prefix: Option<u64>,
    /// Number of requests, excluding the warm-up.
    pub requests: Option<u64>,
    /// Duration in seconds, excluding the warm-up. Unfinished requests are cut off.
    pub duration: Option<f64>,
    /// Stops once the confidence interval of a latency is narrow enough.
    pub precision: Option<Precision>,
    /// Initial phase that is excluded from the statistics.
    pub warmup: Option<WarmupOption>,
    /// Number of repeats. Default: 1.
    pub repeats: Option<u64>,
    /// Timeout per request in seconds. Default: ten times the expected duration, at least a minute.
    pub timeout: Option<f64>,
    /// Seconds without running requests, while all unfinished requests are queued, after which the load is given up.
    /// Default: 20.
    pub stall: Option<f64>,
    /// Tokens that may be missing from an answer without a warning. Default: the engine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tolerance: Option<Tolerance>,
    /// Seed of arrivals and lengths. Default: the run's seed. Each repeat uses the next number.
    pub seed: Option<u64>,
    /// Latency limits of a good request (goodput).
    pub slo: Option<Slo>,
    /// Price of all devices together, in dollars per hour.
    pub price_per_hour: Option<f64>,
    /// Polls of the engine's metrics per second. Default: 10.
    pub metrics_hz: Option<f64>,
}

/// Arrival process of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalOption {
    /// Evenly spaced.
    Constant,
    /// Poisson process.
    Poisson,
    /// Gamma-distributed intervals with the shape `burstiness`.
    Gamma,
}

/// A step with either a rate or a concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOption {
    /// Requests per second.
    pub rate: Option<f64>,
    /// Concurrent requests.
    pub concurrency: Option<u64>,
    /// Duration of the step.
    pub seconds: f64,
}

/// Length of the warm-up: requests or seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WarmupOption {
    /// Number of requests.
    pub requests: Option<u64>,
    /// Seconds; every request sent within them belongs to the warm-up.
    pub seconds: Option<f64>,
}

impl LoadOptions {
    /// The load level as text: `64 concurrent requests`, `0.5 requests/s`.
    pub fn level(&self) -> String {
        match (self.concurrency, self.rate) {
            (Some(1), _) => "1 concurrent request".to_owned(),
            (Some(concurrency), _) => format!("{concurrency} concurrent requests"),
            (None, Some(rate)) => format!("{rate} requests/s"),
            (None, None) if self.trace.is_some() => "requests as in the trace".to_owned(),
            (None, None) => "requests in steps".to_owned(),
        }
    }

    /// Requests of all repeats including warm-ups, if the options set their number.
    pub fn all_requests(&self) -> Option<u64> {
        let warmup = self.warmup.and_then(|warmup| warmup.requests).unwrap_or(0);
        Some((self.requests? + warmup) * self.repeats())
    }

    /// Validates the options before any file is read or anything is started.
    ///
    /// # Errors
    ///
    /// `usage`, with a hint.
    pub fn check(&self) -> Result<()> {
        self.check_arrivals()?;
        self.check_lengths()?;
        self.warmup()?;
        self.implied_limit(None)?;
        some_seconds("timeout", self.timeout)?;
        some_seconds("duration", self.duration)?;
        some_seconds("stall", self.stall)?;
        for (name, given) in [
            ("concurrency", self.concurrency),
            ("requests", self.requests),
            ("max_concurrency", self.max_concurrency),
            ("repeats", self.repeats),
        ] {
            if given == Some(0) {
                return wrong(format!("option `{name}` is 0"), "give a number from 1 up");
            }
        }
        if self.repeats() > MAX_REPEATS {
            return wrong(
                format!("option `repeats` is {}", self.repeats()),
                format!("at most {MAX_REPEATS}"),
            );
        }
        let price = self.price_per_hour.unwrap_or(0.0);
        if !(price.is_finite() && price >= 0.0) {
            return wrong(
                format!("option `price_per_hour` is {price}"),
                "give dollars an hour, from 0 up",
            );
        }
        self.precision.map_or(Ok(()), |precision| precision.check())
    }

    /// The arrivals. `trace` is the content of the file that the option names.
    ///
    /// # Errors
    ///
    /// `usage` for invalid options.
    pub fn arrivals(&self, trace: Option<Vec<Arrival>>) -> Result<Arrivals> {
        if let Some(trace) = trace {
            return Ok(Arrivals::Replay(trace));
        }
        if let Some(concurrency) = self.concurrency {
            let ramp = self.ramp.map_or(Ok(Duration::ZERO), |ramp| seconds("ramp", ramp))?;
            return Ok(Arrivals::Closed { concurrency, ramp });
        }
        let profile = match (self.rate, &self.steps) {
            (Some(rate), _) => RateProfile::constant(rate)?,
            (None, Some(steps)) => match stepped(steps)? {
                (rates, concurrencies) if concurrencies.is_empty() => RateProfile::steps(rates)?,
                (_, concurrencies) => return Ok(Arrivals::ClosedSteps(concurrencies)),
            },
            (None, None) => return no_arrivals(),
        };
        let pattern = self.pattern()?;
        Ok(Arrivals::Open { profile, pattern })
    }

    /// The warm-up.
    ///
    /// # Errors
    ///
    /// `usage` unless exactly one of its forms is given.
    pub fn warmup(&self) -> Result<Warmup> {
        let Some(WarmupOption {
            requests,
            seconds: time,
        }) = self.warmup
        else {
            return Ok(Warmup::NONE);
        };
        match (requests, time) {
            (Some(requests), None) => Ok(Warmup::Requests(requests)),
            (None, Some(0.0)) => Ok(Warmup::NONE),
            (None, Some(time)) => Ok(Warmup::Time(seconds("warmup.seconds", time)?)),
            _ => wrong(
                "option `warmup` needs either `requests` or `seconds`",
                "such as `warmup: #{ seconds: 10 }`",
            ),
        }
    }

    /// The stop condition. `prompts` is the number of prompts in the file; without another end, each is sent once.
    ///
    /// # Errors
    ///
    /// `usage` for a load without an end.
    pub fn stop(&self, prompts: Option<u64>) -> Result<Stop> {
        let duration = match self.duration {
            Some(duration) => Some(seconds("duration", duration)?),
            None => self.implied_limit(prompts)?,
        };
        let ends = duration.is_some() || self.ends_by_itself() || self.precision.is_some();
        Ok(Stop {
            requests: self.requests.or(prompts.filter(|_| !ends)),
            duration,
            precision: self.precision,
        })
    }

    /// Number of repeats.
    pub fn repeats(&self) -> u64 {
        self.repeats.unwrap_or(1)
    }

    /// The concurrency that an engine must be started with.
    pub fn planned_concurrency(&self, arrivals: &Arrivals) -> u64 {
        arrivals
            .max_concurrency()
            .or(self.max_concurrency)
            .unwrap_or(DEFAULT_CONCURRENCY)
    }

    /// The implied time limit of a load without an explicit end; `None` if it needs none.
    fn implied_limit(&self, prompts: Option<u64>) -> Result<Option<Duration>> {
        if self.requests.is_some() || self.duration.is_some() || self.ends_by_itself() {
            return Ok(None);
        }
        if self.precision.is_some() {
            return Ok(Some(Duration::from_secs_f64(PRECISION_TIME_LIMIT)));
        }
        if prompts.is_some() || self.prompts.is_some() {
            return Ok(None);
        }
        wrong(
            "the load has no end",
            "give `requests`, `duration` (seconds) or `precision`",
        )
    }

    /// Whether the arrivals end by themselves.
    fn ends_by_itself(&self) -> bool {
        self.steps.is_some() || self.trace.is_some()
    }

    fn check_arrivals(&self) -> Result<()> {
        let given: Vec<&str> = [
            self.concurrency.map(|_| "concurrency"),
            self.rate.map(|_| "rate"),
            self.steps.as_ref().map(|_| "steps"),
            self.trace.as_ref().map(|_| "trace"),
        ]
        .into_iter()
        .flatten()
        .collect();
        match given[..] {
            [] => return no_arrivals(),
            [_] => {}
            [one, other, ..] => {
                return wrong(
                    format!("options `{one}` and `{other}` exclude each other"),
                    "`concurrency` is a closed loop, `rate` an open one, `steps` either over time, `trace` a file of arrivals",
                );
            }
        }
        let rates = self.rate.is_some() || self.steps.iter().flatten().any(|step| step.rate.is_some());
        let (limit, of_rates) = (self.max_concurrency.is_some(), "`rate`, or `steps` of rates");
        let traced = rates || self.trace.is_some();
        for (name, given, fits, of) in [
            ("ramp", self.ramp.is_some(), self.concurrency.is_some(), "`concurrency`"),
            ("arrivals", self.arrivals.is_some(), rates, of_rates),
            ("burstiness", self.burstiness.is_some(), rates, of_rates),
            ("max_concurrency", limit, traced, "`rate`, `steps` of rates or `trace`"),
        ] {
            if given && !fits {
                return wrong(
                    format!("option `{name}` has no meaning here"),
                    format!("it belongs to {of}"),
                );
            }
        }
        // The trace file is not needed to validate the other options.
        if self.trace.is_none() {
            self.arrivals(None)?;
        }
        Ok(())
    }

    fn check_lengths(&self) -> Result<()> {
        let given = [
            ("input", self.input.is_some()),
            ("output", self.output.is_some()),
            ("prompts", self.prompts.is_some()),
        ];
        if let (Some(_), Some((name, _))) = (&self.trace, given.iter().find(|(_, given)| *given)) {
            return wrong(
                format!("options `{name}` and `trace` exclude each other"),
                "the lengths are those of the trace",
            );
        }
        if let (Some(_), Some(Length::Random(_))) = (&self.prompts, self.input) {
            return wrong(
                "option `input` cannot be drawn where `prompts` are given",
                "with `prompts`, it is the tokens of the longest prompt, for a model whose tokenizer is not known",
            );
        }
        if self.prompts.is_some() && self.shared_prefix.is_some_and(|tokens| tokens > 0) {
            return wrong(
                "options `shared_prefix` and `prompts` exclude each other",
                "prompts of a file are sent unchanged",
            );
        }
        if self.prompts.is_none() && self.prompts_from.is_some() {
            return wrong(
                "option `prompts_from` is given without `prompts`",
                "it is where in the file of prompts the load begins",
            );
        }
        let needed = self.trace.is_none() && self.prompts.is_none();
        for (name, given) in [("input", self.input), ("output", self.output)] {
            match given {
                Some(length) => length.check(name)?,
                None if needed => {
                    return wrong(
                        format!("option `{name}` is missing"),
                        "give a number of tokens, or a distribution such as `#{ uniform: [128, 512] }`",
                    );
                }
                None => {}
            }
        }
        Ok(())
    }

    fn pattern(&self) -> Result<Pattern> {
        match (self.arrivals, self.burstiness) {
            (Some(ArrivalOption::Constant), None) => Ok(Pattern::Constant),
            (Some(ArrivalOption::Poisson) | None, None) => Ok(Pattern::POISSON),
            (Some(ArrivalOption::Gamma) | None, Some(burstiness)) => Pattern::gamma(burstiness),
            (Some(ArrivalOption::Gamma), None) => wrong(
                "option `burstiness` is missing",
                "it is the shape of `gamma`: 1 is a Poisson process",
            ),
            (Some(ArrivalOption::Constant | ArrivalOption::Poisson), Some(_)) => wrong(
                "option `burstiness` belongs to `arrivals: \"gamma\"`",
                "leave one of the two out",
            ),
        }
    }
}

/// The steps as rates and as concurrencies, each with its duration. One of the two lists is empty.
type Steps = (Vec<(f64, Duration)>, Vec<(u64, Duration)>);

fn stepped(steps: &[StepOption]) -> Result<Steps> {
    let wrong_step = |index: usize, why: &str| {
        wrong(
            format!("option `steps[{index}]` {why}"),
            "each step is `#{ rate, seconds }`, or each is `#{ concurrency, seconds }`",
        )
    };
    let (mut rates, mut concurrencies) = (Vec::new(), Vec::new());
    for (index, step) in steps.iter().enumerate() {
        let length = seconds(&format!("steps[{index}].seconds"), step.seconds)?;
        if length.is_zero() {
            return wrong_step(index, "lasts 0 seconds");
        }
        match (step.rate, step.concurrency) {
            (Some(rate), None) => rates.push((rate, length)),
            (None, Some(0)) => return wrong_step(index, "has no concurrency"),
            (None, Some(concurrency)) => concurrencies.push((concurrency, length)),
            _ => return wrong_step(index, "needs either `rate` or `concurrency`"),
        }
    }
    if rates.is_empty() && concurrencies.is_empty() {
        return wrong("option `steps` is empty", "such as `[#{ rate: 2, seconds: 30 }]`");
    }
    if !rates.is_empty() && !concurrencies.is_empty() {
        return wrong_step(1, "mixes rates and concurrencies");
    }
    Ok((rates, concurrencies))
}

fn no_arrivals<T>() -> Result<T> {
    wrong(
        "the load does not say when requests come",
        "give one of `concurrency`, `rate` (requests a second), `steps` and `trace` (a file)",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> LoadOptions {
        serde_json::from_value(value).unwrap()
    }

    fn with(more: Value) -> LoadOptions {
        let mut all = json!({ "input": 10, "output": 2, "requests": 5 });
        for (key, value) in more.as_object().unwrap() {
            all[key] = value.clone();
        }
        read(all)
    }

    #[test]
    fn every_form_of_arrival_is_taken() {
        for options in [
            json!({ "concurrency": 4, "ramp": 2 }),
            json!({ "rate": 3, "arrivals": "constant", "max_concurrency": 8 }),
            json!({ "rate": 3, "burstiness": 0.5 }),
            json!({ "rate": 3, "arrivals": "gamma", "burstiness": 0.5 }),
            json!({ "steps": [{ "rate": 1, "seconds": 2 }, { "rate": 0, "seconds": 1 }], "arrivals": "constant" }),
            json!({ "steps": [{ "concurrency": 1, "seconds": 2 }, { "concurrency": 3, "seconds": 1 }] }),
            json!({ "trace": "t.jsonl", "input": null, "output": null }),
            json!({ "concurrency": 1, "prompts": "p.txt", "input": null, "requests": null }),
        ] {
            with(options.clone())
                .check()
                .unwrap_or_else(|fault| panic!("{options}: {fault}"));
        }
    }

    #[test]
    fn what_does_not_go_together_is_named_with_a_remedy() {
        for (options, part) in [
            (json!({}), "does not say when requests come"),
            (
                json!({ "concurrency": 1, "rate": 1 }),
                "`concurrency` and `rate` exclude",
            ),
            (json!({ "concurrency": 0 }), "`concurrency` is 0"),
            (
                json!({ "concurrency": 1, "burstiness": 1 }),
                "`burstiness` has no meaning",
            ),
            (
                json!({ "concurrency": 1, "max_concurrency": 1 }),
                "`max_concurrency` has no meaning",
            ),
            (json!({ "rate": 1, "ramp": 1 }), "`ramp` has no meaning"),
            (json!({ "rate": -1 }), "`rate` is -1"),
            (json!({ "rate": 1, "arrivals": "gamma" }), "`burstiness` is missing"),
            (
                json!({ "rate": 1, "arrivals": "poisson", "burstiness": 2 }),
                "`burstiness` belongs",
            ),
            (json!({ "rate": 1, "burstiness": 0 }), "`burstiness` is 0"),
            (json!({ "concurrency": 1, "requests": null }), "has no end"),
            (json!({ "concurrency": 1, "requests": 0 }), "`requests` is 0"),
            (json!({ "concurrency": 1, "duration": -1 }), "`duration` is -1"),
            (json!({ "concurrency": 1, "timeout": 0 }), "`timeout` is 0"),
            (json!({ "concurrency": 1, "input": null }), "`input` is missing"),
            (json!({ "concurrency": 1, "input": 0 }), "`input` reaches from 0"),
            (json!({ "concurrency": 1, "warmup": {} }), "`warmup` needs either"),
            (
                json!({ "concurrency": 1, "warmup": { "requests": 1, "seconds": 1 } }),
                "`warmup` needs either",
            ),
            (json!({ "concurrency": 1, "repeats": 0 }), "`repeats` is 0"),
            (
                json!({ "concurrency": 1, "price_per_hour": -2 }),
                "`price_per_hour` is -2",
            ),
            (json!({ "trace": "t" }), "`input` and `trace` exclude"),
            (json!({ "steps": [] }), "`steps` is empty"),
            (json!({ "steps": [{ "seconds": 1 }] }), "`steps[0]` needs either"),
            (
                json!({ "steps": [{ "rate": 1, "seconds": 1 }, { "concurrency": 1, "seconds": 1 }] }),
                "mixes rates and concurrencies",
            ),
            (
                json!({ "concurrency": 1, "prompts": "p", "shared_prefix": 4 }),
                "`shared_prefix` and `prompts`",
            ),
            (
                json!({ "concurrency": 1, "precision": { "metric": "ttft_ms", "statistic": "mean", "within": 5 } }),
                "`precision.within` is 5",
            ),
        ] {
            let fault = with(options.clone()).check().unwrap_err();
            assert!(
                fault.message.contains(part) && fault.hint.is_some(),
                "{options}: {fault}"
            );
        }
    }

    #[test]
    fn a_load_that_waits_for_its_interval_ends_all_the_same() {
        let within = json!({ "metric": "ttft_ms", "statistic": "p50", "within": 0.1 });
        let stop = |more: Value| with(more).stop(None).unwrap();
        let unbounded = stop(json!({ "concurrency": 1, "requests": null, "precision": within }));
        assert_eq!(
            (unbounded.requests, unbounded.duration),
            (None, Some(Duration::from_secs(600)))
        );
        let explain_by_bound = stop(json!({ "concurrency": 1, "requests": 9, "precision": within }));
        assert_eq!((explain_by_bound.requests, explain_by_bound.duration), (Some(9), None));
        let prompts = read(json!({ "concurrency": 1, "prompts": "p" })).stop(Some(7)).unwrap();
        assert_eq!((prompts.requests, prompts.duration), (Some(7), None));
    }
}
