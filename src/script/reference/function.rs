//! One function as people see it: script words for types, properties instead of getters.

use std::fmt;

use serde::Serialize;

use super::Example;

/// One function, method or property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionDoc {
    /// Its bare name: `start`, `probe`, `used`, `==`.
    pub name: String,
    /// How it is called.
    pub kind: FunctionKind,
    /// What precedes `::`: a namespace of the host, or a standard module's path (`std/search`); none when global.
    pub module: Option<String>,
    /// The type that a method or property belongs to.
    pub on: Option<String>,
    /// Its parameters, without the value that a method is called on.
    pub params: Vec<Param>,
    /// The type of its value; none where nothing is returned, or where a script does not say.
    pub returns: Option<String>,
    /// Whether a property can be assigned.
    pub settable: bool,
    /// The first sentence of its comment; empty when it has none.
    pub summary: String,
    /// The rest of its comment, Markdown with the examples.
    pub docs: String,
    /// The `rhai` blocks of its comment.
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
    /// An operator, or how a value is printed: nobody calls it by name.
    Operator,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type in script words; none where a script does not say.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

impl FunctionDoc {
    /// The name that a script writes to call it: `docker::start`, `search::adaptive`, `sleep`, `probe`.
    #[must_use]
    pub fn path(&self) -> String {
        match &self.module {
            Some(module) => format!("{}::{}", alias(module), self.name),
            None => self.name.clone(),
        }
    }

    /// The name in the documentation, which tells methods of different types apart: `Engine.probe`, `docker::start`.
    #[must_use]
    pub fn title(&self) -> String {
        match (&self.on, &self.module) {
            (Some(on), _) if self.kind != FunctionKind::Operator => format!("{on}.{}", self.name),
            (_, Some(module)) => format!("{module}::{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// Name, parameters and result on one line: `docker::start(options: map) -> Container`.
    #[must_use]
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

    /// The parameters as they stand between the parentheses.
    #[must_use]
    pub fn params_line(&self) -> String {
        let shown: Vec<String> = self.params.iter().map(Param::to_string).collect();
        shown.join(", ")
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

/// The name by which examples import a standard module: the last part of its path.
pub(super) fn alias(module: &str) -> &str {
    module.rsplit('/').next().unwrap_or(module)
}

#[cfg(test)]
mod tests;
