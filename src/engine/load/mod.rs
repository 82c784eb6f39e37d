//! Load: many requests over time on one engine, and what came of them in figures.
//!
//! `options` are the script's, `material` reads the files that they name; the plan that follows is `load::plan`'s. `larder` makes requests ahead,
//! `feed` gives them to the client, `conduct` runs it, `stall` says when nothing moves; `beside` looks at the engine meanwhile, `death` afterwards. `keep` writes each
//! request as it ends, `answer` puts together what the script gets.

mod answer;
mod beside;
mod conduct;
mod death;
mod feed;
mod keep;
mod larder;
mod material;
mod options;
mod pool;
mod session;
mod stall;

use serde_json::{Value, json};

pub use options::{ArrivalWord, LoadOptions, StepOption, WarmupOption};

use super::handle::{Ensured, Live, Trust};
use super::{Engine, Limits, ProbeOptions, RequestForm};
use crate::boundary::Point;
use crate::fault::{Fault, Kind, Result};
use crate::load::Outcome;
use crate::prompt::PromptForm;
use crate::run::Event;
use death::After;
use material::Material;
use session::Repeat;

impl Engine {
    /// Puts a load on the engine, which is started where needed, and tells what came of it. What the engine does to requests, its death included, is
    /// no error but told in the answer.
    ///
    /// # Errors
    ///
    /// `usage` for impossible options; `not_allowed` for a file that the user did not name; `engine` when no start serves such requests, or not one
    /// could be sent.
    pub fn load(&self, options: &LoadOptions) -> Result<Value> {
        options.check()?;
        let number = self.context.run.ordinal("load");
        let args = json!({ "engine": self.name(), "launch": self.options.shown(), "load": options });
        if let Some(answer) = self.context.run.replay("load", &args) {
            return Ok(answer);
        }
        let material = Material::read(options, &self.context.permits)?;
        let kind = || "load".to_owned();
        self.context.run.note(Event::Began {
            kind: kind(),
            args: args.clone(),
        })?;
        let answer = self.run_load(options, &material, number)?;
        self.context.run.note(Event::Done {
            kind: kind(),
            args,
            answer: answer.clone(),
        })?;
        Ok(answer)
    }

    fn run_load(&self, options: &LoadOptions, material: &Material, number: u64) -> Result<Value> {
        let mut live = self.lock();
        let asked = self.prepare_engine(&mut live, options, material)?;
        self.phase("probing", &described(options, &asked))?;
        self.begin_requests(&mut live)?;
        let limits = live.running.as_ref().and_then(|running| running.limits);
        let form = self.form_of(limits.as_ref(), asked.input, asked.output)?;
        self.prepare_prompts(&mut live, &form)?;
        if material.corpus.is_none() {
            self.settle_count(&mut live, &form, asked)?;
        }
        let session = self.session(&live, options, material, form, asked, number)?;
        let Some(running) = &live.running else {
            return Err(Fault::internal("a load on an engine that does not run"));
        };
        let cursor = running.server.cursor();
        let mut done: Vec<Repeat> = Vec::new();
        let mut after = After::Well;
        for repeat in 1..=options.repeats() {
            let offset = done.iter().map(|load| load.records.len()).sum();
            let load = self.once(running, &session, repeat, offset)?;
            after = self.look_after(running, &load.records, load.died, cursor)?;
            let given_up = load.given_up.is_some();
            done.push(load);
            if given_up || matches!(after, After::Dead(_)) {
                break;
            }
        }
        let records = || done.iter().flat_map(|load| &load.records);
        let whole = |outcome: &Outcome| *outcome == Outcome::Completed;
        let any = records().any(|record| whole(&record.outcome));
        let trust = match &after {
            // Nobody can tell what such an engine will do next.
            After::Well | After::Survived if done.last().is_some_and(|load| load.given_up.is_some()) => Trust::Lost,
            After::Dead(died) if died.exited() => Trust::Suspect,
            After::Dead(_) => Trust::Lost,
            After::Survived => Trust::Suspect,
            After::Well => Trust::after(records().all(|record| whole(&record.outcome))),
        };
        let died = match after {
            After::Dead(died) => Some(*died),
            _ => None,
        };
        let answer = self.answer(options, &session, done, died)?;
        live.trust = trust;
        self.end_requests(&mut live, any)?;
        Ok(answer)
    }

    /// Makes sure that the engine runs and serves the largest request, and gives what it must serve.
    fn prepare_engine(&self, live: &mut Live, options: &LoadOptions, material: &Material) -> Result<Limits> {
        let rough = material.limits(options, None, super::Protocol::OpenaiCompletions)?;
        let form = self.form_of(None, rough.input, rough.output)?;
        self.prepare_early(live, &form, rough)?;
        let prompts = live.prompting.as_ref().map(super::prompting::Prompting::prompts);
        let asked = material.limits(options, prompts, form.protocol)?;
        if let Ensured::Failed(failure) = self.ensure(live, asked)? {
            let message = failure.evidence.message.unwrap_or_default();
            return Err(
                Fault::new(Kind::Engine, format!("no start serves this load: {message}"))
                    .hint("probe the point first: its verdict says why"),
            );
        }
        Ok(asked)
    }

    /// Sends a small request before anything is measured, where nobody knows yet whether the engine counts text as we do, and learns from
    /// its count.
    fn settle_count(&self, live: &mut Live, form: &RequestForm, asked: Limits) -> Result<()> {
        let prompting = live.prompting.as_mut();
        if form.prompt != PromptForm::Text || prompting.is_none_or(|prompting| prompting.settle(form)) {
            return Ok(());
        }
        let (input, output) = (asked.input.min(SMALL.0), asked.output.min(SMALL.1));
        let point = small_point(input, output);
        let limits = live.running.as_ref().and_then(|running| running.limits);
        let form = self.form_of(limits.as_ref(), input, output)?;
        self.put(live, &form, &point, Limits::of_point(&point)?, ProbeOptions::default())?;
        Ok(())
    }
}

/// Tokens of the prompt and of the answer of a request that is sent to see how an engine counts.
const SMALL: (u64, u64) = (64, 4);

fn small_point(input: u64, output: u64) -> Point {
    Point::default()
        .with("input", input as i64)
        .with("output", output as i64)
}

/// What a load is, in a few words.
fn described(options: &LoadOptions, asked: &Limits) -> String {
    let how = match (options.concurrency, options.rate) {
        (Some(concurrency), _) => format!("{concurrency} at once"),
        (None, Some(rate)) => format!("{rate} a second"),
        (None, None) if options.trace.is_some() => "as in its trace".to_owned(),
        (None, None) => "in steps".to_owned(),
    };
    let many = options
        .requests
        .map_or_else(String::new, |requests| format!(" of {requests} requests"));
    format!("load{many}, {how}, up to {} + {} tokens", asked.input, asked.output)
}
