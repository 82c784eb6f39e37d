//! The tokenizers and prompts of a run. Each tokenizer is loaded once, and all prompts of the same model and seed share
//! a counter, so that no two prompts of a run start the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::{Fault, Kind, Result};

use super::{Hub, Prompts, Tokenizer, locate};

/// A tokenizer takes tens of megabytes.
const MAX_TOKENIZERS: usize = 4;
/// The prompts of one seed take a megabyte.
const MAX_PROMPTS: usize = 32;

/// The source of prompts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A tokenizer: a folder, a file, or a Hugging Face model id.
    Tokenizer(String),
    /// A vocabulary of known size.
    Vocabulary(u32),
    /// The same, with text of common words.
    Words(u32),
}

/// The tokenizers and prompts of a run.
#[derive(Default)]
pub struct PromptCache {
    tokenizers: Mutex<HashMap<String, Arc<Tokenizer>>>,
    prompts: Mutex<HashMap<(Origin, u64), Arc<Prompts>>>,
}

impl PromptCache {
    /// The prompts of this source and seed. A tokenizer is located with [`locate`] and loaded on first use.
    ///
    /// # Errors
    ///
    /// As [`locate`] and [`Tokenizer::open`]; `limit` if a run uses too many different ones.
    pub async fn prompts(&self, origin: &Origin, seed: u64) -> Result<Arc<Prompts>> {
        let key = (origin.clone(), seed);
        if let Some(cached) = locked(&self.prompts).get(&key) {
            return Ok(Arc::clone(cached));
        }
        let made = match origin {
            Origin::Tokenizer(name) => Prompts::new(self.tokenizer(name).await?, seed)?,
            Origin::Vocabulary(size) => Prompts::from_vocabulary_size(*size, seed)?,
            Origin::Words(size) => Prompts::from_common_words(*size, seed)?,
        };
        let mut prompts = locked(&self.prompts);
        let room = prompts.len() < MAX_PROMPTS;
        match prompts.get(&key) {
            Some(cached) => Ok(Arc::clone(cached)),
            None if room => Ok(Arc::clone(prompts.entry(key).or_insert(Arc::new(made)))),
            None => Err(too_many("seeds of prompts", MAX_PROMPTS)),
        }
    }

    async fn tokenizer(&self, name: &str) -> Result<Arc<Tokenizer>> {
        if let Some(cached) = locked(&self.tokenizers).get(name) {
            return Ok(Arc::clone(cached));
        }
        if locked(&self.tokenizers).len() >= MAX_TOKENIZERS {
            return Err(too_many("tokenizers", MAX_TOKENIZERS));
        }
        let tokenizer = Tokenizer::open(&locate(name, &Hub::from_env()?).await?)?;
        let mut tokenizers = locked(&self.tokenizers);
        Ok(Arc::clone(
            tokenizers.entry(name.to_owned()).or_insert(Arc::new(tokenizer)),
        ))
    }
}

fn too_many(what: &str, most: usize) -> Fault {
    Fault::new(Kind::Limit, format!("a run can use at most {most} {what}")).hint("use fewer, or split the script")
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
