//! What a script wants and needs permission for.

use serde::Serialize;

use crate::fault::Fault;

/// Something that needs permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Want {
    /// The word of `--allow` that allows it: `port=8000`.
    pub allow: String,
    /// What the script then can do: `connect to …`.
    pub to: String,
    /// Whether it is allowed.
    pub allowed: bool,
    /// Another way than to allow it.
    #[serde(skip)]
    remedy: Option<String>,
}

/// Characters shown of what a script wants.
const MAX_SHOWN: usize = 400;

impl Want {
    /// A script may have chosen parts of both texts: they stay on one line, and short.
    pub(super) fn new(allow: impl Into<String>, to: impl Into<String>) -> Self {
        let to: String = to.into();
        let shown = to
            .chars()
            .map(|letter| if letter.is_control() { '\u{fffd}' } else { letter });
        Self {
            allow: allow.into(),
            to: shown.take(MAX_SHOWN).collect(),
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

    /// The option that allows all of these: `--allow image=busybox,entrypoint`.
    #[must_use]
    pub fn option<'a>(wants: impl IntoIterator<Item = &'a Self>) -> String {
        let words: Vec<&str> = wants.into_iter().map(|want| want.allow.as_str()).collect();
        let words = words.join(",");
        match words.contains(|letter: char| letter.is_whitespace() || "'\"$`\\;&|<>()*?!#~".contains(letter)) {
            true => format!("--allow '{}'", words.replace('\'', r"'\''")),
            false => format!("--allow {words}"),
        }
    }
}

/// The error if these are not allowed.
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
