//! Options of `engine.load`: what they must be, and the plan that follows from them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};
use crate::load::figures::Slo;
use crate::load::plan::{Arrivals, Length, Pattern, Precision, Profile, Stop, Trace, Warmup};

/// Requests at once that an engine is started for, where an open loop says nothing: the default of vLLM's `max_num_seqs` on most devices.
const AT_ONCE: u64 = 256;

/// Seconds after which a load ends whose interval does not become narrow, where no other end is given.
const CEILING: f64 = 600.0;

/// The most repeats.
const REPEATS: u64 = 1000;

/// What `engine.load` is to do. Exactly one of `concurrency`, `rate`, `steps` and `trace` says when requests come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadOptions {
    /// Closed loop: requests at once.
    pub concurrency: Option<u64>,
    /// Seconds over which the slots of a closed loop are opened, evenly; 0 without it.
    pub ramp: Option<f64>,
    /// Open loop: requests a second.
    pub rate: Option<f64>,
    /// How the requests of an open loop follow each other; `poisson` without it, `gamma` where `burstiness` is given.
    pub arrivals: Option<ArrivalWord>,
    /// Shape of the gaps of `gamma`: 1 is a Poisson process, less comes in bursts.
    pub burstiness: Option<f64>,
    /// Open loop and trace: no more than so many at once; one that is due then waits.
    pub max_concurrency: Option<u64>,
    /// Rates or concurrencies, one after the other.
    pub steps: Option<Vec<StepOption>>,
    /// A file of arrivals, with lengths.
    pub trace: Option<String>,
    /// Tokens of each prompt; with `prompts`, of the longest one.
    pub input: Option<Length>,
    /// Tokens of each answer.
    pub output: Option<Length>,
    /// A file of prompts.
    pub prompts: Option<String>,
    /// Tokens at the start that all prompts share; 0 without it: no two begin alike.
    pub shared_prefix: Option<u64>,
    /// Requests in all, the warm-up not counted.
    pub requests: Option<u64>,
    /// Seconds after which what is unfinished is cut off, the warm-up not counted.
    pub duration: Option<f64>,
    /// Ends once the interval of a latency is narrow enough.
    pub precision: Option<Precision>,
    /// What comes first and is in no figure.
    pub warmup: Option<WarmupOption>,
    /// How often it is all done; 1 without it.
    pub repeats: Option<u64>,
    /// Seconds that each request may take; without it ten times what such a request usually takes, at least a minute.
    pub timeout: Option<f64>,
    /// Seconds after which a load is given up in which nothing runs and all that is unfinished waits, by the engine's metrics; 20 without it.
    pub stall: Option<f64>,
    /// Of arrivals and lengths; the run's own without it. Each repeat takes the next.
    pub seed: Option<u64>,
    /// What a request must meet to be a good one.
    pub slo: Option<Slo>,
    /// What the devices cost, in dollars an hour, all together.
    pub price_per_hour: Option<f64>,
    /// Looks at the engine's metrics a second; 10 without it.
    pub metrics_hz: Option<f64>,
}

/// How the requests of an open loop follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalWord {
    /// Evenly.
    Constant,
    /// Independently.
    Poisson,
    /// By `burstiness`.
    Gamma,
}

/// One step: either a rate or a concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOption {
    /// Requests a second.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Requests at once.
    #[serde(default)]
    pub concurrency: Option<u64>,
    /// How long it lasts.
    pub seconds: f64,
}

/// How long the warm-up is: either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WarmupOption {
    /// So many requests.
    pub requests: Option<u64>,
    /// What is issued in so many seconds.
    pub seconds: Option<f64>,
}

impl LoadOptions {
    /// Refuses what cannot be, before any file is read or anything is started.
    ///
    /// # Errors
    ///
    /// `usage`, with what to give instead.
    pub fn check(&self) -> Result<()> {
        self.check_arrivals()?;
        self.check_lengths()?;
        self.warmup()?;
        self.ceiling(None)?;
        for (name, given) in [
            ("timeout", self.timeout),
            ("duration", self.duration),
            ("stall", self.stall),
        ] {
            if let Some(seconds) = given
                && time(name, seconds)?.is_zero()
            {
                return Err(Fault::usage(format!("option `{name}` is 0 seconds")).hint("leave it out, or give more"));
            }
        }
        for (name, given) in [
            ("requests", self.requests),
            ("max_concurrency", self.max_concurrency),
            ("repeats", self.repeats),
        ] {
            if given == Some(0) {
                return Err(
                    Fault::usage(format!("option `{name}` is 0")).hint("give a number from 1 up, or leave it out")
                );
            }
        }
        if self.repeats() > REPEATS {
            return Err(
                Fault::usage(format!("option `repeats` is {}", self.repeats())).hint(format!("at most {REPEATS}"))
            );
        }
        if let Some(price) = self
            .price_per_hour
            .filter(|price| !(price.is_finite() && *price >= 0.0))
        {
            return Err(
                Fault::usage(format!("option `price_per_hour` is {price}")).hint("give dollars an hour, from 0 up")
            );
        }
        self.precision.map_or(Ok(()), |precision| precision.check())
    }

