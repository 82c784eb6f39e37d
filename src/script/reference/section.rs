//! What belongs together in the documentation: the functions of one namespace, type or standard module.

use serde::Serialize;

use super::FunctionDoc;

/// One heading of the documentation.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Empty for global functions, else `docker`, `Engine`, `std/search`.
    pub name: String,
    /// What it is.
    pub kind: SectionKind,
    /// Markdown, without code of its own; may be empty.
    pub docs: String,
    /// What it holds, by name.
    pub functions: Vec<FunctionDoc>,
}

impl Section {
    /// The heading.
    #[must_use]
    pub fn title(&self) -> String {
        match self.kind {
            SectionKind::Global => "Global functions".to_owned(),
            SectionKind::Namespace => format!("`{}::`", self.name),
            SectionKind::Type => format!("Type `{}`", self.name),
            SectionKind::Standard => format!("Module `{}`", self.name),
        }
    }
}

/// What a section is; also their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionKind {
    /// Functions that are called by their bare name.
    Global,
    /// Functions of the host behind `name::`.
    Namespace,
    /// Methods and properties of a value that functions return.
    Type,
    /// A module in Rhai that is imported by this name.
    Standard,
}
