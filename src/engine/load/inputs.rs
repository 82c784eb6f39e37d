//! Reads a load's input files (trace, prompts) and derives the request lengths.

use std::path::Path;
use std::sync::Arc;

use super::options::LoadOptions;
use crate::engine::{Limits, Protocol};
use crate::fault::{Fault, Result};
use crate::load::plan::{Arrivals, Corpus, Plan, Sizes, Trace};
use crate::prompt::Prompts;
use crate::runtime::Permits;

/// Upper estimate of the tokens that a chat template adds to a prompt.
const TEMPLATE: u64 = 256;

/// Arrivals and prompts of a load.
pub(super) struct LoadInputs {
    pub(super) arrivals: Arrivals,
    pub(super) corpus: Option<Arc<Corpus>>,
}

impl LoadInputs {
    /// Reads the files that the options name.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a file that the user did not name; `usage` for a missing or malformed file.
    pub(super) fn read(options: &LoadOptions, permits: &Permits) -> Result<Self> {
        let text = |name: &Option<String>, option: &str| {
            let read = |name: &String| permits.read_file(Path::new(name), option);
            name.as_ref().map(read).transpose()
        };
        let trace = text(&options.trace, "trace")?
            .map(|text| Trace::read(&text))
            .transpose()
            .map_err(|fault| in_file(fault, options.trace.as_deref()))?;
        let corpus = text(&options.prompts, "prompts")?
            .map(|text| Corpus::read(&text))
            .transpose()
            .map_err(|fault| in_file(fault, options.prompts.as_deref()))?;
        if let Some(corpus) = &corpus
            && options.output.is_none()
            && let Some(place) = corpus.prompts().iter().position(|written| written.output.is_none())
        {
            return Err(Fault::usage(format!(
                "prompt {} of the file does not say how long its answer is",
                place + 1
            ))
            .hint("give `output`, or `output` with each prompt"));
        }
        Ok(Self {
            arrivals: options.arrivals(trace)?,
            corpus: corpus.map(Arc::new),
        })
    }

    /// The plan. Counts the prompts of a file if `prompts` has a tokenizer.
    pub(super) fn plan(&self, options: &LoadOptions, prompts: Option<&Prompts>) -> Result<Plan> {
        let prompted = self.corpus.as_ref().map(|corpus| corpus.prompts().len() as u64);
        Ok(Plan {
            arrivals: self.arrivals.clone(),
            sizes: self.sizes(options, prompts)?,
            warmup: options.warmup()?,
            stop: options.stop(prompted)?,
        })
    }

    /// The limits that an engine must be started with.
    pub(super) fn limits(
        &self,
        options: &LoadOptions,
        prompts: Option<&Prompts>,
        protocol: Protocol,
    ) -> Result<Limits> {
        let sizes = self.sizes(options, prompts)?;
        let (mut input, output, mut total) = sizes.largest(&self.arrivals);
        if let Some(corpus) = &self.corpus {
            // A token of text has at least one byte.
            let bytes = || corpus.prompts().iter().map(|written| written.prompt.len() as u64).max();
            let counted = Some(input).filter(|input| *input > 0);
            let given = options.input.map(|length| length.bounds().1);
            let template = if protocol == Protocol::OpenaiChat { TEMPLATE } else { 0 };
            input = given.or(counted).or_else(bytes).unwrap_or(1) + template;
            total = input.saturating_add(output);
        }
        Ok(Limits {
            input,
            output,
            total,
            concurrency: options.planned_concurrency(&self.arrivals),
        })
    }

    fn sizes(&self, options: &LoadOptions, prompts: Option<&Prompts>) -> Result<Sizes> {
        let missing = |name: &str| Fault::usage(format!("option `{name}` is missing")).hint("give a number of tokens");
        if let Some(corpus) = &self.corpus {
            let lengths = corpus.prompts().iter().map(|written| {
                let counted = prompts.and_then(|prompts| prompts.count(&written.prompt)).transpose()?;
                Ok((counted.unwrap_or(0) as u64, written.output))
            });
            return Ok(Sizes::FromFile {
                prompts: lengths.collect::<Result<_>>()?,
                // Unused if every prompt has its own output length.
                output: options.output.unwrap_or(crate::load::plan::Length::Fixed(1)),
            });
        }
        if matches!(self.arrivals, Arrivals::Replay(_)) {
            return Ok(Sizes::FromTrace);
        }
        Ok(Sizes::Random {
            input: options.input.ok_or_else(|| missing("input"))?,
            output: options.output.ok_or_else(|| missing("output"))?,
        })
    }
}

fn in_file(fault: Fault, name: Option<&str>) -> Fault {
    match name {
        Some(name) => fault.while_doing(format!("`{name}`")),
        None => fault,
    }
}
