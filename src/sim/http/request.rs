//! Requests to generate text, of any API: how each is read, what each engine refuses, and how it enters the scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use minijinja::context;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::answer::Answer;
use super::limits::{self, RequestSize};
use super::stream::{self, AnswerReader, read_all};
use super::{Api, ApiError, Problem};
use crate::sim::engine_core::EngineCore;
use crate::sim::profile::Engine;
use crate::sim::tokens::PrefixHashes;

/// A request of any API; each has fields of its own. Unknown fields are ignored, as by most engines.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    model: Option<String>,
    /// TGI: `inputs`.
    #[serde(alias = "inputs")]
    prompt: Option<Prompt>,
    messages: Option<Vec<Message>>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    /// llama.cpp. -1: until the slot is full.
    n_predict: Option<i64>,
    min_tokens: Option<u64>,
    /// Whether OpenAI's APIs stream; the others always do.
    stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) return_token_ids: Option<bool>,
    /// llama.cpp.
    pub(super) return_tokens: Option<bool>,
    /// transformers: a string of JSON.
    generation_config: Option<String>,
    /// TGI.
    #[serde(default)]
    pub(super) parameters: Parameters,
    /// Ollama.
    #[serde(default)]
    pub(super) options: Parameters,
}

/// OpenAI's options of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct StreamOptions {
    /// Token counts at the end.
    #[serde(default)]
    pub(super) include_usage: bool,
    /// Token counts with every event.
    #[serde(default)]
    pub(super) continuous_usage_stats: bool,
}

