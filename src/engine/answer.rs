//! Asks an engine for tokens and their log-probabilities, in the way that its adapter states.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::adapter::{Answer, AnswerRequest, Token};
use super::lifecycle::engine::Engine;
use super::lifecycle::memory::end_requests;
use super::lifecycle::options::seconds;
use super::lifecycle::state::Health;
use super::send::{most_tokens, running_for_prompt};
use crate::fault::{Fault, Kind, Result};
use crate::prompt::Content;
use crate::run::Limits;

/// Options of `engine.answer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerOptions {
    /// Most tokens to generate.
    pub output: u64,
    /// Ids of tokens to score instead.
    pub tokens: Vec<u32>,
    /// Timeout of each request in seconds.
    pub timeout: f64,
}

impl Default for AnswerOptions {
    fn default() -> Self {
        Self {
            output: 16,
            tokens: Vec::new(),
            timeout: 600.0,
        }
    }
}

/// Asks for the most likely tokens after a prompt, or for the log-probabilities of given ones. Starts the engine if
/// needed.
///
/// # Errors
///
/// `usage` if the adapter or the server has no log-probabilities; `engine` if no start serves the request, or the answer is
/// of something else; those of the adapter.
pub fn answer(engine: &Engine, prompt: &Content, options: &AnswerOptions) -> Result<Answer> {
    seconds("timeout", options.timeout)?;
    // To score tokens, servers take them as a part of the prompt, and generate one more.
    let output = match options.tokens.len() as u64 {
        0 => options.output,
        given => given + 1,
    };
    let point = Limits::new(most_tokens(prompt), output, 1).point()?;
    if !options.tokens.is_empty() && matches!(prompt, Content::Text(_)) {
        return Err(Fault::usage("`tokens` are ids, and the prompt before them is a text")
            .hint("give its ids, as `prompt` of an earlier answer has them"));
    }
    let mut live = engine.lock();
    let running = running_for_prompt(engine, &mut live, Limits::of_point(&point)?)?;
    let mut launched = engine.adapter_options(running.limits);
    launched["model"] = json!(running.info.model);
    let request = AnswerRequest {
        prompt,
        output: options.output,
        tokens: &options.tokens,
        timeout: options.timeout,
    };
    let base = running.server.base_url();
    let found = match engine.adapter.answer(base, &launched, running.key.as_ref(), &request) {
        Ok(Some(answer)) => checked(answer, &options.tokens),
        Ok(None) => {
            let none = format!("the adapter `{}` asks for no log-probabilities", engine.name());
            Err(Fault::usage(none).hint("let it export `answer(engine, request)`, as `std/engines` describes it"))
        }
        Err(fault) => Err(fault),
    };
    // The server may be gone.
    live.health = Health::after(found.is_ok());
    end_requests(engine, &mut live, found.is_ok())?;
    found
}

/// The answer, if it has a log-probability for each token, and is of the tokens that were asked for.
fn checked(answer: Answer, asked: &[u32]) -> Result<Answer> {
    let Answer {
        tokens, logprobs, top, ..
    } = &answer;
    let generated = asked.is_empty();
    let of_others = tokens.len() != asked.len() || tokens.iter().zip(asked).any(|(one, id)| *one != Token::Id(*id));
    let wrong = if !generated && of_others {
        "log-probabilities of other tokens than those that were asked for".to_owned()
    } else if logprobs.len() != tokens.len() || !(generated && top.is_empty() || top.len() == tokens.len()) {
        let (count, scores, best) = (tokens.len(), logprobs.len(), top.len());
        format!("{scores} log-probabilities and {best} most likely tokens for {count} tokens")
    } else if let Some(value) = logprobs.iter().find(|value| !value.is_finite() || **value > ROUNDING) {
        format!("{value} as a log-probability")
    } else {
        return Ok(answer);
    };
    Err(Fault::new(Kind::Engine, format!("the engine gave {wrong}")))
}

/// The largest log-probability that rounding may give.
const ROUNDING: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_other_tokens_are_refused() {
        let answer = |tokens: &[u32], logprobs: &[f64]| Answer {
            prompt: vec![],
            tokens: tokens.iter().map(|id| Token::Id(*id)).collect(),
            logprobs: logprobs.to_vec(),
            top: tokens.iter().map(|id| Token::Id(*id)).collect(),
        };
        for asked in [&[1, 2][..], &[]] {
            assert!(checked(answer(&[1, 2], &[-0.5, 0.0]), asked).is_ok());
        }
        for (tokens, logprobs) in [
            (&[1, 3][..], &[-0.5, -1.0][..]),
            (&[1, 2], &[-0.5]),
            (&[1, 2], &[-0.5, 0.5]),
        ] {
            let refused = checked(answer(tokens, logprobs), &[1, 2]).unwrap_err();
            assert_eq!(refused.kind, Kind::Engine, "{refused}");
        }
    }
}
