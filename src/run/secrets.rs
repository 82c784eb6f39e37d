//! Removes tokens and passwords from every text before it is written or printed.

use std::borrow::Cow;
use std::sync::{LazyLock, PoisonError, RwLock};

use serde_json::{Map, Value};

/// What replaces a secret.
const HIDDEN: &str = "***";

/// Words in the names of environment variables whose values are secrets.
const SECRET_NAMES: [&str; 4] = ["TOKEN", "SECRET", "PASSWORD", "API_KEY"];

/// Shorter values could be part of ordinary text.
const MIN_LENGTH: usize = 8;

static FROM_ENVIRONMENT: LazyLock<Vec<String>> = LazyLock::new(|| {
    let secret = |(name, value): (String, String)| {
        let name = name.to_uppercase();
        (value.len() >= MIN_LENGTH && SECRET_NAMES.iter().any(|word| name.contains(word))).then_some(value)
    };
    let readable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(readable).filter_map(secret).collect()
});

/// Secrets given otherwise than by the environment.
static ADDED: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Adds values to hide from now on, except those that are too short.
pub fn add_secrets(secrets: impl IntoIterator<Item = String>) {
    let mut given = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    for secret in secrets {
        if secret.len() >= MIN_LENGTH && !given.contains(&secret) {
            given.push(secret);
        }
    }
}

/// Replaces secrets of the environment, added secrets, and user names and passwords in URLs. JSON stays valid.
#[must_use]
pub fn hide(text: &str) -> Cow<'_, str> {
    let given = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    match hide_these(text, &FROM_ENVIRONMENT) {
        Cow::Borrowed(text) => hide_these(text, &given),
        Cow::Owned(text) => Cow::Owned(hide_these(&text, &given).into_owned()),
    }
}

/// Parameters as they are stored in a run's folder.
pub(super) fn redacted_map(set: &Map<String, Value>) -> Map<String, Value> {
    let text = Value::Object(set.clone()).to_string();
    serde_json::from_str(&hide(&text)).unwrap_or_else(|_| set.clone())
}

/// Whether some parameter was a secret and is therefore missing from the run's folder.
#[must_use]
pub fn has_hidden(set: &Map<String, Value>) -> bool {
    Value::Object(set.clone()).to_string().contains(HIDDEN)
}

fn hide_these<'a>(text: &'a str, secrets: &[String]) -> Cow<'a, str> {
    let mut text = without_userinfo(text);
    for secret in secrets {
        if text.contains(secret) {
            text = Cow::Owned(text.replace(secret, HIDDEN));
        }
    }
    text
}

/// `http://user:password@host` as `http://***@host`.
fn without_userinfo(text: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("://").map(|at| at + 3) {
        let authority = rest[start..]
            .find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '\\' | '<' | '>') || c.is_whitespace())
            .map_or(&rest[start..], |end| &rest[start..start + end]);
        clean.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some(at) = authority.rfind('@') {
            clean.push_str(HIDDEN);
            rest = &rest[at..];
        }
    }
    if clean.is_empty() {
        return Cow::Borrowed(text);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_their_passwords_and_nothing_else() {
        for (text, clean) in [
            (
                r#"{"url":"http://me:p%40ss@[::1]:80/v1","x":"a@b"}"#,
                r#"{"url":"http://***@[::1]:80/v1","x":"a@b"}"#,
            ),
            (
                "see https://huggingface.co/x@main and http://a@b",
                "see https://huggingface.co/x@main and http://***@b",
            ),
            ("no url: a@b", "no url: a@b"),
        ] {
            assert_eq!(hide_these(text, &[]), clean);
        }
    }

    #[test]
    fn added_secrets_are_hidden_unless_too_short() {
        add_secrets(["given-in-a-test-of-secrets".to_owned(), "short".to_owned()]);
        assert_eq!(hide("a short given-in-a-test-of-secrets"), "a short ***");
        let set = serde_json::json!({ "env": { "A": "given-in-a-test-of-secrets" }, "n": 1 });
        let set = set.as_object().cloned().unwrap_or_default();
        assert_eq!(
            Value::Object(redacted_map(&set)),
            serde_json::json!({ "env": { "A": "***" }, "n": 1 })
        );
        assert_eq!((has_hidden(&redacted_map(&set)), has_hidden(&set)), (true, false));
    }

    #[test]
    fn secrets_are_hidden_anywhere_in_a_text() {
        let secrets = ["hf_abcdefgh".to_owned()];
        assert_eq!(hide_these(r#"{"env":"A=hf_abcdefgh"}"#, &secrets), r#"{"env":"A=***"}"#);
    }
}
