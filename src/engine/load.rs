//! Load: a closed loop of requests of one shape, and what it says in figures.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::counts::miscounted;
use super::handle::{Ensured, Trust};
use super::judge::clean;
use super::reported::Reported;
use super::{Engine, Limits, protocol};
use crate::boundary::Point;
use crate::fault::{Fault, Kind, Result};
use crate::load::{Answer, Ask, Loop, Make, Summary, Tally, closed};
use crate::run::Event;

/// What `engine.load` is to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadOptions {
    /// Requests at once.
    pub concurrency: u64,
    /// Requests in all.
    pub requests: u64,
    /// Tokens of each prompt.
    pub input: u64,
    /// Tokens of each answer.
    pub output: u64,
    /// Seconds after which what is unfinished is cut off.
    #[serde(default)]
    pub duration: Option<f64>,
    /// Seconds that each request may take.
    #[serde(default)]
    pub timeout: Option<f64>,
}

/// What came of a load. Latencies are those of completed requests, by the definitions of vLLM's bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadAnswer {
    /// Requests sent: completed + failed + cut_off.
    pub issued: u64,
    /// Requests that ended as they should, with the counts asked for.
    pub completed: u64,
    /// Requests that did not.
    pub failed: u64,
    /// Requests under way when the time was up.
    pub cut_off: u64,
    /// Seconds from the first request to the last end.
    pub duration: f64,
    /// Completed requests a second.
    pub request_throughput: f64,
    /// Tokens generated a second, by completed requests.
    pub output_throughput: f64,
    /// Tokens read and generated a second, by completed requests.
    pub total_token_throughput: f64,
    /// Time to first token.
    pub ttft_ms: Summary,
    /// Time per output token after the first.
    pub tpot_ms: Summary,
    /// Gaps between events that carry tokens, of all requests.
    pub itl_ms: Summary,
    /// From sending to the last token.
    pub e2el_ms: Summary,
}

impl Engine {
    /// Keeps `concurrency` requests under way until all have ended.
    ///
    /// # Errors
    ///
    /// `usage` for impossible options; `engine` when no start serves such requests.
    pub fn load(&self, options: LoadOptions) -> Result<Value> {
        let asked = Limits::of_point(&point(&options)?)?;
        if options.requests == 0 {
            return Err(Fault::usage("a load of 0 requests says nothing").hint("give `requests` from 1 up"));
        }
        let args = json!({ "engine": self.name(), "launch": self.options.shown(), "load": options });
        if let Some(answer) = self.context.run.replay("load", &args) {
            return Ok(answer);
        }
        let kind = || "load".to_owned();
        self.context.run.note(Event::Began {
            kind: kind(),
            args: args.clone(),
        })?;
        let tally = self.run_load(&options, asked)?;
        let answer =
            serde_json::to_value(figures(&tally, &asked)).map_err(|error| Fault::internal(error.to_string()))?;
        self.context.run.note(Event::Done {
            kind: kind(),
            args,
            answer: answer.clone(),
        })?;
        Ok(answer)
    }

    fn run_load(&self, options: &LoadOptions, asked: Limits) -> Result<Tally> {
        let seconds = |seconds: f64| {
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| Fault::usage(format!("`{seconds}` is no number of seconds")))
        };
        let limit = options.duration.map(seconds).transpose()?;
        let mut live = self.lock();
        let point = point(options)?;
        self.prepare_early(&mut live, &self.adapter.request(&point, None)?, asked)?;
        if let Ensured::Failed(failure) = self.ensure(&mut live, asked)? {
            let message = failure.evidence.message.unwrap_or_default();
            return Err(
                Fault::new(Kind::Engine, format!("no start serves this load: {message}"))
                    .hint("probe the point first: its verdict says why"),
            );
        }
        self.phase(
            "probing",
            &format!("load of {} requests, {} at once", options.requests, options.concurrency),
        )?;
        let limits = live.running.as_ref().and_then(|running| running.limits);
        let form = self.adapter.request(&point, limits.as_ref())?;
        self.prepare_prompts(&mut live, &form)?;
        let timeout = match options.timeout {
            Some(timeout) => seconds(timeout)?,
            None => live.pace.timeout(&asked),
        };
        self.begin_requests(&mut live)?;
        let (Some(running), Some(prompting)) = (&live.running, &live.prompting) else {
            return Err(Fault::internal("a load on an engine that does not run"));
        };
        let prompts = prompting.maker(&form, asked.input)?;
        let url = running.server.url(&form.path)?;
        let model = running.info.model.clone();
        let make: Make = Arc::new(move || {
            let ask = Ask {
                url: url.clone(),
                body: protocol::body(&form, &prompts()?, model.as_deref())?,
                timeout,
            };
            Ok((ask, protocol::decoder(form.protocol)))
        });
        let plan = Loop {
            concurrency: options.concurrency,
            requests: options.requests,
            limit,
        };
        let tally = self.context.tasks.wait(closed(&self.client, plan, make))?;
        live.trust = Trust::after(tally.answers.len() as u64 == tally.issued && tally.answers.iter().all(clean));
        self.end_requests(&mut live, tally.answers.iter().any(clean))?;
        Ok(tally)
    }
}

fn point(options: &LoadOptions) -> Result<Point> {
    let whole = |count: u64| i64::try_from(count).map_err(|_| Fault::usage(format!("`{count}` is too large")));
    Ok(Point::default()
        .with("input", whole(options.input)?)
        .with("output", whole(options.output)?)
        .with("concurrency", whole(options.concurrency)?))
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests and tokens")]
fn figures(tally: &Tally, asked: &Limits) -> LoadAnswer {
    let good: Vec<&Answer> = tally
        .answers
        .iter()
        .filter(|answer| clean(answer) && miscounted(answer, asked, 0, &Reported::default()).is_none())
        .collect();
    let duration = tally.duration.as_secs_f64();
    let rate = |count: u64| if duration > 0.0 { count as f64 / duration } else { 0.0 };
    let input: u64 = good.iter().filter_map(|answer| answer.counts.input).sum();
    let output: u64 = good.iter().filter_map(|answer| answer.counts.output).sum();
    let summary = |figure: &dyn Fn(&Answer) -> Option<f64>| {
        Summary::of(good.iter().filter_map(|answer| figure(answer)).collect())
    };
    let gaps: Vec<Vec<f64>> = good.iter().map(|answer| answer.timing.gaps_ms()).collect();
    LoadAnswer {
        issued: tally.issued,
        completed: good.len() as u64,
        failed: (tally.answers.len() - good.len()) as u64,
        cut_off: tally.issued - tally.answers.len() as u64,
        duration,
        request_throughput: rate(good.len() as u64),
        output_throughput: rate(output),
        total_token_throughput: rate(input + output),
        ttft_ms: summary(&|answer| answer.timing.ttft_ms()),
        tpot_ms: summary(&|answer| answer.timing.tpot_ms(answer.counts.output?)),
        itl_ms: Summary::of_groups(&gaps),
        e2el_ms: summary(&|answer| answer.timing.e2el_ms()),
    }
}
