//! Whether a request is taken, and how much it will produce: each engine's rules about length.

use super::refusal::Refusal;
use crate::sim::profile::{Engine, MemoryProfile};
use crate::sim::service::Service;

/// TGI's router looks at no more than this much of the output when it validates.
const SLICE: u64 = 1024;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// Prompts in lockstep.
    pub(super) rows: u64,
    /// Tokens of each prompt.
    pub(super) input: u64,
    /// Tokens to produce; none: as many as there is room for.
    pub(super) output: Option<u64>,
    /// vLLM: at least so many.
    pub(super) least: u64,
}

/// Tokens to produce, at least 1, or why not.
pub(super) fn output(service: &Service, ask: Ask) -> Result<u64, Refusal> {
    let engine = service.setup.profile.engine;
    if ask.output == Some(0) {
        return Err(Refusal::bad(engine, "max_tokens must be at least 1, got 0."));
    }
    if ask.rows > 1 && !matches!(service.setup.profile.memory, MemoryProfile::Dynamic(_)) {
        return Err(Refusal::bad(
            engine,
            "SIMULATED: this profile takes one prompt per request",
        ));
    }
    match engine {
        Engine::Vllm if service.setup.clip => clipped(service.max_total, ask),
        Engine::Vllm | Engine::Transformers => strict(service.max_total, ask),
        Engine::Sglang => sglang(service.max_total, service.kv_tokens.unwrap_or(u64::MAX), ask),
        Engine::TensorrtLlm => tensorrt_llm(service.max_total, ask),
        Engine::Tgi => tgi(service.max_total, service.max_input, ask),
        Engine::Llamacpp | Engine::Ollama => llamacpp(service.max_total, ask),
    }
}

/// vLLM up to 0.28: input and output together must fit.
fn strict(longest: u64, ask: Ask) -> Result<u64, Refusal> {
    let room = longest.saturating_sub(ask.input);
    let output = ask.output.unwrap_or(room.min(16_384)).max(1);
    if output <= room {
        return Ok(output);
    }
    Err(Refusal::too_long(format!(
        "This model's maximum context length is {longest} tokens. However, you requested {output} output tokens and your prompt \
         contains at least {} input tokens, for a total of at least {} tokens. Please reduce the length of the input prompt or \
         the number of requested output tokens.",
        ask.input,
        ask.input.saturating_add(output),
    )))
}

/// vLLM 0.33: each must fit alone; together the output is clipped without a word, unless a least length forbids it.
fn clipped(longest: u64, ask: Ask) -> Result<u64, Refusal> {
    if let Some(output) = ask.output.filter(|output| *output > longest) {
        return Err(Refusal::too_long(format!(
            "max_tokens={output} cannot be greater than max_model_len={longest}"
        )));
    }
    let room = longest.saturating_sub(ask.input);
    if room == 0 {
        return Err(Refusal::too_long(format!(
            "This model's maximum context length is {longest} tokens. However, your prompt contains at least {} input tokens. Please \
             reduce the length of the input prompt.",
            ask.input
        )));
    }
    let output = ask.output.unwrap_or(room).min(room);
    if ask.least > output {
        return Err(Refusal::bad(
            Engine::Vllm,
            format!(
                "min_tokens must be less than or equal to max_tokens={output}, got {}.",
                ask.least
            ),
        ));
    }
    Ok(output)
}

/// `SGLang`: both together must fit the context; what does not fit beside two tokens of the context or of the cache is clipped without a word.
fn sglang(context: u64, cache: u64, ask: Ask) -> Result<u64, Refusal> {
    let bad = |message: String| Err(Refusal::bad(Engine::Sglang, message));
    let output = ask.output.unwrap_or(u64::MAX);
    if ask.input >= context {
        return bad(format!(
            "The input ({} tokens) is longer than the model's context length ({context} tokens).",
            ask.input
        ));
    }
    let total = ask.input.saturating_add(output);
    if ask.output.is_some() && total > context {
        return bad(format!(
            "Requested token count exceeds the model's maximum context length of {context} tokens. You requested a total of {total}              tokens: {} tokens from the input messages and {output} tokens for the completion.",
            ask.input
        ));
    }
    let bound = context.min(cache);
    let longest = bound.saturating_sub(6);
    if ask.input >= longest {
        return bad(format!(
            "Input length ({} tokens) exceeds the maximum allowed length ({longest} tokens).",
            ask.input
        ));
    }
    Ok(output.min(bound.saturating_sub(2).saturating_sub(ask.input)).max(1))
}

