//! Prompts of exactly N tokens.

use rhai::Map;
use rhai::plugin::*;
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Kind, Result};
use crate::prompt::{Content, Origin, PromptForm, PromptSpec};
use crate::script::{self, Caught, Host, host, to_script};

/// Longest prompt that a script can hold, in tokens. `engine.probe` sends longer ones.
const MAX_TOKENS: usize = 1_000_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PromptOptions {
    tokenizer: Option<String>,
    model: Option<String>,
    vocabulary: Option<u32>,
    form: Option<PromptForm>,
    chat: bool,
    shared_prefix: usize,
    seed: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Made {
    ids: Option<Vec<u32>>,
    text: Option<String>,
    count: usize,
}

impl PromptOptions {
    fn origin(&self, host: &Host) -> Result<Origin> {
        match (self.tokenizer.as_ref().or(self.model.as_ref()), self.vocabulary) {
            (Some(name), None) => {
                let name = host.permits.check_model(name, &host.settings.root())?;
                Ok(Origin::Tokenizer(name))
            }
            (None, Some(size)) => Ok(Origin::Vocabulary(size)),
            (None, None) => Err(Fault::usage("a prompt needs a model or a vocabulary")
                .hint("give `model` or `tokenizer`, or `vocabulary` (the number of token ids)")),
            (Some(_), Some(_)) => Err(Fault::usage("`vocabulary` is for models without a tokenizer")
                .hint("leave out `vocabulary`, or `model` and `tokenizer`")),
        }
    }
}

fn make(host: &Host, tokens: i64, wanted: &PromptOptions) -> Result<Made> {
    let tokens = usize::try_from(tokens)
        .ok()
        .filter(|&tokens| tokens > 0)
        .ok_or_else(|| Fault::usage(format!("a prompt of {tokens} tokens is impossible")).hint("ask for at least 1"))?;
    if tokens > MAX_TOKENS {
        let message = format!("a prompt of {tokens} tokens is too long for a script, which may hold {MAX_TOKENS}");
        return Err(Fault::new(Kind::Limit, message).hint("let `engine.probe` make and send it"));
    }
    let ask = PromptSpec {
        tokens,
        form: wanted.form.unwrap_or(PromptForm::Tokens),
        chat: wanted.chat,
        shared_prefix: wanted.shared_prefix,
    };
    let seed = wanted.seed.unwrap_or(host.settings.seed);
    let prompts = host.tasks.wait(host.prompts.prompts(&wanted.origin(host)?, seed))?;
    if let Some(why) = prompts.chat_unknown().filter(|_| ask.chat) {
        return Err(Fault::usage(format!("a chat message cannot be counted: {why}")));
    }
    let (ids, text) = match prompts.make(&ask)? {
        Content::Tokens(ids) => (Some(ids), None),
        Content::Text(text) => (None, Some(text)),
    };
    Ok(Made {
        ids,
        text,
        count: ask.tokens,
    })
}

/// Prompts of exactly N tokens.
#[export_module]
pub mod prompt {
    /// A prompt of exactly `n` tokens (1 to 1,000,000), as a map of `ids` (token ids), `text`, one of which is `()`,
    /// and `count`. Each call returns another prompt, different from its first token on, so that no prefix cache can
    /// serve it.
    ///
    /// Options: `model` or `tokenizer` (a folder or file with `tokenizer.json` below the script's folder or one
    /// permitted with `--allow mount=DIR`, or a model of the Hugging Face hub), or instead `vocabulary` (the number of
    /// token ids); `form`: `"tokens"` (default) or `"text"`, which is verified to encode to exactly that number,
    /// including special tokens; `chat` (false): the text becomes the content of one user message, and the chat
    /// template counts; `shared_prefix` (0): tokens at the start that all prompts of the same seed share; `seed`
    /// (default: that of the run).
    ///
    /// # Errors
    ///
    /// `usage` if `n` is less than what the engine adds (the hint has the minimum), or for text without a tokenizer;
    /// `missing` if there is no tokenizer; `not_allowed` for a file or folder elsewhere; `limit` for more than
    /// 1,000,000 tokens.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let one = prompt::tokens(512, #{ vocabulary: 32000, seed: 1 });
    /// let two = prompt::tokens(512, #{ vocabulary: 32000, seed: 1 });
    /// assert(one.ids.len() == 512 && one.count == 512);
    /// assert(one.ids[0] != two.ids[0]);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn tokens(context: NativeCallContext, n: i64, options: Map) -> Caught<Dynamic> {
        let wanted: PromptOptions = script::options(options)?;
        Ok(to_script(&make(&host(&context), n, &wanted)?)?)
    }
}
