//! Formats a diagnostic with `annotate-snippets`.

use annotate_snippets::renderer::DEFAULT_TERM_WIDTH;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::Diagnostic;

pub(super) fn render(diagnostic: &Diagnostic, colour: bool) -> String {
    let mut group = Level::ERROR
        .primary_title(&*diagnostic.fault.message)
        .elements(diagnostic.place.iter().map(|place| {
            Snippet::source(&*place.source.text)
                .path(&*place.source.key)
                .annotation(AnnotationKind::Primary.span(place.span()))
        }));
    for step in &diagnostic.trace {
        group = group.element(Level::NOTE.message(step));
    }
    if let Some(hint) = &diagnostic.fault.hint {
        group = group.element(Level::HELP.message(hint));
    }
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    renderer.term_width(DEFAULT_TERM_WIDTH).render(&[group])
}