/// TensorRT-LLM: the input must leave room; generation stops where the length ends.
fn tensorrt_llm(longest: u64, ask: Ask) -> Result<u64, Refusal> {
    let room = longest.saturating_sub(ask.input);
    if room == 0 {
        let left = longest.cast_signed() - ask.input.cast_signed();
        return Err(Refusal::bad(
            Engine::TensorrtLlm,
            format!(
                "default_max_tokens ({left}) must be greater than 0, default_max_tokens ({left}) = max_seq_len ({longest}) -                  splited_prompt_len ({})",
                ask.input
            ),
        ));
    }
    Ok(ask.output.unwrap_or(room).min(room))
}

/// TGI: too long an input is refused; of the output only the first slice is looked at, the rest is clipped without a word.
fn tgi(longest: u64, longest_input: u64, ask: Ask) -> Result<u64, Refusal> {
    let output = ask.output.unwrap_or(100);
    let first = ask.input.saturating_add(output.min(SLICE));
    if first > longest {
        return Err(Refusal::bad(
            Engine::Tgi,
            format!(
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {longest}. Given: {} `inputs` tokens and \
                 {output} `max_new_tokens`",
                ask.input
            ),
        ));
    }
    if ask.input > longest_input {
        return Err(Refusal::bad(
            Engine::Tgi,
            format!(
                "Input validation error: `inputs` must have less than {longest_input} tokens. Given: {}",
                ask.input
            ),
        ));
    }
    // Submitted anew after each slice, the grown prompt is held to the same limit, and nobody is told.
    let last_begin = (longest_input - ask.input) / SLICE * SLICE;
    Ok(output.min(longest - ask.input).min(last_begin + SLICE))
}

/// llama.cpp: the prompt must fit into its slot; generation stops where the slot ends.
fn llamacpp(slot: u64, ask: Ask) -> Result<u64, Refusal> {
    if ask.input >= slot {
        return Err(Refusal::context(ask.input, slot));
    }
    Ok(ask.output.unwrap_or(u64::MAX).min((slot - ask.input - 1).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(input: u64, output: u64) -> Ask {
        Ask {
            rows: 1,
            input,
            output: Some(output),
            least: 0,
        }
    }

    #[test]
    fn vllm_refuses_what_does_not_fit_together_and_newer_ones_clip() {
        assert_eq!(strict(100, ask(60, 40)).unwrap(), 40);
        assert!(
            strict(100, ask(60, 41))
                .unwrap_err()
                .message()
                .contains("maximum context length is 100 tokens. However, you requested 41")
        );
        assert_eq!(clipped(100, ask(60, 41)).unwrap(), 40);
        assert!(clipped(100, ask(60, 101)).is_err());
        assert!(
            clipped(
                100,
                Ask {
                    least: 41,
                    ..ask(60, 41)
                }
            )
            .unwrap_err()
            .message()
            .contains("min_tokens")
        );
        assert!(
            clipped(100, ask(100, 1))
                .unwrap_err()
                .message()
                .contains("your prompt contains")
        );
    }

    #[test]
    fn sglang_keeps_two_tokens_and_clips_without_a_word() {
        assert_eq!(sglang(1000, 5000, ask(800, 198)).unwrap(), 198);
        assert_eq!(sglang(1000, 5000, ask(800, 199)).unwrap(), 198);
        assert_eq!(sglang(1000, 500, ask(400, 200)).unwrap(), 98);
        let refused = |asked| sglang(1000, 5000, asked).unwrap_err().message().to_owned();
        assert!(refused(ask(800, 201)).contains("maximum context length of 1000"));
        assert!(refused(ask(994, 2)).contains("exceeds the maximum allowed length (994 tokens)"));
        assert!(refused(ask(1000, 1)).contains("is longer than the model's context length"));
    }

    #[test]
    fn tensorrt_llm_stops_at_its_length() {
        assert_eq!(tensorrt_llm(100, ask(60, 41)).unwrap(), 40);
        let refusal = tensorrt_llm(100, ask(110, 5)).unwrap_err();
        assert!(
            refusal
                .message()
                .starts_with("default_max_tokens (-10) must be greater than 0")
        );
    }

    #[test]
    fn tgi_clips_long_outputs_and_refuses_long_inputs() {
        // Both seen on the real one: 2 + 5000 of 4096 gave 4094 tokens; 6002 + 5 was refused.
        assert_eq!(tgi(4096, 4095, ask(2, 5000)).unwrap(), 4094);
        let refusal = tgi(4096, 4095, ask(6002, 5)).unwrap_err();
        assert!(
            refusal
                .message()
                .ends_with("must be <= 4096. Given: 6002 `inputs` tokens and 5 `max_new_tokens`")
        );
        assert_eq!(tgi(4096, 1500, ask(1000, 3000)).unwrap(), 1024);
    }

    #[test]
    fn llamacpp_stops_at_the_end_of_the_slot() {
        assert_eq!(llamacpp(512, ask(500, 100)).unwrap(), 11);
        assert!(llamacpp(512, ask(512, 1)).is_err());
    }
}
