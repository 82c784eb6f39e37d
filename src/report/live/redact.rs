//! Removes secrets from the texts of events, before they are cut, wrapped or drawn.

use std::borrow::Cow;

use crate::run::{Event, hide};

/// The event without secrets in its texts. Values are kept: text made of them is redacted when it is printed.
pub(super) fn redacted(event: &Event) -> Cow<'_, Event> {
    let mut event = Cow::Borrowed(event);
    if matches!(*event, Event::Done { .. } | Event::Engine { .. }) {
        // Large, frequent, and without text.
        return event;
    }
    let text = match event.to_mut() {
        Event::Warning { text } | Event::Print { text } | Event::Report { text, .. } | Event::Shown { text, .. } => {
            text
        }
        Event::Phase { detail, .. } => detail,
        Event::Point { cause: Some(cause), .. } => cause,
        _ => return event,
    };
    *text = hide(text).into_owned();
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_in_texts_change() {
        let detail = |detail: &str| Event::Phase {
            phase: "attached".into(),
            detail: detail.into(),
        };
        assert_eq!(
            *redacted(&detail("http://me:passphrase@host/v1")),
            detail("http://***@host/v1")
        );
        assert_eq!(*redacted(&detail("vllm")), detail("vllm"));
        let memory = Event::Memory { used: 1, total: 2 };
        assert_eq!(*redacted(&memory), memory);
    }
}
