//! Tokenizers, and prompts of exactly N tokens as an engine counts them.
//!
//! [`locate`] finds a model's `tokenizer.json` (a folder, the Hugging Face cache, the hub), and [`Prompts`] makes
//! prompts: token ids if the engine accepts them, otherwise text that encodes to exactly N tokens. Prompts differ from
//! their first token on, so no prefix cache can hit. If the engine counts differently, [`Calibration`] learns the
//! difference. [`read_model`] reads the files that describe a model's size.

mod calibration;
mod chat;
mod common_words;
mod hub;
mod lexicon;
mod locate;
mod model_files;
mod prompt_cache;
mod prompts;
mod rng;
mod spec;
mod text;
mod tokenizer;
mod usable_ids;

pub use calibration::Calibration;
pub use hub::{Hub, ModelId, Secret};
pub use locate::locate;
pub use model_files::read_model;
pub use prompt_cache::{Origin, PromptCache};
pub use prompts::Prompts;
pub use spec::{Content, MAX_TOKENS, Prompt, PromptForm, PromptSpec};
pub use tokenizer::{Files, Tokenizer};
