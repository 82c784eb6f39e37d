//! What servers of one protocol do in different ways: which of an adapter's requests they take, and whether they count tokens. The first is found out
//! once after the start, with small requests, if there are several.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::Response;
use serde::Serialize;
use serde_json::{Value, json};

use super::handle::Running;
use super::judge::{complaint, succeeded, words};
use super::options::wrong;
use super::refusal::{COMPRESSED, Credentials, passes, refusal, remedy, title, wait_longer};
use super::send::VOCABULARY;
use super::served::AskedModel;
use super::{Engine, Limits, Protocol, RequestForm};
use crate::boundary::Point;
use crate::fault::{Fault, Result};
use crate::http;
use crate::load::{Failure, FailureForm, Record};
use crate::prompt::{Content, Origin, PromptForm, PromptSpec};
use crate::run::Event;
use crate::warning::Warning;

/// Fields that a server need not know.
const OPTIONAL: [&str; 4] = ["min_tokens", "ignore_eos", "stream_options", "temperature"];

/// Fields that keep a text from ending before its length.
const LENGTHENING: [&str; 2] = ["ignore_eos", "min_tokens"];

/// The longest output, and what newer servers call it.
const LENGTH: &str = "max_tokens";
const NEWER_LENGTH: &str = "max_completion_tokens";

/// Of the small request.
pub(super) const INPUT: u64 = 16;
const OUTPUT: u64 = 4;
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may take to count the tokens of a prompt, and of how many at the same time.
const COUNTING: Duration = Duration::from_secs(30);
const COUNTED_TOGETHER: usize = 32;

/// The form of the requests that a server takes: by default the adapter's first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Accepted {
    /// Its place in the adapter's list.
    index: usize,
    /// In words, such as ``text to `/v1/completions` ``.
    form: String,
    /// Fields of its body that the server refused.
    left_out: Vec<String>,
    /// The forms that it refused, each with the reason.
    refused: Vec<String>,
    /// Its count of the small request's prompt.
    pub(super) counted: Option<u64>,
}

impl Accepted {
    /// Why a text ended early, if the server does not do what keeps it going, and what to do.
    pub(super) fn early_end(&self, form: &RequestForm) -> Option<String> {
        let of = |has: &dyn Fn(&str) -> bool| {
            let fields: Vec<&str> = LENGTHENING.iter().copied().filter(|field| has(field)).collect();
            (!fields.is_empty()).then(|| fields.join("` and `"))
        };
        let refused = of(&|field| self.left_out.iter().any(|left| left == field)).map(|fields| ("take", fields));
        let sent = || of(&|field| form.body.get(field).is_some()).map(|fields| ("heed", fields));
        refused.or_else(sent).map(|(verb, fields)| {
            format!(
                "texts end early, as the server does not {verb} `{fields}`: ask for short outputs, such as `output=16`, or let the server ignore \
                 the end of a text"
            )
        })
    }

    /// What differs from the adapter's first choice.
    fn warning(&self) -> Option<Warning> {
        let mut parts = Vec::new();
        if !self.refused.is_empty() {
            parts.push(format!(
                "prompts are sent as {}, as the server refused {}",
                self.form,
                self.refused.join("; ")
            ));
        }
        if !self.left_out.is_empty() {
            let fields = self.left_out.join("`, `");
            parts.push(format!("requests go without `{fields}`, which the server refused"));
        }
        if self.left_out.iter().any(|field| field == LENGTH) {
            parts.push(format!("they say `{NEWER_LENGTH}` instead of `{LENGTH}`"));
        }
        (!parts.is_empty()).then(|| Warning::new("request_form", parts.join("; ")))
    }
}

impl Engine {
    /// The request for this point, in the form that the running engine takes; before a start, in the adapter's first.
    pub(super) fn request(&self, point: &Point, running: Option<&Running>) -> Result<RequestForm> {
        let limits = running.and_then(|running| running.limits);
        let mut forms = self.adapter.request(point, limits.as_ref())?;
        let first = Accepted::default();
        let accepted = running.map_or(&first, |running| &running.accepted);
        if accepted.index >= forms.len() {
            return wrong(
                format!(
                    "`request(point)` of the adapter gives {} forms for {point}, and gave more for another",
                    forms.len()
                ),
                "give a list of the same length for every point",
            );
        }
        let mut form = forms.swap_remove(accepted.index);
        for field in &accepted.left_out {
            remove(&mut form, field);
        }
        Ok(form)
    }

