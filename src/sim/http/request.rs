//! Requests to generate text, of any API: parsing, the checks of each engine, and admission to the scheduler. At the
//! end, each engine's rules about length: whether a request is accepted, and how many tokens it produces.

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

use super::answer::{self, AnswerReader, Reply, read_all};
use super::scores::Scores;
use super::{Api, ApiError, Problem};
use crate::sim::engine_core::EngineCore;
use crate::sim::options::TGI_SLICE;
use crate::sim::profile::{Engine, MemoryProfile};
use crate::sim::tokens::PrefixHashes;

/// A request of any API, with the fields of all of them. Unknown fields are ignored, as by most engines.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    model: Option<String>,
    /// TGI: `inputs`.
    #[serde(alias = "inputs")]
    prompt: Option<Prompt>,
    messages: Option<Vec<Message>>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    /// llama.cpp. -1: generate until the slot is full.
    n_predict: Option<i64>,
    min_tokens: Option<u64>,
    /// Whether to stream, in OpenAI's APIs; the others always do.
    stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) return_token_ids: Option<bool>,
    /// vLLM, as the next one.
    pub(super) logprobs: Option<u64>,
    pub(super) prompt_logprobs: Option<u64>,
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
    /// Send token counts at the end.
    #[serde(default)]
    pub(super) include_usage: bool,
    /// Send token counts with every event.
    #[serde(default)]
    pub(super) continuous_usage_stats: bool,
}

/// TGI's `parameters`, Ollama's `options`, transformers' generation config.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Parameters {
    max_new_tokens: Option<u64>,
    num_ctx: Option<u64>,
    /// -1: generate until the end of text.
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
    /// The number of prompts, and the number of tokens of each by this engine's count.
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

    /// Its ids, of one prompt.
    fn ids(&self, core: &EngineCore) -> Option<Vec<u32>> {
        match self {
            Self::Ids(ids) => ids.iter().map(|id| u32::try_from(*id).ok()).collect(),
            Self::Text(text) => core.counter.tokens(text, true).ok(),
            Self::Several(_) => None,
        }
    }

    /// The number of tokens found in the prefix cache. Adds the prompt to it.
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

