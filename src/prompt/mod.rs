//! Tokenizers, and prompts of exactly N tokens as an engine counts them.
//!
//! [`locate`] finds a model's `tokenizer.json` (a folder, the Hugging Face cache, the hub), and [`Prompts`] makes
//! prompts: token ids if the engine accepts them, otherwise text that encodes to exactly N tokens. Prompts differ from
//! their first token on, so no prefix cache can hit. If the engine counts differently, [`Calibration`] learns the
//! difference. [`read_model`] reads the files that describe a model's size.

mod hub;
mod model_files;
mod prompts;
mod template;
mod text;
mod tokenizer;
mod vocabulary;

pub use hub::{Hub, ModelId, Secret};
pub use model_files::{locate, read_model};
pub use prompts::{
    Calibration, Content, MAX_TOKENS, Origin, Prompt, PromptCache, PromptForm, PromptSpec, Prompts, is_near,
};

pub use template::render_as_child;
pub use tokenizer::{Files, Tokenizer};
