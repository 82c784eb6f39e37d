//! Failed requests grouped by the kind of failure. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::request::{EvaluatedRequest, RequestResult};

/// Maximum number of characters kept of a message.
const MAX_MESSAGE: usize = 500;

/// Failures of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Number of requests.
    pub count: u64,
    /// Message of the first one.
    pub message: String,
}

/// Counts failures by kind: `status_429`, `in_stream`, `broken`, `unreachable`, `deadline`, `ended_early`, `malformed`;
/// and for complete streams with a wrong answer `short`, `input_count`, `no_counts`, `aborted`.
pub(super) fn by_form(issued: &[&EvaluatedRequest<'_>]) -> BTreeMap<String, Failures> {
    let mut forms: BTreeMap<String, Failures> = BTreeMap::new();
    for request in issued {
        if let RequestResult::Failed(form, message) = &request.result {
            let failures = forms.entry(form.clone()).or_insert_with(|| Failures {
                count: 0,
                message: message.chars().take(MAX_MESSAGE).collect(),
            });
            failures.count += 1;
        }
    }
    forms
}