impl Request {
    /// The log-probabilities that it asks for; `None` if it asks for none, or this engine gives none.
    pub(super) fn scores(&self, core: &EngineCore, api: Api) -> Option<Scores> {
        let asks = self.logprobs.is_some() || self.prompt_logprobs.is_some();
        let gives = api == Api::Completions && core.setup.profile.engine == Engine::Vllm;
        let prompt = self.prompt.as_ref().filter(|_| asks && gives)?;
        Some(Scores {
            prompt: prompt.ids(core)?,
            of_prompt: self.prompt_logprobs.is_some(),
            ids: self.return_token_ids == Some(true),
            fp8: core.setup.fp8,
        })
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
        // TGI's router validates after the stream has begun, with status 200 and one event. A proxy in front of it
        // refuses earlier.
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
        return answer::respond(reader, answer);
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

/// Ollama's answers without generation: for an unknown model, for a model that could not be loaded, for a request to
/// load it.
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

/// The engine's error if the name is not its model's name.
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
fn admit(core: &Arc<EngineCore>, api: Api, request: &Request) -> Result<(AnswerReader, Reply), ApiError> {
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
    let output = output_tokens(core, size)?;
    if engine == Engine::TensorrtLlm {
        fits_cache(core, input.saturating_add(output))?;
    }
    let cached = match &request.prompt {
        Some(prompt) if api == Api::Completions && core.has_prefix_cache() => prompt.cached(core),
        _ => 0,
    };
    let reader = AnswerReader::new(core.submit(rows, input, output, cached));
    let clipped = asked.is_none_or(|asked| asked > output);
    let answer = Reply::new(core, api, reader.id(), (rows, input), clipped, request);
    Ok((reader, answer))
}

/// The number of prompts, and the number of tokens of each.
fn input(core: &EngineCore, api: Api, request: &Request) -> Result<(u64, u64), ApiError> {
    if api == Api::Chat {
        let texts = request
            .messages
            .iter()
            .flatten()
            .map(|message| message.content.as_deref().unwrap_or_default());
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

/// The number of tokens to produce, if the request states it; a negative one means as many as fit.
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

/// Refuses requests that do not fit into TensorRT-LLM's cache as a whole.
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

/// Size of a request.
#[derive(Clone, Copy, Debug)]
struct RequestSize {
    /// Prompts computed in lockstep.
    rows: u64,
    /// Tokens of each prompt.
    input: u64,
    /// Tokens to produce; `None` means as many as fit.
    output: Option<u64>,
    /// vLLM: minimum output.
    min_tokens: u64,
}

/// The number of tokens to produce (at least 1), or the engine's error.
fn output_tokens(core: &EngineCore, size: RequestSize) -> Result<u64, ApiError> {
    if size.output == Some(0) {
        return Err(ApiError::bad_request("max_tokens must be at least 1, got 0."));
    }
    if size.rows > 1 && !matches!(core.setup.profile.memory, MemoryProfile::Dynamic(_)) {
        return Err(ApiError::bad_request(
            "SIMULATED: this profile takes one prompt per request",
        ));
    }
    let limits = &core.limits;
    match core.setup.profile.engine {
        Engine::Vllm if core.setup.options.clip_output == Some(true) => clipped(limits.max_total, size),
        engine @ (Engine::Vllm | Engine::Transformers) => strict(engine, limits.max_total, size),
        Engine::Sglang => sglang(limits.max_total, limits.kv_tokens.unwrap_or(u64::MAX), size),
        Engine::TensorrtLlm => tensorrt_llm(limits.max_total, size),
        Engine::Tgi => tgi(limits.max_total, limits.max_input, size),
        Engine::Llamacpp | Engine::Ollama => llamacpp(limits.max_total, size),
    }
}

/// A refusal in the words of the engine's file. `longest` is the exceeded limit.
fn refused(engine: Engine, section: &str, longest: u64, size: RequestSize) -> ApiError {
    let RequestSize {
        input,
        output,
        min_tokens,
        ..
    } = size;
    let text = engine.text(section, &context! { longest, input, output, min_tokens });
    ApiError {
        fields: context! { param => "input_tokens", n_prompt_tokens => input, n_ctx => longest },
        ..ApiError::bad_request(text.unwrap_or_default().trim_end())
    }
}

/// vLLM up to 0.28: input plus output must fit.
fn strict(engine: Engine, longest: u64, size: RequestSize) -> Result<u64, ApiError> {
    let room = longest.saturating_sub(size.input);
    let output = size.output.unwrap_or(room.min(16_384)).max(1);
    if output > room {
        let size = RequestSize {
            output: Some(output),
            ..size
        };
        return Err(refused(engine, "sum_too_long", longest, size));
    }
    Ok(output)
}

/// vLLM 0.33: input and output must each fit. If their sum does not, the output is clipped silently, unless
/// `min_tokens` forbids it.
fn clipped(longest: u64, size: RequestSize) -> Result<u64, ApiError> {
    if size.output.is_some_and(|output| output > longest) {
        return Err(refused(Engine::Vllm, "output_too_long", longest, size));
    }
    let room = longest.saturating_sub(size.input);
    if room == 0 {
        return Err(refused(Engine::Vllm, "input_too_long", longest, size));
    }
    let output = size.output.unwrap_or(room).min(room);
    if size.min_tokens > output {
        // This error names no parameter.
        return Err(ApiError {
            fields: context! {},
            ..refused(Engine::Vllm, "min_too_long", output, size)
        });
    }
    Ok(output)
}

/// SGLang: input plus output must fit into the context. The output is clipped silently to the room in context and cache
/// minus two tokens.
fn sglang(context: u64, cache: u64, size: RequestSize) -> Result<u64, ApiError> {
    let refused = |section, longest| Err(refused(Engine::Sglang, section, longest, size));
    if size.input >= context {
        return refused("input_too_long", context);
    }
    if size
        .output
        .is_some_and(|output| size.input.saturating_add(output) > context)
    {
        return refused("sum_too_long", context);
    }
    let bound = context.min(cache);
    let longest = bound.saturating_sub(6);
    if size.input >= longest {
        return refused("input_beyond_cache", longest);
    }
    let room = bound.saturating_sub(2).saturating_sub(size.input);
    Ok(size.output.unwrap_or(u64::MAX).min(room).max(1))
}

/// TensorRT-LLM: the input must leave room. Generation stops at the length limit.
fn tensorrt_llm(longest: u64, size: RequestSize) -> Result<u64, ApiError> {
    match longest.saturating_sub(size.input) {
        0 => Err(refused(Engine::TensorrtLlm, "input_too_long", longest, size)),
        room => Ok(size.output.unwrap_or(room).min(room)),
    }
}

/// TGI: an input that is too long is refused. Only the first slice of the output is validated; the rest is clipped
/// silently.
fn tgi(longest: u64, longest_input: u64, size: RequestSize) -> Result<u64, ApiError> {
    let output = size.output.unwrap_or(100);
    let size = RequestSize {
        output: Some(output),
        ..size
    };
    if size.input.saturating_add(output.min(TGI_SLICE)) > longest {
        return Err(refused(Engine::Tgi, "sum_too_long", longest, size));
    }
    if size.input > longest_input {
        return Err(refused(Engine::Tgi, "input_too_long", longest_input, size));
    }
    // After each slice the request is resubmitted. The grown prompt is then subject to the same limit, without an
    // error.
    let last_begin = (longest_input - size.input) / TGI_SLICE * TGI_SLICE;
    Ok(output.min(longest - size.input).min(last_begin + TGI_SLICE))
}

/// llama.cpp: the prompt must fit into its slot. Generation stops at the slot's end.
fn llamacpp(slot: u64, size: RequestSize) -> Result<u64, ApiError> {
    if size.input >= slot {
        return Err(ApiError {
            problem: Problem::ContextExceeded,
            ..refused(Engine::Llamacpp, "input_too_long", slot, size)
        });
    }
    Ok(size.output.unwrap_or(u64::MAX).min((slot - size.input - 1).max(1)))
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

#[cfg(test)]
mod limits_tests {
    use super::*;

    fn size(input: u64, output: u64) -> RequestSize {
        RequestSize {
            rows: 1,
            input,
            output: Some(output),
            min_tokens: 0,
        }
    }

    #[test]
    fn vllm_refuses_a_sum_that_does_not_fit_and_newer_versions_clip() {
        assert_eq!(strict(Engine::Vllm, 100, size(60, 40)).unwrap(), 40);
        assert!(
            strict(Engine::Vllm, 100, size(60, 41))
                .unwrap_err()
                .message
                .contains("maximum context length is 100 tokens. However, you requested 41")
        );
        assert_eq!(clipped(100, size(60, 41)).unwrap(), 40);
        assert!(clipped(100, size(60, 101)).is_err());
        assert!(
            clipped(
                100,
                RequestSize {
                    min_tokens: 41,
                    ..size(60, 41)
                }
            )
            .unwrap_err()
            .message
            .contains("min_tokens")
        );
        assert!(
            clipped(100, size(100, 1))
                .unwrap_err()
                .message
                .contains("your prompt contains")
        );
    }

    #[test]
    fn sglang_reserves_two_tokens_and_clips_silently() {
        assert_eq!(sglang(1000, 5000, size(800, 198)).unwrap(), 198);
        assert_eq!(sglang(1000, 5000, size(800, 199)).unwrap(), 198);
        assert_eq!(sglang(1000, 500, size(400, 200)).unwrap(), 98);
        let refused = |size| sglang(1000, 5000, size).unwrap_err().message;
        assert!(refused(size(800, 201)).contains("maximum context length of 1000"));
        assert!(refused(size(994, 2)).contains("exceeds the maximum allowed length (994 tokens)"));
        assert!(refused(size(1000, 1)).contains("is longer than the model's context length"));
    }

    #[test]
    fn tensorrt_llm_stops_at_its_length() {
        assert_eq!(tensorrt_llm(100, size(60, 41)).unwrap(), 40);
        let error = tensorrt_llm(100, size(110, 5)).unwrap_err();
        assert!(
            error
                .message
                .starts_with("default_max_tokens (-10) must be greater than 0")
        );
    }

    #[test]
    fn tgi_clips_long_outputs_and_refuses_long_inputs() {
        // Observed with the real engine: 2 + 5000 tokens with a limit of 4096 gave 4094 tokens; 6002 + 5 was refused.
        assert_eq!(tgi(4096, 4095, size(2, 5000)).unwrap(), 4094);
        let error = tgi(4096, 4095, size(6002, 5)).unwrap_err();
        assert!(
            error
                .message
                .ends_with("must be <= 4096. Given: 6002 `inputs` tokens and 5 `max_new_tokens`")
        );
        assert_eq!(tgi(4096, 1500, size(1000, 3000)).unwrap(), 1024);
    }

    #[test]
    fn llamacpp_stops_at_the_end_of_the_slot() {
        assert_eq!(llamacpp(512, size(500, 100)).unwrap(), 11);
        assert!(llamacpp(512, size(512, 1)).is_err());
    }
}
