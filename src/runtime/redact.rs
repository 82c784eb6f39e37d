//! Removes secrets from what is shown, logged and stored.

use std::collections::BTreeMap;

use serde_json::Value;
use url::Url;

use crate::run::{HIDDEN, is_secret_name};

/// A URL without user name, password and query, since any of them may be a secret.
pub fn url(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    if !shown.username().is_empty() || shown.password().is_some() {
        // Fails only for URLs without a host, which have no user either.
        let _ = shown.set_password(None);
        let _ = shown.set_username(HIDDEN);
    }
    shown.into()
}

/// The value of an environment variable, hidden if its name is that of a secret.
pub fn env<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret_name(name) { HIDDEN } else { value }
}

/// Environment variables as [`env()`] shows them.
pub(super) fn variables<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<&'a str, &'a str> {
    all.into_iter().map(|(name, value)| (name, env(name, value))).collect()
}

/// A command line with the values of secret options hidden: `--api-key ***`.
pub fn command_line(words: &[String]) -> Vec<String> {
    let mut shown = words.to_vec();
    for (at, start) in secret_words(words.iter().map(String::as_str)) {
        shown[at].replace_range(start.., HIDDEN);
    }
    shown
}

/// The values of secret options in a command line: the number of the word, and where in it the value begins.
fn secret_words<'a>(words: impl Iterator<Item = &'a str>) -> Vec<(usize, usize)> {
    let (mut found, mut is_value) = (Vec::new(), false);
    for (at, word) in words.enumerate() {
        let is_option = word.starts_with('-');
        let (option, value) = word
            .split_once('=')
            .map_or((word, None), |(option, _)| (option, Some(option.len() + 1)));
        let is_secret = is_option && is_secret_name(option);
        match value {
            Some(start) if is_secret => found.push((at, start)),
            _ if is_value && !is_option => found.push((at, 0)),
            _ => {}
        }
        is_value = is_secret && value.is_none();
    }
    found
}

/// The secrets in user-set values, found by name: `env.HF_TOKEN`, `--api-key` in an engine's arguments.
pub fn secrets(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let of_member = |(name, value): (&String, &Value)| match value {
                // A member named just `key` is a lookup or sort key.
                Value::String(text) if is_secret_name(name) && !name.eq_ignore_ascii_case("key") => vec![text.clone()],
                value => secrets(value),
            };
            members.iter().flat_map(of_member).collect()
        }
        Value::Array(values) => {
            let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            let found = secret_words(words.iter().copied());
            let found = found.into_iter().map(|(at, start)| words[at][start..].to_owned());
            found.chain(values.iter().flat_map(secrets)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_user_password_and_query() {
        let shown = url(&Url::parse("http://me:hunter2@localhost:80/v1?key=abc#x").unwrap());
        assert_eq!(shown, "http://***@localhost/v1");
        assert_eq!(
            url(&Url::parse("http://localhost:81/").unwrap()),
            "http://localhost:81/"
        );
    }

    #[test]
    fn secrets_are_found_in_user_values() {
        let set = serde_json::json!({
            "env": { "HF_TOKEN": "one", "HF_HUB_OFFLINE": "1" }, "engine_args": ["--api-key", "two", "--token=three", "--port=80"],
            "engines": [{ "env": { "OPENAI_API_KEY": "four" } }], "tokenizer": "gpt2", "sort": { "key": "model" },
        });
        let mut found = secrets(&set);
        found.sort();
        assert_eq!(found, ["four", "one", "three", "two"]);
    }

    #[test]
    fn secrets_are_recognized_by_name() {
        assert_eq!(env("HF_TOKEN", "hf_x"), HIDDEN);
        assert_eq!(env("OPENAI_API_KEY", "sk"), HIDDEN);
        assert_eq!(env("HF_HUB_OFFLINE", "1"), "1");
        assert_eq!(env("MAX_TOTAL_TOKENS", "4096"), "4096");
        let line = ["serve", "--api-key", "sk", "--token=hf", "--max-tokens", "5"].map(str::to_owned);
        assert_eq!(
            command_line(&line),
            ["serve", "--api-key", HIDDEN, "--token=***", "--max-tokens", "5"]
        );
    }
}
