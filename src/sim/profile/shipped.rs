//! Profiles built into the binary.

const SHIPPED: [(&str, &str); 8] = [
    (
        "llama-1b-12gib-transformers",
        include_str!("../profiles/llama-1b-12gib-transformers.toml"),
    ),
    (
        "llama-1b-h200-sglang",
        include_str!("../profiles/llama-1b-h200-sglang.toml"),
    ),
    ("llama-1b-h200-tgi", include_str!("../profiles/llama-1b-h200-tgi.toml")),
    (
        "llama-1b-h200-trtllm",
        include_str!("../profiles/llama-1b-h200-trtllm.toml"),
    ),
    ("llama-1b-llamacpp", include_str!("../profiles/llama-1b-llamacpp.toml")),
    ("llama-1b-ollama", include_str!("../profiles/llama-1b-ollama.toml")),
    (
        "llama-8b-24gb-vllm",
        include_str!("../profiles/llama-8b-24gb-vllm.toml"),
    ),
    (
        "llama-8b-h200-vllm",
        include_str!("../profiles/llama-8b-h200-vllm.toml"),
    ),
];

/// Names of the shipped profiles, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
