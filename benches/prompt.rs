//! Measures the time to build a prompt of 32,768 tokens with a loaded tokenizer: `cargo bench --bench prompt [--
//! TOKENIZER]`.
//!
//! `TOKENIZER` is a `tokenizer.json` or its folder. The default is a small tokenizer built here.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a program that prints, and tokenizers that tests use more of"
)]

#[path = "../tests/it/prompt/families.rs"]
mod families;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use profiler::prompt::{Content, Files, PromptSpec, Prompts, Tokenizer};

const TOKENS: usize = 32_768;
const TIMES: usize = 50;

fn main() {
    let path = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let load = || match &path {
        Some(path) => Tokenizer::open(Path::new(path)).unwrap(),
        None => Tokenizer::new(&Files {
            tokenizer: families::byte_level().to_string().into_bytes(),
            ..Files::default()
        })
        .unwrap(),
    };
    println!("{:<44}{:>10}{:>10}{:>10}", "milliseconds", "median", "min", "max");
    show("load a tokenizer", 5, load);
    let tokenizer = Arc::new(load());
    let mut seed = 0;
    show("find its words, once for each seed", 5, || {
        seed += 1;
        Prompts::new(Arc::clone(&tokenizer), seed).unwrap()
    });

    let prompts = Prompts::new(Arc::clone(&tokenizer), 0).unwrap();
    let ids = prompts.make(&PromptSpec::ids(TOKENS)).unwrap();
    assert!(matches!(ids, Content::Tokens(ids) if ids.len() == TOKENS));
    let text = prompts.make(&PromptSpec::text(TOKENS)).unwrap();
    assert!(matches!(text, Content::Text(text) if tokenizer.count(&text, true).unwrap() == TOKENS));
    show("32,768 tokens as ids", TIMES, || {
        prompts.make(&PromptSpec::ids(TOKENS)).unwrap()
    });
    show("32,768 tokens as text", TIMES, || {
        prompts.make(&PromptSpec::text(TOKENS)).unwrap()
    });
}

fn show<T>(what: &str, times: usize, mut work: impl FnMut() -> T) {
    let mut took: Vec<Duration> = (0..times)
        .map(|_| {
            let began = Instant::now();
            std::hint::black_box(work());
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let (median, min, max) = (took[times / 2], took[0], took[times - 1]);
    println!(
        "{what:<44}{:>10.3}{:>10.3}{:>10.3}",
        millis(median),
        millis(min),
        millis(max)
    );
}
