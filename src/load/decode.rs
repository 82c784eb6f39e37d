//! What one event of a streamed answer says, whatever the protocol.

/// How a body is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value a line.
    Ndjson,
}

/// Token counts as the engine tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tokens of the prompt.
    pub input: Option<u64>,
    /// Tokens generated.
    pub output: Option<u64>,
}

/// What one event says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// It carries generated text or tokens.
    pub content: bool,
    /// How many tokens it carries, where it tells: an event may carry several, or none.
    pub tokens: Option<u64>,
    /// Why the generation ended, in the engine's words.
    pub finish: Option<String>,
    /// Counts so far, or at the end.
    pub counts: Counts,
    /// The engine reports an error instead of a token.
    pub error: Option<String>,
    /// Nothing comes after this: `[DONE]`, or a last event that says so.
    pub last: bool,
}

impl Piece {
    /// An event that reports an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            error: Some(message.into()),
            ..Self::default()
        }
    }
}

/// Decodes the events of one answer.
pub trait Decode: Send {
    /// How the body is cut into events.
    fn framing(&self) -> Framing;

    /// What the next event says. `name` is the `event:` field of SSE, else empty. The text that it carries is added to `text`, where given.
    fn event(&mut self, name: &str, data: &str, text: Option<&mut String>) -> Piece;
}
