//! Errors as a reader wants them: what went wrong, in which file and line, how the script got there, and what to do.
//!
//! `message` puts the interpreter's errors into our words, `place` finds excerpts, `render` draws them. Which file a position
//! belongs to is told by the wrappers around an error: a call's position is the caller's, what is inside is the callee's.

mod message;
mod parse;
mod place;
mod render;

pub(super) use place::Place;

use rhai::{Engine, EvalAltResult, Position};

use super::source::Sources;
use crate::fault::Fault;

/// A fault with its place in the scripts.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What went wrong.
    pub fault: Fault,
    /// Where, if it has a place.
    place: Option<Place>,
    /// How the script got there, innermost first: `called from …`.
    trace: Vec<String>,
}

impl Diagnostic {
    /// A fault at a place in a script.
    pub(super) fn at(fault: Fault, place: Option<Place>) -> Self {
        Self {
            fault,
            place,
            trace: Vec::new(),
        }
    }

    /// The diagnostic as rustc would show it; with colours when `colour` is set.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        render::render(self, colour)
    }

    /// `file:line:column`, if it has a place.
    #[must_use]
    pub fn location(&self) -> Option<String> {
        self.place.as_ref().map(ToString::to_string)
    }
}

impl From<Fault> for Diagnostic {
    /// A fault that has no place in a script.
    fn from(fault: Fault) -> Self {
        Self::at(fault, None)
    }
}

impl From<Fault> for Box<Diagnostic> {
    fn from(fault: Fault) -> Self {
        Box::new(fault.into())
    }
}

/// One step of the way to an error.
struct Frame {
    /// `called from`, `imported from`.
    how: &'static str,
    /// What was entered: `` `f` ``, `a closure`, `` `std/search.rhai` ``.
    what: String,
    file: String,
    at: Position,
}

/// Explains an error of an evaluation that began in the file `main`.
pub fn diagnose(engine: &Engine, sources: &Sources, main: &str, error: Box<EvalAltResult>) -> Diagnostic {
    let (mut frames, file, error) = unwrap(main, error);
    let mut at = error.position();
    let fault = message::fault(engine, sources, &file, *error);
    let mut file = file;
    // Natives give no position of their own: the call is the place.
    if at.is_none() {
        at = sources.newest_call(&file).unwrap_or_default();
    }
    if at.is_none()
        && let Some(frame) = frames.pop()
    {
        (file, at) = (frame.file, frame.at);
    }
    let mut trace = Vec::new();
    // Somebody who uses a shipped module wants to see his own line first.
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

/// Takes the wrappers off: the way (outermost first), the innermost file, the innermost error.
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
        // A native function that called back stands at the same place as what it called: one line is enough.
        let repeated = frames.last().is_some_and(|last| last.at == at && last.file == file);
        if repeated {
            frames.pop();
        }
        // A callback may have no call site of its own in a script.
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