    /// When requests come. `trace` is what the file has that the option names.
    ///
    /// # Errors
    ///
    /// `usage` for what cannot be.
    pub fn arrivals(&self, trace: Option<Trace>) -> Result<Arrivals> {
        if let Some(trace) = trace {
            return Ok(Arrivals::Replay(trace));
        }
        if let Some(concurrency) = self.concurrency {
            let ramp = self.ramp.map_or(Ok(Duration::ZERO), |seconds| time("ramp", seconds))?;
            return Ok(Arrivals::Closed { concurrency, ramp });
        }
        let profile = match (self.rate, &self.steps) {
            (Some(rate), _) => Profile::constant(rate)?,
            (None, Some(steps)) => match stepped(steps)? {
                Steps::Rates(rates) => Profile::steps(rates)?,
                Steps::Concurrencies(steps) => return Ok(Arrivals::ClosedSteps(steps)),
            },
            (None, None) => return Err(no_arrivals()),
        };
        let pattern = self.pattern()?;
        Ok(Arrivals::Open { profile, pattern })
    }

    /// What is in no figure.
    ///
    /// # Errors
    ///
    /// `usage` where both of its forms are given, or none.
    pub fn warmup(&self) -> Result<Warmup> {
        match self.warmup {
            None => Ok(Warmup::None),
            Some(WarmupOption {
                requests: Some(0),
                seconds: None,
            }) => Ok(Warmup::None),
            Some(WarmupOption {
                requests: Some(requests),
                seconds: None,
            }) => Ok(Warmup::Requests(requests)),
            Some(WarmupOption {
                requests: None,
                seconds: Some(seconds),
            }) => Ok(match time("warmup.seconds", seconds)? {
                Duration::ZERO => Warmup::None,
                time => Warmup::Time(time),
            }),
            Some(_) => Err(Fault::usage("option `warmup` needs either `requests` or `seconds`")
                .hint("such as `warmup: #{ seconds: 10 }`")),
        }
    }

    /// When it is over. `prompts` is how many the file has that the option names: without another end, each is sent once.
    ///
    /// # Errors
    ///
    /// `usage` for a load without an end.
    pub fn stop(&self, prompts: Option<u64>) -> Result<Stop> {
        let duration = match self.duration {
            Some(seconds) => Some(time("duration", seconds)?),
            None => self.ceiling(prompts)?,
        };
        let bounded = duration.is_some() || self.endless() || self.precision.is_some();
        Ok(Stop {
            requests: self.requests.or(prompts.filter(|_| !bounded)),
            duration,
            precision: self.precision,
        })
    }

    /// How often it is all done.
    #[must_use]
    pub fn repeats(&self) -> u64 {
        self.repeats.unwrap_or(1)
    }

    /// The most that are to be under way at once, as far as an engine must be started for it.
    #[must_use]
    pub fn at_once(&self, arrivals: &Arrivals) -> u64 {
        arrivals.at_once().or(self.max_concurrency).unwrap_or(AT_ONCE)
    }

    /// The end of a load that is given none of its own; none where one is given.
    fn ceiling(&self, prompts: Option<u64>) -> Result<Option<Duration>> {
        if self.requests.is_some() || self.duration.is_some() || self.endless() {
            return Ok(None);
        }
        if self.precision.is_some() {
            return Ok(Some(Duration::from_secs_f64(CEILING)));
        }
        if prompts.is_some() || self.prompts.is_some() {
            return Ok(None);
        }
        Err(Fault::usage("the load has no end").hint("give `requests`, `duration` (seconds) or `precision`"))
    }

    /// Whether the arrivals come to an end by themselves.
    fn endless(&self) -> bool {
        self.steps.is_some() || self.trace.is_some()
    }

