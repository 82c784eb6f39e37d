//! A running engine: the adapter contract, readiness, wire protocols (OpenAI completions and chat, TGI, llama.cpp, Ollama),
//! log facts, metrics, probing and verdicts. Nothing of one engine is here but its protocol: the rest is in `stdlib/engines/*.rhai`.

mod adapter;

pub use adapter::{
    Adapter, Facts, FailureRule, InfoRule, Limits, MetricRules, PromptForm, Protocol, RequestForm, RulePhase,
};
