//! Prompts of exactly N tokens, for probes by hand.

use rhai::Map;
use rhai::plugin::*;
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Kind, Result};
use crate::prompt::{Ask, Content, Origin, PromptForm};
use crate::script::{self, Caught, Host, host, to_script};

/// The longest prompt that a script gets in hand; engines are sent longer ones without its seeing them.
const LONGEST: usize = 1_000_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wishes {
    tokenizer: Option<String>,
    model: Option<String>,
    vocabulary: Option<u32>,
    form: Option<PromptForm>,
    chat: bool,
    shared_prefix: usize,
    seed: Option<u64>,
}

/// A prompt as a script sees it.
#[derive(Debug, Serialize)]
struct Made {
    ids: Option<Vec<u32>>,
    text: Option<String>,
    count: usize,
}

impl Wishes {
    fn origin(&self, host: &Host) -> Result<Origin> {
        match (self.tokenizer.as_ref().or(self.model.as_ref()), self.vocabulary) {
            (Some(name), None) => {
                let name = host.permits.check_model(name, &host.settings.root())?;
                Ok(Origin::Tokenizer(name))
            }
            (None, Some(size)) => Ok(Origin::Vocabulary(size)),
            (None, None) => Err(Fault::usage("a prompt needs to know its model")
                .hint("give `model` or `tokenizer`, or `vocabulary`, the number of token ids")),
            (Some(_), Some(_)) => Err(Fault::usage("`vocabulary` is for models without a tokenizer")
                .hint("leave out `vocabulary`, or `model` and `tokenizer`")),
        }
    }
}

fn make(host: &Host, tokens: i64, wishes: &Wishes) -> Result<Made> {
    let tokens = usize::try_from(tokens)
        .ok()
        .filter(|&tokens| tokens > 0)
        .ok_or_else(|| Fault::usage(format!("a prompt of {tokens} tokens is impossible")).hint("ask for at least 1"))?;
    if tokens > LONGEST {
        let message = format!("a prompt of {tokens} tokens is too long for a script, which may hold {LONGEST}");
        return Err(Fault::new(Kind::Limit, message).hint("let `engine.probe` make and send it"));
    }
    let ask = Ask {
        tokens,
        form: wishes.form.unwrap_or(PromptForm::Tokens),
        chat: wishes.chat,
        shared_prefix: wishes.shared_prefix,
    };
    let seed = wishes.seed.unwrap_or(host.settings.seed);
    let prompts = host.tasks.wait(host.prompts.prompts(&wishes.origin(host)?, seed))?;
    if let Some(why) = prompts.chat_unknown().filter(|_| ask.chat) {
        return Err(Fault::usage(format!("a chat message cannot be counted: {why}")));
    }
    let prompt = prompts.make(&ask)?;
    let (ids, text) = match prompt.content {
        Content::Tokens(ids) => (Some(ids), None),
        Content::Text(text) => (None, Some(text)),
    };
    Ok(Made {
        ids,
        text,
        count: prompt.count,
    })
}

/// Prompts of exactly N tokens.
#[export_module]
pub mod prompt {
    /// A prompt of exactly so many tokens (1 to 1,000,000), as a map of `ids` (token ids), `text`, of which one is `()`, and `count`.
    /// Each call gives another prompt, different from its first token on, so that no engine answers it from its prefix cache.
    ///
    /// Options: `model` or `tokenizer` (a folder or file with `tokenizer.json` below the script's folder or one that the user allowed with
    /// `--allow mount=DIR`, or a model of the Hugging Face hub), or instead
    /// `vocabulary` (how many token ids there are); `form`: `"tokens"` (default) or `"text"`, which is proven to re-encode to
    /// that number, special tokens included; `chat` (false): the text becomes the content of one user message, and the chat template
    /// counts; `shared_prefix` (0): tokens at the start that all prompts of one seed have in common; `seed` (that of the run).
    ///
    /// # Errors
    ///
    /// `usage` when fewer tokens are asked for than what the engine adds needs (the hint has the smallest number), or text without a
    /// tokenizer; `missing` when there is no tokenizer; `not_allowed` for a file or folder elsewhere; `limit` for more than 1,000,000 tokens.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let one = prompt::tokens(512, #{ vocabulary: 32000, seed: 1 });
    /// let two = prompt::tokens(512, #{ vocabulary: 32000, seed: 1 });
    /// assert(one.ids.len() == 512 && one.count == 512);
    /// assert(one.ids[0] != two.ids[0]);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn tokens(context: NativeCallContext, n: i64, options: Map) -> Caught<Dynamic> {
        let wishes: Wishes = script::options(options)?;
        Ok(to_script(&make(&host(&context), n, &wishes)?)?)
    }
}
