//! Documented functions, and the sections that they stand in.

use std::fmt;

use serde::Serialize;

/// One function, method or property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionDoc {
    /// Its name: `start`, `probe`, `used`, `==`.
    pub name: String,
    /// How it is called.
    pub kind: FunctionKind,
    /// Namespace, or path of a standard module (`std/search`); `None` for global functions.
    pub module: Option<String>,
    /// The type that a method or property belongs to.
    pub on: Option<String>,
    /// Its parameters, without the receiver of a method.
    pub params: Vec<Param>,
    /// The return type; `None` if nothing is returned or the type is unknown, as in scripts.
    pub returns: Option<String>,
    /// The first sentence of its comment; may be empty.
    pub summary: String,
    /// The rest of its comment as Markdown, including examples.
    pub docs: String,
    /// The `rhai` code blocks of its comment.
    pub examples: Vec<Example>,
}

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionKind {
    /// `name(…)` or `module::name(…)`.
    Function,
    /// `value.name(…)`.
    Method,
    /// `value.name`.
    Property,
    /// An operator, or a function that Rhai calls to print a value.
    Operator,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its script type; `None` if unknown, as in scripts.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

impl FunctionDoc {
    /// The name as called in a script: `docker::start`, `search::adaptive`, `sleep`, `probe`.
    pub fn path(&self) -> String {
        match &self.module {
            Some(module) => format!("{}::{}", alias(module), self.name),
            None => self.name.clone(),
        }
    }

    /// The unique name in the documentation: `Engine.probe`, `docker::start`.
    pub fn title(&self) -> String {
        match (&self.on, &self.module) {
            (Some(on), _) if self.kind != FunctionKind::Operator => format!("{on}.{}", self.name),
            (_, Some(module)) => format!("{module}::{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// The signature on one line: `docker::start(options: map) -> Container`.
    pub fn signature(&self) -> String {
        let subject = match &self.on {
            Some(on) if self.kind != FunctionKind::Operator => format!("{on}.{}", self.name),
            _ => self.path(),
        };
        let params = match self.kind {
            FunctionKind::Property => String::new(),
            _ => format!("({})", self.params_line()),
        };
        match &self.returns {
            Some(returns) if self.kind == FunctionKind::Property => format!("{subject}: {returns}"),
            Some(returns) => format!("{subject}{params} -> {returns}"),
            None => format!("{subject}{params}"),
        }
    }

    /// The sort key of functions.
    pub(super) fn order(&self) -> (String, usize, String) {
        (self.name.clone(), self.params.len(), self.signature())
    }

    /// The parameters as written between the parentheses.
    pub fn params_line(&self) -> String {
        let parts: Vec<String> = self.params.iter().map(Param::to_string).collect();
        parts.join(", ")
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{}: {kind}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The alias under which examples import a standard module: the last part of its path.
pub(super) fn alias(module: &str) -> &str {
    module.rsplit('/').next().unwrap_or(module)
}

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
    /// Whether it is the whole section, not only the functions that were looked up.
    #[serde(skip)]
    pub is_whole: bool,
}

impl Section {
    /// The heading.
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

/// A code block of a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The code.
    pub code: String,
    /// The environment that it needs to run.
    pub needs: Option<Needs>,
}

/// The environment that an example needs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// A Docker daemon: ```` ```rhai,needs-docker ````.
    Docker,
    /// A usable GPU: ```` ```rhai,needs-gpu ````.
    Gpu,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(kind: FunctionKind, module: Option<&str>, on: Option<&str>) -> FunctionDoc {
        FunctionDoc {
            name: "start".to_owned(),
            kind,
            module: module.map(str::to_owned),
            on: on.map(str::to_owned),
            params: vec![
                Param {
                    name: "options".to_owned(),
                    kind: Some("map".to_owned()),
                },
                Param {
                    name: "more".to_owned(),
                    kind: None,
                },
            ],
            returns: Some("int".to_owned()),
            summary: String::new(),
            docs: String::new(),
            examples: Vec::new(),
        }
    }

    #[test]
    fn a_signature_reads_as_the_call() {
        let signature = |kind, module, on| function(kind, module, on).signature();
        assert_eq!(
            signature(FunctionKind::Function, Some("std/engines"), None),
            "engines::start(options: map, more) -> int"
        );
        assert_eq!(
            signature(FunctionKind::Method, None, Some("Engine")),
            "Engine.start(options: map, more) -> int"
        );
        assert_eq!(
            signature(FunctionKind::Property, None, Some("Engine")),
            "Engine.start: int"
        );
    }

    #[test]
    fn titles_distinguish_modules_and_types() {
        assert_eq!(
            function(FunctionKind::Function, Some("std/engines"), None).title(),
            "std/engines::start"
        );
        assert_eq!(
            function(FunctionKind::Method, None, Some("Engine")).title(),
            "Engine.start"
        );
    }
}
