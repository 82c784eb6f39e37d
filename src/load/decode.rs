//! The interface between the transport and the engines' protocols: what one event of a streamed response contains.

/// How a body is split into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value per line.
    Ndjson,
}

/// Token counts reported by the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Prompt tokens.
    pub input: Option<u64>,
    /// Generated tokens.
    pub output: Option<u64>,
}

/// The content of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEvent {
    /// The event carries generated text or tokens.
    pub content: bool,
    /// Number of tokens it carries, if stated. An event may carry several tokens or none.
    pub tokens: Option<u64>,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// Token counts, so far or final.
    pub counts: Counts,
    /// An error reported instead of a token.
    pub error: Option<String>,
    /// Nothing follows: `[DONE]`, or a final event.
    pub last: bool,
}

impl StreamEvent {
    /// An event that reports an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            error: Some(message.into()),
            ..Self::default()
        }
    }
}

/// Decodes the events of one response.
pub trait Decode: Send {
    /// How the body is split into events.
    fn framing(&self) -> Framing;

    /// Decodes the next event. `name` is the SSE `event:` field, otherwise empty. Appends the event's text to `text`,
    /// if given.
    fn event(&mut self, name: &str, data: &str, text: Option<&mut String>) -> StreamEvent;
}