    fn check_arrivals(&self) -> Result<()> {
        let given: Vec<&str> = [
            ("concurrency", self.concurrency.is_some()),
            ("rate", self.rate.is_some()),
            ("steps", self.steps.is_some()),
            ("trace", self.trace.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .collect();
        match given[..] {
            [] => return Err(no_arrivals()),
            [_] => {}
            [one, other, ..] => {
                return Err(Fault::usage(format!("options `{one}` and `{other}` exclude each other"))
                    .hint("`concurrency` is a closed loop, `rate` an open one, `steps` either over time, `trace` a file of arrivals"));
            }
        }
        if self.concurrency == Some(0) {
            return Err(Fault::usage("option `concurrency` is 0")
                .hint("give the requests that shall be under way at once, from 1 up"));
        }
        let rates = self.rate.is_some() || self.steps.iter().flatten().any(|step| step.rate.is_some());
        for (name, given, fits, of) in [
            ("ramp", self.ramp.is_some(), self.concurrency.is_some(), "`concurrency`"),
            (
                "arrivals",
                self.arrivals.is_some(),
                rates,
                "`rate`, or `steps` of rates",
            ),
            (
                "burstiness",
                self.burstiness.is_some(),
                rates,
                "`rate`, or `steps` of rates",
            ),
            (
                "max_concurrency",
                self.max_concurrency.is_some(),
                rates || self.trace.is_some(),
                "`rate`, `steps` of rates or `trace`",
            ),
        ] {
            if given && !fits {
                return Err(
                    Fault::usage(format!("option `{name}` has no meaning here")).hint(format!("it belongs to {of}"))
                );
            }
        }
        // What a file says is not needed to see whether the rest is right.
        if self.trace.is_none() {
            self.arrivals(None)?;
        }
        Ok(())
    }

    fn check_lengths(&self) -> Result<()> {
        let wrong = |message: String, hint: &str| Err(Fault::usage(message).hint(hint));
        let twice = |name: &str| format!("options `{name}` and `trace` exclude each other");
        if self.trace.is_some() {
            for (name, given) in [
                ("input", self.input.is_some()),
                ("output", self.output.is_some()),
                ("prompts", self.prompts.is_some()),
            ] {
                if given {
                    return wrong(twice(name), "the lengths are those of the trace");
                }
            }
        }
        if let (Some(_), Some(Length::Drawn(_))) = (&self.prompts, self.input) {
            return wrong(
                "option `input` cannot be drawn where `prompts` are given".to_owned(),
                "with `prompts`, it is the tokens of the longest prompt, for a model whose tokenizer is not known",
            );
        }
        if self.prompts.is_some() && self.shared_prefix.is_some_and(|tokens| tokens > 0) {
            return wrong(
                "options `shared_prefix` and `prompts` exclude each other".to_owned(),
                "prompts of a file are sent as they are",
            );
        }
        for (name, given, needed) in [
            ("input", self.input, self.trace.is_none() && self.prompts.is_none()),
            ("output", self.output, self.trace.is_none() && self.prompts.is_none()),
        ] {
            match given {
                Some(length) => length.check(name)?,
                None if needed => {
                    return Err(Fault::usage(format!("option `{name}` is missing"))
                        .hint("give a number of tokens, or a distribution such as `#{ uniform: [128, 512] }`"));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn pattern(&self) -> Result<Pattern> {
        match (self.arrivals, self.burstiness) {
            (Some(ArrivalWord::Constant), None) => Ok(Pattern::Constant),
            (Some(ArrivalWord::Poisson) | None, None) => Ok(Pattern::POISSON),
            (Some(ArrivalWord::Gamma) | None, Some(burstiness)) => Pattern::gamma(burstiness),
            (Some(ArrivalWord::Gamma), None) => Err(Fault::usage("option `burstiness` is missing")
                .hint("it is the shape of `gamma`: 1 is a Poisson process")),
            (Some(ArrivalWord::Constant | ArrivalWord::Poisson), Some(_)) => {
                Err(Fault::usage("option `burstiness` belongs to `arrivals: \"gamma\"`")
                    .hint("leave one of the two out"))
            }
        }
    }
}

enum Steps {
    Rates(Vec<(f64, Duration)>),
    Concurrencies(Vec<(u64, Duration)>),
}

/// The steps as either of their forms.
fn stepped(steps: &[StepOption]) -> Result<Steps> {
    let wrong = |index: usize, why: &str| {
        Fault::usage(format!("option `steps[{index}]` {why}"))
            .hint("each step is `#{ rate, seconds }`, or each is `#{ concurrency, seconds }`")
    };
    let (mut rates, mut concurrencies) = (Vec::new(), Vec::new());
    for (index, step) in steps.iter().enumerate() {
        let lasts = time(&format!("steps[{index}].seconds"), step.seconds)?;
        if lasts.is_zero() {
            return Err(wrong(index, "lasts 0 seconds"));
        }
        match (step.rate, step.concurrency) {
            (Some(rate), None) => rates.push((rate, lasts)),
            (None, Some(0)) => return Err(wrong(index, "has no concurrency")),
            (None, Some(concurrency)) => concurrencies.push((concurrency, lasts)),
            _ => return Err(wrong(index, "needs either `rate` or `concurrency`")),
        }
    }
    match (rates.is_empty(), concurrencies.is_empty()) {
        (false, true) => Ok(Steps::Rates(rates)),
        (true, false) => Ok(Steps::Concurrencies(concurrencies)),
        (true, true) => Err(Fault::usage("option `steps` is empty").hint("such as `[#{ rate: 2, seconds: 30 }]`")),
        (false, false) => Err(wrong(1, "mixes rates and concurrencies")),
    }
}

fn no_arrivals() -> Fault {
    Fault::usage("the load does not say when requests come")
        .hint("give one of `concurrency`, `rate` (requests a second), `steps` and `trace` (a file)")
}

/// A time that is not negative and has an end.
pub(super) fn time(name: &str, seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|_| seconds <= 1e7)
        .ok_or_else(|| Fault::usage(format!("option `{name}` is {seconds}")).hint("give seconds, from 0 to 10000000"))
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
        let bounded = stop(json!({ "concurrency": 1, "requests": 9, "precision": within }));
        assert_eq!((bounded.requests, bounded.duration), (Some(9), None));
        let prompts = read(json!({ "concurrency": 1, "prompts": "p" })).stop(Some(7)).unwrap();
        assert_eq!((prompts.requests, prompts.duration), (Some(7), None));
    }
}
