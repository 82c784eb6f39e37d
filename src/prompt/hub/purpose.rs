//! What a file is downloaded for, which determines the error messages and remedies.

use super::ModelId;
use crate::fault::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To count tokens.
    Tokenizer,
    /// To compute a model's memory.
    Shape,
}

impl Purpose {
    /// The remedy if only the cache may be used.
    pub(super) fn while_offline(self) -> &'static str {
        match self {
            Purpose::Tokenizer => "fetch it once while online, or give a folder with the file as `tokenizer`",
            Purpose::Shape => "fetch it once while online, or give a folder with the file",
        }
    }

    /// The error if the hub cannot be reached.
    pub(super) fn no_answer(self, host: &str, model: &ModelId, why: &str) -> Fault {
        let (what, instead) = match self {
            Purpose::Tokenizer => ("tokenizer", "a folder with `tokenizer.json` as `tokenizer`"),
            Purpose::Shape => ("configuration", "a folder with `config.json`"),
        };
        Fault::missing(
            format!("the hub at `{host}` does not give the {what} of `{model}`: {why}"),
            format!("check the network and HF_ENDPOINT, or give {instead}"),
        )
    }

    /// The error if the model has no such file.
    pub(super) fn no_such_file(self, model: &ModelId, file: &str) -> Fault {
        Fault::missing(
            format!("`{model}` has no `{file}`"),
            match self {
                Purpose::Tokenizer => {
                    "name another model with the same tokenizer, or a folder with `tokenizer.json`, as `tokenizer`"
                }
                Purpose::Shape => "name the model that it was made from, or a folder with `config.json`",
            },
        )
    }
}