    /// Finds out which of the adapter's forms the server takes, and says so where it is not the first.
    ///
    /// # Errors
    ///
    /// `missing` where it takes none, with what it said to each.
    pub(super) fn find_form(&self, running: &mut Running, asked: &AskedModel) -> Result<()> {
        let requested = Limits::new(INPUT, if asked.untried { 1 } else { OUTPUT }, 1);
        let forms = self.adapter.request(&requested.point()?, running.limits.as_ref())?;
        if forms.len() < 2 && !asked.untried {
            return Ok(());
        }
        self.phase("probing", "which requests the server takes")?;
        let timeout = self.options.request_timeout.map_or(TIMEOUT, Duration::from_secs_f64);
        self.context.run.note(Event::Sent {
            timeout: timeout.as_secs_f64(),
        })?;
        let origin = Origin::Words(running.info.vocabulary.unwrap_or(VOCABULARY));
        let prompts = self.wait(self.context.prompt_cache.prompts(&origin, self.context.seed))?;
        let credentials = Credentials::new(running.key.as_ref(), running.server.base_url());
        let mut refused = Vec::new();
        let mut absent = None;
        // No path of the API, and no list of models either.
        let mut nothing_there = running.facts.iter().all(|fact| fact.name != "model");
        let mut patience = self.patience();
        let mut rejected = 0;
        for (index, mut form) in forms.into_iter().enumerate() {
            if absent.as_ref() == Some(&form.path) {
                continue;
            }
            let prompt = prompts.make(&PromptSpec {
                form: form.prompt,
                ..PromptSpec::ids(INPUT as usize)
            })?;
            let mut left_out = Vec::new();
            let failure = loop {
                let record = self.send_one(running, &form, &prompt, requested, timeout)?;
                // A stream that ended early began: the form was taken, and a probe says what is wrong.
                let failure = record
                    .failure()
                    .filter(|failure| failure.form != FailureForm::EndedEarly);
                let Some(failure) = failure else {
                    running.accepted = Accepted {
                        index,
                        form: described(&form),
                        left_out,
                        refused,
                        counted: record.counts.input,
                    };
                    if rejected > 0 {
                        self.count_rejected(running, rejected, patience.waited)?;
                    }
                    let mut warnings = asked.warning().into_iter().chain(running.accepted.warning());
                    return warnings.try_for_each(|warning| self.context.run.warn(warning));
                };
                let status = failure.form.status().unwrap_or_default();
                if passes(status, record.retry_after)
                    && patience.wait(&refusal(failure, &form.path, credentials), record.retry_after)?
                {
                    rejected += u64::from(status == 429);
                    continue;
                }
                let complaint = complaint(&failure.message);
                let names = |word: &str| complaint.contains(word);
                if asked.untried && is_of_the_model(failure, &complaint, running.info.model.as_deref()) {
                    return Err(self.refused_model(&running.server, asked, &failure_text(failure, timeout)));
                }
                // Of an own program only its start knows the model, and a name that was given is never left out.
                let unstated =
                    running.server.ours() && !asked.untried && running.facts.iter().all(|fact| fact.name != "model");
                if unstated && running.info.model.as_deref().is_some_and(names) {
                    running.info.model = None;
                } else if let Some(field) = OPTIONAL.iter().find(|field| names(field) && remove(&mut form, field)) {
                    left_out.push((*field).to_owned());
                } else if names(NEWER_LENGTH) && remove(&mut form, LENGTH) {
                    left_out.push(LENGTH.to_owned());
                } else {
                    break failure.clone();
                }
            };
            let status = failure.form.status().unwrap_or_default();
            let said = format!("{} ({})", described(&form), failure_text(&failure, timeout));
            if !is_of_the_form(&failure) {
                let remedy = match failure.form {
                    FailureForm::Status(429 | 503) => wait_longer(status).to_owned(),
                    FailureForm::Deadline => {
                        "see whether it hangs or still loads its model; a slow one gets more time with `--set request_timeout=600`".to_owned()
                    }
                    _ => remedy(status, credentials)
                        .unwrap_or_else(|| "when it answers again, run this again".to_owned()),
                };
                let sent = requested.output;
                let title = title(status, credentials).map_or_else(String::new, |title| format!("{title}: "));
                let mut message =
                    format!("{title}the server did not serve a request of {INPUT} + {sent} tokens: {said}");
                if let Some(name) = asked.name.as_ref().filter(|_| asked.untried) {
                    message += &format!("; whether it serves `{name}`, which it does not list, is not known");
                }
                return Err(Fault::missing(message, remedy));
            }
            if matches!(status, 404 | 405) {
                absent = Some(form.path);
            } else {
                nothing_there = false;
            }
            // A server that lacks the model says so by the same status.
            nothing_there &= !complaint(&failure.message).contains("model");
            refused.push(said);
        }
        if asked.untried {
            return Err(self.refused_model(&running.server, asked, &refused.join("; ")));
        }
        Err(Fault::missing(
            format!(
                "the server takes no request of the adapter `{}`: {}",
                self.name(),
                refused.join("; ")
            ),
            if refused.iter().all(|said| said.contains("does not stream")) {
                "let it stream (`stream: true`): without a stream it is not seen when tokens come"
            } else if refused.iter().all(|said| said.contains("content encoding")) {
                COMPRESSED
            } else if nothing_there {
                "nothing of the engine's API is at this address: give the path that it begins with, as `--url http://HOST:PORT/PREFIX` (without `/v1`)"
            } else {
                "name the model that it serves (`model=NAME`), or its engine (`engine=vllm`); for any other protocol write an adapter (stdlib/engines/README.md)"
            },
        ))
    }

