//! Adapts the requests of one adapter to a server: the form that the server accepted, the fields left out, and failures
//! that say something about the form.

use std::time::Duration;

use serde::Serialize;

use super::refusal::short_error_detail;
use crate::engine::adapter::RequestForm;
use crate::load::{Failure, FailureForm};
use crate::prompt::PromptForm;
use crate::warning::Warning;

/// Fields that a server may not support.
pub(crate) const OPTIONAL: [&str; 4] = ["min_tokens", "ignore_eos", "stream_options", "temperature"];

/// Fields that prevent an output from ending before the requested length.
const LENGTHENING: [&str; 2] = ["ignore_eos", "min_tokens"];

/// The field for the maximum output, and its name in newer servers.
pub(crate) const LENGTH: &str = "max_tokens";
pub(crate) const NEWER_LENGTH: &str = "max_completion_tokens";

/// The request form that a server accepts: by default the adapter's first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Accepted {
    /// Its index in the adapter's list.
    pub(crate) index: usize,
    /// Description, such as ``text to `/v1/completions` ``.
    pub(crate) form: String,
    /// Fields of its body that the server refused.
    pub(crate) left_out: Vec<String>,
    /// The forms that it refused, each with the reason.
    pub(crate) refused: Vec<String>,
    /// Its count of the small request's prompt.
    pub(crate) counted: Option<u64>,
}

impl Accepted {
    /// The reason and the remedy for texts that end early, if the server refused or ignores the fields that prevent it.
    pub(crate) fn early_end(&self, form: &RequestForm) -> Option<String> {
        let lengthening_fields = |has: &dyn Fn(&str) -> bool| {
            let fields: Vec<&str> = LENGTHENING.iter().copied().filter(|field| has(field)).collect();
            (!fields.is_empty()).then(|| fields.join("` and `"))
        };
        let refused =
            lengthening_fields(&|field| self.left_out.iter().any(|left| left == field)).map(|fields| ("take", fields));
        let sent = || lengthening_fields(&|field| form.body.get(field).is_some()).map(|fields| ("heed", fields));
        refused.or_else(sent).map(|(verb, fields)| {
            format!(
                "texts end early, as the server does not {verb} `{fields}`: ask for short outputs, such as `output=16`, or let the server ignore \
                 the end of a text"
            )
        })
    }

    /// The difference from the adapter's first choice, for people; `None` if there is none.
    pub(crate) fn warning(&self) -> Option<Warning> {
        let mut parts = Vec::new();
        if !self.refused.is_empty() {
            parts.push(format!(
                "prompts are sent as {}, as the server refused {}",
                self.form,
                self.refused.join("; ")
            ));
        }
        if !self.left_out.is_empty() {
            let fields = self.left_out.join("`, `");
            parts.push(format!("requests go without `{fields}`, which the server refused"));
        }
        if self.left_out.iter().any(|field| field == LENGTH) {
            parts.push(format!("they say `{NEWER_LENGTH}` instead of `{LENGTH}`"));
        }
        (!parts.is_empty()).then(|| Warning::new("request_form", parts.join("; ")))
    }
}

/// A failure in a few words.
pub(crate) fn failure_text(failure: &Failure, timeout: Duration) -> String {
    match failure.form {
        FailureForm::Deadline => format!("unfinished after {} s", timeout.as_secs_f64()),
        FailureForm::Status(status) => format!("{status}: {}", short_error_detail(&failure.message)),
        _ => short_error_detail(&failure.message),
    }
}

/// Whether a server refuses the model that a request names, so that it would refuse any other form too. False if the
/// server only serves the model on another path.
pub(crate) fn is_of_the_model(failure: &Failure, complaint: &str, model: Option<&str>) -> bool {
    let FailureForm::Status(status @ 400..=499) = failure.form else {
        return false;
    };
    !matches!(status, 408 | 429)
        && model.is_some_and(|model| complaint.contains(model))
        && !complaint.contains("completions")
}

/// Whether a server that fails in this way may accept another form.
pub(crate) fn is_of_the_form(failure: &Failure) -> bool {
    match failure.form {
        FailureForm::Status(status) => matches!(status, 400 | 404 | 405 | 415 | 422 | 500 | 501),
        FailureForm::InStream | FailureForm::Malformed => true,
        FailureForm::Broken | FailureForm::Unreachable | FailureForm::Deadline | FailureForm::EndedEarly => false,
    }
}

/// Removes a field of the body; `max_tokens` is renamed instead. Returns whether the field was present.
pub(crate) fn remove(form: &mut RequestForm, field: &str) -> bool {
    let Some(body) = form.body.as_object_mut() else {
        return false;
    };
    let Some(value) = body.remove(field) else { return false };
    if field == LENGTH {
        body.insert(NEWER_LENGTH.to_owned(), value);
    }
    true
}

/// Describes a form, such as ``text to `/v1/completions` ``.
pub(crate) fn described(form: &RequestForm) -> String {
    let prompt = match form.prompt {
        PromptForm::Tokens => "token ids",
        PromptForm::Text => "text",
    };
    format!("{prompt} to `{}`", form.path)
}