/// TGI's `parameters`, Ollama's `options`, transformers' generation config.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Parameters {
    max_new_tokens: Option<u64>,
    num_ctx: Option<u64>,
    /// -1: until the end of text.
    num_predict: Option<i64>,
    pub(super) temperature: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Message {
    content: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a text, token ids, or a list of either")]
enum Prompt {
    Text(String),
    Ids(Vec<u64>),
    Several(Vec<Prompt>),
}

impl Prompt {
    /// Number of prompts and tokens of each, as this engine counts.
    fn measure(&self, core: &EngineCore) -> Result<(u64, u64), ApiError> {
        match self {
            Self::Ids(ids) if ids.is_empty() => Err(ApiError::bad_request("prompt is empty")),
            Self::Ids(ids) => Ok((1, ids.len() as u64)),
            Self::Text(text) => match core.counter.count(text, true) {
                Ok(tokens) => Ok((1, tokens)),
                Err(fault) => Err(ApiError::bad_request(fault.message)),
            },
            Self::Several(prompts) => {
                let sizes: Vec<_> = prompts
                    .iter()
                    .map(|prompt| prompt.measure(core))
                    .collect::<Result<_, _>>()?;
                match sizes.first() {
                    Some((_, first)) if sizes.iter().all(|(_, tokens)| tokens == first) => {
                        Ok((sizes.len() as u64, *first))
                    }
                    _ => Err(ApiError::bad_request(
                        "SIMULATED: several prompts must have the same length",
                    )),
                }
            }
        }
    }

    /// Tokens found in the prefix cache; the prompt is added to it.
    fn cached(&self, core: &EngineCore) -> u64 {
        let mut hashes = PrefixHashes::default();
        match self {
            Self::Ids(ids) => ids.iter().for_each(|id| hashes.push(*id)),
            Self::Text(text) => match core.counter.tokens(text, true) {
                Ok(tokens) => tokens.into_iter().for_each(|id| hashes.push(u64::from(id))),
                Err(_) => return 0,
            },
            Self::Several(_) => return 0,
        }
        core.look_up(&hashes)
    }
}

/// Answers a request to generate text.
pub(super) async fn generate(core: Arc<EngineCore>, api: Api, body: Bytes) -> Response {
    let engine = core.setup.profile.engine;
    let request = match read(engine, &body) {
        Ok(request) => request,
        Err(error) => return error.respond(engine),
    };
    if api == Api::Ollama
        && let Some(answered) = without_generation(&core, &request).await
    {
        return answered;
    }
    let streams = !matches!(api, Api::Completions | Api::Chat) || request.stream == Some(true);
    let (mut reader, answer) = match admit(&core, api, &request) {
        Ok(admitted) => admitted,
        // TGI's router validates after the stream has begun: status 200 and one event. A proxy in front of it refuses
        // before.
        Err(error)
            if api == Api::Tgi
                && !(error.problem == Problem::Overloaded && core.setup.options.misbehave.refuse_429.is_some()) =>
        {
            let event = format!("data:{}\n\n", error.answer(engine).1);
            return ([(CONTENT_TYPE, "text/event-stream")], event).into_response();
        }
        Err(error) => return error.respond(engine),
    };
    if streams {
        return stream::respond(reader, answer);
    }
    match read_all(&mut reader).await {
        Ok((tokens, finish)) => answer.whole(tokens, finish),
        Err(message) => ApiError::new(Problem::GenerationFailed, message).respond(engine),
    }
}

fn read(engine: Engine, body: &[u8]) -> Result<Request, ApiError> {
    /// Fields of a completion that TensorRT-LLM accepts.
    const KNOWN: &str = "model prompt messages max_tokens max_completion_tokens min_tokens ignore_eos detokenize \
        add_special_tokens stop stop_token_ids temperature top_k top_p seed n stream stream_options logprobs";
    if engine == Engine::TensorrtLlm {
        let fields: BTreeMap<String, IgnoredAny> = serde_json::from_slice(body).unwrap_or_default();
        if let Some(name) = fields.keys().find(|name| !KNOWN.split(' ').any(|known| known == *name)) {
            return Err(ApiError::bad_request(format!(
                "[{{'type': 'extra_forbidden', 'loc': ('body', '{name}'), 'msg': 'Extra inputs are not permitted'}}]"
            )));
        }
    }
    serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// Ollama's answers that need no generation: an unknown model, one that could not be loaded, a request to load it.
async fn without_generation(core: &EngineCore, request: &Request) -> Option<Response> {
    let model = request.model.as_deref().unwrap_or_default();
    if let Some(error) = other_model(core, model) {
        return Some(error.respond(Engine::Ollama));
    }
    core.wait_loaded().await;
    if let Some(why) = &core.limits.load_error {
        return Some(ApiError::new(Problem::LoadFailed, why).respond(Engine::Ollama));
    }
    let empty = request
        .prompt
        .as_ref()
        .is_none_or(|prompt| matches!(prompt, Prompt::Text(text) if text.is_empty()));
    empty.then(|| Json(json!({ "model": model, "response": "", "done": true, "done_reason": "load" })).into_response())
}

/// The engine's error if the name is not that of its model.
pub(super) fn other_model(core: &EngineCore, model: &str) -> Option<ApiError> {
    let ours = &core.setup.model;
    let without = |suffix: &str| model.trim_end_matches(suffix) == ours.trim_end_matches(suffix);
    match core.setup.profile.engine {
        Engine::Vllm if model != ours => Some(ApiError::new(
            Problem::NotFound,
            format!("The model `{model}` does not exist."),
        )),
        // A name without a revision means `main`.
        Engine::Transformers if !without("@main") => Some(ApiError::bad_request(format!(
            "Server is pinned to '{ours}'; got '{model}'"
        ))),
        Engine::Ollama if !without(":latest") => {
            Some(ApiError::new(Problem::NotFound, format!("model '{model}' not found")))
        }
        _ => None,
    }
}

/// Checks the request as the engine does, and queues it.
fn admit(core: &Arc<EngineCore>, api: Api, request: &Request) -> Result<(AnswerReader, Answer), ApiError> {
    let engine = core.setup.profile.engine;
    if core.overloaded() {
        return Err(ApiError::new(Problem::Overloaded, "Model is overloaded"));
    }
    if let Some(error) = request.model.as_deref().and_then(|model| other_model(core, model)) {
        return Err(error);
    }
    if engine == Engine::Vllm && request.stream != Some(true) && request.stream_options.is_some() {
        return Err(ApiError::bad_request(
            "Stream options can only be defined when `stream=True`.",
        ));
    }
    let (rows, input) = input(core, api, request)?;
    let asked = asked_output(api, engine, request)?;
    let size = RequestSize {
        rows,
        input,
        output: asked,
        min_tokens: request.min_tokens.unwrap_or(0),
    };
    let output = limits::output_tokens(core, size)?;
    if engine == Engine::TensorrtLlm {
        fits_cache(core, input.saturating_add(output))?;
    }
    let cached = match &request.prompt {
        Some(prompt) if api == Api::Completions && core.has_prefix_cache() => prompt.cached(core),
        _ => 0,
    };
    let reader = AnswerReader::new(core.submit(rows, input, output, cached));
    let clipped = asked.is_none_or(|asked| asked > output);
    let answer = Answer::new(core, api, reader.id(), (rows, input), clipped, request);
    Ok((reader, answer))
}

/// Number of prompts and tokens of each.
fn input(core: &EngineCore, api: Api, request: &Request) -> Result<(u64, u64), ApiError> {
    if api == Api::Chat {
        let texts = request.messages.iter().flatten();
        let texts = texts.map(|message| message.content.as_deref().unwrap_or_default());
        return match core.counter.chat(texts) {
            Ok(tokens) => Ok((1, tokens)),
            Err(fault) => Err(ApiError::bad_request(fault.message)),
        };
    }
    let prompt = match (&request.prompt, api) {
        (Some(Prompt::Ids(_) | Prompt::Several(_)), Api::Tgi | Api::Ollama) | (None, _) => {
            return Err(ApiError::bad_request("the prompt is missing, or is no text"));
        }
        (Some(prompt), _) => prompt,
    };
    let context = request.options.num_ctx.filter(|_| api == Api::Ollama);
    if context.is_some_and(|context| context != core.limits.max_total) {
        return Err(ApiError::bad_request(
            "SIMULATED: a num_ctx other than that of the start would reload the model",
        ));
    }
    prompt.measure(core)
}

/// Number of tokens to produce, if the request says it; a negative one means as many as fit.
fn asked_output(api: Api, engine: Engine, request: &Request) -> Result<Option<u64>, ApiError> {
    let tokens = match api {
        Api::Tgi => return Ok(request.parameters.max_new_tokens),
        Api::Ollama => request.options.num_predict,
        Api::Llamacpp => request.n_predict.or(request.max_tokens),
        Api::Completions | Api::Chat => {
            if let Some(text) = &request.generation_config {
                let config: Parameters = serde_json::from_str(text)
                    .map_err(|error| ApiError::bad_request(format!("generation_config: {error}")))?;
                if config.max_new_tokens.is_some() {
                    return Ok(config.max_new_tokens);
                }
            }
            let short =
                api == Api::Completions && matches!(engine, Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm);
            let given = request
                .max_completion_tokens
                .or(request.max_tokens)
                .or(request.n_predict);
            if let Some(tokens) = given.filter(|tokens| *tokens < 0) {
                return Err(ApiError::bad_request(format!(
                    "max_tokens must be at least 1, got {tokens}."
                )));
            }
            given.or(short.then_some(16))
        }
    };
    Ok(tokens.and_then(|tokens| u64::try_from(tokens).ok()))
}

/// Refuses what TensorRT-LLM's cache cannot hold as a whole.
fn fits_cache(core: &EngineCore, total: u64) -> Result<(), ApiError> {
    let memory = &core.limits.memory;
    let needed = total.div_ceil(memory.block_tokens);
    if needed <= memory.blocks {
        return Ok(());
    }
    let values = context! { needed, blocks => memory.blocks };
    let line = core.setup.profile.engine.text("exceeds_cache", &values);
    core.log_line(line.unwrap_or_default().trim_end());
    Err(ApiError::new(Problem::EndsSilently, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_prompt_is_read_and_mixtures_are_refused() {
        let read = |text: &str| serde_json::from_str::<Prompt>(text);
        assert_eq!(read("\"a b\"").unwrap(), Prompt::Text("a b".to_owned()));
        assert_eq!(read("[1, 2, 3]").unwrap(), Prompt::Ids(vec![1, 2, 3]));
        let several = vec![Prompt::Ids(vec![1]), Prompt::Ids(vec![2])];
        assert_eq!(read("[[1], [2]]").unwrap(), Prompt::Several(several));
        assert!(read("[1, \"a\"]").is_err());
        assert!(read("[-1]").is_err());
        assert!(read("{}").is_err());
    }
}
