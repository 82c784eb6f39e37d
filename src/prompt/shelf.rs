//! The tokenizers and prompts of one run: each tokenizer is loaded once, and whoever asks for prompts of the same model and
//! seed shares the count, so that no two prompts of a run begin alike.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::{Fault, Kind, Result};

use super::{Hub, Prompts, Tokenizer, locate};

/// A tokenizer takes tens of megabytes.
const MOST_TOKENIZERS: usize = 4;
/// Prompts of one seed take a megabyte.
const MOST_PROMPTS: usize = 32;

/// What the ids of prompts come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A tokenizer: a folder, a file, or a model of the hub.
    Tokenizer(String),
    /// A vocabulary of which only the size is known.
    Vocabulary(u32),
    /// The same, and text is made of common words.
    Words(u32),
}

/// What a run has loaded.
#[derive(Default)]
pub struct Shelf {
    tokenizers: Mutex<HashMap<String, Arc<Tokenizer>>>,
    prompts: Mutex<HashMap<(Origin, u64), Arc<Prompts>>>,
}

impl Shelf {
    /// The prompts of this origin and seed. A tokenizer is found as [`locate`] says, and loaded when it is first asked for.
    ///
    /// # Errors
    ///
    /// As [`locate`] and [`Tokenizer::open`]; `limit` when a run asks for too many different ones.
    pub async fn prompts(&self, origin: &Origin, seed: u64) -> Result<Arc<Prompts>> {
        let key = (origin.clone(), seed);
        if let Some(known) = locked(&self.prompts).get(&key) {
            return Ok(Arc::clone(known));
        }
        let made = match origin {
            Origin::Tokenizer(name) => Prompts::new(self.tokenizer(name).await?, seed)?,
            Origin::Vocabulary(size) => Prompts::of_vocabulary(*size, seed)?,
            Origin::Words(size) => Prompts::of_words(*size, seed)?,
        };
        let mut prompts = locked(&self.prompts);
        let room = prompts.len() < MOST_PROMPTS;
        match prompts.get(&key) {
            Some(known) => Ok(Arc::clone(known)),
            None if room => Ok(Arc::clone(prompts.entry(key).or_insert(Arc::new(made)))),
            None => Err(too_many("seeds of prompts", MOST_PROMPTS)),
        }
    }

    async fn tokenizer(&self, name: &str) -> Result<Arc<Tokenizer>> {
        if let Some(known) = locked(&self.tokenizers).get(name) {
            return Ok(Arc::clone(known));
        }
        if locked(&self.tokenizers).len() >= MOST_TOKENIZERS {
            return Err(too_many("tokenizers", MOST_TOKENIZERS));
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
