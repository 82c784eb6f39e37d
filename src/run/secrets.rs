//! The last gate before a file: texts without tokens and passwords, whoever put them there.

use std::borrow::Cow;
use std::sync::LazyLock;

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

/// The text without the secrets of the environment and without users and passwords in URLs. JSON stays JSON.
#[must_use]
pub fn hide(text: &str) -> Cow<'_, str> {
    hide_these(text, &SECRETS)
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
    fn values_of_the_environment_are_found_anywhere() {
        let secrets = ["hf_abcdefgh".to_owned()];
        assert_eq!(hide_these(r#"{"env":"A=hf_abcdefgh"}"#, &secrets), r#"{"env":"A=***"}"#);
    }
}
