//! The last gate before a file: texts without tokens and passwords, whoever put them there.

use std::borrow::Cow;
use std::sync::{LazyLock, PoisonError, RwLock};

use serde_json::{Map, Value};

/// What stands where a secret stood.
const HIDDEN: &str = "***";

/// Words in the names of environment variables whose values are secrets.
const WORDS: [&str; 4] = ["TOKEN", "SECRET", "PASSWORD", "API_KEY"];

/// Shorter values are too likely to be a part of something else.
const SHORTEST: usize = 8;

static SECRETS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let secret = |(name, value): (String, String)| {
        let name = name.to_uppercase();
        (value.len() >= SHORTEST && WORDS.iter().any(|word| name.contains(word))).then_some(value)
    };
    let readable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(readable).filter_map(secret).collect()
});

/// Secrets that the user gave otherwise than by the environment.
static GIVEN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// From here on, these are hidden too, but for those that are too short to be told from other words.
pub fn conceal(secrets: impl IntoIterator<Item = String>) {
    let mut given = GIVEN.write().unwrap_or_else(PoisonError::into_inner);
    for secret in secrets {
        if secret.len() >= SHORTEST && !given.contains(&secret) {
            given.push(secret);
        }
    }
}

/// The text without the secrets of the environment and of what the user set, and without users and passwords in URLs. JSON stays JSON.
#[must_use]
pub fn hide(text: &str) -> Cow<'_, str> {
    let given = GIVEN.read().unwrap_or_else(PoisonError::into_inner);
    match hide_these(text, &SECRETS) {
        Cow::Borrowed(text) => hide_these(text, &given),
        Cow::Owned(text) => Cow::Owned(hide_these(&text, &given).into_owned()),
    }
}

/// Parameters as a run's folder keeps them.
pub(super) fn kept(set: &Map<String, Value>) -> Map<String, Value> {
    let text = Value::Object(set.clone()).to_string();
    serde_json::from_str(&hide(&text)).unwrap_or_else(|_| set.clone())
}

/// Whether something of these parameters was a secret, which the folder that they were read from does not keep.
#[must_use]
pub fn lacks(set: &Map<String, Value>) -> bool {
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
    fn what_was_given_is_hidden_unless_it_is_too_short_to_know() {
        conceal(["given-in-a-test-of-secrets".to_owned(), "short".to_owned()]);
        assert_eq!(hide("a short given-in-a-test-of-secrets"), "a short ***");
        let set = serde_json::json!({ "env": { "A": "given-in-a-test-of-secrets" }, "n": 1 });
        let set = set.as_object().cloned().unwrap_or_default();
        assert_eq!(
            Value::Object(kept(&set)),
            serde_json::json!({ "env": { "A": "***" }, "n": 1 })
        );
        assert_eq!((lacks(&kept(&set)), lacks(&set)), (true, false));
    }

    #[test]
    fn values_of_the_environment_are_found_anywhere() {
        let secrets = ["hf_abcdefgh".to_owned()];
        assert_eq!(hide_these(r#"{"env":"A=hf_abcdefgh"}"#, &secrets), r#"{"env":"A=***"}"#);
    }
}
