//! Repairs JSON written by Python, which contains `NaN`, `Infinity` and `-Infinity`.

use std::borrow::Cow;

const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// Replaces those words by `null`, except within strings.
pub(super) fn repair(text: &str) -> Cow<'_, str> {
    if !text.contains("NaN") && !text.contains("Infinity") {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let (mut rest, mut changed) = (text, false);
    while let Some(at) = rest.find(['"', 'N', 'I', '-']) {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('"') {
            let end = quoted(rest);
            clean.push_str(&rest[..end]);
            rest = &rest[end..];
        } else if let Some(word) = WORDS.iter().find(|word| rest.starts_with(**word)) {
            clean.push_str("null");
            rest = &rest[word.len()..];
            changed = true;
        } else {
            clean.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    if !changed {
        return Cow::Borrowed(text);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// Length of the string literal at the start of the text; everything if it is unterminated.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_between_texts_are_replaced() {
        let text = r#"{"NaN": NaN, "a": [-Infinity, -1, Infinity], "b": "\"NaN"}"#;
        assert_eq!(repair(text), r#"{"NaN": null, "a": [null, -1, null], "b": "\"NaN"}"#);
        assert!(matches!(repair(r#"{"a": "NaN"}"#), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn any_text_can_be_looked_at(text in "([-NI\"\\\\]|NaN|Infinity|é|[a-z]){0,40}") {
            let _ = repair(&text);
        }
    }
}
