//! A permission that a script needs, and the error if it is missing.

use serde::Serialize;

use crate::fault::Fault;
use crate::fmt::shell_quoted;

/// A requested permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Want {
    /// The `--allow` word that grants it: `port=8000`.
    pub allow: String,
    /// The action that it allows: `connect to …`.
    pub to: String,
    /// Whether it is allowed.
    pub allowed: bool,
    /// Another way to solve the problem.
    #[serde(skip)]
    remedy: Option<String>,
}

/// Most characters shown of a text that the script chose.
const MAX_SHOWN: usize = 400;

impl Want {
    /// A script may have chosen parts of both texts. So both are kept on one line, and `allow` stays one word of
    /// `--allow`.
    pub(super) fn new(allow: impl AsRef<str>, to: impl AsRef<str>) -> Self {
        let one_line = |text: &str| text.replace(char::is_control, "\u{fffd}");
        Self {
            allow: one_line(allow.as_ref()).replace(',', r"\,"),
            to: one_line(to.as_ref()).chars().take(MAX_SHOWN).collect(),
            allowed: false,
            remedy: None,
        }
    }

    pub(super) fn or(mut self, remedy: Option<String>) -> Self {
        self.remedy = remedy;
        self
    }

    pub(super) fn allowed(mut self, allowed: bool) -> Self {
        self.allowed = allowed;
        self
    }

    /// The option that grants all of these: `--allow image=busybox,entrypoint`.
    pub fn option<'a>(wants: impl IntoIterator<Item = &'a Self>) -> String {
        let words: Vec<&str> = wants.into_iter().map(|want| want.allow.as_str()).collect();
        format!("--allow {}", shell_quoted(&words.join(",")))
    }
}

/// The error if these permissions are missing.
pub(super) fn refusal(wants: &[Want]) -> Fault {
    let what: Vec<&str> = wants.iter().map(|want| want.to.as_str()).collect();
    let remedies = wants.iter().filter_map(|want| want.remedy.as_deref());
    let allow = format!("allow it with `{}`", Want::option(wants));
    let remedies: Vec<&str> = remedies.chain([allow.as_str()]).collect();
    Fault::not_allowed(
        format!("the script is not allowed to {}", what.join(", or to ")),
        remedies.join(", or "),
    )
}
