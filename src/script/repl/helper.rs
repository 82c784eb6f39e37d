//! Connects the line editor to completion, hints, highlighting and validation.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use rhai::Engine;
use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::vocabulary::Vocabulary;
use super::{Session, complete, highlight, hint, validate};

/// The line editor's helper.
pub struct LineHelper {
    validator: validate::Validator,
    lexer: Engine,
    vocabulary: Vocabulary,
    folder: PathBuf,
}

impl LineHelper {
    /// A helper with the names that `session` knows now.
    #[must_use]
    pub fn new(session: &Session) -> Self {
        Self {
            validator: validate::Validator::new(),
            lexer: Engine::new_raw(),
            vocabulary: session.vocabulary(),
            folder: session.root().to_owned(),
        }
    }

    /// Updates the known names after an input.
    pub fn refresh(&mut self, session: &Session) {
        self.vocabulary = session.vocabulary();
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Helper for LineHelper {}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete::complete(&self.vocabulary, self.folder(), &line[..pos]))
    }
}

/// The rest of a signature: displayed, never inserted.
#[derive(Debug)]
pub struct SignatureHint(String);

impl Hint for SignatureHint {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for LineHelper {
    type Hint = SignatureHint;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<SignatureHint> {
        (pos == line.len())
            .then(|| hint::hint(&self.vocabulary, line))
            .flatten()
            .map(SignatureHint)
    }
}

impl Highlighter for LineHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned(highlight::highlight(&self.lexer, line))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[2m{hint}\x1b[0m"))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        Ok(match self.validator.is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}