    /// Counts the tokens of answers that the engine did not count, and says how. `prompts` are theirs, in order.
    ///
    /// # Errors
    ///
    /// `missing` if nobody can count a prompt of text.
    pub(super) fn count_unreported(
        &self,
        running: &Running,
        form: &RequestForm,
        prompts: &[Content],
        answers: &mut [Record],
    ) -> Result<()> {
        let mut how = BTreeSet::new();
        let uncounted: Vec<(&mut Record, &Content)> = answers
            .iter_mut()
            .zip(prompts)
            .filter(|(answer, _)| succeeded(answer))
            .collect();
        let unknown = uncounted.iter().filter(|(answer, _)| answer.counts.input.is_none());
        let mut counts = self.count_prompts(
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
                let full = answer.output.max(answer.events);
                answer.counts.output = Some(if answer.ended_at_length() { full } else { answer.events });
                how.insert(
                    "output by the events of the stream, where an end by `length` stands for all that was asked"
                        .to_owned(),
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
        self.warn("counted_otherwise", message)
    }

    /// The tokens of prompts, each with the length that it was made for, and what counts them.
    fn count_prompts(
        &self,
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
            if let Some(count) = self.tokenized(&url, running, form, text).await {
                return Ok((count, "the server's `/tokenize`".to_owned()));
            }
            match &self.options.tokenizer {
                Some(tokenizer) => Ok((wanted, format!("the tokenizer `{tokenizer}`"))),
                None => Err(Fault::missing(
                    "the server takes prompts of text, reports no token counts and has no `/tokenize`: how long a prompt is cannot be known",
                    "name the tokenizer of its model, an id of the Hugging Face hub or a folder: `--set tokenizer=NAME`",
                )),
            }
        };
        let all = stream::iter(prompts).map(count).buffered(COUNTED_TOGETHER);
        self.wait(all.try_collect())
    }

    /// The count of the server's own `/tokenize`, in vLLM's form and in llama.cpp's; `None` if it has none.
    async fn tokenized(&self, url: &str, running: &Running, form: &RequestForm, text: &str) -> Option<u64> {
        let mut body = match form.protocol {
            // llama.cpp's has no chat template.
            Protocol::OpenaiChat => {
                json!({ "messages": [{ "role": "user", "content": text }], "add_generation_prompt": true })
            }
            _ => json!({ "prompt": text, "content": text, "add_special": true }),
        };
        if let Some(model) = &running.info.model {
            body["model"] = json!(model);
        }
        let request = self.client.post(url).json(&body).timeout(COUNTING);
        let answer = http::send(request).await.and_then(Response::error_for_status).ok()?;
        let (text, _cut) = http::text(answer, http::MAX_PAGE).await.ok()?;
        let page: Value = serde_json::from_str(&text).ok()?;
        let listed = page["tokens"].as_array().map(|tokens| tokens.len() as u64);
        page["count"].as_u64().or(listed).filter(|count| *count > 0)
    }
}

fn failure_text(failure: &Failure, timeout: Duration) -> String {
    match failure.form {
        FailureForm::Deadline => format!("unfinished after {} s", timeout.as_secs_f64()),
        FailureForm::Status(status) => format!("{status}: {}", words(&failure.message)),
        _ => words(&failure.message),
    }
}

/// Whether a server refuses the model that a request names: another form of it would be refused, too. A model that the server
/// serves by another path only is not refused.
fn is_of_the_model(failure: &Failure, complaint: &str, model: Option<&str>) -> bool {
    let FailureForm::Status(status @ 400..=499) = failure.form else {
        return false;
    };
    !matches!(status, 408 | 429)
        && model.is_some_and(|model| complaint.contains(model))
        && !complaint.contains("completions")
}

/// Whether a server that fails in this way may take another form.
fn is_of_the_form(failure: &Failure) -> bool {
    match failure.form {
        FailureForm::Status(status) => matches!(status, 400 | 404 | 405 | 415 | 422 | 500 | 501),
        FailureForm::InStream | FailureForm::Malformed => true,
        FailureForm::Broken | FailureForm::Unreachable | FailureForm::Deadline | FailureForm::EndedEarly => false,
    }
}

/// Removes a field of the body, or gives it its newer name. Returns whether it was there.
fn remove(form: &mut RequestForm, field: &str) -> bool {
    let Some(body) = form.body.as_object_mut() else {
        return false;
    };
    let Some(value) = body.remove(field) else { return false };
    if field == LENGTH {
        body.insert(NEWER_LENGTH.to_owned(), value);
    }
    true
}

fn described(form: &RequestForm) -> String {
    let prompt = match form.prompt {
        PromptForm::Tokens => "token ids",
        PromptForm::Text => "text",
    };
    format!("{prompt} to `{}`", form.path)
}
