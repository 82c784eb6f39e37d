//! Tokenizers, and prompts of exactly N tokens as an engine will count them.
//!
//! [`locate`] finds a model's `tokenizer.json` (a folder, the Hugging Face cache, the hub), [`Prompts`] makes prompts: token
//! ids where the engine takes them, else text proven to re-encode to N. Each differs from its first token on, so no prefix
//! cache can hit. [`known`] finds in the same places the files that say how large a model is. Where the engine's own count disagrees, [`Calibration`] learns the difference: the engine's count decides.

mod ask;
mod calibration;
mod chat;
mod draw;
mod hub;
mod known;
mod lexicon;
mod locate;
mod ordinary;
mod prompts;
mod shelf;
mod text;
mod tokenizer;
mod words;

pub use ask::{Ask, Content, MAX_TOKENS, Prompt, PromptForm};
pub use calibration::Calibration;
pub use hub::{Hub, ModelId, Secret};
pub use known::known;
pub use locate::locate;
pub use prompts::Prompts;
pub use shelf::{Origin, Shelf};
pub use tokenizer::{Files, Tokenizer};
