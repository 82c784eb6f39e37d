//! A section of the documentation: the functions of one namespace, type or standard module.

use serde::Serialize;

use super::FunctionDoc;

/// A section of the documentation.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Empty for global functions, otherwise `docker`, `Engine`, `std/search`.
    pub name: String,
    /// Its kind.
    pub kind: SectionKind,
    /// Markdown; may be empty.
    pub docs: String,
    /// Its functions, sorted by name.
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

/// The kind of a section. The order of variants is the order of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionKind {
    /// Functions called by their bare name.
    Global,
    /// Native functions behind `name::`.
    Namespace,
    /// Methods and properties of a type.
    Type,
    /// A Rhai module, imported by its name.
    Standard,
}
