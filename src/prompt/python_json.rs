//! JSON as Python writes it: with `NaN` and `Infinity`, which JSON lacks, and with a byte order mark.

use std::borrow::Cow;

use serde_json::Value;

use crate::outside;

/// Words that Python writes for numbers that JSON cannot express.
const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// Parses JSON; numbers that are not finite become null.
///
/// # Errors
///
/// If it is not JSON either way.
pub(crate) fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    outside::json(bytes).or_else(|error| match finite(bytes) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(bytes) => outside::json(&bytes),
    })
}

/// The text with null for each of [`WORDS`] outside of strings.
fn finite(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut found = Vec::new();
    let (mut at, mut done, mut quoted) = (0, 0, false);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            _ => {
                if let Some(word) = WORDS.iter().find(|word| bytes[at..].starts_with(word)) {
                    found.extend_from_slice(&bytes[done..at]);
                    found.extend_from_slice(b"null");
                    at += word.len();
                    done = at;
                    continue;
                }
            }
        }
        at += 1;
    }
    if done == 0 {
        return Cow::Borrowed(bytes);
    }
    found.extend_from_slice(&bytes[done..]);
    Cow::Owned(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_are_not_finite_are_null() {
        let text = br#"{"limit": [0.0, Infinity, -Infinity], "x": NaN, "a \" NaN": "Infinity"}"#;
        let expected = json!({"limit": [0.0, null, null], "x": null, "a \" NaN": "Infinity"});
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse(b"\xef\xbb\xbf{\"a\": 1}").unwrap(), json!({"a": 1}));
        for wrong in [&b"{NaN"[..], b"{\"a\": nan}", b"", b"\"\\"] {
            assert!(parse(wrong).is_err());
        }
    }
}
