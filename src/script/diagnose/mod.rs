//! Explains script errors: what went wrong, in which file and line, the call chain, and what to do.
//!
//! `message` and `parse` rewrite the interpreter's errors, `place` finds the excerpt, `render` formats it. The wrappers
//! around an error tell which file a position belongs to: a call's position is in the caller, the inner error in the
//! callee.

mod message;
mod parse;
mod place;
mod render;

pub(super) use place::Place;

use rhai::{Engine, EvalAltResult, Position};

use super::source::Sources;
use crate::fault::Fault;

/// A fault with its position in a script.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What went wrong.
    pub fault: Fault,
    place: Option<Place>,
    /// The call chain, innermost first: `called from …`.
    trace: Vec<String>,
}

impl Diagnostic {
    pub(super) fn at(fault: Fault, place: Option<Place>) -> Self {
        Self {
            fault,
            place,
            trace: Vec::new(),
        }
    }

    /// Formats the diagnostic like rustc, with colours if `colour` is set.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        render::render(self, colour)
    }

    /// `file:line:column`, if the position is known.
    #[must_use]
    pub fn location(&self) -> Option<String> {
        self.place.as_ref().map(ToString::to_string)
    }
}

impl From<Fault> for Diagnostic {
    /// A fault without a position.
    fn from(fault: Fault) -> Self {
        Self::at(fault, None)
    }
}

impl From<Fault> for Box<Diagnostic> {
    fn from(fault: Fault) -> Self {
        Box::new(fault.into())
    }
}

/// One step of the call chain.
struct Frame {
    /// `called from`, `imported from`.
    how: &'static str,
    /// What was entered: `` `f` ``, `a closure`, `` `std/search.rhai` ``.
    what: String,
    file: String,
    at: Position,
}

/// Explains an error of an evaluation that started in the file `main`.
pub fn diagnose(engine: &Engine, sources: &Sources, main: &str, error: Box<EvalAltResult>) -> Diagnostic {
    let (mut frames, file, error) = unwrap(main, error);
    let mut at = error.position();
    let fault = message::fault(engine, sources, &file, *error);
    let mut file = file;
    // Native functions report no position: use the position of the call.
    if at.is_none() {
        at = sources.newest_call(&file).unwrap_or_default();
    }
    if at.is_none()
        && let Some(frame) = frames.pop()
    {
        (file, at) = (frame.file, frame.at);
    }
    let mut trace = Vec::new();
    // For an error in a shipped module, show the user's own line first.
    if file.starts_with("std/")
        && let Some(own) = frames.iter().rposition(|frame| !frame.file.starts_with("std/"))
    {
        trace.push(format!("raised at {}", Location(&file, at)));
        let inner = frames.split_off(own + 1);
        trace.extend(inner.iter().rev().map(ToString::to_string));
        if let Some(frame) = frames.pop() {
            trace.push(format!("inside {}", frame.what));
            (file, at) = (frame.file, frame.at);
        }
    }
    trace.extend(frames.iter().rev().map(ToString::to_string));
    Diagnostic {
        place: Place::find(sources, &file, at),
        fault,
        trace,
    }
}

/// Unwraps an error: the call chain (outermost first), the innermost file, the innermost error.
fn unwrap(main: &str, error: Box<EvalAltResult>) -> (Vec<Frame>, String, Box<EvalAltResult>) {
    let mut frames: Vec<Frame> = Vec::new();
    let mut file = main.to_owned();
    let mut error = error;
    loop {
        let (how, what, inner_file, inner, at) = match *error {
            EvalAltResult::ErrorInFunctionCall(name, source, inner, at) => {
                let inner_file = if source.is_empty() { file.clone() } else { source };
                let what = if name.starts_with("anon$") {
                    "a closure".to_owned()
                } else {
                    format!("`{name}`")
                };
                ("called from", what, inner_file, inner, at)
            }
            EvalAltResult::ErrorInModule(key, inner, at) => ("imported from", format!("`{key}`"), key, inner, at),
            _ => return (frames, file, error),
        };
        // A native function that calls back has the same position as the callback: one line is enough.
        let repeated = frames.last().is_some_and(|last| last.at == at && last.file == file);
        if repeated {
            frames.pop();
        }
        // A callback may have no call site in a script.
        if !at.is_none() {
            frames.push(Frame { how, what, file, at });
        }
        (file, error) = (inner_file, inner);
    }
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.what, self.how, Location(&self.file, self.at))
    }
}

/// `file:line:column`.
struct Location<'a>(&'a str, Position);

impl std::fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)?;
        if let Some(line) = self.1.line() {
            write!(f, ":{line}:{}", self.1.position().unwrap_or(1))?;
        }
        Ok(())
    }
}
