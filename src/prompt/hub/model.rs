//! Parses a model id: `org/name`, or `org/name@revision`.

use std::fmt;
use std::str::FromStr;

use crate::fault::{Fault, Result};

/// Maximum length of a name on the hub.
const LONGEST: usize = 96;

/// A model on the hub, at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelId {
    /// `org/name`; old models have no `org`.
    pub name: String,
    /// A branch, a tag or a commit.
    pub revision: String,
}

impl ModelId {
    /// Its folder in the cache.
    pub(super) fn folder(&self) -> String {
        format!("models--{}", self.name.replace('/', "--"))
    }
}

impl FromStr for ModelId {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self> {
        let (name, revision) = text.split_once('@').unwrap_or((text, "main"));
        let parts: Vec<&str> = name.split('/').collect();
        let good = parts.len() <= 2
            && name.len() <= LONGEST
            && parts.iter().all(|part| is_part(part))
            && is_revision(revision);
        if !good {
            return Err(Fault::usage(format!(
                "`{text}` is not a model of the hub, nor a file or folder that is there"
            ))
            .hint("a model is `org/name` or `org/name@revision`; a folder holds `tokenizer.json`"));
        }
        Ok(Self {
            name: name.to_owned(),
            revision: revision.to_owned(),
        })
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.revision.as_str() {
            "main" => f.write_str(&self.name),
            revision => write!(f, "{}@{revision}", self.name),
        }
    }
}

/// Letters, digits, `-`, `_` and `.`, without anything that leaves a folder or is ambiguous in the cache.
fn is_part(part: &str) -> bool {
    !part.is_empty()
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !part.starts_with(['-', '.'])
        && !part.ends_with(['-', '.'])
        && !part.contains("..")
        && !part.contains("--")
}

/// Branches may contain slashes: `refs/pr/1`.
fn is_revision(revision: &str) -> bool {
    revision.len() <= LONGEST && revision.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_ids_are_distinguished_from_paths() {
        let id: ModelId = "meta-llama/Llama-3.1-8B-Instruct".parse().unwrap();
        assert_eq!(id.folder(), "models--meta-llama--Llama-3.1-8B-Instruct");
        assert_eq!(id.to_string(), "meta-llama/Llama-3.1-8B-Instruct");
        let id: ModelId = "gpt2@refs/pr/1".parse().unwrap();
        assert_eq!((id.name.as_str(), id.revision.as_str()), ("gpt2", "refs/pr/1"));
        assert_eq!(id.to_string(), "gpt2@refs/pr/1");
        for text in [
            "", "/", "a/b/c", "../a", "./a", "a/..", "a b", "a/b@", "a/b@../x", "~/a", "a--b/c", "C:\\x", "a/b?c=d",
        ] {
            assert!(text.parse::<ModelId>().is_err(), "{text}");
        }
        assert!("a".repeat(97).parse::<ModelId>().is_err());
    }
}
