//! Events as they may be seen: their texts without secrets, before anything of them is cut, folded or drawn.

use std::borrow::Cow;

use crate::run::{Event, hide};

/// The event without the secrets that its texts hold. Values stay as they are: what is made of them is hidden when it is printed.
pub(super) fn seen(event: &Event) -> Cow<'_, Event> {
    let mut event = Cow::Borrowed(event);
    if matches!(*event, Event::Done { .. } | Event::Engine { .. }) {
        // Large, often, and without a text of its own.
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
    fn texts_lose_what_is_secret_and_nothing_else_changes() {
        let detail = |detail: &str| Event::Phase {
            phase: "attached".into(),
            detail: detail.into(),
        };
        assert_eq!(
            *seen(&detail("http://me:passphrase@host/v1")),
            detail("http://***@host/v1")
        );
        assert_eq!(*seen(&detail("vllm")), detail("vllm"));
        let memory = Event::Memory { used: 1, total: 2 };
        assert_eq!(*seen(&memory), memory);
    }
}
