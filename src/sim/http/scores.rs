//! Log-probabilities as vLLM gives them with a whole completion, of a made-up model: each token has one most likely
//! successor. An fp8 KV cache changes them a little, and every fiftieth successor.

use serde_json::{Map, Value, json};

use crate::sim::tokens::output_token_id;

/// The log-probabilities of one request.
pub(super) struct Scores {
    /// Ids of the prompt.
    pub(super) prompt: Vec<u32>,
    /// Whether its tokens are scored too.
    pub(super) of_prompt: bool,
    /// Whether token ids are returned.
    pub(super) ids: bool,
    pub(super) fp8: bool,
}

impl Scores {
    /// Adds the log-probabilities of `tokens` generated tokens, and those of the prompt.
    pub(super) fn add_to(&self, choice: &mut Value, tokens: u64) {
        let mut before = self.prompt.last().copied().unwrap_or_default();
        let (mut ids, mut logprobs) = (Vec::new(), Vec::new());
        for _ in 0..tokens {
            let (id, logprob) = self.successor(before);
            ids.push(id);
            logprobs.push(logprob);
            before = id;
        }
        choice["logprobs"] = json!({
            "tokens": ids.iter().map(|id| format!(" w{id}")).collect::<Vec<_>>(), "token_logprobs": logprobs,
        });
        if self.ids {
            choice["token_ids"] = json!(ids);
            choice["prompt_token_ids"] = json!(self.prompt);
        }
        if self.of_prompt {
            let rest = self.prompt.windows(2).map(|pair| self.ranked(pair[0], pair[1]));
            choice["prompt_logprobs"] = std::iter::once(Value::Null).chain(rest).collect();
        }
    }

    /// The most likely token after another one.
    fn successor(&self, before: u32) -> (u32, f64) {
        let usual = output_token_id(before.into(), 1);
        if !self.fp8 {
            return (usual, -f64::from(usual % 97 + 1) / 200.0);
        }
        let other = usual % 50 == 7;
        let id = if other {
            output_token_id(before.into(), 2)
        } else {
            usual
        };
        (id, -f64::from(usual % 97 + 1) / 200.0 * 1.05)
    }

    /// A token of the prompt after another one, and the most likely one where it is not that.
    fn ranked(&self, before: u32, token: u32) -> Value {
        let (best, logprob) = self.successor(before);
        let entry = |logprob: f64, rank: u32| json!({ "logprob": logprob, "rank": rank, "decoded_token": null });
        let mut all = Map::from_iter([(best.to_string(), entry(logprob, 1))]);
        if token != best {
            all.insert(token.to_string(), entry(logprob - 3.0, 2));
        }
        all.into()
    }
}
