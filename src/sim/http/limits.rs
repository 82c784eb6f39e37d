//! Each engine's rules about request length: whether a request is accepted, and how many tokens it produces.

use minijinja::context;

use super::{ApiError, Problem};
use crate::sim::engine_core::EngineCore;
use crate::sim::profile::{Engine, MemoryProfile};
use crate::sim::start::TGI_SLICE;

/// Size of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSize {
    /// Prompts computed in lockstep.
    pub(super) rows: u64,
    /// Tokens of each prompt.
    pub(super) input: u64,
    /// Tokens to produce; none: as many as fit.
    pub(super) output: Option<u64>,
    /// vLLM: minimum output.
    pub(super) min_tokens: u64,
}

/// Number of tokens to produce (at least 1), or the engine's error.
pub(super) fn output_tokens(core: &EngineCore, size: RequestSize) -> Result<u64, ApiError> {
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

/// A refusal in the words of the engine's file. `longest` is what the request exceeds.
fn refused(engine: Engine, section: &str, longest: u64, size: RequestSize) -> ApiError {
    let RequestSize { input, output, min_tokens, .. } = size;
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
        let size = RequestSize { output: Some(output), ..size };
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
        return Err(refused(Engine::Vllm, "min_too_long", output, size));
    }
    Ok(output)
}

/// SGLang: input plus output must fit into the context. The output is clipped silently to what fits into context and
/// cache minus two tokens.
fn sglang(context: u64, cache: u64, size: RequestSize) -> Result<u64, ApiError> {
    let refused = |section, longest| Err(refused(Engine::Sglang, section, longest, size));
    if size.input >= context {
        return refused("input_too_long", context);
    }
    if size.output.is_some_and(|output| size.input.saturating_add(output) > context) {
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

/// TGI: an input that is too long is refused. Of the output only the first slice is validated; the rest is clipped
/// silently.
fn tgi(longest: u64, longest_input: u64, size: RequestSize) -> Result<u64, ApiError> {
    let output = size.output.unwrap_or(100);
    let size = RequestSize { output: Some(output), ..size };
    if size.input.saturating_add(output.min(TGI_SLICE)) > longest {
        return Err(refused(Engine::Tgi, "sum_too_long", longest, size));
    }
    if size.input > longest_input {
        return Err(refused(Engine::Tgi, "input_too_long", longest_input, size));
    }
    // After each slice the request is resubmitted; the grown prompt is then subject to the same limit, without an
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
        // Observed with the real engine: 2 + 5000 of 4096 gave 4094 tokens; 6002 + 5 was refused.
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
