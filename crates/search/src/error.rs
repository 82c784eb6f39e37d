//! The error of this crate, and hints at a name that was meant.

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An argument: an axis, an option, a point, an answer.
    Usage,
    /// The number of points, lines or cells: more than memory or time allow.
    Limit,
}

/// A question that cannot be answered, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Whether an argument or the size of the question is wrong.
    pub kind: Kind,
    /// One sentence, lower case, no period, things in backticks.
    pub message: String,
    /// The remedy, where one is known.
    pub hint: Option<String>,
}

impl Error {
    /// A wrong argument.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Usage,
            message: message.into(),
            hint: None,
        }
    }

    /// More than can be computed.
    pub fn limit(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Limit,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds the remedy.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A hint with the name that was probably meant, or with all names: `the verdicts are ok, oom`.
pub fn name_hint(wrong: &str, names: &[&str], all: &str) -> String {
    let distance = |name: &str| strsim::damerau_levenshtein(name, wrong);
    match names
        .iter()
        .min_by_key(|name| distance(name))
        .filter(|near| distance(near) <= 2)
    {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{all} are {}", names.join(", ")),
    }
}
