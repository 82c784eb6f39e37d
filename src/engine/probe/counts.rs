//! Counts the tokens of answers that the engine did not count.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::Response;
use serde_json::{Value, json};

use crate::engine::adapter::{Protocol, RequestForm};
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::state::Running;
use crate::engine::verdict::judge::succeeded;
use crate::fault::{Fault, Result};
use crate::load::RequestRecord;
use crate::prompt::Content;
use crate::{http, outside};

/// Timeout for a server to count the tokens of a prompt, and the number of prompts counted concurrently.
const COUNTING: Duration = Duration::from_secs(30);
const COUNTED_TOGETHER: usize = 32;

/// Counts the tokens of answers that the engine did not count, and records the method. `prompts` are the prompts of the
/// answers, in order.
///
/// # Errors
///
/// `missing` if neither the server nor a tokenizer can count a text prompt.
pub(crate) fn count_unreported(
    engine: &Engine,
    running: &Running,
    form: &RequestForm,
    prompts: &[Content],
    answers: &mut [RequestRecord],
) -> Result<()> {
    let mut how = BTreeSet::new();
    let uncounted: Vec<(&mut RequestRecord, &Content)> = answers
        .iter_mut()
        .zip(prompts)
        .filter(|(answer, _)| succeeded(answer))
        .collect();
    let unknown = uncounted.iter().filter(|(answer, _)| answer.counts.input.is_none());
    let mut counts = count_prompts(
        engine,
        running,
        form,
        unknown.map(|(answer, prompt)| (*prompt, answer.input)).collect(),
    )?;
    for (answer, _) in uncounted {
        if answer.counts.input.is_none()
            && let Some((input, by)) = counts.pop_front()
        {
            answer.counts.input = Some(input);
            how.insert(format!("input by {by}"));
        }
        if answer.counts.output.is_none() {
            let events = u64::from(answer.events);
            let full = answer.output.max(events);
            answer.counts.output = Some(if answer.ended_at_length() { full } else { events });
            how.insert(
                "output by the events of the stream, where an end by `length` stands for all that was asked".to_owned(),
            );
        }
    }
    if how.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the server reports no token counts: tokens are counted otherwise, {}",
        Vec::from_iter(how).join(", ")
    );
    engine.warn("counted_otherwise", message)
}

/// The token counts of prompts, and the name of the counter. Each prompt comes with the length that it was made for.
fn count_prompts(
    engine: &Engine,
    running: &Running,
    form: &RequestForm,
    prompts: Vec<(&Content, u64)>,
) -> Result<VecDeque<(u64, String)>> {
    let url = running.server.url("/tokenize")?;
    let count = async |(prompt, wanted): (&Content, u64)| {
        let text = match prompt {
            Content::Tokens(ids) => return Ok((ids.len() as u64, "the token ids that were sent".to_owned())),
            Content::Text(text) => text,
        };
        if let Some(count) = tokenized(engine, &url, running, form, text).await {
            return Ok((count, "the server's `/tokenize`".to_owned()));
        }
        match &engine.options.tokenizer {
            Some(tokenizer) => Ok((wanted, format!("the tokenizer `{tokenizer}`"))),
            None => Err(Fault::missing(
                "the server takes prompts of text, reports no token counts and has no `/tokenize`: how long a prompt is cannot be known",
                "name the tokenizer of its model, an id of the Hugging Face hub or a folder: `--tokenizer NAME`",
            )),
        }
    };
    let all = stream::iter(prompts).map(count).buffered(COUNTED_TOGETHER);
    engine.wait(all.try_collect())
}

/// The count of the server's own `/tokenize`, in vLLM's form and in llama.cpp's; `None` if it has none.
async fn tokenized(engine: &Engine, url: &str, running: &Running, form: &RequestForm, text: &str) -> Option<u64> {
    let mut body = match form.protocol {
        // llama.cpp's `/tokenize` applies no chat template.
        Protocol::OpenaiChat => {
            json!({ "messages": [{ "role": "user", "content": text }], "add_generation_prompt": true })
        }
        _ => json!({ "prompt": text, "content": text, "add_special": true }),
    };
    if let Some(model) = &running.info.model {
        body["model"] = json!(model);
    }
    let request = engine.client.post(url).json(&body).timeout(COUNTING);
    let answer = http::send(request).await.and_then(Response::error_for_status).ok()?;
    let (text, _cut) = http::text(answer, http::MAX_PAGE).await.ok()?;
    let page: Value = outside::page(text.as_bytes()).ok()?;
    let listed = page["tokens"].as_array().map(|tokens| tokens.len() as u64);
    page["count"].as_u64().or(listed).filter(|count| *count > 0)
}
