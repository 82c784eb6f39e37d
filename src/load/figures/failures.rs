//! Failed requests by the form of their failure. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::judged::{Fate, Judged};

/// The most characters of a message that are kept.
const LONGEST: usize = 500;

/// Failures of one form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// So many.
    pub count: u64,
    /// What the first of them said.
    pub message: String,
}

/// The failures of requests in the order of issue, by form: `status_429`, `in_stream`, `broken`, `unreachable`, `deadline`,
/// `ended_early`, `malformed`; and of answers whose stream ended as it should: `short`, `input_count`,
/// `no_counts`, `aborted`.
pub(super) fn by_form(issued: &[&Judged<'_>]) -> BTreeMap<String, Failures> {
    let mut forms: BTreeMap<String, Failures> = BTreeMap::new();
    for judged in issued {
        if let Fate::Failed(form, message) = &judged.fate {
            let failures = forms.entry(form.clone()).or_insert_with(|| Failures {
                count: 0,
                message: message.chars().take(LONGEST).collect(),
            });
            failures.count += 1;
        }
    }
    forms
}
